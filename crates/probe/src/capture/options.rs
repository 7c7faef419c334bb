//! What is to be captured, and how.

use crate::control::{Sampler, Watermark};
use crate::error::ProbeError;
use crate::facts::HostFacts;
use crate::netns::NetnsTarget;
use crate::record::MAG_MAX_NETNS;
use crate::setting::Detail;
use magscope_core::custom::CustomProbe;
use magscope_core::hop::HopSet;
use magscope_core::node::{Ability, Backend};
use magscope_core::{CaptureFilter, Hop};

/// Room for sums that is enough for most hosts: 3 MB.
pub const SUMS: u32 = 16_384;

/// What to capture and how.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// Hops that are wanted; those the host cannot serve are in the coverage as missing.
    pub hops: HopSet,
    /// Network namespaces to attach in. Events of all others are left out, unless `every_netns`.
    pub netns: Vec<NetnsTarget>,
    /// Keep events of every namespace, also of those that come into being later (whose netfilter hops are then
    /// missing).
    pub every_netns: bool,
    /// Size of one CPU's ring, bytes; rounded up to a power of two of at least a page.
    pub ring_bytes_per_cpu: usize,
    /// Only this kind of probe; hops that it cannot serve are then missing. For comparing kinds.
    pub backend: Option<Backend>,
    /// When the reader comes. Wake-ups cost the traffic: 20 ms or more, and none by events.
    pub watermark: Watermark,
    /// What is left out from the beginning. Names in it are looked up on this host.
    pub filter: Option<CaptureFilter>,
    /// A filter expression of libpcap, which has to hold as well.
    pub pcap: Option<String>,
    /// Bytes of payload to keep at hops: none unless asked for.
    pub snap: Vec<(Hop, u32)>,
    /// Samplers of hops.
    pub samplers: Vec<(Hop, Sampler)>,
    /// Keep one in so many flows; 0 and 1 keep all.
    pub flow_one_in: u32,
    /// Stamp events with the TSC itself, where this host's can be read; else with `CLOCK_MONOTONIC`, see
    /// [`Capture::clock_fallback`](super::Capture::clock_fallback).
    pub tsc: bool,
    /// What becomes of hits at first.
    pub detail: Detail,
    /// Room for what the kernel adds up under [`Detail::Histograms`]: so many flows, cgroups and reasons for drops in a second. 0
    /// allocates nothing, and there are no histograms then. What finds no room is added up as the rest.
    pub sums: u32,
    /// Hops to load along, so that they can be attached later without privileges. Loaded alone they cost nothing.
    pub switchable: HopSet,
    /// Probes that a person named.
    pub probes: Vec<CustomProbe>,
}

impl Default for CaptureOptions {
    fn default() -> Self {
        CaptureOptions {
            hops: crate::plan::default_hops(),
            netns: Vec::new(),
            every_netns: false,
            ring_bytes_per_cpu: 8 << 20,
            backend: None,
            watermark: Watermark::SCREEN,
            filter: None,
            pcap: None,
            snap: Vec::new(),
            samplers: Vec::new(),
            flow_one_in: 1,
            tsc: false,
            detail: Detail::Full,
            sums: 0,
            switchable: HopSet::EMPTY,
            probes: Vec::new(),
        }
    }
}

/// Fails where something is asked for that this kernel does not give: never a capture of more than was asked for.
pub(crate) fn allowed(facts: &HostFacts, options: &CaptureOptions) -> Result<(), ProbeError> {
    let asked = [
        (Ability::Payload, options.snap.iter().any(|(_, bytes)| *bytes > 0)),
        (Ability::Filter, options.filter.is_some()),
        (Ability::Pcap, options.pcap.is_some()),
        (
            Ability::Sampling,
            options.flow_one_in > 1 || options.samplers.iter().any(|(_, sampler)| sampler.samples()),
        ),
        (Ability::Sums, options.detail.adds_up()),
        (Ability::CustomProbes, !options.probes.is_empty()),
    ];
    for (ability, _) in asked.into_iter().filter(|(_, asked)| *asked) {
        need(facts, ability)?;
    }
    Ok(())
}

/// Fails where an ability is left out.
pub(crate) fn need(facts: &HostFacts, ability: Ability) -> Result<(), ProbeError> {
    let because = facts.left_out.get(&ability).cloned();
    because.map_or(Ok(()), |because| Err(ProbeError::Ability { ability, because }))
}

/// Where nothing is said it is the own namespace; and not more than fit.
pub(super) fn complete(options: &mut CaptureOptions) -> Result<(), ProbeError> {
    if options.netns.is_empty() {
        options.netns.push(NetnsTarget::current()?);
    }
    if !options.every_netns && options.netns.len() > MAG_MAX_NETNS as usize {
        return Err(ProbeError::TooManyNamespaces { asked: options.netns.len(), most: MAG_MAX_NETNS as usize });
    }
    Ok(())
}

//! Options of a capture.

use crate::control::{Sampler, Watermark};
use crate::error::ProbeError;
use crate::facts::HostFacts;
use crate::netns::NetnsTarget;
use crate::record::MAG_MAX_NETNS;
use crate::setting::Detail;
use crate::workload::GiveUp;
use magscope_core::custom::CustomProbe;
use magscope_core::hop::HopSet;
use magscope_core::node::{Ability, Backend};
use magscope_core::{CaptureFilter, Hop};

/// Room for sums that is enough for most hosts: 3 MB.
pub const SUMS: u32 = 16_384;

/// Where the programs write their records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RingKind {
    /// In memory that this process maps ([`crate::ring`]). A kernel without `bpf_loop` (Linux 5.17), or one that
    /// refuses maps of this size, has [`RingKind::Kernel`].
    #[default]
    Mapped,
    /// In ring buffers of the kernel, which cost a hit more.
    Kernel,
}

impl RingKind {
    /// Both kinds.
    pub const ALL: [RingKind; 2] = [Self::Mapped, Self::Kernel];

    /// Name of the kind.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Mapped => "mapped",
            Self::Kernel => "kernel",
        }
    }
}

/// Options of a capture.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// Requested hops; the coverage lists hops that the host cannot serve as missing.
    pub hops: HopSet,
    /// Network namespaces to attach in. Events of all others are left out, unless `every_netns`.
    pub netns: Vec<NetnsTarget>,
    /// Accept events of every namespace, including later ones (whose netfilter hops are then missing).
    pub every_netns: bool,
    /// Size of one CPU's ring, bytes; rounded up to a power of two of at least a page.
    pub ring_bytes_per_cpu: usize,
    /// The kind of rings.
    pub ring: RingKind,
    /// Restrict probes to this kind; other hops are then missing. For comparison of kinds.
    pub backend: Option<Backend>,
    /// Wake-up policy of the reader. Wake-ups slow the traffic: use 20 ms or more, and no event watermark.
    pub watermark: Watermark,
    /// Initial capture filter. The host resolves its names.
    pub filter: Option<CaptureFilter>,
    /// A libpcap filter expression, combined with the filter by `and`.
    pub pcap: Option<String>,
    /// Payload bytes to capture per hop; empty for none.
    pub snap: Vec<(Hop, u32)>,
    /// Samplers of hops.
    pub samplers: Vec<(Hop, Sampler)>,
    /// Keep one in `flow_one_in` flows; 0 and 1 keep all.
    pub flow_one_in: u32,
    /// Use the TSC for time stamps if this host allows it, otherwise `CLOCK_MONOTONIC`; see
    /// [`Capture::clock_fallback`](super::Capture::clock_fallback).
    pub tsc: bool,
    /// Initial level of detail.
    pub detail: Detail,
    /// Capacity for sums under [`Detail::Histograms`]: flows, cgroups and drop reasons per second. 0 allocates
    /// nothing and disables histograms. Overflow is summed under one remainder.
    pub sums: u32,
    /// Additional hops to load, so that they can be attached later without privileges. A loaded, unattached
    /// program costs nothing.
    pub switchable: HopSet,
    /// Custom probes.
    pub probes: Vec<CustomProbe>,
    /// Names of containers, pods and units, read by a thread that gives up its privileges with this first; `None` for
    /// no such names.
    pub names: Option<GiveUp>,
}

impl Default for CaptureOptions {
    fn default() -> Self {
        CaptureOptions {
            hops: crate::plan::default_hops(),
            netns: Vec::new(),
            every_netns: false,
            ring_bytes_per_cpu: 8 << 20,
            ring: RingKind::default(),
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
            names: None,
        }
    }
}

/// Checks that the kernel supports every requested option; a capture never exceeds its request.
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

/// Fails if the ability is missing.
pub(crate) fn need(facts: &HostFacts, ability: Ability) -> Result<(), ProbeError> {
    let because = facts.left_out.get(&ability).cloned();
    because.map_or(Ok(()), |because| Err(ProbeError::Ability { ability, because }))
}

/// Uses the current namespace if none is given, and checks the maximum number.
pub(super) fn complete(options: &mut CaptureOptions) -> Result<(), ProbeError> {
    if options.netns.is_empty() {
        options.netns.push(NetnsTarget::current()?);
    }
    if !options.every_netns && options.netns.len() > MAG_MAX_NETNS as usize {
        return Err(ProbeError::TooManyNamespaces { asked: options.netns.len(), most: MAG_MAX_NETNS as usize });
    }
    Ok(())
}

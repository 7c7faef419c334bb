//! Loads the programs of a plan and sets their constants.

use crate::addresses;
use crate::candidates::CANDIDATES;
use crate::embedded;
use crate::error::ProbeError;
use crate::facts::HostFacts;
use crate::messages;
use crate::plan::Plan;
use crate::record::{
    mag_ability_MAG_CAN_DROP_REASON, mag_ability_MAG_CAN_EPOLL, mag_ability_MAG_CAN_FILTER,
    mag_ability_MAG_CAN_PAGES, mag_ability_MAG_CAN_PAYLOAD, mag_ability_MAG_CAN_PCAP,
    mag_ability_MAG_CAN_SAMPLE, mag_ability_MAG_CAN_SUM, mag_config,
};
use crate::tsc::Tsc;
use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder, OpenObject, ProgramAttachType};
use magscope_core::histogram::{BOUNDS_NS, bounds_below, shortest};
use magscope_core::node::{Ability, Backend};
use std::os::fd::AsRawFd;

use super::mapped::MappedRings;
use super::{CaptureOptions, cause, synthesis};

/// Capacity of the map of each packet's and socket's last hop. A packet is in flight for microseconds.
const PASSINGS: u32 = 16_384;

/// Programs that run once at the start, and the abilities that need their result. Hops use the addresses
/// of functions too, so that program is loaded without the ability as well.
pub(super) const AT_THE_START: [(Ability, &str); 2] =
    [(Ability::PayloadPages, "find_pages"), (Ability::EpollWakeUps, addresses::FINDER)];

/// Abilities that are switched at load time.
const SWITCHED: [(Ability, u32); 8] = [
    (Ability::Payload, mag_ability_MAG_CAN_PAYLOAD),
    (Ability::PayloadPages, mag_ability_MAG_CAN_PAGES),
    (Ability::Filter, mag_ability_MAG_CAN_FILTER),
    (Ability::Pcap, mag_ability_MAG_CAN_PCAP),
    (Ability::Sampling, mag_ability_MAG_CAN_SAMPLE),
    (Ability::Sums, mag_ability_MAG_CAN_SUM),
    (Ability::DropReasons, mag_ability_MAG_CAN_DROP_REASON),
    (Ability::EpollWakeUps, mag_ability_MAG_CAN_EPOLL),
];

/// Opens the TSC if requested and marks the attach points that cannot read it as refused; or returns the reason
/// for its absence.
pub(super) fn opened(facts: &mut HostFacts, wanted: bool) -> (Option<Tsc>, Option<String>) {
    if !wanted {
        return (None, None);
    }
    let opened = facts.tsc_obstacle.clone().map_or_else(|| Tsc::open(facts.cpus), Err);
    match opened {
        Ok(tsc) => {
            facts.refused.extend(without_tsc());
            (Some(tsc), None)
        }
        Err(because) => (None, Some(because)),
    }
}

pub(super) fn load(
    facts: &HostFacts,
    plan: &Plan,
    options: &CaptureOptions,
    tsc: Option<&Tsc>,
    rings: Option<&MappedRings>,
) -> Result<Object, ProbeError> {
    messages::keep();
    let refused = |e: libbpf_rs::Error| {
        let messages = messages::all();
        ProbeError::Load {
            cause: format!("{e:#}"),
            log: messages::tail(&messages),
            program: cause::program(&messages).map(str::to_owned),
            because: cause::words(&messages),
        }
    };
    let object = match (facts.loops, facts.typed_casts) {
        (false, _) => &embedded::NO_LOOP,
        (true, true) => &embedded::TYPED_CASTS,
        (true, false) => &embedded::PROBE_READS,
    };
    let mut builder = ObjectBuilder::default();
    if let Some(btf) = &facts.custom_btf {
        builder.btf_custom_path(btf).map_err(refused)?;
    }
    let mut open: OpenObject = builder.open_memory(object.decompress().bytes()).map_err(refused)?;
    let programs = plan.programs();
    for mut program in open.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        let candidate = programs.iter().find(|candidate| candidate.program == name);
        let has_use = |(ability, finder): &(Ability, &str)| {
            *finder == name && (*finder == addresses::FINDER || !facts.left_out.contains_key(ability))
        };
        let finds = AT_THE_START.iter().any(has_use) && !facts.unloadable.contains_key(&name);
        program.set_autoload(candidate.is_some() || finds);
        match candidate {
            Some(candidate) if matches!(candidate.backend, Backend::Fentry | Backend::Fexit) => {
                program.set_attach_target(0, Some(candidate.point.to_owned())).map_err(refused)?;
            }
            // the same program as for single breakpoints
            Some(candidate) if candidate.backend == Backend::KprobeMulti => {
                program.set_attach_type(ProgramAttachType::KprobeMulti);
            }
            _ => {}
        }
    }
    let config = config(facts, plan, options, tsc, rings);
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if ["rings", "tsc_counters", "tsc_bases"].contains(&name.as_str()) {
            map.set_max_entries(facts.cpus).map_err(refused)?;
        } else if let Some(most) = map_capacity(&name, plan, options) {
            map.set_max_entries(most).map_err(refused)?;
        } else if name.ends_with(".rodata.config") || name == ".rodata.config" {
            write_config(&mut map, &config)?;
        } else if let Some(rings) = rings {
            rings.join(&mut map).map_err(refused)?;
        }
    }
    let object = open.load().map_err(refused)?;
    if let Some(tsc) = tsc {
        set_tsc_origins(&object, tsc)?;
    }
    Ok(object)
}

/// Capacity of a map of sums; the map's default if no sums are made.
fn map_capacity(map: &str, plan: &Plan, options: &CaptureOptions) -> Option<u32> {
    let entries = match map {
        "pairs" => synthesis::pairs(synthesis::ranked(plan.served()).len()) as u32,
        "passings" => PASSINGS,
        "rates_0" | "rates_1" => options.sums,
        _ => return None,
    };
    Some(if options.sums == 0 { 1 } else { entries.max(1) })
}

pub(super) fn config(
    facts: &HostFacts,
    plan: &Plan,
    options: &CaptureOptions,
    tsc: Option<&Tsc>,
    rings: Option<&MappedRings>,
) -> mag_config {
    let jiffy_us = facts.hz.map_or(0, |hz| 1_000_000 / hz);
    let mut config = mag_config { hops: plan.served().0, jiffy_us, ..mag_config::default() };
    let missing = SWITCHED.iter().filter(|(ability, _)| facts.left_out.contains_key(ability));
    config.without = missing.map(|(_, bit)| bit).sum();
    config.bounds_ns.fill(i64::MAX as u64);
    config.bounds_ns[..BOUNDS_NS.len()].copy_from_slice(&BOUNDS_NS);
    for (step, below) in config.bounds_below.iter_mut().enumerate() {
        *below = bounds_below(shortest(step)) as u8;
    }
    if options.sums > 0 {
        for (rank, hop) in (1..).zip(synthesis::ranked(plan.served())) {
            config.rank[usize::from(hop.id())] = rank;
        }
    }
    if let Some(Tsc { rate, .. }) = tsc {
        (config.tsc_mult, config.tsc_shift, config.tsc_origin_ns) = (rate.mult, rate.shift, rate.origin_ns);
    }
    if let Some(rings) = rings {
        rings.configure(&mut config);
    }
    if !options.every_netns {
        config.netns_count = options.netns.len() as u32;
        for (slot, target) in config.netns.iter_mut().zip(&options.netns) {
            *slot = target.inode;
        }
    }
    config
}

/// The bytes that the kernel side reads.
pub(crate) fn bytes_of_config(config: &mag_config) -> &[u8] {
    // SAFETY: mag_config is plain integers without padding.
    #[allow(unsafe_code)]
    unsafe {
        std::slice::from_raw_parts(std::ptr::from_ref(config).cast::<u8>(), size_of::<mag_config>())
    }
}

/// Passes each CPU's counter to the programs, with the cycle count at which the counter was 0.
fn set_tsc_origins(object: &Object, tsc: &Tsc) -> Result<(), ProbeError> {
    for (cpu, counter) in (0_u32..).zip(&tsc.counters) {
        let Some((counter, base)) = counter else { continue };
        let counter = counter.as_raw_fd().to_ne_bytes();
        for (name, value) in [("tsc_counters", &counter[..]), ("tsc_bases", &base.to_ne_bytes()[..])] {
            let failed = |cause: String| ProbeError::Map { operation: "write", map: name, cause };
            let map = object.maps().find(|m| m.name() == name);
            let map = map.ok_or_else(|| failed("not in the object".to_owned()))?;
            map.update(&cpu.to_ne_bytes(), value, MapFlags::ANY).map_err(|e| failed(format!("{e:#}")))?;
        }
    }
    Ok(())
}

/// Attach points whose programs cannot read a perf event.
pub(super) fn without_tsc() -> impl Iterator<Item = ((Backend, String), String)> {
    let candidates = CANDIDATES.iter().flat_map(|candidates| candidates.iter());
    let blind =
        candidates.filter(|candidate| matches!(candidate.backend, Backend::Netfilter | Backend::CgroupSkb));
    blind.map(|candidate| {
        ((candidate.backend, candidate.point.to_owned()), "programs there cannot read the TSC".to_owned())
    })
}

fn write_config(map: &mut libbpf_rs::OpenMapMut<'_>, config: &mag_config) -> Result<(), ProbeError> {
    let failed = |cause: &str| ProbeError::Map { operation: "write", map: "config", cause: cause.to_owned() };
    let value = map.initial_value_mut().ok_or_else(|| failed("it has no initial value"))?;
    let bytes = bytes_of_config(config);
    value.get_mut(..bytes.len()).ok_or_else(|| failed("it is too small"))?.copy_from_slice(bytes);
    Ok(())
}

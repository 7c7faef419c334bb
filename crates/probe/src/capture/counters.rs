//! Counters of the kernel side.

use crate::error::ProbeError;
use crate::governor::CpuHits;
use crate::record::{mag_cpu, mag_slot_MAG_CUSTOM, mag_slot_MAG_HEADS, mag_slot_MAG_HOPS};
use libbpf_rs::{MapCore, MapFlags, Object};
use magscope_core::hop::HopSet;
use magscope_core::{Hop, HopCount};
use std::collections::BTreeMap;
use std::mem::offset_of;

/// Counters of the kernel side, summed over all CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Events that should have become records.
    pub hits: u64,
    /// Outcome counters by hop; hops without hits are absent.
    pub hops: Vec<HopCount>,
    /// Records lost for lack of ring space, by hop.
    pub lost_by_hop: BTreeMap<Hop, u64>,
    /// Outcome counters by CPU.
    pub cpus: Vec<CpuHits>,
    /// Payload heads that should have become records, and the number of those that were lost.
    pub heads: (u64, u64),
    /// Outcome counters by custom probe, in probe order.
    pub probes: Vec<ProbeCount>,
    /// Lost records that no loss record has reported yet.
    pub unreported: u64,
    /// Probe runs that the kernel refused because the same probe was already running on that CPU. Each run may
    /// have been a hit. Updated with every batch.
    pub refused: u64,
}

/// Outcome counters of a custom probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeCount {
    /// Became records, or should have.
    pub kept: u64,
    /// Left out by the filter.
    pub filtered: u64,
    /// Rejected because the filter tests a field that this event does not have.
    pub undecided: u64,
    /// Left out by a sampler.
    pub sampled: u64,
    /// Accepted hits that were lost for lack of ring space.
    pub lost: u64,
}

impl Counters {
    /// Events lost for lack of ring space.
    pub fn lost(&self) -> u64 {
        self.lost_by_hop.values().sum::<u64>()
            + self.probes.iter().map(|probe| probe.lost).sum::<u64>()
            + self.heads.1
    }
}

/// Counters of one CPU, in the layout of `struct mag_cpu`.
struct CpuCounters<'a>(&'a [u8]);

impl CpuCounters<'_> {
    /// The 64-bit word at `offset` bytes plus `on` words.
    fn word(&self, offset: usize, on: usize) -> u64 {
        let at = offset + on * 8;
        self.0.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
    }

    fn hop(&self, hop: Hop, time_ns: u64) -> HopCount {
        let of = |offset| self.word(offset, usize::from(hop.id()));
        HopCount {
            time_ns,
            hop,
            kept: of(offset_of!(mag_cpu, recorded)),
            filtered: of(offset_of!(mag_cpu, filtered)),
            undecided: of(offset_of!(mag_cpu, undecided)),
            sampled: of(offset_of!(mag_cpu, sampled)),
            synthesised: of(offset_of!(mag_cpu, synthesised)),
        }
    }

    /// Hits over all hops, including custom probes; and the hits at `at`.
    fn hits(&self, at: HopSet) -> CpuHits {
        let all = |offset| (0..mag_slot_MAG_HOPS as usize).map(|hop| self.word(offset, hop)).sum::<u64>();
        CpuHits {
            outermost: at.iter().map(|hop| self.hop(hop, 0).seen()).sum(),
            accepted: all(offset_of!(mag_cpu, recorded)) + all(offset_of!(mag_cpu, synthesised)),
            sampled: all(offset_of!(mag_cpu, sampled)),
            filtered: all(offset_of!(mag_cpu, filtered)) + all(offset_of!(mag_cpu, undecided)),
        }
    }

    fn probe(&self, number: usize) -> ProbeCount {
        let of = |offset| self.word(offset, mag_slot_MAG_CUSTOM as usize + number);
        ProbeCount {
            kept: of(offset_of!(mag_cpu, recorded)),
            filtered: of(offset_of!(mag_cpu, filtered)),
            undecided: of(offset_of!(mag_cpu, undecided)),
            sampled: of(offset_of!(mag_cpu, sampled)),
            lost: of(offset_of!(mag_cpu, lost_by_hop)),
        }
    }
}

impl Counters {
    /// Sums the counter map over all CPUs, for the given number of custom probes, as of `time_ns`.
    /// [`CpuHits::outermost`] counts the hops in `outermost`.
    pub(super) fn read(
        object: &Object,
        probes: usize,
        outermost: HopSet,
        time_ns: u64,
    ) -> Result<Self, ProbeError> {
        let failed = |cause: String| ProbeError::Map { operation: "read", map: "cpus", cause };
        let map = object.maps().find(|m| m.name() == "cpus");
        let map = map.ok_or_else(|| failed("not in the object".to_owned()))?;
        let values = map.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY);
        let values = values
            .map_err(|e| failed(format!("{e:#}")))?
            .ok_or_else(|| failed("the kernel has no value of it".to_owned()))?;
        let mut counters = Counters { probes: vec![ProbeCount::default(); probes], ..Counters::default() };
        for cpu in values.iter().map(|bytes| CpuCounters(bytes)) {
            counters.cpus.push(cpu.hits(outermost));
            counters.add(&cpu, time_ns);
        }
        Ok(counters)
    }

    fn add(&mut self, cpu: &CpuCounters<'_>, time_ns: u64) {
        // Every number that a program takes is of one recorded hit.
        self.hits += (0..mag_slot_MAG_HOPS as usize)
            .map(|hop| cpu.word(offset_of!(mag_cpu, recorded), hop))
            .sum::<u64>();
        let reported = cpu.word(offset_of!(mag_cpu, lost_reported), 0);
        self.unreported += cpu.word(offset_of!(mag_cpu, lost), 0).saturating_sub(reported);
        self.heads.0 += cpu.word(offset_of!(mag_cpu, recorded), mag_slot_MAG_HEADS as usize);
        self.heads.1 += cpu.word(offset_of!(mag_cpu, lost_by_hop), mag_slot_MAG_HEADS as usize);
        for (number, probe) in self.probes.iter_mut().enumerate() {
            let of = cpu.probe(number);
            probe.kept += of.kept;
            probe.filtered += of.filtered;
            probe.undecided += of.undecided;
            probe.sampled += of.sampled;
            probe.lost += of.lost;
        }
        for hop in Hop::ALL {
            let lost = cpu.word(offset_of!(mag_cpu, lost_by_hop), usize::from(hop.id()));
            if lost > 0 {
                *self.lost_by_hop.entry(*hop).or_default() += lost;
            }
            let count = cpu.hop(*hop, time_ns);
            if count.seen() == 0 {
                continue;
            }
            match self.hops.iter_mut().find(|total| total.hop == *hop) {
                Some(total) => {
                    total.kept += count.kept;
                    total.filtered += count.filtered;
                    total.undecided += count.undecided;
                    total.sampled += count.sampled;
                    total.synthesised += count.synthesised;
                }
                None => self.hops.push(count),
            }
        }
    }
}

// one counter per hop number
const _: () = assert!(mag_slot_MAG_HOPS == 64);

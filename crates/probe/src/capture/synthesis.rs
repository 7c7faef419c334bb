//! Sums that the kernel adds up, read about once a second.
//!
//! Time buckets only grow, so the difference of two readings is the increment. Rates use two maps: the reader
//! swaps the slots, waits for all programs that may write to the old map, then reads and empties it. Every
//! packet is therefore in exactly one interval.

use crate::control::Control;
use crate::error::ProbeError;
use crate::record::{
    MAG_BUCKETS, mag_cpu, mag_pair, mag_rate, mag_rate_key, mag_rate_kind_MAG_RATE_CGROUP,
    mag_rate_kind_MAG_RATE_FLOW, mag_rate_kind_MAG_RATE_REASON,
};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object};
use magscope_core::hop::HopSet;
use magscope_core::synthesis::{Sum, Synthesis};
use magscope_core::{FlowId, Hop};
use std::mem::offset_of;
use std::time::{Duration, Instant};

/// Interval between two readings.
const INTERVAL: Duration = Duration::from_secs(1);

/// Hops between which times are measured, in path order; the drop hop is last.
pub(super) fn ranked(served: HopSet) -> Vec<Hop> {
    let path = Hop::path().iter().chain([&Hop::SkbDrop]).copied();
    path.filter(|hop| served.contains(*hop)).collect()
}

/// Number of pairs of `ranked` hops.
pub(super) fn pairs(ranked: usize) -> usize {
    ranked * ranked.saturating_sub(1) / 2
}

/// Totals read so far for one pair, over all CPUs. Buckets and their differences wrap.
struct Pair {
    from: Hop,
    to: Hop,
    sum_ns: u64,
    buckets: Vec<u32>,
}

/// Reads what the programs of one object add up.
pub(crate) struct Reader {
    pairs_map: MapHandle,
    rates_maps: [MapHandle; 2],
    cpus: MapHandle,
    pairs: Vec<Pair>,
    /// By hop: starts, packets and bytes that found no free entry.
    reported: Vec<[u64; 3]>,
    /// The slot in use by the programs.
    slot: u32,
    from_ns: u64,
    read: Instant,
    /// True if sums may have changed since the last reading.
    pending: bool,
}

impl Reader {
    pub(super) fn new(object: &Object, served: HopSet, now_ns: u64) -> Result<Self, ProbeError> {
        let find = |name: &'static str| {
            let failed = |cause: String| ProbeError::Map { operation: "open", map: name, cause };
            let map = object.maps().find(|map| map.name() == name);
            let map = map.ok_or_else(|| failed("not in the object".to_owned()))?;
            MapHandle::try_from(&map).map_err(|e| failed(format!("{e:#}")))
        };
        let ranked = ranked(served);
        let pair = |(from, to): (&Hop, &Hop)| Pair {
            from: *from,
            to: *to,
            sum_ns: 0,
            buckets: vec![0; MAG_BUCKETS as usize],
        };
        let to = ranked.iter().enumerate();
        Ok(Reader {
            pairs_map: find("pairs")?,
            rates_maps: [find("rates_0")?, find("rates_1")?],
            cpus: find("cpus")?,
            pairs: to
                .flat_map(|(rank, to)| ranked[..rank].iter().map(move |from| (from, to)))
                .map(pair)
                .collect(),
            reported: vec![[0; 3]; Hop::ALL.len()],
            slot: 0,
            from_ns: now_ns,
            read: Instant::now(),
            pending: false,
        })
    }

    /// Appends the sums since the last reading, if the interval has passed or the capture ends.
    pub(super) fn read(
        &mut self,
        control: &Control,
        now_ns: u64,
        last: bool,
        out: &mut Vec<Synthesis>,
    ) -> Result<(), ProbeError> {
        if !last && self.read.elapsed() < INTERVAL {
            return Ok(());
        }
        let adds_up = control.detail().adds_up();
        let pending = std::mem::replace(&mut self.pending, adds_up);
        let from_ns = std::mem::replace(&mut self.from_ns, now_ns);
        self.read = Instant::now();
        if !adds_up && !pending {
            return Ok(());
        }
        let interval = (from_ns, now_ns);
        let full = self.slot as usize;
        self.slot = 1 - self.slot;
        control.set_rate_slot(self.slot)?;
        self.passes(interval, out)?;
        self.counted(interval, out)?;
        rates(&self.rates_maps[full], interval, out)
    }

    /// Marks sums as pending, independent of the setting at the time of reading.
    pub(crate) fn expect(&mut self) {
        self.pending = true;
    }

    fn passes(&mut self, (from_ns, to_ns): (u64, u64), out: &mut Vec<Synthesis>) -> Result<(), ProbeError> {
        let (mut sum_ns, mut buckets);
        for (at, pair) in (0_u32..).zip(&mut self.pairs) {
            (sum_ns, buckets) = (0_u64, vec![0_u32; MAG_BUCKETS as usize]);
            for cpu in per_cpu(&self.pairs_map, "pairs", at)? {
                let word = |offset: usize| cpu.get(offset..offset + 8)?.try_into().ok().map(u64::from_ne_bytes);
                sum_ns = sum_ns.wrapping_add(word(offset_of!(mag_pair, sum_ns)).unwrap_or(0));
                let counted = cpu.get(offset_of!(mag_pair, buckets)..).unwrap_or_default().chunks_exact(4);
                for (sum, n) in buckets.iter_mut().zip(counted) {
                    *sum = sum.wrapping_add(n.try_into().map_or(0, u32::from_ne_bytes));
                }
            }
            let fresh = buckets.iter().zip(&pair.buckets).map(|(now, before)| now.wrapping_sub(*before));
            let fresh: Vec<(u16, u32)> = (0_u16..).zip(fresh).filter(|(_, n)| *n > 0).collect();
            if !fresh.is_empty() {
                out.push(Synthesis {
                    from_ns,
                    to_ns,
                    hop: pair.to,
                    of: Sum::Since(pair.from),
                    n: fresh.iter().map(|(_, n)| u64::from(*n)).sum(),
                    sum: sum_ns.wrapping_sub(pair.sum_ns),
                    buckets: fresh,
                });
                (pair.sum_ns, pair.buckets) = (sum_ns, buckets);
            }
        }
        Ok(())
    }

    fn counted(&mut self, (from_ns, to_ns): (u64, u64), out: &mut Vec<Synthesis>) -> Result<(), ProbeError> {
        let cpus = per_cpu(&self.cpus, "cpus", 0)?;
        for (hop, recorded) in Hop::ALL.iter().zip(&mut self.reported) {
            let now = [
                offset_of!(mag_cpu, began),
                offset_of!(mag_cpu, rest_packets),
                offset_of!(mag_cpu, rest_bytes),
            ];
            let now = now.map(|offset| {
                let at = offset + usize::from(hop.id()) * 8;
                let of = |cpu: &Vec<u8>| {
                    cpu.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
                };
                cpus.iter().map(of).sum::<u64>()
            });
            let [began, packets, bytes] = [0, 1, 2].map(|at| now[at].saturating_sub(recorded[at]));
            *recorded = now;
            let sum = |of, n, sum| Synthesis { from_ns, to_ns, hop: *hop, of, n, sum, buckets: Vec::new() };
            out.extend((began > 0).then(|| sum(Sum::Begun, began, 0)));
            out.extend((packets > 0 || bytes > 0).then(|| sum(Sum::Rest, packets, bytes)));
        }
        Ok(())
    }
}

fn per_cpu(map: &MapHandle, name: &'static str, key: u32) -> Result<Vec<Vec<u8>>, ProbeError> {
    let failed = |cause: String| ProbeError::Map { operation: "read", map: name, cause };
    let values = map.lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY).map_err(|e| failed(format!("{e:#}")))?;
    values.ok_or_else(|| failed("the kernel has no value of it".to_owned()))
}

/// Reads and empties a map of rates that no program writes to.
fn rates(map: &MapHandle, (from_ns, to_ns): (u64, u64), out: &mut Vec<Synthesis>) -> Result<(), ProbeError> {
    let failed = |cause: String| ProbeError::Map { operation: "read", map: "rates", cause };
    // one more than the capacity, so that one call reads all entries
    let all = map.lookup_and_delete_batch(map.max_entries() + 1, MapFlags::ANY, MapFlags::ANY);
    for (key, value) in all.map_err(|e| failed(format!("{e:#}")))? {
        let word = |bytes: &[u8], at: usize| {
            bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
        };
        let half =
            |at: usize| key.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes);
        let id = word(&key, offset_of!(mag_rate_key, id));
        #[allow(non_upper_case_globals)]
        let of = match half(offset_of!(mag_rate_key, kind)) {
            mag_rate_kind_MAG_RATE_FLOW => Sum::Flow(FlowId(id)),
            mag_rate_kind_MAG_RATE_CGROUP => Sum::Cgroup(id),
            mag_rate_kind_MAG_RATE_REASON => Sum::Reason(id as u32),
            _ => continue,
        };
        let Some(hop) = u8::try_from(half(offset_of!(mag_rate_key, hop))).ok().and_then(Hop::from_id) else {
            continue;
        };
        let (n, sum) = (word(&value, offset_of!(mag_rate, packets)), word(&value, offset_of!(mag_rate, bytes)));
        out.push(Synthesis { from_ns, to_ns, hop, of, n, sum, buckets: Vec::new() });
    }
    match map.keys().next() {
        None => Ok(()),
        Some(_) => Err(failed("the kernel did not hand it over".to_owned())),
    }
}

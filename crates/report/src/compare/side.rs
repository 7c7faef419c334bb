//! One of the two sides of a comparison: runs of the same system, each a recording, added up one after the
//! other.

use super::Summary;
use super::blocks::Blocks;
use super::changes::SettingChanges;
use super::runs::Estimate;
use super::services::{FoldedServices, Services};
use crate::observed::Observed;
use magscope_core::batch::Batch;
use magscope_core::context::Context;
use magscope_core::flow::Proto;
use magscope_core::hop::{Hop, HopSet};
use magscope_core::journey::{Journey, Rung, Verdict};
use magscope_core::node::NodeInfo;
use std::collections::BTreeMap;

/// One recording during the read. Memory grows with protocols, hops and services, not with time.
#[derive(Debug)]
pub struct Run {
    info: NodeInfo,
    /// The hops that all recordings have.
    hops: HopSet,
    sums: BTreeMap<Proto, Sums>,
    services: Services,
    lost_events: u64,
    observed: Observed,
    disordered: u64,
    changes: SettingChanges,
}

/// One protocol of one run.
#[derive(Clone, Debug, Default)]
struct Sums {
    /// Totals by first and last hop.
    totals: BTreeMap<(Hop, Hop), Sum>,
    steps: BTreeMap<(Hop, Hop), Sum>,
    counts: Counts,
}

/// Verdict counts of the journeys of one protocol.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Journeys by kind of verdict.
    pub kinds: [u64; Verdict::KINDS],
    /// Retransmitted journeys, each counted once.
    pub resent: u64,
}

/// Times and their sum.
#[derive(Clone, Debug, Default)]
pub(super) struct Sum {
    times: Blocks,
    ns: u128,
}

/// Stored summary of the times of one step in one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub n: u64,
    pub ns: u128,
    pub p50: Estimate,
    pub p99: Estimate,
}

/// Stored summary of one protocol of one run.
#[derive(Clone, Debug)]
pub(super) struct Folded {
    pub totals: BTreeMap<(Hop, Hop), Times>,
    pub steps: BTreeMap<(Hop, Hop), Times>,
    pub counts: Counts,
}

/// Runs of the same system. An added run takes some kilobytes.
#[derive(Clone, Debug, Default)]
pub struct Side {
    pub(super) infos: Vec<NodeInfo>,
    pub(super) runs: Vec<BTreeMap<Proto, Folded>>,
    pub(super) services: Vec<FoldedServices>,
    pub(super) lost_events: u64,
    pub(super) changes: SettingChanges,
    disordered: u64,
    duration_ns: u64,
}

impl Sum {
    pub fn record(&mut self, ns: u64) {
        self.times.record(ns);
        self.ns += u128::from(ns);
    }

    pub fn fold(&self) -> Times {
        let estimate = |q| Estimate::of(&self.times, q);
        Times { n: self.times.all().n(), ns: self.ns, p50: estimate(0.5), p99: estimate(0.99) }
    }
}

impl Counts {
    pub fn journeys(&self) -> u64 {
        self.kinds.iter().sum()
    }
}

impl Run {
    /// A recording to be read, reduced to the hops that all of them have.
    pub fn new(info: &NodeInfo, hops: HopSet) -> Self {
        Run {
            services: Services::new(info),
            info: info.clone(),
            hops,
            sums: BTreeMap::new(),
            lost_events: 0,
            observed: Observed::default(),
            disordered: 0,
            changes: SettingChanges::default(),
        }
    }

    /// Includes all recorded time of the recording, with and without events, nanoseconds.
    pub fn observed(&mut self, from_ns: u64, to_ns: u64) {
        self.observed.note(from_ns);
        self.observed.note(to_ns);
    }

    /// Counts the events, losses and changes of settings of a batch.
    pub fn batch(&mut self, batch: &Batch) {
        batch.events.iter().for_each(|event| self.observed.note(event.time_ns));
        self.observed.note_watermark(batch);
        self.services.batch(batch);
        self.lost_events = self.lost_events.saturating_add(batch.lost());
        batch.changes.iter().for_each(|change| self.changes.push(change));
    }

    /// Counts a journey; the context resolves its flows.
    pub fn journey(&mut self, journey: &Journey, context: &dyn Context) {
        self.services.journey(journey, context);
        let sums = self.sums.entry(journey.proto).or_default();
        sums.counts.kinds[journey.verdict.kind()] += 1;
        sums.counts.resent += u64::from(journey.retransmits() > 0);
        if !journey.verdict.is_whole() {
            return;
        }
        let (mut first, mut before): (Option<Rung>, Option<Rung>) = (None, None);
        // Both sides are compared by the hops of the ends.
        for rung in journey.ladder().filter(|rung| rung.forwarder == 0 && self.hops.contains(rung.hop)) {
            // Only within one copy.
            if let Some(before) = before
                .filter(|before| !before.is_copy_before(&rung) && !journey.is_crossing_unknown(before, &rung))
            {
                match rung.time_ns.checked_sub(before.time_ns) {
                    Some(ns) => sums.steps.entry((before.hop, rung.hop)).or_default().record(ns),
                    None => self.disordered += 1,
                }
            }
            // `dev.done` is off the path: the next step has the same beginning.
            if rung.hop != Hop::DevDone {
                first = first.or(Some(rung));
                before = Some(rung);
            }
        }
        if let (Some(first), Some(last)) = (first, before)
            && first.hop != last.hop
            && let Some(ns) = last.time_ns.checked_sub(first.time_ns)
        {
            sums.totals.entry((first.hop, last.hop)).or_default().record(ns);
        }
    }
}

impl Side {
    /// Adds a run that was read to its end.
    pub fn add(&mut self, run: Run) {
        let each = |sums: &BTreeMap<(Hop, Hop), Sum>| {
            sums.iter().map(|(pair, sum)| (*pair, sum.fold())).collect::<BTreeMap<_, _>>()
        };
        let fold =
            |sums: &Sums| Folded { totals: each(&sums.totals), steps: each(&sums.steps), counts: sums.counts };
        self.runs.push(run.sums.iter().map(|(proto, sums)| (*proto, fold(sums))).collect());
        self.services.push(run.services.fold());
        self.infos.push(run.info);
        self.lost_events = self.lost_events.saturating_add(run.lost_events);
        self.changes.append(&run.changes);
        self.disordered += run.disordered;
        let (from, to) = run.observed.ends_ns().unwrap_or_default();
        self.duration_ns = self.duration_ns.saturating_add(to - from);
    }

    /// Adds the runs of another side.
    pub fn append(&mut self, other: &Side) {
        self.runs.extend_from_slice(&other.runs);
        self.services.extend_from_slice(&other.services);
        self.infos.extend_from_slice(&other.infos);
        self.lost_events = self.lost_events.saturating_add(other.lost_events);
        self.changes.append(&other.changes);
        self.disordered += other.disordered;
        self.duration_ns = self.duration_ns.saturating_add(other.duration_ns);
    }

    pub(super) fn summary(&self) -> Summary {
        let all = || self.runs.iter().flat_map(BTreeMap::values).map(|folded| folded.counts);
        let first = self.infos.first();
        Summary {
            runs: self.runs.len() as u64,
            host: first.map(|info| info.host.clone()).unwrap_or_default(),
            kernel: first.map(|info| info.kernel.clone()).unwrap_or_default(),
            duration_ns: self.duration_ns,
            journeys: all().map(|counts| counts.journeys()).sum(),
            measured: all().map(|counts| Verdict::whole_of(&counts.kinds)).sum(),
            lost_events: self.lost_events,
            disordered: self.disordered,
        }
    }
}

//! One of the two captures, added up.

use super::Summary;
use super::blocks::Blocks;
use crate::batch::Batch;
use crate::flow::Proto;
use crate::hop::{Hop, HopSet};
use crate::journey::{Journey, Rung, Verdict};
use crate::node::NodeInfo;
use std::collections::BTreeMap;

/// One of the two captures. Memory grows with protocols and hops, not with time.
#[derive(Clone, Debug)]
pub struct Side {
    pub(super) info: NodeInfo,
    /// The hops that both captures have.
    hops: HopSet,
    pub(super) sums: BTreeMap<Proto, Sums>,
    pub(super) lost_events: u64,
    span: Option<(u64, u64)>,
    disordered: u64,
}

/// One protocol of one capture.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    pub total: Sum,
    pub steps: BTreeMap<(Hop, Hop), Sum>,
    /// Journeys by kind of verdict.
    pub kinds: [u64; Verdict::KINDS],
    /// Journeys that were sent again, however often.
    pub resent: u64,
}

/// Times, and what they add up to.
#[derive(Clone, Debug, Default)]
pub(super) struct Sum {
    pub times: Blocks,
    pub ns: u128,
}

impl Sum {
    fn record(&mut self, ns: u64) {
        self.times.record(ns);
        self.ns += u128::from(ns);
    }
}

impl Sums {
    pub fn journeys(&self) -> u64 {
        self.kinds.iter().sum()
    }
}

impl Side {
    pub(super) fn new(info: &NodeInfo, hops: HopSet) -> Self {
        let info = info.clone();
        Side { info, hops, sums: BTreeMap::new(), lost_events: 0, span: None, disordered: 0 }
    }

    /// Counts the events and losses of a batch.
    pub fn batch(&mut self, batch: &Batch) {
        for event in &batch.events {
            let (from, to) = self.span.unwrap_or((event.time_ns, event.time_ns));
            self.span = Some((from.min(event.time_ns), to.max(event.time_ns)));
        }
        self.lost_events += batch.lost();
    }

    /// Counts a journey.
    pub fn journey(&mut self, journey: &Journey) {
        let sums = self.sums.entry(journey.proto).or_default();
        sums.kinds[journey.verdict.kind()] += 1;
        sums.resent += u64::from(journey.retransmits() > 0);
        if !journey.verdict.is_whole() {
            return;
        }
        let (mut first, mut before): (Option<Rung>, Option<Rung>) = (None, None);
        for rung in journey.ladder().filter(|rung| self.hops.contains(rung.hop)) {
            if let Some(before) = before {
                match rung.time_ns.checked_sub(before.time_ns) {
                    Some(ns) => sums.steps.entry((before.hop, rung.hop)).or_default().record(ns),
                    None => self.disordered += 1,
                }
            }
            // `dev.done` stands beside the way: the next step begins where it began.
            if rung.hop != Hop::DevDone {
                first = first.or(Some(rung));
                before = Some(rung);
            }
        }
        if let (Some(first), Some(last)) = (first, before)
            && first.hop != last.hop
            && let Some(ns) = last.time_ns.checked_sub(first.time_ns)
        {
            sums.total.record(ns);
        }
    }

    pub(super) fn summary(&self) -> Summary {
        let kinds = |wanted: fn(&Sums) -> u64| self.sums.values().map(wanted).sum();
        let (from, to) = self.span.unwrap_or_default();
        Summary {
            host: self.info.host.clone(),
            kernel: self.info.kernel.clone(),
            duration_ns: to - from,
            journeys: kinds(Sums::journeys),
            measured: kinds(|sums| sums.kinds[0] + sums.kinds[1]),
            lost_events: self.lost_events,
            disordered: self.disordered,
        }
    }
}

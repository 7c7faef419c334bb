//! What is counted of the journeys of a flow, or of a group of flows.

use crate::look::FlowOrder;
use crate::pyramid::{Part as _, Tile};
use magscope_core::blame::{Blame, Part};
use magscope_core::{Endpoint, Journey, Proto, Verdict};
use magscope_report::stats::heaviest::Weighed;
use magscope_report::{GroupEnd, ServiceKey};

/// Stretches of the trend.
const TREND: usize = 24;
/// Length of each stretch, nanoseconds.
const TREND_NS: u64 = 500_000_000;
/// Weight of a failed journey, nanoseconds and bytes: more than that of a slow one.
const BAD: u64 = 1_000_000_000;

/// The counts.
#[derive(Clone, Debug, Default)]
pub struct Page {
    pub proto: Proto,
    pub ends: Option<(Endpoint, Endpoint)>,
    pub route: String,
    pub processes: (String, String),
    /// The ends of its first journey: what its groups are concluded from.
    pub owners: Option<([GroupEnd; 2], ServiceKey)>,
    pub journeys: u64,
    pub bad: u64,
    pub broken: u64,
    pub resent: u64,
    pub bytes: u64,
    pub times: Tile,
    pub parts_ns: [u64; Part::COUNT],
    /// Number of a stretch and the longest in it.
    trend: [(u64, u64); TREND],
}

impl Page {
    /// Counts a journey that ended at `end_ns`; `blame` is that of one with a seen end.
    pub fn count(&mut self, journey: &Journey, end_ns: u64, blame: Option<&Blame>) {
        self.journeys += 1;
        self.bad += u64::from(journey.verdict.is_lost());
        self.broken += u64::from(matches!(journey.verdict, Verdict::BrokenByEventLoss { .. }));
        self.resent += u64::from(journey.retransmits() > 0);
        self.bytes = self.bytes.saturating_add(journey.bytes());
        if !journey.verdict.is_whole() {
            return;
        }
        if let Some(total_ns) = journey.total_ns() {
            self.times.add(total_ns, true);
            self.trend_at(end_ns / TREND_NS, total_ns);
        }
        for (part, ns) in blame.iter().flat_map(|blame| blame.parts()) {
            self.parts_ns[part as usize] = self.parts_ns[part as usize].saturating_add(ns);
        }
    }

    fn trend_at(&mut self, stretch: u64, ns: u64) {
        if let Some(place) = self.trend.get_mut(stretch as usize % TREND) {
            if place.0 < stretch {
                *place = (stretch, 0);
            }
            if place.0 == stretch {
                place.1 = place.1.max(ns);
            }
        }
    }

    /// The longest of each stretch up to `newest_ns`, oldest first; 0 without one.
    pub fn trend(&self, newest_ns: u64) -> Vec<u64> {
        let now = newest_ns / TREND_NS;
        let trend = (0..TREND as u64).rev().map(|ago| {
            let stretch = now.checked_sub(ago);
            let place = stretch.and_then(|s| self.trend.get(s as usize % TREND).filter(|p| p.0 == s));
            place.map_or(0, |place| place.1)
        });
        trend.collect()
    }

    /// The part with most of the time, and its share.
    pub fn blame(&self) -> Option<(Part, f64)> {
        let all: f64 = self.parts_ns.iter().map(|ns| *ns as f64).sum();
        let most = Part::ALL.into_iter().max_by_key(|part| self.parts_ns[*part as usize]);
        most.filter(|_| all > 0.0).map(|part| (part, self.parts_ns[part as usize] as f64 / all))
    }

    /// The sort key.
    pub fn rank(&self, order: FlowOrder) -> u64 {
        match order {
            FlowOrder::Time => self.times.sum,
            FlowOrder::P50 => self.times.percentiles().p50_ns,
            FlowOrder::P99 => self.times.percentiles().p99_ns,
            FlowOrder::Max => self.times.percentiles().max_ns,
            FlowOrder::Bytes => self.bytes,
            FlowOrder::Journeys => self.journeys,
            FlowOrder::Failed => self.bad,
            FlowOrder::Broken => self.broken,
            FlowOrder::Resent => self.resent,
        }
    }
}

/// The process of both, `several` for two.
fn one_of(mine: &mut String, theirs: &str) {
    if mine.is_empty() {
        theirs.clone_into(mine);
    } else if !theirs.is_empty() && mine != theirs {
        "several".clone_into(mine);
    }
}

impl Weighed for Page {
    fn weight(&self) -> u64 {
        self.times.sum.saturating_add(self.bytes).saturating_add(self.bad.saturating_mul(BAD))
    }

    fn merge(&mut self, other: &Self) {
        if self.journeys == 0 {
            self.clone_from(other);
            return;
        }
        if self.ends != other.ends {
            self.ends = None;
        }
        if self.route != other.route {
            self.route = String::new();
        }
        one_of(&mut self.processes.0, &other.processes.0);
        one_of(&mut self.processes.1, &other.processes.1);
        self.journeys += other.journeys;
        self.bad += other.bad;
        self.broken += other.broken;
        self.resent += other.resent;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.times.merge(&other.times);
        for (mine, theirs) in self.parts_ns.iter_mut().zip(other.parts_ns) {
            *mine = mine.saturating_add(theirs);
        }
        for (stretch, ns) in other.trend.iter().filter(|(_, ns)| *ns > 0) {
            self.trend_at(*stretch, *ns);
        }
    }
}

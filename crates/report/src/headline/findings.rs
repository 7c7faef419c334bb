//! Sums of journeys by service, for the headline.

use super::SLOW_NS;
use crate::attempts::Peers;
use crate::service::ServiceKey;
use crate::stats::HopPairStats;
use crate::stats::heaviest::{Heaviest, Weighed};
use magscope_core::blame::{Blame, Part};
use magscope_core::context::Context;
use magscope_core::flow::Flow;
use magscope_core::hop::Hop;
use magscope_core::journey::{Journey, Verdict};
use magscope_core::{Event, Outcomes};
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

/// Maximum number of services, those with the most journeys.
const MOST_SERVICES: usize = 512;
/// Maximum number of distinct ends of lost journeys of a service.
const MOST_ENDS: usize = 16;
/// Number of slowest journeys of a service with their parts.
const SLOWEST: usize = 32;

/// How a lost journey ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    /// The kernel dropped it: its reason, and the program or rule.
    Dropped(String, Option<String>),
    /// It was not seen after this hop.
    LostAfter(Hop),
}

/// One of the slowest journeys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slow {
    /// Its time, nanoseconds.
    pub ns: u64,
    /// Its key, if it can be shown.
    pub key: Option<u64>,
    /// Its parts, nanoseconds, in the order of [`Part::ALL`].
    pub parts_ns: [u64; Part::COUNT],
}

/// The journeys of a service.
#[derive(Clone, Debug, Default)]
pub(super) struct Service {
    pub key: ServiceKey,
    pub outcomes: Outcomes,
    pub ends: BTreeMap<End, u64>,
    /// Name of the last reading process.
    pub reader: Option<String>,
    /// Times of complete journeys.
    pub times: HopPairStats,
    pub slowest: BinaryHeap<Reverse<Slow>>,
    /// The longest that one of them waited for a retransmission, nanoseconds.
    pub longest_resend_ns: u64,
    /// Key of the last journey that was dropped or lost, of the last that was resent, and of the last slow one.
    pub last_lost: Option<u64>,
    pub last_resent: Option<u64>,
    pub last_slow: Option<u64>,
}

impl Weighed for Service {
    fn weight(&self) -> u64 {
        self.outcomes.journeys()
    }

    fn merge(&mut self, other: &Self) {
        self.outcomes.merge(&other.outcomes);
    }

    fn by_name(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

impl Service {
    /// Journeys that the network dropped or lost.
    pub fn bad(&self) -> u64 {
        self.outcomes.dropped_journeys().saturating_add(self.outcomes.lost())
    }

    /// The parts of the slowest hundredth, at least of one journey: each with its time per journey, the longest first.
    pub fn slowest_parts(&self) -> (usize, Vec<(Part, u64)>) {
        let mut slowest: Vec<&Slow> = self.slowest.iter().map(|Reverse(slow)| slow).collect();
        slowest.sort_by(|a, b| b.cmp(a));
        slowest.truncate(usize::try_from(self.times.n().div_ceil(100)).unwrap_or(SLOWEST).max(1));
        let sum = |part: Part| {
            slowest.iter().fold(0_u64, |all, slow| all.saturating_add(slow.parts_ns[part as usize]))
        };
        let mut parts: Vec<(Part, u64)> =
            Part::ALL.into_iter().map(|part| (part, sum(part) / slowest.len().max(1) as u64)).collect();
        parts.sort_by_key(|(_, ns)| Reverse(*ns));
        (slowest.len(), parts)
    }

    /// Keys of the slowest journey and of the last slow one.
    pub fn slow_keys(&self) -> impl Iterator<Item = u64> {
        let slowest = self.slowest.iter().map(|Reverse(slow)| slow).max();
        slowest.and_then(|slow| slow.key).into_iter().chain(self.last_slow)
    }
}

/// Sums of journeys by service. Memory is bounded by the number of services.
#[derive(Debug)]
pub struct Findings {
    services: Heaviest<ServiceKey, Service>,
    times: HopPairStats,
    peers: Peers,
}

impl Default for Findings {
    fn default() -> Self {
        Findings { services: Heaviest::new(MOST_SERVICES), times: HopPairStats::new(), peers: Peers::default() }
    }
}

impl Findings {
    /// Counts the end of an attempt to connect; `flow` looks up that of the event, which most events do not need.
    /// The time of one that `is_stored` comes back in [`super::Evidence::Event`].
    pub fn event<'f>(&mut self, event: &Event, is_stored: bool, flow: impl FnOnce() -> Option<&'f Flow>) {
        if event.hop == Hop::TcpOpen {
            self.peers.event(event, is_stored, flow());
        }
    }

    /// Attempts to connect by peer.
    pub(crate) fn peers(&self) -> &Peers {
        &self.peers
    }

    /// Counts a journey. `key` comes back in [`super::Evidence::Journeys`]; `None` for one that cannot be shown. `blame` is
    /// that of a journey with a seen end.
    pub fn journey(
        &mut self,
        journey: &Journey,
        key: Option<u64>,
        blame: Option<&Blame>,
        context: &dyn Context,
    ) {
        let of = ServiceKey::of(journey, context);
        let service = self.services.entry(of);
        service.key = of;
        service.outcomes.journey(journey);
        if let Some(task) = context.reader(journey)
            && service.reader.as_ref() != Some(&task.comm)
        {
            service.reader = Some(task.comm.clone());
        }
        if journey.verdict.is_lost() {
            service.last_lost = key.or(service.last_lost);
            let end = match journey.verdict {
                Verdict::LostAfter { hop } => End::LostAfter(hop),
                _ => {
                    End::Dropped(context.why_dropped(journey).unwrap_or_default(), context.dropped_by(journey))
                }
            };
            if service.ends.len() < MOST_ENDS || service.ends.contains_key(&end) {
                *service.ends.entry(end).or_default() += 1;
            }
        }
        if journey.retransmits() > 0 {
            service.last_resent = key.or(service.last_resent);
        }
        if let Some(blame) = blame.filter(|_| journey.verdict.is_whole()) {
            let ns = blame.total_ns();
            if journey.retransmits() > 0 {
                let waits = blame.parts().filter(|(part, _)| *part == Part::Retransmission).map(|(_, ns)| ns);
                service.longest_resend_ns = waits.fold(service.longest_resend_ns, u64::max);
            }
            self.times.record(ns);
            service.times.record(ns);
            if ns >= SLOW_NS {
                service.last_slow = key.or(service.last_slow);
            }
            let is_full = service.slowest.len() >= SLOWEST;
            if !is_full || service.slowest.peek().is_none_or(|Reverse(fastest)| ns > fastest.ns) {
                let mut parts_ns = [0; Part::COUNT];
                blame.parts().for_each(|(part, ns)| parts_ns[part as usize] = ns);
                service.slowest.push(Reverse(Slow { ns, key, parts_ns }));
                if is_full {
                    service.slowest.pop();
                }
            }
        }
    }

    /// The services, in a fixed order.
    pub(super) fn services(&self) -> Vec<&Service> {
        let mut all: Vec<&Service> = self.services.iter().map(|(_, service)| service).collect();
        all.sort_by_key(|service| service.key);
        all
    }

    /// The time that 99 of 100 complete journeys do not exceed, nanoseconds.
    pub(super) fn p99_ns(&self) -> Option<u64> {
        (self.times.n() > 0).then(|| self.times.quantile_ns(0.99))
    }
}

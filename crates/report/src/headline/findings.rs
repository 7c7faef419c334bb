//! Sums of journeys by service, for the headline.

use super::SLOW_NS;
use crate::attempts::Peers;
use crate::service::ServiceKey;
use crate::stats::HopPairStats;
use crate::stats::heaviest::{Heaviest, Weighed};
use magscope_core::blame::{Blame, Part};
use magscope_core::context::Context;
use magscope_core::flow::{Flow, FlowId, Proto};
use magscope_core::hop::Hop;
use magscope_core::journey::{Journey, Verdict};
use magscope_core::{Event, Outcomes};
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Maximum number of services, those with the most journeys.
const MOST_SERVICES: usize = 512;
/// Maximum number of distinct ends of lost journeys of a service.
const MOST_ENDS: usize = 16;
/// Number of slowest journeys of a service with their parts.
const SLOWEST: usize = 32;
/// Maximum number of resets that were sent; beyond it all are forgotten.
const MOST_RESETS: usize = 1 << 14;
/// Maximum time between a reset for bytes of an ended connection and the last hop of these bytes, nanoseconds.
const RESET_NS: u64 = 10_000_000;
/// The kernel's reason for packets that it frees in a queue without more to say.
const UNSPECIFIED: &str = "not_specified";

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
    /// Dropped journeys whose bytes came to a connection that had ended at its reader. They are not among the ends.
    pub late: u64,
    /// Dropped datagrams that were thrown away in the queue of their socket. They are not among the ends.
    pub unread: u64,
    /// Name of the last reading process.
    pub reader: Option<String>,
    /// Times of complete journeys that are not ambiguous.
    pub times: HopPairStats,
    pub slowest: BinaryHeap<Reverse<Slow>>,
    /// The longest that one of them waited for a retransmission, nanoseconds.
    pub longest_resend_ns: u64,
    /// Key of the last journey that was dropped or lost, of the last that came too late, of the last that was thrown away
    /// unread, of the last that was resent, and of the last slow one.
    pub last_lost: Option<u64>,
    pub last_late: Option<u64>,
    pub last_unread: Option<u64>,
    pub last_resent: Option<u64>,
    pub last_slow: Option<u64>,
}

impl Weighed for Service {
    fn weight(&self) -> u64 {
        self.outcomes.journeys()
    }

    fn merge(&mut self, other: &Self) {
        self.outcomes.merge(&other.outcomes);
        self.late += other.late;
        self.unread += other.unread;
    }

    fn by_name(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

impl Service {
    /// Journeys that the network dropped or lost.
    pub fn bad(&self) -> u64 {
        self.dropped().saturating_add(self.outcomes.lost())
    }

    /// Journeys that the kernel dropped on their path, and somebody still waited for.
    pub fn dropped(&self) -> u64 {
        self.outcomes.dropped_journeys().saturating_sub(self.late).saturating_sub(self.unread)
    }

    /// Counts a journey that the network dropped or lost.
    fn lose(&mut self, journey: &Journey, key: Option<u64>, context: &dyn Context) {
        self.last_lost = key.or(self.last_lost);
        let end = match journey.verdict {
            Verdict::LostAfter { hop } => End::LostAfter(hop),
            _ => End::Dropped(context.why_dropped(journey).unwrap_or_default(), context.dropped_by(journey)),
        };
        if self.ends.len() < MOST_ENDS || self.ends.contains_key(&end) {
            *self.ends.entry(end).or_default() += 1;
        }
    }

    /// Counts the time of a complete journey.
    fn time(&mut self, journey: &Journey, key: Option<u64>, blame: &Blame) {
        let ns = blame.total_ns();
        if journey.retransmits() > 0 {
            let waits = blame.parts().filter(|(part, _)| *part == Part::Retransmission).map(|(_, ns)| ns);
            self.longest_resend_ns = waits.fold(self.longest_resend_ns, u64::max);
        }
        self.times.record(ns);
        if ns >= SLOW_NS {
            self.last_slow = key.or(self.last_slow);
        }
        let is_full = self.slowest.len() >= SLOWEST;
        if !is_full || self.slowest.peek().is_none_or(|Reverse(fastest)| ns > fastest.ns) {
            let mut parts_ns = [0; Part::COUNT];
            blame.parts().for_each(|(part, ns)| parts_ns[part as usize] = ns);
            self.slowest.push(Reverse(Slow { ns, key, parts_ns }));
            if is_full {
                self.slowest.pop();
            }
        }
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
    /// Resets that were sent: flow and instant.
    resets: BTreeSet<(FlowId, u64)>,
    /// Complete journeys that are ambiguous: their times may be a neighbour's, so no statement rests on them.
    ambiguous: u64,
    /// True after an event whose flow is there, and after one whose flow is not.
    has_flow: bool,
    lacks_flow: bool,
}

impl Default for Findings {
    fn default() -> Self {
        Findings {
            services: Heaviest::new(MOST_SERVICES),
            times: HopPairStats::new(),
            peers: Peers::default(),
            resets: BTreeSet::new(),
            ambiguous: 0,
            has_flow: false,
            lacks_flow: false,
        }
    }
}

impl Findings {
    /// Counts the end of an attempt to connect, and notes its first segments and resets; `flow` looks up that of the event,
    /// which most events do not need. The time of an end that `is_stored` comes back in [`super::Evidence::Event`].
    pub fn event<'f>(&mut self, event: &Event, is_stored: bool, flow: impl FnOnce() -> Option<&'f Flow>) {
        let (is_open, is_syn) = (event.hop == Hop::TcpOpen, Peers::is_of_syn(event));
        let is_first = !self.has_flow && !event.flow.is_none();
        let flow = if is_open || is_syn || is_first { flow() } else { None };
        self.has_flow |= flow.is_some();
        self.lacks_flow |= is_first && flow.is_none();
        if is_open {
            self.peers.event(event, is_stored, flow);
        } else if is_syn {
            self.peers.syn(event, flow);
        } else if event.hop == Hop::TcpSendReset && !event.flow.is_none() {
            if self.resets.len() >= MOST_RESETS {
                self.resets.clear();
            }
            self.resets.insert((event.flow, event.time_ns));
        }
    }

    /// True if a journey was dropped because the connection had ended at its reader: TCP answered it with a reset. A
    /// program or a rule that drops sends none of these, and where no server listens any more the kernel gives the reason.
    fn is_late(&self, journey: &Journey, context: &dyn Context, to_port: bool) -> bool {
        let (flow, Some(end_ns)) = (journey.drop_flow, journey.end_ns()) else { return false };
        let around = (flow, end_ns.saturating_sub(RESET_NS))..=(flow, end_ns.saturating_add(RESET_NS));
        let is_of_end = |reason: String| match reason.as_str() {
            UNSPECIFIED => true,
            "no_socket" => !to_port,
            reason => reason.starts_with("tcp_"),
        };
        // Most journeys are not dropped.
        !flow.is_none()
            && context.why_dropped(journey).is_some_and(is_of_end)
            && self.resets.range(around).next().is_some()
    }

    /// True if events have flows and none of these is there, so that no event can be in a journey.
    pub(super) const fn lacks_flows(&self) -> bool {
        self.lacks_flow && !self.has_flow
    }

    /// Number of complete journeys that are ambiguous.
    pub(super) const fn ambiguous(&self) -> u64 {
        self.ambiguous
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
        let is_late = self.is_late(journey, context, of.to_port);
        let service = self.services.entry(of);
        service.key = of;
        service.outcomes.journey(journey);
        if let Some(task) = context.reader(journey)
            && service.reader.as_ref() != Some(&task.comm)
        {
            service.reader = Some(task.comm.clone());
        }
        if is_late {
            service.late += 1;
            service.last_late = key.or(service.last_late);
        } else if is_unread(journey, context) {
            service.unread += 1;
            service.last_unread = key.or(service.last_unread);
        } else if journey.verdict.is_lost() {
            service.lose(journey, key, context);
        }
        if journey.retransmits() > 0 {
            service.last_resent = key.or(service.last_resent);
        }
        if let Some(blame) = blame.filter(|_| journey.verdict.is_whole()) {
            if journey.ambiguous {
                self.ambiguous += 1;
            } else {
                self.times.record(blame.total_ns());
                service.time(journey, key, blame);
            }
        }
    }

    /// The services, in a fixed order.
    pub(super) fn services(&self) -> Vec<&Service> {
        let mut all: Vec<&Service> = self.services.iter().map(|(_, service)| service).collect();
        all.sort_by_key(|service| service.key);
        all
    }

    /// The time that 99 of 100 complete journeys do not exceed, nanoseconds. Ambiguous ones are left out.
    pub(super) fn p99_ns(&self) -> Option<u64> {
        (self.times.n() > 0).then(|| self.times.quantile_ns(0.99))
    }
}

/// True for a datagram that the kernel threw away in the queue of its socket: the socket was closed, or a read failed. The
/// network had delivered it. A full buffer and a filter of the socket have reasons of their own.
///
/// Only `sock.ready` proves that it was in the queue: after `udp.recv` alone it may have been freed on its path to there, for
/// the same reason. A journey has no time of its drop that would tell these apart.
fn is_unread(journey: &Journey, context: &dyn Context) -> bool {
    let is_dropped = matches!(journey.verdict, Verdict::Dropped { .. });
    let is_queued = is_dropped && journey.proto == Proto::UDP && journey.rungs.has(Hop::SockReady);
    is_queued && context.why_dropped(journey).is_some_and(|reason| reason == UNSPECIFIED)
}

//! Differences that make two captures hard to compare.

use super::runs::LEAST_RUNS;
use super::services::MOST_SERVICES;
use super::{Protocol, RouteDifference, Side};
use magscope_core::flow::Proto;
use magscope_core::hop::Hop;
use magscope_core::node::{Backend, NodeInfo, Service};
use serde::{Serialize, Serializer};
use std::fmt;

/// One of the two captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureSide {
    /// The first.
    A,
    /// The second.
    B,
}

/// A difference other than the times. Serialises as its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// Captures of two hosts.
    Host(String, String),
    /// Captures of two kernels.
    Kernel(String, String),
    /// Different numbers of CPUs.
    Cpus(String, String),
    /// Different filters or samplers at the start: the journeys are of different traffic.
    Settings(String, String),
    /// Changes of filters, samplers, hops or detail during a capture: its parts are of different traffic.
    SettingsChanged(CaptureSide, String),
    /// Too few captures of A or of B for an interval.
    TooFewRuns(usize, usize),
    /// A hop that only one of them has.
    LeftOut {
        /// The hop.
        hop: Hop,
        /// The capture without it.
        not_in: CaptureSide,
        /// The reason why it is not available; `None` if it was not requested.
        because: Option<String>,
    },
    /// A hop that two kinds of probe served.
    Backend(Hop, Backend, Backend),
    /// Journeys that began or ended elsewhere than most of both: their totals differ, and are not compared.
    OtherRoute {
        /// The protocol.
        proto: Proto,
        /// First and last hop of the journeys with compared totals.
        route: (Hop, Hop),
        /// First and last hop of these journeys.
        other: (Hop, Hop),
        /// Numbers of A and of B.
        n: (u64, u64),
    },
    /// Events of one of them are missing.
    EventsLost(CaptureSide, u64),
    /// Exchanges of services beyond the maximum number of services.
    ServicesLeftOut(CaptureSide, u64),
}

/// All differences, also between captures of one side.
pub(super) fn of(a: &Side, b: &Side) -> Vec<Warning> {
    let mut all = Vec::new();
    let differ = |of: fn(&NodeInfo) -> String| {
        let distinct = |side: &Side| {
            let mut distinct: Vec<String> = side.infos.iter().map(of).collect();
            distinct.sort_unstable();
            distinct.dedup();
            distinct
        };
        let (in_a, in_b) = (distinct(a), distinct(b));
        let alike = in_a.is_empty() || in_b.is_empty() || in_a.len() == 1 && in_a == in_b;
        (!alike).then(|| (in_a.join(" and "), in_b.join(" and ")))
    };
    all.extend(differ(|info| info.host.clone()).map(|(a, b)| Warning::Host(a, b)));
    all.extend(differ(|info| info.kernel.clone()).map(|(a, b)| Warning::Kernel(a, b)));
    all.extend(differ(|info| info.cpus.to_string()).map(|(a, b)| Warning::Cpus(a, b)));
    all.extend(differ(settings).map(|(a, b)| Warning::Settings(a, b)));
    for (which, side) in [(CaptureSide::A, a), (CaptureSide::B, b)] {
        all.extend(side.changes.words().map(|words| Warning::SettingsChanged(which, words)));
    }
    all.extend(Hop::ALL.iter().filter_map(|hop| hops_differ(*hop, a, b)));
    for (which, lost) in [(CaptureSide::A, a.lost_events), (CaptureSide::B, b.lost_events)] {
        if lost > 0 {
            all.push(Warning::EventsLost(which, lost));
        }
    }
    for (which, side) in [(CaptureSide::A, a), (CaptureSide::B, b)] {
        let others = side.services.iter().map(|run| run.others).sum();
        if others > 0 {
            all.push(Warning::ServicesLeftOut(which, others));
        }
    }
    let (in_a, in_b) = (a.runs.len(), b.runs.len());
    if (1..LEAST_RUNS).contains(&in_a.min(in_b)) {
        all.push(Warning::TooFewRuns(in_a, in_b));
    }
    all
}

/// The filters and samplers of a capture, in words.
fn settings(info: &NodeInfo) -> String {
    let mut settings = info.settings.clone();
    settings.sort_unstable();
    if settings.is_empty() { "neither filter nor sampler".to_owned() } else { settings.join(", ") }
}

/// Journeys on another path than those with compared totals; without the few at the edges of a capture.
pub(super) fn of_routes(protocol: &Protocol) -> Vec<Warning> {
    let Some(route) = protocol.route else { return Vec::new() };
    let many = |n: u64, of: u64| n * 100 > of;
    let others = protocol.other_routes.iter();
    let others = others.filter(|o| many(o.n_a, protocol.total.n_a) || many(o.n_b, protocol.total.n_b));
    let warning = |o: &RouteDifference| Warning::OtherRoute {
        proto: protocol.proto,
        route,
        other: (o.from, o.to),
        n: (o.n_a, o.n_b),
    };
    others.map(warning).collect()
}

/// A hop that only some captures have, or with two kinds of attachment.
fn hops_differ(hop: Hop, a: &Side, b: &Side) -> Option<Warning> {
    let services = |which, side: &Side| {
        side.infos.iter().map(|info| (which, info.coverage.of(hop).cloned())).collect::<Vec<_>>()
    };
    let all = [services(CaptureSide::A, a), services(CaptureSide::B, b)].concat();
    let served = |service: &Option<Service>| match service {
        Some(Service::Served { backend, .. }) => Some(*backend),
        _ => None,
    };
    let (_, first) = all.iter().find(|(_, service)| served(service).is_some())?;
    let backend = served(first)?;
    if let Some((which, without)) = all.iter().find(|(_, service)| served(service).is_none()) {
        let because = match without {
            Some(Service::Missing { because }) => Some(because.clone()),
            _ => None,
        };
        return Some(Warning::LeftOut { hop, not_in: *which, because });
    }
    let other = all.iter().filter_map(|(_, service)| served(service)).find(|other| *other != backend);
    other.map(|other| Warning::Backend(hop, backend, other))
}

impl fmt::Display for CaptureSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::A => "A",
            Self::B => "B",
        })
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(a, b) => write!(f, "A was taken on {a}, B on {b}"),
            Self::Kernel(a, b) => write!(f, "A ran on Linux {a}, B on Linux {b}"),
            Self::Cpus(a, b) => write!(f, "A had {a} CPUs, B {b}"),
            Self::Settings(a, b) => {
                write!(f, "A was captured with {a}, B with {b}: their journeys are of different traffic")
            }
            Self::SettingsChanged(which, changes) => write!(
                f,
                "settings of {which} changed while it was recorded: {changes}. Its journeys are not of the same traffic all \
                 the time"
            ),
            Self::TooFewRuns(a, b) => write!(
                f,
                "recordings of A: {a}, of B: {b}. Recordings of the same thing differ too, and by how much takes at least \
                 {LEAST_RUNS} a side: no intervals and no advice. Next step: record more of each, as in \
                 `compare A1 A2 A3 -- B1 B2 B3`"
            ),
            Self::LeftOut { hop, not_in, because: None } => write!(f, "{hop} was off in {not_in}: left out"),
            Self::LeftOut { hop, not_in, because: Some(because) } => {
                write!(f, "{hop} could not be had in {not_in}: left out ({because})")
            }
            Self::Backend(hop, a, b) => {
                write!(f, "{hop} was taken by {a} and by {b}: part of a difference may be the probe's")
            }
            Self::OtherRoute { proto, route, other, n } => write!(
                f,
                "totals of {proto} are from {} to {}; {} journeys of A and {} of B were seen from {} to {}: left out of them",
                route.0, route.1, n.0, n.1, other.0, other.1
            ),
            Self::ServicesLeftOut(which, n) => {
                write!(f, "{n} requests of {which} are of services beyond the first {MOST_SERVICES}: left out")
            }
            Self::EventsLost(which, n) => {
                write!(f, "{n} events of {which} were lost: journeys around them are not measured")
            }
        }
    }
}

impl Serialize for Warning {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

//! What makes two captures hard to compare.

use super::Side;
use crate::hop::Hop;
use crate::node::{Backend, Coverage, Service};
use serde::{Serialize, Serializer};
use std::fmt;

/// Which of the two captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The first.
    A,
    /// The second.
    B,
}

/// Something that differs besides the times. Serialises as its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// Taken on two hosts.
    Host(String, String),
    /// Taken on two kernels.
    Kernel(String, String),
    /// Not as many CPUs.
    Cpus(u32, u32),
    /// A hop that only one of them has.
    LeftOut {
        /// Which hop.
        hop: Hop,
        /// Which capture does not have it.
        not_in: Which,
        /// Why it could not be had; `None` if it was not asked for.
        because: Option<String>,
    },
    /// A hop that two kinds of probe served.
    Backend(Hop, Backend, Backend),
    /// Events of one of them are missing.
    EventsLost(Which, u64),
}

/// Whatever differs.
pub(super) fn of(a: &Side, b: &Side) -> Vec<Warning> {
    let mut all = Vec::new();
    let (in_a, in_b) = (&a.info, &b.info);
    if in_a.host != in_b.host {
        all.push(Warning::Host(in_a.host.clone(), in_b.host.clone()));
    }
    if in_a.kernel != in_b.kernel {
        all.push(Warning::Kernel(in_a.kernel.clone(), in_b.kernel.clone()));
    }
    if in_a.cpus != in_b.cpus {
        all.push(Warning::Cpus(in_a.cpus, in_b.cpus));
    }
    all.extend(Hop::ALL.iter().filter_map(|hop| hops_differ(*hop, &in_a.coverage, &in_b.coverage)));
    for (which, lost) in [(Which::A, a.lost_events), (Which::B, b.lost_events)] {
        if lost > 0 {
            all.push(Warning::EventsLost(which, lost));
        }
    }
    all
}

fn hops_differ(hop: Hop, a: &Coverage, b: &Coverage) -> Option<Warning> {
    let because = |service: Option<&Service>| match service {
        Some(Service::Missing { because }) => Some(because.clone()),
        _ => None,
    };
    match (a.of(hop), b.of(hop)) {
        (Some(Service::Served { backend: a, .. }), Some(Service::Served { backend: b, .. })) => {
            (a != b).then_some(Warning::Backend(hop, *a, *b))
        }
        (Some(Service::Served { .. }), other) => {
            Some(Warning::LeftOut { hop, not_in: Which::B, because: because(other) })
        }
        (other, Some(Service::Served { .. })) => {
            Some(Warning::LeftOut { hop, not_in: Which::A, because: because(other) })
        }
        _ => None,
    }
}

impl fmt::Display for Which {
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
            Self::LeftOut { hop, not_in, because: None } => write!(f, "{hop} was off in {not_in}: left out"),
            Self::LeftOut { hop, not_in, because: Some(because) } => {
                write!(f, "{hop} could not be had in {not_in}: left out ({because})")
            }
            Self::Backend(hop, a, b) => {
                write!(
                    f,
                    "{hop} was taken by {a} in A and by {b} in B: part of a difference may be the probe's"
                )
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

//! The rooms that are tables.

use crate::lifeline::Lifeline;
use crate::probes::Probe;
use magscope_core::blame::Part;
use magscope_core::custom::ProbeHit;
use magscope_core::{Endpoint, Event, FlowId, Proto};

/// The rooms: what fills the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Room {
    /// Lanes and lifelines.
    #[default]
    Scope,
    /// The flows.
    Flows,
    /// The latency of every hop over time, as a heat map.
    Hops,
    /// The journeys.
    Journeys,
    /// The events as they came.
    Events,
    /// The clocks and how sure they are.
    Clock,
    /// Losses and overhead.
    Losses,
}

impl Room {
    /// Every room, in the order of their keys.
    pub const ALL: [Room; 7] =
        [Self::Scope, Self::Flows, Self::Hops, Self::Journeys, Self::Events, Self::Clock, Self::Losses];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scope => "scope",
            Self::Flows => "flows",
            Self::Hops => "hops",
            Self::Journeys => "journeys",
            Self::Events => "events",
            Self::Clock => "clock",
            Self::Losses => "losses",
        }
    }

    /// The room so many further on, in a circle.
    #[must_use]
    pub fn step(self, by: i8) -> Self {
        let now = Self::ALL.iter().position(|room| *room == self).unwrap_or(0) as isize;
        let at = (now + isize::from(by)).rem_euclid(Self::ALL.len() as isize);
        Self::ALL.get(at as usize).copied().unwrap_or_default()
    }
}

/// What flows are ordered by, the most of it first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowOrder {
    /// The time of its journeys in all.
    #[default]
    Blame,
    /// The 99th percentile of its journeys' times.
    P99,
    /// Payload bytes.
    Bytes,
    /// Journeys.
    Journeys,
    /// Journeys that were dropped or lost.
    Bad,
}

/// One direction of a connection, or of a pair of UDP sockets.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowRow {
    /// The flow as its sender sees it; where that was not seen, as its receiver does.
    pub flow: FlowId,
    /// TCP, UDP or another.
    pub proto: Proto,
    /// Sender and receiver.
    pub ends: Option<(Endpoint, Endpoint)>,
    /// From which node to which, in words.
    pub route: String,
    /// Sending and reading process: `pgbench`, `postgres`; empty where unknown.
    pub processes: (String, String),
    /// Journeys.
    pub journeys: u64,
    /// Of these, dropped or lost by the network.
    pub bad: u64,
    /// Of these, broken by events that the instrument lost: nothing is known of how they ended.
    pub broken: u64,
    /// Of these, sent more than once.
    pub resent: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// The times of its whole journeys.
    pub times: Percentiles,
    /// The part that took most of its time, and how much of it, 0 to 1.
    pub blame: Option<(Part, f64)>,
    /// The longest journey in each of equal stretches of lately, oldest first, nanoseconds; 0 where there was none.
    pub trend_max_ns: Vec<u64>,
    /// What the kernel added up of it itself, at one hop: all there is to know of a flow without journeys.
    pub summed: Option<SummedFlow>,
    /// The selected row.
    pub selected: bool,
}

/// What the kernel added up of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SummedFlow {
    /// Packets on the wire.
    pub packets: u64,
    /// Their payload bytes.
    pub bytes: u64,
    /// Packets a second in the newest interval.
    pub packets_per_s: f64,
    /// Payload bytes a second, likewise.
    pub bytes_per_s: f64,
}

use super::Percentiles;

/// The table of flows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowTable {
    /// What it is ordered by.
    pub order: FlowOrder,
    /// In that order.
    pub rows: Vec<FlowRow>,
    /// How many flows there are in all.
    pub flows: usize,
    /// Place of the first row among them.
    pub first: usize,
    /// Journeys of flows that have no row, because there were too many flows.
    pub left_out: u64,
    /// Whether the kernel added up any flow itself.
    pub summed: bool,
    /// Packets that it added up of flows that have no row.
    pub packets_left_out: u64,
}

/// The table of journeys of the journeys' room. Rows are the same as those below the picture: see
/// [`crate::Frame::table`].
#[derive(Clone, Debug, Default)]
pub struct JourneyTable<'a> {
    /// As many as asked for.
    pub rows: Vec<crate::Listed<'a>>,
    /// How many match in all, as far as they are kept.
    pub matching: usize,
    /// Index of the first row among those that match.
    pub first: usize,
}

/// What a row of the table of events is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What<'a> {
    /// An event of a hop.
    Event(&'a Event),
    /// A hit of a custom probe.
    Hit(&'a ProbeHit, &'a Probe),
}

/// An event, or a hit of a custom probe, as a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EventRow<'a> {
    /// The event or hit.
    pub what: What<'a>,
    /// Which recording it is of, 0 where there is one only.
    pub node: u16,
    /// Who: the thread's name, empty where the hop does not know.
    pub comm: &'a str,
    /// Both ends of its flow as the packet travels, where known.
    pub ends: Option<(Endpoint, Endpoint)>,
    /// The selected row.
    pub selected: bool,
    /// It belongs to the selected journey.
    pub of_journey: bool,
}

impl<'a> EventRow<'a> {
    /// When.
    pub const fn time_ns(&self) -> u64 {
        match self.what {
            What::Event(event) => event.time_ns,
            What::Hit(hit, _) => hit.time_ns,
        }
    }

    /// The hop or the custom probe.
    pub fn name(&self) -> &'a str {
        match self.what {
            What::Event(event) => event.hop.name(),
            What::Hit(_, probe) => &probe.name,
        }
    }

    /// The CPU.
    pub const fn cpu(&self) -> u16 {
        match self.what {
            What::Event(event) => event.cpu,
            What::Hit(hit, _) => hit.cpu,
        }
    }

    /// The thread; 0 where it is not known whose it was.
    pub const fn tid(&self) -> u32 {
        match self.what {
            What::Event(event) => event.tid,
            What::Hit(hit, probe) => {
                if probe.knows_process() {
                    hit.tid
                } else {
                    0
                }
            }
        }
    }

    /// Its protocol; 0 where a probe knows no packet and no socket.
    pub const fn proto(&self) -> Proto {
        match self.what {
            What::Event(event) => event.proto,
            What::Hit(hit, _) => hit.proto,
        }
    }

    /// Payload bytes.
    pub const fn len(&self) -> u32 {
        match self.what {
            What::Event(event) => event.len,
            What::Hit(hit, _) => hit.len,
        }
    }

    /// Whether it has no payload.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// First byte of its range, as [`Event::seq`].
    pub const fn seq(&self) -> u32 {
        match self.what {
            What::Event(event) => event.seq,
            What::Hit(hit, _) => hit.seq,
        }
    }

    /// The event, if it is one.
    pub const fn event(&self) -> Option<&'a Event> {
        match self.what {
            What::Event(event) => Some(event),
            What::Hit(..) => None,
        }
    }

    /// The values of a hit with their names, `len=1448 free=?`; of an event nothing.
    pub fn told(&self) -> String {
        match self.what {
            What::Event(_) => String::new(),
            What::Hit(hit, probe) => probe.asked.told(hit),
        }
    }
}

/// The table of events.
#[derive(Clone, Debug, Default)]
pub struct EventTable<'a> {
    /// As many as asked for, in order of time.
    pub rows: Vec<EventRow<'a>>,
    /// Events that are kept in all.
    pub kept: usize,
    /// Index of the first row among those kept.
    pub first: usize,
}

/// A place for a lifeline to be found again: a front end keeps these and not lifelines.
impl Lifeline {
    /// Tells one journey from another, also when it is read from a recording again (its number then may differ).
    pub fn key(&self) -> u64 {
        let journey = &self.journey;
        let words =
            [self.start_ns(), journey.tx_flow.0, journey.rx_flow.0, journey.range.start, journey.range.end];
        let fold = |hash: u64, word: &u64| {
            (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ (word >> 32)
        };
        words.iter().fold(0x5851_f42d_4c95_7f2d, fold)
    }
}

//! The views that are tables.

use super::Percentiles;
use crate::ends::{ends, ends_within};
use crate::format::count;
use crate::lifeline::Lifeline;
use crate::probes::Probe;
use magscope_core::blame::Part;
use magscope_core::custom::ProbeHit;
use magscope_core::{Endpoint, Event, FlowId, Proto};
use magscope_report::{GroupBy, GroupKey, Label, Role};

/// Sort key of the flow table, descending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowOrder {
    /// The time of its journeys in all.
    #[default]
    Time,
    /// The median of its journeys' times.
    P50,
    /// The 99th percentile.
    P99,
    /// The longest.
    Max,
    /// Payload bytes.
    Bytes,
    /// Journeys.
    Journeys,
    /// Journeys that were dropped or lost.
    Failed,
    /// Journeys broken by missed events.
    Broken,
    /// Journeys that were sent more than once.
    Resent,
}

impl FlowOrder {
    /// All, in the order of their command.
    pub const ALL: [Self; 9] = [
        Self::Time,
        Self::P50,
        Self::P99,
        Self::Max,
        Self::Bytes,
        Self::Journeys,
        Self::Failed,
        Self::Broken,
        Self::Resent,
    ];

    /// Its name on screens.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Time => "time in all",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Max => "max",
            Self::Bytes => "bytes",
            Self::Journeys => "journeys",
            Self::Failed => "failed",
            Self::Broken => "broken",
            Self::Resent => "resent",
        }
    }

    /// The title of its column.
    pub const fn column(self) -> &'static str {
        match self {
            Self::Time => "most of its time",
            other => other.words(),
        }
    }

    /// The order by a column; `None` for one that the table cannot be ordered by.
    pub fn by_column(title: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.column() == title)
    }

    /// The one after it, in a circle.
    #[must_use]
    pub fn next(self) -> Self {
        let at = Self::ALL.iter().position(|order| *order == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }
}

/// Identity of a group of flows: its journeys are of one protocol.
pub type GroupId = (GroupKey, Proto);

/// A group of flows, as a row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowGroup {
    /// Its identity.
    pub id: GroupId,
    /// Its name: `to :443`, `nginx@web`.
    pub words: String,
    /// The end of its journeys; `None` for services, which have both.
    pub role: Option<Role>,
    /// What it is.
    pub label: Label,
    /// Number of its flows; one that was left out of the table and returned counts again.
    pub flows: u64,
}

impl FlowGroup {
    /// `tcp to :443`, `tcp nginx@web reads`.
    pub fn name(&self) -> String {
        let role = self.role.map_or_else(String::new, |role| format!(" {}", role.name()));
        format!("{} {}{role}", self.id.1, self.words)
    }
}

/// One direction of a connection, or of a pair of UDP sockets; or a group of these.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowRow {
    /// The flow from the sender's side; from the receiver's side if the sender was not seen. None for a group.
    pub flow: FlowId,
    /// The group, if it is one.
    pub group: Option<FlowGroup>,
    /// TCP, UDP or another.
    pub proto: Proto,
    /// Sender and receiver; `None` for a group.
    pub ends: Option<(Endpoint, Endpoint)>,
    /// Nodes of sender and receiver, in words; empty for a group with several.
    pub route: String,
    /// Sending and reading process: `pgbench`, `postgres`; empty where unknown, `several` for a group with such.
    pub processes: (String, String),
    /// Journeys.
    pub journeys: u64,
    /// Of these, dropped or lost by the network.
    pub bad: u64,
    /// Of these, broken by events that the instrument lost: their ending is unknown.
    pub broken: u64,
    /// Of these, sent more than once.
    pub resent: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// The times of its complete journeys.
    pub times: Percentiles,
    /// The part with most of its time, and the fraction of the time, 0 to 1.
    pub blame: Option<(Part, f64)>,
    /// The longest journey in each of equal recent stretches, oldest first, nanoseconds; 0 without one.
    pub trend_max_ns: Vec<u64>,
    /// The kernel's sums of the flow at one hop: the only data of a flow without journeys.
    pub summed: Option<SummedFlow>,
    /// The selected row.
    pub selected: bool,
}

impl FlowRow {
    /// `tcp 10.0.0.1:4000→10.0.0.2:80` with this arrow, or the name of the group.
    pub fn name(&self, arrow: &str) -> String {
        if let Some(group) = &self.group {
            return group.name();
        }
        self.ends.map_or_else(|| format!("{} {}", self.proto, self.route), |of| ends(of, self.proto, arrow))
    }

    /// The same within `room` columns, if less of it names the flow as well.
    pub fn name_within(&self, arrow: &str, room: usize) -> String {
        match self.ends {
            Some(of) if self.group.is_none() => ends_within(of, self.proto, arrow, room),
            _ => self.name(arrow),
        }
    }
}

/// The kernel's sums of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SummedFlow {
    /// Packets on the wire.
    pub packets: u64,
    /// Their payload bytes.
    pub bytes: u64,
    /// Packets per second in the newest interval.
    pub packets_per_s: f64,
    /// Payload bytes per second, likewise.
    pub bytes_per_s: f64,
}

/// The table of flows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowTable {
    /// Sort key.
    pub order: FlowOrder,
    /// What a row is.
    pub by: GroupBy,
    /// Rows in that order.
    pub rows: Vec<FlowRow>,
    /// Total number of rows.
    pub total: usize,
    /// Place of the first row among them.
    pub first: usize,
    /// Journeys without a row, because there were too many flows or groups.
    pub left_out: u64,
    /// True if any flow has the kernel's sums.
    pub summed: bool,
    /// Packets in sums of flows without a row.
    pub packets_left_out: u64,
}

/// The table of the view of journeys. Its rows are those below the picture: see [`crate::Frame::table`].
#[derive(Clone, Debug, Default)]
pub struct JourneyTable<'a> {
    /// The requested number of rows.
    pub rows: Vec<crate::Listed<'a>>,
    /// Number of matches among the journeys in memory.
    pub matching: usize,
    /// Index of the first row among the matches.
    pub first: usize,
}

/// The kind of a row of the event table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EventRowKind<'a> {
    /// An event of a hop.
    Event(&'a Event),
    /// A hit of a custom probe.
    Hit(&'a ProbeHit, &'a Probe),
}

/// An event, or a hit of a custom probe, as a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EventRow<'a> {
    /// The event or hit.
    pub what: EventRowKind<'a>,
    /// Index of the recording, 0 if there is one only.
    pub node: u16,
    /// Name of the thread; empty if the hop has none.
    pub comm: &'a str,
    /// Both ends of its flow in the direction of the packet, if available.
    pub ends: Option<(Endpoint, Endpoint)>,
    /// The selected row.
    pub selected: bool,
    /// True if it belongs to the selected journey.
    pub of_journey: bool,
}

impl<'a> EventRow<'a> {
    /// Instant.
    pub const fn time_ns(&self) -> u64 {
        match self.what {
            EventRowKind::Event(event) => event.time_ns,
            EventRowKind::Hit(hit, _) => hit.time_ns,
        }
    }

    /// The hop or the custom probe.
    pub fn name(&self) -> &'a str {
        match self.what {
            EventRowKind::Event(event) => event.hop.name(),
            EventRowKind::Hit(_, probe) => &probe.name,
        }
    }

    /// The CPU.
    pub const fn cpu(&self) -> u16 {
        match self.what {
            EventRowKind::Event(event) => event.cpu,
            EventRowKind::Hit(hit, _) => hit.cpu,
        }
    }

    /// Thread id; 0 if unknown.
    pub const fn tid(&self) -> u32 {
        match self.what {
            EventRowKind::Event(event) => event.tid,
            EventRowKind::Hit(hit, probe) => {
                if probe.knows_process() {
                    hit.tid
                } else {
                    0
                }
            }
        }
    }

    /// Protocol; 0 for a probe without packet and socket.
    pub const fn proto(&self) -> Proto {
        match self.what {
            EventRowKind::Event(event) => event.proto,
            EventRowKind::Hit(hit, _) => hit.proto,
        }
    }

    /// Payload bytes.
    pub const fn len(&self) -> u32 {
        match self.what {
            EventRowKind::Event(event) => event.len,
            EventRowKind::Hit(hit, _) => hit.len,
        }
    }

    /// True without payload.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// First byte of its range, as [`Event::seq`].
    pub const fn seq(&self) -> u32 {
        match self.what {
            EventRowKind::Event(event) => event.seq(),
            EventRowKind::Hit(hit, _) => hit.seq,
        }
    }

    /// The event, if it is one.
    pub const fn event(&self) -> Option<&'a Event> {
        match self.what {
            EventRowKind::Event(event) => Some(event),
            EventRowKind::Hit(..) => None,
        }
    }

    /// The values of a hit with their names, `len=1448 free=?`; empty for an event.
    pub fn values_text(&self) -> String {
        match self.what {
            EventRowKind::Event(_) => String::new(),
            EventRowKind::Hit(hit, probe) => probe.asked.text(hit),
        }
    }
}

/// The table of events.
#[derive(Clone, Debug, Default)]
pub struct EventTable<'a> {
    /// The requested number of rows, in order of time.
    pub rows: Vec<EventRow<'a>>,
    /// Total number of events in memory.
    pub total: usize,
    /// Index of the first row among those in memory.
    pub first: usize,
    /// True if those in memory are only the first of the stretch that is shown.
    pub is_part: bool,
}

impl EventTable<'_> {
    /// Which rows these are of how many, in words.
    pub fn extent(&self) -> String {
        let (first, last) = (count(self.first as u64 + 1), count((self.first + self.rows.len()) as u64));
        let total = count(self.total as u64);
        if self.is_part {
            format!("{first}–{last} of the first {total} of this stretch; zoom in for later ones")
        } else {
            format!("{first}–{last} of {total} in memory")
        }
    }
}

/// Identity of a lifeline: a front end stores the key and not the lifeline.
impl Lifeline {
    /// Identifies a journey, also after a second read of the recording, when its number may differ.
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

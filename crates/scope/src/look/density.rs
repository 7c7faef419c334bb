//! Column pictures: lanes at a coarse scale, the complete session, the heat map; and single marks.

use super::Percentiles;
use super::readings::{Span, span_words};
use crate::lane::Place;
use magscope_core::{Hop, Proto};

/// Counts of one hop in one column of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Journeys that passed.
    pub count: u64,
    /// The shortest latency from the hop below, nanoseconds; 0 if `count` is.
    pub min_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// A lane from afar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneRow {
    /// The lane.
    pub place: Place,
    /// One cell per column, from the left.
    pub cells: Vec<Cell>,
}

/// [`crate::Action::ChooseJourney`] takes this key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exemplar {
    /// What [`crate::Action::ChooseJourney`] takes.
    pub key: u64,
    /// Instant of its beginning.
    pub start_ns: u64,
    /// Duration.
    pub total_ns: u64,
    /// Position of its beginning on the picture: 0 the left edge, 1 the right edge.
    pub x: f64,
}

/// The picture for too many lifelines: counts by lane and column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Density {
    /// Time at the left edge.
    pub from_ns: u64,
    /// Time at the right edge.
    pub to_ns: u64,
    /// The lanes, top first, as in [`crate::Frame::lanes`].
    pub lanes: Vec<LaneRow>,
    /// The largest count of any cell, at least 1, to scale shades by.
    pub max_count: u64,
    /// The slowest journeys, by time.
    pub exemplars: Vec<Exemplar>,
    /// Width of the source tiles, nanoseconds: the resolution of all edges.
    pub tile_ns: u64,
}

/// The kind of an isolated event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PointKind {
    /// The kernel dropped a packet.
    Drop {
        /// Index of the recording.
        node: u16,
        /// That kernel's number of the drop reason.
        reason: u32,
    },
    /// A byte range was sent again.
    Retransmit,
    /// The instrument lost this many events.
    EventLoss(u64),
    /// A socket's receive buffer was full.
    SocketFull,
    /// The capture settings changed.
    Change,
}

/// An isolated event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Instant. For lost events, the last possible instant.
    pub time_ns: u64,
    /// The kind of event.
    pub kind: PointKind,
    /// The hop of the drawn mark, if any.
    pub hop: Option<Hop>,
    /// Position on the picture: 0 the left edge, 1 the right edge.
    pub x: f64,
}

/// A column of the minimap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MinimapColumn {
    /// Journeys that began.
    pub journeys: u64,
    /// The slowest of them, nanoseconds.
    pub max_ns: u64,
    /// Hits from the kernel's sums, where no events arrived.
    pub summed: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Events that the instrument lost.
    pub missed: u64,
    /// True for time of a recording that the survey has not read yet.
    pub unread: bool,
}

/// The complete time line in one row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Minimap {
    /// Time at the left edge.
    pub from_ns: u64,
    /// Time at the right edge.
    pub to_ns: u64,
    /// Left to right.
    pub columns: Vec<MinimapColumn>,
    /// Left and right edge of the picture, 0 to 1.
    pub view: (f64, f64),
}

/// A row of the heat map.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatRow {
    /// Protocol of the journeys. `None` for the kernel's sums, and if all rows have one protocol.
    pub proto: Option<Proto>,
    /// Of which time.
    pub span: Span,
    /// Over the whole row.
    pub times: Percentiles,
    /// The largest count of any cell of the row, at least 1.
    pub max_count: u32,
    /// Column after column, in each the classes.
    cells: Vec<u32>,
    classes: usize,
}

impl HeatRow {
    /// A row of these cells: column after column, in each so many classes.
    pub(crate) fn new(span: Span, times: Percentiles, cells: Vec<u32>, classes: usize) -> Self {
        let max_count = cells.iter().copied().max().unwrap_or(1).max(1);
        HeatRow { proto: None, span, times, max_count, cells, classes }
    }

    /// The same of journeys of one protocol.
    pub(crate) fn of(self, proto: Option<Proto>) -> Self {
        HeatRow { proto, ..self }
    }

    /// Which span it is, in words.
    pub fn words(&self, arrow: &str) -> String {
        span_words(self.proto, self.span, arrow)
    }

    /// Counts by class of latency, the shortest first, one chunk per column of time from the left.
    pub fn columns(&self) -> std::slice::ChunksExact<'_, u32> {
        self.cells.chunks_exact(self.classes.max(1))
    }

    /// One of these columns; empty if it does not exist.
    pub fn column(&self, at: usize) -> &[u32] {
        let from = at.saturating_mul(self.classes);
        self.cells.get(from..from.saturating_add(self.classes)).unwrap_or_default()
    }

    /// Number of latency classes.
    pub const fn classes(&self) -> usize {
        self.classes
    }
}

/// Times between hops from the kernel's sums: of the same packet or socket, not of journeys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SumMap {
    /// The pairs in path order. Percentiles are at most a sixteenth too long. An interval that overlaps the
    /// picture counts completely.
    pub map: HeatMap,
    /// Length of the longest interval in the picture, nanoseconds. Times within an interval are unknown.
    pub interval_ns: u64,
    /// True if the selection does not apply to the sums: they cover everything.
    pub narrowed: bool,
}

/// Latency by hop pair and time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatMap {
    /// Time at the left edge.
    pub from_ns: u64,
    /// Time at the right edge.
    pub to_ns: u64,
    /// Edges of the classes of latency, nanoseconds: one more than classes, growing by a factor.
    pub edges_ns: Vec<u64>,
    /// The whole journeys by protocol, then hop pairs in path order.
    pub rows: Vec<HeatRow>,
    /// The largest count of any cell, at least 1.
    pub max_count: u32,
}

//! A recording behind the scope: the parts in memory and the parts to read.
//!
//! A recording is read twice. A *survey* reads all of it once and fills the pyramid, the tables and the list of
//! the slowest. A *stretch* is read again to show single journeys. The caller reads; see
//! [`crate::Scope::survey`] and [`crate::Scope::wants`].

use crate::lifeline::Lifeline;
use crate::scan::Scan;
use magscope_core::custom::ProbeHit;
use magscope_core::head::PayloadHead;
use magscope_core::{Event, Journey};

/// Maximum number of lifelines of a stretch: more are drawn as density.
pub const MOST_JOURNEYS: usize = 5_000;
/// Maximum number of journeys read of a stretch: enough for a density that is exact to the column.
pub const MOST_SCANNED: usize = 20_000;
/// Maximum number of events of a stretch.
pub const MOST_EVENTS: usize = 1 << 16;
/// Maximum number of payload heads of a stretch.
pub use crate::journal::MOST_HEADS;
/// Maximum number of custom probe hits of a stretch.
pub use crate::journal::MOST_HITS;

/// A stretch of the time line, both ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// First instant.
    pub from_ns: u64,
    /// Last instant.
    pub to_ns: u64,
}

impl Window {
    /// The shortest stretch that holds both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Window { from_ns: self.from_ns.min(other.from_ns), to_ns: self.to_ns.max(other.to_ns) }
    }

    /// True if another window lies completely in this one.
    pub const fn holds(&self, from_ns: u64, to_ns: u64) -> bool {
        self.from_ns <= from_ns && to_ns <= self.to_ns
    }
}

/// The data of a stretch.
#[derive(Clone, Debug, Default)]
pub struct Stretch {
    /// The requested stretch.
    pub window: Window,
    /// The journeys that overlap it, at most [`MOST_SCANNED`].
    pub journeys: Vec<Journey>,
    /// Its events by recording, in order of time, at most [`MOST_EVENTS`].
    pub events: Vec<(u16, Event)>,
    /// Its custom probe hits by recording, in order of time, at most [`MOST_HITS`].
    pub hits: Vec<(u16, ProbeHit)>,
    /// Its payload heads by recording, in order of time, at most [`MOST_HEADS`].
    pub heads: Vec<(u16, PayloadHead)>,
    /// True if the stretch has more journeys.
    pub truncated: bool,
    /// True if these are only the journeys that a filter or a pick chose.
    pub is_chosen: bool,
}

/// The scope's state for a recording.
#[derive(Debug, Default)]
pub struct Recorded {
    /// The complete recording.
    pub all: Window,
    /// The time in which it was recorded, with and without events: at least that of its events.
    pub observed: Window,
    /// Number of the survey; a new one discards the previous one.
    pub survey: u64,
    /// End of the survey so far.
    pub read_ns: u64,
    /// The stretch that was read last.
    pub filled: Option<Filled>,
    /// Wall time since the picture was taken, nanoseconds.
    pub held_ns: u64,
}

impl Recorded {
    /// End of what the survey has counted so far: with the time after the last event, if it has ended.
    pub const fn counted_to_ns(&self) -> u64 {
        if self.read_ns >= self.all.to_ns { self.observed.to_ns } else { self.read_ns }
    }

    /// The time that the survey has counted so far, nanoseconds: without events too, if it has ended.
    pub const fn counted_ns(&self) -> u64 {
        self.counted_to_ns().saturating_sub(self.observed.from_ns)
    }
}

/// A stretch in the scope's memory.
#[derive(Debug, Default)]
pub struct Filled {
    /// The window.
    pub window: Window,
    /// Its journeys; of too many, the slowest.
    pub lines: Vec<Lifeline>,
    /// True if the stretch has more journeys.
    pub truncated: bool,
    /// True if these are only the journeys that a filter or a pick chose.
    pub is_chosen: bool,
    /// All journeys hit by hit, if they are too many for lines and all were read.
    pub scan: Option<Scan>,
    /// True if the journal has every event of the stretch.
    pub has_events: bool,
    /// True if the journal has every hit of the stretch.
    pub has_hits: bool,
    /// True if the journal has every payload head of the stretch.
    pub has_heads: bool,
}

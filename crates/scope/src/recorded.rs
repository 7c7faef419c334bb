//! A recording below the scope: what was read of it and what is wanted.
//!
//! It is read twice. A *survey* goes through all of it once and fills the pyramid, the tables and the list of the slowest; a
//! *stretch* is read again whenever single journeys are to be seen. Whoever feeds the scope reads; see [`crate::Scope::survey`] and
//! [`crate::Scope::wants`].

use crate::lifeline::Lifeline;
use crate::scan::Scan;
use magscope_core::custom::ProbeHit;
use magscope_core::head::PayloadHead;
use magscope_core::{Event, Journey};

/// Journeys of a stretch that are kept as lifelines at most: more of them are drawn as density.
pub const MOST_JOURNEYS: usize = 5_000;
/// Journeys of a stretch that are read at most: so many make a density that is exact to the column.
pub const MOST_SCANNED: usize = 20_000;
/// Events of a stretch that are kept at most.
pub const MOST_EVENTS: usize = 1 << 16;
/// Heads of payload of a stretch that are kept at most.
pub use crate::journal::MOST_HEADS;
/// Hits of custom probes of a stretch that are kept at most.
pub use crate::journal::MOST_HITS;

/// A stretch of the time line, both ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Its first instant.
    pub from_ns: u64,
    /// Its last one.
    pub to_ns: u64,
}

impl Window {
    /// Whether all of another lies in it.
    pub const fn holds(&self, from_ns: u64, to_ns: u64) -> bool {
        self.from_ns <= from_ns && to_ns <= self.to_ns
    }
}

/// What was read of a stretch.
#[derive(Clone, Debug, Default)]
pub struct Stretch {
    /// The stretch that was asked for.
    pub window: Window,
    /// Its journeys, those that overlap it, at most [`MOST_SCANNED`].
    pub journeys: Vec<Journey>,
    /// Its events by recording, in order of time, at most [`MOST_EVENTS`].
    pub events: Vec<(u16, Event)>,
    /// Its hits of custom probes by recording, in order of time, at most [`MOST_HITS`].
    pub hits: Vec<(u16, ProbeHit)>,
    /// Its heads of payload by recording, in order of time, at most [`MOST_HEADS`].
    pub heads: Vec<(u16, PayloadHead)>,
    /// There were more journeys.
    pub truncated: bool,
}

/// What the scope keeps of a recording besides.
#[derive(Debug, Default)]
pub struct Recorded {
    /// All of it.
    pub all: Window,
    /// Number of the survey; a new one forgets the one before.
    pub survey: u64,
    /// Up to where the survey has come.
    pub read_ns: u64,
    /// The stretch that was read last.
    pub filled: Option<Filled>,
    /// Wall time since the picture was taken, nanoseconds.
    pub held_ns: u64,
}

/// A stretch as the scope keeps it.
#[derive(Debug, Default)]
pub struct Filled {
    /// Which.
    pub window: Window,
    /// Its journeys; of too many the slowest.
    pub lines: Vec<Lifeline>,
    /// There were more.
    pub truncated: bool,
    /// All of them hit by hit, where they are too many for lines and were all read.
    pub scan: Option<Scan>,
    /// Every hit of it is in the journal.
    pub has_hits: bool,
    /// Every head of payload as well.
    pub has_heads: bool,
}

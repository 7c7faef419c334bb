//! Sorts marks by time. Marks arrive at the end of their journeys. The buffer is bounded; later arrivals are
//! counted.

use crate::mark::{Mark, MarkKind};

/// Number of held marks; the maximum is twice that.
const HELD: usize = 128 << 10;

/// Puts marks in order.
#[derive(Default)]
pub struct Order {
    held: Vec<Mark>,
    /// The latest emitted time.
    at_ns: Option<i64>,
    /// Marks that arrived after later ones were emitted.
    late: u64,
}

impl Order {
    /// Adds a mark.
    pub fn push(&mut self, mark: Mark) {
        self.held.push(mark);
    }

    /// True if the buffer is full.
    pub fn is_full(&self) -> bool {
        self.held.len() >= 2 * HELD
    }

    /// Emits the older half, or all.
    pub fn drain<E>(&mut self, all: bool, mut give: impl FnMut(Mark) -> Result<(), E>) -> Result<(), E> {
        // The input is nearly sorted: each journey is sorted, and journeys end in sequence.
        self.held.sort_by_key(|mark| mark.ns);
        let many = if all { self.held.len() } else { HELD.min(self.held.len()) };
        for mark in self.held.drain(..many) {
            // A span of a request comes seconds after its begin, and readers take it anywhere.
            let is_span = matches!(mark.what, MarkKind::Request(_));
            self.late += u64::from(!is_span && self.at_ns.is_some_and(|at| mark.ns < at));
            self.at_ns = Some(self.at_ns.map_or(mark.ns, |at| at.max(mark.ns)));
            give(mark)?;
        }
        Ok(())
    }

    /// Number of marks that arrived too late.
    pub fn late(&self) -> u64 {
        self.late
    }
}

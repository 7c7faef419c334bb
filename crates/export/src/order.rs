//! Marks come when their journeys end; files want them in order of time. Bounded: what comes later than that is counted.

use crate::mark::Mark;

/// Marks held back, at most twice as many.
const HELD: usize = 128 << 10;

/// Puts marks in order.
#[derive(Default)]
pub struct Order {
    held: Vec<Mark>,
    /// The latest time that was given out.
    at_ns: Option<i64>,
    /// Marks that came after later ones had been given out.
    late: u64,
}

impl Order {
    /// Takes a mark.
    pub fn push(&mut self, mark: Mark) {
        self.held.push(mark);
    }

    /// Whether there is enough to give out.
    pub fn is_full(&self) -> bool {
        self.held.len() >= 2 * HELD
    }

    /// Gives out the older half, or all.
    pub fn drain<E>(&mut self, all: bool, mut give: impl FnMut(Mark) -> Result<(), E>) -> Result<(), E> {
        // Nearly in order already: each journey is, and they end one after the other.
        self.held.sort_by_key(|mark| mark.ns);
        let many = if all { self.held.len() } else { HELD.min(self.held.len()) };
        for mark in self.held.drain(..many) {
            self.late += u64::from(self.at_ns.is_some_and(|at| mark.ns < at));
            self.at_ns = Some(self.at_ns.map_or(mark.ns, |at| at.max(mark.ns)));
            give(mark)?;
        }
        Ok(())
    }

    /// How many came too late to stand in order.
    pub fn late(&self) -> u64 {
        self.late
    }
}

//! When records were lost, for as long back as a window can reach.

use std::collections::VecDeque;

/// Losses within this time of each other share an entry.
const STEP_NS: u64 = 100_000_000;
/// Maximum number of entries: one hour. Older losses count with the oldest.
const MOST: usize = 36_000;

/// Lost records by time.
#[derive(Clone, Debug, Default)]
pub struct Losses(VecDeque<(u64, u64)>);

impl Losses {
    /// Adds `count` losses up to an instant.
    pub fn add(&mut self, at_ns: u64, count: u64) {
        match self.0.back_mut().filter(|(last_ns, _)| at_ns < last_ns.saturating_add(STEP_NS)) {
            Some((_, lost)) => *lost = lost.saturating_add(count),
            None => self.0.push_back((at_ns, count)),
        }
        if self.0.len() > MOST {
            self.0.pop_front();
        }
    }

    /// Losses since that instant, or up to a step before it: an upper bound.
    pub fn since(&self, ns: u64) -> u64 {
        let from_ns = ns.saturating_sub(STEP_NS);
        self.0.iter().rev().take_while(|(at_ns, _)| *at_ns >= from_ns).map(|(_, lost)| lost).sum()
    }
}

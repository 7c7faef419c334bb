//! The scope's memory of journeys: the most recent, the slowest of the last half minute, the failed ones, and those of
//! the slowest requests.
//!
//! All are bounded by number, about half a kilobyte each. Only journeys with a seen end can be among the
//! slowest: for others the end is unknown.

use crate::lifeline::Lifeline;
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of recent journeys.
pub const RECENT: usize = 16_384;
/// Maximum number of slowest journeys.
pub const SLOWEST: usize = 32;
/// Maximum number of dropped and lost journeys.
pub const BAD: usize = 64;
/// Maximum number of stretches without stored journeys.
const MOST_GAPS: usize = 64;
/// Time in the list of the slowest, nanoseconds of event time.
pub const SLOWEST_FOR_NS: u64 = 30_000_000_000;

/// The journeys in a scope's memory.
#[derive(Default)]
pub struct Memory {
    recent: VecDeque<Lifeline>,
    /// Of those that may be listed.
    slowest: Slowest,
    /// Of all.
    slowest_of_all: Slowest,
    bad: VecDeque<Lifeline>,
    /// The last journeys of the slowest requests, by the number of the exchange.
    of_requests: BTreeMap<u64, Vec<Lifeline>>,
    /// Journeys that ended up to here are not all among the recent ones.
    forgotten_ns: u64,
    /// Stretches in which journeys ended that were left out while the picture was stopped: the first end and the last,
    /// oldest first. Of too many, the two oldest are one.
    gaps: VecDeque<(u64, u64)>,
    /// The last journey was left out so.
    is_in_gap: bool,
}

/// The slowest journeys, slowest first.
#[derive(Default)]
struct Slowest(Vec<Lifeline>);

impl Slowest {
    fn keep(&mut self, line: &Lifeline) {
        let total = line.total_ns();
        if self.0.len() >= SLOWEST {
            if self.0.last().is_some_and(|last| last.total_ns() >= total) {
                return;
            }
            self.0.pop();
        }
        let at = self.0.partition_point(|other| other.total_ns() >= total);
        self.0.insert(at, line.clone());
    }

    fn age(&mut self, now_ns: u64) {
        self.0.retain(|line| line.end_ns().saturating_add(SLOWEST_FOR_NS) >= now_ns);
    }
}

impl Memory {
    /// Stores a journey. `listed` allows it among the slowest.
    pub fn push(&mut self, line: Lifeline, listed: bool) {
        self.is_in_gap = false;
        if line.is_bad() {
            if self.bad.len() >= BAD {
                self.bad.pop_front();
            }
            self.bad.push_back(line.clone());
        }
        if line.journey.verdict.is_whole() {
            self.slowest_of_all.keep(&line);
            if listed {
                self.slowest.keep(&line);
            }
        }
        if self.recent.len() >= RECENT
            && let Some(oldest) = self.recent.pop_front()
        {
            self.leave_out(&oldest);
        }
        self.recent.push_back(line);
    }

    /// A journey is not among the recent ones.
    pub fn leave_out(&mut self, line: &Lifeline) {
        self.forgotten_ns = self.forgotten_ns.max(line.end_ns().saturating_add(1));
    }

    /// Leaves out a journey while the picture is stopped.
    pub fn skip(&mut self, line: &Lifeline) {
        self.leave_out(line);
        let end_ns = line.end_ns();
        match self.gaps.back_mut().filter(|_| self.is_in_gap) {
            Some((from_ns, to_ns)) => (*from_ns, *to_ns) = ((*from_ns).min(end_ns), (*to_ns).max(end_ns)),
            None => self.gaps.push_back((end_ns, end_ns)),
        }
        self.is_in_gap = true;
        if self.gaps.len() > MOST_GAPS
            && let (Some((from_ns, _)), Some(next)) = (self.gaps.pop_front(), self.gaps.front_mut())
        {
            next.0 = next.0.min(from_ns);
        }
    }

    /// True if journeys of a stretch were left out while the picture was stopped.
    pub fn has_gap(&self, from_ns: u64, to_ns: u64) -> bool {
        self.gaps.iter().any(|(first_ns, last_ns)| *first_ns <= to_ns && from_ns <= *last_ns)
    }

    /// Since when every journey that began is still among the recent ones.
    pub const fn complete_from_ns(&self) -> u64 {
        self.forgotten_ns
    }

    /// Evicts slow journeys that ended too long before `now_ns`.
    pub fn age(&mut self, now_ns: u64) {
        self.slowest.age(now_ns);
        self.slowest_of_all.age(now_ns);
    }

    /// Selects the slowest again from the stored journeys, by another rule.
    pub fn relist(&mut self, mut listed: impl FnMut(&Lifeline) -> bool) {
        let before = std::mem::take(&mut self.slowest.0);
        let lines = before.iter().chain(&self.slowest_of_all.0).chain(&self.recent);
        for line in lines.filter(|line| line.journey.verdict.is_whole() && listed(line)) {
            if !self.slowest.0.iter().any(|other| other.key() == line.key()) {
                self.slowest.keep(line);
            }
        }
    }

    /// The most recent, newest first.
    pub fn recent(&self) -> impl Iterator<Item = &Lifeline> {
        self.recent.iter().rev()
    }

    /// The slowest, slowest first.
    pub fn slowest(&self) -> &[Lifeline] {
        &self.slowest.0
    }

    /// Dropped and lost ones, newest first.
    pub fn bad(&self) -> impl Iterator<Item = &Lifeline> {
        self.bad.iter().rev()
    }

    /// All journeys in memory; some occur twice.
    pub fn all(&self) -> impl Iterator<Item = &Lifeline> {
        let of_requests = self.of_requests.values().flatten();
        self.slowest.0.iter().chain(self.bad()).chain(of_requests).chain(self.recent())
    }

    /// Keeps the journeys of an exchange for which `is_of` holds.
    pub fn keep_for_request(&mut self, exchange: u64, is_of: impl Fn(&Lifeline) -> bool) {
        let lines: Vec<Lifeline> = self.recent().filter(|line| is_of(line)).cloned().collect();
        self.of_requests.insert(exchange, lines);
    }

    /// Forgets the journeys of other exchanges.
    pub fn retain_requests(&mut self, mut is_listed: impl FnMut(u64) -> bool) {
        self.of_requests.retain(|exchange, _| is_listed(*exchange));
    }

    /// Instant at which the oldest of the recent ones began, after the first eviction.
    pub fn reaches_back_to(&self) -> Option<u64> {
        self.recent.front().filter(|_| self.recent.len() >= RECENT).map(Lifeline::start_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifeline::tests::lifeline;
    use magscope_core::{Hop, Verdict};

    fn lasting(id: u64, ns: u64) -> Lifeline {
        lifeline(id, &[(Hop::AppSend, id), (Hop::AppRecv, id + ns)])
    }

    #[test]
    fn memory_is_bounded_and_the_slowest_stay() {
        let mut memory = Memory::default();
        for id in 0..40_000 {
            let ns = if id == 17 { 1_000_000 } else { id % 100 };
            memory.push(lasting(id, ns), true);
        }
        assert_eq!(memory.recent().count(), RECENT);
        assert_eq!(memory.slowest().len(), SLOWEST);
        assert_eq!(memory.slowest()[0].id(), 17);
        assert!(memory.slowest().is_sorted_by(|a, b| a.total_ns() >= b.total_ns()));
        let in_memory = |id| memory.all().any(|line| line.id() == id);
        assert!(in_memory(17) && !in_memory(3) && memory.reaches_back_to() == Some(40_000 - RECENT as u64));
        memory.age(2 * SLOWEST_FOR_NS);
        assert!(memory.slowest().is_empty());
    }

    #[test]
    fn what_is_left_out_is_a_gap() {
        let mut memory = Memory::default();
        memory.push(lasting(10, 5), true);
        for id in [20, 30] {
            memory.skip(&lasting(id, 5));
        }
        memory.push(lasting(40, 5), true);
        memory.skip(&lasting(50, 5));
        let gaps =
            [(0, 15), (0, 25), (26, 30), (36, 54), (55, 60), (56, 90)].map(|(a, b)| memory.has_gap(a, b));
        assert_eq!(gaps, [false, true, true, false, true, false]);
        for id in 0..200 {
            memory.push(lasting(1_000 * id + 900, 1), true);
            memory.skip(&lasting(1_000 * id + 950, 1));
        }
        assert!(memory.gaps.len() <= MOST_GAPS && memory.has_gap(25, 25) && !memory.has_gap(199_000, 199_900));
    }

    #[test]
    fn the_list_follows_the_filter() {
        let mut memory = Memory::default();
        for id in 0..100 {
            memory.push(lasting(id, id), id % 2 == 0);
        }
        assert_eq!(memory.slowest()[0].id(), 98);
        memory.relist(|line| line.id() % 2 == 1);
        assert_eq!(memory.slowest()[0].id(), 99);
        assert!(memory.slowest().iter().all(|line| line.id() % 2 == 1));
    }

    #[test]
    fn what_went_wrong_is_listed_apart() {
        let mut memory = Memory::default();
        let mut dropped = lasting(1, 5);
        dropped.journey.verdict = Verdict::Dropped { hop: Hop::DevXmit, reason: 2 };
        memory.push(dropped, true);
        assert!(memory.slowest().is_empty(), "its end is not known");
        for id in 2..10_000 {
            memory.push(lasting(id, 5), false);
        }
        assert_eq!(memory.bad().map(Lifeline::id).collect::<Vec<_>>(), [1]);
    }
}

//! Level 0, forward and backward: the minimum of all cones at every instant.

use super::cones::Point;
use super::drift::{Drift, Micro};
use std::ops::Range;

/// The lower envelope of upper bounds that open with ρ to both sides.
///
/// It stores the constraints that no other implies, in order of time. Among those the bound at an instant is
/// that of one of its two neighbours. So a query costs a binary search, and a constraint in order of time costs
/// amortised O(1).
#[derive(Clone, Debug, Default)]
pub(super) struct Envelope {
    points: Vec<Point>,
}

impl Envelope {
    /// Adds a constraint, in any order of time; beyond `most`, every second one is discarded. Returns the
    /// number discarded.
    pub(super) fn push(&mut self, point: Point, drift: Drift, most: usize) -> u64 {
        let implies = |by: &Point, p: &Point| by.bound_at(p.at_ns, drift) <= drift.grown(p.value_ns, 0);
        let next = self.points.partition_point(|p| p.at_ns <= point.at_ns);
        let neighbours = [next.checked_sub(1), Some(next)];
        if neighbours.into_iter().flatten().filter_map(|i| self.points.get(i)).any(|by| implies(by, &point)) {
            return 0;
        }
        let (before, after) = self.points.split_at(next);
        let from = next - before.iter().rev().take_while(|p| implies(&point, p)).count();
        let to = next + after.iter().take_while(|p| implies(&point, p)).count();
        self.points.splice(from..to, [point]);
        if self.points.len() > most.max(2) { self.thin(drift) } else { 0 }
    }

    /// Of every two neighbours keeps the one whose removal would widen the bounds more.
    fn thin(&mut self, drift: Drift) -> u64 {
        let was = self.points.len();
        let cost = |i: usize| {
            let own = &self.points[i];
            let others = [i.checked_sub(1), Some(i + 1)];
            let others = others.into_iter().flatten().filter_map(|i| self.points.get(i));
            let without = others.map(|p| p.bound_at(own.at_ns, drift)).min();
            without.map_or(Micro::MAX, |without| without - drift.grown(own.value_ns, 0))
        };
        let remaining = (0..was).step_by(2).map(|i| {
            let dearer = if i + 1 < was && cost(i + 1) > cost(i) { i + 1 } else { i };
            self.points[dearer]
        });
        self.points = remaining.collect();
        (was - self.points.len()) as u64
    }

    /// The constraint that bounds an instant.
    pub(super) fn limiting(&self, at_ns: u64, drift: Drift) -> Option<&Point> {
        let next = self.points.partition_point(|p| p.at_ns <= at_ns);
        let before = next.checked_sub(1).and_then(|i| self.points.get(i));
        [before, self.points.get(next)].into_iter().flatten().min_by_key(|p| p.bound_at(at_ns, drift))
    }

    /// The indices of the constraints that contradict one of the other kind. They are contiguous: no one
    /// implies another, so on either side a more distant one leaves more room.
    pub(super) fn against(&self, other: &Point, drift: Drift) -> Range<usize> {
        let against = |p: &&Point| p.bound_at(other.at_ns, drift) + drift.grown(other.value_ns, 0) < 0;
        let next = self.points.partition_point(|p| p.at_ns <= other.at_ns);
        let (before, after) = self.points.split_at(next);
        next - before.iter().rev().take_while(against).count()..next + after.iter().take_while(against).count()
    }

    pub(super) fn bound_at(&self, at_ns: u64, drift: Drift) -> Option<Micro> {
        self.limiting(at_ns, drift).map(|p| p.bound_at(at_ns, drift))
    }

    /// The constraint that bounds the far future.
    pub(super) fn last(&self) -> Option<&Point> {
        self.points.last()
    }

    pub(super) fn points(&self) -> &[Point] {
        &self.points
    }

    /// Removes the constraints whose element of `keep` is false; returns their number.
    pub(super) fn retain(&mut self, keep: Vec<bool>) -> u64 {
        let before = self.points.len();
        let mut keep = keep.into_iter();
        self.points.retain(|_| keep.next().unwrap_or(true));
        (before - self.points.len()) as u64
    }

    pub(super) fn remove(&mut self, at: usize) {
        if at < self.points.len() {
            self.points.remove(at);
        }
    }
}

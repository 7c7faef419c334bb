//! All clocks together: the bounds of each pair from all pairs.

use super::{Alignment, ClockDifference};
use crate::graph::{Contradiction, Graph, Solution};
use crate::pair::{Bounds, Difference, Drift};
use std::collections::BTreeSet;

/// An instant of R of a clock, and its error, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MappedInstant {
    clock: u16,
    at_ns: u64,
    off_ns: u64,
}

impl<P: Difference> Alignment<P> {
    /// The combined bounds of all pairs at one instant of R of recording 0, including clocks that never
    /// exchanged packets. Also returned are the nodes whose UTC the packets refute. Recordings that share a
    /// clock have the number of the first of them.
    ///
    /// # Errors
    /// The recordings whose clocks contradict each other.
    pub fn at(&self, raw_0_ns: u64) -> Result<(Solution, Vec<usize>), Contradiction> {
        self.solved(0, raw_0_ns)
    }

    pub(super) fn solved(&self, from: u16, raw_ns: u64) -> Result<(Solution, Vec<usize>), Contradiction> {
        let mut reached = self.reached(from, raw_ns, usize::MAX).unwrap_or_default();
        reached.sort_unstable();
        self.solved_among(&reached, self.nodes.len(), |node| Some(usize::from(node)))
    }

    /// The combined bounds of pairs of these clocks, in a graph of `size` vertices; `number` gives a clock's vertex.
    fn solved_among(
        &self,
        reached: &[MappedInstant],
        size: usize,
        number: impl Fn(u16) -> Option<usize>,
    ) -> Result<(Solution, Vec<usize>), Contradiction> {
        let mut graph = Graph::new(size);
        let drift = Drift::default();
        let widened = |bounds: Bounds, slack_ns: u64| Bounds {
            lower: bounds.lower.map(|ns| ns.saturating_sub_unsigned(slack_ns)),
            upper: bounds.upper.map(|ns| ns.saturating_add_unsigned(slack_ns)),
        };
        for MappedInstant { clock: a, at_ns, off_ns } in reached {
            // Each pair once, at an instant of its first clock.
            for b in self.neighbours(*a).filter(|b| b > a) {
                let (Some(from), Some(to), Some(pair)) = (number(*a), number(b), self.pair(*a, b)) else {
                    continue;
                };
                // The instant on this clock has an error of up to `off_ns`, and the difference drifts during
                // that time.
                graph.bound(from, to, &widened(pair.bounds_at(*at_ns), drift.over_ns(*off_ns)));
            }
        }
        let utc = reached.iter().filter_map(|MappedInstant { clock, at_ns, off_ns }| {
            let reading = self.trusted_utc(*clock, *at_ns)?;
            let ahead = i64::try_from(i128::from(reading.utc_ns) - i128::from(*at_ns)).ok()?;
            let exact = Bounds { lower: Some(ahead), upper: Some(ahead) };
            let slack_ns = reading.error_ns.saturating_add(drift.over_ns(*off_ns));
            Some((number(*clock)?, widened(exact, slack_ns)))
        });
        graph.solve_with_utc(&utc.collect::<Vec<_>>())
    }

    /// One instant on R of every clock reachable by estimates from one clock, with its error; `None` if there
    /// are more than `most`.
    fn reached(&self, from: u16, raw_ns: u64, most: usize) -> Option<Vec<MappedInstant>> {
        let (mut seen, mut reached) = (BTreeSet::new(), Vec::new());
        let mut next = vec![MappedInstant { clock: from, at_ns: raw_ns, off_ns: 0 }];
        while let Some(here) = next.pop() {
            if !seen.insert(here.clock) {
                continue;
            }
            reached.push(here);
            if reached.len() > most {
                return None;
            }
            let mut to: BTreeSet<u16> = self.neighbours(here.clock).collect();
            if self.trusted_utc(here.clock, here.at_ns).is_some() {
                // External bounds may connect any other clock as well.
                to.extend(self.clocks().take(most.saturating_add(2)));
            }
            for to in to.into_iter().filter(|to| !seen.contains(to)) {
                if let Some((at_ns, half_width_ns)) =
                    self.difference_by_two(here.clock, to, here.at_ns).and_then(|found| found.after(here.at_ns))
                {
                    next.push(MappedInstant {
                        clock: to,
                        at_ns,
                        off_ns: here.off_ns.saturating_add(half_width_ns),
                    });
                }
            }
        }
        Some(reached)
    }

    /// The offset from one clock to another through the fewest others, for too many clocks to solve at once.
    pub(super) fn cross_through_others(&self, from: u16, to: u16, raw_ns: u64) -> Option<(u64, u64)> {
        let (mut here, mut at_ns, mut off_ns) = (from, raw_ns, 0_u64);
        for there in self.paths.between(from, to)? {
            let (there_ns, half_width_ns) = self.difference_by_packets(here, there, at_ns)?.after(at_ns)?;
            (here, at_ns, off_ns) = (there, there_ns, off_ns.saturating_add(half_width_ns));
        }
        Some((at_ns, off_ns))
    }

    /// The difference of two clocks on the time line that satisfies the bounds of all pairs at once.
    /// `None` with at most two clocks, or with contradictory bounds.
    pub(super) fn difference_by_all(&self, from: u16, to: u16, raw_ns: u64) -> Option<ClockDifference> {
        // Clocks with external UTC bounds are connected as well.
        let vouched = || self.trusted_utc(from, raw_ns).is_some();
        if self.paths.size(from) > self.most_solved || self.nodes.len() > self.most_solved && vouched() {
            return None;
        }
        let mut reached = self.reached(from, raw_ns, self.most_solved).filter(|reached| reached.len() > 2)?;
        reached.sort_unstable();
        let number = |clock: u16| reached.binary_search_by_key(&clock, |reached| reached.clock).ok();
        let (from, to) = (number(from)?, number(to)?);
        let (solution, _) = self.solved_among(&reached, reached.len(), number).ok()?;
        let bounds = solution.bounds(from, to);
        let line = solution.time_line(0);
        let theta = |node: usize| line.get(node).copied().flatten();
        let on_line = theta(to).zip(theta(from)).and_then(|(to, from)| to.checked_sub(from));
        let found = ClockDifference::of(bounds, on_line);
        found.estimate_ns.map(|_| found)
    }
}

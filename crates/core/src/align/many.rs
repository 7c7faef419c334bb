//! All clocks together: what every pair of them says about each.

use super::Alignment;
use crate::clock::graph::{Contradiction, Graph, Solution};
use crate::clock::pair::{Bounds, Difference, Drift};

impl<P: Difference> Alignment<P> {
    /// What all pairs say together at one instant of R of recording 0: bounds of every two clocks, also of those that
    /// never spoke to each other, and whose UTC the packets refute. Recordings that share a clock have the number of the first of them.
    ///
    /// # Errors
    /// Names the recordings whose clocks contradict each other.
    pub fn at(&self, raw_0_ns: u64) -> Result<(Solution, Vec<usize>), Contradiction> {
        self.solved(0, raw_0_ns)
    }

    pub(super) fn solved(&self, from: u16, raw_ns: u64) -> Result<(Solution, Vec<usize>), Contradiction> {
        let instants = self.instants(from, raw_ns);
        let mut graph = Graph::new(self.nodes.len());
        let drift = Drift::default();
        let widened = |bounds: Bounds, slack_ns: u64| Bounds {
            lower: bounds.lower.map(|ns| ns.saturating_sub_unsigned(slack_ns)),
            upper: bounds.upper.map(|ns| ns.saturating_add_unsigned(slack_ns)),
        };
        for ((a, b), pair) in &self.pairs {
            let (a, b) = (usize::from(*a), usize::from(*b));
            let Some((at_ns, off_ns)) = instants.get(a).copied().flatten() else { continue };
            // The instant on this clock is known to within `off_ns`, and the difference drifts during that.
            graph.bound(a, b, &widened(pair.bounds_at(at_ns), drift.over_ns(off_ns)));
        }
        let utc = instants.iter().enumerate().filter_map(|(node, instant)| {
            let (at_ns, off_ns) = (*instant)?;
            let reading = self.nodes.get(node)?.clock.utc(at_ns)?;
            let ahead = i64::try_from(i128::from(reading.utc_ns) - i128::from(at_ns)).ok()?;
            let exact = Bounds { lower: Some(ahead), upper: Some(ahead) };
            Some((node, widened(exact, reading.error_ns.saturating_add(drift.over_ns(off_ns)))))
        });
        graph.solve_with_utc(&utc.collect::<Vec<_>>())
    }

    /// One instant on R of every recording that estimates lead to from one, and how far it may be off.
    fn instants(&self, from: u16, raw_ns: u64) -> Vec<Option<(u64, u64)>> {
        let mut instants = vec![None; self.nodes.len()];
        let mut next = vec![(from, raw_ns, 0_u64)];
        while let Some((from, at_ns, off_ns)) = next.pop() {
            match instants.get_mut(usize::from(from)) {
                Some(instant @ None) => *instant = Some((at_ns, off_ns)),
                _ => continue,
            }
            for to in self.clocks().filter(|to| instants.get(usize::from(*to)).is_some_and(Option::is_none)) {
                if let Some((there_ns, half_width_ns)) = self.cross_by_two(from, to, at_ns) {
                    next.push((to, there_ns, off_ns.saturating_add(half_width_ns)));
                }
            }
        }
        instants
    }

    /// From one clock to another on the time line that keeps the bounds of all pairs at once; `None` where there are no more
    /// than two clocks, or where they contradict each other.
    pub(super) fn cross_by_all(&self, from: u16, to: u16, raw_ns: u64) -> Option<(u64, u64)> {
        if self.clocks().count() < 3 {
            return None;
        }
        let (solution, _) = self.solved(from, raw_ns).ok()?;
        let bounds = solution.bounds(usize::from(from), usize::from(to));
        let line = solution.time_line(0);
        let theta = |node: u16| line.get(usize::from(node)).copied().flatten();
        let on_line = theta(to).zip(theta(from)).and_then(|(to, from)| to.checked_sub(from));
        let (lower, upper) = (bounds.lower?, bounds.upper?);
        let difference_ns = on_line.or(bounds.middle_ns())?.clamp(lower, upper);
        let half_width_ns = difference_ns.abs_diff(lower).max(difference_ns.abs_diff(upper));
        Some((raw_ns.checked_add_signed(difference_ns)?, half_width_ns))
    }
}

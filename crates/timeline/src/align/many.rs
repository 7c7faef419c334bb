//! All clocks together: the bounds of each pair from all pairs.

use super::{Alignment, ClockDifference, is_weak};
use crate::graph::{Contradiction, Graph, Solution};
use crate::pair::{Bounds, Difference, Drift, State};
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
        let reached = self.all_reached(0, raw_0_ns);
        let number = |clock: u16| Some(usize::from(clock));
        let graph = self.graph_of_packets(&reached, self.nodes.len(), number, |_, _| true);
        graph.solve_with_utc(&self.utc_of(&reached, number))
    }

    /// The same from packets alone.
    ///
    /// # Errors
    /// The recordings whose clocks contradict each other.
    pub fn by_packets_at(&self, raw_0_ns: u64) -> Result<Solution, Contradiction> {
        let reached = self.all_reached(0, raw_0_ns);
        let number = |clock: u16| Some(usize::from(clock));
        self.graph_of_packets(&reached, self.nodes.len(), number, |_, _| true).solve()
    }

    /// Basis of the bounds of two clocks by all pairs, at an instant of R of `a`, the lower number; `None` unless these
    /// bound the difference from both sides and are narrower than `own`, those of the pair itself.
    pub(super) fn state_by_all(&self, a: u16, b: u16, raw_ns: u64, own: &Bounds) -> Option<State> {
        let Some(reached) = self.solved_from(a, raw_ns) else {
            return if own.width_ns().is_none() { self.state_through_others(a, b, raw_ns) } else { None };
        };
        let number = |clock: u16| reached.binary_search_by_key(&clock, |reached| reached.clock).ok();
        let (from, to) = (number(a)?, number(b)?);
        let packets = self.graph_of_packets(&reached, reached.len(), number, |_, _| true);
        let with_utc = packets.solve_with_utc(&self.utc_of(&reached, number)).ok()?.0.bounds(from, to);
        with_utc.width_ns()?;
        if with_utc.and(own) == *own {
            return None;
        }
        if packets.solve().ok()?.bounds(from, to) != with_utc {
            return Some(State::External);
        }
        // Pairs in holdover alone are no better basis than the pair itself.
        let suffice = |states: &[State]| {
            let is_used = |pair: &P, at_ns: u64| states.contains(&pair.state_at(at_ns));
            let solved = self.graph_of_packets(&reached, reached.len(), number, is_used).solve();
            let bounds = solved.map_or(Bounds::NONE, |solution| solution.bounds(from, to));
            bounds.width_ns().is_some() && bounds.and(own) != *own
        };
        Some(if suffice(&[State::Certified, State::OneSided]) {
            State::Certified
        } else if suffice(&[State::Certified, State::OneSided, State::Suspect]) {
            State::Suspect
        } else {
            State::Holdover
        })
    }

    /// Basis of [`Self::cross_through_others`]: the weakest of its pairs.
    fn state_through_others(&self, from: u16, to: u16, raw_ns: u64) -> Option<State> {
        self.cross_through_others(from, to, raw_ns)?;
        let (mut here, mut at_ns, mut weakest) = (from, raw_ns, State::Certified);
        for there in self.paths.between(from, to)? {
            let there_ns = self.difference_by_packets(here, there, at_ns)?.after(at_ns)?.0;
            let first_ns = if here < there { at_ns } else { there_ns };
            let state = self.pair(here.min(there), here.max(there))?.state_at(first_ns);
            if !matches!(state, State::Certified | State::Suspect) {
                weakest = State::Holdover;
            } else if weakest == State::Certified {
                weakest = state;
            }
            (here, at_ns) = (there, there_ns);
        }
        Some(weakest)
    }

    /// One instant of every clock that is reachable from this one, in order of the clocks.
    fn all_reached(&self, from: u16, raw_ns: u64) -> Vec<MappedInstant> {
        let mut reached = self.reached(from, raw_ns, usize::MAX).unwrap_or_default();
        reached.sort_unstable();
        reached
    }

    /// The packets' bounds of pairs of these clocks, in a graph of `size` vertices; `number` gives a clock's vertex, and
    /// `is_used` whether a pair counts at an instant of its first clock.
    fn graph_of_packets(
        &self,
        reached: &[MappedInstant],
        size: usize,
        number: impl Fn(u16) -> Option<usize>,
        is_used: impl Fn(&P, u64) -> bool,
    ) -> Graph {
        let mut graph = Graph::new(size);
        for here in reached {
            // Each pair once, at an instant of its first clock.
            for b in self.neighbours(here.clock).filter(|b| *b > here.clock) {
                let (Some(from), Some(to), Some(pair)) =
                    (number(here.clock), number(b), self.pair(here.clock, b))
                else {
                    continue;
                };
                if is_used(pair, here.at_ns) {
                    graph.bound(from, to, &bounds_around(pair, *here));
                }
            }
        }
        graph
    }

    /// Bounds of UTC less R of these clocks, by vertex.
    fn utc_of(&self, reached: &[MappedInstant], number: impl Fn(u16) -> Option<usize>) -> Vec<(usize, Bounds)> {
        let utc = reached.iter().filter_map(|MappedInstant { clock, at_ns, off_ns }| {
            let reading = self.trusted_utc(*clock, *at_ns)?;
            let ahead = i64::try_from(i128::from(reading.utc_ns) - i128::from(*at_ns)).ok()?;
            let exact = Bounds { lower: Some(ahead), upper: Some(ahead) };
            let slack_ns = reading.error_ns.saturating_add(Drift::default().over_ns(*off_ns));
            Some((number(*clock)?, widened(&exact, slack_ns)))
        });
        utc.collect()
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
            let (there_ns, half_width_ns) = self.difference_around(here, there, at_ns, off_ns)?.after(at_ns)?;
            (here, at_ns, off_ns) = (there, there_ns, off_ns.saturating_add(half_width_ns));
        }
        Some((at_ns, off_ns))
    }

    /// The difference of two clocks by the packets between them, at an instant with an error: a clock may step in that
    /// time.
    fn difference_around(&self, from: u16, to: u16, at_ns: u64, off_ns: u64) -> Option<ClockDifference> {
        let mut found = self.difference_by_packets(from, to, at_ns)?;
        if off_ns > 0 {
            for end_ns in [at_ns.saturating_sub(off_ns), at_ns.saturating_add(off_ns)] {
                found.bounds = found.bounds.or(&self.difference_by_packets(from, to, end_ns)?.bounds);
            }
        }
        Some(found)
    }

    /// One instant of every clock that is solved together with this one, in order of the clocks; `None` with at most two,
    /// or with too many.
    fn solved_from(&self, from: u16, raw_ns: u64) -> Option<Vec<MappedInstant>> {
        // Clocks with external UTC bounds are connected as well.
        let vouched = || self.trusted_utc(from, raw_ns).is_some();
        if self.paths.size(from) > self.most_solved || self.nodes.len() > self.most_solved && vouched() {
            return None;
        }
        let mut reached = self.reached(from, raw_ns, self.most_solved).filter(|reached| reached.len() > 2)?;
        reached.sort_unstable();
        Some(reached)
    }

    /// The difference of two clocks on the time line that satisfies the bounds of all pairs at once.
    /// `None` with at most two clocks, or with contradictory bounds.
    ///
    /// While packets between the two bound it from both sides, UTC does not narrow it: the basis is that of the pair. The
    /// time line is one for all pairs, with UTC, and inside the bounds of the packets.
    pub(super) fn difference_by_all(&self, from: u16, to: u16, raw_ns: u64) -> Option<ClockDifference> {
        let reached = self.solved_from(from, raw_ns)?;
        let number = |clock: u16| reached.binary_search_by_key(&clock, |reached| reached.clock).ok();
        let graph = self.graph_of_packets(&reached, reached.len(), number, |_, _| true);
        let first = reached.get(number(from.min(to))?)?;
        let pair = self.pair(first.clock, from.max(to));
        let is_by_packets = pair.is_some_and(|pair| !is_weak(pair.state_at(first.at_ns)));
        let utc = self.utc_of(&reached, number);
        let (all, _) = graph.solve_with_utc(&utc).ok()?;
        let (from, to) = (number(from)?, number(to)?);
        let bounds = if is_by_packets && !utc.is_empty() {
            graph.solve().ok()?.bounds(from, to)
        } else {
            all.bounds(from, to)
        };
        let line = all.time_line(0);
        let theta = |node: usize| line.get(node).copied().flatten();
        let on_line = theta(to).zip(theta(from)).and_then(|(to, from)| to.checked_sub(from));
        let found = ClockDifference::of(bounds, on_line);
        found.estimate_ns.map(|_| found)
    }
}

fn widened(bounds: &Bounds, slack_ns: u64) -> Bounds {
    Bounds {
        lower: bounds.lower.map(|ns| ns.saturating_sub_unsigned(slack_ns)),
        upper: bounds.upper.map(|ns| ns.saturating_add_unsigned(slack_ns)),
    }
}

/// The bounds of a pair at an instant of its first clock that has an error. The difference drifts during that time, and
/// a clock may step in it.
fn bounds_around(pair: &impl Difference, MappedInstant { at_ns, off_ns, .. }: MappedInstant) -> Bounds {
    let bounds = widened(&pair.bounds_at(at_ns), Drift::default().over_ns(off_ns));
    if off_ns == 0 {
        return bounds;
    }
    let ends = [at_ns.saturating_sub(off_ns), at_ns.saturating_add(off_ns)];
    ends.iter().fold(bounds, |all, end_ns| all.or(&pair.bounds_at(*end_ns)))
}

#[cfg(test)]
mod tests {
    use crate::align::{Aligner, Alignment};
    use crate::join::Crossing;
    use crate::pair::{Recorded, State};
    use magscope_core::clock::ClockSample;
    use magscope_core::node::NodeInfo;

    const SECOND: u64 = 1_000_000_000;
    const MILLISECOND: u64 = 1_000_000;
    const BEGIN_NS: u64 = 1_000 * SECOND;
    const DELAY_NS: u64 = 25_000;

    #[derive(Clone, Copy, Default)]
    struct Host {
        /// Its clock goes ahead by a second at this true instant.
        step_at: Option<u64>,
        /// Claimed error of UTC, and the true one.
        claim_ns: Option<u64>,
        wrong_ns: i64,
    }

    impl Host {
        fn at(self, t: u64) -> u64 {
            t + if self.step_at.is_some_and(|step_ns| t >= step_ns) { SECOND } else { 0 }
        }
    }

    /// Ten seconds with a packet per millisecond on each path: sender, receiver and delay.
    fn aligned(hosts: &[Host], paths: &[(u16, u16, u64)]) -> Alignment {
        aligned_until(hosts, paths, 10 * SECOND - SECOND / 5)
    }

    /// The same with packets up to a time since the beginning.
    fn aligned_until(hosts: &[Host], paths: &[(u16, u16, u64)], packets_ns: u64) -> Alignment {
        let info = |i: usize| NodeInfo { boot_id: i.to_string(), ..NodeInfo::default() };
        let infos: Vec<NodeInfo> = (0..hosts.len()).map(info).collect();
        let mut aligner = Aligner::new(&infos);
        for (host, node) in hosts.iter().zip(0..) {
            for since in (0..=10 * SECOND).step_by(100_000_000) {
                let own_ns = host.at(BEGIN_NS + since);
                let realtime_ns = (1_790_000_000 * SECOND + since) as i64 + host.wrong_ns;
                let utc_error_ns = host.claim_ns;
                aligner.clock(
                    node,
                    ClockSample {
                        monotonic_ns: own_ns,
                        raw_ns: own_ns,
                        realtime_ns,
                        width_ns: 100,
                        utc_error_ns,
                        ..ClockSample::default()
                    },
                );
            }
        }
        for t in (BEGIN_NS + SECOND / 5..BEGIN_NS + packets_ns).step_by(MILLISECOND as usize) {
            for (tx_node, rx_node, delay_ns) in paths.iter().copied() {
                aligner.crossing(&Crossing {
                    tx_node,
                    rx_node,
                    sent_ns: hosts[usize::from(tx_node)].at(t),
                    received_ns: hosts[usize::from(rx_node)].at(t + delay_ns),
                });
            }
        }
        aligner.finish()
    }

    fn both(a: u16, b: u16) -> [(u16, u16, u64); 2] {
        [(a, b, DELAY_NS), (b, a, DELAY_NS)]
    }

    #[test]
    fn utc_narrows_no_certified_bound() {
        let honest = Host { claim_ns: Some(1_000), ..Host::default() };
        // Less wrong than packets show.
        let hosts = [honest, Host { wrong_ns: 10_000, ..honest }, honest];
        let alignment = aligned(&hosts, &[both(0, 1), both(0, 2), both(1, 2)].concat());
        let amid_ns = BEGIN_NS + 5 * SECOND;
        for (a, b) in [(0, 1), (1, 0), (1, 2), (2, 1), (0, 2)] {
            assert_eq!(alignment.state(a, b), Some(State::Certified));
            let shown = alignment.difference_at(a, b, amid_ns);
            assert!(shown.bounds.contains(0), "{a}–{b}: {shown:?}");
            assert!(shown.half_width_ns().is_some_and(|ns| ns < 2 * DELAY_NS), "{a}–{b}: {shown:?}");
        }
    }

    /// Packets bound one pair by milliseconds and another by microseconds, and UTC alone the third.
    #[test]
    fn the_clocks_of_all_pairs_are_on_one_line() {
        let vouched = Host { claim_ns: Some(1_000), ..Host::default() };
        let slow = [(0, 1, 19 * MILLISECOND), (1, 0, MILLISECOND)];
        let alignment = aligned(&[vouched; 3], &[slow, both(1, 2)].concat());
        let shown = |a, b| alignment.difference_at(a, b, BEGIN_NS + 5 * SECOND);
        let ahead_ns =
            shown(0, 2).estimate_ns.zip(shown(0, 1).estimate_ns).map(|(third, second)| third - second);
        let near = shown(1, 2).bounds;
        assert!(near.width_ns().is_some_and(|ns| ns < 4 * DELAY_NS), "{near:?}");
        assert!(ahead_ns.is_some_and(|ns| near.contains(ns)), "{ahead_ns:?} is not in {near:?}");
    }

    #[test]
    fn after_the_last_packet_utc_counts_in_both_directions() {
        let vouched = Host { claim_ns: Some(1_000), ..Host::default() };
        let alignment = aligned_until(&[vouched; 2], &both(0, 1), SECOND);
        for (a, b) in [(0, 1), (1, 0)] {
            let shown = alignment.difference_at(a, b, BEGIN_NS + 6 * SECOND);
            let is_narrow = shown.half_width_ns().is_some_and(|ns| ns < 10_000);
            assert!(is_narrow && shown.bounds.contains(0), "{a}–{b}: {shown:?}");
        }
    }

    #[test]
    fn what_rests_on_utc_is_external() {
        let vouched = Host { claim_ns: Some(1_000), ..Host::default() };
        let alignment = aligned(&[Host::default(), vouched, vouched], &both(0, 1));
        assert_eq!(alignment.state(0, 1), Some(State::Certified));
        assert_eq!(alignment.state(0, 2), Some(State::External));
        let alignment = aligned(&[Host::default(); 3], &[both(0, 1), both(1, 2)].concat());
        assert_eq!(alignment.state(0, 2), Some(State::Certified));
    }

    /// The path between the first two is asymmetric, so their instants are uncertain by milliseconds.
    #[test]
    fn a_step_within_the_error_of_an_instant_leaves_room_for_both_sides() {
        let step_ns = BEGIN_NS + 5 * SECOND;
        let hosts = [Host::default(), Host::default(), Host { step_at: Some(step_ns), ..Host::default() }];
        let slow = [(0, 1, 9 * MILLISECOND), (1, 0, MILLISECOND)];
        let alignment = aligned(&hosts, &[slow, both(1, 2)].concat());
        assert_eq!(alignment.pair(1, 2).map(Recorded::steps), Some(1));
        let check = |t: u64| {
            let truth_ns = (hosts[2].at(t) - hosts[0].at(t)) as i64;
            let shown = alignment.difference_at(0, 2, hosts[0].at(t));
            assert!(shown.bounds.contains(truth_ns), "{truth_ns} at {t} is not in {shown:?}");
            let through = alignment.cross_through_others(0, 2, hosts[0].at(t));
            let is_off = |(at_ns, off_ns): (u64, u64)| at_ns.abs_diff(hosts[2].at(t)) > off_ns;
            assert!(!through.is_some_and(is_off), "{through:?} at {t}");
            shown.bounds.width_ns()
        };
        for t in (step_ns - 20 * MILLISECOND..step_ns + 20 * MILLISECOND).step_by(100_000) {
            check(t);
        }
        for t in [step_ns - SECOND, step_ns + SECOND] {
            assert!(check(t).is_some_and(|ns| ns < 11 * MILLISECOND));
        }
    }
}

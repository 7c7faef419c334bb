//! Alignment: one time line for several recordings, from the packets that crossed between them.
//!
//! The join gives [`Crossing`](crate::join::Crossing)s: a packet was certainly still here at one instant of one
//! clock, and certainly there at one of the other's. Each bounds the difference of the two clocks from one side
//! ([`crate::pair`]). All together give an interval that contains the truth as long as crystals drift
//! apart by less than 200 ppm. The time line is that of recording 0.

mod clock_paths;
mod clones;
mod collect;
mod external;
mod many;
mod online;

pub use clones::separate_clones;
pub use collect::Aligner;
pub use online::Online;

use crate::NodeClock;
use crate::join::{Timeline, WallSpan};
use crate::pair::{Bounds, Difference, Estimate, Recorded, SourcedBounds, State};
use clock_paths::ClockPaths;
use magscope_core::clock::ClockSample;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of clocks solved together, see [`Alignment`]; a hundred take some milliseconds per instant.
const MOST_RECORDED: usize = 64;
/// The same for running recordings, whose packets do not wait.
const MOST_LIVE: usize = 16;

#[derive(Clone, Debug, Default)]
struct Node {
    clock: NodeClock,
    /// The first recording with the same clock.
    same: u16,
}

/// The offsets between the clocks of several recordings: from complete recordings, or for running ones from the
/// data so far ([`Online`]).
#[derive(Debug)]
pub struct Alignment<P = Recorded> {
    nodes: Vec<Node>,
    pairs: BTreeMap<(u16, u16), P>,
    /// Pairs of clocks with packets, in both orders.
    paired: BTreeSet<(u16, u16)>,
    /// The same of pairs that are bounded from both sides.
    paths: ClockPaths,
    /// Pairs whose packets refute the UTC of one of the two.
    utc_refuted: BTreeSet<(u16, u16)>,
    /// Maximum number of connected clocks solved together: the cost is the third power of their number, at each
    /// instant.
    most_solved: usize,
}

/// True if packets bound the difference from both sides.
fn two_sided(pair: &impl Difference) -> bool {
    pair.middle_ns().is_some_and(|at_ns| pair.estimate_at(at_ns).is_some())
}

/// True if recent packets between two clocks do not bound their difference from both sides.
fn is_weak(state: State) -> bool {
    matches!(state, State::Unsynchronised | State::OneSided | State::Holdover)
}

/// The difference of two clocks at one instant. Every output shows these values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockDifference {
    /// The interval that holds it. A missing end is unbounded.
    pub bounds: Bounds,
    /// A value inside the interval; `None` unless it is bounded from both sides.
    pub estimate_ns: Option<i64>,
}

impl ClockDifference {
    /// Of an interval, with a preferred value inside it.
    fn of(bounds: Bounds, preferred_ns: Option<i64>) -> Self {
        let ends = bounds.lower.zip(bounds.upper).filter(|(lower, upper)| lower <= upper);
        let estimate_ns =
            ends.and_then(|(lower, upper)| Some(preferred_ns.or(bounds.middle_ns())?.clamp(lower, upper)));
        ClockDifference { bounds, estimate_ns }
    }

    /// Of a value and its error.
    fn within(estimate_ns: i64, half_width_ns: u64) -> Self {
        let lower = Some(estimate_ns.saturating_sub_unsigned(half_width_ns));
        let upper = Some(estimate_ns.saturating_add_unsigned(half_width_ns));
        ClockDifference { bounds: Bounds { lower, upper }, estimate_ns: Some(estimate_ns) }
    }

    /// The estimated instant on the other clock, and its error, nanoseconds.
    fn after(&self, raw_ns: u64) -> Option<(u64, u64)> {
        Some((raw_ns.checked_add_signed(self.estimate_ns?)?, self.half_width_ns()?))
    }

    /// Maximum error of the estimate, nanoseconds: its distance to the farther end.
    pub fn half_width_ns(&self) -> Option<u64> {
        let estimate_ns = self.estimate_ns?;
        Some(estimate_ns.abs_diff(self.bounds.lower?).max(estimate_ns.abs_diff(self.bounds.upper?)))
    }
}

impl<P: Difference> Alignment<P> {
    fn new(nodes: Vec<Node>, pairs: BTreeMap<(u16, u16), P>, most_solved: usize) -> Self {
        let paired = pairs.keys().flat_map(|(a, b)| [(*a, *b), (*b, *a)]).collect();
        let bounded = pairs.iter().filter(|(_, pair)| two_sided(*pair)).map(|(key, _)| *key);
        let paths = ClockPaths::of(bounded);
        Alignment { nodes, pairs, paired, paths, utc_refuted: BTreeSet::new(), most_solved }
    }

    /// The clocks that have a pair with this one.
    fn neighbours(&self, clock: u16) -> impl Iterator<Item = u16> + '_ {
        self.paired.range((clock, 0)..=(clock, u16::MAX)).map(|(_, other)| *other)
    }
}

impl<P: Difference> Alignment<P> {
    /// The recordings that are the first with their clock.
    pub fn clocks(&self) -> impl Iterator<Item = u16> + '_ {
        self.nodes.iter().zip(0..).filter(|(node, at)| node.same == *at).map(|(_, at)| at)
    }

    /// Every two different clocks, by the first recordings that have them.
    pub fn couples(&self) -> impl Iterator<Item = (u16, u16)> + '_ {
        self.clocks().flat_map(move |a| self.clocks().filter(move |b| a < *b).map(move |b| (a, b)))
    }

    /// Pairs with information to show: all pairs, or with many clocks only those with packets between them.
    pub fn reported_pairs(&self) -> Vec<(u16, u16)> {
        if self.clocks().nth(MOST_LIVE).is_none() {
            self.couples().collect()
        } else {
            self.pairs.keys().copied().collect()
        }
    }

    /// The pair's bounds from packets.
    pub fn pair(&self, a: u16, b: u16) -> Option<&P> {
        self.pairs.get(&(a, b))
    }

    /// The clocks of a recording.
    pub fn clock(&self, node: u16) -> Option<&NodeClock> {
        self.nodes.get(usize::from(node)).map(|node| &node.clock)
    }

    /// Basis of the difference between two recordings' clocks; `None` for one shared clock.
    pub fn state(&self, a: u16, b: u16) -> Option<State> {
        let (a, b) = self.couple(a, b)?;
        let own = self.pair(a, b).map_or(State::Unsynchronised, P::state);
        if !is_weak(own) {
            return Some(own);
        }
        Some(match self.amid_ns(a, b).and_then(|amid| self.state_at(a, b, amid)) {
            // Packets with third clocks may be of different times, so that no instant is near to all of them.
            Some(State::Holdover) if own != State::Holdover => State::Certified,
            Some(state) if !is_weak(state) => state,
            _ => own,
        })
    }

    /// Basis of [`Self::difference_at`] from the one with the lower number to the other, at an instant of R of the first;
    /// `None` for one shared clock.
    pub fn state_at(&self, a: u16, b: u16, raw_ns: u64) -> Option<State> {
        let (a, b) = self.couple(a, b)?;
        let unbounded = SourcedBounds::from_packets(Bounds::NONE, State::Unsynchronised);
        let own = self.bounds_at(a, b, raw_ns).unwrap_or(unbounded);
        if !is_weak(own.state) {
            return Some(own.state);
        }
        // Packets between a third clock and both bound it as well.
        Some(self.state_by_all(a, b, raw_ns, &own.bounds).unwrap_or(own.state))
    }

    /// The first recordings with these two clocks, in order; `None` for one shared clock.
    fn couple(&self, a: u16, b: u16) -> Option<(u16, u16)> {
        let (a, b) = (self.same(a)?, self.same(b)?);
        (a != b).then_some((a.min(b), a.max(b)))
    }

    /// Time between two recordings, nanoseconds, if their disciplined wall clocks prove that they do not overlap.
    pub fn recorded_apart_ns(&self, a: u16, b: u16) -> Option<u64> {
        self.wall_span(a).apart_ns(&self.wall_span(b))
    }

    fn wall_span(&self, node: u16) -> WallSpan {
        let mut span = WallSpan::default();
        for sample in self.clock(node).map_or(&[][..], NodeClock::samples) {
            span.add(sample);
        }
        span
    }

    /// An instant of R of `a` with maximum information about the difference to `b`.
    pub fn amid_ns(&self, a: u16, b: u16) -> Option<u64> {
        let of_pair = self.pair(a, b).and_then(P::middle_ns);
        let of_pair = of_pair.or_else(|| {
            // Both were recorded then, by their clocks' UTC.
            let samples = |node| Some(self.clock(node)?.samples());
            let ends = |node| Some((samples(node)?.first()?.realtime_ns, samples(node)?.last()?.realtime_ns));
            let ((from_a, to_a), (from_b, to_b)) = (ends(a)?, ends(b)?);
            let (from, to) = (from_a.max(from_b), to_a.min(to_b));
            self.clock(a)?.raw_of_utc(from.checked_add(to.checked_sub(from)? / 2)?)
        });
        // Alternatively an instant amid packets of one of the two with a third clock.
        of_pair.or_else(|| {
            self.neighbours(a).find_map(|other| {
                let first = other.min(a);
                let amid = self.pair(first, other.max(a))?.middle_ns()?;
                if first == a {
                    Some(amid)
                } else {
                    Some(self.difference_by_packets(first, a, amid)?.after(amid)?.0)
                }
            })
        })
    }

    fn same(&self, node: u16) -> Option<u16> {
        self.nodes.get(usize::from(node)).map(|node| node.same)
    }

    /// R of `to` at an instant of R of `from`, with its error.
    fn cross(&self, from: u16, to: u16, raw_ns: u64) -> Option<(u64, u64)> {
        self.difference_at(from, to, raw_ns).after(raw_ns)
    }

    /// R of `to` minus R of `from`, at an instant of R of `from`: the one source of all displayed differences.
    pub fn difference_at(&self, from: u16, to: u16, raw_ns: u64) -> ClockDifference {
        let of = |(there_ns, half_width_ns): (u64, u64)| {
            ClockDifference::within(there_ns.wrapping_sub(raw_ns) as i64, half_width_ns)
        };
        let several = self.difference_by_all(from, to, raw_ns);
        let two = || self.difference_by_two(from, to, raw_ns);
        let through = || self.cross_through_others(from, to, raw_ns).map(of);
        // Without an estimate, the instant on the other clock is not known.
        let sourced = || (from < to).then(|| self.bounds_at(from, to, raw_ns)).flatten();
        let one_sided = || ClockDifference::of(sourced().map_or(Bounds::NONE, |sourced| sourced.bounds), None);
        several.or_else(two).or_else(through).unwrap_or_else(one_sided)
    }

    /// The difference from the two clocks' own pair alone, if it is bounded from both sides.
    fn difference_by_two(&self, from: u16, to: u16, raw_ns: u64) -> Option<ClockDifference> {
        let external = || {
            let found = ClockDifference::of(self.external_at(from, to, raw_ns)?, None);
            found.estimate_ns.map(|_| found)
        };
        let Some(found) = self.difference_by_packets(from, to, raw_ns) else { return external() };
        let pair = self.pair(from.min(to), from.max(to));
        let at_ns = if from < to { Some(raw_ns) } else { found.after(raw_ns).map(|(there_ns, _)| there_ns) };
        // Long after the last packet, UTC may know more.
        let is_old = pair.zip(at_ns).is_some_and(|(pair, at_ns)| pair.state_at(at_ns) == State::Holdover);
        if !is_old {
            return Some(found);
        }
        let bounds = if from < to {
            self.bounds_at(from, to, raw_ns).map(|sourced| sourced.bounds)
        } else {
            let both = self.external_at(from, to, raw_ns).map(|external| found.bounds.and(&external));
            both.filter(|both| !both.is_empty())
        };
        Some(bounds.map_or(found, |bounds| ClockDifference::of(bounds, found.estimate_ns)))
    }

    /// The same from the packets between the two alone.
    fn difference_by_packets(&self, from: u16, to: u16, raw_ns: u64) -> Option<ClockDifference> {
        let pair = self.pairs.get(&(from.min(to), from.max(to)))?;
        if from < to {
            let (estimate_ns, _) = pair.estimate_at(raw_ns)?;
            return Some(ClockDifference::of(pair.bounds_at(raw_ns), Some(estimate_ns)));
        }
        let there = pair.inverse_at(raw_ns)?;
        let less_raw = |ns: u64| ns.wrapping_sub(raw_ns) as i64;
        let bounds = Bounds { lower: Some(less_raw(there.from_ns)), upper: Some(less_raw(there.to_ns)) };
        Some(ClockDifference { bounds, estimate_ns: Some(less_raw(there.at_ns)) })
    }
}

/// A recording has no data longer than this before its first clock sample, nanoseconds.
const SURELY_BOOTED_NS: u64 = 60_000_000_000;

impl<P: Difference> Timeline for Alignment<P> {
    fn shift_ns(&self, node: u16, at_ns: u64) -> Option<i64> {
        let same = self.same(node)?;
        if same == 0 {
            return Some(0);
        }
        let raw = self.clock(node)?.raw_ns(at_ns)?;
        let (raw_0, _) = self.cross(same, 0, raw.ns)?;
        let there = self.clock(0)?.event_ns(raw_0)?;
        i64::try_from(i128::from(there.ns) - i128::from(at_ns)).ok()
    }

    fn difference_ns(&self, a: u16, b: u16, at_ns: u64) -> Option<Estimate> {
        let (from, to) = (self.same(a)?, self.same(b)?);
        if from == to {
            return Some(Estimate::default());
        }
        let raw = self.clock(a)?.raw_ns(at_ns)?;
        let found = self.difference_at(from, to, raw.ns);
        let there = |difference_ns: Option<i64>| raw.ns.checked_add_signed(difference_ns?);
        // A slewed clock turns an error of R into a different one of its own: both ends are checked.
        let clock = self.clock(b)?;
        let back_ns = clock.event_ns(there(found.estimate_ns)?)?.ns;
        let first = clock.event_ns(there(found.bounds.lower)?.saturating_sub(raw.error_ns))?;
        let last = clock.event_ns(there(found.bounds.upper)?.saturating_add(raw.error_ns))?;
        Some(Estimate {
            ns: i64::try_from(i128::from(back_ns) - i128::from(at_ns)).ok()?,
            below_ns: back_ns.saturating_sub(first.ns.saturating_sub(first.error_ns)),
            above_ns: last.ns.saturating_add(last.error_ns).saturating_sub(back_ns),
        })
    }

    fn placed_ns(&self, node: u16, at_ns: u64) -> i64 {
        // Without a bound at this instant, the difference amid the recording is correct to within the clocks'
        // drift.
        let amid = || {
            let pair = self.pairs.get(&(0, self.same(node)?))?;
            let (difference_ns, _) = pair.estimate_at(pair.middle_ns()?)?;
            let (first, second) = (self.clock(0)?.samples().first()?, self.clock(node)?.samples().first()?);
            let unslewed = |s: &ClockSample| i128::from(s.event_ns()) - i128::from(s.raw_ns);
            i64::try_from(unslewed(first) - unslewed(second) - i128::from(difference_ns)).ok()
        };
        // Without any, each host's own wall clock is all that is there.
        let by_utc = || {
            let to_utc_ns = |node: u16| {
                let first = self.clock(node)?.samples().first()?;
                Some(i128::from(first.realtime_ns) - i128::from(first.event_ns()))
            };
            let shift_ns = i64::try_from(to_utc_ns(node)? - to_utc_ns(0)?).ok()?;
            // What was before the boot of host 0 has no instant by its clock.
            let first_ns = self.clock(node)?.samples().first()?.event_ns();
            first_ns.checked_add_signed(shift_ns).filter(|ns| *ns >= SURELY_BOOTED_NS).map(|_| shift_ns)
        };
        self.shift_ns(node, at_ns).or_else(amid).or_else(by_utc).unwrap_or(0)
    }

    fn rough_ns(&self, node: u16, at_ns: u64) -> i64 {
        (at_ns as i64).wrapping_add(self.placed_ns(node, at_ns))
    }
}

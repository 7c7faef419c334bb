//! Both levels on complete data: forward and backward over a recording.

use super::builder::Builder;
use super::constraint::{Bounds, Constraint, Counts, Kind, State};
use super::difference::{Inverse, solve};
use super::drift::Drift;
use super::epoch::Epoch;
use super::external::SourcedBounds;
use super::hint::{Hint, smallest_visible_step_ns};
use super::live::with_model;
use super::seen::clamped;

/// Bounds of `D` at every instant of a recording. Those of Level 0 are the tightest that follow from its
/// packets and ρ alone: every constraint bounds every instant of its epoch.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub(super) drift: Drift,
    pub(super) epochs: Vec<Epoch>,
    /// The candidate of a further epoch.
    pub(super) doubt: Option<Epoch>,
    pub(super) counts: Counts,
    pub(super) steps: u64,
    pub(super) least_width_ns: Option<u64>,
    pub(super) hints: Vec<Hint>,
    /// After this instant a clock broke, and no packets followed.
    pub(super) end_ns: u64,
}

impl Recorded {
    /// From all constraints of a pair, in any order, with ρ = 200 ppm and the default [`Model`](super::Model).
    pub fn build(constraints: impl IntoIterator<Item = Constraint>) -> Self {
        let mut builder = Builder::default();
        constraints.into_iter().for_each(|c| builder.push(c));
        builder.finish()
    }

    /// The epochs that an instant may belong to, in order of time: several near a step.
    fn epochs_at(&self, at_ns: u64) -> impl Iterator<Item = &Epoch> {
        let epochs = if at_ns <= self.end_ns { self.epochs.as_slice() } else { &[] };
        let first = epochs.partition_point(|epoch| epoch.from_ns <= at_ns).saturating_sub(1);
        let last = epochs.partition_point(|epoch| epoch.to_ns.is_some_and(|to| to < at_ns));
        let last = last.min(epochs.len().saturating_sub(1));
        let found = epochs.get(first.min(last)..=last).unwrap_or_default();
        let is_last = last + 1 == epochs.len();
        let doubt = self.doubt.as_ref().filter(|doubt| is_last && at_ns >= doubt.from_ns);
        found.iter().chain(doubt)
    }

    /// The epoch that an instant certainly belongs to.
    fn epoch_at(&self, at_ns: u64) -> Option<&Epoch> {
        let mut epochs = self.epochs_at(at_ns);
        epochs.next().filter(|_| epochs.next().is_none())
    }

    /// Level 0: the interval of `D` at `R_A = at_ns`. Between two epochs it covers both, and likewise at the
    /// end of a recording with a candidate.
    pub fn bounds_at(&self, at_ns: u64) -> Bounds {
        let bounds = self.epochs_at(at_ns).map(|epoch| epoch.bounds_at(at_ns, self.drift));
        bounds.reduce(|one, other| one.or(&other)).unwrap_or(Bounds::NONE)
    }

    /// The narrower of the certified and the model's interval, with its basis.
    pub fn sourced_bounds_at(&self, at_ns: u64) -> SourcedBounds {
        let windows = self.epoch_at(at_ns).and_then(|epoch| epoch.windows.bounds_at(at_ns));
        with_model(self.bounds_at(at_ns), self.state_at(at_ns), windows)
    }

    /// `D` and its error by Level 0, nanoseconds; `None` unless bounded from both sides.
    ///
    /// It is the middle of the model's lines, clamped into the narrowest claimed interval ([`Self::sourced_bounds_at`]).
    /// So no used packet has a negative delay beyond its error. Within an epoch it is continuous, except at
    /// splits of the model.
    pub fn estimate_at(&self, at_ns: u64) -> Option<(i64, u64)> {
        let middle_ns = self.epoch_at(at_ns).and_then(|epoch| epoch.middle_at(at_ns, self.drift));
        let estimate = clamped(&self.sourced_bounds_at(at_ns), &self.bounds_at(at_ns), middle_ns)?;
        Some((estimate.ns, estimate.half_width_ns()))
    }

    /// Number of windows split because Level 1 was wrong.
    pub fn splits(&self) -> u64 {
        self.epochs.iter().map(|epoch| epoch.windows.splits()).sum()
    }

    /// Basis of the certified bounds at an instant.
    pub fn state_at(&self, at_ns: u64) -> State {
        let epoch = self.epochs_at(at_ns).next();
        let state =
            epoch.map_or(State::Unsynchronised, |epoch| epoch.seen.state_at(at_ns, &self.bounds_at(at_ns)));
        if state == State::Certified { self.certified_state() } else { state }
    }

    fn certified_state(&self) -> State {
        if self.hints.is_empty() { State::Certified } else { State::Suspect }
    }

    /// Basis of the bounds amid the packets of the last epoch, with maximum information.
    pub fn state(&self) -> State {
        let span = self.epochs.last().and_then(|epoch| epoch.seen.both());
        let at_ns = span.map_or_else(|| self.epochs.last().map_or(0, |epoch| epoch.from_ns), |(_, to)| to);
        self.state_at(at_ns)
    }

    /// An instant of A amid the packets of the last epoch: the start of a search.
    pub fn middle_ns(&self) -> Option<u64> {
        let epoch = self.epochs.last()?;
        let (from, to) = epoch.seen.both()?;
        Some(from / 2 + to / 2)
    }

    /// The instant of A at which B's clock showed `b_ns`; `None` unless bounded from both sides.
    ///
    /// Each epoch uses its own bounds: near a step, and after a clock was set back, several may contain it.
    pub fn inverse_at(&self, b_ns: u64) -> Option<Inverse> {
        let mut found: Option<Inverse> = None;
        for (number, epoch) in self.epochs.iter().chain(&self.doubt).enumerate() {
            let (first_ns, last_ns) = self.room_of(number);
            let start_ns = epoch.amid_ns().clamp(first_ns, last_ns.max(first_ns));
            let estimate_at = |at_ns: u64| {
                let certified = epoch.bounds_at(at_ns, self.drift);
                let narrowest = with_model(certified, self.certified_state(), epoch.windows.bounds_at(at_ns));
                clamped(&narrowest, &certified, epoch.middle_at(at_ns, self.drift))
            };
            match solve(start_ns, b_ns, estimate_at) {
                Some(other) if other.to_ns >= first_ns && other.from_ns <= last_ns => {
                    found = Some(found.map_or(other, |one| either(one, other)));
                }
                // An epoch without bounds from both sides may have shown it as well.
                None if may_show(&epoch.bounds_at(start_ns, self.drift), b_ns, first_ns, last_ns) => {
                    return None;
                }
                _ => {}
            }
        }
        found.filter(|found| found.to_ns <= self.end_ns)
    }

    /// Ends the bounds before a break of A's or of B's clock, each by its own R, that no packets followed.
    #[must_use]
    pub fn until(self, a_ns: Option<u64>, b_ns: Option<u64>) -> Self {
        let by_b_ns = b_ns.map(|b_ns| self.last_before_ns(b_ns).unwrap_or(0));
        let end_ns = [a_ns, by_b_ns].into_iter().flatten().fold(self.end_ns, u64::min);
        Recorded { end_ns, ..self }
    }

    /// The last instant of A at which B's clock had certainly not passed `b_ns`; `None` without an upper bound.
    fn last_before_ns(&self, b_ns: u64) -> Option<u64> {
        let mut at_ns = self.epochs.last()?.amid_ns();
        // The bound drifts by parts in a million: each iteration reduces the error a thousandfold.
        for _ in 0..8 {
            at_ns = b_ns.checked_add_signed(self.bounds_at(at_ns).upper?.checked_neg()?)?;
        }
        Some(at_ns.saturating_sub(1))
    }

    /// The first and the last instant that may belong to an epoch; the candidate follows the last epoch.
    fn room_of(&self, number: usize) -> (u64, u64) {
        let before = number.checked_sub(1).and_then(|before| self.epochs.get(before));
        let first_ns = match (before, &self.doubt) {
            (Some(Epoch { to_ns: None, .. }), Some(doubt)) => doubt.from_ns,
            (before, _) => before.and_then(|epoch| epoch.to_ns).unwrap_or(0),
        };
        (first_ns, self.epochs.get(number + 1).map_or(u64::MAX, |epoch| epoch.from_ns))
    }

    /// From the first to the last instant of A that lies between packets of both directions.
    pub fn span_ns(&self) -> Option<(u64, u64)> {
        let mut spans =
            self.epochs.iter().filter_map(|epoch| epoch.seen.both()).filter(|(from, to)| from <= to);
        let (from, to) = spans.next()?;
        Some((from, spans.next_back().map_or(to, |(_, to)| to)))
    }

    /// Counts of the constraints by outcome.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The same with additional constraints between two epochs, counted by the caller.
    #[must_use]
    pub fn with_more_between_epochs(mut self, more: u64) -> Self {
        self.counts.between_epochs += more;
        self
    }

    /// Hints at steps that packets cannot prove, or at a drift beyond ρ. With one, [`State::Suspect`] replaces
    /// [`State::Certified`].
    pub fn hints(&self) -> &[Hint] {
        &self.hints
    }

    /// The smallest step of a clock that the packets would show, nanoseconds: the width of the bounds, at the
    /// median over time. A smaller one fits into the bounds. After a collapse it is the round trip of other times.
    /// `None` unless bounded from both sides.
    pub fn smallest_visible_step_ns(&self) -> Option<u64> {
        let [_, median_ns, ..] = self.half_widths_ns()?;
        let trips = self.hints.iter().filter_map(Hint::typical_ns);
        Some(trips.fold(smallest_visible_step_ns(median_ns), u64::max))
    }

    /// Number of steps of the clocks.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The smallest difference of upper and lower bound: the quickest round trip, up to drift and error.
    pub fn min_round_trip_ns(&self) -> Option<u64> {
        self.least_width_ns
    }

    /// Mean drift of B's clock against A's over the last epoch, and its error, parts per million; `None`
    /// without packets in both directions over some time.
    pub fn drift_ppm(&self) -> Option<(f64, f64)> {
        let epoch = self.epochs.last()?;
        let (from, to) = epoch.seen.both()?;
        let ends = [epoch.bounds_at(from, self.drift), epoch.bounds_at(to, self.drift)];
        let run = to.checked_sub(from).filter(|run| *run > 0)? as f64;
        let rise = i128::from(ends[1].middle_ns()?) - i128::from(ends[0].middle_ns()?);
        let doubt = u128::from(ends[0].width_ns()?) + u128::from(ends[1].width_ns()?);
        Some((rise as f64 / run * 1e6, doubt.div_ceil(2) as f64 / run * 1e6))
    }

    /// Half widths of the certified bounds at a thousand instants between the first packet and the last:
    /// minimum, median, 99th percentile, maximum, nanoseconds.
    pub fn half_widths_ns(&self) -> Option<[u64; 4]> {
        const INSTANTS: u64 = 1000;
        let (from, to) = self.span_ns()?;
        let at = |i: u64| from + (u128::from(to - from) * u128::from(i) / u128::from(INSTANTS)) as u64;
        let mut halves: Vec<u64> =
            (0..=INSTANTS).filter_map(|i| Some(self.bounds_at(at(i)).width_ns()?.div_ceil(2))).collect();
        halves.sort_unstable();
        let of = |share: usize| halves.get((halves.len().checked_sub(1)?) * share / 100).copied();
        Some([of(0)?, of(50)?, of(99)?, of(100)?])
    }

    /// The two packets behind the lower and the upper bound at an instant.
    pub fn limiting_at(&self, at_ns: u64) -> (Option<Constraint>, Option<Constraint>) {
        let of = |kind| {
            let points = self.epochs_at(at_ns).map(|epoch| epoch.side(kind).limiting(at_ns, self.drift));
            let widest = points.flatten().max_by_key(|point| point.bound_at(at_ns, self.drift))?;
            Some(widest.constraint(kind))
        };
        (of(Kind::Lower), of(Kind::Upper))
    }
}

/// True if B's clock may have shown `b_ns` between two instants of A, by bounds of one side.
fn may_show(bounds: &Bounds, b_ns: u64, first_ns: u64, last_ns: u64) -> bool {
    // More than the drift within an epoch of an hour.
    const SLACK_NS: i128 = 1_000_000_000;
    let at = |difference_ns: i64| i128::from(b_ns) - i128::from(difference_ns);
    bounds.upper.is_none_or(|upper| at(upper) - SLACK_NS <= i128::from(last_ns))
        && bounds.lower.is_none_or(|lower| at(lower) + SLACK_NS >= i128::from(first_ns))
}

/// An instant that is one of two.
fn either(one: Inverse, other: Inverse) -> Inverse {
    let (from_ns, to_ns) = (one.from_ns.min(other.from_ns), one.to_ns.max(other.to_ns));
    if (one.from_ns, one.to_ns) == (from_ns, to_ns) {
        return one;
    }
    Inverse { at_ns: from_ns + (to_ns - from_ns) / 2, from_ns, to_ns }
}

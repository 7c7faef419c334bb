//! Both levels with hindsight: forward and backward over a whole recording.

use super::builder::Builder;
use super::constraint::{Bounds, Constraint, Counts, Kind, State};
use super::drift::Drift;
use super::epoch::Epoch;
use super::external::Known;
use super::live::with_model;
use super::seen::clamped;

/// Bounds of `D` at every instant of a recording. Those of Level 0 are the tightest that follow from its packets and ρ alone, since
/// all constraints, earlier and later ones, bound every instant of their epoch.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub(super) drift: Drift,
    pub(super) epochs: Vec<Epoch>,
    /// What may be one epoch more.
    pub(super) doubt: Option<Epoch>,
    pub(super) counts: Counts,
    pub(super) steps: u64,
    pub(super) least_width_ns: Option<u64>,
}

impl Recorded {
    /// From all constraints of a pair, in any order, with ρ = 200 ppm and the default [`Model`](super::Model).
    pub fn build(constraints: impl IntoIterator<Item = Constraint>) -> Self {
        let mut builder = Builder::default();
        constraints.into_iter().for_each(|c| builder.push(c));
        builder.finish()
    }

    /// The epoch of an instant and, where a step lies somewhere between two epochs, the next one too.
    fn epochs_at(&self, at_ns: u64) -> (Option<&Epoch>, Option<&Epoch>) {
        let after = self.epochs.partition_point(|epoch| epoch.to_ns.is_some_and(|to| to < at_ns));
        let epoch = self.epochs.get(after);
        match epoch {
            Some(found) if at_ns < found.from_ns && after > 0 => (self.epochs.get(after - 1), epoch),
            Some(found) if found.to_ns.is_none() => {
                (epoch, self.doubt.as_ref().filter(|doubt| at_ns >= doubt.from_ns))
            }
            _ => (epoch, None),
        }
    }

    /// Level 0: the interval in which `D` lies at `R_A = at_ns`. Between two epochs it has room for
    /// both, and likewise at the end of a recording while constraints stand aside.
    pub fn bounds_at(&self, at_ns: u64) -> Bounds {
        let (epoch, next) = self.epochs_at(at_ns);
        let bounds = epoch.map_or(Bounds::NONE, |epoch| epoch.bounds_at(at_ns, self.drift));
        next.map_or(bounds, |next| bounds.or(&next.bounds_at(at_ns, self.drift)))
    }

    /// The narrower of what is certified and what the model says, with its name.
    pub fn known_at(&self, at_ns: u64) -> Known {
        let windows = match self.epochs_at(at_ns) {
            (Some(epoch), None) => epoch.windows.bounds_at(at_ns),
            _ => None,
        };
        with_model(self.bounds_at(at_ns), self.state_at(at_ns), windows)
    }

    /// `D` and how far it may be off by Level 0, nanoseconds; `None` unless bounded from both sides.
    ///
    /// It is the middle of the model's lines, clamped into what is certified: so no packet that was used has a negative
    /// delay beyond its error.
    pub fn estimate_at(&self, at_ns: u64) -> Option<(i64, u64)> {
        let bounds = self.bounds_at(at_ns);
        let smooth = match self.epochs_at(at_ns) {
            (Some(epoch), None) => epoch.windows.middle_at(at_ns),
            _ => None,
        };
        clamped(&bounds, smooth.or(bounds.middle_ns())?)
    }

    /// How often Level 1 was found wrong and a window was split.
    pub fn splits(&self) -> u64 {
        self.epochs.iter().map(|epoch| epoch.windows.splits()).sum()
    }

    /// What the certified bounds rest on at an instant.
    pub fn state_at(&self, at_ns: u64) -> State {
        let (epoch, _) = self.epochs_at(at_ns);
        epoch.map_or(State::Unsynchronised, |epoch| epoch.seen.state_at(at_ns, &self.bounds_at(at_ns)))
    }

    /// What the bounds rest on where the most is known: amid the packets of the last epoch.
    pub fn state(&self) -> State {
        let span = self.epochs.last().and_then(|epoch| epoch.seen.both());
        let at_ns = span.map_or_else(|| self.epochs.last().map_or(0, |epoch| epoch.from_ns), |(_, to)| to);
        self.state_at(at_ns)
    }

    /// An instant of A amid the packets of the last epoch: where to begin to look for one.
    pub fn middle_ns(&self) -> Option<u64> {
        let epoch = self.epochs.last()?;
        let (from, to) = epoch.seen.both()?;
        Some(from / 2 + to / 2)
    }

    /// From the first to the last instant of A that lies between packets of both directions.
    pub fn span_ns(&self) -> Option<(u64, u64)> {
        let mut spans =
            self.epochs.iter().filter_map(|epoch| epoch.seen.both()).filter(|(from, to)| from <= to);
        let (from, to) = spans.next()?;
        Some((from, spans.next_back().map_or(to, |(_, to)| to)))
    }

    /// What became of the constraints.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The same with some more that were left between two epochs before they came here.
    #[must_use]
    pub fn with_more_between_epochs(mut self, more: u64) -> Self {
        self.counts.between_epochs += more;
        self
    }

    /// How often the clocks stepped.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The smallest upper minus lower bound: no round trip was quicker, but for drift and error.
    pub fn min_round_trip_ns(&self) -> Option<u64> {
        self.least_width_ns
    }

    /// How fast B's clock runs against A's on average over the last epoch, and how far from the truth that can be, parts per
    /// million; `None` without packets both ways over some time.
    pub fn drift_ppm(&self) -> Option<(f64, f64)> {
        let epoch = self.epochs.last()?;
        let (from, to) = epoch.seen.both()?;
        let ends = [epoch.bounds_at(from, self.drift), epoch.bounds_at(to, self.drift)];
        let run = to.checked_sub(from).filter(|run| *run > 0)? as f64;
        let rise = i128::from(ends[1].middle_ns()?) - i128::from(ends[0].middle_ns()?);
        let doubt = u128::from(ends[0].width_ns()?) + u128::from(ends[1].width_ns()?);
        Some((rise as f64 / run * 1e6, doubt.div_ceil(2) as f64 / run * 1e6))
    }

    /// Half widths of the certified bounds at a thousand instants between the first packet and the last: the least, the
    /// median, that which 99 in 100 do not exceed, the greatest, nanoseconds.
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

    /// The two packets that the lower and the upper bound rest on at an instant.
    pub fn limiting_at(&self, at_ns: u64) -> (Option<Constraint>, Option<Constraint>) {
        let (epoch, _) = self.epochs_at(at_ns);
        let of = |kind| {
            let point = epoch?.side(kind).limiting(at_ns, self.drift)?;
            Some(point.constraint(kind))
        };
        (of(Kind::Lower), of(Kind::Upper))
    }
}

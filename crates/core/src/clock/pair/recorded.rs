//! Both levels with hindsight: forward and backward over a whole recording.

use super::cones::{Cones, Point};
use super::constraint::{Bounds, Constraint, Counts, Kind, State};
use super::drift::{Drift, Micro, round_up};
use super::envelope::Envelope;
use super::external::Known;
use super::judge::{Judge, Verdict};
use super::live::with_model;
use super::model::{Model, Windows};
use super::seen::{Seen, clamped};
use std::mem::take;

/// Constraints that wait to be sorted, at most: 32 MiB.
const MOST_WAITING: usize = 1 << 20;
/// Constraints kept a kind, at most: 24 MiB. In an hour one in 3.4 ms, which costs the bounds 0.35 µs.
const MOST_KEPT: usize = 1 << 20;
/// Epochs kept, at most; with more, something steps all the time and the oldest are forgotten.
const MOST_EPOCHS: usize = 1024;

/// Windows of Level 1 kept, at most: three days of the usual length.
const MOST_WINDOWS: usize = 1 << 15;

/// A span without a step of either clock.
#[derive(Clone, Debug)]
struct Epoch {
    /// Begins with the first constraint that only this epoch explains.
    from_ns: u64,
    /// Ends with the last constraint that the next epoch does not explain.
    to_ns: Option<u64>,
    upper: Envelope,
    lower: Envelope,
    windows: Windows,
    seen: Seen,
}

impl Epoch {
    fn new(from_ns: u64, drift: Drift, model: Model) -> Self {
        Epoch {
            from_ns,
            to_ns: None,
            upper: Envelope::default(),
            lower: Envelope::default(),
            windows: Windows::new(drift, model),
            seen: Seen::default(),
        }
    }

    fn side(&self, kind: Kind) -> &Envelope {
        match kind {
            Kind::Upper => &self.upper,
            Kind::Lower => &self.lower,
        }
    }

    fn add(&mut self, constraint: &Constraint, drift: Drift, most: usize) -> u64 {
        self.seen.add(constraint);
        self.windows.push(constraint);
        let side = match constraint.kind {
            Kind::Upper => &mut self.upper,
            Kind::Lower => &mut self.lower,
        };
        side.push(Point::of(constraint), drift, most)
    }

    fn bounds_at(&self, at_ns: u64, drift: Drift) -> Bounds {
        let bound = |side: &Envelope| side.bound_at(at_ns, drift).map(round_up);
        Bounds { upper: bound(&self.upper), lower: bound(&self.lower).map(i64::saturating_neg) }
    }

    /// The constraints of this epoch, by kind and place, that another leaves no room for.
    fn against(&self, other: &Epoch, drift: Drift) -> Vec<(Kind, usize)> {
        let of = |kind, others: &Envelope| -> Vec<(Kind, usize)> {
            let apart = |p: &Point| {
                let room = others.bound_at(p.at_ns, drift).unwrap_or(Micro::MAX / 2);
                p.bound_at(p.at_ns, drift) + room < 0
            };
            let points = self.side(kind).points().iter().enumerate();
            points.filter(|(_, p)| apart(p)).map(|(i, _)| (kind, i)).collect()
        };
        let mut all = of(Kind::Upper, &other.lower);
        all.extend(of(Kind::Lower, &other.upper));
        all
    }
}

/// Collects the constraints of a pair for [`Recorded`]. They may come in any order; in a stream longer than a
/// million, one that comes later than a million others may be left out, which only widens.
#[derive(Clone, Debug)]
pub struct Builder {
    judge: Judge,
    model: Model,
    waiting: Vec<Constraint>,
    /// Since something was put aside, and whether the epoch agrees with it.
    pending: Vec<(Constraint, bool)>,
    epochs: Vec<Epoch>,
    counts: Counts,
    steps: u64,
    most_waiting: usize,
    most_kept: usize,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new(Drift::default(), Model::default())
    }
}

impl Builder {
    /// Nothing collected yet.
    pub fn new(drift: Drift, model: Model) -> Self {
        Builder {
            judge: Judge::new(drift),
            model,
            waiting: Vec::new(),
            pending: Vec::new(),
            epochs: vec![Epoch::new(0, drift, model)],
            counts: Counts::default(),
            steps: 0,
            most_waiting: MOST_WAITING,
            most_kept: MOST_KEPT,
        }
    }

    /// With other bounds of memory: constraints waiting to be sorted, and constraints kept a kind.
    #[must_use]
    pub fn with_memory(self, most_waiting: usize, most_kept: usize) -> Self {
        Builder { most_waiting, most_kept, ..self }
    }

    /// Adds a constraint.
    pub fn push(&mut self, constraint: Constraint) {
        self.waiting.push(constraint);
        if self.waiting.len() >= self.most_waiting.max(2) {
            self.waiting.sort_unstable();
            let rest = self.waiting.split_off(self.waiting.len() / 2);
            for constraint in std::mem::replace(&mut self.waiting, rest) {
                self.judge(&constraint);
            }
        }
    }

    /// Says that the clocks are known to have stepped at an instant of A: what comes from it on has nothing to do with
    /// what came before. Everything before has to be pushed first.
    pub fn step_at(&mut self, at_ns: u64) {
        self.settle_all();
        self.judge = Judge::new(self.judge.drift());
        if let Some(epoch) = self.epochs.last_mut() {
            epoch.to_ns = Some(at_ns.saturating_sub(1));
        }
        self.begin(Epoch::new(at_ns, self.judge.drift(), self.model));
    }

    /// The bounds.
    pub fn finish(mut self) -> Recorded {
        self.counts.quarantined = {
            self.sort_and_judge();
            self.judge.aside()
        };
        self.settle(false);
        let drift = self.judge.drift();
        let widths = self.epochs.iter().flat_map(|epoch| {
            let points = epoch.upper.points().iter().chain(epoch.lower.points());
            points.filter_map(|p| epoch.bounds_at(p.at_ns, drift).width_ns())
        });
        let least_width_ns = widths.min();
        let Builder { epochs, counts, steps, .. } = self;
        Recorded { drift, epochs, counts, steps, least_width_ns }
    }

    fn sort_and_judge(&mut self) {
        self.waiting.sort_unstable();
        for constraint in take(&mut self.waiting) {
            self.judge(&constraint);
        }
    }

    fn settle_all(&mut self) {
        self.sort_and_judge();
        self.settle(true);
    }

    fn judge(&mut self, constraint: &Constraint) {
        if self.epochs.last().is_some_and(|epoch| constraint.at_ns < epoch.from_ns) {
            self.counts.between_epochs += 1;
            return;
        }
        match self.judge.push(constraint) {
            Verdict::Agrees => match self.pending.first() {
                Some((first, _)) if first.at_ns <= constraint.at_ns => self.pending.push((*constraint, true)),
                _ => self.add(constraint),
            },
            Verdict::PutAside => self.pending.push((*constraint, false)),
            Verdict::CandidateFell => {
                self.settle(true);
                self.add(constraint);
            }
            Verdict::CandidateReplaced => {
                self.settle(true);
                self.pending.push((*constraint, false));
            }
            Verdict::Rejected => self.counts.rejected += 1,
            Verdict::Epoch => {
                self.pending.push((*constraint, false));
                self.promote();
            }
        }
    }

    /// The epoch goes on: what agreed with it belongs to it, what was put aside was false, or is not decided about.
    fn settle(&mut self, decided: bool) {
        for (constraint, agrees) in take(&mut self.pending) {
            if agrees {
                self.add(&constraint);
            } else if decided {
                self.counts.rejected += 1;
            }
        }
    }

    fn add(&mut self, constraint: &Constraint) {
        self.counts.used += 1;
        let epochs = self.epochs.len().max(1);
        if let Some(epoch) = self.epochs.last_mut() {
            self.counts.thinned += epoch.add(constraint, self.judge.drift(), self.most_kept / epochs);
            epoch.windows.keep(MOST_WINDOWS / epochs);
        }
    }

    /// Enough constraints agree with each other and not with the epoch.
    fn promote(&mut self) {
        let drift = self.judge.drift();
        let pending = take(&mut self.pending);
        let Some(((first, _), epoch)) = pending.first().zip(self.epochs.last_mut()) else {
            return;
        };
        let mut next = Epoch::new(first.at_ns, drift, self.model);
        for (constraint, _) in &pending {
            next.add(constraint, drift, self.most_kept);
        }
        let against = epoch.against(&next, drift);
        if let [(kind, at)] = against[..] {
            // A single one stands against all of these: it is the false one, and there was no step.
            match kind {
                Kind::Upper => epoch.upper.remove(at),
                Kind::Lower => epoch.lower.remove(at),
            }
            self.counts.rejected += 1;
            self.counts.used = self.counts.used.saturating_sub(1);
            for (constraint, _) in &pending {
                self.add(constraint);
            }
            if let Some(epoch) = self.epochs.last() {
                self.judge.cones = Cones::of(epoch.upper.last().copied(), epoch.lower.last().copied());
            }
            return;
        }
        let last =
            against.iter().filter_map(|(kind, at)| Some(epoch.side(*kind).points().get(*at)?.at_ns)).max();
        let to_ns = last.unwrap_or(first.at_ns);
        epoch.to_ns = Some(to_ns);
        epoch.upper.truncate_after(to_ns);
        epoch.lower.truncate_after(to_ns);
        self.counts.used += pending.len() as u64;
        self.begin(next);
    }

    fn begin(&mut self, epoch: Epoch) {
        self.steps += 1;
        self.epochs.push(epoch);
        if self.epochs.len() > MOST_EPOCHS {
            self.epochs.remove(0);
        }
    }
}

/// Bounds of `D` at every instant of a recording. Those of Level 0 are the tightest that follow from its packets and ρ alone, since
/// all constraints, earlier and later ones, bound every instant of their epoch.
#[derive(Clone, Debug)]
pub struct Recorded {
    drift: Drift,
    epochs: Vec<Epoch>,
    counts: Counts,
    steps: u64,
    least_width_ns: Option<u64>,
}

impl Recorded {
    /// From all constraints of a pair, in any order, with ρ = 200 ppm and the default [`Model`].
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
            _ => (epoch, None),
        }
    }

    /// Level 0: the interval in which `D` lies at `R_A = at_ns`. Between two epochs it has room for both.
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

    /// What became of the constraints.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How often the clocks stepped.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The smallest upper minus lower bound: no round trip was quicker, but for drift and error.
    pub fn min_round_trip_ns(&self) -> Option<u64> {
        self.least_width_ns
    }

    /// How fast B's clock runs against A's in the last epoch, parts per million; `None` without packets both ways over
    /// some time.
    pub fn drift_ppm(&self) -> Option<f64> {
        let epoch = self.epochs.last()?;
        let (from, to) = epoch.seen.both()?;
        let middle = |at| epoch.bounds_at(at, self.drift).middle_ns();
        let run = to.checked_sub(from).filter(|run| *run > 0)?;
        let rise = i128::from(middle(to)?) - i128::from(middle(from)?);
        Some(rise as f64 / run as f64 * 1e6)
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

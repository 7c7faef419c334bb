//! Level 0 as packets arrive.

use super::cones::Cones;
use super::constraint::{Bounds, Constraint, Counts, State};
use super::drift::Drift;
use super::epoch_detector::{EpochDetector, Verdict};
use super::external::SourcedBounds;
use super::seen::{Seen, clamped};

/// Outcome of a constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Part of the bounds.
    Used,
    /// Contradicts them; a candidate until others decide.
    Quarantined,
    /// Contradicts them; rejected.
    Rejected,
    /// With it enough others agree: the clock has stepped, and the bounds start there.
    NewEpoch,
    /// Of an instant before the newest step: it bounds nothing now.
    BeforeStep,
}

/// A detected step of one of two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockStep {
    /// The instant of its detection, on R of A.
    pub at_ns: u64,
    /// Change of `D`, nanoseconds: an estimate, with the error of the bounds on both sides.
    pub change_ns: i64,
}

impl ClockStep {
    /// From the bounds before and after it; `None` if they have no side in common.
    fn between(before: &Cones, after: &Cones, at_ns: u64, drift: Drift) -> Option<Self> {
        let (before, after) = (before.bounds_at(at_ns, drift), after.bounds_at(at_ns, drift));
        let ends =
            [(before.middle_ns(), after.middle_ns()), (before.upper, after.upper), (before.lower, after.lower)];
        let (old_ns, new_ns) = ends.into_iter().find_map(|(before, after)| before.zip(after))?;
        Some(ClockStep { at_ns, change_ns: new_ns.saturating_sub(old_ns) })
    }
}

/// Certified bounds of `D` for the instants after the newest packet, O(1) in time and memory per constraint.
///
/// Earlier instants are valid queries too: the answer holds and is wider than that of
/// [`Recorded`](super::Recorded).
#[derive(Clone, Debug, Default)]
pub struct Level0 {
    judge: EpochDetector,
    seen: Seen,
    counts: Counts,
    epochs: u64,
    /// The first instant of the newest epoch that packets proved.
    epoch_from_ns: u64,
    least_width_ns: Option<u64>,
    /// Width of the bounds at the newest constraint that is part of them.
    newest_width_ns: Option<u64>,
    last_step: Option<ClockStep>,
}

impl Level0 {
    /// An estimator without constraints.
    pub fn new(drift: Drift) -> Self {
        Level0 { judge: EpochDetector::new(drift), ..Self::default() }
    }

    /// Adds a constraint. The order should be that of `at_ns`; a late one is checked against the current bounds
    /// and can only tighten them. One from before the newest step is left out.
    pub fn push(&mut self, constraint: &Constraint) -> Outcome {
        // Packets come in order but for the readers' delays. Those from before a step would prove a step back.
        if constraint.at_ns < self.epoch_from_ns {
            self.counts.between_epochs += 1;
            return Outcome::BeforeStep;
        }
        let aside = self.judge.aside();
        let candidate_ns = self.judge.candidate_from_ns();
        let before = (aside > 0).then_some(self.judge.cones);
        let outcome = match self.judge.push(constraint) {
            Verdict::Agrees => Outcome::Used,
            Verdict::PutAside => Outcome::Quarantined,
            Verdict::CandidateFell => {
                self.counts.rejected += aside;
                Outcome::Used
            }
            Verdict::CandidateReplaced => {
                self.counts.rejected += aside;
                Outcome::Quarantined
            }
            Verdict::Rejected => {
                self.counts.rejected += 1;
                Outcome::Rejected
            }
            Verdict::Epoch => {
                self.counts.used += aside + 1;
                self.epochs += 1;
                self.epoch_from_ns = candidate_ns.unwrap_or(constraint.at_ns);
                self.seen = Seen::default();
                let (after, drift) = (&self.judge.cones, self.judge.drift());
                let step =
                    before.and_then(|before| ClockStep::between(&before, after, constraint.at_ns, drift));
                self.last_step = step.or(self.last_step);
                Outcome::NewEpoch
            }
        };
        self.counts.used += u64::from(outcome == Outcome::Used);
        if matches!(outcome, Outcome::Used | Outcome::NewEpoch) {
            self.seen.add(constraint);
            let width = self.judge.cones.bounds_at(constraint.at_ns, self.judge.drift()).width_ns();
            self.least_width_ns = [self.least_width_ns, width].into_iter().flatten().min();
            self.newest_width_ns = width;
        }
        outcome
    }

    /// Discards the bounds after a reported step of the clocks: suspend, migration, another clock source.
    pub fn step(&mut self) {
        self.counts.rejected += self.judge.aside();
        self.judge = EpochDetector::new(self.judge.drift());
        self.seen = Seen::default();
        self.epochs += 1;
    }

    /// The interval of `D` at `R_A = at_ns`.
    pub fn bounds_at(&self, at_ns: u64) -> Bounds {
        self.judge.bounds_at(at_ns)
    }

    /// `D` and its error, nanoseconds; `None` unless bounded from both sides.
    pub fn estimate_at(&self, at_ns: u64) -> Option<(i64, u64)> {
        let bounds = self.bounds_at(at_ns);
        let estimate = clamped(&SourcedBounds::from_packets(bounds, State::Certified), &bounds, None)?;
        Some((estimate.ns, estimate.half_width_ns()))
    }

    /// Basis of the bounds.
    pub fn state_at(&self, at_ns: u64) -> State {
        self.seen.state_at(at_ns, &self.bounds_at(at_ns))
    }

    /// Counts of the constraints by outcome.
    pub fn counts(&self) -> Counts {
        Counts { quarantined: self.judge.aside(), ..self.counts }
    }

    /// Number of detected steps of the clocks.
    pub fn steps(&self) -> u64 {
        self.epochs
    }

    /// The newest step that packets showed, if its size is bounded.
    pub fn last_step(&self) -> Option<ClockStep> {
        self.last_step
    }

    /// The smallest difference of upper and lower bound so far: the quickest round trip, up to drift and error.
    pub fn min_round_trip_ns(&self) -> Option<u64> {
        self.least_width_ns
    }

    /// Width of the bounds at the newest constraint that is part of them; `None` unless bounded from both sides.
    pub(super) fn newest_width_ns(&self) -> Option<u64> {
        self.newest_width_ns
    }

    /// The two packets behind the lower and the upper bound.
    pub fn limiting(&self) -> (Option<Constraint>, Option<Constraint>) {
        self.judge.cones.limiting()
    }
}

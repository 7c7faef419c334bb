//! The decision between a false match and a step of a clock.
//!
//! A constraint that contradicts the bounds is false (two packets taken for one) or the first after a step
//! (suspend, migration of a virtual machine). It becomes a *candidate* for a new epoch. Each later constraint
//! is checked against both. One that agrees with the old bounds and contradicts the candidate shows that the
//! candidate was false. Eight that contradict the old bounds and agree with each other, with none against, are
//! a new epoch.

use super::cones::Cones;
use super::constraint::{Bounds, Constraint};
use super::drift::Drift;

/// Number of mutually consistent constraints that form an epoch.
const AGREE: u64 = 8;
/// Ratio of neutral constraints to candidates at which a candidate is discarded.
const NEUTRAL: u64 = 64;

/// Decision on a constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It agrees with the bounds, and with the candidate if there is one.
    Agrees,
    /// It contradicts the bounds and became a candidate.
    PutAside,
    /// It agrees with the bounds, and the candidate is rejected as false.
    CandidateFell,
    /// It contradicts the bounds and the previous candidate, which is rejected; this one is the new candidate.
    CandidateReplaced,
    /// It contradicts everything.
    Rejected,
    /// It contradicts the bounds and completes a new epoch.
    Epoch,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    from_ns: u64,
    /// Cones of all constraints in agreement with the candidate: the check of the next constraint.
    cones: Cones,
    /// Cones of those that only the candidate explains: certain for a new epoch. Constraints in agreement with
    /// both may lie on either side of a step.
    proven: Cones,
    agree: u64,
    against: u64,
    neutral: u64,
}

impl Candidate {
    fn of(constraint: &Constraint, drift: Drift) -> Self {
        let mut cones = Cones::default();
        cones.add(constraint, drift);
        Candidate { from_ns: constraint.at_ns, cones, proven: cones, agree: 1, against: 0, neutral: 0 }
    }
}

/// The current bounds and the candidate for the next epoch: constant memory, constant time per constraint.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EpochDetector {
    drift: Drift,
    pub(super) cones: Cones,
    candidate: Option<Candidate>,
}

impl EpochDetector {
    pub(super) fn new(drift: Drift) -> Self {
        EpochDetector { drift, ..Self::default() }
    }

    pub(super) fn drift(&self) -> Drift {
        self.drift
    }

    /// Instant of the first constraint of the candidate.
    pub(super) fn candidate_from_ns(&self) -> Option<u64> {
        self.candidate.map(|candidate| candidate.from_ns)
    }

    /// Number of constraints of the candidate.
    pub(super) fn aside(&self) -> u64 {
        self.candidate.map_or(0, |c| c.agree)
    }

    /// The bounds; with a candidate, wide enough for both before and after a step.
    pub(super) fn bounds_at(&self, at_ns: u64) -> Bounds {
        let bounds = self.cones.bounds_at(at_ns, self.drift);
        match self.candidate {
            Some(candidate) if at_ns >= candidate.from_ns => {
                bounds.or(&candidate.proven.bounds_at(at_ns, self.drift))
            }
            _ => bounds,
        }
    }

    pub(super) fn push(&mut self, constraint: &Constraint) -> Verdict {
        let drift = self.drift;
        let fits = self.cones.allows(constraint, drift);
        let Some(candidate) = &mut self.candidate else {
            if fits {
                self.cones.add(constraint, drift);
                return Verdict::Agrees;
            }
            self.candidate = Some(Candidate::of(constraint, drift));
            return Verdict::PutAside;
        };
        if constraint.at_ns < candidate.from_ns {
            // From before the possible step: no information about it.
            if fits {
                self.cones.add(constraint, drift);
            }
            return if fits { Verdict::Agrees } else { Verdict::Rejected };
        }
        match (fits, candidate.cones.allows(constraint, drift)) {
            (true, true) => {
                candidate.cones.add(constraint, drift);
                candidate.neutral += 1;
                let fell = candidate.neutral > NEUTRAL * candidate.agree;
                self.cones.add(constraint, drift);
                if fell {
                    self.candidate = None;
                    return Verdict::CandidateFell;
                }
                Verdict::Agrees
            }
            (true, false) => {
                self.cones.add(constraint, drift);
                self.candidate = None;
                Verdict::CandidateFell
            }
            (false, true) => {
                candidate.cones.add(constraint, drift);
                candidate.proven.add(constraint, drift);
                candidate.agree += 1;
                if candidate.agree < AGREE {
                    return Verdict::PutAside;
                }
                self.cones = candidate.proven;
                self.candidate = None;
                Verdict::Epoch
            }
            (false, false) => {
                candidate.against += 1;
                if candidate.against < candidate.agree {
                    return Verdict::Rejected;
                }
                self.candidate = Some(Candidate::of(constraint, drift));
                Verdict::CandidateReplaced
            }
        }
    }
}

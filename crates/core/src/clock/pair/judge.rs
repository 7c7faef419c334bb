//! False match, or a step of a clock? Who decides what a contradiction means.
//!
//! A constraint that leaves no room for a difference is either wrong itself (two packets taken for one) or the first
//! after a step (suspend, migration of a virtual machine). It is put aside, as a *candidate* for a new epoch. Whatever
//! comes next is held against both: what agrees with the old bounds and contradicts the candidate says that the candidate was
//! false; eight that contradict the old bounds and agree with each other, with none against, are a new
//! epoch.

use super::cones::Cones;
use super::constraint::{Bounds, Constraint};
use super::drift::Drift;

/// So many that agree with each other make an epoch.
const AGREE: u64 = 8;
/// So many times as many that agree with both make a candidate not worth keeping.
const NEUTRAL: u64 = 64;

/// What was decided when a constraint came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It agrees with the bounds, and with the candidate if there is one.
    Agrees,
    /// It contradicts the bounds and was put aside.
    PutAside,
    /// It agrees with the bounds, and what was put aside is given up as false.
    CandidateFell,
    /// It contradicts the bounds and the candidate before it, which is given up; this one is the candidate now.
    CandidateReplaced,
    /// It contradicts everything.
    Rejected,
    /// It contradicts the bounds and is the last that was missing for a new epoch.
    Epoch,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    from_ns: u64,
    /// Of all that agree with it: what the next constraint is held against.
    cones: Cones,
    /// Of those that only it explains: what is certain if it is a new epoch. What agrees with both may be of either side of a step.
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

/// The bounds now and the candidate for the next epoch: constant memory, constant time a constraint.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Judge {
    drift: Drift,
    pub(super) cones: Cones,
    candidate: Option<Candidate>,
}

impl Judge {
    pub(super) fn new(drift: Drift) -> Self {
        Judge { drift, ..Self::default() }
    }

    pub(super) fn drift(&self) -> Drift {
        self.drift
    }

    /// How many constraints stand aside.
    pub(super) fn aside(&self) -> u64 {
        self.candidate.map_or(0, |c| c.agree)
    }

    /// The bounds, of which nobody can say whether they are those before or after a step while constraints stand
    /// aside.
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
            // From before the step in question, if it was one: says nothing about it.
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

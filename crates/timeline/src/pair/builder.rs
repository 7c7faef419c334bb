//! From constraints in any order to epochs.

use super::boundary::{certain_end_ns, separate};
use super::cones::{Cones, Point};
use super::constraint::{Constraint, Counts, Kind};
use super::drift::Drift;
use super::epoch::Epoch;
use super::epoch_detector::{EpochDetector, Verdict};
use super::hint::{Contradictions, hints};
use super::model::Model;
use super::recorded::Recorded;
use std::collections::{BTreeSet, VecDeque};
use std::mem::take;

/// Maximum number of constraints waiting for sorting: 32 MiB.
const MOST_WAITING: usize = 1 << 20;
/// Maximum number of constraints per kind: 24 MiB. Over an hour that is one per 3.4 ms, which widens the bounds
/// by 0.35 µs.
const MOST_STORED: usize = 1 << 20;
/// Maximum number of epochs; with more, a clock steps continuously and the oldest are discarded.
const MOST_EPOCHS: usize = 1024;

/// Maximum number of Level 1 windows: three days of the default length.
const MOST_WINDOWS: usize = 1 << 15;

/// Number of the newest constraints used to test for a step.
const WITNESSES: usize = 256;
/// Maximum number of false constraints against an epoch, plus one per [`FEW`].
const FALSE_ONES: usize = 2;
const FEW: usize = 32;
/// Maximum number of rejected constraints kept until the end of an epoch: 128 KiB.
const MOST_REFUSED: usize = 4096;

/// Collects the constraints of a pair for [`Recorded`], in any order. In a stream longer than a million, a
/// constraint more than a million places late may be left out, which only widens the bounds.
#[derive(Clone, Debug)]
pub struct Builder {
    judge: EpochDetector,
    model: Model,
    waiting: Vec<Constraint>,
    /// Constraints since the candidate's first, and whether the epoch agrees with each.
    pending: Vec<(Constraint, bool)>,
    /// The newest constraints of the epoch, as witnesses of its bounds.
    newest: VecDeque<Constraint>,
    /// Constraints that contradict this epoch and were rejected as false.
    refused: Vec<Constraint>,
    contradictions: Contradictions,
    epochs: Vec<Epoch>,
    counts: Counts,
    steps: u64,
    most_waiting: usize,
    most_stored: usize,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new(Drift::default(), Model::default())
    }
}

impl Builder {
    /// An empty builder.
    pub fn new(drift: Drift, model: Model) -> Self {
        Builder {
            judge: EpochDetector::new(drift),
            model,
            waiting: Vec::new(),
            pending: Vec::new(),
            newest: VecDeque::new(),
            refused: Vec::new(),
            contradictions: Contradictions::default(),
            epochs: vec![Epoch::new(0, drift, model)],
            counts: Counts::default(),
            steps: 0,
            most_waiting: MOST_WAITING,
            most_stored: MOST_STORED,
        }
    }

    /// Sets the limits of memory: constraints waiting for sorting, and constraints kept per kind.
    #[must_use]
    pub fn with_memory(self, most_waiting: usize, most_stored: usize) -> Self {
        Builder { most_waiting, most_stored, ..self }
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

    /// Reports a step of the clocks at a known instant of A: later constraints are independent of earlier ones.
    /// All earlier constraints must be pushed first.
    pub fn step_at(&mut self, at_ns: u64) {
        self.step_between(at_ns.saturating_sub(1), at_ns);
    }

    /// Reports a step between two instants: the bounds between them allow both epochs.
    pub fn step_between(&mut self, from_ns: u64, to_ns: u64) {
        self.settle_all();
        self.judge = EpochDetector::new(self.judge.drift());
        if let Some(epoch) = self.epochs.last_mut() {
            epoch.to_ns = Some(from_ns);
        }
        let next = Epoch::new(to_ns.max(from_ns), self.judge.drift(), self.model);
        self.begin(Epoch { is_reported: true, ..next });
    }

    /// The newest reported step was before this instant of A: for one whose latest instant was unknown.
    pub fn begin_by(&mut self, at_ns: u64) {
        let ended_ns = self.epochs.iter().rev().nth(1).and_then(|before| before.to_ns).unwrap_or(0);
        if let Some(epoch) = self.epochs.last_mut().filter(|epoch| epoch.is_reported) {
            epoch.from_ns = epoch.from_ns.min(at_ns.max(ended_ns));
        }
    }

    /// The bounds.
    pub fn finish(mut self) -> Recorded {
        self.counts.quarantined = {
            self.sort_and_judge();
            self.judge.aside()
        };
        let drift = self.judge.drift();
        let doubt = self.doubt();
        // these will not be decided any more
        self.refused
            .extend(self.pending.iter().filter(|(_, agrees)| !agrees).map(|(constraint, _)| *constraint));
        self.settle(false);
        self.distrust();
        self.separate_epochs();
        for epoch in &mut self.epochs {
            epoch.smooth(drift);
        }
        let widths = self.epochs.iter().flat_map(|epoch| {
            let points = epoch.upper.points().iter().chain(epoch.lower.points());
            points.filter_map(|p| epoch.bounds_at(p.at_ns, drift).width_ns())
        });
        let least_width_ns = widths.min();
        let hints = hints(&self.epochs, doubt.as_ref(), &self.contradictions, (drift, self.model));
        let Builder { epochs, counts, steps, .. } = self;
        Recorded { drift, epochs, doubt, counts, steps, least_width_ns, hints, end_ns: u64::MAX }
    }

    fn separate_epochs(&mut self) {
        let drift = self.judge.drift();
        for at in 1..self.epochs.len() {
            let (before, after) = self.epochs.split_at_mut(at);
            if let (Some(old), Some(new)) = (before.last_mut(), after.first_mut()) {
                let removed = separate(old, new, drift);
                self.counts.between_epochs += removed;
                self.counts.used = self.counts.used.saturating_sub(removed);
            }
        }
        // Steps are in order, independent of single proofs.
        let mut end_ns = 0;
        for epoch in &mut self.epochs {
            epoch.to_ns = epoch.to_ns.map(|to_ns| to_ns.max(end_ns));
            end_ns = epoch.to_ns.unwrap_or(end_ns);
        }
        let mut begin_ns = u64::MAX;
        for epoch in self.epochs.iter_mut().rev() {
            epoch.from_ns = epoch.from_ns.min(begin_ns);
            begin_ns = epoch.from_ns;
        }
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
            Verdict::Rejected => self.refuse(*constraint),
            Verdict::Epoch => {
                self.pending.push((*constraint, false));
                self.promote();
            }
        }
    }

    /// The epoch continues: constraints in agreement belong to it; candidates were false, or stay undecided.
    fn settle(&mut self, decided: bool) {
        for (constraint, agrees) in take(&mut self.pending) {
            if agrees {
                self.add(&constraint);
            } else if decided {
                self.refuse(constraint);
            }
        }
    }

    fn refuse(&mut self, constraint: Constraint) {
        self.counts.rejected += 1;
        self.contradictions.add(constraint.at_ns);
        if self.refused.len() < MOST_REFUSED {
            self.refused.push(constraint);
        }
    }

    /// Ends an epoch. A rejected constraint contradicted by only one or two others was perhaps true, and those
    /// were false; the data cannot decide. So neither side is used: the bounds are wider, and correct.
    fn distrust(&mut self) {
        let drift = self.judge.drift();
        let refused = take(&mut self.refused);
        let Some(epoch) = self.epochs.last_mut() else { return };
        for kind in [Kind::Upper, Kind::Lower] {
            let others = refused.iter().filter(|constraint| constraint.kind != kind);
            let against = others.map(|other| epoch.side(kind).against(&Point::of(other), drift));
            let alone: BTreeSet<usize> =
                against.filter(|places| places.len() <= FALSE_ONES).flatten().collect();
            self.counts.rejected += alone.len() as u64;
            self.counts.used = self.counts.used.saturating_sub(alone.len() as u64);
            for place in alone.into_iter().rev() {
                epoch.side_mut(kind).remove(place);
            }
        }
    }

    fn add(&mut self, constraint: &Constraint) {
        self.counts.used += 1;
        if self.newest.len() >= WITNESSES {
            self.newest.pop_front();
        }
        self.newest.push_back(*constraint);
        let epochs = self.epochs.len().max(1);
        if let Some(epoch) = self.epochs.last_mut() {
            self.counts.thinned += epoch.add(constraint, self.judge.drift(), self.most_stored / epochs);
            epoch.windows.keep(MOST_WINDOWS / epochs);
        }
    }

    /// The candidate epoch at the end, and the last instant that it does not explain: after it a step is
    /// possible and undecided.
    fn doubt(&self) -> Option<Epoch> {
        let drift = self.judge.drift();
        let (first, _) = self.pending.first()?;
        let mut next = Epoch::new(first.at_ns, drift, self.model);
        // A constraint in agreement with both does not distinguish them.
        for (constraint, _) in self.pending.iter().filter(|(_, agrees)| !agrees) {
            next.add(constraint, drift, self.most_stored);
        }
        let end_ns = certain_end_ns(self.epochs.last()?, &next, drift);
        Some(Epoch { from_ns: end_ns.map_or(first.at_ns, |end_ns| end_ns.saturating_add(1)), ..next })
    }

    /// Enough constraints agree with each other and not with the epoch.
    fn promote(&mut self) {
        let drift = self.judge.drift();
        let pending = take(&mut self.pending);
        let Some(((first, _), epoch)) = pending.first().zip(self.epochs.last_mut()) else {
            return;
        };
        let mut next = Epoch::new(first.at_ns, drift, self.model);
        // A constraint in agreement with both may lie on either side of the step, so it bounds neither.
        for (constraint, _) in pending.iter().filter(|(_, agrees)| !agrees) {
            next.add(constraint, drift, self.most_stored);
        }
        let against = epoch.against(&next, drift);
        let witnesses = self.newest.iter().filter(|c| next.excludes(c, drift)).count();
        if against.len() <= FALSE_ONES && witnesses <= FALSE_ONES + self.newest.len() / FEW {
            // One or two constraints bound the epoch against all of these, and they represent few: they are
            // false, and there was no step.
            for (kind, at) in against.iter().rev() {
                epoch.side_mut(*kind).remove(*at);
            }
            let out = against.len() as u64;
            self.counts.rejected += out;
            self.counts.used = self.counts.used.saturating_sub(out);
            for (constraint, _) in &pending {
                self.add(constraint);
            }
            if let Some(epoch) = self.epochs.last() {
                self.judge.cones = Cones::of(epoch.upper.last().copied(), epoch.lower.last().copied());
            }
            return;
        }
        epoch.closing = self.newest.iter().filter(|c| next.excludes(c, drift)).copied().collect();
        // Until the recording ends: then both epochs are complete, and [`separate`] finds their boundary.
        epoch.to_ns = Some(first.at_ns);
        next.opening =
            pending.iter().filter(|(_, agrees)| !agrees).map(|(constraint, _)| *constraint).collect();
        let proofs = next.opening.len() as u64;
        self.counts.used += proofs;
        self.counts.between_epochs += pending.len() as u64 - proofs;
        self.begin(next);
    }

    fn begin(&mut self, epoch: Epoch) {
        self.steps += 1;
        self.newest.clear();
        self.distrust();
        self.epochs.push(epoch);
        if self.epochs.len() > MOST_EPOCHS {
            self.epochs.remove(0);
        }
    }
}

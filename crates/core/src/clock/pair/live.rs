//! Both levels as packets come.

use super::constraint::{Bounds, Constraint, State};
use super::drift::Drift;
use super::external::Known;
use super::level0::{Level0, Outcome};
use super::model::{Model, Windows};
use super::seen::clamped;

/// Level 0 and Level 1 for the instants after the newest packet: constant memory, and constant time a constraint but
/// for the few that touch a hull.
#[derive(Clone, Debug)]
pub struct Live {
    level0: Level0,
    windows: Windows,
    drift: Drift,
    model: Model,
}

impl Default for Live {
    fn default() -> Self {
        Self::new(Drift::default(), Model::default())
    }
}

impl Live {
    /// Nothing is known yet.
    pub fn new(drift: Drift, model: Model) -> Self {
        Live { level0: Level0::new(drift), windows: Windows::new(drift, model), drift, model }
    }

    /// Takes a constraint, see [`Level0::push`].
    pub fn push(&mut self, constraint: &Constraint) -> Outcome {
        let outcome = self.level0.push(constraint);
        match outcome {
            Outcome::Used => {
                self.windows.push(constraint);
                self.windows.forget_before(constraint.at_ns);
            }
            Outcome::NewEpoch => self.windows = Windows::new(self.drift, self.model),
            Outcome::Quarantined | Outcome::Rejected => {}
        }
        outcome
    }

    /// Forgets the bounds because the clocks are known to have stepped.
    pub fn step(&mut self) {
        self.level0.step();
        self.windows = Windows::new(self.drift, self.model);
    }

    /// Level 0: bounds, state, counts, the packets that limit.
    pub fn certified(&self) -> &Level0 {
        &self.level0
    }

    /// The narrower of what is certified and what the model says, with its name.
    pub fn known_at(&self, at_ns: u64) -> Known {
        let certified = self.level0.bounds_at(at_ns);
        // While constraints stand aside the model may be that of before a step.
        let windows = (self.level0.counts().quarantined == 0).then_some(&self.windows);
        with_model(certified, self.level0.state_at(at_ns), windows.and_then(|w| w.bounds_at(at_ns)))
    }

    /// `D` and how far it may be off by Level 0, nanoseconds: the middle of the model's lines, clamped into what is
    /// certified. So no packet that was used has a negative delay beyond its error.
    pub fn estimate_at(&self, at_ns: u64) -> Option<(i64, u64)> {
        let certified = self.level0.bounds_at(at_ns);
        clamped(&certified, self.windows.middle_at(at_ns).or(certified.middle_ns())?)
    }
}

/// Certified bounds, narrowed by the model where it agrees with them.
pub(super) fn with_model(certified: Bounds, state: State, model: Option<Bounds>) -> Known {
    let packets = Known::from_packets(certified, state);
    let Some(model) = model else { return packets };
    let both = certified.and(&model);
    if both == certified || both.is_empty() || state != State::Certified {
        return packets;
    }
    Known { bounds: both, state: State::Model, ..packets }
}

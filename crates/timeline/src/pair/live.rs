//! Both levels as packets arrive.

use super::constraint::{Bounds, Constraint, Kind, State};
use super::drift::Drift;
use super::external::SourcedBounds;
use super::hint::Hint;
use super::level0::{Level0, Outcome};
use super::live_hints::LiveHints;
use super::model::{Model, Windows};
use super::seen::clamped;

/// Level 0 and Level 1 for the instants after the newest packet. Memory is constant, and so is the time per
/// constraint, except for the few that touch a hull.
#[derive(Clone, Debug)]
pub struct Live {
    level0: Level0,
    windows: Windows,
    drift: Drift,
    model: Model,
    newest_ns: Option<u64>,
    /// Instant of the last step on A: bounds before it are discarded. `None` until it is known.
    valid_from_ns: Option<u64>,
    hints: LiveHints,
}

impl Default for Live {
    fn default() -> Self {
        Self::new(Drift::default(), Model::default())
    }
}

impl Live {
    /// An estimator without constraints.
    pub fn new(drift: Drift, model: Model) -> Self {
        Live {
            level0: Level0::new(drift),
            windows: Windows::new(drift, model),
            drift,
            model,
            newest_ns: None,
            valid_from_ns: Some(0),
            hints: LiveHints::new(model),
        }
    }

    /// Adds a constraint, see [`Level0::push`].
    pub fn push(&mut self, constraint: &Constraint) -> Outcome {
        let outcome = self.level0.push(constraint);
        self.newest_ns = self.newest_ns.max(Some(constraint.at_ns));
        match outcome {
            Outcome::Used => {
                // A packet from B that A received: packets sent after the step were received after it.
                if constraint.kind == Kind::Lower && self.valid_from_ns != Some(0) {
                    self.valid_from_ns =
                        Some(self.valid_from_ns.map_or(constraint.at_ns, |ns| ns.min(constraint.at_ns)));
                }
                self.windows.push(constraint);
                self.windows.forget_before(constraint.at_ns);
            }
            Outcome::NewEpoch => {
                self.windows = Windows::new(self.drift, self.model);
                self.valid_from_ns = self.newest_ns;
            }
            Outcome::Quarantined | Outcome::Rejected | Outcome::BeforeStep => {}
        }
        self.hints.push(constraint, outcome, &self.level0, self.windows.take_bends());
        outcome
    }

    /// Discards the bounds after a reported step of the clocks.
    pub fn step(&mut self) {
        self.level0.step();
        self.hints.step(self.newest_ns.unwrap_or(0));
        self.windows = Windows::new(self.drift, self.model);
        self.valid_from_ns = None;
    }

    /// The newest instant of A in a packet.
    pub fn newest_ns(&self) -> Option<u64> {
        self.newest_ns
    }

    /// The certified interval of `D` at an instant of A; unbounded before the last step.
    pub fn bounds_at(&self, at_ns: u64) -> Bounds {
        let is_valid = self.valid_from_ns.is_some_and(|from_ns| at_ns >= from_ns);
        if is_valid { self.level0.bounds_at(at_ns) } else { Bounds::NONE }
    }

    /// Its basis.
    pub fn state_at(&self, at_ns: u64) -> State {
        if self.bounds_at(at_ns) == Bounds::NONE {
            return State::Unsynchronised;
        }
        let state = self.level0.state_at(at_ns);
        if state == State::Certified && !self.hints().is_empty() { State::Suspect } else { state }
    }

    /// Hints of the last hour at steps that packets cannot prove, or at a drift beyond ρ. With one,
    /// [`State::Suspect`] replaces [`State::Certified`].
    pub fn hints(&self) -> &[Hint] {
        self.hints.found()
    }

    /// Level 0 after the newest packet: bounds, state, counts, the packets that limit.
    pub fn certified(&self) -> &Level0 {
        &self.level0
    }

    /// The narrower of the certified and the model's interval, with its basis.
    pub fn sourced_bounds_at(&self, at_ns: u64) -> SourcedBounds {
        let certified = self.bounds_at(at_ns);
        // With a candidate the model may be that of before a step.
        let windows = (self.level0.counts().quarantined == 0).then_some(&self.windows);
        with_model(certified, self.state_at(at_ns), windows.and_then(|w| w.bounds_at(at_ns)))
    }

    /// `D` and its error by Level 0, nanoseconds: the middle of the model's lines, clamped into the narrowest
    /// claimed interval. So no used packet has a negative delay beyond its error.
    pub fn estimate_at(&self, at_ns: u64) -> Option<(i64, u64)> {
        let certified = self.bounds_at(at_ns);
        let middle_ns = self.windows.middle_at(at_ns, certified.middle_ns());
        let estimate = clamped(&self.sourced_bounds_at(at_ns), &certified, middle_ns)?;
        Some((estimate.ns, estimate.half_width_ns()))
    }
}

/// Certified bounds, narrowed by the model if it agrees with them.
pub(super) fn with_model(certified: Bounds, state: State, model: Option<Bounds>) -> SourcedBounds {
    let packets = SourcedBounds::from_packets(certified, state);
    let Some(model) = model else { return packets };
    let both = certified.and(&model);
    if both == certified || both.is_empty() || state != State::Certified {
        return packets;
    }
    SourcedBounds { bounds: both, state: State::Model, ..packets }
}

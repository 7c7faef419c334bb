//! The choice of the journeys of a path.

use super::path::{PathLeg, PathPlace, walk};
use magscope_core::Journey;
use magscope_core::context::Context;

/// The journeys whose paths begin with these legs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPick {
    /// The legs, from the sender on.
    pub legs: Vec<PathLeg>,
    /// Also those that left the place before the last one and were not seen again. Which of them would have come to it is
    /// concluded from later packets of their flows, so all of them are chosen.
    pub with_unseen: bool,
    /// The path in words: `client → router → server`.
    pub words: String,
}

impl PathPick {
    /// True for a journey of the path.
    pub fn matches(&self, journey: &Journey, context: &dyn Context) -> bool {
        let mut path = Vec::new();
        walk(journey, context, &mut path);
        let begins = |legs: &[PathLeg]| {
            path.len() >= legs.len() && path.iter().zip(legs).all(|(passage, leg)| passage.leg == *leg)
        };
        if begins(&self.legs) {
            return true;
        }
        let Some((last, before)) = self.legs.split_last().filter(|_| self.with_unseen) else { return false };
        let unseen = PathLeg { left_by: last.left_by, came_by: 0, to: PathPlace::Unseen };
        begins(before) && path.get(before.len()).is_some_and(|passage| passage.leg == unseen)
    }
}

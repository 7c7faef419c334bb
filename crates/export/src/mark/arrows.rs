//! The arrow that viewers draw through the hits of a journey.
//!
//! Hits at the return of a call, hits of copies after the one that ended the journey, and `dev.done` are off the order of
//! time, and have no place on it.

use super::Arrow;
use magscope_core::Hop;
use magscope_core::journey::{Journey, Rung};

/// Identifies a hit of a journey.
type HitId = (Hop, u32, u8, u8);

/// The hits that a journey's arrow goes through.
pub struct Arrows {
    /// In the order of time.
    path: Vec<HitId>,
}

impl Arrows {
    pub fn of(journey: &Journey) -> Self {
        let mut path: Vec<HitId> = journey.path().map(|rung| Self::id(&rung)).collect();
        if path.is_empty() {
            path.extend(journey.all_rungs().next().map(|rung| Self::id(&rung)));
        }
        Arrows { path }
    }

    const fn id(rung: &Rung) -> HitId {
        (rung.hop, rung.copy, rung.forwarder, rung.tunnel)
    }

    pub fn at(&self, rung: &Rung) -> Option<Arrow> {
        let at = self.path.iter().position(|id| *id == Self::id(rung))?;
        Some(match (at, at + 1 == self.path.len()) {
            (0, true) => Arrow::Only,
            (0, false) => Arrow::First,
            (_, true) => Arrow::Last,
            (_, false) => Arrow::Inner,
        })
    }
}

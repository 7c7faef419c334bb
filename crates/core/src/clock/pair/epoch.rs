//! A span without a step, and whether two of them are one.

use super::cones::Point;
use super::constraint::{Bounds, Constraint, Kind};
use super::drift::{Drift, round_up};
use super::envelope::Envelope;
use super::model::{Model, Windows};
use super::seen::Seen;

/// A span without a step of either clock.
#[derive(Clone, Debug)]
pub(super) struct Epoch {
    /// Begins with the first constraint that only this epoch explains.
    pub(super) from_ns: u64,
    /// Ends with the last constraint that the next epoch does not explain.
    pub(super) to_ns: Option<u64>,
    pub(super) upper: Envelope,
    pub(super) lower: Envelope,
    pub(super) windows: Windows,
    pub(super) seen: Seen,
}

impl Epoch {
    pub(super) fn new(from_ns: u64, drift: Drift, model: Model) -> Self {
        Epoch {
            from_ns,
            to_ns: None,
            upper: Envelope::default(),
            lower: Envelope::default(),
            windows: Windows::new(drift, model),
            seen: Seen::default(),
        }
    }

    pub(super) fn side(&self, kind: Kind) -> &Envelope {
        match kind {
            Kind::Upper => &self.upper,
            Kind::Lower => &self.lower,
        }
    }

    pub(super) fn side_mut(&mut self, kind: Kind) -> &mut Envelope {
        match kind {
            Kind::Upper => &mut self.upper,
            Kind::Lower => &mut self.lower,
        }
    }

    pub(super) fn add(&mut self, constraint: &Constraint, drift: Drift, most: usize) -> u64 {
        self.seen.add(constraint);
        self.windows.push(constraint);
        self.side_mut(constraint.kind).push(Point::of(constraint), drift, most)
    }

    pub(super) fn bounds_at(&self, at_ns: u64, drift: Drift) -> Bounds {
        let bound = |side: &Envelope| side.bound_at(at_ns, drift).map(round_up);
        Bounds { upper: bound(&self.upper), lower: bound(&self.lower).map(i64::saturating_neg) }
    }

    /// Whether a constraint leaves no room for a difference within this epoch.
    pub(super) fn excludes(&self, constraint: &Constraint, drift: Drift) -> bool {
        let other = match constraint.kind {
            Kind::Upper => &self.lower,
            Kind::Lower => &self.upper,
        };
        let point = Point::of(constraint);
        let room = |other| point.bound_at(point.at_ns, drift) + other < 0;
        other.bound_at(point.at_ns, drift).is_some_and(room)
    }

    /// The last instant of this epoch that another cannot explain.
    pub(super) fn last_against(&self, other: &Epoch, drift: Drift) -> Option<u64> {
        let against = self.against(other, drift).into_iter();
        against.filter_map(|(kind, at)| Some(self.side(kind).points().get(at)?.at_ns)).max()
    }

    /// The constraints of this epoch, by kind and place, that another leaves no room for.
    pub(super) fn against(&self, other: &Epoch, drift: Drift) -> Vec<(Kind, usize)> {
        let of = |kind| {
            let points = self.side(kind).points().iter().enumerate();
            let apart = points.filter(move |(_, p)| other.excludes(&p.constraint(kind), drift));
            apart.map(move |(i, _)| (kind, i))
        };
        of(Kind::Upper).chain(of(Kind::Lower)).collect()
    }
}

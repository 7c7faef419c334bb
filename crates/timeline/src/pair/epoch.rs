//! A span without a step, and the test whether two of them are one.

use super::cones::Point;
use super::constraint::{Bounds, Constraint, Kind};
use super::drift::{Drift, round_up};
use super::envelope::Envelope;
use super::model::{Model, Windows};
use super::seen::Seen;
use super::trips::Trips;
use std::collections::BTreeMap;

/// A span without a step of either clock.
#[derive(Clone, Debug)]
pub(super) struct Epoch {
    /// After this instant no instant belongs to an earlier epoch.
    pub(super) from_ns: u64,
    /// Up to this instant no instant belongs to a later epoch. `None`: there is no later epoch.
    pub(super) to_ns: Option<u64>,
    /// Constraints at the beginning that the previous epoch does not explain.
    pub(super) opening: Vec<Constraint>,
    /// Constraints at the end that the next epoch does not explain.
    pub(super) closing: Vec<Constraint>,
    /// The step before this epoch was reported, not detected: `from_ns`, and `to_ns` of the previous epoch, are
    /// fixed.
    pub(super) is_reported: bool,
    pub(super) upper: Envelope,
    pub(super) lower: Envelope,
    pub(super) windows: Windows,
    /// See [`Windows::corrections`]; computed for a complete epoch.
    pub(super) corrections: BTreeMap<u64, i64>,
    pub(super) seen: Seen,
    pub(super) trips: Trips,
}

impl Epoch {
    pub(super) fn new(from_ns: u64, drift: Drift, model: Model) -> Self {
        Epoch {
            from_ns,
            to_ns: None,
            opening: Vec::new(),
            closing: Vec::new(),
            is_reported: false,
            upper: Envelope::default(),
            lower: Envelope::default(),
            windows: Windows::new(drift, model),
            corrections: BTreeMap::new(),
            seen: Seen::default(),
            trips: Trips::default(),
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
        self.trips.add(constraint, drift);
        self.windows.push(constraint);
        self.side_mut(constraint.kind).push(Point::of(constraint), drift, most)
    }

    pub(super) fn bounds_at(&self, at_ns: u64, drift: Drift) -> Bounds {
        let bound = |side: &Envelope| side.bound_at(at_ns, drift).map(round_up);
        Bounds { upper: bound(&self.upper), lower: bound(&self.lower).map(i64::saturating_neg) }
    }

    /// An instant amid its packets, where both directions exist.
    pub(super) fn amid_ns(&self) -> u64 {
        self.seen.both().map_or(self.from_ns, |(from, to)| from / 2 + to / 2)
    }

    /// Makes the estimate continuous from one window of the model to the next.
    pub(super) fn smooth(&mut self, drift: Drift) {
        self.corrections = self.windows.corrections(|at_ns| self.bounds_at(at_ns, drift));
    }

    /// The middle of the model's lines, or of the certified bounds without lines.
    pub(super) fn middle_at(&self, at_ns: u64, drift: Drift) -> Option<i64> {
        let middle_ns = self.windows.middle_at(at_ns, self.bounds_at(at_ns, drift).middle_ns())?;
        Some(middle_ns.saturating_add(self.windows.correction_at(&self.corrections, at_ns)))
    }

    /// True if a constraint contradicts this epoch.
    pub(super) fn excludes(&self, constraint: &Constraint, drift: Drift) -> bool {
        let other = match constraint.kind {
            Kind::Upper => &self.lower,
            Kind::Lower => &self.upper,
        };
        let point = Point::of(constraint);
        let room = |other| point.bound_at(point.at_ns, drift) + other < 0;
        other.bound_at(point.at_ns, drift).is_some_and(room)
    }

    /// The constraints of this epoch that contradict another.
    pub(super) fn constraints_against(&self, other: &Epoch, drift: Drift) -> Vec<Constraint> {
        let against = self.against(other, drift).into_iter();
        against.filter_map(|(kind, at)| Some(self.side(kind).points().get(at)?.constraint(kind))).collect()
    }

    /// The constraints of this epoch, by kind and index, that contradict another.
    pub(super) fn against(&self, other: &Epoch, drift: Drift) -> Vec<(Kind, usize)> {
        let of = |kind| {
            let points = self.side(kind).points().iter().enumerate();
            let apart = points.filter(move |(_, p)| other.excludes(&p.constraint(kind), drift));
            apart.map(move |(i, _)| (kind, i))
        };
        of(Kind::Upper).chain(of(Kind::Lower)).collect()
    }
}

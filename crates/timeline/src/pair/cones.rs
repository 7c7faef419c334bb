//! Level 0, forward: the current bounds from all earlier constraints, in the memory of two.

use super::constraint::{Bounds, Constraint, Kind};
use super::drift::{Drift, Micro, round_up};

/// An upper bound of `D`, or of `−D` for a lower one: both sides are then the same code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) at_ns: u64,
    pub(super) value_ns: i64,
    pub(super) packet: u64,
}

impl Point {
    pub(super) fn of(constraint: &Constraint) -> Self {
        let value_ns = match constraint.kind {
            Kind::Upper => constraint.value_ns,
            Kind::Lower => constraint.value_ns.saturating_neg(),
        };
        Point { at_ns: constraint.at_ns, value_ns, packet: constraint.packet }
    }

    pub(super) fn constraint(&self, kind: Kind) -> Constraint {
        let value_ns = match kind {
            Kind::Upper => self.value_ns,
            Kind::Lower => self.value_ns.saturating_neg(),
        };
        Constraint { at_ns: self.at_ns, kind, value_ns, packet: self.packet }
    }

    /// The bound that follows for another instant.
    pub(super) fn bound_at(&self, at_ns: u64, drift: Drift) -> Micro {
        drift.grown(self.value_ns, self.at_ns.abs_diff(at_ns))
    }
}

/// Both bounds as cones that open with ρ. One constraint of each kind bounds the future, so one per kind is
/// stored: `U ← min(U + ρΔ, u)` without accumulating rounding errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cones {
    upper: Option<Point>,
    lower: Option<Point>,
}

impl Cones {
    pub(super) fn of(upper: Option<Point>, lower: Option<Point>) -> Self {
        Cones { upper, lower }
    }

    pub(super) fn add(&mut self, constraint: &Constraint, drift: Drift) {
        let point = Point::of(constraint);
        let side = match constraint.kind {
            Kind::Upper => &mut self.upper,
            Kind::Lower => &mut self.lower,
        };
        let rank = |p: &Point| (drift.forward_rank(p.value_ns, p.at_ns), u64::MAX - p.at_ns);
        if side.is_none_or(|held| rank(&point) < rank(&held)) {
            *side = Some(point);
        }
    }

    /// True if a constraint is consistent with the cones. Of two constraints in order, the earlier is in the
    /// cones when the later is checked, so every pairwise contradiction is found. Lipschitz bounds that agree
    /// pairwise agree all together (`McShane`).
    pub(super) fn allows(&self, constraint: &Constraint, drift: Drift) -> bool {
        let other = match constraint.kind {
            Kind::Upper => self.lower,
            Kind::Lower => self.upper,
        };
        other.is_none_or(|other| {
            let reach = other.bound_at(constraint.at_ns, drift);
            reach + Point::of(constraint).bound_at(constraint.at_ns, drift) >= 0
        })
    }

    pub(super) fn bounds_at(&self, at_ns: u64, drift: Drift) -> Bounds {
        let reach = |point: Point| round_up(point.bound_at(at_ns, drift));
        Bounds { upper: self.upper.map(reach), lower: self.lower.map(|p| reach(p).saturating_neg()) }
    }

    pub(super) fn limiting(&self) -> (Option<Constraint>, Option<Constraint>) {
        (self.lower.map(|p| p.constraint(Kind::Lower)), self.upper.map(|p| p.constraint(Kind::Upper)))
    }
}

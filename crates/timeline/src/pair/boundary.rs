//! The boundary between two epochs.
//!
//! A constraint has one instant, on A's clock, and one reading of B's clock. For a packet A→B the reading is
//! taken when B receives it, later than the instant; for a packet B→A when B sends it, earlier. So if B's clock
//! steps while packets are in flight, a packet from before the step can bound the difference after it, and vice
//! versa. An instant belongs to one epoch only if a reading proves that; between two such instants it may
//! belong to both. Constraints whose reading may belong to the other epoch bound neither.
//!
//! For a step of A's clock, instants are exact, and leaving constraints out here only widens the bounds.

use super::cones::Point;
use super::constraint::{Constraint, Kind};
use super::drift::{Drift, round_up};
use super::epoch::Epoch;

/// Longest flight of a packet of this epoch, by A's clock; `None` without a bound of the other kind.
fn longest_flight_ns(epoch: &Epoch, constraint: &Constraint, drift: Drift) -> Option<u64> {
    let other = match constraint.kind {
        Kind::Upper => &epoch.lower,
        Kind::Lower => &epoch.upper,
    };
    let room =
        other.bound_at(constraint.at_ns, drift)? + Point::of(constraint).bound_at(constraint.at_ns, drift);
    Some(drift.longest_flight_ns(u64::try_from(round_up(room)).unwrap_or(0)))
}

/// The last instant of a reading of a constraint of this epoch.
fn last_reading_ns(epoch: &Epoch, constraint: &Constraint, drift: Drift) -> Option<u64> {
    match constraint.kind {
        Kind::Upper => Some(constraint.at_ns.saturating_add(longest_flight_ns(epoch, constraint, drift)?)),
        Kind::Lower => Some(constraint.at_ns),
    }
}

/// The first instant of a reading of a constraint of this epoch.
fn first_reading_ns(epoch: &Epoch, constraint: &Constraint, drift: Drift) -> Option<u64> {
    match constraint.kind {
        Kind::Upper => Some(constraint.at_ns),
        Kind::Lower => Some(constraint.at_ns.saturating_sub(longest_flight_ns(epoch, constraint, drift)?)),
    }
}

/// The last instant that certainly lies before the step from one epoch to the next.
pub(super) fn certain_end_ns(old: &Epoch, new: &Epoch, drift: Drift) -> Option<u64> {
    let proofs = old.constraints_against(new, drift).into_iter().chain(old.closing.iter().copied());
    proofs.filter_map(|proof| first_reading_ns(old, &proof, drift)).max()
}

/// The first instant that certainly lies after it.
fn certain_begin_ns(old: &Epoch, new: &Epoch, drift: Drift) -> Option<u64> {
    let proofs = new.constraints_against(old, drift).into_iter().chain(new.opening.iter().copied());
    proofs.filter_map(|proof| last_reading_ns(new, &proof, drift)).min()
}

/// Determines the instants that certainly belong to each of two neighbours, and removes the constraints whose
/// reading may belong to the other. Returns the number removed.
pub(super) fn separate(old: &mut Epoch, new: &mut Epoch, drift: Drift) -> u64 {
    if !new.is_reported {
        old.to_ns = Some(certain_end_ns(old, new, drift).unwrap_or(old.from_ns));
        // An instant cannot lie before and after the step: with contradictory proofs due to false matches, none
        // is used.
        let begin_ns = certain_begin_ns(old, new, drift).unwrap_or(u64::MAX);
        new.from_ns = begin_ns.max(old.to_ns.unwrap_or(0));
    }
    let (end_ns, begin_ns) = (old.to_ns.unwrap_or(u64::MAX), new.from_ns);
    let mut removed = 0;
    // First the kind whose readings are certain by their instants; the longest flight of the other kind depends
    // on it.
    for kind in [Kind::Lower, Kind::Upper] {
        let is_certain = |c: &Constraint| last_reading_ns(old, c, drift).unwrap_or(c.at_ns) <= end_ns;
        let keep = certain(old, kind, |c| is_certain(c) || old.closing.contains(c) || new.excludes(c, drift));
        removed += old.side_mut(kind).retain(keep);
    }
    for kind in [Kind::Upper, Kind::Lower] {
        let is_certain = |c: &Constraint| first_reading_ns(new, c, drift).unwrap_or(c.at_ns) >= begin_ns;
        let keep = certain(new, kind, |c| is_certain(c) || new.opening.contains(c) || old.excludes(c, drift));
        removed += new.side_mut(kind).retain(keep);
    }
    // The model's lines do not store single packets: windows near the step may depend on some of these.
    old.windows.forget_from(end_ns);
    new.windows.forget_until(begin_ns);
    removed
}

/// For each constraint of a kind, true if it is to be kept, in their order.
fn certain(epoch: &Epoch, kind: Kind, keep: impl Fn(&Constraint) -> bool) -> Vec<bool> {
    epoch.side(kind).points().iter().map(|point| keep(&point.constraint(kind))).collect()
}

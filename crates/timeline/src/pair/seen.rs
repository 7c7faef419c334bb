//! The instants of constraints of each kind: the input of a state.

use super::constraint::{Bounds, Constraint, Kind, State};
use super::difference::Estimate;
use super::external::SourcedBounds;

/// Time without a packet after which bounds are in holdover: ρ has widened them by 0.2 ms.
const HOLDOVER_NS: u64 = 1_000_000_000;

/// First and last instant of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    upper: Option<(u64, u64)>,
    lower: Option<(u64, u64)>,
}

impl Seen {
    pub(super) fn add(&mut self, constraint: &Constraint) {
        let at = constraint.at_ns;
        let side = match constraint.kind {
            Kind::Upper => &mut self.upper,
            Kind::Lower => &mut self.lower,
        };
        *side = Some(side.map_or((at, at), |(first, last)| (first.min(at), last.max(at))));
    }

    /// From the first to the last instant between packets of both kinds.
    pub(super) fn both(&self) -> Option<(u64, u64)> {
        let (upper, lower) = (self.upper?, self.lower?);
        Some((upper.0.max(lower.0), upper.1.min(lower.1)))
    }

    pub(super) fn state_at(&self, at_ns: u64, bounds: &Bounds) -> State {
        match (bounds.lower, bounds.upper, self.both()) {
            (None, None, _) => State::Unsynchronised,
            (Some(_), Some(_), Some((from, to))) => {
                let away = from.saturating_sub(at_ns).max(at_ns.saturating_sub(to));
                if away > HOLDOVER_NS { State::Holdover } else { State::Certified }
            }
            (Some(_), Some(_), None) => State::Holdover,
            _ => State::OneSided,
        }
    }
}

/// An estimate inside the narrowest claimed bounds, with the distances to the ends of the certified ones.
pub(super) fn clamped(
    narrowest: &SourcedBounds,
    certified: &Bounds,
    preferred_ns: Option<i64>,
) -> Option<Estimate> {
    let (lower, upper) = (certified.lower?, certified.upper?);
    let (from, to) = (narrowest.bounds.lower?, narrowest.bounds.upper?);
    if lower > upper || from > to {
        return None;
    }
    let ns = preferred_ns.or(narrowest.bounds.middle_ns())?.clamp(from, to);
    Some(Estimate { ns, below_ns: ns.abs_diff(lower), above_ns: ns.abs_diff(upper) })
}

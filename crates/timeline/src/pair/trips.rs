//! The quickest round trips of each time, each from two neighbouring packets of opposite directions.
//!
//! The bounds of an instant use the packets of the complete epoch. After an unproven step they are narrow in all of it,
//! if the step exceeds the drift that the assumption allows in that time. Neighbours alone keep the real round trips.

use super::constraint::{Constraint, Kind};
use super::drift::Drift;

/// Maximum number of slots of equal length.
const SLOTS: usize = 128;
/// Length of a slot at the beginning, nanoseconds; it doubles when the slots are used up.
const FIRST_SLOT_NS: u64 = 1_000_000;

/// The smallest round trip of each slot.
#[derive(Clone, Debug)]
pub(super) struct Trips {
    first_ns: Option<u64>,
    slot_ns: u64,
    slots: Vec<Option<u64>>,
    /// The newest upper and lower constraint.
    newest: [Option<Constraint>; 2],
}

impl Default for Trips {
    fn default() -> Self {
        Trips { first_ns: None, slot_ns: FIRST_SLOT_NS, slots: Vec::new(), newest: [None; 2] }
    }
}

impl Trips {
    pub(super) fn add(&mut self, constraint: &Constraint, drift: Drift) {
        let own = usize::from(constraint.kind == Kind::Lower);
        self.newest[own] = Some(*constraint);
        let [Some(upper), Some(lower)] = self.newest else { return };
        let apart_ns = upper.at_ns.abs_diff(lower.at_ns);
        let width_ns =
            i128::from(upper.value_ns) - i128::from(lower.value_ns) + i128::from(drift.over_ns(apart_ns));
        let Ok(width_ns) = u64::try_from(width_ns) else { return };
        let first_ns = *self.first_ns.get_or_insert(constraint.at_ns);
        let since_ns = constraint.at_ns.saturating_sub(first_ns);
        while since_ns / self.slot_ns >= SLOTS as u64 {
            self.double();
        }
        let slot = (since_ns / self.slot_ns) as usize;
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, None);
        }
        let least = &mut self.slots[slot];
        *least = Some(least.map_or(width_ns, |before| before.min(width_ns)));
    }

    fn double(&mut self) {
        let merged = self.slots.chunks(2).map(|pair| pair.iter().flatten().min().copied());
        self.slots = merged.collect();
        self.slot_ns = self.slot_ns.saturating_mul(2);
    }

    /// The smallest of each slot.
    pub(super) fn smallest(&self) -> Vec<u64> {
        self.slots.iter().flatten().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_have_the_quickest_round_trips_whatever_the_time() {
        let mut trips = Trips::default();
        for i in 0..10_000_u64 {
            let at_ns = 5_000_000_000 + i * 10_000_000;
            // One packet in ten is quicker; B's clock steps by most of a round trip.
            let slow_ns = if i % 10 == 0 { 0 } else { 300_000 };
            let stepped_ns = if i < 2_000 { 0 } else { 900_000 };
            let upper =
                Constraint { at_ns, kind: Kind::Upper, value_ns: stepped_ns + 500_000 + slow_ns, packet: 0 };
            let lower = Constraint { kind: Kind::Lower, value_ns: stepped_ns - 500_000, ..upper };
            trips.add(&upper, Drift::default());
            trips.add(&lower, Drift::default());
        }
        let found = trips.smallest();
        assert!((SLOTS / 2..=SLOTS).contains(&found.len()), "{found:?}");
        assert!(found.iter().all(|ns| *ns == 1_000_000), "{found:?}");
    }
}

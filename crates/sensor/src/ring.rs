//! The last minute, in parts by the events' own time.

use crate::sums::Sums;

/// Parts of the window.
const PARTS: u64 = 12;
/// Length of a part, nanoseconds.
const PART_NS: u64 = 5_000_000_000;
/// Maximum age of a late event in parts, one hour. An older one indicates a clock step or a wrong newest time.
const SET_BACK: u64 = 720;

/// Sums of the last parts of time.
#[derive(Clone, Debug)]
pub struct Ring {
    /// The time part of each slot, and its sums.
    parts: Vec<(u64, Sums)>,
    newest: u64,
    /// Events that were too old for the window.
    stragglers: u64,
}

impl Ring {
    pub fn new() -> Self {
        Ring { parts: Vec::new(), newest: 0, stragglers: 0 }
    }

    /// Advances to the time `ns`.
    pub fn reach(&mut self, ns: u64) {
        let part = ns / PART_NS;
        if part + SET_BACK < self.newest {
            self.parts.clear();
            self.newest = part;
        }
        self.newest = self.newest.max(part);
    }

    /// The sums of an instant; `None` where it is too old for the window.
    pub fn at(&mut self, ns: u64) -> Option<&mut Sums> {
        self.reach(ns);
        let part = ns / PART_NS;
        if part + PARTS <= self.newest {
            self.stragglers += 1;
            return None;
        }
        let position = self.parts.iter().position(|(of, _)| of % PARTS == part % PARTS);
        let place = position.unwrap_or_else(|| {
            self.parts.push((part, Sums::default()));
            self.parts.len() - 1
        });
        let (of, sums) = self.parts.get_mut(place)?;
        if *of != part {
            (*of, *sums) = (part, Sums::default());
        }
        Some(sums)
    }

    /// Start of the window, nanoseconds.
    pub fn begins_ns(&self) -> u64 {
        (self.newest + 1).saturating_sub(PARTS).saturating_mul(PART_NS)
    }

    /// Events that were too old for the window.
    pub fn stragglers(&self) -> u64 {
        self.stragglers
    }

    /// Sums over the whole window.
    pub fn sums(&self) -> Sums {
        let mut all = Sums::default();
        let within = self.parts.iter().filter(|(part, _)| part + PARTS > self.newest);
        within.for_each(|(_, sums)| all.merge(sums));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::node::NodeInfo;
    use magscope_core::{Event, Hop};

    fn count(ring: &Ring) -> u64 {
        ring.sums().tally(&NodeInfo::default()).hops.iter().map(|hop| hop.events).sum()
    }

    fn add(ring: &mut Ring, s: u64) {
        let event = Event::at(Hop::DevXmit, s * 1_000_000_000);
        if let Some(sums) = ring.at(event.time_ns) {
            sums.event(&event);
        }
    }

    #[test]
    fn a_minute_is_kept_and_time_forgets_it() {
        let mut ring = Ring::new();
        (0..200).for_each(|s| add(&mut ring, s));
        // 140 s to 199 s: twelve complete parts
        assert_eq!((count(&ring), ring.begins_ns(), ring.stragglers()), (60, 140_000_000_000, 0));
        add(&mut ring, 141);
        assert_eq!(count(&ring), 61, "a straggler within the window");
        add(&mut ring, 139);
        assert_eq!((count(&ring), ring.stragglers()), (61, 1));
        ring.reach(231_000_000_000);
        assert_eq!(count(&ring), 25, "175 s to 199 s");
        ring.reach(1_000_000_000_000);
        assert_eq!(count(&ring), 0);
    }

    #[test]
    fn one_wrong_time_is_not_the_end_of_it() {
        let mut ring = Ring::new();
        add(&mut ring, 10);
        assert!(ring.at(u64::MAX).is_some());
        (11..20).for_each(|s| add(&mut ring, s));
        assert_eq!(count(&ring), 9);
        assert_eq!(ring.stragglers(), 0);
    }
}

//! What is asked of the difference of two clocks, with hindsight or as packets come.

use super::{Bounds, Live, Recorded, State};

/// `D(a) = R_B − R_A` as far as packets tell it.
pub trait Difference {
    /// The certified interval in which `D` lies at an instant of A.
    fn bounds_at(&self, at_ns: u64) -> Bounds;

    /// `D` and how far it may be off, nanoseconds; `None` unless bounded from both sides.
    fn estimate_at(&self, at_ns: u64) -> Option<(i64, u64)>;

    /// What the bounds rest on at an instant of A.
    fn state_at(&self, at_ns: u64) -> State;

    /// What the bounds rest on where the most is known.
    fn state(&self) -> State;

    /// An instant of A at which much is known: where to begin to look for another one.
    fn middle_ns(&self) -> Option<u64>;
}

impl Difference for Recorded {
    fn bounds_at(&self, at_ns: u64) -> Bounds {
        self.bounds_at(at_ns)
    }

    fn estimate_at(&self, at_ns: u64) -> Option<(i64, u64)> {
        self.estimate_at(at_ns)
    }

    fn state_at(&self, at_ns: u64) -> State {
        self.state_at(at_ns)
    }

    fn state(&self) -> State {
        self.state()
    }

    fn middle_ns(&self) -> Option<u64> {
        self.middle_ns()
    }
}

impl Difference for Live {
    fn bounds_at(&self, at_ns: u64) -> Bounds {
        self.bounds_at(at_ns)
    }

    fn estimate_at(&self, at_ns: u64) -> Option<(i64, u64)> {
        self.estimate_at(at_ns)
    }

    fn state_at(&self, at_ns: u64) -> State {
        self.state_at(at_ns)
    }

    fn state(&self) -> State {
        self.newest_ns().map_or(State::Unsynchronised, |at_ns| self.state_at(at_ns))
    }

    fn middle_ns(&self) -> Option<u64> {
        self.newest_ns()
    }
}

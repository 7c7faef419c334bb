//! Queries on the difference of two clocks, complete or live.

use super::{Bounds, Live, Recorded, State};

/// `D(a) = R_B − R_A` from packets.
pub trait Difference {
    /// The certified interval of `D` at an instant of A.
    fn bounds_at(&self, at_ns: u64) -> Bounds;

    /// `D` and its error, nanoseconds; `None` unless bounded from both sides.
    fn estimate_at(&self, at_ns: u64) -> Option<(i64, u64)>;

    /// Basis of the bounds at an instant of A.
    fn state_at(&self, at_ns: u64) -> State;

    /// Basis of the bounds at the instant with maximum information.
    fn state(&self) -> State;

    /// An instant of A with much information: the start of a search for another one.
    fn middle_ns(&self) -> Option<u64>;

    /// The instant of A at which B's clock showed `b_ns`, and its error, nanoseconds; `None` unless bounded
    /// from both sides.
    ///
    /// A clock that was set back showed the same twice: the answer then covers both.
    fn inverse_at(&self, b_ns: u64) -> Option<(u64, u64)> {
        solve(self.middle_ns().unwrap_or(b_ns), b_ns, |at_ns| self.estimate_at(at_ns))
    }
}

/// Solves `a + D(a) = b` for `a`. The difference drifts by parts in a million, so each iteration reduces the
/// error a millionfold.
pub(super) fn solve(
    start_ns: u64,
    b_ns: u64,
    estimate_at: impl Fn(u64) -> Option<(i64, u64)>,
) -> Option<(u64, u64)> {
    let mut at_ns = start_ns;
    let mut moved_ns = 0;
    for _ in 0..4 {
        let (difference_ns, half_width_ns) = estimate_at(at_ns)?;
        let next = b_ns.checked_add_signed(difference_ns.checked_neg()?)?;
        if next == at_ns {
            return Some((at_ns, half_width_ns));
        }
        moved_ns = at_ns.abs_diff(next);
        at_ns = next;
    }
    let (_, half_width_ns) = estimate_at(at_ns)?;
    Some((at_ns, half_width_ns.saturating_add(moved_ns)))
}

/// `D` for a packet between two nodes, from the bounds at either instant. These are `R_B − R_A` at the sending,
/// and `R_A − R_B` at the receipt, each with its error, nanoseconds.
///
/// Near a step the two differ, and either may be correct.
pub fn difference_over(
    (there_ns, there_width_ns): (i64, u64),
    (back_ns, back_width_ns): (i64, u64),
) -> (i64, u64) {
    let apart_ns = back_ns.saturating_neg().abs_diff(there_ns);
    (there_ns, there_width_ns.max(back_width_ns.saturating_add(apart_ns)))
}

impl Difference for Recorded {
    fn inverse_at(&self, b_ns: u64) -> Option<(u64, u64)> {
        self.inverse_at(b_ns)
    }

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

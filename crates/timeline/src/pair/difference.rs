//! Queries on the difference of two clocks, complete or live.

use super::{Bounds, Live, Recorded, State};

/// A value of a difference, with the interval that holds the true one. It need not be the middle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// The value, nanoseconds.
    pub ns: i64,
    /// The true difference is at most this much less.
    pub below_ns: u64,
    /// The true difference is at most this much more.
    pub above_ns: u64,
}

impl Estimate {
    /// With the same error to both sides.
    pub const fn within(ns: i64, half_width_ns: u64) -> Self {
        Estimate { ns, below_ns: half_width_ns, above_ns: half_width_ns }
    }

    /// The larger of the two errors.
    pub fn half_width_ns(&self) -> u64 {
        self.below_ns.max(self.above_ns)
    }

    /// The ends of the interval.
    pub fn ends_ns(&self) -> (i64, i64) {
        (self.ns.saturating_sub_unsigned(self.below_ns), self.ns.saturating_add_unsigned(self.above_ns))
    }
}

/// An instant of A's clock at which B's clock showed a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inverse {
    /// The estimate, nanoseconds of A.
    pub at_ns: u64,
    /// It was not earlier.
    pub from_ns: u64,
    /// It was not later.
    pub to_ns: u64,
}

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

    /// The instant of A at which B's clock showed `b_ns`; `None` unless bounded from both sides.
    ///
    /// A clock that was set back showed the same twice: the answer then covers both.
    fn inverse_at(&self, b_ns: u64) -> Option<Inverse> {
        solve(self.middle_ns().unwrap_or(b_ns), b_ns, |at_ns| {
            let (ns, _) = self.estimate_at(at_ns)?;
            let Bounds { lower, upper } = self.bounds_at(at_ns);
            Some(Estimate { ns, below_ns: ns.abs_diff(lower?), above_ns: ns.abs_diff(upper?) })
        })
    }
}

/// Solves `a + D(a) = b` for `a`. The difference drifts by parts in a million, so each iteration reduces the
/// error a millionfold.
pub(super) fn solve(
    start_ns: u64,
    b_ns: u64,
    estimate_at: impl Fn(u64) -> Option<Estimate>,
) -> Option<Inverse> {
    // The larger the difference, the earlier the instant.
    let found = |at_ns: u64, moved_ns: u64, estimate: &Estimate| Inverse {
        at_ns,
        from_ns: at_ns.saturating_sub(estimate.above_ns.saturating_add(moved_ns)),
        to_ns: at_ns.saturating_add(estimate.below_ns.saturating_add(moved_ns)),
    };
    let mut at_ns = start_ns;
    let mut moved_ns = 0;
    for _ in 0..4 {
        let estimate = estimate_at(at_ns)?;
        let next = b_ns.checked_add_signed(estimate.ns.checked_neg()?)?;
        if next == at_ns {
            return Some(found(at_ns, 0, &estimate));
        }
        moved_ns = at_ns.abs_diff(next);
        at_ns = next;
    }
    Some(found(at_ns, moved_ns, &estimate_at(at_ns)?))
}

/// `D` for a packet between two nodes, from the bounds at either instant. These are `R_B − R_A` at the sending,
/// and `R_A − R_B` at the receipt.
///
/// Near a step the two differ, and either may be correct: the interval has both.
pub fn difference_over(there: Estimate, back: Estimate) -> Estimate {
    let ((there_lower, there_upper), (back_lower, back_upper)) = (there.ends_ns(), back.ends_ns());
    let lower_ns = there_lower.min(back_upper.saturating_neg());
    let upper_ns = there_upper.max(back_lower.saturating_neg());
    Estimate { ns: there.ns, below_ns: there.ns.abs_diff(lower_ns), above_ns: upper_ns.abs_diff(there.ns) }
}

impl Difference for Recorded {
    fn inverse_at(&self, b_ns: u64) -> Option<Inverse> {
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

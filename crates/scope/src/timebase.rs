//! The timebase: how much time a division of the screen is wide.

/// Divisions a screen has, as on every oscilloscope.
pub const DIVISIONS: u64 = 10;

const FINEST_NS: u64 = 100;
const COARSEST_NS: u64 = 10_000_000_000;

/// Time per division, always 1, 2 or 5 times a power of ten nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timebase(u64);

impl Default for Timebase {
    fn default() -> Self {
        Timebase(1_000_000)
    }
}

impl Timebase {
    /// The finest timebase whose screen is at least `ns` wide.
    pub fn holding(ns: u64) -> Self {
        let mut timebase = Timebase(FINEST_NS);
        while timebase.span_ns() < ns && timebase.0 < COARSEST_NS {
            timebase = timebase.coarser();
        }
        timebase
    }

    /// Nanoseconds a division.
    pub const fn per_division_ns(self) -> u64 {
        self.0
    }

    /// Nanoseconds the whole screen is wide.
    pub const fn span_ns(self) -> u64 {
        self.0 * DIVISIONS
    }

    /// The next wider step.
    #[must_use]
    pub fn coarser(self) -> Self {
        let next = if self.leading() == 2 { self.0 / 2 * 5 } else { self.0 * 2 };
        Timebase(next.min(COARSEST_NS))
    }

    /// The next narrower step.
    #[must_use]
    pub fn finer(self) -> Self {
        let next = if self.leading() == 5 { self.0 / 5 * 2 } else { self.0 / 2 };
        Timebase(next.max(FINEST_NS))
    }

    fn leading(self) -> u64 {
        let mut digits = self.0;
        while digits >= 10 {
            digits /= 10;
        }
        digits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_one_two_five_both_ways() {
        let mut timebase = Timebase(FINEST_NS);
        let mut seen = vec![timebase.per_division_ns()];
        while timebase.coarser() != timebase {
            let next = timebase.coarser();
            assert_eq!(next.finer(), timebase);
            timebase = next;
            seen.push(timebase.per_division_ns());
        }
        assert_eq!(seen[..5], [100, 200, 500, 1000, 2000]);
        assert_eq!(seen.last(), Some(&COARSEST_NS));
        assert_eq!(Timebase(FINEST_NS).finer(), Timebase(FINEST_NS));
    }

    #[test]
    fn a_span_is_held_by_the_finest_that_can() {
        assert_eq!(Timebase::holding(0).per_division_ns(), 100);
        assert_eq!(Timebase::holding(10_000).per_division_ns(), 1_000);
        assert_eq!(Timebase::holding(10_001).per_division_ns(), 2_000);
        assert_eq!(Timebase::holding(u64::MAX).per_division_ns(), COARSEST_NS);
    }
}

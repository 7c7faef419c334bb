//! The timebase: time per division of the screen.

/// Number of divisions of a screen, as on every oscilloscope.
pub const DIVISIONS: u64 = 10;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * S;

/// The steps: 1, 2, 5 times a power of ten up to 20 s, then divisions of a clock.
const STEPS: [u64; 33] = [
    100,
    200,
    500,
    US,
    2 * US,
    5 * US,
    10 * US,
    20 * US,
    50 * US,
    100 * US,
    200 * US,
    500 * US,
    MS,
    2 * MS,
    5 * MS,
    10 * MS,
    20 * MS,
    50 * MS,
    100 * MS,
    200 * MS,
    500 * MS,
    S,
    2 * S,
    5 * S,
    10 * S,
    20 * S,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    20 * MINUTE,
    30 * MINUTE,
    60 * MINUTE,
];
const FINEST_NS: u64 = STEPS[0];
const COARSEST_NS: u64 = STEPS[STEPS.len() - 1];

/// Time per division: a step of the knob, or the exact fit of a chosen stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timebase(u64);

impl Default for Timebase {
    fn default() -> Self {
        Timebase(MS)
    }
}

impl Timebase {
    /// The finest step whose screen is at least `ns` wide.
    pub fn holding(ns: u64) -> Self {
        let fits = STEPS.into_iter().find(|step| step * DIVISIONS >= ns);
        Timebase(fits.unwrap_or(COARSEST_NS))
    }

    /// Exactly a stretch of `ns`, rounded up to whole nanoseconds per division. No finer than the finest step,
    /// without an upper limit.
    pub fn of_span(ns: u64) -> Self {
        Timebase(ns.div_ceil(DIVISIONS).clamp(FINEST_NS, u64::MAX / DIVISIONS))
    }

    /// The nearest step to this number of nanoseconds per division, by ratio.
    pub fn nearest(ns: u64) -> Self {
        let ratio = |step: &u64| (*step as f64 / ns.max(1) as f64).ln().abs();
        let near = STEPS.into_iter().min_by(|a, b| ratio(a).total_cmp(&ratio(b)));
        Timebase(near.unwrap_or(MS))
    }

    /// Nanoseconds a division.
    pub const fn per_division_ns(self) -> u64 {
        self.0
    }

    /// Width of the screen, nanoseconds.
    pub const fn span_ns(self) -> u64 {
        self.0 * DIVISIONS
    }

    /// The next wider step.
    #[must_use]
    pub fn coarser(self) -> Self {
        Timebase(STEPS.into_iter().find(|step| *step > self.0).unwrap_or(self.0.max(COARSEST_NS)))
    }

    /// The next narrower step.
    #[must_use]
    pub fn finer(self) -> Self {
        Timebase(STEPS.into_iter().rev().find(|step| *step < self.0).unwrap_or(self.0.min(FINEST_NS)))
    }

    /// The timebase this number of notches of a wheel wider, each by a quarter; narrower if negative.
    #[must_use]
    pub fn notched(self, notches: i32) -> Self {
        if notches == 0 {
            return self;
        }
        let ns = self.0 as f64 * 1.25_f64.powi(notches);
        Timebase((ns.round() as u64).clamp(self.0.min(FINEST_NS), self.0.max(COARSEST_NS)))
    }

    /// The timebase this number of steps wider, or narrower if negative.
    #[must_use]
    pub fn stepped(self, steps: i32) -> Self {
        let once = |timebase: Self, _| if steps > 0 { timebase.coarser() } else { timebase.finer() };
        (0..steps.unsigned_abs().min(STEPS.len() as u32)).fold(self, once)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_the_same_both_ways() {
        let mut timebase = Timebase(FINEST_NS);
        let mut seen = vec![timebase.per_division_ns()];
        while timebase.coarser() != timebase {
            let next = timebase.coarser();
            assert_eq!(next.finer(), timebase);
            timebase = next;
            seen.push(timebase.per_division_ns());
        }
        assert_eq!(seen[..5], [100, 200, 500, 1000, 2000]);
        assert_eq!(seen, STEPS);
        assert_eq!(seen.last(), Some(&(3600 * S)));
        assert_eq!(Timebase(FINEST_NS).finer(), Timebase(FINEST_NS));
    }

    #[test]
    fn a_span_is_held_by_the_finest_that_can() {
        assert_eq!(Timebase::holding(0).per_division_ns(), 100);
        assert_eq!(Timebase::holding(10_000).per_division_ns(), 1_000);
        assert_eq!(Timebase::holding(10_001).per_division_ns(), 2_000);
        assert_eq!(Timebase::holding(u64::MAX).per_division_ns(), COARSEST_NS);
        assert_eq!(Timebase::nearest(1_900).per_division_ns(), 2_000);
        assert_eq!(Timebase::of_span(13_701).per_division_ns(), 1_371);
        assert_eq!(Timebase::of_span(13_701).coarser().per_division_ns(), 2_000);
        assert_eq!(Timebase::of_span(u64::MAX).stepped(-1).per_division_ns(), COARSEST_NS);
        assert_eq!(Timebase::of_span(0).per_division_ns(), 100);
    }
}

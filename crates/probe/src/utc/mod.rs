//! Sources for the error of `CLOCK_REALTIME` relative to UTC.
//!
//! chronyd reports its error ([`chrony`]), also when it follows a PTP hardware clock itself. AWS's `ClockBound` writes its
//! error to shared memory ([`clockbound`]). A PTP hardware clock is read directly ([`phc`]); ptp4l states what its error
//! consists of ([`ptp`]). The kernel's `maxerror` is not used: timesyncd and linuxptp write 0 there.

pub mod chrony;
pub mod clockbound;
pub mod phc;
pub mod ptp;
mod watch;

pub use watch::{UtcSources, UtcWatch};

/// Maximum plausible error, whatever its source.
const MOST_NS: u64 = 10_000_000_000;

/// `CLOCK_REALTIME` is off from UTC by at most this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtcBound {
    /// The instant of `CLOCK_MONOTONIC` that it was made for.
    pub as_of_ns: u64,
    /// End of validity.
    pub void_after_ns: u64,
    /// Error at that instant, nanoseconds.
    pub error_ns: u64,
    /// The error is at least this by the same source: it measured a clock that is wrong.
    pub least_ns: u64,
    /// Growth of the error, parts per billion.
    pub growth_ppb: u64,
    /// Rate that `CLOCK_REALTIME` was set to, parts per million times 2¹⁶, if the growth holds for this rate alone.
    pub rate: Option<i64>,
}

impl UtcBound {
    /// The bound where `CLOCK_REALTIME` is set to this rate.
    #[must_use]
    pub fn at_rate(self, rate: i64) -> Self {
        let more_ppb = self.rate.map_or(0, |then| phc::rate_difference_ppb(then, rate));
        UtcBound { growth_ppb: self.growth_ppb.saturating_add(more_ppb), ..self }
    }

    /// The same as a contradiction of others alone.
    #[must_use]
    pub fn without_claim(self) -> Self {
        UtcBound { error_ns: u64::MAX, ..self }
    }

    /// Error at an instant of `CLOCK_MONOTONIC`; `None` if the bound has expired or is implausible.
    pub fn error_at(&self, monotonic_ns: u64) -> Option<u64> {
        let error_ns = self.error_ns.saturating_add(self.grown_ns(monotonic_ns));
        Some(error_ns).filter(|error| !self.is_void(monotonic_ns) && (1..=MOST_NS).contains(error))
    }

    const fn is_void(&self, monotonic_ns: u64) -> bool {
        monotonic_ns > self.void_after_ns
    }

    fn grown_ns(&self, monotonic_ns: u64) -> u64 {
        let age_ns = u128::from(monotonic_ns.abs_diff(self.as_of_ns));
        let grown = (age_ns * u128::from(self.growth_ppb)).div_ceil(1_000_000_000);
        u64::try_from(grown).unwrap_or(u64::MAX)
    }

    /// True if one of the two is wrong: by this one, the error is larger than the other allows.
    fn contradicts(&self, error_ns: u64, monotonic_ns: u64) -> bool {
        self.least_ns.saturating_sub(self.grown_ns(monotonic_ns)) > error_ns
    }
}

/// The bound by several sources: the smallest, or the largest where one contradicts the smallest.
fn of_sources(bounds: impl IntoIterator<Item = UtcBound>, monotonic_ns: u64) -> Option<UtcBound> {
    let bounds: Vec<UtcBound> = bounds.into_iter().filter(|bound| !bound.is_void(monotonic_ns)).collect();
    let errors = bounds.iter().filter_map(|bound| Some((bound.error_at(monotonic_ns)?, bound)));
    let (error_ns, smallest) = errors.min_by_key(|(error_ns, _)| *error_ns)?;
    if bounds.iter().any(|bound| bound.contradicts(error_ns, monotonic_ns)) {
        return bounds.iter().max_by_key(|bound| bound.error_ns).copied();
    }
    Some(*smallest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_grows_and_ends() {
        let bound = UtcBound {
            as_of_ns: 1_000,
            void_after_ns: 5_000_001_000,
            error_ns: 700,
            least_ns: 0,
            growth_ppb: 50_000,
            rate: None,
        };
        assert_eq!(bound.error_at(1_000), Some(700));
        assert_eq!(bound.error_at(1_000_001_000), Some(50_700));
        assert_eq!(bound.error_at(5_000_001_001), None);
        // The wall clock is slewed by 20 ppm more since then. A daemon's own bound has no rate.
        let measured = UtcBound { rate: Some(-5 << 16), ..bound };
        assert_eq!(measured.at_rate(15 << 16).error_at(1_000_001_000), Some(70_700));
        assert_eq!(bound.at_rate(15 << 16), bound);
        // a zero error is implausible, and so are ten seconds
        assert_eq!(UtcBound { error_ns: 0, ..bound }.error_at(1_000), None);
        assert_eq!(UtcBound { error_ns: MOST_NS + 1, ..bound }.error_at(1_000), None);
        let wild = UtcBound {
            as_of_ns: 0,
            void_after_ns: u64::MAX,
            error_ns: u64::MAX,
            least_ns: u64::MAX,
            growth_ppb: u64::MAX,
            rate: Some(i64::MIN),
        };
        assert_eq!(wild.at_rate(i64::MAX).error_at(u64::MAX), None);
    }

    #[test]
    fn a_source_that_contradicts_another_widens_the_bound() {
        let bound = |error_ns, least_ns| UtcBound {
            as_of_ns: 0,
            void_after_ns: 1_000_000_000,
            error_ns,
            least_ns,
            growth_ppb: 10_000,
            rate: None,
        };
        let (daemon, card) = (bound(2_000, 0), bound(200_000, 0));
        assert_eq!(of_sources([card, daemon], 0), Some(daemon));
        // By the card, the wall clock is a second ahead.
        let card = bound(1_000_100_000, 999_900_000);
        assert_eq!(of_sources([daemon, card], 0), Some(card));
        assert_eq!(of_sources([daemon, bound(20_000, 2_000)], 0), Some(daemon));
        assert_eq!(of_sources([daemon, card.without_claim()], 0).and_then(|bound| bound.error_at(0)), None);
        assert_eq!(of_sources([daemon, bound(200_000, 0).without_claim()], 0), Some(daemon));
        // By an error that is too large for a bound, no other is one.
        let card = bound(37_000_000_100, 36_999_999_900);
        assert_eq!(of_sources([daemon, card], 0).and_then(|bound| bound.error_at(0)), None);
        // What a measurement shows ends, as its bound does.
        assert_eq!(
            of_sources([UtcBound { void_after_ns: u64::MAX, ..daemon }, card], 2_000_000_000)
                .map(|bound| bound.error_ns),
            Some(2_000)
        );
        assert_eq!(of_sources([], 0), None);
    }
}

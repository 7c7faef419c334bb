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

    /// Error at an instant of `CLOCK_MONOTONIC`; `None` if the bound has expired or is implausible.
    pub fn error_at(&self, monotonic_ns: u64) -> Option<u64> {
        if monotonic_ns > self.void_after_ns {
            return None;
        }
        let age_ns = u128::from(monotonic_ns.abs_diff(self.as_of_ns));
        let grown = u64::try_from((age_ns * u128::from(self.growth_ppb)).div_ceil(1_000_000_000)).ok()?;
        self.error_ns.checked_add(grown).filter(|error| (1..=MOST_NS).contains(error))
    }
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
            growth_ppb: u64::MAX,
            rate: Some(i64::MIN),
        };
        assert_eq!(wild.at_rate(i64::MAX).error_at(u64::MAX), None);
    }
}

//! From the clock of the first recording to what files carry.

/// Turns instants of the common time line, which is `CLOCK_MONOTONIC` of the first recording, into those of files.
///
/// One offset for all of it: differences of times in a file are differences of the recording's clock, to the nanosecond, even where
/// somebody set the time of day meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeLine {
    /// UTC less `CLOCK_MONOTONIC`, nanoseconds; `None` if the recording does not know UTC.
    pub to_utc_ns: Option<i64>,
}

impl TimeLine {
    /// Nanoseconds since 1970 UTC; of the recording's own clock where UTC is not known.
    pub fn ns(self, at_ns: u64) -> i64 {
        i64::try_from(at_ns).unwrap_or(i64::MAX).saturating_add(self.to_utc_ns.unwrap_or(0))
    }

    /// Nanoseconds since 1970 UTC, where that is known.
    pub fn utc_ns(self, at_ns: u64) -> Option<i64> {
        self.to_utc_ns.map(|_| self.ns(at_ns))
    }
}

//! Converts times of the first recording's clock to those of files.

/// Converts instants of the common time line, `CLOCK_MONOTONIC` of the first recording, to those of files.
///
/// One offset applies to all. Differences in a file therefore equal those of the recording's clock to the
/// nanosecond, even after a step of the time of day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeLine {
    /// UTC minus `CLOCK_MONOTONIC`, nanoseconds; `None` if the recording has no UTC.
    pub to_utc_ns: Option<i64>,
}

impl TimeLine {
    /// Nanoseconds since 1970 UTC; without UTC, of the recording's own clock.
    pub fn ns(self, at_ns: u64) -> i64 {
        i64::try_from(at_ns).unwrap_or(i64::MAX).saturating_add(self.to_utc_ns.unwrap_or(0))
    }

    /// Nanoseconds since 1970 UTC, if available.
    pub fn utc_ns(self, at_ns: u64) -> Option<i64> {
        self.to_utc_ns.map(|_| self.ns(at_ns))
    }
}

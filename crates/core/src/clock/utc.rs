//! From `CLOCK_MONOTONIC` to UTC, for reading.

use super::ClockSample;

/// The map from `CLOCK_MONOTONIC` to UTC given by samples in order of time: piecewise linear between two of
/// them, slope one beyond the first and the last and where the clock was set in between.
#[derive(Clone, Debug, Default)]
pub struct UtcMap {
    samples: Vec<ClockSample>,
}

impl UtcMap {
    /// An empty map: nothing is known about UTC.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a sample. Samples older than the newest are left out: time does not run backwards.
    pub fn push(&mut self, sample: ClockSample) {
        if self.samples.last().is_none_or(|last| sample.monotonic_ns > last.monotonic_ns) {
            self.samples.push(sample);
        }
    }

    /// UTC in nanoseconds since 1970 for an instant of `CLOCK_MONOTONIC`; `None` while there is no sample.
    pub fn utc_ns(&self, monotonic_ns: u64) -> Option<i64> {
        let after = self.samples.partition_point(|s| s.monotonic_ns <= monotonic_ns);
        let (Some(before), next) = (self.samples.get(after.saturating_sub(1)), self.samples.get(after)) else {
            return None;
        };
        let since = i128::from(monotonic_ns) - i128::from(before.monotonic_ns);
        // MONOTONIC and REALTIME run at one rate, whatever NTP does, until somebody sets REALTIME: a straight line to a sample
        // after that would be a time that no clock ever showed.
        let line = next.filter(|next| since > 0 && before.break_before(next).is_none());
        let rise = line.map_or(since, |next| {
            let run = i128::from(next.monotonic_ns) - i128::from(before.monotonic_ns);
            since * (i128::from(next.realtime_ns) - i128::from(before.realtime_ns)) / run.max(1)
        });
        i64::try_from(i128::from(before.realtime_ns) + rise).ok()
    }

    /// The samples.
    pub fn samples(&self) -> &[ClockSample] {
        &self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(monotonic_ns: u64, realtime_ns: i64) -> ClockSample {
        ClockSample { monotonic_ns, realtime_ns, width_ns: 50, ..ClockSample::default() }
    }

    #[test]
    fn maps_between_and_beyond_samples() {
        let mut map = UtcMap::new();
        assert_eq!(map.utc_ns(5), None);
        map.push(sample(1_000, 5_000));
        map.push(sample(2_000, 6_040));
        map.push(sample(1_500, 0)); // out of order: left out
        assert_eq!(map.utc_ns(500), Some(4_500));
        assert_eq!(map.utc_ns(1_500), Some(5_520));
        assert_eq!(map.utc_ns(3_000), Some(7_040));
        assert_eq!(map.utc_ns(u64::MAX), None);
    }

    #[test]
    fn a_clock_that_was_set_is_right_before_and_after() {
        let mut map = UtcMap::new();
        map.push(sample(1_000, 5_000));
        map.push(sample(2_000, 1_000_000));
        assert_eq!(map.utc_ns(1_999), Some(5_999));
        assert_eq!(map.utc_ns(2_000), Some(1_000_000));
    }
}

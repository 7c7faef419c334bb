//! The map from the events' clock to UTC, for display.

use magscope_core::clock::ClockSample;

/// The map from the events' clock to UTC, from samples in order of time. It is piecewise linear between two
/// samples. Its slope is one outside them, and where the clock was set in between.
#[derive(Clone, Debug, Default)]
pub struct UtcMap {
    samples: Vec<ClockSample>,
}

impl UtcMap {
    /// An empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a sample. Samples older than the newest are ignored: time does not run backwards. Between breaks
    /// only the end samples are kept, so that the size of a map depends on the number of breaks.
    pub fn push(&mut self, sample: ClockSample) {
        if self.samples.last().is_some_and(|last| sample.event_ns() <= last.event_ns()) {
            return;
        }
        if let [.., before, last] = self.samples.as_slice() {
            // The TSC is not slewed as UTC is: every sample of it carries information.
            let steady = |a: &ClockSample, b: &ClockSample| a.break_before(b).is_none() && b.stamp_ns == 0;
            if steady(before, last) && steady(last, &sample) && steady(before, &sample) {
                self.samples.pop();
            }
        }
        self.samples.push(sample);
    }

    /// UTC in nanoseconds since 1970 for an instant of the events' clock; `None` without a sample.
    pub fn utc_ns(&self, event_ns: u64) -> Option<i64> {
        let after = self.samples.partition_point(|s| s.event_ns() <= event_ns);
        let (Some(before), next) = (self.samples.get(after.saturating_sub(1)), self.samples.get(after)) else {
            return None;
        };
        let since = i128::from(event_ns) - i128::from(before.event_ns());
        // MONOTONIC and REALTIME have one rate despite NTP, and the TSC a similar one, until REALTIME is set. A
        // straight line to a sample after that would give times that no clock showed.
        let line = next.filter(|next| since > 0 && before.break_before(next).is_none());
        let rise = line.map_or(since, |next| {
            let run = i128::from(next.event_ns()) - i128::from(before.event_ns());
            since * (i128::from(next.realtime_ns) - i128::from(before.realtime_ns)) / run.max(1)
        });
        i64::try_from(i128::from(before.realtime_ns) + rise).ok()
    }

    /// The last instant of the events' clock whose UTC is not after this one. For a time skipped by a set of
    /// the clock, that is the instant of the set. `None` without a sample.
    pub fn event_ns(&self, utc_ns: i64) -> Option<u64> {
        let before = self.samples.iter().rposition(|s| s.realtime_ns <= utc_ns);
        let anchor = self.samples.get(before.unwrap_or(0))?;
        let next = before.and_then(|before| self.samples.get(before + 1));
        let at = |from: u64, by: i128| u64::try_from((i128::from(from) + by).max(0)).unwrap_or(u64::MAX);
        let guess = at(anchor.event_ns(), i128::from(utc_ns) - i128::from(anchor.realtime_ns));
        if let Some(next) = next.filter(|next| guess >= next.event_ns()) {
            return Some(next.event_ns().saturating_sub(1));
        }
        // The two clocks drift apart by the width of a sample: a second iteration is exact to a nanosecond.
        let seen = self.utc_ns(guess)?;
        Some(at(guess, i128::from(utc_ns) - i128::from(seen)))
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
        assert_eq!(map.event_ns(5_500), Some(1_500));
        assert_eq!(map.event_ns(500_000), Some(1_999), "no instant had it: the one before it was set");
        assert_eq!(map.event_ns(1_000_100), Some(2_100));
        assert_eq!(map.event_ns(4_900), Some(900));
        // set back: for a time shown twice, the second instant is found
        map.push(sample(3_000, 800_000));
        assert_eq!(map.event_ns(1_000_100), Some(203_100));
    }

    #[test]
    fn a_map_is_as_long_as_its_clock_was_set_often() {
        let mut map = UtcMap::new();
        for i in 0..10_000_u64 {
            map.push(sample(i * 1_000, (i * 1_000 + 77 + if i >= 5_000 { 1_000_000 } else { 0 }) as i64));
        }
        assert_eq!(map.samples().len(), 4);
        assert_eq!((map.utc_ns(4_999_100), map.utc_ns(5_000_000)), (Some(4_999_177), Some(6_000_077)));
        assert_eq!((map.utc_ns(50), map.utc_ns(7_000_001)), (Some(127), Some(8_000_078)));
    }
}

//! Recordings that were made at different times.
//!
//! **The problem.** Equal identifications of two datagrams mean one datagram only if both recordings overlap in time.
//! Flows with fixed ports are the same on every day.
//!
//! **The choice.** Two recordings do not overlap if their wall clocks are disciplined, and further apart than such clocks
//! may be wrong. Bytes of a stream in both recordings prove an overlap, whatever the wall clocks show.
//!
//! **Known limit.** A wall clock that nothing disciplines may show any year. So it proves nothing, and its recording is
//! assumed to overlap with the others.

use magscope_core::clock::ClockSample;
use magscope_core::hash::{Map, Set};

/// Two disciplined wall clocks differ by less than this, nanoseconds: an hour.
const MOST_WRONG_NS: u64 = 3_600_000_000_000;
/// `adjtimex`: a program steers the clock (`STA_PLL`), and has not yet set it (`STA_UNSYNC`).
const STA_PLL: u32 = 0x1;
const STA_UNSYNC: u32 = 0x40;

/// The span of a recording by its host's wall clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WallSpan {
    /// First and last sample, by `CLOCK_BOOTTIME`, nanoseconds.
    boot_ns: Option<(i128, i128)>,
    /// Minimum and maximum of the wall clock less `CLOCK_BOOTTIME`, of samples with a disciplined wall clock, nanoseconds.
    ahead_ns: Option<(i128, i128)>,
}

impl WallSpan {
    /// Adds a clock sample.
    pub(crate) fn add(&mut self, sample: &ClockSample) {
        let boot_ns = i128::from(sample.monotonic_ns) + i128::from(sample.suspended_ns);
        self.boot_ns = Some(with(self.boot_ns, boot_ns));
        if is_disciplined(sample) {
            self.ahead_ns = Some(with(self.ahead_ns, i128::from(sample.realtime_ns) - boot_ns));
        }
    }

    /// Its ends, nanoseconds since 1970; `None` if nothing disciplines the wall clock.
    fn ends_ns(&self) -> Option<(i128, i128)> {
        let ((first_ns, last_ns), (least_ns, most_ns)) = (self.boot_ns?, self.ahead_ns?);
        Some((first_ns + least_ns, last_ns + most_ns))
    }

    /// Time from the end of one recording to the beginning of the other, nanoseconds; `None` if they may overlap.
    pub(crate) fn apart_ns(&self, other: &Self) -> Option<u64> {
        let ((from_ns, to_ns), (other_from_ns, other_to_ns)) = (self.ends_ns()?, other.ends_ns()?);
        let apart_ns = u64::try_from((from_ns - other_to_ns).max(other_from_ns - to_ns)).ok()?;
        (apart_ns > MOST_WRONG_NS).then_some(apart_ns)
    }
}

/// The smallest span that has all of one and this.
fn with(span: Option<(i128, i128)>, ns: i128) -> (i128, i128) {
    span.map_or((ns, ns), |(least_ns, most_ns)| (least_ns.min(ns), most_ns.max(ns)))
}

/// True if a program steers the wall clock by a source of UTC. 0 is also the status of a sample without one.
fn is_disciplined(sample: &ClockSample) -> bool {
    sample.utc_error_ns.is_some() || sample.status & (STA_PLL | STA_UNSYNC) == STA_PLL
}

/// Which recordings may overlap in time.
#[derive(Debug, Default)]
pub(super) struct Overlaps {
    spans: Map<u16, WallSpan>,
    /// Recordings with bytes of one stream in common, the lower number first.
    proven: Set<(u16, u16)>,
}

impl Overlaps {
    /// Adds clock samples of a recording.
    pub fn push(&mut self, node: u16, samples: &[ClockSample]) {
        let span = self.spans.entry(node).or_default();
        for sample in samples {
            span.add(sample);
        }
    }

    /// Two recordings have bytes of one stream in common.
    pub fn prove(&mut self, a: u16, b: u16) {
        self.proven.insert((a.min(b), a.max(b)));
    }

    /// True if two recordings do not overlap.
    pub fn are_apart(&self, a: u16, b: u16) -> bool {
        let spans = self.spans.get(&a).zip(self.spans.get(&b));
        let are_apart = spans.is_some_and(|(one, other)| one.apart_ns(other).is_some());
        are_apart && !self.proven.contains(&(a.min(b), a.max(b)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const DAY_S: u64 = 86_400;

    fn sample(boot_s: u64, wall_s: u64, status: u32) -> ClockSample {
        let realtime_ns = (wall_s * SECOND) as i64;
        ClockSample { monotonic_ns: boot_s * SECOND, realtime_ns, status, ..ClockSample::default() }
    }

    /// An hour of recording, from this time of the wall clock.
    fn hour(wall_s: u64, status: u32) -> [ClockSample; 2] {
        [sample(100, wall_s, status), sample(3_700, wall_s + 3_600, status)]
    }

    fn are_apart(one: &[ClockSample], other: &[ClockSample]) -> bool {
        let mut overlaps = Overlaps::default();
        overlaps.push(3, one);
        overlaps.push(1, other);
        overlaps.are_apart(1, 3)
    }

    #[test]
    fn recordings_of_different_days_do_not_overlap() {
        let today = hour(DAY_S * 20_000, STA_PLL);
        assert!(are_apart(&today, &hour(DAY_S * 20_001, STA_PLL)));
        assert!(are_apart(&today, &hour(DAY_S * 19_999, STA_PLL)));
        // Less than an hour between them.
        assert!(!are_apart(&today, &hour(DAY_S * 20_000 + 7_000, STA_PLL)));
        let claimed = hour(DAY_S * 20_001, 0).map(|one| ClockSample { utc_error_ns: Some(1_000), ..one });
        assert!(are_apart(&today, &claimed));
    }

    #[test]
    fn a_wall_clock_that_nothing_disciplines_proves_nothing() {
        let today = hour(DAY_S * 20_000, STA_PLL);
        for status in [0, STA_UNSYNC, STA_PLL | STA_UNSYNC] {
            assert!(!are_apart(&today, &hour(0, status)));
        }
        // It was set amid the recording, two hours after the beginning.
        let begin = DAY_S * 20_000 - 7_200;
        let set = [sample(100, 0, STA_UNSYNC), sample(7_300, begin + 7_200, STA_PLL)];
        assert!(!are_apart(&set, &hour(begin - 3_600, STA_PLL)));
    }

    #[test]
    fn bytes_of_one_stream_prove_an_overlap() {
        let mut overlaps = Overlaps::default();
        overlaps.push(0, &hour(DAY_S * 20_000, STA_PLL));
        overlaps.push(1, &hour(DAY_S * 20_001, STA_PLL));
        assert!(overlaps.are_apart(0, 1));
        overlaps.prove(1, 0);
        assert!(!overlaps.are_apart(0, 1) && !overlaps.are_apart(1, 0));
    }
}

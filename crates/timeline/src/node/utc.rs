//! UTC of one node: readings with the bounds of its sources, and contradictions between these.

use super::Axis::{Monotonic, Raw};
use super::{NodeClock, REPORT_NS};
use crate::pair::UtcReading;
use magscope_core::clock::{Break, ClockSample};

/// Maximum rate difference of R against UTC, parts per million: a TSC that the kernel calibrated at boot.
const RAW_PPM: u64 = 500;

impl NodeClock {
    /// Compares the bounds of UTC of neighbouring samples: R continued, so both cannot be right if UTC moved by more.
    pub(super) fn compare_utc(&mut self, next: &ClockSample) {
        let broken = self.samples.last().and_then(|last| last.break_before(next));
        self.has_break |= broken.is_some();
        if broken.is_some_and(|what| what != Break::Realtime) {
            self.vouched = None;
        }
        if next.utc_error_ns.is_some() {
            if self.vouched.is_some_and(|before| contradict(&before, next)) {
                self.utc_contradiction_ns = Some(next.raw_ns);
            }
            self.vouched = Some(*next);
        }
    }

    /// True if two bounds of UTC contradict each other: at one of the two times UTC was not as near as its source claimed.
    pub fn contradicts_its_utc(&self) -> bool {
        self.utc_contradiction_ns.is_some()
    }

    /// Instants of R near each break of a clock: amid the last two samples with a bound of UTC before it, and amid the
    /// first two after it. The newest `most`.
    pub fn instants_near_breaks(&self, most: usize) -> Vec<u64> {
        let pairs: Vec<&[ClockSample]> = self.samples.windows(2).collect();
        let mut instants = Vec::new();
        for stretch in pairs.split(|pair| breaks(pair, ClockSample::break_before)).rev() {
            let mut amid = stretch.iter().filter_map(|pair| amid_bounds_of_utc(pair));
            let (first, last) = (amid.next(), amid.next_back());
            instants.extend([last, first].into_iter().flatten());
            if instants.len() >= most {
                break;
            }
        }
        instants
    }

    /// The sample with a bound of UTC that is nearest to the middle between two instants of R, one of which may be
    /// unknown; `None` if R may have broken in between, or a clock was set around it.
    pub fn vouched_near(&self, from_ns: Option<u64>, to_ns: Option<u64>) -> Option<ClockSample> {
        let amid_ns = match (from_ns, to_ns) {
            (Some(from), Some(to)) => from + to.checked_sub(from)? / 2,
            (one, other) => one.or(other)?,
        };
        let after = |ns: u64| self.samples.partition_point(|sample| sample.raw_ns <= ns);
        let first = from_ns.map_or(0, |ns| after(ns).saturating_sub(1));
        let last = to_ns.map_or(self.samples.len(), |ns| (after(ns) + 1).min(self.samples.len()));
        let mut pairs = self.samples.get(first..last)?.windows(2);
        if self.has_break && pairs.any(|pair| breaks(pair, ClockSample::break_of_raw_before)) {
            return None;
        }
        let next = after(amid_ns);
        let around = [next.checked_sub(1).and_then(|before| self.samples.get(before)), self.samples.get(next)];
        if let [Some(before), Some(next)] = around
            && before.break_before(next).is_some()
        {
            return None;
        }
        let nearest = around.into_iter().flatten().min_by_key(|sample| sample.raw_ns.abs_diff(amid_ns))?;
        nearest.utc_error_ns.map(|_| *nearest)
    }

    /// UTC at an instant of R, if external bounds exist before and after and the clock was not set between.
    pub fn utc(&self, raw_ns: u64) -> Option<UtcReading> {
        let after =
            self.samples.partition_point(|s| s.raw_ns <= raw_ns).min(self.samples.len().checked_sub(1)?);
        let (before, next) = (self.samples.get(after.checked_sub(1)?)?, self.samples.get(after)?);
        let vouched_ns = before.utc_error_ns?.max(next.utc_error_ns?);
        if raw_ns < before.raw_ns || raw_ns > next.raw_ns || before.break_before(next).is_some() {
            return None;
        }
        // A continuation of the machine, reported later: its sources of UTC did not know of it.
        let soon = self.samples.get(after..)?.iter();
        if soon
            .take_while(|sample| sample.raw_ns.saturating_sub(raw_ns) < REPORT_NS)
            .any(|sample| sample.generations != before.generations)
        {
            return None;
        }
        // REALTIME runs at the rate of MONOTONIC, so its deviation from a straight line is the same.
        let monotonic = self.map(raw_ns, Raw, Monotonic)?;
        let since = i128::from(monotonic.ns) - i128::from(before.monotonic_ns);
        let (run, rise) = (
            i128::from(next.monotonic_ns - before.monotonic_ns),
            i128::from(next.realtime_ns) - i128::from(before.realtime_ns),
        );
        let utc_ns = i64::try_from(i128::from(before.realtime_ns) + since * rise / run.max(1)).ok()?;
        // The three clocks of a sample were read within its width, one after the other.
        let width_ns = u64::from(before.width_ns.max(next.width_ns));
        let error_ns = vouched_ns.saturating_add(monotonic.error_ns).saturating_add(width_ns);
        Some(UtcReading { raw_ns, utc_ns, error_ns })
    }

    /// The instant of R at this time in UTC; `None` if the clock may have shown it twice, as a leap second makes it do.
    pub fn raw_of_utc(&self, utc_ns: i64) -> Option<u64> {
        let before = self.samples.iter().rposition(|s| s.realtime_ns <= utc_ns)?;
        let anchor = self.samples.get(before)?;
        let mut earlier = self.samples.get(..=before)?.windows(2);
        if self.has_break && earlier.any(|pair| may_have_passed(pair, utc_ns)) {
            return None;
        }
        let mut raw_ns = anchor.raw_ns.checked_add(utc_ns.abs_diff(anchor.realtime_ns))?;
        // R and UTC drift apart by parts in a thousand at most: each iteration reduces the error a
        // thousandfold.
        for _ in 0..4 {
            let seen = self.utc(raw_ns)?;
            raw_ns = raw_ns.checked_add_signed(utc_ns.checked_sub(seen.utc_ns)?)?;
        }
        // Amid a break no instant shows it, and the search alternates between its two sides.
        let found = self.utc(raw_ns)?;
        (found.utc_ns.abs_diff(utc_ns) <= found.error_ns).then_some(raw_ns)
    }
}

fn breaks(pair: &[ClockSample], kind: impl Fn(&ClockSample, &ClockSample) -> Option<Break>) -> bool {
    matches!(pair, [one, two] if kind(one, two).is_some())
}

/// True if the clock broke between two samples, and may have shown this time before it did. It is slewed by less than a
/// tenth.
fn may_have_passed(pair: &[ClockSample], utc_ns: i64) -> bool {
    let [one, two] = pair else { return false };
    let most_ns = u128::from(two.raw_ns.saturating_sub(one.raw_ns)) * 11 / 10;
    i128::from(one.realtime_ns) + most_ns as i128 > i128::from(utc_ns) && one.break_before(two).is_some()
}

/// The instant of R amid two neighbouring samples that both have a bound of UTC.
fn amid_bounds_of_utc(pair: &[ClockSample]) -> Option<u64> {
    let [one, two] = pair else { return None };
    let is_bounded = one.utc_error_ns.is_some() && two.utc_error_ns.is_some();
    is_bounded.then(|| one.raw_ns + two.raw_ns.saturating_sub(one.raw_ns) / 2)
}

/// True if two bounds of UTC, with R unbroken in between, cannot both be right. A leap second moves UTC and the offset of
/// TAI together.
fn contradict(before: &ClockSample, next: &ClockSample) -> bool {
    let (Some(before_ns), Some(next_ns)) = (before.utc_error_ns, next.utc_error_ns) else { return false };
    let ahead = |sample: &ClockSample| i128::from(sample.realtime_ns) - i128::from(sample.raw_ns);
    let moved_ns = ahead(next) - ahead(before);
    let leap_ns = (i128::from(next.tai_offset_s) - i128::from(before.tai_offset_s)) * 1_000_000_000;
    let drifted_ns = u128::from(next.raw_ns.abs_diff(before.raw_ns)) * u128::from(RAW_PPM) / 1_000_000;
    let widths_ns = u128::from(before.width_ns) + u128::from(next.width_ns);
    let tolerance_ns = u128::from(before_ns) + u128::from(next_ns) + widths_ns + drifted_ns;
    let fits = |moved_ns: i128| moved_ns.unsigned_abs() <= tolerance_ns;
    !(fits(moved_ns) || leap_ns.unsigned_abs() == 1_000_000_000 && fits(moved_ns + leap_ns))
}

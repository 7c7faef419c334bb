//! The clocks of one node: from `CLOCK_MONOTONIC` to R, to UTC, and back, with a bound.

mod utc;

use magscope_core::clock::{Break, ClockSample};

/// Maximum rate difference of `CLOCK_MONOTONIC` against R without a sample, beyond the rate that the kernel is set to:
/// the kernel's own limit for a frequency correction (`MAXFREQ`), parts per million.
const SLEW_PPM: u64 = 500;
/// Maximum time from the continuation of a machine to the sample that counts its generation: the hypervisor's message
/// arrives while the machine runs.
const REPORT_NS: u64 = 1_000_000_000;

/// A value and its error bound, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The value.
    pub ns: u64,
    /// Maximum distance from the truth.
    pub error_ns: u64,
}

/// The map from one clock of a node to another, from samples in order of time.
///
/// Between two samples the map is a straight line. The true map may have a kink there, because NTP changes the
/// rate at any time. Its rate lies among those before, in and after the interval. So the error of the line is
/// at most `(steepest − own) · (own − flattest) / (steepest − flattest)` of the interval. That error is part of
/// the bound. The rate before the first interval and behind the last one is taken to be the one that the kernel is set
/// to at the samples, within 500 ppm. Outside the samples the error grows with 500 ppm. The map is monotonic.
#[derive(Clone, Debug, Default)]
pub struct NodeClock {
    samples: Vec<ClockSample>,
    has_break: bool,
    /// The newest sample with a bound of UTC since the newest break of R.
    vouched: Option<ClockSample>,
    /// R at the newest sample whose bound of UTC contradicts the one before.
    utc_contradiction_ns: Option<u64>,
}

/// One coordinate of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Axis {
    Events,
    Monotonic,
    Raw,
}

use Axis::{Events, Monotonic, Raw};

impl Axis {
    const fn of(self, sample: &ClockSample) -> u64 {
        match self {
            Events => sample.event_ns(),
            Monotonic => sample.monotonic_ns,
            Raw => sample.raw_ns,
        }
    }

    /// The rate that the kernel is set to, of this clock against R, less one.
    fn kernel_rate(self, sample: &ClockSample) -> Option<f64> {
        let is_slewed = match self {
            Events => sample.stamp_ns == 0,
            Monotonic => true,
            Raw => false,
        };
        if is_slewed { sample.kernel_rate() } else { Some(0.0) }
    }
}

/// The rate of one clock against another, less one, that the kernel is set to at a sample.
fn kernel_gain(sample: &ClockSample, from: Axis, to: Axis) -> Option<f64> {
    let (from, to) = (from.kernel_rate(sample)?, to.kernel_rate(sample)?);
    // A clock that runs at less than half its rate is none.
    (from > -0.5 && to > -0.5 && from < 1.0 && to < 1.0).then(|| (1.0 + to) / (1.0 + from) - 1.0)
}

impl NodeClock {
    /// An empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a sample. A sample that is not newer on both clocks is ignored: time does not run backwards.
    pub fn push(&mut self, sample: ClockSample) {
        let newer = |last: &ClockSample| {
            [Events, Monotonic, Raw].iter().all(|clock| clock.of(&sample) > clock.of(last))
        };
        if self.samples.last().is_none_or(newer) {
            self.compare_utc(&sample);
            self.samples.push(sample);
        }
    }

    /// The samples.
    pub fn samples(&self) -> &[ClockSample] {
        &self.samples
    }

    /// The newest sample.
    pub fn newest(&self) -> Option<ClockSample> {
        self.samples.last().copied()
    }

    /// From the second sample to the last but one, on the events' clock. There the map is final, and its error
    /// covers any rate that began meanwhile.
    pub fn settled_ns(&self) -> Option<(u64, u64)> {
        let last = self.samples.len().checked_sub(2)?;
        Some((self.samples.get(1)?.event_ns(), self.samples.get(last)?.event_ns()))
    }

    /// Discards the oldest samples beyond `most`, with some margin: earlier instants have no map afterwards.
    pub fn keep_newest(&mut self, most: usize) {
        if self.samples.len() > most.saturating_add(most / 4) {
            self.samples.drain(..self.samples.len() - most);
            let first_ns = self.samples.first().map_or(0, |sample| sample.raw_ns);
            self.utc_contradiction_ns = self.utc_contradiction_ns.filter(|at_ns| *at_ns >= first_ns);
        }
    }

    /// Breaks of R itself, on R: each between two instants. Earlier differences to another node's clock are
    /// invalid after one.
    pub fn breaks(&self) -> impl Iterator<Item = (u64, u64, Break)> {
        (1..self.samples.len()).filter_map(|at| self.break_at(at))
    }

    /// The break between the last two samples.
    pub fn newest_break(&self) -> Option<(u64, u64, Break)> {
        self.break_at(self.samples.len().checked_sub(1)?)
    }

    /// The break between a sample and the one before.
    fn break_at(&self, at: usize) -> Option<(u64, u64, Break)> {
        let (before, next) = (self.samples.get(at.checked_sub(1)?)?, self.samples.get(at)?);
        let what = before.break_of_raw_before(next)?;
        let mut first = at - 1;
        if what == Break::Generation {
            // It may have happened before earlier samples, but not before another break.
            while next.raw_ns.saturating_sub(self.samples.get(first)?.raw_ns) < REPORT_NS
                && let Some(pair) = first.checked_sub(1).and_then(|before| self.samples.get(before..=first))
                && let [one, two] = pair
                && one.break_of_raw_before(two).is_none()
            {
                first -= 1;
            }
        }
        Some((self.samples.get(first)?.raw_ns, next.raw_ns, what))
    }

    /// R (`CLOCK_MONOTONIC_RAW`) at an instant of the events' clock; `None` without a sample, or beyond `u64`.
    pub fn raw_ns(&self, event_ns: u64) -> Option<Reading> {
        self.map(event_ns, Events, Raw)
    }

    /// The events' clock at an instant of R.
    pub fn event_ns(&self, raw_ns: u64) -> Option<Reading> {
        self.map(raw_ns, Raw, Events)
    }

    fn map(&self, at: u64, from: Axis, to: Axis) -> Option<Reading> {
        let after = self.samples.partition_point(|s| from.of(s) <= at);
        let (Some(before), Some(next)) = (self.samples.get(after.wrapping_sub(1)), self.samples.get(after))
        else {
            let end = self.samples.get(after).or(self.samples.last())?;
            return beyond(at, end, from, to);
        };
        let run = i128::from(from.of(next) - from.of(before));
        let rise = i128::from(to.of(next) - to.of(before));
        let since = i128::from(at - from.of(before));
        let ns = i128::from(to.of(before)) + since * rise / run.max(1);
        let kink_ns = self.kink_ns(after, from, to, since);
        let error_ns = half_ns(before.width_ns.max(next.width_ns)).saturating_add(kink_ns);
        Some(Reading { ns: u64::try_from(ns).ok()?, error_ns })
    }

    /// Maximum error of the line between the samples `after − 1` and `after`, `since` its beginning, for a rate
    /// among the neighbouring ones.
    fn kink_ns(&self, after: usize, from: Axis, to: Axis, since: i128) -> u64 {
        let gain = |i: usize| {
            let (one, two) = (self.samples.get(i.checked_sub(1)?)?, self.samples.get(i)?);
            let run = i128::from(from.of(two)) - i128::from(from.of(one));
            let gain = i128::from(to.of(two)) - i128::from(to.of(one)) - run;
            // Both samples have an error of up to half their widths, and so does an apparent change of rate.
            let doubt = f64::from(one.width_ns) / 2.0 + f64::from(two.width_ns) / 2.0;
            let run_ns = run.max(1) as f64;
            Some((gain as f64 / run_ns, doubt / run_ns, run))
        };
        let Some((own, own_doubt, run)) = gain(after) else { return 0 };
        let around = [after.checked_sub(1).and_then(gain), gain(after + 1)];
        let slew = SLEW_PPM as f64 / 1e6;
        // At an end of the samples the rate on the other side is unknown.
        let has_both_rates = around.iter().all(Option::is_some);
        let rates = around.into_iter().flatten();
        let (mut low, mut high) = rates
            .fold((own - own_doubt, own + own_doubt), |(low, high), (rate, doubt, _)| {
                (low.min(rate - doubt), high.max(rate + doubt))
            });
        if !has_both_rates {
            let ends = [after.checked_sub(1).and_then(|i| self.samples.get(i)), self.samples.get(after)];
            let set = ends.into_iter().flatten().filter_map(|sample| kernel_gain(sample, from, to));
            (low, high) = set
                .chain([own])
                .fold((low, high), |(low, high), rate| (low.min(rate - slew), high.max(rate + slew)));
        }
        // The truth lies in the parallelogram of the flattest and the steepest rate between the two ends.
        let (since, left) = (since as f64, (run - since) as f64);
        let above = ((high - own) * since).min((own - low) * left);
        let below = ((own - low) * since).min((high - own) * left);
        above.max(below).max(0.0).ceil() as u64
    }
}

/// Maximum error of a sample of this width. It is half the width, by a clock slewed by up to a tenth, plus the
/// rounding of three readings to nanoseconds.
fn half_ns(width_ns: u32) -> u64 {
    (u64::from(width_ns) * 9).div_ceil(16) + 3
}

/// Outside the samples: the rate that the kernel is set to, or one, and an increasing error.
fn beyond(at: u64, end: &ClockSample, from: Axis, to: Axis) -> Option<Reading> {
    let away = i128::from(at) - i128::from(from.of(end));
    let gained = (away as f64 * kernel_gain(end, from, to).unwrap_or(0.0)).round() as i128;
    let ns = u64::try_from(i128::from(to.of(end)) + away + gained).ok()?;
    let grown = u64::try_from(away.unsigned_abs() * u128::from(SLEW_PPM) / 1_000_000).unwrap_or(u64::MAX);
    Some(Reading { ns, error_ns: half_ns(end.width_ns).saturating_add(grown) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(monotonic_ns: u64, raw_ns: u64) -> ClockSample {
        ClockSample { monotonic_ns, raw_ns, width_ns: 100, ..ClockSample::default() }
    }

    #[test]
    fn a_steady_rate_is_followed_to_a_width() {
        let mut clock = NodeClock::new();
        assert_eq!(clock.raw_ns(1), None);
        for i in 0..10 {
            clock.push(sample(1_000_000 * i + 500, 1_000_100 * i + 7_000));
        }
        let raw = clock.raw_ns(4_500_500).unwrap();
        // Half a width, and another half amid the samples: a kink within their noise is invisible.
        assert_eq!(raw.ns, 4_500_450 + 7_000);
        assert!((105..=112).contains(&raw.error_ns), "{raw:?}");
        let back = clock.event_ns(raw.ns).unwrap();
        assert!(back.ns.abs_diff(4_500_500) <= 1);
        // An hour later: 500 ppm of it.
        let late = clock.raw_ns(3_600_000_000_000).unwrap();
        assert!(late.error_ns > 1_799_000_000 && late.error_ns < 1_801_000_000, "{late:?}");
    }

    #[test]
    fn a_kink_inside_an_interval_is_inside_the_error() {
        // The rate of R against MONOTONIC turns from one to 1.0005 at 2.3 ms.
        let truth = |m: u64| m + m.saturating_sub(2_300_000) / 2_000;
        let mut clock = NodeClock::new();
        for m in (0..8_000_000).step_by(1_000_000) {
            clock.push(sample(m, truth(m)));
        }
        for m in (0..7_000_000).step_by(10_000) {
            let raw = clock.raw_ns(m).unwrap();
            assert!(raw.ns.abs_diff(truth(m)) <= raw.error_ns, "{m}: {raw:?}, truly {}", truth(m));
            assert!(raw.error_ns < 700, "{m}: {raw:?}");
        }
    }

    #[test]
    fn a_continuation_is_uncertain_for_the_second_before_its_report() {
        use magscope_core::clock::Clocksource::{Hpet, Tsc};
        let at = |i: u64| i * 100_000_000 + 7;
        let of = |i: u64, changed_at: u64| ClockSample {
            realtime_ns: at(i) as i64,
            utc_error_ns: Some(1_000),
            generations: u32::from(i >= 20),
            clocksource: if i >= changed_at { Hpet } else { Tsc },
            ..sample(at(i), at(i))
        };
        let clock_with = |changed_at| {
            let mut clock = NodeClock::new();
            (0..30).for_each(|i| clock.push(of(i, changed_at)));
            clock
        };
        let clock = clock_with(100);
        assert_eq!(clock.breaks().collect::<Vec<_>>(), [(at(10), at(20), Break::Generation)]);
        assert_eq!(clock.newest_break(), None);
        assert!(clock.utc(at(9)).is_some() && clock.utc(at(25)).is_some());
        assert!((11..=20).all(|i| clock.utc(at(i) - 1).is_none()));
        // An earlier break has an end of its own.
        let breaks: Vec<_> = clock_with(15).breaks().collect();
        assert_eq!(breaks, [(at(14), at(15), Break::Clocksource), (at(15), at(20), Break::Generation)]);
    }

    #[test]
    fn samples_that_run_backwards_are_left_out() {
        let mut clock = NodeClock::new();
        clock.push(sample(10, 10));
        clock.push(sample(20, 5));
        clock.push(sample(20, 30));
        assert_eq!(clock.samples().len(), 2);
        assert!(clock.raw_ns(u64::MAX).is_none_or(|r| r.error_ns > 1 << 40));
    }
}

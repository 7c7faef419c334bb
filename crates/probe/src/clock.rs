//! Reading this node's clocks together.

use crate::generation::GenerationWatch;
use crate::time_namespace::TimeOffsets;
use crate::tsc::Rate;
use crate::utc::phc::Phc;
use crate::utc::{UtcSources, UtcWatch};
use magscope_core::clock::{ClockSample, Clocksource};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use std::fs;
use std::os::unix::fs::FileExt;
use std::time::Duration;

const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// Readings per sample; the narrowest counts.
const READINGS: usize = 8;
/// About ten samples a second, more often at the start: the bound is widest before the second sample.
const INTERVAL: Duration = Duration::from_millis(100);
const FIRST_INTERVAL: Duration = Duration::from_millis(20);
/// Time after a continuation of the machine until its sources of UTC have measured again: chronyd does so every 1024 s,
/// if not more often.
const UTC_MEASURED: Duration = Duration::from_secs(1100);

/// The kernel's own clock, without the offset of a time namespace.
fn read(clock: ClockId) -> i64 {
    let t = clock_gettime(clock);
    // A capture does not start without the offsets.
    let offsets = TimeOffsets::of_this_process().unwrap_or_default();
    let offset_ns = match clock {
        ClockId::Monotonic | ClockId::MonotonicRaw => offsets.monotonic_ns,
        ClockId::Boottime => offsets.boottime_ns,
        _ => 0,
    };
    t.tv_sec * 1_000_000_000 + t.tv_nsec - offset_ns
}

/// `CLOCK_MONOTONIC` now, nanoseconds: the clock of `bpf_ktime_get_ns`.
pub fn monotonic_ns() -> u64 {
    read(ClockId::Monotonic) as u64
}

/// `CLOCK_MONOTONIC_RAW` now, nanoseconds: R.
pub fn raw_ns() -> u64 {
    read(ClockId::MonotonicRaw) as u64
}

/// The rate that `CLOCK_REALTIME` is set to, parts per million times 2¹⁶.
pub(crate) fn set_rate() -> i64 {
    discipline().0
}

/// The clock that events carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventClock {
    /// `CLOCK_MONOTONIC`.
    #[default]
    Monotonic,
    /// The TSC.
    Tsc(Rate),
}

impl EventClock {
    /// Now, nanoseconds.
    pub fn now_ns(&self) -> u64 {
        match self {
            Self::Monotonic => monotonic_ns(),
            Self::Tsc(rate) => rate.now_ns(),
        }
    }

    /// Name in recordings.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Monotonic => "monotonic",
            Self::Tsc(_) => "tsc",
        }
    }
}

/// Reads the clocks between two readings of `CLOCK_MONOTONIC`, eight times, and keeps the narrowest.
fn narrowest(events: EventClock) -> ClockSample {
    let once = || {
        let before = read(ClockId::Monotonic);
        let raw = read(ClockId::MonotonicRaw);
        let real = read(ClockId::Realtime);
        let (stamp_ns, doubt_ns) = match events {
            EventClock::Monotonic => (0, 0),
            EventClock::Tsc(rate) => (rate.now_ns(), rate.doubt_ns),
        };
        let after = read(ClockId::Monotonic);
        let width = after - before;
        ClockSample {
            monotonic_ns: (before + width / 2) as u64,
            raw_ns: raw as u64,
            realtime_ns: real,
            // An uncertainty to both sides counts twice: half the width is the error.
            width_ns: u32::try_from(width).unwrap_or(u32::MAX).saturating_add(doubt_ns.saturating_mul(2)),
            stamp_ns,
            ..ClockSample::default()
        }
    };
    let first = once();
    (1..READINGS)
        .map(|_| once())
        .fold(first, |best, next| if next.width_ns < best.width_ns { next } else { best })
}

/// Takes about ten samples a second at randomised intervals, to avoid aliasing with periodic load.
#[derive(Debug)]
pub struct ClockSampler {
    /// A timer that is cancelled when `CLOCK_REALTIME` is set; `None` if the kernel provides none.
    set: Option<OwnedFd>,
    realtime_steps: u32,
    generations: GenerationWatch,
    /// Before this instant no source of UTC has measured since the machine was continued.
    utc_from_ns: u64,
    due_ns: u64,
    interval: Duration,
    random: u64,
    sources: UtcSources,
    /// Opened with the privileges of the beginning, until the first sample.
    clocks: Vec<Phc>,
    events: EventClock,
    /// The file with the name of the kernel's clock source, open: it is read ten times a second.
    clocksource: Option<fs::File>,
    /// Begins with the first sample: a thread has the privileges that its process has then.
    utc: Option<UtcWatch>,
}

impl Default for ClockSampler {
    fn default() -> Self {
        Self::new()
    }
}

impl ClockSampler {
    /// The first sample is due at once.
    pub fn new() -> Self {
        Self::asking(UtcSources::default())
    }

    /// A sampler with additional sources for the offset of UTC.
    pub fn asking(sources: UtcSources) -> Self {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let set = timerfd_create(TimerfdClockId::Realtime, flags).ok();
        let sampler = ClockSampler {
            set,
            realtime_steps: 0,
            generations: GenerationWatch::open(),
            utc_from_ns: 0,
            due_ns: 0,
            interval: FIRST_INTERVAL,
            random: monotonic_ns() | 1,
            clocks: Phc::open_all(&sources.devices),
            sources,
            events: EventClock::Monotonic,
            clocksource: fs::File::open(CLOCKSOURCE).ok(),
            utc: None,
        };
        sampler.arm();
        sampler
    }

    /// Sets the clock that events carry.
    #[must_use]
    pub fn of(self, events: EventClock) -> Self {
        ClockSampler { events, ..self }
    }

    /// A timer that is never due, and that a set clock cancels (`TFD_TIMER_CANCEL_ON_SET`).
    fn arm(&self) {
        let Some(timer) = &self.set else { return };
        let never = Timespec { tv_sec: i64::MAX >> 1, tv_nsec: 0 };
        let at = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: never };
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        // Without the timer, the samples before and after a step still reveal the step.
        let _ = timerfd_settime(timer.as_fd(), flags, &at);
    }

    /// A sample, if one is due.
    pub fn poll(&mut self) -> Option<ClockSample> {
        let now = monotonic_ns();
        if now < self.due_ns {
            return None;
        }
        // xorshift64 (Marsaglia 2003): between three quarters and five quarters of the interval.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let interval = self.interval.as_nanos() as u64;
        self.due_ns = now + interval * 3 / 4 + self.random % (interval / 2);
        self.interval = (self.interval * 2).min(INTERVAL);
        Some(self.sample())
    }

    /// A sample now.
    pub fn sample(&mut self) -> ClockSample {
        let start = || UtcWatch::start(self.sources.clone(), std::mem::take(&mut self.clocks));
        let utc = self.utc.get_or_insert_with(start);
        let error_ns = utc.error_at(monotonic_ns());
        let sample = narrowest(self.events);
        // Checked last: a clock step before the reading invalidates the UTC offset.
        let was_set = self.was_set();
        if was_set {
            self.realtime_steps = self.realtime_steps.saturating_add(1);
            self.arm();
            self.utc.iter().for_each(UtcWatch::clock_was_set);
        }
        let before = self.generations.count();
        let generations = self.generations.update();
        if generations != before {
            self.utc_from_ns = sample.monotonic_ns.saturating_add(UTC_MEASURED.as_nanos() as u64);
        }
        let is_measured = sample.monotonic_ns >= self.utc_from_ns;
        let asleep = read(ClockId::Boottime) - read(ClockId::Monotonic);
        let (frequency, status, tai_offset_s) = discipline();
        ClockSample {
            suspended_ns: u64::try_from(asleep).unwrap_or(0),
            tai_offset_s,
            realtime_steps: self.realtime_steps,
            clocksource: self.clocksource.as_ref().map_or(Clocksource::Unknown, clocksource),
            frequency,
            status,
            generations,
            utc_error_ns: error_ns.filter(|_| !was_set && is_measured),
            ..sample
        }
    }

    fn was_set(&self) -> bool {
        let Some(timer) = &self.set else { return false };
        let mut expirations = [0_u8; 8];
        matches!(rustix::io::read(timer, &mut expirations), Err(Errno::CANCELED))
    }
}

/// The kernel's current clock source. A read at the beginning of the file has the current one.
fn clocksource(file: &fs::File) -> Clocksource {
    let mut name = [0; 64];
    let length = file.read_at(&mut name, 0).unwrap_or(0);
    let name = name.get(..length).and_then(|name| std::str::from_utf8(name).ok());
    name.map_or(Clocksource::Unknown, |name| Clocksource::from_kernel_name(name.trim()))
}

/// `adjtimex` without a change: the rate that `CLOCK_MONOTONIC` is set to (ppm times 2¹⁶), the status bits, the offset
/// of TAI.
fn discipline() -> (i64, u32, i32) {
    // SAFETY: `timex` is plain numbers, for which zeros are valid; the kernel writes no more than its size, and
    // `modes = 0` changes nothing.
    #[allow(unsafe_code)]
    let (state, timex) = unsafe {
        let mut timex: libc::timex = std::mem::zeroed();
        (libc::adjtimex(&raw mut timex), timex)
    };
    if state < 0 { (0, 0, 0) } else { (rate_of(&timex), timex.status as u32, timex.tai) }
}

/// Nominal duration of a tick of user space, microseconds: 100 ticks a second.
const TICK_US: i64 = 10_000;
const STA_PPSTIME: i32 = 0x4;
const STA_PPSSIGNAL: i32 = 0x100;
const STA_NANO: i32 = 0x2000;
/// The kernel slews a pending offset by this power of two less of it a second, plus the time constant (`SHIFT_PLL`).
const SHIFT_PLL: i64 = 2;
const MAX_TIME_CONSTANT: i64 = 10;

/// The set rate less the nominal one, parts per million times 2¹⁶. A daemon sets it by `freq`, up to 500 ppm, and by
/// `tick`, up to a tenth. A pending offset adds to it.
fn rate_of(timex: &libc::timex) -> i64 {
    let per_tick_ppm = 1_000_000 / TICK_US;
    let tick_ppm = timex.tick.saturating_sub(TICK_US).saturating_mul(per_tick_ppm);
    let nanoseconds = timex.status & STA_NANO != 0;
    let offset_ns = if nanoseconds { timex.offset } else { timex.offset.saturating_mul(1_000) };
    let is_by_pulse = timex.status & STA_PPSTIME != 0 && timex.status & STA_PPSSIGNAL != 0;
    let shift = if is_by_pulse { 0 } else { SHIFT_PLL + timex.constant.clamp(0, MAX_TIME_CONSTANT) };
    // Of the offset at the beginning of this second, all but this part is left.
    let slew_ns_per_s = offset_ns / ((1_i64 << shift) - 1).max(1);
    let slew_ppm = slew_ns_per_s as f64 / 1_000.0;
    timex.freq.saturating_add(tick_ppm.saturating_mul(1 << 16)).saturating_add((slew_ppm * 65_536.0) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_lies_between_two_readings() {
        let before = monotonic_ns();
        let mut sampler = ClockSampler::new();
        let sample = sampler.poll().expect("the first is due at once");
        assert!(before <= sample.monotonic_ns && sample.monotonic_ns <= monotonic_ns());
        assert!(sample.realtime_ns > 1_600_000_000_000_000_000);
        assert!(sampler.poll().is_none(), "the next is due in milliseconds");
        assert_ne!(sample.clocksource, Clocksource::Unknown, "this kernel has {CLOCKSOURCE}");
        assert_eq!(sample.realtime_steps, 0);
        let next = sampler.sample();
        assert!(next.suspended_ns.abs_diff(sample.suspended_ns) < 1_000_000);
        assert_eq!(next.tai_offset_s, sample.tai_offset_s);
    }

    #[test]
    fn the_set_rate_counts_frequency_tick_and_offset() {
        // SAFETY: as in `discipline`.
        #[allow(unsafe_code)]
        let mut timex: libc::timex = unsafe { std::mem::zeroed() };
        timex.tick = 10_000;
        assert_eq!(rate_of(&timex), 0);
        timex.freq = -500 << 16;
        timex.tick = 10_010;
        assert_eq!(rate_of(&timex), 500 << 16);
        // chrony's fastest slew
        (timex.freq, timex.tick) = (33 << 16, 10_833);
        assert_eq!(rate_of(&timex), 83_333 << 16);
        // 96 of 100 ms are left of an offset after a second: 6400 ppm
        (timex.freq, timex.tick, timex.constant) = (0, 10_000, 2);
        (timex.offset, timex.status) = (96_000_000, STA_NANO);
        assert_eq!(rate_of(&timex), 6_400 << 16);
        (timex.offset, timex.status) = (-96_000, 0);
        assert_eq!(rate_of(&timex), -6_400 << 16);
        (timex.offset, timex.freq, timex.tick) = (i64::MIN, i64::MIN, i64::MAX);
        let _no_panic = rate_of(&timex);
    }
}

//! Reading this node's clocks together.

use magscope_core::clock::ClockSample;
use rustix::time::{ClockId, clock_gettime};

fn read(clock: ClockId) -> i64 {
    let t = clock_gettime(clock);
    t.tv_sec * 1_000_000_000 + t.tv_nsec
}

/// `CLOCK_MONOTONIC` now, nanoseconds: the clock of `bpf_ktime_get_ns`.
pub fn monotonic_ns() -> u64 {
    read(ClockId::Monotonic) as u64
}

/// Reads all clocks between two readings of `CLOCK_MONOTONIC`, eight times, and keeps the narrowest.
pub fn sample() -> ClockSample {
    let once = || {
        let before = read(ClockId::Monotonic);
        let raw = read(ClockId::MonotonicRaw);
        let real = read(ClockId::Realtime);
        let after = read(ClockId::Monotonic);
        let width = after - before;
        ClockSample {
            monotonic_ns: (before + width / 2) as u64,
            raw_ns: raw as u64,
            realtime_ns: real,
            width_ns: u32::try_from(width).unwrap_or(u32::MAX),
        }
    };
    let first = once();
    (1..8).map(|_| once()).fold(first, |best, next| if next.width_ns < best.width_ns { next } else { best })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_sample_lies_between_two_readings() {
        let before = super::monotonic_ns();
        let sample = super::sample();
        assert!(before <= sample.monotonic_ns && sample.monotonic_ns <= super::monotonic_ns());
        assert!(sample.realtime_ns > 1_600_000_000_000_000_000);
    }
}

//! The offsets of this process's time namespace.
//!
//! In a time namespace, `CLOCK_MONOTONIC`, `CLOCK_MONOTONIC_RAW` and `CLOCK_BOOTTIME` differ from the kernel's own by
//! fixed offsets. Programs in the kernel read the kernel's own, so user space removes the offsets from its readings.

use std::fs;
use std::sync::OnceLock;

/// Inode of the first time namespace (`PROC_TIME_INIT_INO`). Its offsets are zero.
const FIRST: &str = "time:[4026531834]";

/// What a reading exceeds the kernel's own clock by, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeOffsets {
    /// Of `CLOCK_MONOTONIC` and `CLOCK_MONOTONIC_RAW`.
    pub monotonic_ns: i64,
    /// Of `CLOCK_BOOTTIME`.
    pub boottime_ns: i64,
}

impl TimeOffsets {
    /// Of this process, read at the first call. They never change: a process enters a time namespace before its
    /// program begins, and the offsets of a namespace with a process are fixed.
    ///
    /// # Errors
    /// The reason why they cannot be read.
    pub fn of_this_process() -> Result<Self, &'static str> {
        static OFFSETS: OnceLock<Result<TimeOffsets, &'static str>> = OnceLock::new();
        *OFFSETS.get_or_init(|| {
            let namespace = |name| fs::read_link(format!("/proc/self/ns/{name}")).ok();
            let own = namespace("time");
            // Linux before 5.6 has none.
            if own.as_ref().is_none_or(|own| own.as_os_str() == FIRST) {
                return Ok(TimeOffsets::default());
            }
            if own != namespace("time_for_children") {
                return Err("its children have another time namespace, and only their offsets can be read");
            }
            let text = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
            parse(&text).ok_or("/proc/self/timens_offsets cannot be read")
        })
    }
}

/// Parses `/proc/<pid>/timens_offsets`: per line a clock, by name or number, and its offset in seconds and
/// nanoseconds.
pub fn parse(text: &str) -> Option<TimeOffsets> {
    let offset_of = |clock: [&str; 2]| {
        let of_line = |line: &str| {
            let mut fields = line.split_ascii_whitespace();
            let is_clock = fields.next().is_some_and(|name| clock.contains(&name));
            is_clock.then(|| Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?)))
        };
        let (seconds, ns): (i64, i64) = text.lines().find_map(of_line)??;
        seconds.checked_mul(1_000_000_000)?.checked_add(ns)
    };
    Some(TimeOffsets {
        monotonic_ns: offset_of(["monotonic", "1"])?,
        boottime_ns: offset_of(["boottime", "7"])?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_have_both_signs_and_names_or_numbers() {
        let zero = "monotonic           0         0\nboottime            0         0\n";
        assert_eq!(parse(zero), Some(TimeOffsets::default()));
        let back = TimeOffsets { monotonic_ns: -99_999_999_995, boottime_ns: 7_000_000_000 };
        assert_eq!(parse("monotonic        -100         5\nboottime            7         0\n"), Some(back));
        assert_eq!(parse("1        -100         5\n7            7         0\n"), Some(back));
        for odd in [
            "",
            "monotonic 1 2\n",
            "monotonic 1\nboottime 1 2",
            "monotonic x 0\nboottime 0 0",
            "monotonic 9223372036854775807 0\nboottime 0 0",
        ] {
            assert_eq!(parse(odd), None, "{odd}");
        }
    }
}

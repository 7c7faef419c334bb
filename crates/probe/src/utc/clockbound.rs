//! AWS `ClockBound`'s shared memory, versions 1 and 2 of its published layout (`PROTOCOL.md`), in the byte order of the host.
//!
//! | offset | what |
//! |---|---|
//! | 0, 4 | magic, two words |
//! | 8 | size of the segment, bytes |
//! | 12, 14 | version, generation (odd while it is being written) |
//! | 16, 32 | as-of and void-after, each seconds and nanoseconds of `CLOCK_MONOTONIC_COARSE` |
//! | 48 | bound on the error of `CLOCK_REALTIME` at as-of, nanoseconds |
//! | 56, 64 (version 1) | most drift since, parts per billion; status |
//! | 64, 68 (version 2) | the same |

use super::UtcBound;

/// Paths of the segment, versions 2 and 1.
pub const PATHS: [&str; 2] = ["/var/run/clockbound/shm0", "/var/run/clockbound/shm"];
/// Maximum size over all versions.
pub const MOST_BYTES: usize = 4096;

const MAGIC: [u32; 2] = [0x414d_5a4e, 0x4342_0200];
/// Synchronised by its daemon, or free running within the permitted time.
const SYNCHRONISED: i32 = 1;
const FREE_RUNNING: i32 = 2;
/// Maximum plausible drift, parts per billion.
const MOST_PPB: u32 = 1_000_000;

/// Parses a copy of the segment.
///
/// # Errors
/// The reason why the segment is no bound.
pub fn parse(segment: &[u8]) -> Result<UtcBound, &'static str> {
    let short = "ClockBound's segment is too short";
    let word = |at: usize| Some(u32::from_ne_bytes(segment.get(at..at + 4)?.try_into().ok()?));
    let half = |at: usize| Some(u16::from_ne_bytes(segment.get(at..at + 2)?.try_into().ok()?));
    let long = |at: usize| Some(i64::from_ne_bytes(segment.get(at..at + 8)?.try_into().ok()?));
    if [word(0).ok_or(short)?, word(4).ok_or(short)?] != MAGIC {
        return Err("this is not ClockBound's segment");
    }
    let (drift, status) = match half(12).ok_or(short)? {
        1 => (word(56), word(64)),
        2 => (word(64), word(68)),
        _ => return Err("ClockBound's segment has a layout that is not known here"),
    };
    if half(14).ok_or(short)? % 2 == 1 {
        return Err("ClockBound's segment is being written");
    }
    let time = |at: usize| -> Result<u64, &'static str> {
        let (seconds, ns) = (long(at).ok_or(short)?, long(at + 8).ok_or(short)?);
        let whole = u64::try_from(seconds).ok().and_then(|s| s.checked_mul(1_000_000_000));
        let part = u64::try_from(ns).ok().filter(|ns| *ns < 1_000_000_000);
        whole
            .zip(part)
            .and_then(|(whole, part)| whole.checked_add(part))
            .ok_or("ClockBound's times make no sense")
    };
    let (as_of_ns, void_after_ns) = (time(16)?, time(32)?);
    let error_ns = u64::try_from(long(48).ok_or(short)?).map_err(|_| "ClockBound's bound is negative")?;
    let status = status.ok_or(short)?.cast_signed();
    if !matches!(status, SYNCHRONISED | FREE_RUNNING) {
        return Err("ClockBound says that the clock cannot be bounded");
    }
    let drift_ppb = drift.ok_or(short)?;
    if void_after_ns < as_of_ns || drift_ppb > MOST_PPB {
        return Err("ClockBound's times make no sense");
    }
    Ok(UtcBound { as_of_ns, void_after_ns, error_ns, least_ns: 0, growth_ppb: drift_ppb.into(), rate: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn segment(version: u16) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(MAGIC.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(80_u32.to_ne_bytes());
        bytes.extend(version.to_ne_bytes());
        bytes.extend(8_u16.to_ne_bytes());
        for long in [100_i64, 5, 1_100, 5, 25_000] {
            bytes.extend(long.to_ne_bytes());
        }
        if version == 2 {
            bytes.extend(77_u64.to_ne_bytes()); // disruption marker
        }
        bytes.extend(50_000_u32.to_ne_bytes());
        if version == 1 {
            bytes.extend(0_u32.to_ne_bytes()); // reserved
        }
        bytes.extend(1_i32.to_ne_bytes());
        bytes.resize(80, 0);
        bytes
    }

    #[test]
    fn both_layouts_say_the_same() {
        for version in [1, 2] {
            let bound = parse(&segment(version)).expect("a bound");
            assert_eq!((bound.as_of_ns, bound.void_after_ns), (100_000_000_005, 1_100_000_000_005));
            assert_eq!((bound.error_ns, bound.growth_ppb), (25_000, 50_000));
            // One second later: 50 µs more.
            assert_eq!(bound.error_at(101_000_000_005), Some(75_000));
        }
    }

    /// Written by `ClockBound` 2.0.3 next to a chronyd that followed another on the same machine.
    #[cfg(target_endian = "little")]
    #[test]
    fn what_its_daemon_wrote_is_read() {
        const WORDS: [u64; 10] = [
            0x4342_0200_414d_5a4e,
            0x00ee_0002_0000_0050,
            0xc670,
            0x3137_cc54,
            0xca58,
            0,
            9_557,
            0,
            0x0000_0001_0000_03e8,
            0,
        ];
        let segment: Vec<u8> = WORDS.iter().flat_map(|word| word.to_le_bytes()).collect();
        let bound = parse(&segment).expect("a bound");
        assert_eq!((bound.as_of_ns, bound.void_after_ns), (50_800_825_740_372, 51_800_000_000_000));
        assert_eq!((bound.error_ns, bound.growth_ppb), (9_557, 1_000));
    }

    #[test]
    fn what_is_no_bound_is_refused() {
        let with = |at: usize, bytes: &[u8]| {
            let mut segment = segment(2);
            segment[at..at + bytes.len()].copy_from_slice(bytes);
            parse(&segment)
        };
        assert!(with(0, &[0]).is_err_and(|e| e.contains("not ClockBound")));
        assert!(with(12, &3_u16.to_ne_bytes()).is_err_and(|e| e.contains("not known")));
        assert!(with(14, &9_u16.to_ne_bytes()).is_err_and(|e| e.contains("being written")));
        assert!(with(48, &(-1_i64).to_ne_bytes()).is_err_and(|e| e.contains("negative")));
        assert!(with(24, &2_000_000_000_i64.to_ne_bytes()).is_err_and(|e| e.contains("no sense")));
        for status in [0_i32, 3, -1, 9] {
            assert!(with(68, &status.to_ne_bytes()).is_err_and(|e| e.contains("cannot be bounded")));
        }
        for length in 0..72 {
            assert!(parse(&segment(2)[..length]).is_err(), "{length}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_a_bound_or_refused(
            noise in prop::collection::vec((0..80_usize, any::<u8>()), 0..12),
            version in 1..3_u16,
            length in 0..90_usize,
            now in any::<u64>(),
        ) {
            let mut bytes = segment(version);
            for (at, byte) in &noise {
                bytes[*at] = *byte;
            }
            bytes.truncate(length);
            if let Ok(bound) = parse(&bytes) {
                prop_assert!(bound.void_after_ns >= bound.as_of_ns);
                let _ = bound.error_at(now);
            }
        }
    }
}

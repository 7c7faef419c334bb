//! Durations: `10s`, `1m30s`, `250ms`, `1.5h`.

use super::{leading_number, nearest, shown};
use std::time::Duration;

const UNITS: [(&str, f64); 8] = [
    ("ns", 1e-9),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
    ("d", 86_400.0),
];
const NAMES: [&str; 7] = ["s", "ms", "us", "ns", "m", "h", "d"];
/// Maximum, a year; more indicates a typing error.
const LONGEST_SECS: f64 = 366.0 * 86_400.0;

/// Minimum interval; a shorter one would be continuous work.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// Invalid duration.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadDuration {
    /// A number without a unit.
    #[error("`{0}` has no unit; for seconds write `{0}s`")]
    NoUnit(String),
    /// Unknown unit.
    #[error("`{unit}` is no unit of time; the nearest is `{nearest}`, as in `{example}`")]
    Unit {
        /// The typed unit.
        unit: String,
        /// The nearest valid unit.
        nearest: &'static str,
        /// The input with the nearest unit.
        example: String,
    },
    /// Syntax error.
    #[error("`{0}` is no duration; write for instance `10s`, `1m30s` or `250ms`")]
    Shape(String),
    /// Above a year.
    #[error("`{0}` is longer than a year; the longest is `8784h`")]
    TooLong(String),
    /// Below the minimum interval.
    #[error("`{0}` is too short for an interval; the shortest is `100ms`")]
    TooShort(String),
    /// Zero.
    #[error("`{0}` is no time at all; write for instance `10s`")]
    Zero(String),
}

/// Parses a duration: the sum of numbers with units.
pub fn parse(text: &str) -> Result<Duration, BadDuration> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(BadDuration::Shape(shown(text)));
    }
    let mut secs = 0.0;
    while !rest.is_empty() {
        let (value, tail) = leading_number(rest).ok_or_else(|| BadDuration::Shape(shown(text)))?;
        let end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let unit = tail[..end].trim();
        if unit.is_empty() {
            return Err(BadDuration::NoUnit(shown(text)));
        }
        let Some((_, factor)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            let nearest = nearest(unit, &NAMES);
            return Err(BadDuration::Unit { unit: shown(unit), nearest, example: format!("{value}{nearest}") });
        };
        secs += value * factor;
        rest = &tail[end..];
    }
    if secs > LONGEST_SECS {
        return Err(BadDuration::TooLong(shown(text)));
    }
    // Rounded, so that `0.1s` is 100,000,000 ns and not 99,999,999.
    Ok(Duration::from_nanos((secs * 1e9).round() as u64))
}

/// Parses the interval of repeated work: at least 100 ms.
pub fn interval(text: &str) -> Result<Duration, BadDuration> {
    let time = parse(text)?;
    if time < SHORTEST_INTERVAL { Err(BadDuration::TooShort(shown(text))) } else { Ok(time) }
}

/// Parses a duration that divides data: not zero.
pub fn positive(text: &str) -> Result<Duration, BadDuration> {
    let time = parse(text)?;
    if time.is_zero() { Err(BadDuration::Zero(shown(text))) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Options with durations that are no intervals: possibly zero, or thresholds.
    const NO_INTERVALS: [&str; 9] = [
        "duration",
        "back",
        "trigger-window",
        "clock-bound",
        "max-clock-error",
        "max-wakeup",
        "max-wakeup-median",
        "max-queue",
        "max-queue-median",
    ];

    #[test]
    fn no_option_takes_an_interval_of_zero() {
        fn look(root: &clap::Command, command: &clap::Command, path: &[String], found: &mut usize) {
            for arg in command.get_arguments() {
                let (Some(long), Some(names)) = (arg.get_long(), arg.get_value_names()) else { continue };
                if !names.iter().any(|name| *name == *"TIME") || NO_INTERVALS.contains(&long) {
                    continue;
                }
                *found += 1;
                let line = path.iter().cloned().chain([format!("--{long}=0s")]);
                let error = root.clone().try_get_matches_from(line).expect_err("zero is refused");
                assert_eq!(error.kind(), clap::error::ErrorKind::ValueValidation, "{path:?} --{long}: {error}");
            }
            for sub in command.get_subcommands() {
                let path: Vec<String> = path.iter().cloned().chain([sub.get_name().to_owned()]).collect();
                look(root, sub, &path, found);
            }
        }
        let (root, mut found) = (<crate::cli::Cli as clap::CommandFactory>::command(), 0);
        look(&root, &root, &[root.get_name().to_owned()], &mut found);
        assert!(found >= 8, "{found} intervals");
    }

    #[test]
    fn an_interval_has_a_lower_bound() {
        for text in ["0s", "1ns", "99ms"] {
            assert_eq!(interval(text), Err(BadDuration::TooShort(text.to_owned())));
        }
        assert_eq!(interval("100ms"), Ok(SHORTEST_INTERVAL));
        assert_eq!(positive("0ms"), Err(BadDuration::Zero("0ms".to_owned())));
        assert!(positive("1ns").is_ok());
    }

    #[test]
    fn reads_what_people_write() {
        for (text, ms) in [
            ("10s", 10_000),
            ("1m30s", 90_000),
            ("250ms", 250),
            ("1.5s", 1_500),
            ("2h", 7_200_000),
            ("7d", 604_800_000),
            ("0s", 0),
            ("1m 5s", 65_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(parse("0.1us"), Ok(Duration::from_nanos(100)));
    }

    #[test]
    fn errors_name_the_nearest_valid_thing() {
        let message = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(message("10"), "`10` has no unit; for seconds write `10s`");
        assert!(message("10sec").contains("the nearest is `s`, as in `10s`"));
        assert!(message("5min").contains("`m`"), "{}", message("5min"));
        assert!(message("soon").contains("`10s`"));
        assert!(message("").contains("no duration"));
        assert!(message("-3s").contains("no duration"));
        assert!(message("1..5s").contains("no duration"));
        assert!(message("99999999h").contains("8784h"));
        assert!(message(&"9".repeat(4000)).len() < 200);
    }
}

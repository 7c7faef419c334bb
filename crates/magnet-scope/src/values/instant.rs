//! Instants in a session: an offset from its start (`1.5s`) or a time of day in UTC (RFC 3339).

use super::duration;
use jiff::Timestamp;
use std::str::FromStr;
use std::time::Duration;

/// A typed instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instant {
    /// After the session's first event.
    Offset(Duration),
    /// Nanoseconds since 1970-01-01 UTC.
    Utc(i64),
}

/// Invalid instant.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no instant; write an offset from the start, as in `1.5s`, or a time in UTC, as in `2026-01-31T12:00:00.5Z`"
)]
pub struct BadInstant(String);

impl FromStr for Instant {
    type Err = BadInstant;

    fn from_str(text: &str) -> Result<Self, BadInstant> {
        if let Ok(offset) = duration::parse(text) {
            return Ok(Instant::Offset(offset));
        }
        let time: Timestamp = text.trim().parse().map_err(|_| BadInstant(super::shown(text)))?;
        let ns = i64::try_from(time.as_nanosecond()).map_err(|_| BadInstant(super::shown(text)))?;
        Ok(Instant::Utc(ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_and_times_of_day() {
        assert_eq!("1.5s".parse(), Ok(Instant::Offset(Duration::from_millis(1500))));
        assert_eq!("1970-01-01T00:00:01Z".parse(), Ok(Instant::Utc(1_000_000_000)));
        let error = "yesterday".parse::<Instant>().unwrap_err().to_string();
        assert!(error.contains("`1.5s`"), "{error}");
    }
}

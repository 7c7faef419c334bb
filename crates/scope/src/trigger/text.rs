//! The trigger condition as text.
//!
//! ```text
//! hop(dev.recv,app.recv) > 2ms      level; also <
//! srtt rises 5ms                    edge; also falls
//! cwnd slope -100                   change per second
//! request > 50ms                    a request's time until its response was read
//! request(answer > 20ms)            an exchange, as a `requests --where` expression
//! drop · retransmit · loss          an event
//! hit refill                        a hit of a custom probe
//! clock(web,db) step > 1ms          a step of one of two hosts' clocks
//! verdict = lost and port = 443     a journey, as a --where expression
//! ```

use super::{Condition, Edge};
use crate::channel::{Channel, Unit};
use magscope_core::exchange::ExchangeFilter;
use magscope_core::{Filter, Hop};
use std::fmt;

/// The reason why a text is no condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TriggerError {
    /// The text is no valid filter expression either.
    #[error("{0}")]
    Filter(#[from] magscope_core::filter::FilterError),
    /// A number with a unit is required there.
    #[error("`{found}` is no {what}; write it as in `{example}`")]
    Value {
        /// Kind of value.
        what: &'static str,
        /// The text found.
        found: String,
        /// A valid example.
        example: &'static str,
    },
}

impl Condition {
    /// Parses a condition; `None` for an empty text.
    pub fn parse(text: &str) -> Result<Option<Self>, TriggerError> {
        let text = text.trim();
        let condition = match text {
            "" | "off" | "none" => return Ok(None),
            "drop" => Self::Drop,
            "retransmit" => Self::Retransmit,
            "missed" => Self::EventLoss,
            _ => {
                if let Some(filter) = request(text)? {
                    Self::Request(filter)
                } else if let Some(probe) = hit(text) {
                    Self::Hit(probe.to_owned())
                } else if let Some(condition) = measured(text)? {
                    condition
                } else {
                    Self::Journey(Filter::parse(text)?)
                }
            }
        };
        Ok(Some(condition))
    }
}

/// The filter after `request`: in parentheses, or one that begins with this word.
fn request(text: &str) -> Result<Option<ExchangeFilter>, TriggerError> {
    let Some(rest) = text.strip_prefix("request").map(str::trim_start) else { return Ok(None) };
    let filter = if let Some(inner) = rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        ExchangeFilter::parse(inner)?
    } else if rest.starts_with(['<', '>', '=', '!']) {
        ExchangeFilter::parse(text)?
    } else {
        return Ok(None);
    };
    Ok(Some(filter))
}

/// The name of a custom probe after `hit`.
fn hit(text: &str) -> Option<&str> {
    let (word, name) = text.split_once(char::is_whitespace)?;
    let name = name.trim();
    (word == "hit" && !name.is_empty() && !name.contains(char::is_whitespace)).then_some(name)
}

/// A latency or a signal with an edge; `None` for other text.
fn measured(text: &str) -> Result<Option<Condition>, TriggerError> {
    let place = |word: &str| text.find(word).map(|at| (at, word.len()));
    let words = [" rises ", " falls ", " slope ", ">", "<"];
    let Some((at, len)) = words.iter().find_map(|word| place(word)) else { return Ok(None) };
    let (left, word, right) = (text[..at].trim(), text[at..at + len].trim(), text[at + len..].trim());
    // `>=` and all text joined by `and` is a filter's.
    if right.starts_with('=') || right.contains(" and ") || right.contains(" or ") {
        return Ok(None);
    }
    if let Ok(channel) = left.parse::<Channel>() {
        let edge = Edge::of(word, number(right, channel.unit())?);
        return Ok(edge.map(|edge| Condition::Signal { channel, edge }));
    }
    let step = left.strip_suffix("step").map(str::trim_end).filter(|_| word == ">");
    let clocks = step.and_then(|step| step.strip_prefix("clock(")?.strip_suffix(')')?.split_once(','));
    if let Some((a, b)) = clocks {
        let above_ns = number(right, Unit::Time)?.max(0.0) as u64;
        let hosts = (a.trim().to_owned(), b.trim().to_owned());
        return Ok(Some(Condition::ClockStep { hosts, above_ns }));
    }
    let pair = left.strip_prefix("hop(").and_then(|rest| rest.strip_suffix(')'));
    let Some((from, to)) = pair.and_then(|pair| pair.split_once(',')) else { return Ok(None) };
    let (Ok(from), Ok(to)) = (from.trim().parse::<Hop>(), to.trim().parse::<Hop>()) else { return Ok(None) };
    let edge = Edge::of(word, number(right, Unit::Time)?);
    Ok(edge.map(|edge| Condition::Latency { from, to, edge }))
}

const UNITS: [(&str, f64, &[Unit]); 11] = [
    ("ns", 1.0, &[Unit::Time]),
    ("us", 1e3, &[Unit::Time]),
    ("µs", 1e3, &[Unit::Time]),
    ("ms", 1e6, &[Unit::Time]),
    ("s", 1e9, &[Unit::Time]),
    ("kB", 1e3, &[Unit::Bytes, Unit::BytesPerS]),
    ("MB", 1e6, &[Unit::Bytes, Unit::BytesPerS]),
    ("GB", 1e9, &[Unit::Bytes, Unit::BytesPerS]),
    ("%", 0.01, &[Unit::Ratio]),
    ("k", 1e3, &[Unit::Count, Unit::PerS, Unit::Bytes, Unit::BytesPerS]),
    ("M", 1e6, &[Unit::Count, Unit::PerS, Unit::Bytes, Unit::BytesPerS]),
];

/// A number in a unit of its kind.
pub(crate) fn number(text: &str, unit: Unit) -> Result<f64, TriggerError> {
    let (what, example) = match unit {
        Unit::Time => ("time", "2.5ms"),
        Unit::Bytes | Unit::BytesPerS => ("size", "64kB"),
        Unit::PerS | Unit::Count => ("number", "100"),
        Unit::Ratio => ("part", "5%"),
    };
    let bad = || TriggerError::Value { what, found: text.chars().take(32).collect(), example };
    let end = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '-' | '+')).unwrap_or(text.len());
    let (digits, suffix) = (text[..end].trim(), text[end..].trim().trim_end_matches("/s"));
    let value = digits.parse::<f64>().ok().filter(|value| value.is_finite()).ok_or_else(bad)?;
    if suffix.is_empty() {
        return if unit == Unit::Time && value != 0.0 { Err(bad()) } else { Ok(value) };
    }
    let factor = UNITS.iter().find(|(name, _, units)| *name == suffix && units.contains(&unit));
    factor.map(|(_, factor, _)| value * factor).ok_or_else(bad)
}

/// A value in a unit of this size, to a thousandth.
fn in_unit(value: f64, name: &str, factor: f64) -> String {
    format!("{}{name}", (value / factor * 1e3).round() / 1e3)
}

/// A value in the largest unit that keeps it short; parsing it gives the same value.
pub(crate) fn written(value: f64, unit: Unit) -> String {
    // A part is written in per cent, however small.
    let fits = |(name, factor, units): &&(&str, f64, &[Unit])| {
        units.contains(&unit)
            && (unit == Unit::Ratio || value.abs() >= *factor)
            && number(&in_unit(value, name, *factor), unit) == Ok(value)
    };
    let best = UNITS.iter().filter(fits).max_by(|a, b| a.1.total_cmp(&b.1));
    match best {
        Some((name, factor, _)) => in_unit(value, name, *factor),
        None if unit == Unit::Time => format!("{value}ns"),
        None => format!("{value}"),
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latency { from, to, edge } => {
                let (word, value) = edge.parts();
                write!(f, "hop({from},{to}) {word} {}", written(value, Unit::Time))
            }
            Self::Signal { channel, edge } => {
                let (word, value) = edge.parts();
                write!(f, "{channel} {word} {}", written(value, channel.unit()))
            }
            Self::Journey(filter) => filter.fmt(f),
            Self::Request(filter) => {
                let text = filter.to_string();
                if text.starts_with("request ") { f.write_str(&text) } else { write!(f, "request({text})") }
            }
            Self::Drop => f.write_str("drop"),
            Self::Retransmit => f.write_str("retransmit"),
            Self::EventLoss => f.write_str("missed"),
            Self::Hit(probe) => write!(f, "hit {probe}"),
            Self::ClockStep { hosts: (a, b), above_ns } => {
                write!(f, "clock({a},{b}) step > {}", written(*above_ns as f64, Unit::Time))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_are_conditions_and_back() {
        let latency = |edge| Condition::Latency { from: Hop::DevRecv, to: Hop::AppRecv, edge };
        let signal = |channel, edge| Condition::Signal { channel, edge };
        let request = |text| Condition::Request(ExchangeFilter::parse(text).expect("a filter"));
        let table = [
            ("hop(dev.recv,app.recv) > 2ms", latency(Edge::Above(2e6))),
            ("hop(dev.recv, app.recv) rises 1.5 ms", latency(Edge::Rises(1.5e6))),
            ("srtt falls 300us", signal(Channel::Srtt, Edge::Falls(3e5))),
            ("cwnd<10", signal(Channel::Cwnd, Edge::Below(10.0))),
            ("cwnd slope -100", signal(Channel::Cwnd, Edge::Slope(-100.0))),
            (
                "rate.device > 10MB/s",
                signal(Channel::Throughput(magscope_core::Layer::Device), Edge::Above(1e7)),
            ),
            ("own_cpu > 5%", signal(Channel::OwnCpu, Edge::Above(0.05))),
            ("request > 50ms", request("request > 50ms")),
            ("request(answer > 20ms and port = 443)", request("answer > 20ms and port = 443")),
            ("request (not (total > 5ms or broken))", request("not (request > 5ms or broken)")),
            ("drop", Condition::Drop),
            (" retransmit ", Condition::Retransmit),
            ("missed", Condition::EventLoss),
            (" hit  refill@db-02", Condition::Hit("refill@db-02".to_owned())),
            (
                "clock(web-1, db) step > 1ms",
                Condition::ClockStep { hosts: ("web-1".to_owned(), "db".to_owned()), above_ns: 1_000_000 },
            ),
        ];
        for (text, expected) in table {
            let read = Condition::parse(text).unwrap().unwrap();
            assert_eq!(read, expected, "{text}");
            assert_eq!(Condition::parse(&read.to_string()).unwrap().unwrap(), expected, "{read}");
        }
        for text in ["own_cpu > 1.9%", "cpu falls 0.5%", "ring_fill > 33.333%", "srtt > 1.5ms"] {
            let read = Condition::parse(text).unwrap().unwrap();
            assert_eq!(read.to_string(), text, "a part is in per cent");
        }
        assert_eq!(Condition::parse("  "), Ok(None));
        for filter in
            ["verdict = lost", "total > 5ms and port = 443", "hop(dev.recv,app.recv) >= 2ms", "total > 5ms"]
        {
            let read = Condition::parse(filter).unwrap().unwrap();
            assert!(matches!(read, Condition::Journey(_)), "{filter}: {read:?}");
            assert_eq!(Condition::parse(&read.to_string()), Ok(Some(read)));
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, message) in [
            ("srtt > 5", "no time"),
            ("cwnd > 5ms", "no number"),
            ("verdikt = lost", "verdict"),
            ("request(answr > 5ms)", "answer"),
            ("request > 5", "unit"),
        ] {
            let error = Condition::parse(text).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(text in "[a-z.(),<> =0-9mµ%-]{0,40}") {
            let _ = Condition::parse(&text);
        }

        #[test]
        fn values_read_back(value in -1e12..1e12_f64, unit in 0..6_usize) {
            let unit = [Unit::Time, Unit::Bytes, Unit::BytesPerS, Unit::PerS, Unit::Count, Unit::Ratio][unit];
            let value = value.round();
            prop_assert_eq!(number(&written(value, unit), unit), Ok(value));
        }
    }
}

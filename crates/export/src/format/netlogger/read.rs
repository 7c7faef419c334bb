//! Parser of log lines of this program and of other tools.
//!
//! The parser is lenient: a bare value extends to the next space, whatever its content, because some tools
//! wrote such lines. Errors name their position in the line.

use crate::calendar;
use std::borrow::Cow;

/// Maximum length of a line, bytes.
pub const MAX_LINE: usize = 64 << 10;
/// Maximum number of fields in a line.
const MAX_FIELDS: usize = 256;

/// A parsed line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'l> {
    /// Time, nanoseconds since 1970 UTC.
    pub ns: i64,
    /// Event name: `NL.EVNT`, or `event`.
    pub event: Cow<'l, str>,
    fields: Vec<(&'l str, Cow<'l, str>)>,
}

/// Reason for a rejected line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLine {
    /// The field is not `name=value`.
    #[error("at character {0}: a field is written name=value, with quotes around a value that has spaces")]
    Field(usize),
    /// A quote is not closed, or is followed by text.
    #[error(
        "at character {0}: a value in quotes ends with a quote, and a space or the end of the line comes after it"
    )]
    Quote(usize),
    /// The time is missing or invalid.
    #[error("it has no DATE=YYYYMMDDhhmmss.ffffff and no ts=")]
    Time,
    /// The event is missing.
    #[error("it has no NL.EVNT= and no event=")]
    Event,
    /// The line is too long, or has too many fields.
    #[error("it is longer than {MAX_LINE} bytes or has more than {MAX_FIELDS} fields")]
    Long,
}

impl Line<'_> {
    /// The value of the first of these fields that is present; names are case-insensitive.
    pub fn get(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| {
            let field = self.fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            field.map(|(_, value)| value.as_ref())
        })
    }

    /// The value of one of these fields as a number.
    pub fn number<N: std::str::FromStr>(&self, names: &[&str]) -> Option<N> {
        self.get(names)?.parse().ok()
    }

    /// All fields.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|(name, value)| (*name, value.as_ref()))
    }
}

/// Reads a line of ULM or BP.
pub fn parse(line: &str) -> Result<Line<'_>, BadLine> {
    if line.len() > MAX_LINE {
        return Err(BadLine::Long);
    }
    let mut fields = Vec::new();
    let mut rest = line.trim();
    let at = |rest: &str| line.trim_end().len() - rest.len() + 1;
    while !rest.is_empty() {
        if fields.len() == MAX_FIELDS {
            return Err(BadLine::Long);
        }
        let (name, value) = rest.split_once('=').ok_or_else(|| BadLine::Field(at(rest)))?;
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c == '"') {
            return Err(BadLine::Field(at(rest)));
        }
        let (value, after) = if let Some(quoted) = value.strip_prefix('"') {
            unquoted(quoted).ok_or_else(|| BadLine::Quote(at(value)))?
        } else {
            let end = value.find(char::is_whitespace).unwrap_or(value.len());
            let (value, after) = value.split_at(end);
            (Cow::Borrowed(value), after)
        };
        if !after.is_empty() && !after.starts_with(char::is_whitespace) {
            return Err(BadLine::Quote(at(after)));
        }
        fields.push((name, value));
        rest = after.trim_start();
    }
    let mut line = Line { ns: 0, event: Cow::Borrowed(""), fields };
    let exact = line.number::<i64>(&["MAG.NS"]);
    let date = || line.get(&["DATE"]).and_then(ulm_time).or_else(|| line.get(&["ts"]).and_then(bp_time));
    line.ns = exact.or_else(date).ok_or(BadLine::Time)?;
    let event = line.get(&["NL.EVNT", "event", "EVNT"]).ok_or(BadLine::Event)?.to_owned();
    line.event = Cow::Owned(event);
    Ok(line)
}

/// The quoted text, and the rest.
fn unquoted(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let mut owned: Option<String> = None;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                let value = owned.map_or_else(|| Cow::Borrowed(&text[..at]), Cow::Owned);
                return Some((value, &text[at + 1..]));
            }
            '\\' => {
                let so_far = owned.get_or_insert_with(|| text[..at].to_owned());
                so_far.push(chars.next()?.1);
            }
            c => {
                if let Some(owned) = &mut owned {
                    owned.push(c);
                }
            }
        }
    }
    None
}

/// `YYYYMMDDhhmmss.ffffff`. Fewer than six digits are microseconds, as in `NetLogger` (`atol`); more are a
/// fraction.
fn ulm_time(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if whole.len() != 14 || !whole.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let part = |from: usize, to: usize| whole.get(from..to)?.parse::<u8>().ok();
    let year = whole.get(..4)?.parse().ok()?;
    let seconds = seconds(year, part(4, 6)?, part(6, 8)?, [part(8, 10)?, part(10, 12)?, part(12, 14)?])?;
    let ns = if fraction.len() <= 6 { number(fraction)? * 1_000 } else { fraction_ns(fraction)? };
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// `YYYY-MM-DDThh:mm:ss.ffffffZ`, or seconds since 1970.
fn bp_time(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let ns = fraction_ns(fraction)?;
    let seconds = match whole.split_once('T') {
        Some((date, time)) => {
            let mut date = date.splitn(3, '-').map(number);
            let mut time = time.splitn(3, ':').map(number);
            let mut next = || u8::try_from(time.next()??).ok();
            let clock = [next()?, next()?, next()?];
            let year = date.next()??;
            let mut next = || u8::try_from(date.next()??).ok();
            seconds(year, next()?, next()?, clock)?
        }
        None => number(whole)?,
    };
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

fn seconds(year: i64, month: u8, day: u8, [h, m, s]: [u8; 3]) -> Option<i64> {
    // A leap second becomes the next second.
    if h > 23 || m > 59 || s > 60 {
        return None;
    }
    let day = calendar::day(year, month, day)?;
    Some(day * 86_400 + i64::from(h) * 3_600 + i64::from(m) * 60 + i64::from(s))
}

/// Digits only.
fn number(text: &str) -> Option<i64> {
    if text.is_empty() || text.len() > 18 || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// The fractional digits, truncated to nanoseconds.
fn fraction_ns(digits: &str) -> Option<i64> {
    let digits = digits.get(..digits.len().min(9))?;
    let scale = 10_i64.pow(9 - digits.len() as u32);
    Some(number(digits)? * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_time_are_read() {
        let line = parse(
            "DATE=20020329210355.443568 HOST=10.1.1.10 PROG=nliperf NL.EVNT=SlowStart ID=2746 DST=10.1.1.11 VAL=2 DELTA=3",
        )
        .expect("a line of 2002");
        assert_eq!(line.ns, 1_017_435_835_443_568_000);
        assert_eq!((line.event.as_ref(), line.get(&["id"])), ("SlowStart", Some("2746")));
        let line = parse(
            "DATE=20070215110703.2102 HOST=pdsfgrid1.nersc.gov PROG=globus-gridftp-server NL.EVNT=FTP_INFO START=20070215110702.763298 USER=rosheck NBYTES=55 TYPE=RETR CODE=226",
        );
        assert_eq!(line.expect("a line of 2007").ns % 1_000_000_000, 2_102_000);
        let line =
            parse("ts=2026-01-02T03:04:05.123456Z event=tcp.send level=Info guid=42 msg=\"a \\\"b\\\" \\\\\"")
                .expect("BP");
        assert_eq!(line.ns, 1_767_323_045_123_456_000);
        assert_eq!(line.get(&["msg"]), Some("a \"b\" \\"));
        assert_eq!(parse("ts=1767323045.5 event=x").expect("seconds").ns, 1_767_323_045_500_000_000);
    }

    #[test]
    fn what_is_no_line_says_where() {
        assert_eq!(parse("DATE=20020329210355.443568 NL.EVNT=\"x"), Err(BadLine::Quote(36)));
        assert_eq!(parse("hello"), Err(BadLine::Field(1)));
        assert_eq!(parse("DATE=20021329210355.0 NL.EVNT=x"), Err(BadLine::Time));
        assert_eq!(parse("DATE=20020329210355.0"), Err(BadLine::Event));
        assert_eq!(parse("x=\"a\"b"), Err(BadLine::Quote(6)));
        assert_eq!(parse(&"a=b ".repeat(300)), Err(BadLine::Long));
    }
}

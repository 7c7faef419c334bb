//! Numbers with units: times and sizes, parsed exactly and written in the largest lossless unit.

use std::fmt;

/// Units of time, nanoseconds each.
pub const TIMES: [(&str, u64); 5] =
    [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("µs", 1_000), ("ns", 1)];
/// Splits `1.5ms` into its number and its unit; `None` if it does not begin with a digit.
pub fn split(word: &str) -> Option<(&str, &str)> {
    let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    let (number, unit) = word.split_at(end);
    let parts = number.split('.').count();
    let whole = number.starts_with(|c: char| c.is_ascii_digit()) && !number.ends_with('.');
    (parts <= 2 && whole).then_some((number, unit))
}

/// A decimal number times a factor, rounded down to an integer; `None` if it exceeds 64 bits.
///
/// Integer arithmetic throughout: the text of [`write_time`] is parsed back exactly, to the nanosecond.
pub fn scaled(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = whole.parse::<u64>().ok()?.checked_mul(factor)?;
    // Digits after the twelfth are below a nanosecond of any unit here.
    let digits = fraction.get(..fraction.len().min(12)).unwrap_or_default();
    let part = if digits.is_empty() { 0 } else { digits.parse::<u128>().ok()? };
    let part = part * u128::from(factor) / 10_u128.pow(digits.len() as u32);
    whole.checked_add(u64::try_from(part).ok()?)
}

/// Writes nanoseconds.
pub fn write_time(f: &mut fmt::Formatter<'_>, ns: u64) -> fmt::Result {
    write_in(f, ns, &TIMES)
}

/// Writes bytes.
pub fn write_size(f: &mut fmt::Formatter<'_>, bytes: u64) -> fmt::Result {
    if bytes == 0 {
        return f.write_str("0"); // a multiple of every unit
    }
    write_in(f, bytes, &[("G", 1_000_000_000), ("M", 1_000_000), ("k", 1_000), ("", 1)])
}

fn write_in(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    match units.iter().find(|(_, factor)| value.is_multiple_of(*factor)) {
        Some((unit, factor)) => write!(f, "{}{unit}", value / factor),
        None => write!(f, "{value}"),
    }
}

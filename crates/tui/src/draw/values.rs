//! Fixed-width text of signal values with units.

use magscope_scope::Unit;
use magscope_scope::format;

/// Maximum width of [`value`], columns.
pub const WIDTH: u16 = 9;

/// A value of a signal.
pub fn value(unit: Unit, value: f64) -> String {
    let whole = |value: f64| if value.is_finite() { value.max(0.0) as u64 } else { 0 };
    let sign = if value < 0.0 { "-" } else { "" };
    let size = value.abs();
    let text = match unit {
        Unit::Time => format::duration(whole(size)),
        Unit::Bytes => format::bytes(whole(size)),
        Unit::BytesPerS => format::bit_rate(size),
        Unit::PerS => format::rate(size),
        Unit::Count => format::amount(whole(size.round())),
        Unit::Ratio => format::percent(size),
    };
    if sign.is_empty() { text } else { format!("{sign}{}", text.trim_start()) }
}

/// As [`value`], without padding.
pub fn short(unit: Unit, of: f64) -> String {
    value(unit, of).trim().to_owned()
}

//! Fixed-width text of signal values with units.

use magscope_scope::Unit;
use magscope_scope::format;

/// Maximum width of [`value`], columns.
pub const WIDTH: u16 = 9;

/// A value of a signal.
pub fn value(unit: Unit, value: f64) -> String {
    format::signal(unit, value).replacen('−', "-", 1)
}

/// As [`value`], without padding.
pub fn short(unit: Unit, of: f64) -> String {
    value(unit, of).trim().to_owned()
}

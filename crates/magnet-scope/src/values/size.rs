//! Sizes in bytes: `512M`, `2G`, `64MiB`. Decimal by default, binary with an `i`; the units are those of
//! filters.

use super::{leading_number, nearest, shown};
use magscope_core::size::UNITS;

const NAMES: [&str; 4] = ["M", "k", "G", "T"];
/// Valid range, bytes.
const RANGE: std::ops::RangeInclusive<f64> = 1e6..=(1_u64 << 50) as f64;

/// Invalid size.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSize {
    /// Unknown unit.
    #[error("`{unit}` is no unit of size; the nearest is `{nearest}`, as in `{example}`")]
    Unit {
        /// The typed unit.
        unit: String,
        /// The nearest valid unit.
        nearest: &'static str,
        /// The input with the nearest unit.
        example: String,
    },
    /// Syntax error.
    #[error("`{0}` is no size; write for instance `512M` or `2G`")]
    Shape(String),
    /// Outside of the valid range.
    #[error("`{0}` is out of range; from `1M` to `1024TiB`")]
    Range(String),
    /// Outside of the range of the ring of one CPU, whose largest size is the kernel's limit.
    #[error("`{0}` is no size of the ring of a CPU; from `1M` to `2GiB`")]
    Ring(String),
}

/// Reads a size in bytes.
pub fn parse(text: &str) -> Result<u64, BadSize> {
    let (value, unit) = leading_number(text.trim()).ok_or_else(|| BadSize::Shape(shown(text)))?;
    let typed = unit.trim();
    let found = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(typed)).map(|(_, factor)| *factor);
    let Some(factor) = found.or_else(|| typed.is_empty().then_some(1)) else {
        let nearest = nearest(typed, &NAMES);
        return Err(BadSize::Unit { unit: shown(typed), nearest, example: format!("{value}{nearest}") });
    };
    let bytes = value * factor as f64;
    if !RANGE.contains(&bytes) {
        return Err(BadSize::Range(shown(text)));
    }
    Ok(bytes as u64)
}

/// Reads the size of a CPU's ring, bytes.
pub fn ring(text: &str) -> Result<u64, BadSize> {
    const LARGEST: u64 = 1 << 31;
    match parse(text) {
        Ok(bytes) if bytes <= LARGEST => Ok(bytes),
        Ok(_) | Err(BadSize::Range(_)) => Err(BadSize::Ring(shown(text))),
        Err(other) => Err(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_has_a_range_of_its_own() {
        assert_eq!(ring("2GiB"), Ok(1 << 31));
        assert_eq!(ring("1M"), Ok(1_000_000));
        for text in ["100GiB", "1", "0", "99999T"] {
            let error = ring(text).expect_err(text);
            assert_eq!(error, BadSize::Ring(text.to_owned()));
            assert!(error.to_string().ends_with("from `1M` to `2GiB`"), "{error}");
        }
        assert!(matches!(ring("5gigs"), Err(BadSize::Unit { .. })));
    }

    #[test]
    fn reads_what_people_write() {
        for (text, bytes) in [
            ("512M", 512_000_000),
            ("512MiB", 512 << 20),
            ("2G", 2_000_000_000),
            ("2048KiB", 2 << 20),
            ("1.5gb", 1_500_000_000),
            ("1.5 Gi", 3 << 29),
            ("1048576", 1 << 20),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn errors_name_the_nearest_valid_thing() {
        let message = |text: &str| parse(text).unwrap_err().to_string();
        assert!(message("5gigs").contains("the nearest is `G`, as in `5G`"), "{}", message("5gigs"));
        assert!(message("big").contains("`512M`"));
        assert!(message("10").contains("`1M`"));
        assert!(message("99999T").contains("1024T"));
    }
}

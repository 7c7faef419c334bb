//! Overhead budgets: `2%`, `0.5%`, or `off` for no limit.

use super::{leading_number, shown};

/// Valid range, per cent.
const RANGE: std::ops::RangeInclusive<f64> = 0.1..=50.0;

/// A budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// No budget.
    Off,
    /// Share of all CPUs, and of the busiest one: 0.02 for 2 %.
    Part(f64),
}

/// Invalid budget.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBudget {
    /// Syntax error.
    #[error("`{0}` is no budget; write for instance `2%`, or `off`")]
    Shape(String),
    /// Outside of the valid range.
    #[error("`{0}` is out of range; from `0.1%` to `50%`")]
    Range(String),
}

/// Parses a budget.
pub fn parse(text: &str) -> Result<Budget, BadBudget> {
    let typed = text.trim();
    if typed == "off" {
        return Ok(Budget::Off);
    }
    match leading_number(typed) {
        Some((percent, unit)) if unit.trim() == "%" => {
            let budget = RANGE.contains(&percent).then_some(Budget::Part(percent / 100.0));
            budget.ok_or_else(|| BadBudget::Range(shown(typed)))
        }
        _ => Err(BadBudget::Shape(shown(typed))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_or_off() {
        assert_eq!(parse("2%"), Ok(Budget::Part(0.02)));
        assert_eq!(parse(" 0.5 % "), Ok(Budget::Part(0.005)));
        assert_eq!(parse("off"), Ok(Budget::Off));
        for shape in ["2", "", "%", "two%", "2%%", "1.2.3%"] {
            assert!(matches!(parse(shape), Err(BadBudget::Shape(_))), "{shape}");
        }
        for range in ["0%", "0.01%", "51%", "99999999999999999999%"] {
            assert!(matches!(parse(range), Err(BadBudget::Range(_))), "{range}");
        }
    }
}

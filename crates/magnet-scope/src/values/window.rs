//! Averaging windows: a number of receives (`1000`) or a time (`2s`).

use super::{duration, shown};
use magscope_report::stats::running::Window;
use std::time::Duration;

/// Maximum number of receives in a window: each flow stores them all.
const MOST_RECEIVES: u32 = 100_000;
/// Minimum time window.
const SHORTEST: Duration = Duration::from_micros(1);

/// Invalid window.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadWindow {
    /// Neither a number nor a time.
    #[error("`{0}` is no window; write a number of receives, as in `1000`, or a time, as in `2s`")]
    Shape(String),
    /// Too few, too many, or too short.
    #[error("`{0}` is out of range; from `1` to `{MOST_RECEIVES}` receives, or from `1us`")]
    Range(String),
}

/// Parses a window.
pub fn parse(text: &str) -> Result<Window, BadWindow> {
    let typed = text.trim();
    if !typed.is_empty() && typed.chars().all(|c| c.is_ascii_digit()) {
        let receives = typed.parse().ok().filter(|n| (1..=MOST_RECEIVES).contains(n));
        return receives.map(Window::Receives).ok_or_else(|| BadWindow::Range(shown(text)));
    }
    let time = duration::parse(typed).map_err(|_| BadWindow::Shape(shown(text)))?;
    if time < SHORTEST {
        return Err(BadWindow::Range(shown(text)));
    }
    // At most a year, so the cast is lossless.
    Ok(Window::Time(time.as_nanos() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_receives_and_a_unit_makes_it_a_time() {
        assert_eq!(parse("1000"), Ok(Window::Receives(1000)));
        assert_eq!(parse("2s"), Ok(Window::Time(2_000_000_000)));
        assert_eq!(parse("1.5ms"), Ok(Window::Time(1_500_000)));
        for text in ["0", "100001", "99999999999999999999", "1ns"] {
            assert_eq!(parse(text), Err(BadWindow::Range(text.to_owned())));
        }
        for text in ["", "many", "-1", "1000 receives"] {
            assert_eq!(parse(text), Err(BadWindow::Shape(text.to_owned())));
        }
    }
}

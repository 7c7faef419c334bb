//! Characters for shades and bars.

use crate::theme::{DENSITY, Theme};
use ratatui::style::Style;

/// Heights in eighths of a row.
const SPARKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A bar of `eighths` eighths of a row, 0 to 8.
pub fn spark(eighths: usize) -> char {
    SPARKS[eighths.min(8)]
}

/// A bar for a fraction, at least one eighth if not zero.
pub fn spark_of(part: f64) -> char {
    if part.is_nan() || part <= 0.0 { spark(0) } else { spark(((part * 8.0).round() as usize).max(1)) }
}

/// The step of a count on a logarithmic scale up to `most`; `None` for zero.
pub fn step(count: f64, most: f64) -> Option<usize> {
    if count.is_nan() || count <= 0.0 {
        return None;
    }
    let part = (1.0 + count).ln() / (1.0 + most.max(count)).ln();
    Some(((part * DENSITY as f64).ceil() as usize).clamp(1, DENSITY) - 1)
}

/// A step as shade and colour: the shade alone is sufficient without colours.
pub fn shade(theme: &Theme, step: usize) -> (char, Style) {
    let step = step.min(DENSITY - 1);
    let glyph = ['░', '▒', '▓', '█'][step * 4 / DENSITY];
    (glyph, theme.density[step])
}

/// A horizontal bar of `width` columns for a part of the whole, in eighths of a column.
pub fn bar(part: f64, width: u16) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let part = if part.is_nan() { 0.0 } else { part.clamp(0.0, 1.0) };
    let eighths = (part * f64::from(width) * 8.0).round() as usize;
    let mut bar = "█".repeat(eighths / 8);
    bar.push_str(EIGHTHS[eighths % 8]);
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_steps_from_one_to_the_most() {
        assert_eq!(step(0.0, 10.0), None);
        assert_eq!(step(10.0, 10.0), Some(DENSITY - 1));
        assert_eq!(step(1.0, 1.0), Some(DENSITY - 1));
        assert_eq!(step(f64::NAN, 1.0), None);
        assert_eq!(step(99.0, 1.0), Some(DENSITY - 1), "more than the most is the most");
        let steps: Vec<_> = (1..=1000).filter_map(|n| step(f64::from(n), 1000.0)).collect();
        assert!(steps.is_sorted() && steps[0] <= 2);
    }

    #[test]
    fn bars_are_as_long_as_their_part() {
        assert_eq!((bar(0.0, 8).as_str(), bar(1.0, 3).as_str(), bar(0.5, 3).as_str()), ("", "███", "█▌"));
        assert_eq!(bar(7.0, 2), "██");
        assert_eq!((spark_of(0.0), spark_of(0.01), spark_of(1.0), spark_of(f64::NAN)), (' ', '▁', '█', ' '));
    }
}

//! Figures as text: one unit each, fixed width.

use std::fmt::{self, Write};

/// A time with three digits and a unit, eight columns wide: `41.2 µs`.
pub(super) fn time(ns: u64) -> String {
    let ns_f = ns as f64;
    match ns {
        0..1_000 => format!("{ns:>5} ns"),
        1_000..1_000_000 => figure(ns_f / 1e3, "µs"),
        1_000_000..1_000_000_000 => figure(ns_f / 1e6, "ms"),
        _ => figure(ns_f / 1e9, "s "),
    }
}

/// Three significant digits and a unit.
fn figure(value: f64, unit: &str) -> String {
    let digits = if value >= 99.95 { 0 } else { usize::from(value < 9.995) + 1 };
    format!("{value:>5.digits$} {unit}")
}

/// A byte count in decimal units, eight columns wide.
pub(super) fn bytes(n: u64) -> String {
    let value = n as f64;
    match n {
        0..1_000 => format!("{n:>5} B "),
        1_000..1_000_000 => figure(value / 1e3, "kB"),
        1_000_000..1_000_000_000 => figure(value / 1e6, "MB"),
        1_000_000_000..1_000_000_000_000 => figure(value / 1e9, "GB"),
        _ => figure(value / 1e12, "TB"),
    }
}

/// Bytes per second, ten columns wide; `≈` marks an estimate.
pub(super) fn rate(bytes_per_s: f64, estimated: bool) -> String {
    let text = bytes(bytes_per_s.round().max(0.0) as u64);
    format!("{:>10}", format!("{}{}/s", about(estimated), text.trim()))
}

/// The prefix of an estimate.
pub(super) fn about(estimated: bool) -> &'static str {
    if estimated { "≈" } else { "" }
}

/// A count with narrow group separators: `1 234 567`.
pub(super) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// Reasons in a text.
pub(super) const SHOWN: usize = 5;

/// Percent of a ratio for display. What is not all is at most 99.9, with a decimal where it would round to 100: the second
/// value.
pub fn percent_of(ratio: f64) -> (f64, bool) {
    let percent = ratio * 100.0;
    if (99.5..100.0).contains(&percent) { (percent.min(99.9), true) } else { (percent, false) }
}

/// The first few reasons, each with its count, and the count of the others: `3 no_socket, 1 tcp_state and 2 for other reasons`.
pub(super) fn listed<'r>(mut rows: impl Iterator<Item = (u64, &'r str)>) -> String {
    let shown = rows.by_ref().take(SHOWN).map(|(n, reason)| format!("{} {reason}", count(n)));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match rows.fold(0, |all: u64, (n, _)| all.saturating_add(n)) {
        0 => shown,
        others => format!("{shown} and {} for other reasons", count(others)),
    }
}

/// A count in this number of columns; in millions and more if it does not fit.
pub(super) fn count_in(n: u64, columns: usize) -> String {
    let text = count(n);
    if text.len() <= columns {
        return format!("{text:>columns$}");
    }
    let short = match n {
        0..1_000_000_000 => figure(n as f64 / 1e6, "M"),
        1_000_000_000..1_000_000_000_000 => figure(n as f64 / 1e9, "G"),
        _ => figure(n as f64 / 1e12, "T"),
    };
    format!("{:>columns$}", short.trim_start())
}

pub(super) fn plural(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// Truncates a text to `width` columns; every character here has one column.
pub(super) fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// Bars between zero and `highest`, one character each. Values above zero are never drawn as zero.
pub(super) fn heights(values: &[f64], highest: f64) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let level = |value: &f64| {
        if *value <= 0.0 || highest <= 0.0 {
            return ' ';
        }
        let at = (value / highest * LEVELS.len() as f64).ceil() as usize;
        LEVELS[at.clamp(1, LEVELS.len()) - 1]
    };
    values.iter().map(level).collect()
}

/// What a table of groups cannot say of those beyond a bound of remembered ones, in words; nothing without a bound.
/// `shown` rows are in the table, and those with the most `weight` are remembered.
pub(super) fn beyond_bound(bound: Option<u64>, shown: usize, groups: &str, weight: &str) -> Option<String> {
    let bound = bound?;
    Some(format!(
        "{} are shown of at most {} {groups} that are remembered, those with the most {weight}: one that was dropped and \
         came again counts each time among the others, so there may be fewer of them",
        count(shown as u64),
        count(bound)
    ))
}

/// Writes text with line breaks at blanks; the lines after the first begin with `indent`.
///
/// # Errors
/// Those of `out`; a string has none.
pub fn wrap(out: &mut String, line: &str, width: usize, indent: &str) -> fmt::Result {
    let lead = line.len() - line.trim_start().len();
    let (mut at, mut first) = (lead, true);
    out.push_str(&line[..lead]);
    for word in line[lead..].split(' ') {
        let columns = word.chars().count();
        if !first && at + 1 + columns > width {
            write!(out, "\n{indent}{word}")?;
            at = indent.len() + columns;
        } else {
            if !first {
                out.push(' ');
                at += 1;
            }
            out.push_str(word);
            at += columns;
        }
        first = false;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_their_width() {
        for ns in [0, 7, 999, 1_000, 9_994, 9_996, 41_200, 99_949, 99_960, 999_499, 1_000_000, 5_300_000_000] {
            assert_eq!(time(ns).chars().count(), 8, "{ns}: {:?}", time(ns));
            assert_eq!(bytes(ns).chars().count(), 8, "{ns}: {:?}", bytes(ns));
            assert_eq!(rate(ns as f64, true).chars().count(), 10, "{ns}: {:?}", rate(ns as f64, true));
            assert_eq!(count_in(ns, 9).chars().count(), 9, "{ns}");
        }
        assert_eq!(time(41_200), " 41.2 µs");
        assert_eq!(time(7_250), " 7.25 µs");
        assert_eq!(count(1_234_567), "1 234 567");
        assert_eq!(count_in(1_234_567_890, 9), "   1.23 G");
        assert_eq!(count_in(u64::MAX, 12), "  18446744 T");
    }

    #[test]
    fn reasons_beyond_the_first_few_are_counted() {
        let all = [(17, "a"), (9, "b"), (8, "c"), (5, "d"), (4, "e"), (2, "f"), (1, "g")];
        assert_eq!(listed(all.into_iter()), "17 a, 9 b, 8 c, 5 d, 4 e and 3 for other reasons");
        assert_eq!(listed(all.into_iter().take(SHOWN)), "17 a, 9 b, 8 c, 5 d, 4 e");
    }

    #[test]
    fn heights_tell_nothing_from_little() {
        assert_eq!(heights(&[0.0, 0.001, 4.0, 8.0], 8.0), " ▁▄█");
        assert_eq!(heights(&[0.0], 0.0), " ");
    }
}

//! Argument values: durations, sizes, sets of hops, instants, windows. Every error names the nearest valid
//! value.

pub mod backend;
pub mod budget;
pub mod duration;
pub mod hops;
pub mod instant;
pub mod listed;
pub mod size;
pub mod window;

/// A number before a unit: its text, its value, and the rest.
fn leading_number(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let value: f64 = text[..end].parse().ok()?;
    Some((value, &text[end..]))
}

/// The input, truncated for messages.
fn shown(text: &str) -> String {
    let mut short: String = text.chars().take(40).collect();
    if text.chars().nth(40).is_some() {
        short.push('…');
    }
    short
}

/// The entry of `names` nearest to `typed`: the longest common prefix, then the shortest.
fn nearest<'a>(typed: &str, names: &[&'a str]) -> &'a str {
    let common =
        |name: &str| name.chars().zip(typed.chars()).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
    names.iter().copied().max_by_key(|name| (common(name), usize::MAX - name.len())).unwrap_or_default()
}

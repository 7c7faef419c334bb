//! The table as text.

use super::row::{Row, Table};
use std::fmt::{Display, Write};

pub fn render(table: &Table) -> String {
    let mut text = String::new();
    for (number, host) in table.hosts.iter().enumerate() {
        let _ = writeln!(text, "{number}  {host}");
    }
    text.push('\n');
    if table.one_clock {
        text.push_str("All of one host since one boot: they share a clock, and there is nothing to align.\n");
        return text;
    }
    for row in &table.pairs {
        pair(&mut text, row);
    }
    text
}

fn pair(text: &mut String, row: &Row) {
    let bound = |ns: Option<u64>| ns.map_or(String::new(), |ns| format!(" ±{}", span(ns as f64)));
    let _ = writeln!(text, "{}–{}  {}{}", row.a, row.b, row.state, bound(row.half_width_ns));
    let ends = [("lower", row.lower_ns), ("estimate", row.difference_ns), ("upper", row.upper_ns)];
    let ends: Vec<String> =
        ends.iter().filter_map(|(name, ns)| Some(format!("{name} {}", signed_seconds((*ns)?)))).collect();
    if !ends.is_empty() {
        let _ = writeln!(text, "     {}", ends.join(", "));
    }
    if let Some([least, median, most, greatest]) = row.half_width_over_time_ns {
        let [least, median, most, greatest] = [least, median, most, greatest].map(|ns| span(ns as f64));
        let _ = writeln!(
            text,
            "     over time: half of it within ±{median}, 99 % within ±{most}; from ±{least} to ±{greatest}"
        );
    }
    if row.model_half_width_ns.is_some() {
        let line = bound(row.model_half_width_ns);
        let _ = writeln!(text, "     MODEL{line} while the difference is a straight line over 16 s");
    }
    if row.external_half_width_ns.is_some() && row.state != "EXTERNAL" {
        let external = bound(row.external_half_width_ns);
        let _ = writeln!(text, "     EXTERNAL{external} while what vouches for UTC on both is right");
    }
    refuted_utc(text, row);
    if row.together_half_width_ns.is_some() {
        let _ = writeln!(text, "     packets of all recordings together{}", bound(row.together_half_width_ns));
    }
    if let Some(ns) = row.difference_ns {
        difference(text, row, ns);
    }
    if let Some(ns) = row.quickest_round_trip_ns {
        let _ = writeln!(text, "     quickest round trip {}", span(ns as f64));
    }
    if let Some(ns) = row.smallest_visible_step_ns {
        let _ = writeln!(text, "     a step of a clock below {} would not be seen", span(ns as f64));
    }
    for hint in &row.hints {
        let _ = writeln!(text, "     suspect: {}", hint.text);
    }
    for packet in &row.limiting {
        let (limit, sent) =
            (if packet.from == row.a { "at most" } else { "at least" }, seconds(packet.sent_ns));
        let _ = writeln!(
            text,
            "     {limit} {} by the packet {}→{} sent at {sent} on its sender's clock",
            span(packet.bound_ns as f64),
            packet.from,
            packet.to
        );
    }
    let _ = writeln!(
        text,
        "     packets: {} used, {} rejected, {} undecided",
        row.used,
        row.rejected,
        row.quarantined + row.between_epochs
    );
    if row.steps > 0 {
        let _ = writeln!(
            text,
            "     {} of one of the clocks (suspend, migration, another clock source); figures are of after the last",
            if row.steps == 1 { "1 step".to_owned() } else { format!("{} steps", row.steps) }
        );
    }
    if let Some(ns) = row.recorded_apart_ns {
        let _ = writeln!(
            text,
            "     By their wall clocks, the two recordings are {} h apart: equal identifications of datagrams\n     are no proof then that they are the same.",
            ns / 3_600_000_000_000
        );
    }
    if row.used == 0 {
        text.push_str("     No packet is in both recordings that says something about their clocks: either they did not\n     talk to each other while both were recorded, or the packet hops were off.\n");
    } else if row.state == "ONE-SIDED" {
        text.push_str(
            "     Traffic in one direction only: delays relative to the quickest packet, no absolute ones.\n",
        );
    }
}

/// The hosts whose source of UTC is refuted.
fn refuted_utc(text: &mut String, row: &Row) {
    match row.utc_refuted.as_slice() {
        [] => {}
        [one] => {
            let _ = writeln!(
                text,
                "     What vouches for UTC on {one} contradicts itself, and was dropped:\n     {one} was not as near to UTC as it claims."
            );
        }
        _ => text.push_str(
            "     What vouches for UTC on these two contradicts the packets between them, and was dropped:\n     one of them is not as near to UTC as it claims.\n",
        ),
    }
}

/// The host that is ahead, if resolvable, and the drift.
fn difference(text: &mut String, row: &Row, ns: i64) {
    let drift = match (row.drift_ppm, row.drift_half_width_ppm) {
        (Some(ppm), Some(half)) if ppm.abs() <= half => {
            format!("; which runs faster is not resolvable ({ppm:+.3} ±{half:.3} ppm)")
        }
        (Some(ppm), Some(half)) => format!(", drifting {ppm:+.3} ±{half:.3} ppm"),
        _ => String::new(),
    };
    let ahead = row.ahead.map(|ahead| ahead == row.b);
    let _ = writeln!(text, "     {}{drift}", who_is_ahead(ns, ahead, row.a, row.b));
}

/// Text about the host that is ahead: B if `b_is` is true, unresolved if `None`.
pub(super) fn who_is_ahead(ns: i64, b_is: Option<bool>, a: impl Display, b: impl Display) -> String {
    let by = seconds_apart(ns.unsigned_abs());
    match b_is {
        Some(true) => format!("{b} is {by} ahead of {a}"),
        Some(false) => format!("{a} is {by} ahead of {b}"),
        None => format!("which is ahead is not resolvable: {by} is within the bound"),
    }
}

/// A duration as text.
pub(super) fn seconds_apart(ns: u64) -> String {
    span(ns as f64)
}

/// An instant of a clock, all digits.
fn seconds(ns: u64) -> String {
    format!("{}.{:09} s", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// A difference of two clocks, all digits.
fn signed_seconds(ns: i64) -> String {
    format!("{}{}", if ns < 0 { "-" } else { "+" }, seconds(ns.unsigned_abs()))
}

/// A duration as text.
fn span(ns: f64) -> String {
    let (sign, ns) = (if ns < 0.0 { "-" } else { "" }, ns.abs());
    match ns {
        ns if ns < 1e3 => format!("{sign}{ns:.0} ns"),
        ns if ns < 1e6 => format!("{sign}{:.2} µs", ns / 1e3),
        ns if ns < 1e9 => format!("{sign}{:.3} ms", ns / 1e6),
        ns => format!("{sign}{:.6} s", ns / 1e9),
    }
}

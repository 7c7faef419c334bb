//! The table for a person.

use super::row::{Row, Table};
use std::fmt::Write;

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
    if row.model_half_width_ns.is_some() {
        let line = bound(row.model_half_width_ns);
        let _ = writeln!(text, "     MODEL{line} while the difference is a straight line over 16 s");
    }
    if row.together_half_width_ns.is_some() {
        let _ = writeln!(text, "     all recordings together{}", bound(row.together_half_width_ns));
    }
    if let Some(ns) = row.difference_ns {
        let drift = row.drift_ppm.map_or(String::new(), |ppm| format!(", drifting {ppm:+.3} ppm"));
        let _ = writeln!(text, "     {} is {} ahead of {}{drift}", row.b, span(ns as f64), row.a);
    }
    if let Some(ns) = row.quickest_round_trip_ns {
        let _ = writeln!(text, "     quickest round trip {}", span(ns as f64));
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
            "     {} steps of one of the clocks (suspend, migration); figures are of after the last",
            row.steps
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

/// A length of time as a person says it.
fn span(ns: f64) -> String {
    let (sign, ns) = (if ns < 0.0 { "-" } else { "" }, ns.abs());
    match ns {
        ns if ns < 1e3 => format!("{sign}{ns:.0} ns"),
        ns if ns < 1e6 => format!("{sign}{:.2} µs", ns / 1e3),
        ns if ns < 1e9 => format!("{sign}{:.3} ms", ns / 1e6),
        ns => format!("{sign}{:.6} s", ns / 1e9),
    }
}

//! A comparison as text: two lines a step, first the figures, then what they come to.

use crate::wrap::wrap;
use magscope_core::compare::{Change, Comparison, Measured, Protocol, Quantile, Share, Summary};
use magscope_scope::format::{count, duration, percent, short_duration};
use std::fmt::Write;

/// Columns in front of what a step comes to.
const INDENT: &str = "    ";

/// The comparison for a terminal of so many columns, at least 80. Ends with a line break.
pub fn render(comparison: &Comparison, width: usize) -> String {
    let width = width.max(80);
    let mut text = String::new();
    // Writing into a String cannot fail, here and below.
    for (name, side) in [("A", &comparison.a), ("B", &comparison.b)] {
        wrap(&mut text, &format!("{name}  {}", summary(side)), width, "   ");
    }
    for warning in &comparison.warnings {
        wrap(&mut text, &format!("!  {warning}"), width, "   ");
    }
    let several = comparison.a.runs + comparison.b.runs > 2;
    for protocol in &comparison.protocols {
        write_protocol(&mut text, protocol, several, width);
    }
    if comparison.protocols.is_empty() {
        text.push_str("\nNo journeys in either.\n");
        return text;
    }
    let how = if several {
        "Student's for the means of the recordings' figures, and never narrower than what order statistics say of each"
    } else {
        "from order statistics of A and of B, whatever the distribution, wider where neighbouring journeys are alike"
    };
    let method = format!(
        "Intervals are {:.0} % ones, {how}. Steps with a difference come first, then by their effect on the mean total.",
        comparison.confidence * 100.0
    );
    text.push('\n');
    wrap(&mut text, &method, width, "");
    text
}

fn summary(side: &Summary) -> String {
    let runs = if side.runs == 1 { String::new() } else { format!("{} recordings, ", count(side.runs)) };
    let mut text = format!(
        "{runs}{}, Linux {}, {}: {} of {} journeys measured",
        side.host,
        side.kernel,
        short_duration(side.duration_ns),
        count(side.measured),
        count(side.journeys)
    );
    if side.disordered > 0 {
        let _ = write!(text, ", {} steps out of order", count(side.disordered));
    }
    text
}

fn write_protocol(text: &mut String, protocol: &Protocol, several: bool, width: usize) {
    let _ = writeln!(
        text,
        "\n{:<24}  {:>8} {:>8}  {:>7} {:>7}  {:>7} {:>7}",
        protocol.proto.to_string().to_uppercase(),
        "n A",
        "n B",
        "p50 A",
        "p50 B",
        "p99 A",
        "p99 B"
    );
    row(text, "total", &protocol.total, None, several, width);
    for step in &protocol.steps {
        row(
            text,
            &format!("{} → {}", step.from, step.to),
            &step.measured,
            Some(step.effect_ns),
            several,
            width,
        );
    }
    shares(text, &protocol.shares, width);
    wrap(text, &conclusion(protocol), width, INDENT);
}

/// What to do about it.
fn conclusion(protocol: &Protocol) -> String {
    let proto = protocol.proto.to_string().to_uppercase();
    let total = match protocol.total.change {
        Change::Slower => "slower on the whole",
        Change::Faster => "faster on the whole",
        Change::Mixed => "changed on the whole",
        Change::OnlyInA | Change::OnlyInB if protocol.other_ways.is_empty() => {
            return format!("{proto}: nothing to compare");
        }
        Change::OnlyInA | Change::OnlyInB => "no total to compare",
        Change::NotShown | Change::TooFew => "no difference shown on the whole",
    };
    let found = protocol.steps.iter().filter(|step| step.measured.change.is_found());
    match found.max_by_key(|step| step.effect_ns.unsigned_abs()) {
        Some(step) => {
            let effect = signed(step.effect_ns);
            format!("{proto}: {total}; look first at {} → {} ({effect} of the mean total)", step.from, step.to)
        }
        None if protocol.total.change.is_found() => format!("{proto}: {total}, in no step by itself"),
        None if protocol.total.n_a.min(protocol.total.n_b) == 0 => format!("{proto}: {total}"),
        None => format!("{proto}: no difference shown, on the whole or in any step"),
    }
}

fn row(text: &mut String, name: &str, row: &Measured, effect_ns: Option<i64>, several: bool, width: usize) {
    let figure = |n: u64, ns: u64| if n == 0 { "·".to_owned() } else { duration(ns) };
    let line = format!(
        "{name:<24}  {:>8} {:>8}  {:>7} {:>7}  {:>7} {:>7}",
        count(row.n_a),
        count(row.n_b),
        figure(row.n_a, row.p50.a_ns),
        figure(row.n_b, row.p50.b_ns),
        figure(row.n_a, row.p99.a_ns),
        figure(row.n_b, row.p99.b_ns)
    );
    let _ = writeln!(text, "{}", line.trim_end());
    wrap(text, &format!("{INDENT}{}", verdict(row, effect_ns, several)), width, INDENT);
}

/// What a person can act on.
fn verdict(row: &Measured, effect_ns: Option<i64>, several: bool) -> String {
    let n = count(row.n_a.min(row.n_b));
    let word = match row.change {
        Change::Slower => "slower",
        Change::Faster => "faster",
        Change::Mixed => "changed",
        Change::NotShown if several => {
            return format!("no difference beyond what runs differ by: p50 within {}", interval(&row.p50));
        }
        Change::NotShown => {
            return format!("no difference that n={n} could show: p50 within {}", interval(&row.p50));
        }
        Change::TooFew => return format!("no difference that n={n} could show: too few for an interval"),
        Change::OnlyInA => return "only in A".to_owned(),
        Change::OnlyInB => return "only in B".to_owned(),
    };
    let mut parts = Vec::new();
    for (name, quantile) in [("p50", &row.p50), ("p99", &row.p99)] {
        if quantile.change.is_found() {
            let ratio = quantile.ratio.map(|ratio| format!("×{} ", figures(ratio))).unwrap_or_default();
            parts.push(format!("{name} {ratio}({})", interval(quantile)));
        }
    }
    if let Some(ns) = row.p50.spread_ns {
        parts.push(format!("runs of one side differ by {} at p50", short_duration(ns)));
    }
    if let Some(ns) = effect_ns {
        parts.push(format!("{} of the mean total", signed(ns)));
    }
    format!("{word}: {}", parts.join(", "))
}

/// From where to where a difference lies, as far as can be said.
fn interval(quantile: &Quantile) -> String {
    match (quantile.at_least_ns, quantile.at_most_ns) {
        (Some(low), Some(high)) => format!("{} to {}", signed(low), signed(high)),
        (Some(low), None) => format!("at least {}", signed(low)),
        (None, Some(high)) => format!("at most {}", signed(high)),
        (None, None) => "any".to_owned(),
    }
}

fn signed(ns: i64) -> String {
    let sign = match ns {
        0 => "",
        1.. => "+",
        _ => "−",
    };
    format!("{sign}{}", short_duration(ns.unsigned_abs()))
}

/// A ratio to three figures.
fn figures(ratio: f64) -> String {
    let digits = if ratio < 9.995 { 2 } else { usize::from(ratio < 99.95) };
    format!("{ratio:.digits$}")
}

/// How journeys ended. What differs is marked.
fn shares(text: &mut String, shares: &[Share], width: usize) {
    let of = |n: u64, of: u64| percent(n as f64 / of.max(1) as f64);
    let each = shares.iter().map(|share| {
        let mark = if share.differs { " — differs" } else { "" };
        let figures = format!("{} → {}", of(share.a, share.of_a).trim(), of(share.b, share.of_b).trim());
        format!("{} {figures} ({} → {}){mark}", share.kind, count(share.a), count(share.b))
    });
    wrap(text, &format!("how they ended: {}", each.collect::<Vec<_>>().join("; ")), width, INDENT);
}

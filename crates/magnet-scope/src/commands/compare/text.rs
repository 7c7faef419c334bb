//! A comparison as text, with two lines per step: the figures, then the conclusion.

use crate::wrap::wrap;
use magscope_report::compare::{
    Change, Comparison, Measured, Protocol, Quantile, ServiceDifference, Share, Summary, least_journeys,
};
use magscope_scope::format::{count, duration, percent, short_duration};
use std::fmt::Write;

/// Indentation of a conclusion.
const INDENT: &str = "    ";
/// Width of a row's name.
const NAME: usize = 24;

/// The comparison for a terminal of `width` columns, at least 80. Ends with a line break.
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
    for protocol in &comparison.protocols {
        write_protocol(&mut text, protocol, width);
    }
    for service in &comparison.services {
        write_service(&mut text, service, width);
    }
    if comparison.protocols.is_empty() {
        text.push_str("\nNo journeys in either.\n");
        return text;
    }
    let method = format!(
        "An interval takes {} recordings a side, and in each {} journeys or turns for the p50 and {} for the p99, more \
         where neighbouring ones are alike. Intervals are Student's for the means of the recordings' figures, never narrower \
         than order statistics of each recording. All {} of this table hold at once with {:.0} % confidence. Steps with a \
         difference come first, then by their effect on the mean total.",
        comparison.least_runs,
        least_journeys(0.5),
        least_journeys(0.99),
        comparison.compared,
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

/// The titles of a table's columns.
fn head(text: &mut String, name: &str) {
    let _ = writeln!(
        text,
        "{name:<NAME$}  {:>8} {:>8}  {:>7} {:>7}  {:>7} {:>7}",
        "n A", "n B", "p50 A", "p50 B", "p99 A", "p99 B"
    );
}

/// Requests to one service, and where a difference is.
fn write_service(text: &mut String, service: &ServiceDifference, width: usize) {
    let name = format!("requests to {} {}", service.proto, service.service);
    text.push('\n');
    wrap(text, &name, width, INDENT);
    head(text, "grade turn");
    row(text, "total", &service.total, None, width);
    for part in &service.parts {
        row(text, part.part.words(), &part.measured, None, width);
    }
    shares(text, "grades", &service.grades, width);
    let found = service.parts.iter().filter(|part| part.measured.change.is_found());
    let difference = |quantile: &Quantile| quantile.b_ns.abs_diff(quantile.a_ns);
    let largest = found.max_by_key(|part| difference(&part.measured.p50).max(difference(&part.measured.p99)));
    let whole = whole(service.total.change);
    let conclusion = match largest {
        Some(part) => format!("{name}: {whole}; look first at *{}*", part.part.words()),
        None => format!("{name}: {whole}"),
    };
    wrap(text, &conclusion, width, INDENT);
}

/// Words for the change of a total.
const fn whole(change: Change) -> &'static str {
    match change {
        Change::Slower => "slower on the whole",
        Change::Faster => "faster on the whole",
        Change::Mixed => "changed on the whole",
        Change::OnlyInA | Change::OnlyInB => "no total to compare",
        Change::NotShown => "no difference shown on the whole",
        Change::TooFew => "too few recordings, or times in them, to compare the whole",
    }
}

fn write_protocol(text: &mut String, protocol: &Protocol, width: usize) {
    text.push('\n');
    head(text, &protocol.proto.to_string().to_uppercase());
    row(text, "total", &protocol.total, None, width);
    for step in &protocol.steps {
        row(text, &format!("{} → {}", step.from, step.to), &step.measured, Some(step.effect_ns), width);
    }
    shares(text, "how they ended", &protocol.shares, width);
    wrap(text, &conclusion(protocol), width, INDENT);
}

/// Recommendation.
fn conclusion(protocol: &Protocol) -> String {
    let proto = protocol.proto.to_string().to_uppercase();
    let is_one_sided = matches!(protocol.total.change, Change::OnlyInA | Change::OnlyInB);
    if is_one_sided && protocol.other_routes.is_empty() {
        return format!("{proto}: nothing to compare");
    }
    let total = whole(protocol.total.change);
    let found = protocol.steps.iter().filter(|step| step.measured.change.is_found());
    match found.max_by_key(|step| step.effect_ns.unsigned_abs()) {
        Some(step) => {
            let effect = signed(step.effect_ns);
            format!("{proto}: {total}; look first at {} → {} ({effect} of the mean total)", step.from, step.to)
        }
        None if protocol.total.change.is_found() => format!("{proto}: {total}, in no step by itself"),
        None if protocol.total.n_a.min(protocol.total.n_b) == 0 || protocol.total.change == Change::TooFew => {
            format!("{proto}: {total}")
        }
        None => format!("{proto}: no difference shown, on the whole or in any step"),
    }
}

fn row(text: &mut String, name: &str, row: &Measured, effect_ns: Option<i64>, width: usize) {
    let figure = |n: u64, ns: u64| if n == 0 { "·".to_owned() } else { duration(ns) };
    let line = format!(
        "{name:<NAME$}  {:>8} {:>8}  {:>7} {:>7}  {:>7} {:>7}",
        count(row.n_a),
        count(row.n_b),
        figure(row.n_a, row.p50.a_ns),
        figure(row.n_b, row.p50.b_ns),
        figure(row.n_a, row.p99.a_ns),
        figure(row.n_b, row.p99.b_ns)
    );
    let _ = writeln!(text, "{}", line.trim_end());
    wrap(text, &format!("{INDENT}{}", verdict(row, effect_ns)), width, INDENT);
}

/// The conclusion for a step.
fn verdict(row: &Measured, effect_ns: Option<i64>) -> String {
    let word = match row.change {
        Change::Slower => "slower",
        Change::Faster => "faster",
        Change::Mixed => "changed",
        Change::NotShown => {
            return format!("no difference beyond what runs differ by: {}", differences(row));
        }
        Change::TooFew => return "no interval: too few recordings, or too few times in them".to_owned(),
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

/// Intervals of the quantiles, if available.
fn differences(row: &Measured) -> String {
    let each = [("p50", &row.p50), ("p99", &row.p99)];
    let each = each.iter().filter(|(_, quantile)| quantile.change != Change::TooFew);
    each.map(|(name, quantile)| format!("{name} within {}", interval(quantile))).collect::<Vec<_>>().join(", ")
}

/// The interval of a difference.
fn interval(quantile: &Quantile) -> String {
    let ends = quantile.at_least_ns.zip(quantile.at_most_ns);
    ends.map_or_else(|| "any".to_owned(), |(low, high)| format!("{} to {}", signed(low), signed(high)))
}

fn signed(ns: i64) -> String {
    let sign = match ns {
        0 => "",
        1.. => "+",
        _ => "−",
    };
    format!("{sign}{}", short_duration(ns.unsigned_abs()))
}

/// A ratio with three digits.
fn figures(ratio: f64) -> String {
    let digits = if ratio < 9.995 { 2 } else { usize::from(ratio < 99.95) };
    format!("{ratio:.digits$}")
}

/// Verdicts of journeys, or grades of exchanges. Differences are marked.
fn shares(text: &mut String, what: &str, shares: &[Share], width: usize) {
    let of = |n: u64, of: u64| percent(n as f64 / of.max(1) as f64);
    let each = shares.iter().map(|share| {
        let mark = if share.differs { " — differs" } else { "" };
        let figures = format!("{} → {}", of(share.a, share.of_a).trim(), of(share.b, share.of_b).trim());
        format!("{} {figures} ({} → {}){mark}", share.kind, count(share.a), count(share.b))
    });
    wrap(text, &format!("{what}: {}", each.collect::<Vec<_>>().join("; ")), width, INDENT);
}

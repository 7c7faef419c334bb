//! A report as text, readable at 80 columns: one unit a figure, columns that stay where they are.

use super::{FlowRow, HopRow, Report};
use crate::hop::{Direction, Hop};
use crate::stats::Quantiles;
use std::fmt::{self, Write};

/// Narrower than this the columns do not fit.
const MIN_WIDTH: usize = 60;

/// A time in three figures and a unit, eight columns wide: `41.2 µs`.
pub(super) fn time(ns: u64) -> String {
    let ns_f = ns as f64;
    match ns {
        0..1_000 => format!("{ns:>5} ns"),
        1_000..1_000_000 => figure(ns_f / 1e3, "µs"),
        1_000_000..1_000_000_000 => figure(ns_f / 1e6, "ms"),
        _ => figure(ns_f / 1e9, "s "),
    }
}

/// Three figures that matter and a unit.
fn figure(value: f64, unit: &str) -> String {
    let digits = if value >= 99.95 { 0 } else { usize::from(value < 9.995) + 1 };
    format!("{value:>5.digits$} {unit}")
}

/// A byte count in decimal units, eight columns wide.
fn bytes(n: u64) -> String {
    let value = n as f64;
    match n {
        0..1_000 => format!("{n:>5} B "),
        1_000..1_000_000 => figure(value / 1e3, "kB"),
        1_000_000..1_000_000_000 => figure(value / 1e6, "MB"),
        1_000_000_000..1_000_000_000_000 => figure(value / 1e9, "GB"),
        _ => figure(value / 1e12, "TB"),
    }
}

/// A count with thin groups: `1 234 567`.
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

pub(super) fn plural(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

fn quantiles(q: Option<&Quantiles>) -> String {
    q.map_or_else(
        || format!("{:>8} {:>8} {:>8}", "·", "·", "·"),
        |q| format!("{:>8} {:>8} {:>8}", time(q.p50_ns), time(q.p99_ns), time(q.max_ns)),
    )
}

/// Cuts a text to `width` columns; one character is one column in all that stands here.
fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// The report as text for a terminal `width` columns wide (at least 60). Ends with a line break.
pub fn render_text(report: &Report, width: usize) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write_text(&mut out, report, width.max(MIN_WIDTH));
    out
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&render_text(self, 80))
    }
}

fn write_text(out: &mut String, report: &Report, width: usize) -> fmt::Result {
    let name = if report.node.is_empty() { "this node" } else { &report.node };
    let kernel = if report.kernel.is_empty() { String::new() } else { format!("  Linux {}", report.kernel) };
    writeln!(out, "{}", fit(&format!("{name}{kernel}"), width))?;
    let events = plural(report.events, "event", "events");
    writeln!(out, "{events} in {}", time(report.duration_ns).trim())?;
    write_hops(out, report, width)?;
    write_denominator(out, report, width)?;
    super::blame::write(out, report)?;
    write_verdicts(out, report)?;
    write_flows(out, report, width)?;
    write_losses(out, report)?;
    write_missing(out, report, width)
}

fn write_hops(out: &mut String, report: &Report, width: usize) -> fmt::Result {
    writeln!(
        out,
        "\n{:<15} {:>11} {:>8} {:>9}  {:>26}",
        "hop", "events", "bytes", "events/s", "from the hop below"
    )?;
    writeln!(out, "{:<15} {:>11} {:>8} {:>9}  {:>8} {:>8} {:>8}", "", "", "", "", "p50", "p99", "max")?;
    let mut side = None;
    for row in report.hops.iter().filter(|row| row.events > 0 || row.latency.is_some()) {
        let here = row.hop.direction();
        if side.is_some_and(|before| before != here) {
            writeln!(out, "{}", "─".repeat(width.min(74)))?;
        }
        side = Some(here);
        write_hop(out, row)?;
    }
    Ok(())
}

fn write_hop(out: &mut String, row: &HopRow) -> fmt::Result {
    let rate = count(row.events_per_s.round().max(0.0) as u64);
    let on_path = row.hop.direction() != Direction::Off;
    let size = if matches!(row.hop, Hop::TaskWake | Hop::TaskRun | Hop::SockReady) {
        format!("{:>8}", "·")
    } else {
        bytes(row.bytes)
    };
    write!(out, "{:<15} {:>11} {size} {rate:>9}", row.hop.name(), count(row.events))?;
    if on_path {
        write!(out, "  {}", quantiles(row.latency.as_ref()))?;
    }
    writeln!(out)?;
    for node in &row.nodes {
        let name = fit(&node.node, 13);
        write!(out, "  {name:<13} {:>11} {} {:>9}", count(node.events), bytes(node.bytes), "")?;
        if on_path {
            write!(out, "  {}", quantiles(node.latency.as_ref()))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn write_denominator(out: &mut String, report: &Report, width: usize) -> fmt::Result {
    let of = &report.denominator;
    let mut line =
        format!("Latencies of {} of {}", count(of.measured), plural(of.journeys, "journey", "journeys"));
    if !of.left_out.is_empty() {
        let left: Vec<_> = of.left_out.iter().map(|l| format!("{} {}", count(l.journeys), l.because)).collect();
        let _ = write!(line, "; left out: {}", left.join(", "));
    }
    if of.disordered > 0 {
        let _ = write!(line, "; {} out of order", plural(of.disordered, "pair", "pairs"));
    }
    writeln!(out)?;
    wrap(out, &line, width, "  ")
}

fn write_verdicts(out: &mut String, report: &Report) -> fmt::Result {
    if report.verdicts.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n{:<6}{:>10}{:>10}{:>9}{:>7}{:>9}{:>8}{:>10}{:>8}",
        "proto", "journeys", "complete", "half", "lost", "dropped", "broken", "in flight", "resent"
    )?;
    for row in &report.verdicts {
        writeln!(
            out,
            "{:<6}{:>10}{:>10}{:>9}{:>7}{:>9}{:>8}{:>10}{:>8}",
            row.proto,
            count(row.journeys),
            count(row.complete),
            count(row.half_complete),
            count(row.lost),
            count(row.dropped),
            count(row.broken_by_event_loss),
            count(row.in_flight),
            count(row.retransmits)
        )?;
    }
    Ok(())
}

fn write_flows(out: &mut String, report: &Report, width: usize) -> fmt::Result {
    if report.flows.is_empty() {
        return Ok(());
    }
    let name_width = width.saturating_sub(46).clamp(20, 70);
    writeln!(
        out,
        "\n{:<name_width$} {:>8} {:>9} {:>6}  {:>8} {:>8}",
        "flow", "bytes", "journeys", "resent", "p50", "p99"
    )?;
    for row in &report.flows {
        write_flow(out, row, name_width, width)?;
    }
    let others = report.flows_total.saturating_sub(report.flows.len() as u64);
    if others > 0 {
        writeln!(out, "and {} with fewer bytes", plural(others, "flow", "flows"))?;
    }
    Ok(())
}

fn write_flow(out: &mut String, row: &FlowRow, name_width: usize, width: usize) -> fmt::Result {
    let total = row.total.unwrap_or_default();
    let (p50, p99) =
        if row.total.is_some() { (time(total.p50_ns), time(total.p99_ns)) } else { ("·".into(), "·".into()) };
    let name = fit(&format!("{} {}", row.proto, row.from), name_width);
    let journeys = count(row.journeys);
    writeln!(
        out,
        "{name:<name_width$} {} {journeys:>9} {:>6}  {p50:>8} {p99:>8}",
        bytes(row.bytes),
        count(row.retransmits)
    )?;
    let ends = |node: &str, comm: &str| match (node.is_empty(), comm.is_empty()) {
        (true, true) => "?".to_owned(),
        (true, false) => comm.to_owned(),
        (false, true) => node.to_owned(),
        (false, false) => format!("{comm}@{node}"),
    };
    let way = format!("{} → {}", ends(&row.from_node, &row.sender), ends(&row.to_node, &row.reader));
    writeln!(out, "{}", fit(&format!("  → {}  ({way})", row.to), width))
}

fn write_losses(out: &mut String, report: &Report) -> fmt::Result {
    let losses = &report.losses;
    writeln!(out)?;
    if losses.records == 0 {
        writeln!(out, "No event was lost.")?;
    } else {
        let stretches = plural(losses.stretches, "stretch", "stretches");
        let lost = plural(losses.records, "event was lost", "events were lost");
        writeln!(out, "{lost} in {stretches}, {} in all:", time(losses.span_ns).trim())?;
        for row in &losses.causes {
            writeln!(out, "  {:<24} {:>11}", row.cause, count(row.records))?;
        }
    }
    if losses.late_events > 0 {
        writeln!(
            out,
            "{} too late to be put in order.",
            plural(losses.late_events, "event came", "events came")
        )?;
    }
    Ok(())
}

fn write_missing(out: &mut String, report: &Report, width: usize) -> fmt::Result {
    if report.missing.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nNot served here:")?;
    for row in &report.missing {
        wrap(out, &format!("  {:<15} {}", row.hop.name(), row.because), width, &" ".repeat(18))?;
    }
    Ok(())
}

/// Writes a line broken at blanks; the lines after the first begin with `indent`.
fn wrap(out: &mut String, line: &str, width: usize, indent: &str) -> fmt::Result {
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
        }
        assert_eq!(time(41_200), " 41.2 µs");
        assert_eq!(time(7_250), " 7.25 µs");
        assert_eq!(count(1_234_567), "1 234 567");
    }

    #[test]
    fn an_empty_report_says_so_calmly() {
        let text = render_text(&Report::default(), 80);
        assert!(text.contains("0 events") && text.contains("No event was lost."), "{text}");
    }
}

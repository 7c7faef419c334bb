//! A report as text, readable at 80 columns: one unit per figure, fixed columns.

use super::figures::{about, beyond_bound, bytes, count, count_in, fit, plural, time, wrap};
use super::{Connections, FlowRow, HopRow, Losses, NotFollowed, Report};
use crate::stats::Quantiles;
use magscope_core::hop::{Direction, Hop, Role};
use std::fmt::{self, Write};

/// Minimum width for the columns.
const MIN_WIDTH: usize = 60;

/// Columns of one quantile.
pub(super) const QUANTILE: usize = 9;
/// Width from which the p90 fits.
pub(super) const WIDE: usize = 89;

/// The quantiles that fit, each with a blank in front.
pub(super) fn quantiles(q: Option<&Quantiles>, width: usize) -> String {
    let text = |ns: fn(&Quantiles) -> u64| {
        let text = q.map_or_else(|| "·".to_owned(), |q| time(ns(q)));
        format!("{text:>QUANTILE$}")
    };
    let p90 = if width < WIDE { String::new() } else { text(|q| q.p90_ns) };
    [text(|q| q.p50_ns), p90, text(|q| q.p99_ns), text(|q| q.p999_ns), text(|q| q.max_ns)].concat()
}

/// The report as text for a terminal `width` columns wide (at least 60). Ends with a line break.
pub fn render_text(report: &Report, width: usize) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write_text(&mut out, report, width.max(MIN_WIDTH));
    out
}

/// Failed attempts to connect and resets as text; empty without any.
pub fn render_connections(connections: &Connections, width: usize) -> String {
    let mut out = String::new();
    if !connections.is_empty() {
        let _ = super::connections::write(&mut out, connections, width.max(MIN_WIDTH));
    }
    out
}

/// Missed events as text, also that none was missed.
pub fn render_losses(losses: &Losses) -> String {
    let mut out = String::new();
    let _ = write_losses(&mut out, losses, true);
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
    // An empty report, without a capture, has none.
    if !report.headline.text.is_empty() {
        wrap(out, &report.headline.text, width, "  ")?;
    }
    writeln!(out, "{}", fit(&format!("{name}{kernel}"), width))?;
    writeln!(out, "{} in {}", content(report), time(report.duration_ns).trim())?;
    write_hops(out, report, width)?;
    write_denominator(out, report, width)?;
    super::blame::write(out, report)?;
    write_verdicts(out, report)?;
    match &report.groups {
        Some(table) => super::groups::write(out, table, width)?,
        None => write_flows(out, report, width)?,
    }
    if let Some(requests) = &report.requests {
        writeln!(out, "\nrequests and responses")?;
        super::requests::write_requests(out, requests, width)?;
    }
    if let Some(throughput) = &report.throughput {
        super::throughput::write(out, throughput, report.duration_ns, width)?;
    }
    if let Some(table) = &report.running {
        super::running::write(out, table, report.start_ns, report.end_ns, width)?;
    }
    if let Some(table) = &report.synthesis {
        super::kernel::write(out, table, width)?;
    }
    super::custom::write(out, &report.probes, report.start_ns, report.end_ns, width)?;
    super::drops::write(out, &report.drops, width)?;
    super::connections::write(out, &report.connections, width)?;
    write_losses(out, &report.losses, report.damage.is_empty())?;
    write_damage(out, &report.damage, width)?;
    let several = report.governed.stretches.windows(2).any(|two| two[0].host != two[1].host);
    super::governed::write(out, &report.governed, report.start_ns, several, width)?;
    super::estimates::write(out, &report.estimates, report.start_ns, several, width)?;
    let several = report.unobserved_hops.windows(2).any(|two| two[0].host != two[1].host);
    super::unobserved::write(out, &report.unobserved_hops, several, width)?;
    write_not_followed(out, report, width)?;
    write_missing(out, report, width)
}

/// Number of events; without any, that of the samples of TCP, which are none.
fn content(report: &Report) -> String {
    let samples = report.hops.iter().find(|row| row.hop == Hop::TcpState).map_or(0, |row| row.events);
    let events = plural(report.events, "event", "events");
    match (report.events, samples) {
        (1.., _) | (_, 0) => events,
        _ => format!("{events}, {} of TCP's state", plural(samples, "sample", "samples")),
    }
}

/// Namespaces and kinds in the text.
const MOST_KINDS: usize = 8;

fn write_not_followed(out: &mut String, report: &Report, width: usize) -> fmt::Result {
    if report.not_followed.is_empty() {
        return Ok(());
    }
    let several = report.not_followed.windows(2).any(|two| two[0].host != two[1].host);
    let words = |row: &NotFollowed| {
        let sockets = plural(u64::from(row.sockets), "socket", "sockets");
        let (count, noun) = sockets.rsplit_once(' ').unwrap_or_default();
        let host = if several { format!("{}/", row.host) } else { String::new() };
        format!("{} {} {noun} in {host}{}", count.trim(), row.kind, row.node)
    };
    let shown: Vec<_> = report.not_followed.iter().take(MOST_KINDS).map(words).collect();
    let others = if report.not_followed.len() > MOST_KINDS { ", …" } else { "" };
    wrap(out, &format!("Not followed, when the capture began: {}{others}.", shown.join(", ")), width, "  ")
}

fn write_hops(out: &mut String, report: &Report, width: usize) -> fmt::Result {
    let p90 = if width < WIDE { String::new() } else { format!("{:>QUANTILE$}", "p90") };
    let columns = 4 * QUANTILE + p90.len();
    writeln!(
        out,
        "\n{:<14} {:>10} {:>8} {:>9}{:>columns$}",
        "hop", "events", "bytes", "events/s", "from the hop below"
    )?;
    writeln!(
        out,
        "{:44}{:>QUANTILE$}{p90}{:>QUANTILE$}{:>QUANTILE$}{:>QUANTILE$}",
        "", "p50", "p99", "p99.9", "max"
    )?;
    let mut side = None;
    for row in
        report.hops.iter().filter(|row| row.events > 0 || row.latency.is_some() || !row.protocols.is_empty())
    {
        let here = row.hop.direction();
        if side.is_some_and(|before| before != here) {
            writeln!(out, "{}", "─".repeat(44 + columns))?;
        }
        side = Some(here);
        write_hop(out, row, width)?;
    }
    if report.hops.iter().any(|row| row.estimated) {
        let explanation = "≈ is of all there was, as the kernel counted it: a sampler left some of it out, or the kernel added it up; ≥ is \
                   of recorded bytes alone. Journeys, times and what is indented are of what came.";
        wrap(out, explanation, width, "")?;
    }
    Ok(())
}

fn write_hop(out: &mut String, row: &HopRow, width: usize) -> fmt::Result {
    let rate = count_in(row.events_per_s.round().max(0.0) as u64, 9 - usize::from(row.estimated));
    let rate = format!("{:>9}", format!("{}{}", about(row.estimated), rate.trim_start()));
    let on_path = row.hop.direction() != Direction::Off;
    let empty = matches!(row.hop.role(), Role::Reader | Role::Ready | Role::Sample | Role::Point);
    let size = |n| if empty { format!("{:>8}", "·") } else { bytes(n) };
    let marked = |sign: &str, figure: String, width: usize| {
        format!("{:>width$}", if figure.trim() == "·" { figure } else { format!("{sign}{}", figure.trim()) })
    };
    let whole = |n: f64| n.round().max(0.0) as u64;
    let events = match row.all_events {
        Some(all) => marked("≈", count_in(whole(all), 9), 10),
        None => count_in(row.events, 10),
    };
    let payload = match (row.estimated, row.all_bytes) {
        (false, _) => size(row.bytes),
        (true, Some(all)) => marked("≈", size(whole(all)), 8),
        (true, None) => marked("≥", size(row.bytes), 8),
    };
    let times = |q: Option<&Quantiles>| if on_path { quantiles(q, width) } else { String::new() };
    writeln!(
        out,
        "{:<14} {events} {payload} {rate}{}",
        row.hop.name(),
        if row.protocols.is_empty() { times(row.latency.as_ref()) } else { String::new() }
    )?;
    write_half_width(out, row.half_width.as_ref(), row.unresolvable)?;
    for of in &row.protocols {
        let proto = format!("  {:<42}{}", of.proto.to_string(), times(Some(&of.latency)));
        writeln!(out, "{}", proto.trim_end())?;
        write_half_width(out, of.half_width.as_ref(), of.unresolvable)?;
    }
    for node in &row.nodes {
        let line = format!(
            "  {:<12} {} {} {:>9}{}",
            fit(&node.node, 12),
            count_in(node.events, 10),
            size(node.bytes),
            "",
            times(node.latency.as_ref())
        );
        writeln!(out, "{}", line.trim_end())?;
        for of in &node.protocols {
            let proto = format!("    {:<40}{}", of.proto.to_string(), times(Some(&of.latency)));
            writeln!(out, "{}", proto.trim_end())?;
        }
    }
    Ok(())
}

/// Error bounds of latencies across two clocks.
fn write_half_width(
    out: &mut String,
    half_width: Option<&Quantiles>,
    unresolvable: Option<u64>,
) -> fmt::Result {
    let Some(half_width) = half_width else { return Ok(()) };
    let (half, most) = (time(half_width.p50_ns), time(half_width.max_ns));
    write!(out, "  two clocks: ± {} at the median, ± {} at most", half.trim(), most.trim())?;
    match unresolvable {
        Some(n) if n > 0 => writeln!(out, "; {} not resolvable from 0", count(n)),
        _ => writeln!(out),
    }
}

fn write_denominator(out: &mut String, report: &Report, width: usize) -> fmt::Result {
    let of = &report.denominator;
    let mut line =
        format!("Latencies of {} of {}", count(of.measured), plural(of.journeys, "journey", "journeys"));
    if !of.left_out.is_empty() {
        let left: Vec<_> = of.left_out.iter().map(|l| format!("{} {}", count(l.journeys), l.because)).collect();
        let _ = write!(line, "; left out: {}", left.join(", "));
    }
    if of.ambiguous > 0 {
        let times = "times may be a neighbour's, and the first line is without them";
        let _ = write!(line, "; {} of them ambiguous: {times}", count(of.ambiguous));
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
            count(row.resent)
        )?;
        let again = if row.retransmits > row.resent { row.retransmits } else { 0 };
        let others = [
            (row.filtered, "left out by the filter or sampler after the last hop seen"),
            (row.not_probed, "seen as far as the served hops go, which is not the end"),
            (row.read_unseen, "read, and no event says when"),
            (row.delivered, "delivered to the kernel (MPTCP, TLS, a sockmap, ...), and not followed there"),
            (
                row.discarded,
                "discarded in their socket: it was closed, or reads had no room or passed over an urgent byte",
            ),
            (again, "times that a journey was sent again: some more than once"),
            (row.evicted, "given up on, because too many were in flight"),
        ];
        for (number, words) in others.iter().filter(|(number, _)| *number > 0) {
            writeln!(out, "      {:>10} {words}", count(*number))?;
        }
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
        let (flows, bytes) = (plural(others, "flow", "flows"), bytes(report.flows_rest_bytes));
        writeln!(out, "and {flows} with fewer bytes, {} together", bytes.trim())?;
    }
    if let Some(words) = beyond_bound(report.flows_bound, report.flows.len(), "flows", "bytes") {
        wrap(out, &words, width, "  ")?;
    }
    Ok(())
}

fn write_flow(out: &mut String, row: &FlowRow, name_width: usize, width: usize) -> fmt::Result {
    let total = row.total.unwrap_or_default();
    let (p50, p99) =
        if row.total.is_some() { (time(total.p50_ns), time(total.p99_ns)) } else { ("·".into(), "·".into()) };
    let ends_of = &row.ends;
    let name = fit(&format!("{} {}", ends_of.proto, ends_of.from), name_width);
    let journeys = count(row.journeys);
    writeln!(
        out,
        "{name:<name_width$} {} {journeys:>9} {:>6}  {p50:>8} {p99:>8}",
        bytes(row.bytes),
        count(row.resent)
    )?;
    writeln!(out, "{}", fit(&format!("  → {}  ({})", ends_of.to, ends_of.route()), width))?;
    match ends_of.arrival() {
        Some(arrival) => writeln!(out, "{}", fit(&format!("  {arrival}"), width)),
        None => Ok(()),
    }
}

fn write_losses(out: &mut String, losses: &Losses, is_whole: bool) -> fmt::Result {
    writeln!(out)?;
    if losses.records == 0 && is_whole {
        writeln!(out, "No event was missed.")?;
    } else if losses.records == 0 {
        writeln!(out, "No event was missed, as far as the recording can be read.")?;
    } else {
        let stretches = plural(losses.stretches, "stretch", "stretches");
        let missed = plural(losses.records, "event was missed", "events were missed");
        writeln!(out, "{missed} in {stretches}, {} in all:", time(losses.span_ns).trim())?;
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

fn write_damage(out: &mut String, damage: &[String], width: usize) -> fmt::Result {
    if damage.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nNot whole:")?;
    for place in damage {
        wrap(out, &format!("  {place}"), width, "    ")?;
    }
    Ok(())
}

fn write_missing(out: &mut String, report: &Report, width: usize) -> fmt::Result {
    if report.missing.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nNot served here:")?;
    for row in &report.missing {
        wrap(out, &format!("  {:<17} {}", row.hop.name(), row.because), width, &" ".repeat(20))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_report_says_so_calmly() {
        let text = render_text(&Report::default(), 80);
        assert!(text.contains("0 events") && text.contains("No event was missed."), "{text}");
    }

    #[test]
    fn a_table_of_more_flows_than_are_remembered_says_so() {
        let of = |flows_bound| {
            let flow = FlowRow {
                ends: crate::groups::FlowEnds::default(),
                bytes: 1,
                journeys: 1,
                whole: 0,
                resent: 0,
                retransmits: 0,
                total: None,
            };
            let report = Report { flows: vec![flow], flows_total: 9, flows_bound, ..Report::default() };
            render_text(&report, 200)
        };
        assert!(!of(None).contains("remembered"));
        assert!(of(Some(7)).contains("1 are shown of at most 7 flows that are remembered"), "{}", of(Some(7)));
    }
}

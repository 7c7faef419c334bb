//! Journeys as text: two or three lines each, in fixed columns, within the terminal's width.

use super::Counts;
use super::row::Row;
use crate::day;
use magscope_core::journey::{Across, Resend};
use magscope_core::{Direction, Part, Proto};
use magscope_scope::format::{bytes, count, duration};
use std::fmt::Write;

/// Maximum number of custom probes and payload heads printed per journey.
const MOST_ANNOTATIONS: usize = 8;

/// Indentation of further lines of a journey.
const INDENT: &str = "          ";

/// `20 slowest of 1 234 matching, of 6 808 journeys; 12 have no total`.
pub fn summary(rows: &[Row], counts: Counts) -> String {
    let Counts { journeys, matching, without_total } = counts;
    let journeys = format!("{} journey{}", count(journeys), if journeys == 1 { "" } else { "s" });
    if matching == 0 {
        return format!("none matching, of {journeys}");
    }
    let mut text =
        format!("{} slowest of {} matching, of {journeys}", count(rows.len() as u64), count(matching));
    if without_total > 0 {
        // Writing into a String cannot fail.
        let _ = write!(
            text,
            "; {} {} no total",
            count(without_total),
            if without_total == 1 { "has" } else { "have" }
        );
    }
    text
}

/// The journeys, then their counts.
pub fn table(rows: &[Row], counts: Counts, width: usize) -> String {
    let mut text = String::new();
    let date = rows.first().and_then(|first| day::of(first.start_utc.as_deref()?)).unwrap_or_default();
    if !rows.is_empty() {
        let _ = writeln!(text, "{:>8}  {:<15}  {:>7}  LARGEST STEP", "ID", format!("{date} UTC"), "TOTAL");
    }
    for row in rows {
        journey(&mut text, row, date, width);
    }
    let _ = writeln!(text, "{}{}", if rows.is_empty() { "" } else { "\n" }, summary(rows, counts));
    text
}

fn journey(text: &mut String, row: &Row, date: &str, width: usize) {
    let id = format!("#{}", row.id);
    let time = day::under(date, row.start_utc.as_deref());
    let total = row.total_ns.map_or_else(|| "·".to_owned(), duration);
    let largest = row.largest.map_or_else(
        || "nothing measured".to_owned(),
        |step| {
            let took = if step.resolvable == Some(false) {
                format!("not resolvable, at most {}", duration(step.upper_ns.unwrap_or(step.ns)))
            } else if let (Some(lower_ns), Some(upper_ns)) = (step.lower_ns, step.upper_ns) {
                format!("{} ({} to {})", duration(step.ns), duration(lower_ns), duration(upper_ns))
            } else {
                duration(step.ns)
            };
            // Inside a node a packet is received, then sent.
            let passed = step.forwarder.checked_sub(1).and_then(|n| row.forwarders.get(n as usize));
            let passed = passed.filter(|_| step.from.direction() == Direction::Rx);
            if step.waited {
                format!("{took} waiting for retransmission")
            } else if step.tunnel > 0 {
                format!("{took} between {} and {} of the outer packet", step.from, step.to)
            } else if let Some(passed) = passed {
                format!("{took} forwarding at {}", passed.node)
            } else {
                format!("{took} between {} and {}", step.from, step.to)
            }
        },
    );
    // Writing into a String cannot fail.
    let _ = writeln!(text, "{id:>8}  {time:<15}  {total:>7}  {largest}");
    let mut parts = vec![row.route.flow(row.proto), row.route.processes(), size(row), row.verdict_text.clone()];
    if row.retransmits > 0 {
        parts.push(format!("sent again {}×{}", row.retransmits, reasons(row)));
    }
    match row.across {
        Across::Bounded { .. } if row.total_half_width_ns > 0 => {
            let unclear = if row.total_lower_ns == Some(0) { ", not resolvable from 0" } else { "" };
            let ends = row.total_lower_ns.zip(row.total_upper_ns);
            let interval = ends.map_or_else(String::new, |(lower_ns, upper_ns)| {
                format!(" {} to {}", duration(lower_ns), duration(upper_ns))
            });
            parts.push(format!("total{interval}: two clocks{unclear}"));
        }
        // The join also leaves out the time between two ends that are perhaps not those of one packet.
        Across::Apart if row.ambiguous => {
            parts.push(
                "no total: its ends may be of two packets, or nothing is known of their clocks".to_owned(),
            );
        }
        Across::Apart => parts.push("two clocks of which nothing is known".to_owned()),
        _ => {}
    }
    if let Some(wait) = row.head_of_line {
        parts.push(format!("{} {}", duration(wait.ns), wait.words));
    }
    if row.receive_window_ns > 0 {
        parts.push(format!("{} {}", duration(row.receive_window_ns), Part::ReceiveWindow.words()));
    }
    if row.ambiguous {
        parts.push("ambiguous: its times may be a neighbour's".to_owned());
    }
    pack(text, &parts, width);
    let arrives = row.route.arrives_as.map(|(from, to)| format!("arrives as {from}→{to}"));
    let passed: Vec<String> = row.forwarders.iter().map(|at| at.text.clone()).chain(arrives).collect();
    let inside: Vec<String> = row.tunnels.iter().map(|at| at.text.clone()).collect();
    for lines in [passed, inside] {
        if !lines.is_empty() {
            pack(text, &lines, width);
        }
    }
    if row.copies.iter().any(|copy| !copy.ended) {
        let copies: Vec<String> = row.copies.iter().map(|copy| copy.text.clone()).collect();
        pack(text, &copies, width);
    }
    let since = |ns: u64| match ns.checked_sub(row.start_ns.unwrap_or(ns)) {
        Some(after) => format!("+{}", duration(after)),
        None => "before".to_owned(),
    };
    for passed in row.probes.iter().take(MOST_ANNOTATIONS) {
        let place = passed.after.map_or_else(String::new, |hop| format!(" after {hop}"));
        let line = format!("{}{place} {} {}", passed.probe, since(passed.time_ns), passed.text);
        pack(text, &[line.trim_end().to_owned()], width);
    }
    for head in row.heads.iter().take(MOST_ANNOTATIONS) {
        let (stored, of) = (head.bytes.len(), head.of_bytes);
        let line = format!("head at {} {}: {stored} of {of} bytes", head.hop, since(head.time_ns));
        pack(text, &[line], width);
        for line in &head.dump {
            let line = format!("    {line}");
            text.extend(line.chars().take(width));
            text.push('\n');
        }
    }
    let left =
        [row.probes.len(), row.heads.len()].map(|n| n.saturating_sub(MOST_ANNOTATIONS)).iter().sum::<usize>();
    if left > 0 {
        pack(text, &[format!("and {left} more probes and heads (`--json` has them)")], width);
    }
}

/// Causes of retransmissions from the kernel: ` (timeout, fast)`.
fn reasons(row: &Row) -> String {
    let reported = row.copies.iter().map(|copy| copy.kind).filter(|kind| *kind != Resend::Unknown);
    let names: Vec<_> = reported.map(Resend::name).collect();
    if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) }
}

/// Number of bytes, and for a stream its range in sequence numbers as on the wire.
fn size(row: &Row) -> String {
    let amount = bytes(row.bytes);
    let amount = amount.split_whitespace().collect::<Vec<_>>().join(" ");
    if row.proto == Proto::TCP { format!("{amount} from seq {}", row.range.start as u32) } else { amount }
}

/// Fills lines with parts.
fn pack(text: &mut String, parts: &[String], width: usize) {
    let mut at = 0;
    for part in parts {
        let columns = part.chars().count();
        if at > 0 && at + 3 + columns <= width {
            text.push_str(" · ");
            at += 3;
        } else {
            text.push_str(if at > 0 { "\n" } else { "" });
            text.push_str(INDENT);
            at = INDENT.len();
        }
        let room = width.saturating_sub(at);
        if columns <= room {
            text.push_str(part);
        } else {
            text.extend(part.chars().take(room.saturating_sub(1)));
            text.push('…');
        }
        at += columns.min(room);
    }
    text.push('\n');
}

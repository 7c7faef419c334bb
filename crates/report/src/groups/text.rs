//! The table of groups as text: a line of figures, then the owner.

use super::{Figures, GroupRow, GroupTable, Label};
use crate::figures::{beyond_bound, bytes, count, count_in, fit, plural, rate, time, wrap};
use std::fmt::{self, Write};

/// Columns of the figures after the name.
const FIGURES: usize = 55;
/// Indentation of the text below them.
const INDENT: &str = "    ";

/// The table.
pub fn write(out: &mut String, table: &GroupTable, width: usize) -> fmt::Result {
    let name_width = width.saturating_sub(FIGURES).clamp(12, 60);
    writeln!(
        out,
        "\n{:<name_width$} {:>8} {:>9} {:>8} {:>8} {:>8} {:>8}",
        format!("by {}", table.by),
        "bytes",
        "journeys",
        "p50",
        "p99",
        "p99.9",
        "max"
    )?;
    for row in &table.rows {
        let (name, more) = names(row);
        figures(out, &name, &row.figures, name_width)?;
        let mut notes = Vec::new();
        notes.extend(more);
        notes.extend(words(&row.figures));
        if row.may_be_more {
            notes.push("part of it may be among the others".to_owned());
        }
        wrap(out, &format!("{INDENT}{}", notes.join(", ")), width, INDENT)?;
    }
    if table.others > 0 {
        let many = plural(table.others, "other", "others");
        figures(out, &many, &table.rest, name_width)?;
        let notes = words(&table.rest).join(", ");
        wrap(out, &format!("{INDENT}with fewer bytes, added up, {notes}"), width, INDENT)?;
    }
    if let Some(words) = beyond_bound(table.bound, table.rows.len(), "groups", "bytes") {
        wrap(out, &words, width, INDENT)?;
    }
    if table.rows.iter().any(|row| row.role.is_some()) {
        let twice = "Each journey counts twice: where it was sent and where it was read.";
        wrap(out, twice, width, "")?;
    }
    Ok(())
}

fn figures(out: &mut String, name: &str, figures: &Figures, name_width: usize) -> fmt::Result {
    let times = figures
        .total
        .map_or_else(|| ["·"; 4].map(str::to_owned), |q| [q.p50_ns, q.p99_ns, q.p999_ns, q.max_ns].map(time));
    write!(out, "{:<name_width$} ", fit(name, name_width))?;
    write!(out, "{} {}", bytes(figures.bytes), count_in(figures.journeys, 9))?;
    times.iter().try_for_each(|time| write!(out, " {time:>8}"))?;
    writeln!(out)
}

/// The name of a group, and further details of its owner.
fn names(row: &GroupRow) -> (String, Option<String>) {
    let role = row.role.map(|role| role.name().to_owned());
    let name = row.label.words();
    let (name, more) = match &row.label {
        Label::Flow(ends) => {
            let arrival = ends.arrival().map_or_else(String::new, |arrival| format!(", {arrival}"));
            let more = format!("→ {} ({}){arrival}", ends.to, ends.route());
            (format!("{} {name}", ends.proto), Some(more))
        }
        Label::Process { pid, other_names, .. } => {
            let verb = role.unwrap_or_default();
            let others = if *other_names { ", threads of several names" } else { "" };
            (name, Some(format!("{verb}, process {pid}{others}")))
        }
        Label::Cgroup { id, path } if !path.is_empty() => {
            (name, Some(format!("{}, {path}, cgroup {id}", role.unwrap_or_default())))
        }
        _ => (name, role),
    };
    (row.proto.map_or_else(|| name.clone(), |proto| format!("{proto} {name}")), more)
}

/// Rate, denominator of the times, blame.
fn words(figures: &Figures) -> Vec<String> {
    let per_s = figures.bytes_per_s.map(|per_s| rate(per_s, figures.estimated).trim().to_owned());
    let mut words = vec![per_s.unwrap_or_else(|| "rate unknown: single events were left out".to_owned())];
    if figures.retransmits > 0 {
        words.push(format!("{} resent", count(figures.retransmits)));
    }
    if figures.whole < figures.journeys {
        let left = figures.left_out.iter().map(|left| format!("{} {}", count(left.journeys), left.because));
        let left = left.collect::<Vec<_>>().join(", ");
        words.push(format!("times of {} (left out: {left})", count(figures.whole)));
    }
    if let Some(most) = figures.blame.first() {
        words.push(format!("{:.0} % {}", most.share * 100.0, most.part.words()));
    }
    words
}

//! The table of exchanges as text: a line of figures for each group, then where the time of its slowest goes.

use super::{GradeCounts, RequestRow, RequestTable, RequestsBy};
use crate::figures::{beyond_bound, bytes, count, count_in, fit, percent_of, plural, time, wrap};
use magscope_core::exchange::Grade;
use std::fmt::{self, Write};

/// Columns of the figures after the name.
const FIGURES: usize = 45;
const INDENT: &str = "    ";
/// Smallest share of a part that is printed.
const SHOWN: f64 = 0.01;
/// Number of parts in a line.
const PARTS: usize = 5;

/// Writes the table.
pub fn write_requests(out: &mut String, table: &RequestTable, width: usize) -> fmt::Result {
    let all = table.grades.total();
    let turns = table.grades.turn;
    let (share, has_decimal) = percent_of(if all == 0 { 0.0 } else { turns as f64 / all as f64 });
    let decimals = usize::from(has_decimal);
    let title = format!(
        "turns: {} of {} ({share:.decimals$} %); times are theirs alone{}",
        count(turns),
        plural(all, "exchange", "exchanges"),
        others(table.grades)
    );
    wrap(out, &title, width, INDENT)?;
    if table.rows.is_empty() {
        return Ok(());
    }
    let name_width = width.saturating_sub(FIGURES).clamp(12, 60);
    writeln!(
        out,
        "\n{:<name_width$} {:>8} {:>8} {:>8} {:>9} {:>6}",
        format!("by {}", table.by.name()),
        "p50",
        "p99",
        "max",
        "exchanges",
        "turns"
    )?;
    let (transfers, answered): (Vec<_>, Vec<_>) = table.rows.iter().partition(|row| is_transfer(row));
    for row in answered {
        write_row(out, row, table.by, width, name_width)?;
        wrap(out, &format!("{INDENT}{}", notes(row)), width, INDENT)?;
    }
    if !transfers.is_empty() {
        let bytes_sent = bytes(transfers.iter().map(|row| row.request_bytes).sum());
        let groups = plural(transfers.len() as u64, "group", "groups");
        writeln!(out, "{groups} with bytes in one direction alone, {} in all", bytes_sent.trim())?;
    }
    if table.others > 0 {
        let rest = plural(table.rest.total(), "exchange", "exchanges");
        writeln!(out, "{} with {rest}", plural(table.others, "other group", "other groups"))?;
    }
    if let Some(words) = beyond_bound(table.bound, table.rows.len(), "groups", "exchanges") {
        wrap(out, &words, width, INDENT)?;
    }
    Ok(())
}

/// True for bytes in one direction alone: there is no exchange of any grade. A broken one may be a request.
fn is_transfer(row: &RequestRow) -> bool {
    row.grades.total() == 0
}

/// The counts of the other grades: `; 12 overlapped, 3 broken`.
fn others(grades: GradeCounts) -> String {
    let of = |grade: Grade| (grade != Grade::Turn && grades.of(grade) > 0).then(|| (grades.of(grade), grade));
    let listed: Vec<String> =
        Grade::ALL.into_iter().filter_map(of).map(|(n, grade)| format!("{} {grade}", count(n))).collect();
    if listed.is_empty() { String::new() } else { format!("; {}", listed.join(", ")) }
}

fn write_row(
    out: &mut String,
    row: &RequestRow,
    by: RequestsBy,
    width: usize,
    name_width: usize,
) -> fmt::Result {
    let mut label = row.label();
    // Both addresses have their ports at the end, so a long pair has lines of its own.
    if by == RequestsBy::Flow && label.chars().count() > name_width {
        wrap(out, &label, width, INDENT)?;
        label.clear();
    }
    let quantiles = row.times();
    let times =
        quantiles.map_or_else(|| ["·"; 3].map(str::to_owned), |q| [q.p50_ns, q.p99_ns, q.max_ns].map(time));
    write!(out, "{:<name_width$}", fit(&label, name_width))?;
    times.iter().try_for_each(|time| write!(out, " {time:>8}"))?;
    let all = row.grades.total();
    let share = row.grades.turn as f64 / all.max(1) as f64 * 100.0;
    writeln!(out, " {} {share:>4.0} %", count_in(all, 9))
}

fn notes(row: &RequestRow) -> String {
    let mut notes = Vec::new();
    notes.extend(row.times_note());
    let shares = row.slowest.iter().filter(|part| part.share >= SHOWN).take(PARTS);
    let shares: Vec<String> = shares.map(|part| format!("{} {:.0} %", part.part, part.share * 100.0)).collect();
    if !shares.is_empty() {
        notes.push(format!("slowest: {}", shares.join(", ")));
    }
    let trim = |n: u64| bytes(n).split_whitespace().collect::<Vec<_>>().join(" ");
    notes.push(format!("{} asked, {} answered", trim(row.request_bytes), trim(row.response_bytes)));
    if row.retransmits > 0 {
        notes.push(plural(row.retransmits, "retransmission", "retransmissions"));
    }
    if row.asked_again > 0 {
        notes.push(format!("{} asked again", plural(row.asked_again, "request", "requests")));
    }
    if row.may_be_more {
        notes.push("part of it may be among the others".to_owned());
    }
    notes.join("; ") + &others(row.grades)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::{MOST, RequestSums, RequestsBy};
    use magscope_core::flow::Proto;

    #[test]
    fn bytes_in_one_direction_alone_are_no_row_and_broken_exchanges_are_one() {
        let text = |grade: Grade| {
            let mut sums = RequestSums::new(RequestsBy::Service);
            let name = ":9000 server".to_owned();
            let sum = sums.groups.entry((Proto::TCP, name.clone()));
            (sum.proto, sum.name, sum.request_bytes) = (Proto::TCP, name, 5_000);
            sum.grades.count(grade);
            let mut text = String::new();
            write_requests(&mut text, &sums.table(9), 80).expect("a String takes all");
            text
        };
        let transfer = text(Grade::Unidirectional);
        assert!(transfer.contains("1 group with bytes in one direction alone, 5.00 kB in all"), "{transfer}");
        assert!(!transfer.contains("tcp :9000 server"), "{transfer}");
        for grade in Grade::ALL.into_iter().filter(|grade| grade.is_exchange()) {
            let row = text(grade);
            assert!(row.contains("tcp :9000 server") && !row.contains("in one direction"), "{grade}: {row}");
        }
    }

    #[test]
    fn a_flow_has_both_ports_however_long_its_addresses_are() {
        let short = "10.91.1.1:42150 → 10.91.1.2:80";
        let long = "[2001:db8:aaaa:bbbb:cccc:dddd:eeee:1]:42150 → [2001:db8:aaaa:bbbb:cccc:dddd:eeee:2]:8080";
        for (name, width) in [(short, 80), (short, 60), (long, 80), (long, 120)] {
            let mut sums = RequestSums::new(RequestsBy::Flow);
            let sum = sums.groups.entry((Proto::TCP, name.to_owned()));
            (sum.proto, sum.name) = (Proto::TCP, name.to_owned());
            sum.grades.count(Grade::Turn);
            let mut text = String::new();
            write_requests(&mut text, &sums.table(9), width).expect("a String takes all");
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains(&format!("tcp {name} ")), "{width}: {text}");
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
        }
    }

    #[test]
    fn tables_of_more_groups_than_are_remembered_say_so() {
        let text = |by, groups: usize| {
            let mut sums = RequestSums::new(by);
            // A group returns after it was evicted, maybe.
            for number in (0..groups).chain(0..groups.saturating_sub(MOST).min(1)) {
                let name = format!("group {number}");
                let sum = sums.groups.entry((Proto::TCP, name.clone()));
                (sum.proto, sum.name, sum.response_bytes) = (Proto::TCP, name, 1);
                sum.grades.count(Grade::Turn);
            }
            let table = sums.table(MOST);
            let mut text = String::new();
            write_requests(&mut text, &table, 80).expect("a String takes all");
            (table, text.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        for by in RequestsBy::ALL {
            let (table, words) = text(by, MOST);
            assert_eq!((table.others, table.bound), (0, None), "{by}");
            assert!(!words.contains("remembered") && !words.contains("among the others"), "{by}");
            let (table, words) = text(by, 2 * MOST);
            assert_eq!(table.bound, Some(MOST as u64), "{by}");
            assert!(table.rows.iter().any(|row| row.may_be_more) && table.others > 0, "{by}");
            assert!(words.contains("shown of at most 2 048 groups that are remembered"), "{by}: {words}");
            assert!(words.contains("part of it may be among the others"), "{by}");
        }
    }
}

//! The flows, or groups of them: ends, rates, and blame.

use crate::draw::Extras;
use crate::draw::canvas::{Canvas, width};
use crate::draw::grid::{Column, GAP, Grid, GridRow, MARGINS, number, words};
use crate::draw::shade::{bar, spark_of};
use magscope_scope::format::{amount, bit_rate, bytes, count, counted, duration, percent, rate};
use magscope_scope::look::{FlowOrder, FlowRow, FlowTable};
use magscope_scope::{Frame, GroupBy};
use ratatui::layout::Rect;
use ratatui::style::Style;

/// What a column shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shows {
    Name,
    Processes,
    Place,
    Flows,
    Journeys,
    Failed,
    Resent,
    Bytes,
    P50,
    P99,
    Max,
    Cause,
    Share,
    Trend,
    Broken,
    SummedPackets,
    SummedBytes,
    PacketRate,
    BitRate,
}

/// Minimum and maximum width of the names of flows, before other columns get room.
const NAME: (u16, u16) = (24, 34);
/// Maximum width of the names of groups, before other columns get room.
const GROUP: u16 = 28;
/// Minimum width of a cause.
const CAUSE: u16 = 24;
/// Width of the 99th percentile, and of the number of failures.
const P99: u16 = 7;
const FAILED: u16 = 6;

/// The columns of a table in an area of this width. At 80 columns there is the cause, which the view is for: a name that is
/// longer than the rest is shortened, and the last line has all of the selected one.
fn columns(table: &FlowTable, is_alone: bool, room: u16) -> Vec<(Shows, Column)> {
    let is_flow = table.by == GroupBy::Flow;
    let names = table.rows.iter().map(|row| width(&row.name("→"))).max().unwrap_or(0);
    let causes = table.rows.iter().map(|row| width(&cause(row))).max().unwrap_or(0);
    // Failures come before a complete cause, and their absence does not.
    let failures = if table.rows.iter().any(|row| row.bad > 0) { 1 } else { 3 };
    let needed = MARGINS + P99 + GAP + causes.max(CAUSE) + GAP + if failures == 1 { FAILED + GAP } else { 0 };
    let most = if is_flow { NAME.1 } else { GROUP };
    let most = if is_alone { most } else { most.min(room.saturating_sub(needed)) };
    let name = words(table.by.name(), names.min(most).max(NAME.0), 2, 0).with_complete(names);
    let name = (Shows::Name, name);
    if is_alone {
        return vec![
            name,
            (Shows::Place, words("at", 12, 1, 5)),
            (Shows::SummedPackets, number("Σ packets", 9, 2)),
            (Shows::SummedBytes, number("Σ bytes", 7, 1)),
            (Shows::PacketRate, number("packets, lately", 15, 4)),
            (Shows::BitRate, number("Σ lately", 9, 3)),
        ];
    }
    let mut columns = vec![name];
    if !is_flow {
        columns.push((Shows::Flows, number("flows", 6, 4)));
    }
    columns.extend([
        (Shows::Processes, words("processes", 19, 1, 6)),
        (Shows::Journeys, number("journeys", 6, 5)),
        (Shows::Failed, number("failed", FAILED, failures)),
        (Shows::Resent, number("resent", 6, 8)),
        (Shows::Bytes, number("bytes", 7, 7)),
        (Shows::P50, number("p50", 7, 9)),
        (Shows::P99, number("p99", P99, 1)),
        (Shows::Max, number("max", 7, 10)),
        (Shows::Cause, words("most of its time", CAUSE, 1, 2).with_longest(causes)),
        (Shows::Share, words("share", 8, 0, 11)),
        (Shows::Trend, words("longest, lately", 20, 1, 12)),
        (Shows::Broken, number("broken", 6, 13)),
    ]);
    if table.summed {
        // At the end, with priority right after the name: a flow without journeys has nothing else.
        columns.iter_mut().filter(|(_, column)| column.need > 0).for_each(|(_, column)| column.need += 2);
        columns.extend([
            (Shows::SummedPackets, number("Σ packets", 9, 2)),
            (Shows::SummedBytes, number("Σ bytes", 7, 1)),
        ]);
    }
    columns
}

/// Rows of the table. The last line has the order, and what has no row.
pub fn rows(area: Rect) -> usize {
    usize::from(area.height.saturating_sub(2))
}

fn shown_columns(table: &FlowTable, room: u16) -> (Vec<Shows>, Vec<Column>) {
    let is_alone = table.summed && table.rows.iter().all(|row| row.journeys == 0);
    columns(table, is_alone, room).into_iter().unzip()
}

/// The order by the column whose title is at position `x` of the area.
pub fn order_at(frame: &Frame, area: Rect, x: u16) -> Option<FlowOrder> {
    let (_, columns) = shown_columns(&frame.flows(rows(area)), area.width);
    Grid::new(&columns, area).column_at(x).and_then(FlowOrder::by_column)
}

/// Draws the view.
pub fn draw(canvas: &mut Canvas, area: Rect, frame: &Frame, extras: &Extras) {
    let theme = canvas.theme;
    let rows = rows(area);
    let table = frame.flows(rows);
    let (shows, columns) = shown_columns(&table, area.width);
    let grid = Grid::new(&columns, area).ordered_by(table.order.column());
    grid.titles(canvas, 0);
    if table.rows.is_empty() {
        canvas.put(area, 2, 1, "no flow yet", theme.dim);
        return;
    }
    for (y, row) in table.rows.iter().take(rows).enumerate() {
        let y = y as u16 + 1;
        let style = if row.selected { theme.selected } else { theme.plain };
        if row.selected {
            grid.mark(canvas, y);
        }
        let mut cells = grid.row(y);
        for (at, shown) in shows.iter().enumerate() {
            let width = grid.place(at).map_or(0, |(_, width)| usize::from(width));
            cell(&mut cells, at, *shown, row, style, canvas, width);
        }
        cells.draw(canvas);
    }
    let last = area.height.saturating_sub(1);
    // A name that is shortened in its row is whole here, and comes before the notes.
    let selected = table.rows.iter().find(|row| row.selected).map(|row| row.name("→"));
    let room = grid.place(0).map_or(0, |(_, width)| width);
    let whole = selected.filter(|name| width(name) > room).unwrap_or_default();
    canvas.put_cut(area, 2, last, area.width.saturating_sub(3), &whole, theme.plain);
    let words = notes(&table, frame, extras);
    let left = area.width.saturating_sub(1 + if whole.is_empty() { 0 } else { 2 + width(&whole) });
    if width(&words) <= left || whole.is_empty() {
        canvas.put_right(area, area.width.saturating_sub(1), last, &words, theme.dim);
    }
}

/// Order and grouping, and what has no row.
fn notes(table: &FlowTable, frame: &Frame, extras: &Extras) -> String {
    let mut words = format!(" by {} ", table.order.words());
    if let Some(within) = &frame.controls.within {
        words = format!(" flows of {} ({}: back) ·{words}", within.words, extras.key_of("back"));
    } else if table.by == GroupBy::Flow && table.left_out > 0 {
        words = format!(" {}: by service ·{words}", extras.key_of("group"));
    }
    if table.left_out > 0 {
        words = format!(
            " {} of others are counted, not listed ·{words}",
            counted(table.left_out, "journey", "journeys")
        );
    }
    if table.packets_left_out > 0 {
        words =
            format!(" {} packets of others are counted, not listed ·{words}", count(table.packets_left_out));
    }
    if table.summed {
        words = format!(" Σ added up by the kernel ·{words}");
    }
    words
}

fn cell(
    cells: &mut GridRow<'_>,
    at: usize,
    shown: Shows,
    row: &FlowRow,
    style: Style,
    canvas: &Canvas,
    width: usize,
) {
    let theme = canvas.theme;
    let counted = |n: u64, loud: Style| (amount(n), if n > 0 { loud } else { theme.dim });
    let time = |ns: u64| if row.times.n > 0 { (duration(ns), style) } else { ("·".to_owned(), theme.dim) };
    let or_dot = |name: &str| if name.is_empty() { "·".to_owned() } else { name.to_owned() };
    let summed = row.summed;
    let (text, style) = match shown {
        Shows::Name => (row.name_within("→", width), style),
        Shows::Place => (row.route.clone(), style),
        Shows::Processes => (format!("{}→{}", or_dot(&row.processes.0), or_dot(&row.processes.1)), style),
        Shows::Flows => (row.group.as_ref().map_or_else(String::new, |group| amount(group.flows)), style),
        Shows::SummedPackets => (summed.map_or_else(String::new, |sum| amount(sum.packets)), style),
        Shows::SummedBytes => (summed.map_or_else(String::new, |sum| bytes(sum.bytes)), style),
        Shows::PacketRate => (summed.map_or_else(String::new, |sum| rate(sum.packets_per_s)), style),
        Shows::BitRate => (summed.map_or_else(String::new, |sum| bit_rate(sum.bytes_per_s)), style),
        // A flow of which the kernel's sums are the only data.
        Shows::Cause | Shows::Share | Shows::Trend if row.journeys == 0 => return,
        _ if row.journeys == 0 => ("·".to_owned(), theme.dim),
        Shows::Journeys => (amount(row.journeys), style),
        Shows::Failed => counted(row.bad, theme.bad),
        Shows::Resent => counted(row.resent, theme.series[0]),
        Shows::Broken => (amount(row.broken), theme.dim),
        Shows::Bytes => (bytes(row.bytes), style),
        Shows::P50 => time(row.times.p50_ns),
        Shows::P99 => time(row.times.p99_ns),
        Shows::Max => time(row.times.max_ns),
        Shows::Cause => (cause(row), style),
        Shows::Share => {
            let Some((_, share)) = row.blame else { return };
            (bar(share, 8), theme.series[5])
        }
        Shows::Trend => (trend(row, width), theme.series[4]),
    };
    cells.put(at, &text, style);
}

/// The part with most of the time, and its share.
fn cause(row: &FlowRow) -> String {
    row.blame.map_or_else(String::new, |(part, share)| format!("{} {}", part.words(), percent(share).trim()))
}

/// The longest journeys of the latest stretches.
fn trend(row: &FlowRow, width: usize) -> String {
    let most = row.trend_max_ns.iter().copied().max().unwrap_or(0) as f64;
    let from = row.trend_max_ns.len().saturating_sub(width);
    row.trend_max_ns.iter().skip(from).map(|ns| spark_of(*ns as f64 / most)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::blame::Part;

    /// A table of one flow with the longest cause.
    fn table(bad: u64) -> FlowTable {
        let end = |text: &str| text.parse().unwrap();
        let row = FlowRow {
            ends: Some((end("10.0.0.1:40000"), end("10.0.0.2:5201"))),
            journeys: 9,
            bad,
            blame: Some((Part::Retransmission, 1.0)),
            ..FlowRow::default()
        };
        FlowTable { rows: vec![row], ..FlowTable::default() }
    }

    /// Width of a column on a screen of this width; 0 without one.
    fn width_of(table: &FlowTable, shows: Shows, screen: u16) -> u16 {
        let (all, columns) = shown_columns(table, screen);
        let at = all.iter().position(|other| *other == shows).unwrap();
        Grid::new(&columns, Rect::new(0, 0, screen, 24)).place(at).map_or(0, |(_, width)| width)
    }

    #[test]
    fn a_cause_is_complete_before_other_columns_have_room() {
        let table = table(0);
        for screen in 80..200 {
            assert!(width_of(&table, Shows::Cause, screen) >= width(&cause(&table.rows[0])), "{screen}");
        }
    }

    #[test]
    fn a_long_name_leaves_room_for_the_cause() {
        let mut table = table(0);
        let end = |text: &str| text.parse().unwrap();
        table.rows[0].ends = Some((end("[fd00:1234:5678::1]:40000"), end("[fd00:1234:5678::2]:5201")));
        for screen in 80..200 {
            assert!(width_of(&table, Shows::Cause, screen) >= width(&cause(&table.rows[0])), "{screen}");
            assert!(width_of(&table, Shows::Name, screen) >= NAME.0);
        }
    }

    #[test]
    fn failures_are_at_80_columns() {
        assert_eq!(width_of(&table(1), Shows::Failed, 80), 6);
        assert!(width_of(&table(1), Shows::Cause, 80) >= 24);
    }
}

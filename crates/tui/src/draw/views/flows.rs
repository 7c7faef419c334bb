//! The flows: endpoints, rates, and blame.

use crate::draw::canvas::Canvas;
use crate::draw::grid::{Column, Grid, number, words};
use crate::draw::shade::{bar, spark_of};
use magscope_scope::Frame;
use magscope_scope::format::{amount, bit_rate, bytes, count, duration, percent, rate};
use magscope_scope::look::{FlowOrder, FlowRow};
use ratatui::layout::Rect;
use ratatui::style::Style;

const COLUMNS: &[Column] = &[
    words("flow", 34, 2, 0),
    words("processes", 19, 1, 6),
    number("journeys", 6, 3),
    number("failed", 6, 2),
    number("resent", 6, 8),
    number("bytes", 7, 5),
    number("p50", 7, 7),
    number("p99", 7, 1),
    number("max", 7, 9),
    words("most of its time", 24, 1, 4),
    words("share", 8, 0, 10),
    words("longest, lately", 20, 1, 11),
    number("broken", 6, 12),
];

/// Columns with the kernel's sums in addition to journeys: at the end, with priority right after the flow.
fn kernel_columns() -> Vec<Column> {
    let later = |column: &Column| Column { need: if column.need > 0 { column.need + 2 } else { 0 }, ..*column };
    COLUMNS.iter().map(later).chain([number("Σ packets", 9, 2), number("Σ bytes", 7, 1)]).collect()
}

/// Columns for the kernel's sums alone.
const ALONE: &[Column] = &[
    words("flow", 34, 2, 0),
    words("at", 12, 1, 5),
    number("Σ packets", 9, 2),
    number("Σ bytes", 7, 1),
    number("packets, lately", 15, 4),
    number("Σ lately", 9, 3),
];

/// Draws the view.
pub fn draw(canvas: &mut Canvas, area: Rect, frame: &Frame) {
    let theme = canvas.theme;
    let table = frame.flows(usize::from(area.height.saturating_sub(1)));
    let alone = table.summed && table.rows.iter().all(|row| row.journeys == 0);
    let columns = match (table.summed, alone) {
        (false, _) => COLUMNS.to_vec(),
        (_, false) => kernel_columns(),
        _ => ALONE.to_vec(),
    };
    let grid = Grid::new(&columns, area);
    grid.titles(canvas, 0);
    if table.rows.is_empty() {
        canvas.put(area, 2, 1, "no flow yet", theme.dim);
        return;
    }
    for (y, row) in table.rows.iter().take(usize::from(area.height.saturating_sub(1))).enumerate() {
        if alone {
            summed(canvas, &grid, y as u16 + 1, row);
        } else {
            one(canvas, &grid, y as u16 + 1, row);
        }
    }
    let mut words = format!(" by {} ", order(table.order));
    if table.left_out > 0 {
        words = format!(" {} journeys of others are counted, not listed ·{words}", count(table.left_out));
    }
    if table.packets_left_out > 0 {
        words =
            format!(" {} packets of others are counted, not listed ·{words}", count(table.packets_left_out));
    }
    if table.summed {
        words = format!(" Σ added up by the kernel ·{words}");
    }
    canvas.put_right(area, area.width.saturating_sub(1), area.height.saturating_sub(1), &words, theme.dim);
}

const fn order(order: FlowOrder) -> &'static str {
    match order {
        FlowOrder::Blame => "time in all",
        FlowOrder::P99 => "p99",
        FlowOrder::Bytes => "bytes",
        FlowOrder::Journeys => "journeys",
        FlowOrder::Bad => "what went wrong",
    }
}

/// A flow with the kernel's sums only.
fn summed(canvas: &mut Canvas, grid: &Grid, y: u16, row: &FlowRow) {
    let style = begin(canvas, grid, y, row);
    grid.put(canvas, 1, y, &row.route, style);
    let Some(summed) = row.summed else { return };
    grid.put(canvas, 2, y, &amount(summed.packets), style);
    grid.put(canvas, 3, y, &bytes(summed.bytes), style);
    grid.put(canvas, 4, y, &rate(summed.packets_per_s), style);
    grid.put(canvas, 5, y, &bit_rate(summed.bytes_per_s), style);
}

/// Selection mark and name.
fn begin(canvas: &mut Canvas, grid: &Grid, y: u16, row: &FlowRow) -> Style {
    let style = if row.selected { canvas.theme.selected } else { canvas.theme.plain };
    if row.selected {
        grid.mark(canvas, y);
    }
    let ends = row.ends.map_or_else(|| row.route.clone(), |(from, to)| format!("{from}→{to}"));
    grid.put(canvas, 0, y, &format!("{} {ends}", row.proto), style);
    style
}

fn one(canvas: &mut Canvas, grid: &Grid, y: u16, row: &FlowRow) {
    let theme = canvas.theme;
    let style = begin(canvas, grid, y, row);
    if row.journeys == 0 {
        (2..=8).for_each(|at| grid.put(canvas, at, y, "·", theme.dim));
    }
    let or_dot = |name: &str| if name.is_empty() { "·".to_owned() } else { name.to_owned() };
    let (sender, reader) = &row.processes;
    grid.put(canvas, 1, y, &format!("{}→{}", or_dot(sender), or_dot(reader)), style);
    if let Some(summed) = row.summed {
        grid.put(canvas, 13, y, &amount(summed.packets), style);
        grid.put(canvas, 14, y, &bytes(summed.bytes), style);
    }
    if row.journeys == 0 {
        return; // no other data
    }
    grid.put(canvas, 2, y, &amount(row.journeys), style);
    grid.put(canvas, 3, y, &amount(row.bad), if row.bad > 0 { theme.bad } else { theme.dim });
    grid.put(canvas, 4, y, &amount(row.resent), if row.resent > 0 { theme.series[0] } else { theme.dim });
    grid.put(canvas, 5, y, &bytes(row.bytes), style);
    for (at, ns) in [(6, row.times.p50_ns), (7, row.times.p99_ns), (8, row.times.max_ns)] {
        if row.times.n > 0 {
            grid.put(canvas, at, y, &duration(ns), style);
        } else {
            grid.put(canvas, at, y, "·", theme.dim);
        }
    }
    if let Some((part, share)) = row.blame {
        grid.put(canvas, 9, y, &format!("{} {}", percent(share).trim_start(), part.words()), style);
        grid.put(canvas, 10, y, &bar(share, 8), theme.series[5]);
    }
    if let Some((_, width)) = grid.place(11) {
        let most = row.trend_max_ns.iter().copied().max().unwrap_or(0) as f64;
        let from = row.trend_max_ns.len().saturating_sub(usize::from(width));
        let trend: String = row.trend_max_ns.iter().skip(from).map(|ns| spark_of(*ns as f64 / most)).collect();
        grid.put(canvas, 11, y, &trend, theme.series[4]);
    }
    grid.put(canvas, 12, y, &amount(row.broken), theme.dim);
}

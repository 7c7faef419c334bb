//! The hops: latency of every pair as a heat map, logarithmic latency upwards, time to the right.
//!
//! Every pair has a row; the selected one gets the remaining height to show its distribution. The kernel's sums
//! have a separate heading, because their times are not those of journeys.

use crate::draw::SELECTED;
use crate::draw::canvas::{Canvas, width};
use crate::draw::shade::{shade, spark, step};
use magscope_scope::Frame;
use magscope_scope::format::{SUMMED, amount, duration, short_duration};
use magscope_scope::look::{HeatMap, HeatRow, SumMap};
use ratatui::layout::Rect;
use std::iter::repeat;

/// Width of the pair names: on a narrow screen that of most, else that of all.
const LABELS: (u16, u16) = (28, 34);
/// Minimum width of the screen for the wider.
const WIDE: u16 = 110;
/// Width of a number with its gap.
const NUMBER: u16 = 9;
/// Minimum width of the picture.
const NARROWEST: u16 = 28;
/// Maximum additional rows of the selected pair.
const MORE: u16 = 8;
/// Number of latency classes: the resolution of the tallest row.
const CLASSES: usize = 24;

const fn labels(width: u16) -> u16 {
    if width < WIDE { LABELS.0 } else { LABELS.1 }
}

/// Draws the view.
pub fn draw(canvas: &mut Canvas, area: Rect, frame: &Frame) {
    let theme = canvas.theme;
    let numbers = numbers_width(area.width);
    let width = area.width.saturating_sub(labels(area.width) + numbers + 1);
    let map = frame.heat_map(usize::from(width), CLASSES);
    titles(canvas, area, frame, &map, width);
    let below = probes(canvas, area, frame, width);
    let area = Rect { height: area.height - below, ..area };
    let sums = frame.sum_map(usize::from(width), CLASSES);
    let rows: Vec<_> = [&map, &sums.map].into_iter().flat_map(|map| map.rows.iter().zip(repeat(map))).collect();
    if rows.is_empty() {
        let sums = "nothing was added up in this stretch";
        canvas.put(area, 2, 1, if frame.footer.sums { sums } else { "no journey yet" }, theme.dim);
        return;
    }
    let selected = frame.controls.row.min(rows.len() - 1);
    let rule = u16::from(!sums.map.rows.is_empty());
    let heights = heights(area.height.saturating_sub(1 + rule), rows.len(), selected);
    let mut y = 1;
    for (at, ((row, of), height)) in rows.iter().zip(heights).enumerate() {
        if rule > 0 && at == map.rows.len() {
            summed(canvas, Rect { y: area.y + y, height: 1, ..area }, &sums);
            y += 1;
        }
        if height > 0 {
            let place = Rect { y: area.y + y, height, ..area };
            one(canvas, place, row, of, at == selected, width);
        }
        y += height;
    }
}

/// Heading of the rows below.
fn summed(canvas: &mut Canvas, area: Rect, sums: &SumMap) {
    let (grid, dim) = (canvas.theme.grid, canvas.theme.dim);
    canvas.rule(area, 0, "─", grid);
    let of = if sums.narrowed { ", of everything" } else { "" };
    let each = short_duration(sums.interval_ns);
    let long = format!(
        " {SUMMED} added up by the kernel{of}, {each} at a time: times of packets and sockets, not of journeys "
    );
    let short = format!(" {SUMMED} by the kernel{of}, {each} each: of packets and sockets, not journeys ");
    let room = area.width.saturating_sub(2);
    let words = [long, short.clone()].into_iter().find(|words| width(words) <= room).unwrap_or(short);
    canvas.put_cut(area, 1, 0, room, &words, dim);
}

/// Custom probes below the pairs, one row of hits over time each. Returns the number of rows: at most a third.
fn probes(canvas: &mut Canvas, area: Rect, frame: &Frame, width: u16) -> u16 {
    let theme = canvas.theme;
    let heats = frame.hit_heats(usize::from(width));
    let rows = (heats.len() as u16 + 1).min(area.height / 3);
    if heats.is_empty() || rows < 2 {
        return 0;
    }
    let area = Rect { y: area.bottom() - rows, height: rows, ..area };
    canvas.rule(area, 0, "─", theme.grid);
    let left_out = heats.len() - usize::from(rows - 1).min(heats.len());
    let more = if left_out > 0 { format!(" and {left_out} more") } else { String::new() };
    canvas.put(area, 1, 0, &format!(" hits of custom probes{more} "), theme.dim);
    for (y, heat) in (1..rows).zip(&heats) {
        canvas.put(area, 0, y, "◇", theme.dim);
        canvas.put_cut(area, 1, y, labels(area.width) - 2, &heat.probe.name, theme.plain);
        let most = heat.cells.iter().copied().max().unwrap_or(0) as f64;
        for (x, count) in heat.cells.iter().enumerate() {
            if let Some(step) = step(*count as f64, most) {
                let (glyph, style) = shade(theme, step);
                canvas.put(area, labels(area.width) + x as u16, y, glyph.encode_utf8(&mut [0; 4]), style);
            }
        }
        canvas.put_right(area, area.width.saturating_sub(1), y, &amount(heat.hits), theme.plain);
    }
    rows
}

/// Rows of each pair: equal, and more for the selected one. If not all fit, those around it.
fn heights(rows: u16, pairs: usize, selected: usize) -> Vec<u16> {
    let all = pairs as u16;
    if rows < all {
        let from = selected.saturating_sub(usize::from(rows) / 2).min(pairs - usize::from(rows));
        return (0..pairs).map(|at| u16::from((from..from + usize::from(rows)).contains(&at))).collect();
    }
    let each = (rows / all).min(4);
    let tall = (rows - each * (all - 1)).min(each + MORE);
    (0..pairs).map(|at| if at == selected { tall } else { each }).collect()
}

fn numbers_width(width: u16) -> u16 {
    let room = width.saturating_sub(labels(width) + NARROWEST + 1);
    (room / NUMBER).min(4) * NUMBER
}

fn titles(canvas: &mut Canvas, area: Rect, frame: &Frame, map: &HeatMap, width: u16) {
    let (grid, dim) = (canvas.theme.grid, canvas.theme.dim);
    canvas.rule(area, 0, "─", grid);
    canvas.put(area, 1, 0, " latency ↑ by time → ", dim);
    let span = short_duration(map.to_ns.saturating_sub(map.from_ns));
    let time = frame.time_of_day(map.from_ns);
    let with = |zone: &str| {
        format!(" {}{span} ", time.as_ref().map_or_else(String::new, |time| format!("{time}{zone} + ")))
    };
    // Without room, `UTC` is left out: a span without its unit would be useless.
    let words = Some(with(" UTC")).filter(|words| words.chars().count() <= usize::from(width));
    canvas.put_cut(area, labels(area.width), 0, width, &words.unwrap_or_else(|| with("")), dim);
    let mut x = labels(area.width) + width;
    for title in titles_of(numbers_width(area.width)) {
        x += NUMBER;
        canvas.put_right(area, x, 0, &format!(" {title}"), dim);
    }
}

/// The numbers that fit, in display order.
fn titles_of(width: u16) -> &'static [&'static str] {
    match width / NUMBER {
        0 => &[],
        1 => &["p99"],
        2 => &["p50", "p99"],
        3 => &["p50", "p99", "max"],
        _ => &["p50", "p99", "max", "n"],
    }
}

fn one(canvas: &mut Canvas, area: Rect, row: &HeatRow, map: &HeatMap, selected: bool, width: u16) {
    let theme = canvas.theme;
    let style = if selected { theme.selected } else { theme.plain };
    let name = row.words("→");
    let middle = area.height / 2;
    if selected {
        canvas.put(area, 0, middle, SELECTED, style);
    }
    canvas.put_cut(area, 1, middle, labels(area.width) - 2, &name, style);
    let picture = Rect { x: area.x + labels(area.width), width, ..area };
    if area.height == 1 {
        line(canvas, picture, row, map);
    } else {
        field(canvas, picture, row, map);
        scale(canvas, area, row, map);
    }
    let mut x = labels(area.width) + width;
    for title in titles_of(numbers_width(area.width)) {
        x += NUMBER;
        let text = match *title {
            _ if row.times.n == 0 => "·".to_owned(),
            "p50" => duration(row.times.p50_ns),
            "p99" => duration(row.times.p99_ns),
            "max" => duration(row.times.max_ns),
            _ => amount(row.times.n),
        };
        canvas.put_right(area, x, middle, &text, style);
    }
}

/// First and last class with data over the whole picture.
fn used(row: &HeatRow) -> Option<(usize, usize)> {
    let ends = |cells: &[u32]| {
        let any = |n: &u32| *n > 0;
        Some((cells.iter().position(any)?, cells.iter().rposition(any)?))
    };
    row.columns().filter_map(ends).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// One text row: height shows the longest latency, shade the count.
fn line(canvas: &mut Canvas, area: Rect, row: &HeatRow, map: &HeatMap) {
    let Some((first, last)) = used(row) else { return };
    let span = (last - first).max(1) as f64;
    for (x, column) in row.columns().enumerate().take(usize::from(area.width)) {
        let Some(longest) = column.iter().rposition(|n| *n > 0) else { continue };
        let total = column.iter().fold(0_u32, |sum, n| sum.saturating_add(*n));
        let Some(step) = step(f64::from(total), f64::from(map.max_count)) else { continue };
        let height = 1 + ((longest - first) as f64 / span * 7.0).round() as usize;
        let style = canvas.theme.density[step];
        canvas.put(area, x as u16, 0, spark(height).encode_utf8(&mut [0; 4]), style);
    }
}

/// Several text rows, each for some latency classes: shade shows the count.
fn field(canvas: &mut Canvas, area: Rect, row: &HeatRow, map: &HeatMap) {
    let Some((first, last)) = used(row) else { return };
    let classes = last - first + 1;
    let rows = usize::from(area.height);
    for y in 0..rows {
        // Row 0 is the top, with the longest latencies.
        let from = first + (rows - 1 - y) * classes / rows;
        let to = (first + (rows - y) * classes / rows).max(from + 1).min(last + 1);
        for (x, column) in row.columns().enumerate().take(usize::from(area.width)) {
            let cells = column.get(from..to).unwrap_or_default();
            let count = cells.iter().fold(0_u32, |sum, n| sum.saturating_add(*n));
            if let Some(step) = step(f64::from(count), f64::from(map.max_count)) {
                let (glyph, style) = shade(canvas.theme, step);
                canvas.put(area, x as u16, y as u16, glyph.encode_utf8(&mut [0; 4]), style);
            }
        }
    }
}

/// The longest and the shortest latency next to a tall row.
fn scale(canvas: &mut Canvas, area: Rect, row: &HeatRow, map: &HeatMap) {
    let Some((first, last)) = used(row) else { return };
    if area.height < 3 {
        return;
    }
    let dim = canvas.theme.dim;
    let edge = |at: usize| map.edges_ns.get(at).map(|ns| short_duration(*ns));
    for (y, at) in [(0, last + 1), (area.height - 1, first)] {
        if let Some(words) = edge(at) {
            canvas.put_right(area, labels(area.width) - 1, y, &words, dim);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_has_a_row_where_there_is_room_and_the_selected_one_always() {
        for rows in 1..80 {
            for pairs in 1..30_usize {
                for selected in [0, pairs / 2, pairs - 1] {
                    let heights = heights(rows, pairs, selected);
                    assert!(heights.iter().sum::<u16>() <= rows, "{rows} {pairs} {selected}");
                    assert!(heights[selected] >= 1);
                    assert!(rows < pairs as u16 || heights.iter().all(|height| *height >= 1));
                }
            }
        }
        assert_eq!(heights(18, 16, 3)[2..4], [1, 3]);
        assert_eq!(heights(56, 16, 0)[..2], [11, 3]);
    }
}

//! Requests: the services with their times, then the slowest requests as bars of their parts on one time axis each.

use crate::draw::SELECTED;
use crate::draw::canvas::Canvas;
use crate::draw::grid::{Column, Grid, number, words};
use magscope_core::exchange::ExchangePart;
use magscope_scope::Frame;
use magscope_scope::format::{bytes, count, duration, percent};
use magscope_scope::look::{RequestPanel, RequestPart, RequestRow, SlowRequest, slowest_parts};
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Columns of a time.
const TIME: u16 = 9;
/// Lines of services: at least, and as a part of the page.
const SERVICES: u16 = 3;
const PAGE: u16 = 3;
/// Columns of a part's name, of its size and its time, and of the bar.
const PART: u16 = 18;
const BAR: (u16, u16) = (10, 50);

/// Draws the view.
pub fn draw(canvas: &mut Canvas, area: Rect, frame: &Frame) {
    let most = (area.height / PAGE).max(SERVICES);
    let panel = frame.requests(usize::from(most), usize::from(area.height));
    let dim = canvas.theme.dim;
    canvas.put_cut(area, 1, 0, area.width.saturating_sub(2), &panel.title(), dim);
    if panel.table.rows.is_empty() {
        return;
    }
    let grid = Grid::new(COLUMNS, area);
    grid.titles(canvas, 1);
    let mut y = 2;
    for row in &panel.table.rows {
        service(canvas, &grid, y, row);
        y += 1;
    }
    if panel.slowest.is_empty() {
        return;
    }
    canvas.rule(area, y, "─", canvas.theme.grid);
    canvas.put(area, 1, y, " the slowest ", dim);
    y += 1;
    let room = usize::from(area.height.saturating_sub(y));
    for slow in panel.slowest.iter().skip(first_shown(&panel, room)) {
        // All of it or nothing.
        if y + slow.parts.len() as u16 >= area.height {
            return;
        }
        let is_selected = panel.selected == Some(slow.id);
        y = request(canvas, area, y, frame, slow, is_selected);
    }
}

/// Lines of a request.
fn lines(slow: &SlowRequest) -> usize {
    1 + slow.parts.len() + slow.during.len()
}

/// The first request that is drawn, so that the selected one is within `room` lines.
fn first_shown(panel: &RequestPanel<'_>, room: usize) -> usize {
    let selected = panel.slowest.iter().position(|slow| Some(slow.id) == panel.selected).unwrap_or(0);
    let mut left = room;
    let fits = panel.slowest.iter().take(selected + 1).rev().take_while(|slow| {
        let needed = lines(slow);
        let is_room = needed <= left;
        left = left.saturating_sub(needed);
        is_room
    });
    (selected + 1).saturating_sub(fits.count()).min(selected)
}

/// At 80 columns there is where the time goes, which the view is for.
const COLUMNS: &[Column] = &[
    words("service", 20, 1, 0),
    number("p50", 7, 3),
    number("p99", 7, 1),
    number("max", 7, 4),
    number("n", 7, 5),
    number("turns", 6, 6),
    words("where the slowest go", 24, 3, 2),
];

fn service(canvas: &mut Canvas, grid: &Grid, y: u16, row: &RequestRow) {
    let theme = canvas.theme;
    let times = row.total.or(row.answer);
    let time = |ns: Option<u64>| ns.map_or_else(|| "·".to_owned(), |ns| duration(ns).trim().to_owned());
    let all = row.grades.total();
    let mut cells = grid.row(y);
    cells.put(0, &row.label(), theme.plain);
    cells.put(1, &time(times.map(|q| q.p50_ns)), theme.plain);
    cells.put(2, &time(times.map(|q| q.p99_ns)), theme.plain);
    cells.put(3, &time(times.map(|q| q.max_ns)), theme.plain);
    cells.put(4, &count(all), theme.plain);
    cells.put(5, percent(row.grades.turn as f64 / all.max(1) as f64).trim(), theme.plain);
    cells.put(6, &slowest_parts(row), theme.plain);
    cells.draw(canvas);
}

/// Draws a request; returns the line below it.
fn request(
    canvas: &mut Canvas,
    area: Rect,
    mut y: u16,
    frame: &Frame,
    slow: &SlowRequest,
    is_selected: bool,
) -> u16 {
    let time = frame.time_of_day(slow.start_ns).unwrap_or_default();
    let head = format!(
        "{time} {} → {} {}  {}",
        slow.requester,
        slow.responder,
        slow.service.split(' ').next().unwrap_or_default(),
        duration(slow.total_ns).trim()
    );
    // A request of a journey may be of any grade; the slowest are turns.
    let head = if slow.grade.has_latency() { head } else { format!("{head}, {}", slow.grade) };
    if is_selected {
        canvas.put(area, 0, y, SELECTED, canvas.theme.plain);
    }
    canvas.put_cut(area, 2, y, area.width.saturating_sub(3), head.trim_start(), canvas.theme.plain);
    y += 1;
    // The note, which says why, has twice the bar's width.
    let bar = (area.width.saturating_sub(4 + PART + 2 * TIME) / 3).clamp(BAR.0, BAR.1);
    for part in &slow.parts {
        line(canvas, area, y, bar, slow, part);
        y += 1;
        if part.part == ExchangePart::UntilAnswered {
            for inner in slow.during.iter().take(usize::from(area.height.saturating_sub(y + 1))) {
                canvas.put_cut(area, 6, y, area.width.saturating_sub(7), inner, canvas.theme.dim);
                y += 1;
            }
        }
    }
    y
}

fn line(canvas: &mut Canvas, area: Rect, y: u16, bar: u16, slow: &SlowRequest, part: &RequestPart) {
    let dim = canvas.theme.dim;
    canvas.put(area, 4, y, part.part.words(), dim);
    let mut end = 4 + PART + TIME;
    if let Some(n) = part.bytes {
        let size = bytes(n).split_whitespace().collect::<Vec<_>>().join(" ");
        canvas.put_right(area, end, y, &size, dim);
    }
    end += TIME;
    canvas.put_right(area, end, y, duration(part.ns).trim(), canvas.theme.plain);
    let style = style_of(canvas, part.part);
    let column = |ns: u64| {
        let at = u128::from(ns) * u128::from(bar) / u128::from(slow.total_ns.max(1));
        u16::try_from(at).unwrap_or(bar).min(bar)
    };
    let from = column(part.from_ns).min(bar - 1);
    let to = column(part.from_ns.saturating_add(part.ns)).max(from + 1);
    let fill = if column(part.from_ns.saturating_add(part.ns)) > from { "█" } else { "▏" };
    canvas.put(area, end + 2 + from, y, &fill.repeat(usize::from(to - from)), style);
    let note = end + 2 + bar + 2;
    canvas.put_cut(area, note, y, area.width.saturating_sub(note + 1), &part.note, dim);
}

fn style_of(canvas: &Canvas, part: ExchangePart) -> Style {
    match part {
        ExchangePart::RequestTransfer | ExchangePart::ResponseTransfer => canvas.theme.dim,
        ExchangePart::UntilAnswered => canvas.theme.plain,
    }
}

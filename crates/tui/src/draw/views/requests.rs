//! Requests: the services with their times, then the slowest requests as bars of their parts on one time axis each.

use crate::draw::SELECTED;
use crate::draw::canvas::{Canvas, width};
use crate::draw::grid::{Column, Grid, number, words};
use crate::draw::help::lines as wrapped;
use magscope_core::exchange::ExchangePart;
use magscope_scope::Frame;
use magscope_scope::format::{bytes, count, duration, percent};
use magscope_scope::look::{RequestPanel, RequestPart, RequestRow, SlowRequest, more_services, slowest_parts};
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Columns of a time.
const TIME: u16 = 9;
/// Lines of services: at least, and as a part of the page.
const SERVICES: u16 = 3;
const PAGE: u16 = 3;
/// Columns of a part's name, of its size and its time, and of the bar.
const PART: (u16, u16) = (15, 18);
const BAR: (u16, u16) = (6, 50);

/// Columns of the names of parts, and of the bars.
#[derive(Clone, Copy)]
struct Widths {
    part: u16,
    /// 0 without room.
    bar: u16,
}

impl Widths {
    /// The notes, which say why, have twice the bar's width, and more where they are longer.
    fn of(slowest: &[&SlowRequest], room: u16) -> Self {
        let notes = slowest.iter().flat_map(|slow| &slow.parts).map(|part| width(first_item(&part.note)));
        let longest = notes.max().unwrap_or(0);
        let bar = |part: u16| {
            let left = room.saturating_sub(4 + part + 2 * TIME);
            (left / 3).min(left.saturating_sub(5 + longest)).min(BAR.1)
        };
        let all = [PART.1, PART.0].map(|part| Widths { part, bar: bar(part) });
        all.into_iter().find(|widths| widths.bar >= BAR.0).unwrap_or(Widths { part: PART.1, bar: 0 })
    }

    /// The name of a part: without *transfer* where that leaves no room for a bar.
    fn name(self, part: ExchangePart) -> &'static str {
        let words = part.words();
        if self.part < PART.1 { words.strip_suffix(" transfer").unwrap_or(words) } else { words }
    }
}

/// Draws the view.
pub fn draw(canvas: &mut Canvas, area: Rect, frame: &Frame) {
    let most = (area.height / PAGE).max(SERVICES);
    let panel = frame.requests(usize::from(most), usize::from(area.height));
    let dim = canvas.theme.dim;
    if panel.table.rows.is_empty() {
        for (y, line) in wrapped(&panel.title(), usize::from(area.width.saturating_sub(2))).iter().enumerate() {
            canvas.put(area, 1, y as u16, line, dim);
        }
        return;
    }
    canvas.put_cut(area, 1, 0, area.width.saturating_sub(2), &panel.title(), dim);
    let grid = Grid::new(COLUMNS, area);
    grid.titles(canvas, 1);
    let mut y = 2;
    for row in &panel.table.rows {
        service(canvas, &grid, y, row);
        y += 1;
    }
    if let Some(words) = more_services(&panel.table) {
        canvas.put_cut(area, 2, y, area.width.saturating_sub(3), &words, dim);
        y += 1;
    }
    if panel.slowest.is_empty() {
        return;
    }
    canvas.rule(area, y, "─", canvas.theme.grid);
    canvas.put(area, 1, y, " the slowest ", dim);
    y += 1;
    let room = usize::from(area.height.saturating_sub(y));
    let widths = Widths::of(&panel.slowest, area.width);
    for slow in panel.slowest.iter().skip(first_shown(&panel, room)) {
        // All of it or nothing.
        if y + slow.parts.len() as u16 >= area.height {
            return;
        }
        let is_selected = panel.selected == Some(slow.id);
        y = request(canvas, area, y, (frame, widths), slow, is_selected);
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
    let times = row.times();
    let time = |ns: Option<u64>| ns.map_or_else(|| "·".to_owned(), |ns| duration(ns).trim().to_owned());
    let all = row.grades.total();
    let mut cells = grid.row(y);
    cells.put(0, &row.label(), theme.plain);
    cells.put(1, &time(times.map(|q| q.p50_ns)), theme.plain);
    cells.put(2, &time(times.map(|q| q.p99_ns)), theme.plain);
    cells.put(3, &time(times.map(|q| q.max_ns)), theme.plain);
    cells.put(4, &count(all), theme.plain);
    cells.put(5, percent(row.grades.turn as f64 / all.max(1) as f64).trim(), theme.plain);
    let room = grid.place(6).map_or(0, |(_, width)| width);
    cells.put(6, whole_items(&slowest_parts(row), room), theme.plain);
    cells.draw(canvas);
}

/// Draws a request; returns the line below it.
fn request(
    canvas: &mut Canvas,
    area: Rect,
    mut y: u16,
    (frame, widths): (&Frame, Widths),
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
    for part in &slow.parts {
        line(canvas, area, y, widths, slow, part);
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

fn line(canvas: &mut Canvas, area: Rect, y: u16, widths: Widths, slow: &SlowRequest, part: &RequestPart) {
    let dim = canvas.theme.dim;
    canvas.put(area, 4, y, widths.name(part.part), dim);
    let mut end = 4 + widths.part + TIME;
    if let Some(n) = part.bytes {
        let size = bytes(n).split_whitespace().collect::<Vec<_>>().join(" ");
        canvas.put_right(area, end, y, &size, dim);
    }
    end += TIME;
    canvas.put_right(area, end, y, duration(part.ns).trim(), canvas.theme.plain);
    if widths.bar > 0 {
        draw_bar(canvas, area, (end + 2, y), widths.bar, slow, part);
        end += 2 + widths.bar;
    }
    let note = end + 2;
    let room = area.width.saturating_sub(note + 1);
    canvas.put_cut(area, note, y, room, whole_items(&part.note, room), dim);
}

/// The part within its request, from this cell on.
fn draw_bar(
    canvas: &mut Canvas,
    area: Rect,
    (x, y): (u16, u16),
    bar: u16,
    slow: &SlowRequest,
    part: &RequestPart,
) {
    let style = style_of(canvas, part.part);
    let column = |ns: u64| {
        let at = u128::from(ns) * u128::from(bar) / u128::from(slow.total_ns.max(1));
        u16::try_from(at).unwrap_or(bar).min(bar)
    };
    let from = column(part.from_ns).min(bar - 1);
    let to = column(part.from_ns.saturating_add(part.ns)).max(from + 1);
    let fill = if column(part.from_ns.saturating_add(part.ns)) > from { "█" } else { "▏" };
    canvas.put(area, x + from, y, &fill.repeat(usize::from(to - from)), style);
}

/// Between two items of a list in words.
const COMMA: &str = ", ";

fn first_item(list: &str) -> &str {
    list.split_once(COMMA).map_or(list, |(first, _)| first)
}

/// As many items of a list as are whole within `room` columns, the first in any case.
fn whole_items(list: &str, room: u16) -> &str {
    let mut shown = list;
    while width(shown) > room
        && let Some((fewer, _)) = shown.rsplit_once(COMMA)
    {
        shown = fewer;
    }
    shown
}

fn style_of(canvas: &Canvas, part: ExchangePart) -> Style {
    match part {
        ExchangePart::RequestTransfer | ExchangePart::ResponseTransfer => canvas.theme.dim,
        ExchangePart::UntilAnswered => canvas.theme.plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_short_of_whole_items() {
        let list = "waiting for a CPU 88 %, waiting for the reader 9 %, the wire 2 %";
        assert_eq!(whole_items(list, 80), list);
        assert_eq!(whole_items(list, 60), "waiting for a CPU 88 %, waiting for the reader 9 %");
        assert_eq!(whole_items(list, 24), "waiting for a CPU 88 %");
        assert_eq!(whole_items(list, 5), first_item(list));
    }
}

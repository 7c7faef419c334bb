//! Recorded events.

use crate::draw::canvas::Canvas;
use crate::draw::grid::{Column, Grid, number, words};
use magscope_core::hop::Role;
use magscope_scope::format::{count, duration};
use magscope_scope::look::EventRow;
use magscope_scope::{Frame, ends_within};
use ratatui::layout::Rect;

const COLUMNS: &[Column] = &[
    words("time (UTC)", 16, 0, 0),
    number("after", 7, 2),
    words("hop", 14, 0, 0),
    number("cpu", 3, 4),
    words("who", 22, 1, 3),
    words("flow", 37, 2, 1),
    number("bytes", 7, 5),
    number("sequence", 10, 6),
    number("packet", 10, 8),
    words("detail", 16, 2, 7),
];

/// Draws the view.
pub fn draw(canvas: &mut Canvas, area: Rect, frame: &Frame) {
    let theme = canvas.theme;
    let rows = usize::from(area.height.saturating_sub(1));
    let table = frame.events(rows);
    let grid = Grid::new(COLUMNS, area);
    grid.titles(canvas, 0);
    if table.rows.is_empty() {
        let sums = "no events: the kernel adds up, and hands over sums (Σ)";
        canvas.put(area, 2, 1, if frame.footer.sums { sums } else { "no event yet" }, theme.dim);
        return;
    }
    let mut before = None;
    for (y, row) in table.rows.iter().take(rows).enumerate() {
        one(canvas, &grid, y as u16 + 1, row, before, frame);
        before = Some(row.time_ns());
    }
    grid.note(canvas, 0, &format!(" {} ", table.extent()));
}

fn one(canvas: &mut Canvas, grid: &Grid, y: u16, row: &EventRow, before: Option<u64>, frame: &Frame) {
    let theme = canvas.theme;
    let event = row.event();
    let bad = event.is_some_and(|event| frame.is_drop(row.node, event));
    let style = match (row.selected, bad, row.of_journey) {
        (true, ..) => theme.selected,
        (_, true, _) => theme.bad,
        (_, _, true) => theme.accent,
        _ => theme.plain,
    };
    if row.selected {
        grid.mark(canvas, y);
    }
    let mut cells = grid.row(y);
    let time_ns = row.time_ns();
    let time = frame.time_of_day(time_ns).unwrap_or_else(|| duration(time_ns));
    cells.put(0, &time, if row.selected { style } else { theme.dim });
    if let Some(before) = before {
        cells.put(1, &duration(time_ns.saturating_sub(before)), theme.dim);
    }
    let sign = match (bad, event.is_some()) {
        (true, _) => "✕ ",
        (_, true) => "",
        (_, false) => "◇ ",
    };
    cells.put(2, &format!("{sign}{}", row.name()), style);
    cells.put(3, &row.cpu().to_string(), style);
    let who = match (row.tid(), row.comm) {
        (0, _) => String::new(),
        (tid, "") => tid.to_string(),
        (tid, comm) => format!("{comm}/{tid}"),
    };
    cells.put(4, &who, style);
    let room = grid.place(5).map_or(0, |(_, width)| usize::from(width));
    let ends = row.ends.map_or_else(|| "·".to_owned(), |of| ends_within(of, row.proto(), "→", room));
    let details = event.map_or_else(|| row.values_text(), |event| frame.details(row.node, event));
    // Without a column of details, values and reasons of drops replace the flow, and what became of a connection
    // comes before its peer.
    let is_point = event.is_some_and(|event| event.hop.role() == Role::Point);
    let instead = grid.place(9).is_none() && (event.is_none() || bad || is_point) && !details.is_empty();
    let details = match row.ends {
        Some((_, to)) if instead && is_point => format!("{details}  →{to}"),
        _ => details,
    };
    if !instead {
        cells.put(5, &ends, style);
    }
    cells.put(6, &count(u64::from(row.len())), style);
    if row.seq() != 0 {
        cells.put(7, &row.seq().to_string(), style);
    }
    if let Some(event) = event.filter(|event| event.skb != 0) {
        cells.put(8, &format!("{:x}", event.skb), theme.dim);
    }
    cells.put(if instead { 5 } else { 9 }, &details, style);
    cells.draw(canvas);
}

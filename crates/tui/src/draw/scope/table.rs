//! Tables of journeys: below the picture, and in their own view.

use crate::draw::canvas::{Canvas, width};
use crate::draw::grid::{Column, GAP, Grid, number, words};
use magscope_core::Verdict;
use magscope_scope::format::{bytes, duration};
use magscope_scope::{Frame, List, Listed};
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Width of the column behind the causes.
const ITS_TIME: u16 = 8;

/// The columns for these rows.
pub fn columns(canvas: &Canvas, rows: &[Listed]) -> [Column; 7] {
    let longest = rows.iter().map(|row| cause_width(canvas, row)).max().unwrap_or(0);
    [
        words("", 9, 0, 0),
        number("", 7, 1),
        words("", 27, 2, 2).with_longest(longest),
        number("its time", ITS_TIME, 3),
        number("bytes", 7, 5),
        words("flow", 37, 1, 4),
        words("began (UTC)", 16, 0, 6),
    ]
}

/// Width that a cause needs in its column: without a time it extends over the next one.
fn cause_width(canvas: &Canvas, row: &Listed) -> u16 {
    let (words, ns, _) = blame(canvas, row, Style::new());
    let next = if ns.is_none() { ITS_TIME + GAP } else { 0 };
    width(&words).saturating_sub(next)
}

/// Draws the table below the picture: the slowest, most recent, or failed journeys.
pub fn draw(canvas: &mut Canvas, area: Rect, frame: &Frame) {
    if area.is_empty() {
        return;
    }
    let columns = columns(canvas, &frame.table);
    let grid = Grid::new(&columns, area);
    grid.titles(canvas, 0);
    list_titles(canvas, area, frame);
    for (y, row) in frame.table.iter().take(usize::from(area.height - 1)).enumerate() {
        journey(canvas, &grid, y as u16 + 1, row, frame);
    }
    if frame.table.is_empty() && area.height > 1 {
        canvas.put(area, 2, 1, nothing(frame), canvas.theme.dim);
    }
}

/// Message for an empty table.
pub fn nothing(frame: &Frame) -> &'static str {
    match frame.controls.list {
        _ if frame.footer.sums => "no journeys: the kernel adds up, and hands over sums (Σ)",
        List::Bad => "none dropped, none lost",
        _ => "no journey yet",
    }
}

/// The names of the lists over the first columns, the active one highlighted.
pub fn list_titles(canvas: &mut Canvas, area: Rect, frame: &Frame) {
    let theme = canvas.theme;
    let of = |list| if frame.controls.list == list { theme.strong } else { theme.dim };
    canvas.put(area, FIRST - 1, 0, " ", theme.plain);
    let mut x = FIRST;
    for list in List::ALL {
        let dot = if x == FIRST { "" } else { DOT };
        x = canvas.put_all(area, x, 0, &[(dot, theme.grid), (list.name(), of(list))]);
    }
    canvas.put(area, x, 0, " ", theme.plain);
}

/// Between two names of lists, and the place of the first.
const DOT: &str = " · ";
const FIRST: u16 = 2;

/// The list whose name is at position `x` of the titles.
pub fn list_at(x: u16) -> Option<List> {
    let mut start = FIRST;
    List::ALL.into_iter().find(|list| {
        let end = start + width(list.name());
        let is_there = (start..end).contains(&x);
        start = end + width(DOT);
        is_there
    })
}

/// A journey in row `y`.
pub fn journey(canvas: &mut Canvas, grid: &Grid, y: u16, row: &Listed, frame: &Frame) {
    let theme = canvas.theme;
    let style = match (row.selected, row.anchor) {
        (true, _) => theme.selected,
        (false, true) => theme.accent,
        (false, false) => theme.plain,
    };
    if row.selected {
        grid.mark(canvas, y);
    }
    let line = row.line;
    let mut cells = grid.row(y);
    cells.put(0, &format!("#{}", line.id()), style);
    cells.put(1, &duration(line.total_ns()), style);
    let (words, ns, blamed) = blame(canvas, row, style);
    cells.put(2, &words, blamed);
    if let Some(ns) = ns {
        cells.put(3, &duration(ns), style);
    }
    cells.put(4, &bytes(line.journey.bytes()), style);
    let flow = line.ends.map(|(from, to)| format!("{} {from}→{to}", line.journey.proto));
    cells.put(5, &flow.unwrap_or_else(|| line.journey.proto.to_string()), style);
    if let Some(time) = frame.time_of_day(line.start_ns()) {
        cells.put(6, &time, theme.dim);
    }
    cells.draw(canvas);
}

/// Blame and its duration; red for failures.
fn blame(canvas: &Canvas, row: &Listed, style: Style) -> (String, Option<u64>, Style) {
    let bad = canvas.theme.bad;
    match (row.line.journey.verdict, &row.blame) {
        (Verdict::BrokenByEventLoss { .. }, _) => {
            ("! events of it were missed".to_owned(), None, canvas.theme.missed)
        }
        (Verdict::Dropped { .. } | Verdict::LostAfter { .. }, _) => (format!("✕ {}", row.verdict), None, bad),
        (_, None) => (row.verdict.clone(), None, style),
        (verdict, Some((words, ns))) if verdict.is_whole() => (words.clone(), Some(*ns), style),
        (verdict, Some((words, ns))) => (format!("{verdict}: {words}"), Some(*ns), style),
    }
}

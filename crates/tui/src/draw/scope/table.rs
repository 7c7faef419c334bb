//! Tables of journeys: below the picture, and in their own view.

use crate::draw::canvas::{Canvas, width};
use crate::draw::grid::{Column, GAP, Grid, MARGINS, number, words};
use magscope_core::Verdict;
use magscope_scope::format::{bytes, duration};
use magscope_scope::{Frame, List, Listed, ends_within};
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Width of the column behind the causes.
const ITS_TIME: u16 = 8;

/// The columns for these rows in an area of this width. The flow comes before the time of the cause, where it fits.
pub fn columns(canvas: &Canvas, rows: &[Listed], room: u16) -> [Column; 7] {
    let longest = rows.iter().map(|row| cause_width(canvas, row)).max().unwrap_or(0).max(CAUSE);
    let ids = rows.iter().map(|row| width(&id(row))).max().unwrap_or(0).max(ID);
    columns_for(ids, longest, room)
}

fn columns_for(ids: u16, longest: u16, room: u16) -> [Column; 7] {
    let before = MARGINS + ids + GAP + TOTAL + GAP + longest + GAP;
    let (flow, its_time) = if before + FLOW.0 <= room { (3, 4) } else { (4, 3) };
    [
        words("", ids, 0, 0),
        number("", TOTAL, 1),
        words("", CAUSE, 2, 2).with_longest(longest),
        number("its time", ITS_TIME, its_time),
        number("bytes", 7, 5),
        words("flow", FLOW.0, 1, flow).with_longest(FLOW.1),
        words("began (UTC)", 16, 0, 6),
    ]
}

fn id(row: &Listed) -> String {
    format!("#{}", row.line.id())
}

/// Minimum width of the number of a journey: the column does not move with each list.
const ID: u16 = 6;
/// Width of the time of a journey.
const TOTAL: u16 = 7;
/// Minimum width of the cause. The names of the lists are above it.
const CAUSE: u16 = 27;

/// Minimum width of the flow, which then lacks the sender's address, and the width of most.
const FLOW: (u16, u16) = (24, 37);

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
    let columns = columns(canvas, &frame.table, area.width);
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
    cells.put(0, &id(row), style);
    cells.put(1, &duration(line.total_ns()), style);
    let (words, ns, blamed) = blame(canvas, row, style);
    cells.put(2, &words, blamed);
    if let Some(ns) = ns {
        cells.put(3, &duration(ns), style);
    }
    cells.put(4, &bytes(line.journey.bytes()), style);
    let room = grid.place(5).map_or(0, |(_, width)| usize::from(width));
    let flow = line.ends.map(|of| ends_within(of, line.journey.proto, "→", room));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Where each column is on a screen of this width, for the causes of this width.
    fn places(screen: u16, longest: u16) -> Vec<Option<(u16, u16)>> {
        let columns = columns_for(ID, longest, screen);
        let grid = Grid::new(&columns, Rect::new(0, 0, screen, 24));
        (0..columns.len()).map(|at| grid.place(at)).collect()
    }

    #[test]
    fn cause_and_flow_have_room_before_the_time_of_the_cause() {
        let longest = width("waiting for the reader (slow-reader/10372)");
        for screen in 80..200 {
            let places = places(screen, longest);
            assert!(places[2].is_some_and(|(_, width)| width >= longest), "{screen}: {places:?}");
            assert_eq!(places[5].is_some(), screen >= 88, "{screen}: {places:?}");
            assert!(places[5].is_some() || places[3].is_some(), "{screen}: {places:?}");
        }
        let whole = width("tcp 10.77.0.1:48380→10.77.0.2:5203");
        assert!(places(104, longest)[5].is_some_and(|(_, width)| width >= whole));
    }
}

//! Tables: columns share the available width, necessary ones first.

use super::SELECTED;
use super::canvas::{Canvas, width};
use ratatui::layout::Rect;
use ratatui::style::Style;

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Title.
    pub title: &'static str,
    /// Minimum width.
    pub width: u16,
    /// Share of the remaining width.
    pub grows: u16,
    /// Right-aligned, for numbers.
    pub right: bool,
    /// Priority: columns with smaller numbers get room first.
    pub need: u8,
    /// Width of its longest text, if that has priority over columns that need less.
    pub longest: u16,
    /// Width of its longest text, if remaining width goes to that first.
    pub complete: u16,
}

impl Column {
    /// The column with room for a text of this width.
    #[must_use]
    pub const fn with_longest(mut self, longest: u16) -> Self {
        self.longest = longest;
        self
    }

    /// The column with remaining width for a text of this width, before other columns have any.
    #[must_use]
    pub const fn with_complete(mut self, complete: u16) -> Self {
        self.complete = complete;
        self
    }
}

/// A text column.
pub const fn words(title: &'static str, width: u16, grows: u16, need: u8) -> Column {
    Column { title, width, grows, right: false, need, longest: 0, complete: 0 }
}

/// A number column.
pub const fn number(title: &'static str, width: u16, need: u8) -> Column {
    Column { title, width, grows: 0, right: true, need, longest: 0, complete: 0 }
}

/// Blank columns between two columns.
pub const GAP: u16 = 2;
/// Blank columns at the left and the right together.
pub const MARGINS: u16 = 3;

/// Position of each column: start and width, or `None` without room.
pub struct Grid<'a> {
    columns: &'a [Column],
    places: Vec<Option<(u16, u16)>>,
    area: Rect,
    /// Title of the column that the rows are ordered by.
    ordered_by: Option<&'static str>,
}

impl<'a> Grid<'a> {
    /// Distributes the width of `area`, with a margin of two columns at the left and one at the right.
    pub fn new(columns: &'a [Column], area: Rect) -> Self {
        let mut left = area.width.saturating_sub(MARGINS);
        let mut by_need: Vec<usize> = (0..columns.len()).collect();
        by_need.sort_by_key(|at| columns[*at].need);
        let mut chosen = vec![None; columns.len()];
        for at in by_need {
            let gap = if chosen.iter().any(Option::is_some) { GAP } else { 0 };
            let Some(rest) = left.checked_sub(columns[at].width + gap) else { break };
            let more = columns[at].longest.saturating_sub(columns[at].width).min(rest);
            left = rest - more;
            chosen[at] = Some(columns[at].width + more);
        }
        for (column, chosen) in columns.iter().zip(&mut chosen) {
            let Some(width) = chosen else { continue };
            let more = column.complete.saturating_sub(*width).min(left);
            left -= more;
            *width += more;
        }
        let growing = columns.iter().zip(&chosen).filter(|(_, chosen)| chosen.is_some());
        let shares: u16 = growing.map(|(column, _)| column.grows).sum();
        let mut x = 2;
        let mut places = Vec::with_capacity(columns.len());
        for (at, column) in columns.iter().enumerate() {
            let Some(width) = chosen[at] else {
                places.push(None);
                continue;
            };
            let more = (u32::from(left) * u32::from(column.grows)).checked_div(u32::from(shares)).unwrap_or(0);
            let width = width + more as u16;
            places.push(Some((x, width)));
            x += width + GAP;
        }
        Grid { columns, places, area, ordered_by: None }
    }

    /// Marks the title of the column that the rows are ordered by.
    #[must_use]
    pub const fn ordered_by(mut self, title: &'static str) -> Self {
        self.ordered_by = Some(title);
        self
    }

    /// Title of the column at position `x` of the area.
    pub fn column_at(&self, x: u16) -> Option<&'static str> {
        let mut columns = self.columns.iter().zip(&self.places);
        let has = |(column, place): &(&Column, &Option<(u16, u16)>)| {
            place.is_some_and(|(start, room)| {
                let end = start + room;
                // A long title of numbers begins before its column.
                let title = if column.right { end.saturating_sub(width(column.title)) } else { start };
                (start.min(title)..end).contains(&x)
            })
        };
        columns.find(has).map(|(column, _)| column.title)
    }

    /// Start and width of column `at`.
    pub fn place(&self, at: usize) -> Option<(u16, u16)> {
        self.places.get(at).copied().flatten()
    }

    /// Draws the titles on a rule at row `y`.
    pub fn titles(&self, canvas: &mut Canvas, y: u16) {
        let (grid, dim) = (canvas.theme.grid, canvas.theme.dim);
        canvas.rule(self.area, y, "─", grid);
        for (column, place) in self.columns.iter().zip(&self.places) {
            let Some((x, width)) = *place else { continue };
            if column.title.is_empty() {
                continue;
            }
            let is_order = self.ordered_by == Some(column.title);
            let style = if is_order { canvas.theme.strong } else { dim };
            let title = if is_order { format!("↓{} ", column.title) } else { format!(" {} ", column.title) };
            if column.right {
                canvas.put_right(self.area, x + width + 1, y, &title, style);
            } else {
                canvas.put(self.area, x.saturating_sub(1), y, &title, style);
            }
        }
    }

    /// Writes a note on the rule at row `y`, as far to the right as it covers no title; nothing without room.
    pub fn note(&self, canvas: &mut Canvas, y: u16, note: &str) {
        let (area, needed) = (self.area, width(note));
        let mut free = 0;
        for x in (0..area.width.saturating_sub(1)).rev() {
            let is_rule = canvas.buffer.cell((area.x + x, area.y + y)).is_some_and(|cell| cell.symbol() == "─");
            free = if is_rule { free + 1 } else { 0 };
            if free == needed {
                let dim = canvas.theme.dim;
                canvas.put(area, x, y, note, dim);
                return;
            }
        }
    }

    /// The empty row `y`.
    pub const fn row(&'a self, y: u16) -> GridRow<'a> {
        GridRow { grid: self, y, cells: Vec::new() }
    }

    /// Marks row `y` as the selected one.
    pub fn mark(&self, canvas: &mut Canvas, y: u16) {
        let style = canvas.theme.selected;
        canvas.put(self.area, 0, y, SELECTED, style);
    }
}

/// A row of a table. A text that is longer than its column extends over empty cells behind it.
pub struct GridRow<'a> {
    grid: &'a Grid<'a>,
    y: u16,
    cells: Vec<Cell>,
}

struct Cell {
    x: u16,
    text: String,
    style: Style,
    is_number: bool,
}

impl GridRow<'_> {
    /// Puts `text` into column `at`, if that has a place.
    pub fn put(&mut self, at: usize, text: &str, style: Style) {
        let Some((x, column)) = self.grid.place(at) else { return };
        let is_number = self.grid.columns.get(at).is_some_and(|column| column.right);
        let end = (x + column).min(self.grid.area.width);
        // Numbers are written completely or not at all: a truncated one would be wrong.
        let x = if is_number { end.checked_sub(width(text)) } else { Some(x) };
        if let Some(x) = x.filter(|_| !text.trim().is_empty()) {
            // The blanks before a number fill its column; those before a text indent it.
            let blanks = if is_number { text.len() - text.trim_start().len() } else { 0 };
            self.cells.push(Cell { x: x + blanks as u16, text: text[blanks..].to_owned(), style, is_number });
        }
    }

    /// Draws the row.
    pub fn draw(mut self, canvas: &mut Canvas) {
        self.cells.sort_by_key(|cell| cell.x);
        let area = self.grid.area;
        let starts: Vec<u16> = self.cells.iter().skip(1).map(|cell| cell.x.saturating_sub(GAP)).collect();
        let ends = starts.into_iter().chain([area.width.saturating_sub(1)]);
        for (cell, end) in self.cells.iter().zip(ends) {
            if cell.is_number {
                canvas.put(area, cell.x, self.y, &cell.text, cell.style);
            } else {
                canvas.put_cut(area, cell.x, self.y, end.saturating_sub(cell.x), &cell.text, cell.style);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[words("flow", 10, 1, 0), number("bytes", 7, 2), number("p99", 7, 1)];

    const LONG: Column = words("cause", 8, 0, 1).with_longest(20);

    #[test]
    fn the_needed_columns_get_room_first_and_text_grows() {
        let at = |width| Grid::new(COLUMNS, Rect::new(0, 0, width, 5)).places;
        assert_eq!(at(12), [None, None, None]);
        assert_eq!(at(13), [Some((2, 10)), None, None]);
        assert_eq!(at(22), [Some((2, 10)), None, Some((14, 7))]);
        assert_eq!(at(41), [Some((2, 20)), Some((24, 7)), Some((33, 7))]);
        for width in 0..200 {
            let end = at(width).into_iter().flatten().map(|(x, w)| x + w).max();
            assert!(end.is_none_or(|end| end < width));
        }
    }

    #[test]
    fn remaining_width_completes_a_text_before_other_columns_grow() {
        let columns = [COLUMNS[0].with_complete(14), COLUMNS[1], words("cause", 5, 3, 1)];
        let places = |width| Grid::new(&columns, Rect::new(0, 0, width, 5)).places;
        assert_eq!(places(29), [Some((2, 10)), Some((14, 7)), Some((23, 5))]);
        assert_eq!(places(33), [Some((2, 14)), Some((18, 7)), Some((27, 5))]);
        assert_eq!(places(37), [Some((2, 15)), Some((19, 7)), Some((28, 8))], "and then all of them");
    }

    #[test]
    fn a_long_text_has_room_before_columns_that_need_less() {
        let columns = [COLUMNS[0], COLUMNS[1], LONG];
        let places = |width| Grid::new(&columns, Rect::new(0, 0, width, 5)).places;
        assert_eq!(places(40), [Some((2, 15)), None, Some((19, 20))]);
        assert_eq!(places(45), [Some((2, 11)), Some((15, 7)), Some((24, 20))], "with room for all");
        assert_eq!(places(25), [Some((2, 10)), None, Some((14, 10))], "as much as there is");
    }
}

//! Tables: columns share the available width, necessary ones first.

use super::canvas::Canvas;
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
}

/// A text column.
pub const fn words(title: &'static str, width: u16, grows: u16, need: u8) -> Column {
    Column { title, width, grows, right: false, need }
}

/// A number column.
pub const fn number(title: &'static str, width: u16, need: u8) -> Column {
    Column { title, width, grows: 0, right: true, need }
}

/// Blank columns between two columns.
const GAP: u16 = 2;

/// Position of each column: start and width, or `None` without room.
pub struct Grid<'a> {
    columns: &'a [Column],
    places: Vec<Option<(u16, u16)>>,
    area: Rect,
}

impl<'a> Grid<'a> {
    /// Distributes the width of `area`, with a margin of two columns at the left and one at the right.
    pub fn new(columns: &'a [Column], area: Rect) -> Self {
        let mut left = area.width.saturating_sub(3);
        let mut by_need: Vec<usize> = (0..columns.len()).collect();
        by_need.sort_by_key(|at| columns[*at].need);
        let mut chosen = vec![false; columns.len()];
        for at in by_need {
            let gap = if chosen.contains(&true) { GAP } else { 0 };
            let Some(rest) = left.checked_sub(columns[at].width + gap) else { break };
            left = rest;
            chosen[at] = true;
        }
        let taken = |at: usize| if chosen[at] { columns[at].grows } else { 0 };
        let shares: u16 = (0..columns.len()).map(taken).sum();
        let mut x = 2;
        let mut places = Vec::with_capacity(columns.len());
        for (at, column) in columns.iter().enumerate() {
            if !chosen[at] {
                places.push(None);
                continue;
            }
            let more = (u32::from(left) * u32::from(column.grows)).checked_div(u32::from(shares)).unwrap_or(0);
            let width = column.width + more as u16;
            places.push(Some((x, width)));
            x += width + GAP;
        }
        Grid { columns, places, area }
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
            let title = format!(" {} ", column.title);
            if column.title.is_empty() {
                continue;
            }
            if column.right {
                canvas.put_right(self.area, x + width + 1, y, &title, dim);
            } else {
                canvas.put(self.area, x.saturating_sub(1), y, &title, dim);
            }
        }
    }

    /// Writes `text` into column `at` of row `y`, truncated.
    pub fn put(&self, canvas: &mut Canvas, at: usize, y: u16, text: &str, style: Style) {
        let Some((x, width)) = self.place(at) else { return };
        if self.columns.get(at).is_some_and(|column| column.right) {
            // Numbers are written completely or not at all: a truncated one would be wrong.
            canvas.put_right(
                Rect { width: (x + width).min(self.area.width), ..self.area },
                x + width,
                y,
                text,
                style,
            );
        } else {
            canvas.put_cut(self.area, x, y, width, text, style);
        }
    }

    /// Marks row `y` as the selected one.
    pub fn mark(&self, canvas: &mut Canvas, y: u16) {
        let style = canvas.theme.selected;
        canvas.put(self.area, 0, y, "▸", style);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[words("flow", 10, 1, 0), number("bytes", 7, 2), number("p99", 7, 1)];

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
}

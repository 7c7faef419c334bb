//! The matching journeys, with blame.

use crate::draw::canvas::Canvas;
use crate::draw::grid::Grid;
use crate::draw::scope::table::{columns, journey, list_titles, nothing};
use magscope_scope::Frame;
use magscope_scope::format::count;
use ratatui::layout::Rect;

/// Draws the view.
pub fn draw(canvas: &mut Canvas, area: Rect, frame: &Frame) {
    let table = frame.journeys(usize::from(area.height.saturating_sub(1)));
    let columns = columns(canvas, &table.rows, area.width);
    let grid = Grid::new(&columns, area);
    grid.titles(canvas, 0);
    list_titles(canvas, area, frame);
    for (y, row) in table.rows.iter().take(usize::from(area.height.saturating_sub(1))).enumerate() {
        journey(canvas, &grid, y as u16 + 1, row, frame);
    }
    if table.rows.is_empty() {
        canvas.put(area, 2, 1, nothing(frame), canvas.theme.dim);
    } else if table.matching > table.rows.len() {
        let last = table.first + table.rows.len();
        let words = format!(
            " {}–{} of {} ",
            count(table.first as u64 + 1),
            count(last as u64),
            count(table.matching as u64)
        );
        grid.note(canvas, 0, &words);
    }
}

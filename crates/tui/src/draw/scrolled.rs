//! A view of more lines than its area has rows: drawn as a whole, and shown from a row on.

use super::canvas::Canvas;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Maximum number of lines. More are not drawn.
const MOST: u16 = 1_000;

/// The last row from which `lines` fill an area of this height.
pub fn last_from(lines: usize, height: u16) -> usize {
    lines.min(usize::from(MOST)).saturating_sub(usize::from(height))
}

/// Draws `lines` lines by `all`, which has an area with a row for each, and shows them in `area` from row `from` on.
pub fn draw(canvas: &mut Canvas, area: Rect, lines: usize, from: usize, all: impl FnOnce(&mut Canvas, Rect)) {
    let last = last_from(lines, area.height);
    if last == 0 {
        return all(canvas, area);
    }
    let whole = Rect { height: lines.min(usize::from(MOST)) as u16, ..Rect::new(0, 0, area.width, 0) };
    let mut buffer = Buffer::empty(whole);
    buffer.set_style(whole, canvas.theme.ground);
    all(&mut Canvas::new(&mut buffer, canvas.theme), whole);
    let from = from.min(last);
    for y in 0..area.height {
        for x in 0..area.width {
            canvas.buffer[(area.x + x, area.y + y)] = buffer[(x, from as u16 + y)].clone();
        }
    }
    let words = match (from > 0, from < last) {
        (true, true) => " ↑↓ more ",
        (true, false) => " ↑ more ",
        _ => " ↓ more ",
    };
    let strong = canvas.theme.strong;
    canvas.put_right(area, area.width, area.height - 1, words, strong);
}

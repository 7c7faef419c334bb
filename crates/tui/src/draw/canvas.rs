//! Cells to write text on, clipped to an area.

use crate::theme::Theme;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Span;

/// A buffer and the styles to write on it with.
pub struct Canvas<'a> {
    /// The cells.
    pub buffer: &'a mut Buffer,
    /// The styles.
    pub theme: &'a Theme,
}

impl<'a> Canvas<'a> {
    /// A canvas over all of `buffer`.
    pub const fn new(buffer: &'a mut Buffer, theme: &'a Theme) -> Self {
        Canvas { buffer, theme }
    }

    /// Writes `text` at column `x` and row `y` of `area`, clipped. Returns the column after it.
    pub fn put(&mut self, area: Rect, x: u16, y: u16, text: &str, style: Style) -> u16 {
        if x >= area.width || y >= area.height {
            return x;
        }
        let (end, _) =
            self.buffer.set_stringn(area.x + x, area.y + y, text, usize::from(area.width - x), style);
        end - area.x
    }

    /// Writes `text` right-aligned before column `end` of `area`, or nothing if it does not fit.
    pub fn put_right(&mut self, area: Rect, end: u16, y: u16, text: &str, style: Style) -> Option<u16> {
        let start = end.min(area.width).checked_sub(width(text))?;
        self.put(area, start, y, text, style);
        Some(start)
    }

    /// Writes `text` truncated to `room` columns with an ellipsis.
    pub fn put_cut(&mut self, area: Rect, x: u16, y: u16, room: u16, text: &str, style: Style) {
        if width(text) <= room {
            self.put(area, x, y, text, style);
        } else if room > 0 {
            let cut = Rect { width: (x + room - 1).min(area.width), ..area };
            let end = self.put(cut, x, y, text, style);
            self.put(area, end, y, "…", style);
        }
    }

    /// Writes styled pieces in sequence.
    pub fn put_all(&mut self, area: Rect, mut x: u16, y: u16, pieces: &[(&str, Style)]) -> u16 {
        for (text, style) in pieces {
            x = self.put(area, x, y, text, *style);
        }
        x
    }

    /// Fills row `y` of `area` with one character.
    pub fn rule(&mut self, area: Rect, y: u16, symbol: &str, style: Style) {
        for x in 0..area.width {
            self.put(area, x, y, symbol, style);
        }
    }
}

/// Display width of a text, columns.
pub fn width(text: &str) -> u16 {
    u16::try_from(Span::raw(text).width()).unwrap_or(u16::MAX)
}

//! Frame to cells. One panel a file; every panel is a function of the frame and clips itself to its area.

mod canvas;
mod columns;
mod footer;
mod header;
mod help;
mod inspector;
mod lanes;
mod layout;
mod lifelines;
mod raster;
mod table;

use crate::theme::Theme;
use canvas::Canvas;
use layout::Layout;
use magscope_scope::{Frame, Top};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Draws `frame` into `area` of `buffer`, whatever its size.
pub fn draw(frame: &Frame, theme: &Theme, buffer: &mut Buffer, area: Rect) {
    let area = area.intersection(buffer.area);
    if area.is_empty() {
        return;
    }
    let layout = Layout::new(area, frame);
    let canvas = &mut Canvas::new(buffer, theme);
    header::draw(canvas, layout.header, frame);
    lanes::draw(canvas, &layout, frame);
    lifelines::draw(canvas, &layout, frame);
    table::draw(canvas, layout.table, frame);
    footer::draw(canvas, layout.footer, layout.keys, frame);
    if frame.inspector.is_some() {
        inspector::draw(canvas, &layout, frame);
    }
    if frame.view.top == Top::Help {
        help::draw(canvas, area);
    }
}

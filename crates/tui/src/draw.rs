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
mod palette;
mod raster;
mod table;

use crate::front::Over;
use crate::keys::KeyMap;
use crate::theme::Theme;
use canvas::Canvas;
use layout::Layout;
use magscope_scope::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// What is on the screen and is not the scope's.
pub struct Extras<'a> {
    /// The keys, for the help and the line at the bottom.
    pub keys: &'a KeyMap,
    /// What lies on top.
    pub(crate) over: Option<&'a Over>,
    /// Said until the next key.
    pub notice: Option<&'a str>,
    /// Bytes of the last frame.
    pub frame_bytes: u64,
}

/// Draws `frame` into `area` of `buffer`, whatever its size.
pub fn draw(frame: &Frame, theme: &Theme, extras: &Extras, buffer: &mut Buffer, area: Rect) {
    let area = area.intersection(buffer.area);
    if area.is_empty() {
        return;
    }
    buffer.set_style(area, theme.ground);
    let layout = Layout::new(area, frame);
    let canvas = &mut Canvas::new(buffer, theme);
    header::draw(canvas, layout.header, frame);
    lanes::draw(canvas, &layout, frame);
    lifelines::draw(canvas, &layout, frame);
    table::draw(canvas, layout.table, frame);
    footer::draw(canvas, layout.footer, layout.keys, frame, extras);
    if frame.inspector.is_some() {
        inspector::draw(canvas, &layout, frame);
    }
    match extras.over {
        Some(Over::Palette(palette)) => palette::draw(canvas, area, palette, extras.keys),
        Some(Over::Help(from)) => help::draw(canvas, area, extras.keys, *from),
        None => {}
    }
}

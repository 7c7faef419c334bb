//! Draws a frame into cells. Each panel has its own file, depends only on the frame, and clips itself to its
//! area.

mod bar;
mod canvas;
mod footer;
mod grid;
mod header;
mod headline;
mod help;
mod hit;
mod palette;
mod scope;
mod scrolled;
mod shade;
mod shell;
mod tour;
mod values;
mod views;

pub(crate) use hit::{Hit, hit};
pub(crate) use scope::ladder_lines;
pub(crate) use views::Title;

use crate::front::Overlay;
use crate::shot;
use crate::theme::Theme;
use canvas::Canvas;
use magscope_scope::command::command;
use magscope_scope::command::keys::KeyMap;
use magscope_scope::{Frame, explain};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use shell::Shell;

/// Screen state outside the scope.
pub struct Extras<'a> {
    /// The key map, for the help and the bottom line.
    pub keys: &'a KeyMap,
    /// The overlay.
    pub(crate) over: Option<&'a Overlay>,
    /// A message until the next key.
    pub notice: Option<&'a str>,
    /// Bytes of the last frame.
    pub frame_bytes: u64,
    /// The range of a mouse drag on the picture, 0 at the left edge, 1 at the right.
    pub drag: Option<(f64, f64)>,
    /// True if measurements cover the picture.
    pub measurements: bool,
    /// First visible line of the journey inspector.
    pub ladder_from: usize,
}

impl Extras<'_> {
    /// The key of a command: `G`; empty without one.
    pub(crate) fn key_of(&self, name: &str) -> String {
        let chord = command(name).and_then(|command| self.keys.chords(command).next());
        chord.map_or_else(String::new, |chord| chord.to_string())
    }
}

/// The mark of a selected row.
pub const SELECTED: &str = "▸";

/// Where the rows of the view are: below the picture, or all of the view.
pub fn table_area(frame: &Frame, area: Rect) -> Rect {
    let body = Shell::of(area, frame).body;
    if frame.controls.view.is_on_picture() { scope::Layout::new(body, frame).table } else { body }
}

/// The last row from which the lines of the view fill its area; `None` for a view with rows of another kind.
pub fn last_row(frame: &Frame, theme: &Theme, area: Rect, extras: &Extras) -> Option<usize> {
    views::last_row(frame, theme, Shell::of(area, frame).body, extras)
}

/// Minimum useful screen size.
pub const SMALLEST: (u16, u16) = (40, 10);

/// Draws `frame` into `area` of `buffer`, for any size.
pub fn draw(frame: &Frame, theme: &Theme, extras: &Extras, buffer: &mut Buffer, area: Rect) {
    let area = area.intersection(buffer.area);
    if area.is_empty() {
        return;
    }
    buffer.set_style(area, theme.ground);
    let shell = Shell::of(area, frame);
    let canvas = &mut Canvas::new(buffer, theme);
    header::draw(canvas, shell.header, frame, extras);
    headline::draw(canvas, shell.headline, frame);
    bar::draw(canvas, shell.bar, frame);
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        too_small(canvas, shell.body);
    } else {
        views::draw(canvas, shell.body, frame, extras);
    }
    tour::draw(canvas, shell.tour, frame, extras);
    footer::draw(canvas, shell.footer, shell.keys, frame, extras);
    match extras.over {
        Some(Overlay::Palette(palette)) => palette::draw(canvas, area, palette, extras.keys),
        Some(Overlay::Prompt(prompt)) => palette::prompt(canvas, area, prompt),
        Some(Overlay::Channels(at)) => palette::channels(canvas, area, *at, frame),
        Some(Overlay::Help(from)) => {
            let labels = explain::labels_in(&shot::text(canvas.buffer));
            help::draw(canvas, area, extras.keys, &labels, *from);
        }
        None => {}
    }
}

/// Draws a message about the minimum size.
fn too_small(canvas: &mut Canvas, area: Rect) {
    let words = format!("needs {} × {}", SMALLEST.0, SMALLEST.1);
    let style = canvas.theme.dim;
    canvas.put_cut(area, 0, area.height / 2, area.width, &words, style);
}

//! Frame to cells. One panel a file; every panel is a function of the frame and clips itself to its area.

mod bar;
mod canvas;
mod footer;
mod grid;
mod header;
mod help;
mod hit;
mod palette;
mod rooms;
mod scope;
mod shade;
mod shell;
mod values;

pub(crate) use hit::{Hit, hit};
pub(crate) use scope::ladder_lines;

use crate::front::Over;
use crate::theme::Theme;
use canvas::Canvas;
use magscope_scope::command::keys::KeyMap;
use magscope_scope::format::utc_time;
use magscope_scope::{Frame, Room};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use shell::Shell;

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
    /// The stretch of the picture that the mouse is drawn over, 0 the left edge and 1 the right one.
    pub drag: Option<(f64, f64)>,
    /// Whether measurements lie over the picture.
    pub measurements: bool,
    /// The first line that is shown of a journey that is opened.
    pub ladder_from: usize,
}

/// The least that anything can be seen on.
pub const SMALLEST: (u16, u16) = (40, 10);

/// Draws `frame` into `area` of `buffer`, whatever its size.
pub fn draw(frame: &Frame, theme: &Theme, extras: &Extras, buffer: &mut Buffer, area: Rect) {
    let area = area.intersection(buffer.area);
    if area.is_empty() {
        return;
    }
    buffer.set_style(area, theme.ground);
    let shell = Shell::new(area);
    let canvas = &mut Canvas::new(buffer, theme);
    header::draw(canvas, shell.header, frame);
    bar::draw(canvas, shell.bar, frame);
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        too_small(canvas, shell.body);
    } else {
        room(canvas, shell.body, frame, extras);
    }
    footer::draw(canvas, shell.footer, shell.keys, frame, extras);
    match extras.over {
        Some(Over::Palette(palette)) => palette::draw(canvas, area, palette, extras.keys),
        Some(Over::Prompt(prompt)) => palette::prompt(canvas, area, prompt),
        Some(Over::Channels(at)) => palette::channels(canvas, area, *at, frame),
        Some(Over::Help(from)) => help::draw(canvas, area, extras.keys, *from),
        None => {}
    }
}

fn room(canvas: &mut Canvas, body: Rect, frame: &Frame, extras: &Extras) {
    match frame.view.room {
        Room::Scope => scope::draw(canvas, body, frame, extras),
        Room::Flows => rooms::flows(canvas, body, frame),
        Room::Hops => rooms::hops(canvas, body, frame),
        Room::Journeys => rooms::journeys(canvas, body, frame),
        Room::Events => rooms::events(canvas, body, frame),
        Room::Clock => rooms::clock(canvas, body, frame),
        Room::Losses => rooms::losses(canvas, body, frame, extras),
    }
    if frame.inspector.is_some() && frame.view.room != Room::Scope {
        scope::inspect(canvas, body, frame, extras.ladder_from);
    }
}

/// The UTC time of day of an instant, where that is known.
fn time_of_day(frame: &Frame, time_ns: u64) -> Option<String> {
    const DAY_NS: i128 = 86_400_000_000_000;
    let origin = i128::from(frame.header.origin_utc_ns?);
    let since = i128::from(time_ns) - i128::from(frame.sweep.origin_ns);
    u64::try_from((origin + since).rem_euclid(DAY_NS)).ok().map(utc_time)
}

/// Says so, where a picture would say nothing.
fn too_small(canvas: &mut Canvas, area: Rect) {
    let words = format!("needs {} × {}", SMALLEST.0, SMALLEST.1);
    let style = canvas.theme.dim;
    canvas.put_cut(area, 0, area.height / 2, area.width, &words, style);
}

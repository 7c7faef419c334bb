//! Labels next to the picture: hop names and numbers.

use super::bands;
use super::columns::GAP;
use super::layout::Layout;
use crate::draw::canvas::{Canvas, width};
use crate::draw::{Extras, SELECTED};
use magscope_scope::format::{counted, duration, rate, short_duration, utc_time};
use magscope_scope::look::CursorReading;
use magscope_scope::{Align, Frame, Lane, Place};
use ratatui::layout::Rect;
use std::fmt::Write as _;

/// Draws names, numbers and their titles.
pub fn draw(canvas: &mut Canvas, layout: &Layout, frame: &Frame, extras: &Extras) {
    titles(canvas, layout, frame);
    let middle = layout.middle();
    for row in &layout.rows {
        let lane = &frame.lanes[row.lane];
        let y = row.top + middle;
        name(canvas, layout.labels, y, lane, frame);
        numbers(canvas, layout, y, lane, frame);
    }
    folded(canvas, layout.folded, frame, &extras.key_of("all-hops"));
}

/// How many hops are folded away, and why.
fn folded(canvas: &mut Canvas, area: Rect, frame: &Frame, key: &str) {
    if area.is_empty() {
        return;
    }
    let lanes = || frame.lanes.iter().filter(|lane| frame.is_folded(lane));
    let off = lanes().filter(|lane| lane.state.is_off()).count();
    let missing = lanes().count() - off;
    let hops = |n: usize| if n == 1 { "hop" } else { "hops" };
    let words = match (off, missing) {
        (off, 0) => format!("{off} {} off", hops(off)),
        (0, missing) => format!("{missing} {} not available here", hops(missing)),
        (off, missing) => format!("{off} {} off, {missing} not available here", hops(off)),
    };
    let words = if key.is_empty() { words } else { format!("{words} · {key}: show") };
    canvas.put_cut(area, 1, 0, area.width.saturating_sub(2), &words, canvas.theme.dim);
}

fn titles(canvas: &mut Canvas, layout: &Layout, frame: &Frame) {
    let theme = canvas.theme;
    let area = layout.titles;
    canvas.rule(area, 0, "─", theme.grid);
    let mut x = layout.numbers.x - area.x;
    for column in &layout.columns {
        x += GAP + column.width();
        canvas.put_right(area, x, 0, &format!(" {}", column.title(frame)), theme.dim);
    }
    let mut words = match frame.sweep.align {
        Align::Time => {
            frame.header.origin_utc_ns.map(|ns| format!("{} UTC ", utc_time(ns))).unwrap_or_default()
        }
        Align::Start => format!(
            "{}, each from its start ",
            counted(frame.sweep.lifelines.len() as u64, "journey", "journeys")
        ),
    };
    if let Some(cursors) = frame.cursors {
        words = readout(cursors);
    }
    let left = layout.numbers.x.saturating_sub(layout.picture.x);
    let words = with_hidden(words, layout.hidden, left);
    let room = Rect { width: layout.numbers.x - area.x, ..area };
    if !words.is_empty() {
        canvas.put(room, layout.picture.x - area.x, 0, &words, theme.dim);
    }
}

/// The words with the number of hidden hops, if they fit: cut words would run into the next title.
fn with_hidden(words: String, hidden: usize, room: u16) -> String {
    let hops = if hidden == 1 { "hop" } else { "hops" };
    let all = format!("{words}· {hidden} {hops} hidden ");
    if hidden > 0 && width(&all) <= room { all } else { words }
}

/// Cursor readout: the time difference, its inverse, and its bound.
fn readout(cursors: CursorReading) -> String {
    let sign = if cursors.delta_ns < 0 { "-" } else { "" };
    let mut words = format!(" A→B {sign}{}", duration(cursors.delta_ns.unsigned_abs()));
    if cursors.half_width_ns > 0 {
        _ = write!(words, " ±{}", short_duration(cursors.half_width_ns));
    }
    if let Some(per_s) = cursors.per_s {
        _ = write!(words, "  1/Δ {}", rate(per_s));
    }
    words.push(' ');
    words
}

fn name(canvas: &mut Canvas, area: Rect, y: u16, lane: &Lane, frame: &Frame) {
    let theme = canvas.theme;
    if lane.probe().is_some() {
        canvas.put(area, 0, y, "◇", theme.dim);
        canvas.put_cut(area, 1, y, area.width.saturating_sub(2), frame.name_of(lane.place), theme.plain);
        return;
    }
    if !matches!(lane.place, Place::Hop(_) | Place::Forwarder(_)) {
        let x = if matches!(lane.place, Place::Inside(..)) { 2 } else { 1 };
        canvas.put(area, x, y, frame.name_of(lane.place), theme.dim);
        return;
    }
    let selected = frame.controls.lane == Some(lane.place);
    let style = match (selected, lane.is_served()) {
        (true, _) => theme.selected,
        (false, true) => theme.plain,
        (false, false) => theme.dim,
    };
    if selected {
        canvas.put(area, 0, y, SELECTED, theme.accent);
    }
    if let Place::Forwarder(number) = lane.place {
        let is_open = frame.bands.get(usize::from(number) - 1).is_some_and(|band| band.is_open);
        canvas.put(
            area,
            0,
            y,
            if is_open { "-" } else { "+" },
            if selected { theme.accent } else { theme.dim },
        );
    }
    canvas.put_cut(area, 1, y, area.width.saturating_sub(2), frame.name_of(lane.place), style);
}

fn numbers(canvas: &mut Canvas, layout: &Layout, y: u16, lane: &Lane, frame: &Frame) {
    let theme = canvas.theme;
    let area = layout.numbers;
    if let Some(words) = instead(lane, frame) {
        canvas.put_cut(area, GAP, y, area.width.saturating_sub(GAP), &words, theme.dim);
        return;
    }
    let selected = frame.controls.lane == Some(lane.place);
    let style = if selected { theme.selected } else { theme.plain };
    let mut x = 0;
    for column in &layout.columns {
        x += GAP + column.width();
        if let Some(mark) = lane.stats.as_ref().and_then(|stats| column.protocol(stats)) {
            canvas.put_right(area, x - column.width(), y, mark, theme.dim);
        }
        match lane.stats.as_ref().and_then(|stats| column.text(stats)) {
            Some(text) => canvas.put_right(area, x, y, &text, style),
            None => canvas.put_right(area, x, y, "·", theme.dim),
        };
    }
}

/// Text in place of numbers: the reason for an unserved hop; at the wire, the two hosts.
fn instead(lane: &Lane, frame: &Frame) -> Option<String> {
    if let Some(words) = bands::words(frame, lane.place) {
        return Some(words);
    }
    if lane.is_wire() {
        let (sender, receiver) = (&frame.header.sender, &frame.header.receiver);
        let ends = if receiver.is_empty() || sender == receiver {
            "▴ receiver   ▾ sender".to_owned()
        } else {
            format!("▴ {receiver}   ▾ {sender}")
        };
        return Some(match (frame.wire.half_width_ns, frame.wire.state) {
            (Some(0), _) => ends,
            (Some(ns), Some(state)) => format!("±{} {state}   {ends}", short_duration(ns)),
            (Some(ns), None) => format!("±{}   {ends}", short_duration(ns)),
            (None, _) => format!("not joined   {ends}"),
        });
    }
    (lane.hop().is_some() && !lane.state.is_on()).then(|| lane.state.words())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_hops_are_named_only_where_all_of_it_fits() {
        let words = || " A→B  250 ms  1/Δ 4.00  /s ".to_owned();
        assert_eq!(with_hidden(words(), 1, 80), " A→B  250 ms  1/Δ 4.00  /s · 1 hop hidden ");
        assert_eq!(with_hidden(words(), 2, 42), words());
        assert_eq!(with_hidden(words(), 0, 80), words());
    }
}

//! The help: every key, from the active key map, and what the labels on the screen mean.

use super::canvas::{Canvas, width};
use magscope_scope::command::COMMANDS;
use magscope_scope::command::keys::KeyMap;
use magscope_scope::wrap;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::symbols::border;

const READING: &[&str] = &[
    "Time runs to the right, a packet climbs: the",
    "sender's hops below the wire, the receiver's",
    "above. Flat stretches are where the time went.",
    "In colour: the slowest journey since the last",
    "picture, or the selected one. A red cross: a drop.",
    "Numbers are over 5 s, times from the hop below.",
    "A dot · is not measured, which is not zero.",
];

/// Width of the key names.
const KEYS: u16 = 11;

/// Width of a key with its description.
const ENTRY: u16 = 56;

/// Draws the help over the middle of `area`, in two columns if possible, from row `from`.
pub fn draw(canvas: &mut Canvas, area: Rect, keys: &KeyMap, labels: &[(&str, String)], from: usize) {
    let theme = canvas.theme;
    let bound: Vec<_> = COMMANDS
        .iter()
        .map(|command| (keys.shown(command), command))
        .filter(|(shown, _)| !shown.is_empty())
        .collect();
    let halves = if area.width >= 2 * ENTRY + 2 { 2 } else { 1 };
    let rows = bound.len().div_ceil(halves);
    let skip = READING.len() + 1;
    let wide = ENTRY * halves as u16;
    let explained = explained(labels, usize::from(wide.min(area.width.saturating_sub(2))).saturating_sub(2));
    let all = rows + skip + explained.len();
    let inner = window(canvas, area, wide, u16::try_from(all).unwrap_or(u16::MAX), " help ");
    // Limit scrolling to the content.
    let from = from.min(all.saturating_sub(usize::from(inner.height)));
    let row = |at: usize| at.checked_sub(from).and_then(|y| u16::try_from(y).ok());
    for (at, words) in READING.iter().enumerate() {
        if let Some(y) = row(at) {
            canvas.put(inner, 1, y, words, theme.dim);
        }
    }
    for (i, (shown, command)) in bound.iter().enumerate() {
        let x = 1 + (i / rows) as u16 * ENTRY;
        if let Some(y) = row(skip + i % rows) {
            canvas.put(inner, x, y, shown, theme.accent);
            canvas.put_cut(inner, x + KEYS, y, (ENTRY - KEYS - 2).min(inner.width), command.words, theme.plain);
        }
    }
    for (at, (label, words)) in explained.iter().enumerate() {
        if let Some(y) = row(skip + rows + at) {
            let end = canvas.put(inner, 1, y, label, theme.accent);
            canvas.put(inner, end, y, words, theme.plain);
        }
    }
    if all > usize::from(inner.height) + from {
        canvas.put_right(inner, inner.width, inner.height.saturating_sub(1), " ↓ more ", theme.strong);
    }
}

/// The labels on the screen with their sentences, in lines of this width: what is at the begin of a line in colour, and the
/// rest.
fn explained(labels: &[(&str, String)], width: usize) -> Vec<(String, String)> {
    if labels.is_empty() {
        return Vec::new();
    }
    let mut lines =
        vec![(String::new(), String::new()), ("The labels on this screen".to_owned(), String::new())];
    for (label, words) in labels {
        let mut wrapped = String::new();
        // Writing to a string does not fail.
        let _ = wrap(&mut wrapped, &format!("{label}: {words}"), width, "   ");
        for line in wrapped.lines() {
            lines.push(match line.strip_prefix(*label) {
                Some(rest) if rest.starts_with(':') => ((*label).to_owned(), rest.to_owned()),
                _ => (String::new(), line.to_owned()),
            });
        }
    }
    lines
}

/// Clears and frames a window of at most this size in the middle of `area`; returns its inside.
pub fn window(canvas: &mut Canvas, area: Rect, columns: u16, rows: u16, title: &str) -> Rect {
    let size = Rect { width: (columns + 2).min(area.width), height: (rows + 2).min(area.height), ..area };
    let outer =
        Rect { x: area.x + (area.width - size.width) / 2, y: area.y + (area.height - size.height) / 2, ..size };
    clear(canvas.buffer, outer);
    if outer.width < 3 || outer.height < 3 {
        return outer;
    }
    let style = canvas.theme.dim;
    let set = border::ROUNDED;
    let (right, bottom) = (outer.width - 1, outer.height - 1);
    for x in 1..right {
        canvas.put(outer, x, 0, set.horizontal_top, style);
        canvas.put(outer, x, bottom, set.horizontal_bottom, style);
    }
    for y in 1..bottom {
        canvas.put(outer, 0, y, set.vertical_left, style);
        canvas.put(outer, right, y, set.vertical_right, style);
    }
    canvas.put(outer, 0, 0, set.top_left, style);
    canvas.put(outer, right, 0, set.top_right, style);
    canvas.put(outer, 0, bottom, set.bottom_left, style);
    canvas.put(outer, right, bottom, set.bottom_right, style);
    if width(title) + 4 < outer.width {
        canvas.put(outer, 2, 0, title, canvas.theme.strong);
    }
    Rect { x: outer.x + 1, y: outer.y + 1, width: outer.width - 2, height: outer.height - 2 }
}

fn clear(buffer: &mut Buffer, area: Rect) {
    for position in area.positions() {
        if let Some(cell) = buffer.cell_mut(position) {
            cell.reset();
        }
    }
}

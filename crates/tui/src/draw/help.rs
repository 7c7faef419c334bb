//! The help: every key, from the active key map, and what the labels on the screen mean.

use super::canvas::{Canvas, width};
use magscope_scope::command::COMMANDS;
use magscope_scope::command::keys::KeyMap;
use magscope_scope::wrap;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::symbols::border;

/// The picture in words.
const READING: &str = "Time runs to the right, a packet climbs: the sender's hops below the wire, the receiver's \
                       above. Flat stretches are where the time went. In colour: the slowest journey since the \
                       last picture, or the selected one. A red cross: a drop. Numbers are over 5 s, times from \
                       the hop below. A dot · is not measured, which is not zero.";

/// Width of the key names.
const KEYS: u16 = 11;

/// Minimum width of a key with its description, for a second column.
const ENTRY: u16 = 56;
/// Maximum width of it: longer lines are hard to read.
const MOST_ENTRY: u16 = 80;

/// A line of the help: the beginning in colour, and the rest.
type Line = (String, String);

/// Draws the help over the middle of `area`, in two columns if possible, from row `from`.
pub fn draw(canvas: &mut Canvas, area: Rect, keys: &KeyMap, labels: &[(&str, String)], from: usize) {
    let room = area.width.saturating_sub(2);
    let halves = if room >= 2 * ENTRY { 2 } else { 1 };
    let entry = (room / halves).min(MOST_ENTRY);
    let text_width = usize::from(entry * halves).saturating_sub(2);
    let (left, right) = columns(keys, halves, usize::from(entry.saturating_sub(KEYS + 2)));
    let plain = |words: String| (String::new(), words);
    let reading: Vec<Line> = lines(READING, text_width).into_iter().map(plain).collect();
    let explained = explained(labels, text_width);
    let (skip, rows) = (reading.len() + 1, left.len());
    let all = skip + rows + explained.len();
    let inner = window(canvas, area, entry * halves, u16::try_from(all).unwrap_or(u16::MAX), " help ");
    // Limit scrolling to the content.
    let from = from.min(all.saturating_sub(usize::from(inner.height)));
    let (dim, plain) = (canvas.theme.dim, canvas.theme.plain);
    let mut part = |lines: &[Line], x: u16, indent: Option<u16>, row: usize, style| {
        for ((first, words), row) in lines.iter().zip(row..) {
            let Some(y) = row.checked_sub(from).and_then(|y| u16::try_from(y).ok()) else { continue };
            let end = canvas.put(inner, x, y, first, canvas.theme.accent);
            canvas.put(inner, indent.map_or(end, |indent| x + indent), y, words, style);
        }
    };
    part(&reading, 1, None, 0, dim);
    part(&left, 1, Some(KEYS), skip, plain);
    part(&right, 1 + entry, Some(KEYS), skip, plain);
    part(&explained, 1, None, skip + rows, plain);
    if all > usize::from(inner.height) + from {
        canvas.put_right(inner, inner.width, inner.height.saturating_sub(1), " ↓ more ", canvas.theme.strong);
    }
}

/// The keys with descriptions of this width, in one column or two of about the same length.
fn columns(keys: &KeyMap, halves: u16, width: usize) -> (Vec<Line>, Vec<Line>) {
    let shown = COMMANDS.iter().map(|command| (keys.shown(command), command.words));
    let entries: Vec<Vec<Line>> =
        shown.filter(|(key, _)| !key.is_empty()).map(|(key, words)| entry(&key, words, width)).collect();
    let rows = entries.iter().map(Vec::len).sum::<usize>().div_ceil(usize::from(halves));
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for lines in entries {
        if left.len() < rows { left.extend(lines) } else { right.extend(lines) }
    }
    (left, right)
}

/// A key and its description, in lines of this width.
fn entry(key: &str, words: &str, width: usize) -> Vec<Line> {
    let keys = std::iter::once(key).chain(std::iter::repeat(""));
    keys.zip(lines(words, width)).map(|(key, words)| (key.to_owned(), words)).collect()
}

/// A text in lines of this width.
pub fn lines(text: &str, width: usize) -> Vec<String> {
    let mut wrapped = String::new();
    // Writing to a string does not fail.
    let _ = wrap(&mut wrapped, text, width, "");
    wrapped.lines().map(str::to_owned).collect()
}

/// The labels on the screen with their sentences, in lines of this width: what is at the begin of a line in colour, and the
/// rest.
fn explained(labels: &[(&str, String)], width: usize) -> Vec<Line> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::{Depth, Theme};

    #[test]
    fn descriptions_of_keys_are_complete() {
        let (theme, keys) = (Theme::built_in("dark", Depth::None), KeyMap::built_in());
        for columns in [60, 80, 120, 200] {
            let area = Rect::new(0, 0, columns, 200);
            let mut buffer = Buffer::empty(area);
            draw(&mut Canvas::new(&mut buffer, &theme), area, &keys, &[], 0);
            let text: String = buffer.content.iter().map(ratatui::buffer::Cell::symbol).collect();
            assert!(!text.contains('…'), "{columns}");
            for word in COMMANDS.iter().filter(|c| !keys.shown(c).is_empty()).flat_map(|c| c.words.split(' ')) {
                assert!(text.contains(word), "{columns}: {word}");
            }
        }
    }

    #[test]
    fn the_help_uses_the_width_of_a_small_screen() {
        let (theme, keys) = (Theme::built_in("dark", Depth::None), KeyMap::built_in());
        let area = Rect::new(0, 0, 80, 24);
        let mut buffer = Buffer::empty(area);
        draw(&mut Canvas::new(&mut buffer, &theme), area, &keys, &[], 0);
        assert_eq!((buffer[(0, 0)].symbol(), buffer[(79, 0)].symbol()), ("╭", "╮"));
    }
}

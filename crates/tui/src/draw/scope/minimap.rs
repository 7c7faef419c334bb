//! The overview of the time range: event rate, losses in red, and the visible window.

use super::density::set;
use super::layout::Layout;
use crate::draw::canvas::Canvas;
use crate::draw::shade::spark_of;
use magscope_scope::Frame;
use magscope_scope::format::short_duration;

/// Draws it.
pub fn draw(canvas: &mut Canvas, layout: &Layout, frame: &Frame) {
    let area = layout.minimap;
    let map = frame.minimap(usize::from(area.width));
    if area.is_empty() || map.columns.is_empty() {
        return;
    }
    let theme = canvas.theme;
    let label = ratatui::layout::Rect { x: layout.labels.x, width: layout.labels.width, ..area };
    canvas.put(label, 1, 0, "session", theme.dim);
    let most = map.columns.iter().map(|column| column.journeys).max().unwrap_or(0).max(1) as f64;
    let most_summed = map.columns.iter().map(|column| column.summed).max().unwrap_or(0).max(1) as f64;
    let across = f64::from(area.width);
    let (from, to) = ((map.view.0 * across).floor(), (map.view.1 * across).ceil());
    for (x, column) in map.columns.iter().take(usize::from(area.width)).enumerate() {
        let shown = (from..to.max(from + 1.0)).contains(&(x as f64));
        let (bad, missed) = (column.drops > 0, column.missed > 0);
        let glyph = match (column.unread, bad || missed, column.journeys) {
            (true, ..) => '·',
            (_, true, 0) if column.summed == 0 => {
                if bad {
                    '✕'
                } else {
                    '!'
                }
            }
            // Square root, so that small numbers stay visible.
            (_, _, 0) => spark_of((column.summed as f64 / most_summed).sqrt()),
            (_, _, n) => spark_of((n as f64 / most).sqrt()),
        };
        let style = if bad {
            theme.bad
        } else if missed {
            theme.missed
        } else if shown {
            theme.accent
        } else {
            theme.dim
        };
        let glyph = if shown && glyph == ' ' { '▁' } else { glyph };
        set(canvas, area, x as u16, 0, glyph, style);
    }
    let right = ratatui::layout::Rect { x: layout.numbers.x, width: layout.numbers.width, ..area };
    let mut words = short_duration(map.to_ns.saturating_sub(map.from_ns));
    if map.columns.iter().any(|column| column.unread) {
        words.push_str(", being read");
    }
    canvas.put_cut(right, 2, 0, right.width.saturating_sub(2), &words, theme.dim);
}

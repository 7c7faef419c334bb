//! The headline: the worst true thing in one line, and the key that leads to its evidence.

use super::canvas::{Canvas, width};
use magscope_scope::{Evidence, Frame, HeadlineKind, Top};
use ratatui::layout::Rect;

/// Draws the line.
pub fn draw(canvas: &mut Canvas, area: Rect, frame: &Frame) {
    let theme = canvas.theme;
    let headline = frame.headline;
    let (sign, style) = match headline.kind {
        HeadlineKind::Loss | HeadlineKind::Unreached => ("! ", theme.bad),
        HeadlineKind::Slow | HeadlineKind::Retransmissions => ("! ", theme.accent),
        HeadlineKind::MissedEvents => ("? ", theme.missed),
        HeadlineKind::NothingWrong => ("", theme.plain),
        HeadlineKind::Unknown => ("", theme.dim),
    };
    let words = if headline.text.is_empty() { "nothing observed yet" } else { &headline.text };
    let controls = frame.controls;
    let key = match headline.evidence {
        Evidence::None => "",
        _ if controls.view.is_on_picture() && controls.journey.is_none() && controls.top == Top::Nothing => {
            "Enter: show why"
        }
        _ => "!: show why",
    };
    let hint = if key.is_empty() { 0 } else { width(key) + 2 };
    let room = area.width.saturating_sub(2);
    let words = format!("{sign}{words}");
    // The conclusion has priority over the hint.
    let fits = width(&words) + hint <= room;
    canvas.put_cut(area, 1, 0, room, &words, style);
    if fits && hint > 0 {
        let dim = canvas.theme.dim;
        canvas.put_right(area, area.width.saturating_sub(1), 0, key, dim);
    }
}

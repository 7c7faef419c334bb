//! The headline: the worst true thing in one line, or in two on a narrow screen, and the key that leads to its evidence.

use super::canvas::{Canvas, width};
use super::help::lines;
use magscope_scope::{Evidence, Frame, HeadlineKind, Top};
use ratatui::layout::Rect;

/// Maximum number of rows.
const ROWS: u16 = 2;

/// The text with its sign.
fn words(frame: &Frame) -> String {
    let headline = frame.headline;
    let sign = match headline.kind {
        kind if kind.is_wrong() => "! ",
        HeadlineKind::MissedEvents => "? ",
        _ => "",
    };
    let text = if headline.text.is_empty() { "nothing observed yet" } else { &headline.text };
    format!("{sign}{text}")
}

/// Columns of text on a screen of this width.
const fn room(width: u16) -> u16 {
    width.saturating_sub(2)
}

/// Rows on a screen of this width.
pub fn rows(frame: &Frame, screen: u16) -> u16 {
    let rows = lines(&words(frame), usize::from(room(screen))).len();
    u16::try_from(rows).unwrap_or(ROWS).clamp(1, ROWS)
}

/// Draws the text.
pub fn draw(canvas: &mut Canvas, area: Rect, frame: &Frame) {
    let theme = canvas.theme;
    let headline = frame.headline;
    let style = match headline.kind {
        HeadlineKind::Loss | HeadlineKind::Unreached | HeadlineKind::Unanswered => theme.bad,
        HeadlineKind::Slow | HeadlineKind::Retransmissions => theme.accent,
        HeadlineKind::MissedEvents => theme.missed,
        HeadlineKind::NothingWrong => theme.plain,
        HeadlineKind::Unknown => theme.dim,
    };
    let controls = frame.controls;
    let key = match headline.evidence {
        Evidence::None => "",
        _ if controls.view.is_on_picture() && controls.journey.is_none() && controls.top == Top::Nothing => {
            "Enter: show why"
        }
        _ => "!: show why",
    };
    let hint = if key.is_empty() { 0 } else { width(key) + 2 };
    let room = room(area.width);
    let mut parts = lines(&words(frame), usize::from(room));
    // The last row has the rest, as much as it holds.
    let last = usize::from(area.height.saturating_sub(1));
    let rest = parts.drain(last.min(parts.len())..).collect::<Vec<_>>().join(" ");
    for (y, part) in parts.iter().chain([&rest]).enumerate() {
        canvas.put_cut(area, 1, y as u16, room, part, style);
    }
    // The conclusion has priority over the hint.
    if hint > 0 && width(&rest) + hint <= room {
        canvas.put_right(area, area.width.saturating_sub(1), area.height.saturating_sub(1), key, theme.dim);
    }
}

//! The table below the picture: the slowest journeys, the most recent, or those that went wrong.

use super::canvas::{Canvas, width};
use magscope_core::Verdict;
use magscope_scope::format::{bytes, duration};
use magscope_scope::{Frame, List, Listed};
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Columns of the marker and the journey's number.
const NUMBER: u16 = 11;
const TOTAL: u16 = 9;
const BLAME: u16 = 42;
const WIDEST_BLAME: u16 = 60;
/// What the two addresses of a flow commonly take.
const FLOW: u16 = 37;
const LEAST_BLAME: u16 = 20;
const BYTES: u16 = 9;

/// Draws the table.
pub fn draw(canvas: &mut Canvas, area: Rect, frame: &Frame) {
    if area.is_empty() {
        return;
    }
    let widths = Widths::new(area.width);
    title(canvas, area, frame, &widths);
    for (y, row) in frame.table.iter().take(usize::from(area.height - 1)).enumerate() {
        journey(canvas, area, y as u16 + 1, row, &widths);
    }
    if frame.table.is_empty() && area.height > 1 {
        let words = match frame.view.list {
            List::Bad => "none dropped, none lost",
            _ => "no journey yet",
        };
        canvas.put(area, 2, 1, words, canvas.theme.dim);
    }
}

/// Widths of the columns; 0 where there is no room.
struct Widths {
    blame: u16,
    bytes: u16,
    flow: u16,
}

impl Widths {
    fn new(width: u16) -> Self {
        let left = width.saturating_sub(NUMBER + TOTAL + 1); // and a margin
        let blame = left.min(left.saturating_sub(BYTES + FLOW).clamp(BLAME, WIDEST_BLAME));
        let left = left - blame;
        let bytes = if left >= BYTES { BYTES } else { 0 };
        let flow = if left >= BYTES + LEAST_BLAME { left - bytes } else { 0 };
        Widths { blame, bytes, flow }
    }
}

fn title(canvas: &mut Canvas, area: Rect, frame: &Frame, widths: &Widths) {
    let theme = canvas.theme;
    canvas.rule(area, 0, "─", theme.dim);
    let of = |list| if frame.view.list == list { theme.strong } else { theme.dim };
    let pieces = [
        (" slowest ", of(List::Slowest)),
        ("· ", theme.dim),
        ("recent ", of(List::Recent)),
        ("· ", theme.dim),
        ("dropped & lost ", of(List::Bad)),
    ];
    let end = canvas.put_all(area, 0, 0, &pieces);
    let mut x = NUMBER + TOTAL + widths.blame;
    for (words, width) in [("bytes", widths.bytes), ("flow", widths.flow)] {
        if width > 0 && x > end {
            let words = format!(" {words} ");
            if words.contains("flow") {
                canvas.put(area, x + 1, 0, &words, theme.dim);
            } else {
                canvas.put_right(area, x + width, 0, &words, theme.dim);
            }
        }
        x += width;
    }
}

fn journey(canvas: &mut Canvas, area: Rect, y: u16, row: &Listed, widths: &Widths) {
    let theme = canvas.theme;
    let style = match (row.selected, row.anchor) {
        (true, _) => theme.selected.patch(theme.accent),
        (false, true) => theme.accent,
        (false, false) => theme.plain,
    };
    if row.selected {
        canvas.put(area, 0, y, "▸", style);
    }
    canvas.put(area, 2, y, &format!("#{}", row.line.id()), style);
    canvas.put(area, NUMBER, y, &duration(row.line.total_ns()), style);
    blame(canvas, area, y, row, widths.blame, style);
    let mut x = NUMBER + TOTAL + widths.blame;
    if widths.bytes > 0 {
        canvas.put_right(area, x + widths.bytes, y, &bytes(row.line.journey.bytes()), style);
    }
    x += widths.bytes;
    if widths.flow > 0 {
        let flow = row.line.ends.map(|(from, to)| format!("{} {from}→{to}", row.line.journey.proto));
        let flow = flow.unwrap_or_else(|| row.line.journey.proto.to_string());
        canvas.put_cut(area, x + 2, y, widths.flow.saturating_sub(2), &flow, style);
    }
}

/// What to blame and for how long; red for what went wrong.
fn blame(canvas: &mut Canvas, area: Rect, y: u16, row: &Listed, room: u16, style: Style) {
    let theme = canvas.theme;
    let x = NUMBER + TOTAL;
    let (words, ns, style) = match (row.line.journey.verdict, &row.blame) {
        (Verdict::BrokenByEventLoss { .. }, _) => ("✕ events of it were lost".to_owned(), None, theme.bad),
        (verdict @ (Verdict::Dropped { .. } | Verdict::LostAfter { .. }), _) => {
            (format!("✕ {verdict}"), None, theme.bad)
        }
        (verdict, None) => (verdict.to_string(), None, style),
        (verdict, Some((words, ns))) if verdict.is_whole() => (words.clone(), Some(*ns), style),
        (verdict, Some((words, ns))) => (format!("{verdict}: {words}"), Some(*ns), style),
    };
    let time = ns.map(duration).unwrap_or_default();
    let time_width = width(&time);
    if room > LEAST_BLAME && time_width > 0 {
        canvas.put_cut(area, x, y, room - time_width - 2, &words, style);
        canvas.put_right(area, x + room - 1, y, &time, style);
    } else {
        canvas.put_cut(area, x, y, room, &words, style);
    }
}

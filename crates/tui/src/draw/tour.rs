//! The step of the tour, below the view.

use super::Extras;
use super::canvas::Canvas;
use magscope_scope::Frame;
use ratatui::layout::Rect;

/// Draws the step, if there is a tour.
pub fn draw(canvas: &mut Canvas, area: Rect, frame: &Frame, extras: &Extras) {
    let Some(step) = frame.tour.filter(|_| !area.is_empty()) else { return };
    let theme = canvas.theme;
    canvas.rule(area, 0, "─", theme.accent);
    let title = format!(" tour {} of {} ", step.number, step.of);
    canvas.put(area, 1, 0, &title, theme.strong);
    canvas.put_right(
        area,
        area.width.saturating_sub(1),
        0,
        &format!(" {}: next step ", extras.key_of("tour-next")),
        theme.dim,
    );
    let lines = step.lines(usize::from(area.width.saturating_sub(2)), |name| extras.key_of(name));
    for (y, line) in (1..area.height).zip(lines) {
        canvas.put(area, 1, y, &line, theme.accent);
    }
}

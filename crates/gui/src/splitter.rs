//! The border of a panel. It stays where it was put: a smaller window or a larger content shows less of a panel, and does
//! not change the size that was chosen.

use crate::ui_context::UiContext;
use egui::{CursorIcon, Rangef, Rect, Role, Sense, Stroke, Ui, UiBuilder, WidgetInfo};

/// Half of the width that can be grabbed, points.
const GRAB: f32 = 3.0;

/// The side of the window that a panel is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Its border is above it.
    Bottom,
    /// Its border is to the left of it.
    Right,
}

/// Draws the contents of a panel within its size: what is larger is cut or scrolls, and the panel does not grow.
pub fn contents(ui: &mut Ui, add: impl FnOnce(&mut Ui)) {
    let rect = ui.available_rect_before_wrap();
    let mut inside = ui.new_child(UiBuilder::new().max_rect(rect));
    inside.shrink_clip_rect(rect.expand2(egui::vec2(8.0, 5.0)));
    add(&mut inside);
    ui.allocate_rect(rect, Sense::hover());
}

/// Lets the border of a panel be dragged, and changes the chosen size.
pub fn show(ui: &Ui, side: Side, panel: Rect, range: Rangef, size: &mut f32, cx: &UiContext) {
    let (line, name, cursor) = match side {
        Side::Bottom => {
            let y = Rangef::new(panel.top() - GRAB, panel.top() + GRAB);
            (Rect::from_x_y_ranges(panel.x_range(), y), "height of the panel below", CursorIcon::ResizeVertical)
        }
        Side::Right => {
            let x = Rangef::new(panel.left() - GRAB, panel.left() + GRAB);
            (Rect::from_x_y_ranges(x, panel.y_range()), "width of the side panel", CursorIcon::ResizeHorizontal)
        }
    };
    let response = ui.interact(line, ui.scope_id().with(name), Sense::drag());
    response.widget_info(|| WidgetInfo::labeled(Role::Splitter, true, name));
    if response.hovered() || response.dragged() {
        ui.ctx().set_cursor_icon(cursor);
        let stroke = Stroke::new(1.5, cx.c.accent);
        match side {
            Side::Bottom => ui.painter().hline(panel.x_range(), panel.top(), stroke),
            Side::Right => ui.painter().vline(panel.left(), panel.y_range(), stroke),
        };
    }
    let at = response.interact_pointer_pos().filter(|_| response.dragged());
    if let Some(at) = at {
        let wanted = match side {
            Side::Bottom => panel.bottom() - at.y,
            Side::Right => panel.right() - at.x,
        };
        *size = range.clamp(wanted);
    }
}

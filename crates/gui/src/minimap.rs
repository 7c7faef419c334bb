//! Overview of the whole time range: event rate, losses in red, and the visible window, which can be dragged.

use crate::cache::{key, place};
use crate::text::{self, SMALL};
use crate::time::Ink;
use crate::ui_context::UiContext;
use crate::wheel::Wheel;
use egui::{Align2, CursorIcon, Rect, Role, Sense, Shape, Stroke, StrokeKind, Ui, WidgetInfo, pos2};
use magscope_scope::format::{count, counted, short_duration};
use magscope_scope::look::{Minimap, MinimapColumn};
use magscope_scope::{Action, Frame};
use std::fmt::Write as _;

/// Height.
pub const HEIGHT: f32 = 46.0;
/// Minimum width of the window marker, so that it can be grabbed.
const LEAST: f32 = 6.0;

/// Drag state: the grabbed position as a fraction of the time range.
#[derive(Clone, Copy, Debug, Default)]
pub struct MinimapDrag {
    held: Option<f64>,
    wheel: Wheel,
}

impl MinimapDrag {
    /// Draws the overview over the width of `ui`.
    pub fn show(&mut self, ui: &mut Ui, frame: &Frame, cx: &mut UiContext) {
        let (all, response) =
            ui.allocate_exact_size(egui::vec2(ui.available_width(), HEIGHT), Sense::click_and_drag());
        let area = Rect::from_min_max(
            pos2(all.left() + 8.0, all.top() + 3.0),
            pos2(all.right() - 8.0, all.bottom() - 15.0),
        );
        if area.width() < 20.0 {
            return;
        }
        let columns = area.width() as usize;
        let state = key(&[cx.revision, place(area), u64::from(cx.c == &crate::colours::DARK)]);
        let map = cx.cache.minimaps.get(key(&[state, columns as u64]), || frame.minimap(columns));
        let all_ns = map.to_ns.saturating_sub(map.from_ns);
        response.widget_info(|| {
            WidgetInfo::labeled(Role::Canvas, true, format!("the whole session: {}", short_duration(all_ns)))
        });
        let painter = ui.painter_at(all);
        painter.rect_filled(area, 3.0, cx.c.back);
        let c = cx.c;
        let mesh = cx.cache.mesh("minimap", state, || {
            let mut ink = Ink::new(area, false);
            let most = map.columns.iter().map(|column| column.journeys).max().unwrap_or(0);
            let most = (most as f32).ln_1p().max(0.7);
            let most_summed = map.columns.iter().map(|column| column.summed).max().unwrap_or(0);
            let most_summed = (most_summed as f32).ln_1p().max(0.7);
            for (n, column) in map.columns.iter().enumerate() {
                bar(&mut ink, area, n, map.columns.len(), column, (most, most_summed), c);
            }
            ink.mesh()
        });
        painter.add(Shape::Mesh(mesh));
        let window = window(area, &map);
        painter.rect_filled(window, 2.0, cx.c.accent.gamma_multiply(0.15));
        painter.rect_stroke(window, 2.0, Stroke::new(1.0, cx.c.accent), StrokeKind::Inside);
        ends(&painter, area, all, frame, &map, cx);
        self.moves(ui, area, &map, &response, cx);
        if let Some(at) = response.hover_pos() {
            let n = ((at.x - area.left()) / area.width() * map.columns.len() as f32).max(0.0) as usize;
            if let Some(words) = map.columns.get(n).map(tooltip) {
                response.on_hover_text_at_pointer(words);
            }
        }
    }

    fn moves(&mut self, ui: &Ui, area: Rect, map: &Minimap, response: &egui::Response, cx: &mut UiContext) {
        let part = |x: f32| f64::from((x - area.left()) / area.width());
        let (left, right) = map.view;
        let width = right - left;
        if response.hovered() {
            ui.ctx().set_cursor_icon(if self.held.is_some() { CursorIcon::Grabbing } else { CursorIcon::Grab });
            let scroll = ui.input(egui::InputState::smooth_scroll_delta).y;
            let notches = self.wheel.turn(scroll);
            if notches != 0 {
                cx.act(Action::Zoom { notches: -notches, at: 0.5 });
            }
        }
        let show = |middle: f64, cx: &mut UiContext| {
            let to = (middle - width * 0.5).clamp(0.0, (1.0 - width).max(0.0));
            cx.act(Action::PanBy((to - left) / width.max(1e-12)));
        };
        let Some(at) = response.interact_pointer_pos().map(|at| part(at.x)) else {
            self.held = None;
            return;
        };
        if response.clicked() {
            show(at, cx);
        } else if response.drag_started() {
            let origin = ui.input(|input| input.pointer.press_origin()).map_or(at, |at| part(at.x));
            let inside = (left..=right).contains(&origin);
            self.held = Some(if inside { origin - f64::midpoint(left, right) } else { 0.0 });
        }
        if let Some(held) = self.held.filter(|_| response.dragged()) {
            show(at - held, cx);
        }
        if response.drag_stopped() {
            self.held = None;
        }
    }
}

fn window(area: Rect, map: &Minimap) -> Rect {
    let x = |part: f64| area.left() + (part.clamp(0.0, 1.0) as f32) * area.width();
    let (left, right) = (x(map.view.0), x(map.view.1));
    let more = ((LEAST - (right - left)) * 0.5).max(0.0);
    Rect::from_min_max(pos2(left - more, area.top()), pos2(right + more, area.bottom())).intersect(area)
}

fn bar(
    ink: &mut Ink,
    area: Rect,
    n: usize,
    columns: usize,
    column: &MinimapColumn,
    (most, most_summed): (f32, f32),
    c: &crate::colours::Colours,
) {
    let x = |n: usize| area.left() + area.width() * n as f32 / columns.max(1) as f32;
    let (left, right) = (x(n), x(n + 1));
    let whole = Rect::from_min_max(pos2(left, area.top()), pos2(right, area.bottom()));
    if column.unread {
        return ink.block(whole, c.grid.gamma_multiply(0.7));
    }
    if column.journeys > 0 {
        let height = (area.height() - 2.0) * ((column.journeys as f32).ln_1p() / most).clamp(0.06, 1.0);
        ink.block(Rect::from_min_max(pos2(left, area.bottom() - height), pos2(right, area.bottom())), c.quick);
    }
    if column.journeys == 0 && column.summed > 0 {
        let height = (area.height() - 2.0) * ((column.summed as f32).ln_1p() / most_summed).clamp(0.06, 1.0);
        let block = Rect::from_min_max(pos2(left, area.bottom() - height), pos2(right, area.bottom()));
        ink.block(block, c.quick.gamma_multiply(0.6));
    }
    if column.missed > 0 {
        ink.block(whole, c.missed.gamma_multiply(0.7));
    }
    if column.drops > 0 {
        ink.block(
            Rect::from_min_max(pos2(left, area.top()), pos2(right.max(left + 1.5), area.top() + 6.0)),
            c.bad,
        );
    }
}

fn ends(painter: &egui::Painter, area: Rect, all: Rect, frame: &Frame, map: &Minimap, cx: &UiContext) {
    let y = all.bottom() - 7.0;
    let whole = short_duration(map.to_ns.saturating_sub(map.from_ns));
    let unread = map.columns.iter().filter(|column| column.unread).count();
    let words = if unread > 0 {
        let read = 100 * (map.columns.len() - unread) / map.columns.len().max(1);
        format!("{whole} in all, {read} % read")
    } else {
        format!("{whole} in all")
    };
    text::put(painter, pos2(area.right(), y), Align2::RIGHT_CENTER, &words, SMALL, cx.c.dim, 260.0);
    let (origin_ns, span_ns) = (frame.sweep.origin_ns, frame.sweep.timebase.span_ns());
    let (shown_ns, since_ns) = shown((map.from_ns, map.to_ns), (origin_ns, span_ns));
    let words = format!("{} shown, from {}", short_duration(shown_ns), short_duration(since_ns));
    text::put(painter, pos2(area.left(), y), Align2::LEFT_CENTER, &words, SMALL, cx.c.dim, 320.0);
}

/// The part of the picture that is in the session: its length, and its beginning since that of the session,
/// nanoseconds. The picture may reach past both ends.
fn shown((from_ns, to_ns): (u64, u64), (origin_ns, span_ns): (u64, u64)) -> (u64, u64) {
    let begin_ns = origin_ns.max(from_ns);
    let end_ns = origin_ns.saturating_add(span_ns).min(to_ns);
    let all_ns = to_ns.saturating_sub(from_ns);
    (end_ns.saturating_sub(begin_ns), (begin_ns - from_ns).min(all_ns))
}

fn tooltip(column: &MinimapColumn) -> String {
    if column.unread {
        return "not read yet".to_owned();
    }
    let mut words = format!(
        "{}, the slowest {}",
        counted(column.journeys, "journey", "journeys"),
        short_duration(column.max_ns)
    );
    if column.summed > 0 {
        _ = write!(words, "\nΣ {} hits that the kernel added up", count(column.summed));
    }
    if column.drops > 0 {
        _ = write!(words, "\n{} packets dropped", count(column.drops)); // writing into a String cannot fail
    }
    if column.missed > 0 {
        _ = write!(words, "\n{} events missed by the instrument", count(column.missed));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_within_the_session() {
        let session = (1_000, 4_000);
        for (picture, expected) in [
            ((1_500, 500), (500, 500)),
            ((400, 10_000), (3_000, 0)),
            ((400, 1_000), (400, 0)),
            ((3_500, 1_000), (500, 2_500)),
            ((9_000, 1_000), (0, 3_000)),
            ((0, u64::MAX), (3_000, 0)),
        ] {
            assert_eq!(shown(session, picture), expected, "{picture:?}");
        }
    }
}

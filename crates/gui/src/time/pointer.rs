//! Pointer input over the picture: hover, buttons and wheel.

use super::plot::Plot;
use crate::ui_context::UiContext;
use crate::wheel::{NOTCH, Wheel};
use egui::{Modifiers, PointerButton, Response, Ui};
use magscope_scope::{Action, CursorId, Frame, MeasureSpan};

/// Minimum length of a drag, points; less is a click.
const LEAST_DRAG: f32 = 4.0;

/// State of the pointer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pointer {
    /// The current selection: start and end as fractions of the axis.
    pub drag: Option<(f64, f64)>,
    wheel: Wheel,
}

impl Pointer {
    /// Turns pointer input over the plot into requests.
    pub fn read(&mut self, ui: &Ui, plot: &Plot, response: &Response, frame: &Frame, cx: &mut UiContext) {
        self.wheel(ui, plot, response, cx);
        self.drags(ui, plot, response, frame, cx);
        if response.double_clicked() {
            cx.act(Action::Fit);
        }
    }

    fn wheel(&mut self, ui: &Ui, plot: &Plot, response: &Response, cx: &mut UiContext) {
        let Some(at) = response.hover_pos() else { return };
        let (scroll, zoom, modifiers) =
            ui.input(|input| (input.smooth_scroll_delta(), input.zoom_delta(), input.modifiers));
        let sideways = if modifiers.shift && scroll.x == 0.0 { scroll.y } else { scroll.x };
        if sideways != 0.0 {
            cx.act(Action::PanBy(f64::from(-sideways / plot.area.width().max(1.0))));
        }
        let up = if (zoom - 1.0).abs() > f32::EPSILON {
            zoom.ln() / 1.25_f32.ln() * NOTCH
        } else if modifiers.shift {
            0.0
        } else {
            scroll.y
        };
        let notches = self.wheel.turn(up);
        if notches != 0 {
            cx.act(Action::Zoom { notches: -notches, at: plot.part(at.x).clamp(0.0, 1.0) });
        }
    }

    fn drags(&mut self, ui: &Ui, plot: &Plot, response: &Response, frame: &Frame, cx: &mut UiContext) {
        let shift = ui.input(|input| input.modifiers.matches_logically(Modifiers::SHIFT));
        let moves = response.dragged_by(PointerButton::Middle)
            || response.dragged_by(PointerButton::Secondary)
            || (response.dragged_by(PointerButton::Primary) && shift && self.drag.is_none());
        if moves {
            let by = -response.drag_delta().x / plot.area.width().max(1.0);
            if by != 0.0 {
                cx.act(Action::PanBy(f64::from(by)));
            }
            return;
        }
        let at = response.interact_pointer_pos().map(|at| plot.part(at.x).clamp(0.0, 1.0));
        if response.drag_started_by(PointerButton::Primary) && !shift {
            let from = ui.input(|input| input.pointer.press_origin());
            let from = from.map(|at| plot.part(at.x).clamp(0.0, 1.0)).or(at);
            self.drag = from.zip(at);
        }
        if let (Some(drag), Some(at)) = (&mut self.drag, at) {
            drag.1 = at;
        }
        if response.drag_stopped()
            && let Some((from, to)) = self.drag.take()
            && (to - from).abs() * f64::from(plot.area.width()) >= f64::from(LEAST_DRAG)
        {
            let instant = |part: f64| {
                let since = part * frame.sweep.timebase.span_ns() as f64;
                frame.sweep.origin_ns.saturating_add(since as u64)
            };
            cx.act(Action::PlaceCursor(CursorId::A, instant(from.min(to))));
            cx.act(Action::PlaceCursor(CursorId::B, instant(from.max(to))));
            cx.act(Action::MeasureOver(MeasureSpan::Cursors));
        }
    }
}

//! The time axis and the graticule.

use super::marks::FOOT;
use super::plot::Plot;
use crate::text::{self, SMALL};
use crate::ui_context::UiContext;
use egui::{Align2, Painter, Rect, Stroke, pos2};
use magscope_core::Layer;
use magscope_scope::format::{counted, short_duration, utc_time};
use magscope_scope::{Align, DIVISIONS, Detail, Frame};

/// Approximate width of a label.
const LABEL: f32 = 62.0;
/// Height of the axis.
pub const HEIGHT: f32 = 20.0;

/// Draws the background: layers, divisions, lane lines, the wire.
pub fn graticule(painter: &Painter, plot: &Plot, frame: &Frame, cx: &UiContext) {
    painter.rect_filled(plot.area, 0.0, cx.c.back);
    for (lane, rect) in frame.lanes.iter().zip(plot.rows.rects()) {
        let Some(hop) = lane.hop() else { continue };
        if matches!(hop.layer(), Layer::Transport | Layer::Device | Layer::Sched) {
            painter.rect_filled(*rect, 0.0, cx.c.stripe);
        }
    }
    for wire in plot.rows.wires() {
        let rect = Rect::from_x_y_ranges(plot.area.x_range(), *wire);
        painter.rect_filled(rect, 0.0, cx.c.wire);
    }
    for n in 0..=DIVISIONS {
        let x = plot.x(n as f64 / DIVISIONS as f64);
        let colour = if n == DIVISIONS / 2 { cx.c.grid } else { cx.c.grid.gamma_multiply(0.6) };
        painter.vline(x, plot.area.y_range(), Stroke::new(1.0, colour));
    }
    for (lane, rect) in frame.lanes.iter().zip(plot.rows.rects()) {
        if lane.is_served() {
            painter.hline(
                plot.area.x_range(),
                rect.center().y,
                Stroke::new(1.0, cx.c.grid.gamma_multiply(0.75)),
            );
        }
    }
}

/// Draws the labels below the plot.
pub fn labels(painter: &Painter, plot: &Plot, frame: &Frame, cx: &UiContext) {
    let top = plot.area.bottom() + FOOT;
    let y = top + HEIGHT * 0.5;
    let every = if plot.area.width() > 620.0 { 1 } else { 2 };
    let per_division = frame.sweep.timebase.per_division_ns();
    let cursors = frame.cursors.map(|cursors| [cursors.a, cursors.b]).into_iter().flatten();
    let tags: Vec<f32> = cursors.chain(frame.trigger.at).map(|at| plot.x(at)).collect();
    for n in (0..DIVISIONS).step_by(every) {
        let x = plot.x(n as f64 / DIVISIONS as f64);
        painter.vline(x, top..=top + 4.0, Stroke::new(1.0, cx.c.dim));
        // Letters of cursors and the trigger have priority.
        if tags.iter().any(|tag| (x - 9.0..x + LABEL).contains(tag)) {
            continue;
        }
        let words = if n == 0 { "0".to_owned() } else { format!("+{}", short_duration(n * per_division)) };
        text::put(painter, pos2(x + 3.0, y), Align2::LEFT_CENTER, &words, SMALL, cx.c.dim, 90.0);
    }
}

/// Text for the left edge: the instant, the number of lines, and the reading progress.
pub fn origin(frame: &Frame) -> String {
    let mut words = match frame.sweep.align {
        Align::Start => format!(
            "{}, each from its start",
            counted(frame.sweep.lifelines.len() as u64, "journey", "journeys")
        ),
        Align::Time => {
            frame.header.origin_utc_ns.map_or_else(String::new, |ns| format!("{} UTC", utc_time(ns)))
        }
    };
    match frame.detail {
        Detail::Reading => words.push_str("   reading …"),
        Detail::Density if frame.footer.shows_sums => {
            words.push_str("   Σ added up by the kernel, a second or so at a time");
        }
        Detail::Density => words.push_str("   density; zoom in for single journeys"),
        Detail::Lifelines => {}
    }
    words
}

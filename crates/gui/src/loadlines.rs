//! Loadlines: signals over the visible time, each on its own axis.

use crate::cache::{key, place};
use crate::text::{self, NUMBERS, WORDS};
use crate::time::{Ink, NAMES};
use crate::ui_context::UiContext;
use egui::{Align2, Color32, Rect, Role, Sense, Stroke, Ui, WidgetInfo, pos2};
use magscope_scope::look::{Column, Loadline, MathTrace};
use magscope_scope::{Action, Frame, Unit, format};

/// Height of a loadline.
const EACH: f32 = 46.0;

/// Number of loadlines, including the computed one.
pub fn count(frame: &Frame) -> usize {
    frame.controls.channels.len() + usize::from(frame.controls.math.is_some())
}

/// Total height.
pub fn height(frame: &Frame) -> f32 {
    (count(frame).min(6) as f32) * EACH + 4.0
}

/// Draws them.
pub fn show(ui: &mut Ui, frame: &Frame, cx: &mut UiContext) {
    egui::ScrollArea::vertical().auto_shrink([false, false]).min_scrolled_height(0.0).show(ui, |ui| {
        let all = ui.available_rect_before_wrap();
        let figures = if all.width() > 820.0 { crate::time::FIGURES } else { 8.0 };
        let (left, right) = (all.left() + NAMES + 22.0, all.right() - figures);
        let columns = (right - left).max(1.0) as usize;
        let lines = cx.cache.loadlines.get(key(&[cx.revision, place(all)]), || frame.loadlines(columns));
        ui.spacing_mut().item_spacing.y = 0.0;
        for (n, line) in lines.iter().enumerate() {
            let (rect, response) = ui.allocate_exact_size(egui::vec2(all.width(), EACH), Sense::click());
            response.widget_info(|| {
                WidgetInfo::selected(
                    Role::ListItem,
                    true,
                    line.chosen,
                    format!("loadline {}", line.channel.name()),
                )
            });
            if response.clicked() {
                let now = frame.controls.channel as i32;
                let by = (n as i32 - now).clamp(-100, 100) as i8;
                cx.act(Action::NextChannel(by));
            }
            let plot = Rect::from_min_max(pos2(left, rect.top() + 4.0), pos2(right, rect.bottom() - 2.0));
            let colour = cx.c.series[n % cx.c.series.len()];
            trace(ui, plot, line.columns.iter().map(|column| column.map(|c| place_of(line, c))), colour, cx);
            names(ui, rect, plot, line.channel.name(), &line.of, line.chosen, colour, cx);
            numbers(ui, plot, figures, (line.unit, line.foot, line.top, line.last), cx);
        }
        if let Some(math) = frame.math(columns) {
            let (rect, _) = ui.allocate_exact_size(egui::vec2(all.width(), EACH), Sense::hover());
            let plot = Rect::from_min_max(pos2(left, rect.top() + 4.0), pos2(right, rect.bottom() - 2.0));
            let colour = cx.c.accent;
            trace(ui, plot, math.columns.iter().map(|column| column.map(|c| part(&math, c))), colour, cx);
            names(ui, rect, plot, "math", &math.math.to_string(), false, colour, cx);
            numbers(ui, plot, figures, (math.unit, math.foot, math.top, math.last), cx);
        }
    });
}

fn place_of(line: &Loadline, column: Column) -> (f64, f64, f64) {
    (line.y(column.min), line.y(column.max), line.y(column.last))
}

fn part(math: &MathTrace, column: Column) -> (f64, f64, f64) {
    let y = |value: f64| {
        let part = (value - math.foot) / (math.top - math.foot);
        if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 }
    };
    (y(column.min), y(column.max), y(column.last))
}

/// Draws a signal: steps between columns, and the range within each.
fn trace(
    ui: &Ui,
    plot: Rect,
    heights: impl Iterator<Item = Option<(f64, f64, f64)>>,
    colour: Color32,
    cx: &UiContext,
) {
    let painter = ui.painter_at(plot.expand(1.0));
    painter.hline(plot.x_range(), plot.bottom(), Stroke::new(1.0, cx.c.grid));
    let mut ink = Ink::new(plot, false);
    let y = |part: f64| plot.bottom() - part as f32 * (plot.height() - 2.0);
    let mut before: Option<f32> = None;
    for (n, height) in heights.enumerate() {
        let Some((min, max, last)) = height else { continue };
        let x = plot.left() + n as f32;
        let (top, bottom) = (y(max), y(min));
        let (top, bottom) = before.map_or((top, bottom), |was| (top.min(was), bottom.max(was)));
        ink.block(
            Rect::from_min_max(pos2(x, y(last)), pos2(x + 1.0, plot.bottom())),
            colour.gamma_multiply(0.14),
        );
        ink.block(Rect::from_min_max(pos2(x, top - 0.6), pos2(x + 1.0, bottom + 0.6)), colour);
        before = Some(y(last));
    }
    painter.add(ink.mesh());
}

#[allow(clippy::too_many_arguments)] // content, position and colours are separate arguments
fn names(ui: &Ui, rect: Rect, plot: Rect, name: &str, of: &str, chosen: bool, colour: Color32, cx: &UiContext) {
    let painter = ui.painter();
    let at = pos2(plot.left() - 8.0, rect.center().y);
    text::put(painter, at, Align2::RIGHT_CENTER, name, WORDS, colour, NAMES);
    let at = pos2(plot.left() + 6.0, rect.top() + 3.0);
    text::put_over(painter, (at, Align2::LEFT_TOP), of, cx.c.dim, cx.c.back, plot.width() * 0.6);
    if chosen {
        let bar = Rect::from_min_max(
            pos2(rect.left() + 19.0, rect.top() + 6.0),
            pos2(rect.left() + 21.5, rect.bottom() - 4.0),
        );
        painter.rect_filled(bar, 1.0, cx.c.accent);
    }
}

fn numbers(
    ui: &Ui,
    plot: Rect,
    figures: f32,
    (unit, foot, top, last): (Unit, f64, f64, Option<f64>),
    cx: &UiContext,
) {
    if figures < 20.0 {
        return;
    }
    let painter = ui.painter();
    let end = plot.right() + figures - 8.0;
    let range = [(plot.top() + 7.0, top), (plot.bottom() - 7.0, foot)];
    for (y, at) in range {
        text::put(painter, pos2(end, y), Align2::RIGHT_CENTER, &value(unit, at), NUMBERS, cx.c.dim, 90.0);
    }
    let words = last.map_or_else(|| "no sample".to_owned(), |last| value(unit, last));
    let at = pos2(plot.right() + 90.0, plot.center().y);
    text::put(painter, at, Align2::RIGHT_CENTER, &words, NUMBERS, cx.c.text, 90.0);
}

/// A value of a signal.
pub fn value(unit: Unit, value: f64) -> String {
    format::signal(unit, value)
}

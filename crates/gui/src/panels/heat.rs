//! Latency by hop pair and time: one strip per pair, slower upwards, brighter for more journeys.

use crate::cache::{Key, key, place};
use crate::side::number;
use crate::text::{self, NUMBERS, WORDS};
use crate::ui_context::UiContext;
use egui::{
    Align2, Color32, ColorImage, Mesh, Rect, Role, ScrollArea, Sense, Stroke, TextureId, Ui, WidgetInfo, pos2,
};
use magscope_scope::format::{SUMMED, count, duration, short_duration};
use magscope_scope::look::{HeatMap, HeatRow, HitHeat, SumMap};
use magscope_scope::{Action, DIVISIONS, Frame, Place};
use std::ops::Range;

/// Height of a strip.
const STRIP: f32 = 38.0;
/// Gap between two strips.
const BETWEEN: f32 = 3.0;
/// Distance of two strips.
const EACH: f32 = STRIP + BETWEEN;
/// Height of a custom probe's strip.
const PROBE: f32 = STRIP * 0.7;
/// Height of the heading over strips of the kernel's sums.
const HEADING: f32 = 18.0;
/// Latency classes per strip.
const CLASSES: usize = 24;
/// Shades of a colour, from few to many.
const STEPS: usize = 63;
/// Width of a time column, pixels, the resolution of a strip.
const COLUMN: f32 = 2.0;
/// Width of the names and of the latency axis beside them.
const NAMES: f32 = 206.0;
/// Width of the latency axis.
const LATENCY: f32 = 46.0;
/// Height of the time axis.
const TIME: f32 = 18.0;
/// Width of the numbers.
const FIGURES: f32 = 270.0;
/// Room of one of them, points. They are right-aligned, and only the last, a count, is longer than its column.
const FIGURE: f32 = 84.0;

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame, cx: &mut UiContext) {
    let all = ui.available_rect_before_wrap();
    let (left, right) = (all.left() + NAMES, (all.right() - FIGURES - 12.0).max(all.left() + NAMES + 60.0));
    let columns = ((right - left) * ui.pixels_per_point() / COLUMN).max(2.0) as usize;
    let state = key(&[cx.revision, place(all), u64::from(cx.c == &crate::colours::DARK)]);
    let own = if frame.probes().is_empty() { Vec::new() } else { frame.hit_heats((right - left) as usize) };
    let c = cx.c;
    titles(ui, left, right, cx);
    let height = (ui.available_height() - TIME).max(STRIP);
    ScrollArea::vertical().max_height(height).auto_shrink([false, false]).show_viewport(ui, |ui, seen| {
        ui.spacing_mut().item_spacing.y = BETWEEN;
        let rows = |top: f32| (top / EACH).max(0.0);
        let shown = rows(seen.top()) as usize..rows(seen.bottom()).ceil() as usize;
        let state = key(&[state, columns as u64]);
        let state_of = |shown: &Range<usize>| key(&[state, shown.start as u64, shown.end as u64]);
        let map = cx.cache.heat.get(state_of(&shown), || frame.heat_map_of(columns, CLASSES, &shown));
        // Below the strips of journeys.
        let top = map.rows.len() as f32 * EACH + own.len() as f32 * (PROBE + BETWEEN) + HEADING + BETWEEN;
        let below = rows(seen.top() - top) as usize..rows(seen.bottom() - top).ceil() as usize;
        let sums = cx.cache.sums.get(state_of(&below), || frame.sum_map_of(columns, CLASSES, &below));
        if map.rows.is_empty() && own.is_empty() && sums.map.rows.is_empty() {
            ui.label(number("no latency in this stretch yet", c.dim));
            return;
        }
        let width = all.width() - 12.0;
        let strips = Strips { map: &map, name: "heat", state: state_of(&shown), width, left, right, columns };
        strips.draw(ui, &shown, frame, cx);
        for heat in &own {
            probe(ui, heat, width, (left, right), cx);
        }
        if !sums.map.rows.is_empty() {
            summed(ui, &sums, width, cx);
            let strips =
                Strips { map: &sums.map, name: "sums", state: state_of(&below), width, left, right, columns };
            strips.draw(ui, &below, frame, cx);
        }
    });
    time(ui, left, right, frame, cx);
}

/// The time axis, which is that of the picture.
fn time(ui: &mut Ui, left: f32, right: f32, frame: &Frame, cx: &UiContext) {
    let (rect, response) = ui.allocate_exact_size(egui::vec2(ui.available_width(), TIME), Sense::hover());
    let (first, all) = (frame.sweep.timebase.per_division_ns(), frame.sweep.timebase.span_ns());
    let name = format!("time axis: {} from left to right", short_duration(all));
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, &name));
    let width = (right - left) / DIVISIONS as f32;
    let every = if width > 62.0 { 1 } else { 2 };
    for n in (0..DIVISIONS).step_by(every) {
        let x = left + n as f32 * width;
        ui.painter().vline(x, rect.top()..=rect.top() + 4.0, Stroke::new(1.0, cx.c.dim));
        let words = if n == 0 { "0".to_owned() } else { format!("+{}", short_duration(n * first)) };
        let at = pos2(x + 3.0, rect.center().y + 2.0);
        text::put(ui.painter(), at, Align2::LEFT_CENTER, &words, text::SMALL, cx.c.dim, 90.0);
    }
}

/// The latency axis of a strip: its ends in numbers, and a line at each power of ten.
fn latency(painter: &egui::Painter, strip: Rect, edges_ns: &[u64], cx: &UiContext) {
    let (Some(least), Some(most)) = (edges_ns.first(), edges_ns.last()) else { return };
    let (from, to) = (((*least).max(1) as f64).ln(), ((*most).max(2) as f64).ln());
    let faint = Stroke::new(1.0, cx.c.grid.gamma_multiply(0.8));
    for power in 1..19 {
        let part = (10_f64.powi(power).ln() - from) / (to - from);
        if part > 0.0 && part < 1.0 {
            painter.hline(strip.x_range(), strip.bottom() - part as f32 * strip.height(), faint);
        }
    }
    for (at, ns) in [(strip.top() + 6.0, *most), (strip.bottom() - 6.0, *least)] {
        let place = pos2(strip.left() - 4.0, at);
        text::put(painter, place, Align2::RIGHT_CENTER, &short_duration(ns), text::SMALL, cx.c.dim, LATENCY);
    }
}

/// Heading of the strips below.
fn summed(ui: &mut Ui, sums: &SumMap, width: f32, cx: &UiContext) {
    let (rect, response) = ui.allocate_exact_size(egui::vec2(width, HEADING), Sense::hover());
    let mut words = format!(
        "{SUMMED} added up by the kernel, {} at a time: times of packets and sockets, not of journeys",
        short_duration(sums.interval_ns)
    );
    if sums.narrowed {
        words.push_str(" (of everything: what was chosen does not narrow them)");
    }
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, &words));
    let at = pos2(rect.left() + 8.0, rect.center().y);
    text::put(ui.painter(), at, Align2::LEFT_CENTER, &words, text::SMALL, cx.c.dim, width - 8.0);
}

/// A strip a pair, from one texture.
struct Strips<'m> {
    map: &'m HeatMap,
    name: &'static str,
    state: Key,
    width: f32,
    left: f32,
    right: f32,
    columns: usize,
}

impl Strips<'_> {
    /// Draws the strips; visible ones with their columns.
    fn draw(&self, ui: &mut Ui, shown: &Range<usize>, frame: &Frame, cx: &mut UiContext) {
        let (map, left, right, c) = (self.map, self.left, self.right, cx.c);
        let shown = shown.start.min(map.rows.len())..shown.end.min(map.rows.len());
        let rows = map.rows.get(shown.clone()).unwrap_or_default();
        let columns = self.columns;
        let texture = cx.cache.texture(ui.ctx(), self.name, self.state, || image(rows, columns, c));
        for (n, row) in map.rows.iter().enumerate() {
            let (rect, response) = ui.allocate_exact_size(egui::vec2(self.width, STRIP), Sense::click());
            let name = name(row);
            let chosen = row.span.to().is_some_and(|to| frame.controls.hop() == Some(to));
            response.widget_info(|| WidgetInfo::selected(Role::ListItem, true, chosen, &name));
            // Rows that are scrolled out of sight are not made.
            if !ui.is_rect_visible(rect) {
                continue;
            }
            let strip = Rect::from_min_max(pos2(left, rect.top()), pos2(right, rect.bottom()));
            let painter = ui.painter();
            painter.rect_filled(strip, 2.0, c.back);
            latency(painter, strip, &map.edges_ns, cx);
            let mut mesh = Mesh::with_texture(TextureId::from(&texture));
            let v = |at: usize| (at as f32 - shown.start as f32) / rows.len().max(1) as f32;
            let uv = Rect::from_min_max(pos2(0.0, v(n)), pos2(1.0, v(n + 1)));
            mesh.add_rect_with_uv(strip, uv, Color32::WHITE);
            painter.add(mesh);
            let colour = if chosen { c.accent } else { c.text };
            let at = pos2(left - LATENCY - 8.0, rect.center().y);
            text::put(painter, at, Align2::RIGHT_CENTER, &name, WORDS, colour, NAMES - LATENCY - 8.0);
            figures(painter, right, rect.center().y, row, colour);
            if response.clicked() {
                cx.act(Action::ChooseLane(row.span.to().map(Place::Hop)));
            }
            if let Some(at) = response.hover_pos() {
                if strip.contains(at) {
                    let words = tooltip(map, row, (at - strip.min) / strip.size());
                    response.on_hover_text_at_pointer(words);
                } else if at.x < left {
                    text::explained(response, &name);
                }
            }
        }
    }
}

/// Hits of a custom probe over time: a separate strip, higher for more hits.
fn probe(ui: &mut Ui, heat: &HitHeat, width: f32, (left, right): (f32, f32), cx: &UiContext) {
    let (rect, response) = ui.allocate_exact_size(egui::vec2(width, PROBE), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::ListItem, true, &heat.probe.name));
    let strip = Rect::from_min_max(pos2(left, rect.top()), pos2(right, rect.bottom()));
    let colour = crate::time::colour_of(heat.probe.id, cx);
    let painter = ui.painter();
    painter.rect_filled(strip, 2.0, cx.c.back);
    let most = (heat.cells.iter().copied().max().unwrap_or(1) as f32).ln_1p().max(0.7);
    let mut ink = crate::time::Ink::new(strip, false);
    let each = strip.width() / heat.cells.len().max(1) as f32;
    for (n, count) in heat.cells.iter().enumerate().filter(|(_, count)| **count > 0) {
        let x = strip.left() + n as f32 * each;
        let height = strip.height() * ((*count as f32).ln_1p() / most).clamp(0.1, 1.0);
        ink.block(Rect::from_min_max(pos2(x, strip.bottom() - height), pos2(x + each, strip.bottom())), colour);
    }
    painter.add(ink.mesh());
    let at = pos2(left - LATENCY - 8.0, rect.center().y);
    text::put(painter, at, Align2::RIGHT_CENTER, &heat.probe.name, WORDS, colour, NAMES - LATENCY - 8.0);
    let at = pos2(right + 66.0 * 4.0, rect.center().y);
    text::put(painter, at, Align2::RIGHT_CENTER, &count(heat.hits), NUMBERS, cx.c.text, FIGURE);
    response.on_hover_text_at_pointer(format!("{}: {} hits", heat.probe.place(), count(heat.hits)));
}

/// A pair of hops in words.
pub fn name(row: &HeatRow) -> String {
    row.words(" → ")
}

fn titles(ui: &mut Ui, left: f32, right: f32, cx: &UiContext) {
    let (rect, _) = ui.allocate_exact_size(egui::vec2(ui.available_width(), 14.0), Sense::hover());
    let at = pos2(left - 4.0, rect.center().y);
    text::put(ui.painter(), at, Align2::RIGHT_CENTER, "latency", text::SMALL, cx.c.dim, LATENCY);
    for (n, words) in ["p50", "p99", "max", "n"].iter().enumerate() {
        let at = pos2(right + 66.0 * (n as f32 + 1.0), rect.center().y);
        text::put_explained(ui, at, Align2::RIGHT_CENTER, words, text::SMALL, cx.c.dim, 60.0);
    }
}

fn figures(painter: &egui::Painter, right: f32, y: f32, row: &HeatRow, colour: Color32) {
    let t = row.times;
    let words = [duration(t.p50_ns), duration(t.p99_ns), duration(t.max_ns), count(t.n)];
    for (n, words) in words.iter().enumerate() {
        let at = pos2(right + 66.0 * (n as f32 + 1.0), y);
        text::put(painter, at, Align2::RIGHT_CENTER, words, NUMBERS, colour, FIGURE);
    }
}

/// One texture of all strips, the shortest class at the bottom of each.
fn image(rows: &[HeatRow], columns: usize, c: &crate::colours::Colours) -> ColorImage {
    let mut pixels = vec![Color32::TRANSPARENT; columns * rows.len().max(1) * CLASSES];
    // A picture has a hundred thousand cells and few colours: mix each colour once.
    let mixed = |class: usize, step: usize| {
        let warm = c.pace((class as f32 / CLASSES as f32 - 0.3) / 0.6);
        warm.gamma_multiply(0.3 + 0.7 * step as f32 / STEPS as f32)
    };
    let colours: Vec<[Color32; STEPS + 1]> =
        (0..CLASSES).map(|class| std::array::from_fn(|step| mixed(class, step))).collect();
    for (row, strip) in rows.iter().zip(pixels.chunks_exact_mut(columns * CLASSES)) {
        let scale = STEPS as f32 / (row.max_count as f32 + 1.0).ln();
        for (x, cells) in row.columns().enumerate().take(columns) {
            for ((class, cell), colours) in cells.iter().enumerate().zip(&colours) {
                if *cell > 0
                    && let Some(pixel) = strip.get_mut((CLASSES - 1 - class) * columns + x)
                {
                    let step = ((*cell as f32 + 1.0).ln() * scale) as usize;
                    *pixel = colours.get(step.min(STEPS)).copied().unwrap_or_default();
                }
            }
        }
    }
    ColorImage::new([columns, rows.len().max(1) * CLASSES], pixels)
}

fn tooltip(map: &HeatMap, row: &HeatRow, at: egui::Vec2) -> String {
    let class = ((1.0 - at.y).clamp(0.0, 0.999) * row.classes() as f32) as usize;
    let column = row.column((at.x.clamp(0.0, 0.999) * row.columns().len() as f32) as usize);
    let n = column.get(class).copied().unwrap_or(0);
    let edge = |at: usize| map.edges_ns.get(at).copied().unwrap_or(0);
    format!("{} of {} to {}", count(u64::from(n)), short_duration(edge(class)), short_duration(edge(class + 1)))
}

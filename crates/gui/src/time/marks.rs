//! Marks on the picture: point events, slowest journeys, trigger, cursors, and the selection.

use super::ink::Ink;
use super::plot::Plot;
use crate::text::{self, SMALL};
use crate::ui_context::UiContext;
use egui::{Align2, Color32, Mesh, Painter, Pos2, Rangef, Rect, Stroke, Ui, pos2};
use magscope_scope::format::{duration, rate, short_duration};
use magscope_scope::look::{CursorReading, Exemplar, HitPoint, Hits, Point, PointKind};
use magscope_scope::{CursorId, Frame, Place, ProbeId};

/// Minimum mean distance of individually drawn hits, points.
const APART: f32 = 5.0;

/// Height of the rail above the lanes.
pub const RAIL: f32 = 16.0;

/// Height of the strip below the lanes, for events without a lane: they would cover the marks of the last one.
pub const FOOT: f32 = 12.0;

/// Draws drops, retransmissions, losses and changes, as one mesh.
pub fn points(painter: &Painter, plot: &Plot, points: &[Point], cx: &UiContext) {
    let foot = pos2(plot.area.right(), plot.area.bottom() + FOOT);
    let mut ink = Ink::new(Rect::from_min_max(plot.area.min, foot), true);
    for point in points {
        let x = plot.x(point.x);
        let middle = point.hop.and_then(|hop| plot.rows.middle(hop));
        let y = middle.unwrap_or(plot.area.bottom() + FOOT * 0.5);
        let at = pos2(x, y);
        match point.kind {
            PointKind::Drop { .. } => ink.cross(at, 5.0, 2.0, cx.c.bad),
            PointKind::EventLoss(_) => {
                let band = Rect::from_x_y_ranges(x - 1.0..=x + 1.0, plot.area.y_range());
                ink.block(band, cx.c.missed.gamma_multiply(0.55));
            }
            PointKind::SocketFull => ink.block(Rect::from_center_size(at, egui::vec2(8.0, 8.0)), cx.c.bad),
            PointKind::Retransmit => {
                ink.triangle([pos2(x - 5.0, y + 4.0), pos2(x + 5.0, y + 4.0), pos2(x, y - 5.0)], cx.c.slow);
            }
            PointKind::Change => ink.diamond(at, 5.0, cx.c.dim),
        }
    }
    painter.add(ink.mesh());
}

/// Tool tip of a point.
pub fn point_words(frame: &Frame, point: &Point) -> String {
    match point.kind {
        PointKind::Drop { node, reason } => {
            format!("the kernel dropped a packet here: {}", frame.drop_reason(node, reason))
        }
        PointKind::Retransmit => "TCP sent a byte range again".to_owned(),
        PointKind::EventLoss(n) => format!("{n} events were missed by the instrument up to here"),
        PointKind::SocketFull => "a socket's receive buffer was full".to_owned(),
        PointKind::Change => "what is captured was changed here".to_owned(),
    }
}

/// The mesh of custom-probe hits: individual marks if few, else bars of counts from the lane's bottom.
pub fn hits(plot: &Plot, frame: &Frame, hits: &Hits, cx: &UiContext) -> Mesh {
    let mut ink = Ink::new(plot.area, true);
    let one_by_one = !hits.points.is_empty() && hits.points.len() as f32 <= plot.area.width() / APART;
    for point in hits.points.iter().filter(|_| one_by_one) {
        if let Some(at) = place_of(plot, point) {
            ink.diamond(at, if point.journey.is_some() { 3.5 } else { 4.5 }, colour_of(point.probe, cx));
        }
    }
    if one_by_one {
        return ink.mesh();
    }
    let most = (hits.max_count as f32).ln_1p().max(0.7);
    for (lane, rect) in frame.lanes.iter().zip(plot.rows.rects()) {
        let row = lane.probe().and_then(|probe| Some((probe, hits.rows.get(probe.index())?)));
        let Some((probe, row)) = row else { continue };
        let colour = colour_of(probe, cx).gamma_multiply(0.85);
        let width = rect.width() / row.cells.len().max(1) as f32;
        for (n, count) in row.cells.iter().enumerate().filter(|(_, count)| **count > 0) {
            let left = rect.left() + n as f32 * width;
            let height = (rect.height() - 2.0) * ((*count as f32).ln_1p() / most).clamp(0.2, 1.0);
            let foot = rect.bottom() - 1.0;
            ink.block(Rect::from_min_max(pos2(left, foot - height), pos2(left + width.max(1.0), foot)), colour);
        }
    }
    ink.mesh()
}

/// The colour of a custom probe, on its lane and in its ladder.
pub fn colour_of(probe: ProbeId, cx: &UiContext) -> Color32 {
    cx.c.series[(probe.index() + 2) % cx.c.series.len()]
}

fn place_of(plot: &Plot, point: &HitPoint) -> Option<Pos2> {
    Some(pos2(plot.x(point.x), plot.rows.line(Place::Probe(point.probe))?))
}

/// The hit at a position.
pub fn hit_at<'h>(plot: &Plot, hits: &'h Hits, at: Pos2) -> Option<&'h HitPoint> {
    let off = |point: &HitPoint| place_of(plot, point).map(|place| place.distance(at));
    let near = hits.points.iter().filter_map(|point| Some((off(point)?, point)));
    near.filter(|(off, _)| *off <= 6.0).min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, point)| point)
}

/// Tool tip of a hit: probe, values, process.
pub fn hit_words(frame: &Frame, point: &HitPoint) -> String {
    let Some(probe) = frame.probe(point.probe) else { return String::new() };
    let mut words = format!("{}: {}", probe.name, probe.place());
    let reported = probe.asked.text(&point.hit);
    if !reported.is_empty() {
        words = format!("{words}\n{reported}");
    }
    let who = if probe.knows_process() { format!(", thread {}", point.hit.tid) } else { String::new() };
    let journey = if point.journey.is_some() { "\nclick selects the journey whose bytes it saw" } else { "" };
    format!("{words}\nCPU {}{who}{journey}", point.hit.cpu)
}

/// Draws the rail of the slowest journeys: slower ones larger and warmer. Returns the one under the pointer.
pub fn exemplars(
    painter: &Painter,
    plot: &Plot,
    exemplars: &[Exemplar],
    selected: Option<u64>,
    pointer: Option<Pos2>,
    cx: &UiContext,
) -> Option<Exemplar> {
    let y = plot.area.top() - RAIL * 0.5;
    let rail = Rect::from_x_y_ranges(plot.area.x_range(), Rangef::new(plot.area.top() - RAIL, plot.area.top()));
    painter.rect_filled(rail, 0.0, cx.c.back);
    let logs = |e: &Exemplar| (e.total_ns.max(1) as f32).ln();
    let most = exemplars.iter().map(logs).fold(f32::MIN, f32::max);
    let least = exemplars.iter().map(logs).fold(f32::MAX, f32::min);
    let mut ink = Ink::new(rail, true);
    let mut hit: Option<(f32, Exemplar)> = None;
    for exemplar in exemplars {
        let part = (logs(exemplar) - least) / (most - least).max(0.5);
        let at = pos2(plot.x(exemplar.x), y);
        let is_selected = selected == Some(exemplar.key);
        let colour = if is_selected { cx.c.accent } else { cx.c.pace(part) };
        ink.diamond(at, 2.5 + 3.5 * part + if is_selected { 1.5 } else { 0.0 }, colour);
        if let Some(pointer) = pointer.filter(|pointer| rail.contains(*pointer)) {
            let off = (pointer.x - at.x).abs();
            if off < 7.0 && hit.is_none_or(|(least, _)| off < least) {
                hit = Some((off, *exemplar));
            }
        }
    }
    painter.add(ink.mesh());
    hit.map(|(_, exemplar)| exemplar)
}

/// Draws the trigger's mark.
pub fn trigger(painter: &Painter, plot: &Plot, frame: &Frame, cx: &UiContext) {
    let Some(at) = frame.trigger.at.filter(|at| (0.0..=1.0).contains(at)) else { return };
    let x = plot.x(at);
    dashed(painter, x, plot.area.y_range(), cx.c.accent.gamma_multiply(0.7));
    tag(painter, pos2(x, plot.area.bottom() + FOOT + 8.0), "T", cx.c.accent, cx);
}

/// Draws cursors and their readout.
pub fn cursors(painter: &Painter, plot: &Plot, cursors: CursorReading, cx: &UiContext) {
    let (a, b) = (plot.x(cursors.a.clamp(-0.01, 1.01)), plot.x(cursors.b.clamp(-0.01, 1.01)));
    let between = Rect::from_x_y_ranges(Rangef::new(a.min(b), a.max(b)), plot.area.y_range());
    painter.rect_filled(between.intersect(plot.area), 0.0, cx.c.accent.gamma_multiply(0.07));
    for (at, id, name) in [(cursors.a, CursorId::A, "A"), (cursors.b, CursorId::B, "B")] {
        if !(0.0..=1.0).contains(&at) {
            continue;
        }
        let x = plot.x(at);
        let colour = if cursors.chosen == id { cx.c.accent } else { cx.c.dim };
        painter.vline(x, plot.area.y_range(), Stroke::new(1.0, colour));
        tag(painter, pos2(x, plot.area.bottom() + FOOT + 8.0), name, colour, cx);
    }
}

/// Cursor readout: the time difference, its inverse, and its bound.
pub fn readout(cursors: CursorReading) -> String {
    let sign = if cursors.delta_ns < 0 { "−" } else { "" };
    let mut words = format!("A→B {sign}{}", duration(cursors.delta_ns.unsigned_abs()).trim());
    if cursors.half_width_ns > 0 {
        words = format!("{words} ±{}", short_duration(cursors.half_width_ns));
    }
    match cursors.per_s {
        Some(per_s) => format!("{words}   1/Δ {}", rate(per_s).trim()),
        None => words,
    }
}

/// Draws the current selection.
pub fn selection(ui: &Ui, plot: &Plot, from: f64, to: f64, span_ns: u64, cx: &UiContext) {
    let (left, right) = (plot.x(from.min(to)), plot.x(from.max(to)));
    let rect = Rect::from_x_y_ranges(left..=right, plot.area.y_range()).intersect(plot.area);
    let painter = ui.painter();
    painter.rect_filled(rect, 0.0, cx.c.accent.gamma_multiply(0.16));
    for x in [left, right] {
        painter.vline(x, plot.area.y_range(), Stroke::new(1.0, cx.c.accent));
    }
    let ns = ((to - from).abs() * span_ns as f64) as u64;
    let at = pos2(rect.center().x, rect.top() + 4.0);
    text::put(painter, at, Align2::CENTER_TOP, &short_duration(ns), text::WORDS, cx.c.accent, 200.0);
}

fn dashed(painter: &Painter, x: f32, y: Rangef, colour: Color32) {
    let line = [pos2(x, y.min), pos2(x, y.max)];
    painter.extend(egui::Shape::dashed_line(&line, Stroke::new(1.0, colour), 5.0, 4.0));
}

fn tag(painter: &Painter, at: Pos2, name: &str, colour: Color32, cx: &UiContext) {
    let rect = Rect::from_center_size(at, egui::vec2(15.0, 15.0));
    painter.rect_filled(rect, 3.0, colour);
    text::put(painter, at, Align2::CENTER_CENTER, name, SMALL, cx.c.back, 20.0);
}

//! The time line: lanes of sender, forwarders and receiver with the wires between, and the journeys through them.
//!
//! Depending on the amount of data, the picture is a density texture or lifelines in one mesh. The slowest
//! journeys are drawn on top and can be clicked at every zoom. Both are cached until the scope, the area or the
//! colours change.

mod axis;
mod bands;
mod density;
mod gutter;
mod ink;
mod lifelines;
mod marks;
mod plot;
mod pointer;
mod rows;
mod tip;

use crate::cache::{key, place};
use crate::menu::{self, Target};
use crate::side;
use crate::text::{self, SMALL, WORDS};
use crate::ui_context::UiContext;
use egui::{Align2, Context, Pos2, Rect, Role, Sense, Shape, Ui, WidgetInfo, pos2};
use lifelines::Inks;
use magscope_scope::format::{count, counted, short_duration};
use magscope_scope::look::{Density, Exemplar, Hits, Span};
use magscope_scope::{Action, Align, Detail, Frame, Lifeline, MeasureSpan, condition};
use plot::Plot;
use pointer::Pointer;
use rows::Rows;
use std::fmt::Write as _;
use std::sync::Arc;

pub use gutter::{FIGURES, NAMES};
pub use ink::Ink;
pub use marks::colour_of;

/// Height of the title line.
const TITLE: f32 = 20.0;
/// Tolerance of a click, points.
const FINGER: f32 = 8.0;
/// Maximum number of slowest journeys over a density.
const OVER_DENSITY: usize = 24;

/// The time line and its pointer state.
#[derive(Debug, Default)]
pub struct Timeline {
    pointer: Pointer,
    /// Area of the last frame.
    pub area: Option<Rect>,
    /// Area of the lanes in the last frame.
    lanes: Option<Rect>,
}

impl Timeline {
    /// The part of the time axis under the pointer, if it is over the lanes.
    pub fn pointed(&self, ctx: &Context) -> Option<f64> {
        let lanes = self.lanes?;
        let at = ctx.pointer_hover_pos().filter(|at| lanes.contains(*at))?;
        Some(f64::from(at.x - lanes.left()) / f64::from(lanes.width().max(1.0)))
    }

    /// Draws the time line over all of `ui`.
    pub fn show(&mut self, ui: &mut Ui, frame: &Frame, cx: &mut UiContext) {
        let all = ui.available_rect_before_wrap();
        let figures = if all.width() > 820.0 { gutter::FIGURES } else { 8.0 };
        let area = Rect::from_min_max(
            pos2(all.left() + gutter::NAMES + 22.0, all.top() + TITLE + marks::RAIL),
            pos2(all.right() - figures, all.bottom() - axis::HEIGHT - marks::FOOT),
        );
        ui.allocate_rect(all, Sense::hover());
        if !area.is_positive() || area.width() < 40.0 || area.height() < 40.0 {
            return;
        }
        (self.area, self.lanes) = (Some(all), Some(area));
        let rows = Rows::new(area, frame.lanes);
        let plot = Plot { area, rows: &rows };
        let touch = Rect::from_min_max(
            pos2(area.left(), area.top() - marks::RAIL),
            pos2(area.right(), area.bottom() + marks::FOOT),
        );
        let response = ui.interact(touch, ui.scope_id().with("time line"), Sense::click_and_drag());
        let lines = frame.sweep.lifelines.len();
        let span = short_duration(frame.sweep.timebase.span_ns());
        response.widget_info(|| {
            WidgetInfo::labeled(Role::Canvas, true, format!("time line: {lines} journeys over {span}"))
        });

        let painter = ui.painter_at(all);
        axis::graticule(&painter, &plot, frame, cx);
        let pointed = response.hover_pos();
        let (hovered, density) = self.picture(ui, &painter, &plot, frame, pointed, cx);
        axis::labels(&painter, &plot, frame, cx);
        gutter::names(ui, &plot, all.left(), frame, cx);
        Self::titles(&painter, &plot, all, frame, cx);
        if figures == gutter::FIGURES {
            gutter::titles(ui, area.right(), all.top() + TITLE * 0.5, frame, cx);
            gutter::figures(&painter, &plot, area.right(), frame, cx);
        }
        if let Some((from, to)) = self.pointer.drag {
            marks::selection(ui, &plot, from, to, frame.sweep.timebase.span_ns(), cx);
        }
        self.pointer.read(ui, &plot, &response, frame, cx);
        if response.clicked() && !response.double_clicked() {
            click(&plot, frame, hovered.as_ref(), response.interact_pointer_pos(), cx);
        }
        if response.secondary_clicked() {
            match hovered.as_ref() {
                Some(hovered) => menu::open(ui, cx, target(frame, hovered)),
                None => cx.act(Action::ZoomBack),
            }
        }
        if let Some(words) = tip::words(&plot, frame, &density, hovered.as_ref(), pointed) {
            response.on_hover_text_at_pointer(words);
        }
    }

    /// Draws density or lifelines, the slowest, and marks. Returns the journey under the pointer.
    fn picture(
        &self,
        ui: &Ui,
        painter: &egui::Painter,
        plot: &Plot,
        frame: &Frame,
        pointed: Option<Pos2>,
        cx: &mut UiContext,
    ) -> (Option<Hovered>, Arc<Density>) {
        let lines = &frame.sweep.lifelines;
        let dense = frame.detail != Detail::Lifelines && frame.controls.align == Align::Time;
        let state = key(&[cx.revision, place(plot.area), u64::from(ui.ctx().theme() == egui::Theme::Dark)]);
        let columns = (plot.area.width() * ui.pixels_per_point()).round().max(1.0) as usize;
        let density = cx.cache.densities.get(key(&[state, columns as u64]), || frame.density(columns));
        if dense {
            let c = cx.c;
            let texture = cx
                .cache
                .texture(ui.ctx(), "density", key(&[state, columns as u64]), || density::image(&density, c));
            painter.add(Shape::from(density::mesh(&texture, plot.rows.rects())));
        }
        let clipped = painter.with_clip_rect(plot.area);
        let chosen = frame.controls.journey.or(frame.sweep.anchor);
        let inks = Inks::new(cx.c, cx.chosen.tint, lines);
        let tint = cx.chosen.tint as u64;
        let mesh = cx.cache.mesh("lifelines", key(&[state, u64::from(dense), tint]), || {
            let mut others: Vec<&Lifeline> = lines.iter().collect();
            if dense {
                others.sort_by_cached_key(|line| std::cmp::Reverse(line.total_ns()));
                others.truncate(OVER_DENSITY);
            }
            lifelines::crowd(plot, frame, &inks, others.into_iter())
        });
        clipped.add(Shape::Mesh(mesh));
        bands::translations(&clipped, plot, frame, cx);
        if let Some(line) = lines.iter().find(|line| Some(line.key()) == chosen) {
            clipped.add(lifelines::single(plot, frame, line, cx.c.accent, cx.c));
            bands::times(&clipped, plot, frame, line, cx);
        }
        let points = cx.cache.points.get(state, || frame.points());
        let low = Rect::from_min_max(plot.area.min, plot.area.max + egui::vec2(0.0, marks::FOOT));
        marks::points(&painter.with_clip_rect(low), plot, &points, cx);
        let hits = cx.cache.hits.get(key(&[state, columns as u64]), || {
            if frame.probes().is_empty() { Hits::default() } else { frame.hits(columns) }
        });
        if !frame.probes().is_empty() {
            clipped.add(marks::hits(plot, frame, &hits, cx));
        }
        if let Some(cursors) = frame.cursors {
            marks::cursors(painter, plot, cursors, cx);
        }
        marks::trigger(painter, plot, frame, cx);
        let slow = marks::exemplars(painter, plot, &density.exemplars, frame.controls.journey, pointed, cx);
        if let Some(exemplar) = slow {
            return (Some(Hovered::Exemplar(exemplar)), density);
        }
        let at = pointed.filter(|at| low.contains(*at) && self.pointer.drag.is_none());
        let hovered = at.and_then(|at| {
            if let Some(hit) = marks::hit_at(plot, &hits, at) {
                return Some(Hovered::Hit(marks::hit_words(frame, hit), hit.journey));
            }
            let line = lifelines::nearest(plot, frame, at, FINGER);
            let point = points.iter().find(|point| (plot.x(point.x) - at.x).abs() < 4.0);
            if let Some(point) = point.filter(|_| line.is_none()) {
                return Some(Hovered::Point(marks::point_words(frame, point), condition::of_point(point.kind)));
            }
            let line = line?;
            if Some(line.key()) != chosen {
                clipped.add(lifelines::single(plot, frame, line, inks.of(line), cx.c));
            }
            Some(Hovered::Line(line.key()))
        });
        (hovered, density)
    }

    /// What the selected stretch holds, in words; empty while the whole picture is measured.
    fn sums(frame: &Frame, cx: &mut UiContext) -> String {
        if frame.controls.over != MeasureSpan::Cursors {
            return String::new();
        }
        let m = side::measured(frame, cx);
        let mut words = format!("   {}", counted(m.journeys, "journey", "journeys"));
        let longest = m.pairs.iter().filter(|pair| pair.span == Span::Whole && pair.times.n > 0);
        if let Some(max_ns) = longest.map(|pair| pair.times.max_ns).max() {
            _ = write!(words, ", longest {}", short_duration(max_ns)); // writing into a String cannot fail
        }
        for (label, n) in [("dropped", m.drops), ("retransmits", m.retransmits)] {
            _ = write!(words, ", {} {}", count(n), m.label_of_all(label));
        }
        words
    }

    fn titles(painter: &egui::Painter, plot: &Plot, all: Rect, frame: &Frame, cx: &mut UiContext) {
        let y = all.top() + TITLE * 0.5;
        let left = text::put(
            painter,
            pos2(plot.area.left(), y),
            Align2::LEFT_CENTER,
            &axis::origin(frame),
            SMALL,
            cx.c.dim,
            plot.area.width(),
        );
        if let Some(cursors) = frame.cursors {
            let at = pos2(plot.area.right(), y);
            let room = plot.area.right() - left.right() - 12.0;
            let words = marks::readout(cursors) + &Self::sums(frame, cx);
            text::put(painter, at, Align2::RIGHT_CENTER, &words, WORDS, cx.c.accent, room);
        }
    }
}

/// The object under the pointer.
#[derive(Clone, Debug)]
enum Hovered {
    Line(u64),
    Exemplar(Exemplar),
    /// An isolated event as text, and the condition of its journeys.
    Point(String, Option<String>),
    /// A custom-probe hit as text, and the journey whose bytes it saw.
    Hit(String, Option<u64>),
}

/// What the menu of a mark is about.
fn target(frame: &Frame, hovered: &Hovered) -> Target {
    let of_key = |key: u64, words: Option<&String>| {
        let line = frame.sweep.lifelines.iter().find(|line| line.key() == key);
        let own = line.map(|line| tip::journey(frame, line));
        let text = words.cloned().or(own).unwrap_or_default();
        Target { condition: line.and_then(condition::of_journey), text }
    };
    match hovered {
        Hovered::Line(key) => of_key(*key, None),
        Hovered::Exemplar(exemplar) => {
            let mut target = of_key(exemplar.key, None);
            if target.text.is_empty() {
                target.text = short_duration(exemplar.total_ns);
            }
            target
        }
        Hovered::Hit(words, Some(key)) => of_key(*key, Some(words)),
        Hovered::Hit(words, None) => Target::of_text(words.clone()),
        Hovered::Point(words, condition) => Target { condition: condition.clone(), text: words.clone() },
    }
}

fn click(plot: &Plot, frame: &Frame, hovered: Option<&Hovered>, at: Option<Pos2>, cx: &mut UiContext) {
    let Some(at) = at else { return };
    let action = match hovered {
        Some(Hovered::Line(key) | Hovered::Hit(_, Some(key))) => return show(*key, cx),
        Some(Hovered::Exemplar(exemplar)) => return show(exemplar.key, cx),
        _ => {
            let width = plot.area.width().max(1.0);
            let finger = f64::from(FINGER / width) * frame.sweep.timebase.span_ns() as f64;
            Action::SelectAt {
                time_ns: plot.instant(frame, at.x),
                within_ns: finger as u64,
                lane: lifelines::lane_at(plot, frame, at.y),
            }
        }
    };
    cx.act(action);
}

/// Selects a journey and zooms to it.
fn show(key: u64, cx: &mut UiContext) {
    cx.act(Action::ChooseJourney(key));
    cx.act(Action::FitJourney);
}

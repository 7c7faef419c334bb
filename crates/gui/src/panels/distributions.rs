//! Distribution of times: a histogram or percentiles of a pair of hops, over the visible time.

use super::heat;
use crate::cache::key;
use crate::chart::{Axis, Chart};
use crate::chosen::{Axes, ChosenTimes};
use crate::time::Ink;
use crate::ui_context::UiContext;
use egui::{Rect, RichText, Role, ScrollArea, Sense, Ui, WidgetInfo};
use magscope_core::Proto;
use magscope_scope::Frame;
use magscope_scope::format::{SUMMED, count, short_duration};
use magscope_scope::look::{HeatMap, HeatRow};

/// Classes of latency.
const CLASSES: usize = 160;

/// Height of the title of a chart, and its largest part of the chart.
const TITLE: f32 = 18.0;
const PART: f32 = 0.2;

/// A row of the list.
struct Row<'m> {
    of: ChosenTimes,
    heat: &'m HeatRow,
    edges_ns: &'m [u64],
}

/// The times of journeys, and of the kernel's sums. `only` is the protocol of rows of journeys that name none: all are of
/// one then.
fn list<'m>(journeys: &'m HeatMap, sums: &'m HeatMap, only: Option<Proto>) -> Vec<Row<'m>> {
    let own = journeys.rows.iter().map(move |heat| {
        let of = ChosenTimes { proto: heat.proto.or(only), span: heat.span, is_summed: false };
        Row { of, heat, edges_ns: &journeys.edges_ns }
    });
    let summed = sums.rows.iter().map(move |heat| {
        let of = ChosenTimes { proto: None, span: heat.span, is_summed: true };
        Row { of, heat, edges_ns: &sums.edges_ns }
    });
    own.chain(summed).collect()
}

/// The place of the chosen times in the list; `None` if there are none of them.
fn place_of(chosen: Option<ChosenTimes>, rows: &[Row]) -> Option<usize> {
    let Some(chosen) = chosen else { return Some(0) };
    let same = rows.iter().position(|row| row.of == chosen);
    same.or_else(|| rows.iter().position(|row| row.of.is_like(chosen)))
}

/// The protocol of all journeys of the picture, if they are of one.
fn only_protocol(frame: &Frame) -> Option<Proto> {
    let mut protocols = frame.sweep.lifelines.iter().map(|line| line.journey.proto);
    let first = protocols.next()?;
    protocols.all(|proto| proto == first).then_some(first)
}

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame, cx: &mut UiContext) {
    let make = || (frame.heat_map(1, CLASSES), frame.sum_map(1, CLASSES));
    let maps = cx.cache.classes.get(key(&[cx.revision]), make);
    let (map, sums) = (&maps.0, &maps.1.map);
    let rows = list(map, sums, only_protocol(frame));
    if rows.is_empty() {
        ui.label(RichText::new("no latency in this stretch yet").color(cx.c.dim));
        return;
    }
    let chosen = cx.chosen.times;
    let shown = place_of(chosen, &rows);
    axes(ui, cx);
    ui.horizontal_top(|ui| {
        ScrollArea::vertical().id_salt("pairs").auto_shrink([false, false]).max_width(190.0).show(ui, |ui| {
            ui.vertical(|ui| {
                ui.set_width(180.0);
                for (n, row) in rows.iter().enumerate() {
                    if n == map.rows.len() {
                        let words = RichText::new(format!("{SUMMED} by the kernel")).small().color(cx.c.dim);
                        ui.label(words).on_hover_text(
                            "times of the same packet or socket, not of journeys, added up by the kernel",
                        );
                    }
                    let name = RichText::new(heat::name(row.heat)).small();
                    if ui.selectable_label(shown == Some(n), name).clicked() {
                        cx.chosen.times = Some(row.of);
                    }
                }
            });
        });
        if let Some(row) = shown.and_then(|n| rows.get(n)) {
            one(ui, row, cx);
        } else if let Some(chosen) = chosen {
            let words = format!("{}: no times in this stretch", chosen.words());
            ui.label(RichText::new(words).color(cx.c.dim));
        }
    });
}

/// Draws the axis options.
pub fn axes(ui: &mut Ui, cx: &mut UiContext) {
    ui.horizontal_wrapped(|ui| {
        let Axes { log_time, log_count, percentiles } = &mut cx.chosen.axes;
        ui.selectable_value(percentiles, false, "histogram");
        ui.selectable_value(percentiles, true, "percentiles");
        ui.separator();
        ui.checkbox(log_time, "logarithmic time");
        ui.add_enabled(!*percentiles, egui::Checkbox::new(log_count, "logarithmic counts"));
    });
}

fn one(ui: &mut Ui, row: &Row, cx: &UiContext) {
    let counts: Vec<u64> = row.heat.column(0).iter().map(|n| u64::from(*n)).collect();
    let edges: Vec<f64> = row.edges_ns.iter().map(|ns| *ns as f64).collect();
    let (all, response) = ui.allocate_exact_size(ui.available_size(), Sense::hover());
    let t = row.heat.times;
    let words = format!(
        "{}: {} times, p50 {}, p99 {}",
        heat::name(row.heat),
        t.n,
        short_duration(t.p50_ns),
        short_duration(t.p99_ns)
    );
    response.widget_info(|| WidgetInfo::labeled(Role::Image, true, &words));
    let curve = Curve { counts: &counts, edges: &edges };
    let title = TITLE.min(all.height() * PART);
    let rect = Rect::from_min_max(egui::pos2(all.left(), all.top() + title), all.max);
    let chart = chart(rect, &[curve], cx);
    let (at, room) = (egui::pos2(chart.area.left(), all.top()), chart.area.width());
    let (anchor, name) = (egui::Align2::LEFT_TOP, row.of.words());
    crate::text::put(ui.painter(), at, anchor, &name, crate::text::SMALL, cx.c.text, room);
    frame(&chart, ui, cx);
    curve.draw(ui, &chart, cx.c.series[0], true, cx);
    let marks = [("p50", t.p50_ns), ("p90", t.p90_ns), ("p99", t.p99_ns), ("max", t.max_ns)];
    if !cx.chosen.axes.percentiles {
        for (name, ns) in marks {
            let x = chart.at(ns as f64, 0.0).x;
            ui.painter().vline(
                x,
                chart.area.y_range(),
                egui::Stroke::new(1.0, cx.c.accent.gamma_multiply(0.8)),
            );
            // At the right edge the name stands before its line.
            let is_last = x + 34.0 > chart.area.right();
            let (off, anchor) =
                if is_last { (-3.0, egui::Align2::RIGHT_TOP) } else { (3.0, egui::Align2::LEFT_TOP) };
            let at = egui::pos2(x + off, chart.area.top() + 2.0);
            crate::text::put(ui.painter(), at, anchor, name, crate::text::SMALL, cx.c.accent, 40.0);
        }
    }
    if let Some(at) = response.hover_pos().filter(|at| chart.area.contains(*at))
        && let Some(words) = curve.tooltip(&chart, at.x)
    {
        response.on_hover_text_at_pointer(words);
    }
}

/// Counts by class of time.
#[derive(Clone, Copy)]
pub struct Curve<'c> {
    /// One count per class.
    pub counts: &'c [u64],
    /// Class boundaries, one more than classes, nanoseconds.
    pub edges: &'c [f64],
}

impl Curve<'_> {
    fn all(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The first and the last edge with something between them.
    fn range(&self) -> Option<(f64, f64)> {
        let first = self.counts.iter().position(|n| *n > 0)?;
        let last = self.counts.iter().rposition(|n| *n > 0)?;
        Some((*self.edges.get(first)?, *self.edges.get(last + 1)?))
    }

    /// A fraction of the total, so that samples of different size are comparable.
    fn share(&self, n: u64) -> f64 {
        n as f64 / self.all().max(1) as f64
    }

    /// Draws the curve, filled or as a line over others.
    pub fn draw(&self, ui: &Ui, chart: &Chart, colour: egui::Color32, filled: bool, cx: &UiContext) {
        if cx.chosen.axes.percentiles {
            let mut below = 0;
            let points = self.counts.iter().zip(self.edges.iter().skip(1)).map(|(n, edge)| {
                below += n;
                (nines(self.share(below)), *edge)
            });
            // Only up to the last class with data.
            let last = self.counts.iter().rposition(|n| *n > 0).map_or(0, |at| at + 1);
            return chart.curve(ui.painter(), points.take(last).collect::<Vec<_>>().into_iter(), 1.8, colour);
        }
        let mut ink = Ink::new(chart.area, false);
        let mut outline = Vec::new();
        for (n, edges) in self.counts.iter().zip(self.edges.windows(2)) {
            let [low, high] = edges else { continue };
            let (low, high) = (chart.at(*low, self.share(*n)), chart.at(*high, 0.0));
            if *n > 0 && filled {
                let bar = Rect::from_min_max(low, egui::pos2(high.x.max(low.x + 1.0), chart.area.bottom()));
                ink.block(bar, colour.gamma_multiply(0.75));
            }
            outline.extend([low, egui::pos2(high.x, low.y)]);
        }
        let painter = ui.painter().with_clip_rect(chart.area.expand(1.0));
        painter.add(ink.mesh());
        if !filled {
            painter.line(outline, egui::Stroke::new(1.8, colour));
        }
    }

    /// The value at a position.
    fn tooltip(&self, chart: &Chart, x: f32) -> Option<String> {
        let windows = || self.edges.windows(2);
        let at = windows().position(|edges| chart.at(edges[0], 0.0).x <= x && x < chart.at(edges[1], 0.0).x)?;
        let n = self.counts.get(at)?;
        let below: u64 = self.counts.iter().take(at + 1).sum();
        let (low, high) = (*self.edges.get(at)? as u64, *self.edges.get(at + 1)? as u64);
        Some(format!(
            "{} of {} to {}\n{:.2} % are at most {}",
            count(*n),
            short_duration(low),
            short_duration(high),
            100.0 * self.share(below),
            short_duration(high)
        ))
    }
}

/// A fraction as its number of nines: 0.9 is 1, 0.99 is 2.
fn nines(part: f64) -> f64 {
    -(1.0 - part).max(1e-7).log10()
}

/// A chart that has room for all of these.
pub fn chart(rect: Rect, curves: &[Curve], cx: &UiContext) -> Chart {
    let ranges = || curves.iter().filter_map(Curve::range);
    let from = ranges().map(|r| r.0).fold(f64::MAX, f64::min);
    let to = ranges().map(|r| r.1).fold(0.0, f64::max);
    let Axes { log_time, log_count, percentiles } = cx.chosen.axes;
    let time = Axis::new(if log_time { from.max(1.0) } else { 0.0 }, to, log_time);
    if percentiles {
        return Chart::new(rect, Axis::new(0.0, 5.0, false), time);
    }
    let most = curves.iter().flat_map(|c| c.counts.iter().map(|n| c.share(*n))).fold(0.0, f64::max);
    let least = curves.iter().map(|c| c.share(1)).fold(1.0, f64::min) * 0.7;
    Chart::new(rect, time, Axis::new(if log_count { least } else { 0.0 }, most * 1.05, log_count))
}

/// Draws the axes of such a chart.
pub fn frame(chart: &Chart, ui: &Ui, cx: &UiContext) {
    let time = |ns: f64| short_duration(ns.max(0.0) as u64);
    if cx.chosen.axes.percentiles {
        let part = |n: f64| match n.round() as i32 {
            0 => "0 %".to_owned(),
            1 => "90 %".to_owned(),
            2 => "99 %".to_owned(),
            n => format!("99.{} %", "9".repeat((n - 2).max(0) as usize)),
        };
        chart.frame(ui.painter(), part, time, cx);
    } else {
        chart.frame(ui.painter(), time, |share| format!("{:.3} %", share * 100.0), cx);
    }
}

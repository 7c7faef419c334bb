//! Comparison of two recordings: significant changes, and overlaid distributions.

use super::compare_words::{endings, warning_words};
use super::distributions::{self, Curve};
use crate::compare::{CLASSES, Compared, edge_ns};
use crate::grid::{self, Click, Col, Press, number, words};
use crate::menu::{self, Target};
use crate::ui_context::UiContext;
use egui::{Color32, RichText, Role, Sense, Ui, WidgetInfo};
use magscope_core::{Hop, Proto};
use magscope_report::compare::{Change, Measured};
use magscope_scope::format::{amount, duration, short_duration};

pub(super) const COLUMNS: &[Col] = &[
    words("step", 156.0),
    words("difference", 124.0),
    number("p50 before", 62.0),
    number("p50 after", 62.0),
    number("p99 before", 62.0),
    number("p99 after", 62.0),
    number("n before", 56.0),
    number("n after", 50.0),
    number("on the mean", 74.0),
];

/// A compared row.
struct Row<'m> {
    proto: Proto,
    pair: Option<(Hop, Hop)>,
    measured: &'m Measured,
    effect_ns: Option<i64>,
}

/// Draws the panel.
pub fn show(ui: &mut Ui, compared: Option<&Compared>, cx: &mut UiContext) {
    let Some(compared) = compared else {
        ui.label(
            RichText::new("open a recording, then File, Compare with …: a second one is laid over it")
                .color(cx.c.dim),
        );
        return;
    };
    let (before, after) = colours(cx);
    ui.horizontal_wrapped(|ui| {
        ui.label(RichText::new(format!("■ before: {}", compared.names.0)).color(before));
        ui.label(RichText::new(format!("■ after: {}", compared.names.1)).color(after));
        for warning in &compared.comparison.warnings {
            ui.label(RichText::new(format!("! {}", warning_words(warning))).color(cx.c.slow).small());
        }
    });
    for protocol in &compared.comparison.protocols {
        let colour = if protocol.shares.iter().any(|share| share.differs) { cx.c.slow } else { cx.c.dim };
        ui.label(RichText::new(endings(protocol)).color(colour).small());
    }
    distributions::axes(ui, cx);
    let rows: Vec<Row> = compared
        .comparison
        .protocols
        .iter()
        .flat_map(|protocol| {
            let whole = Row { proto: protocol.proto, pair: None, measured: &protocol.total, effect_ns: None };
            let steps = protocol.steps.iter().map(|step| Row {
                proto: protocol.proto,
                pair: Some((step.from, step.to)),
                measured: &step.measured,
                effect_ns: Some(step.effect_ns),
            });
            std::iter::once(whole).chain(steps)
        })
        .collect();
    let chosen = cx.chosen.compared;
    let shown = match chosen {
        Some(chosen) => rows.iter().position(|row| (row.proto, row.pair) == chosen),
        None => Some(0),
    };
    // Inside a horizontal layout the rest of the height is that of one line.
    let height = ui.available_height();
    ui.horizontal_top(|ui| {
        let size = egui::vec2((ui.available_width() * 0.63).max(300.0), height);
        let down = egui::Layout::top_down(egui::Align::Min);
        ui.allocate_ui_with_layout(size, down, |ui| {
            ui.set_min_size(size);
            table(ui, &rows, shown, cx);
        });
        if let Some(row) = shown.and_then(|n| rows.get(n)) {
            spreads(ui, compared, row, height, cx);
        } else if let Some((proto, pair)) = chosen {
            let words = format!("{proto} {}: no times in this comparison", name_of(pair));
            ui.label(RichText::new(words).color(cx.c.dim));
        }
    });
}

fn colours(cx: &UiContext) -> (Color32, Color32) {
    (cx.c.series[0], cx.c.slow)
}

/// A pair of hops in words; without one, the whole journey.
fn name_of(pair: Option<(Hop, Hop)>) -> String {
    pair.map_or_else(|| "whole journey".to_owned(), |(from, to)| format!("{from} → {to}"))
}

fn table(ui: &mut Ui, rows: &[Row], shown: Option<usize>, cx: &mut UiContext) {
    let c = cx.c;
    let clicked = grid::show(ui, "compare", COLUMNS, rows.len(), cx, |line, n| {
        let Some(row) = rows.get(n) else { return };
        line.select(shown == Some(n));
        let m = row.measured;
        let (words, colour) = verdict(m, c);
        line.put(
            format!("{} {}", row.proto, name_of(row.pair)),
            if m.change.is_found() { colour } else { c.text },
        );
        line.put(words, colour);
        let or_dot = |n: u64, ns: u64| if n == 0 { "·".to_owned() } else { duration(ns) };
        for (n, ns) in [(m.n_a, m.p50.a_ns), (m.n_b, m.p50.b_ns), (m.n_a, m.p99.a_ns), (m.n_b, m.p99.b_ns)] {
            line.put(or_dot(n, ns), c.text);
        }
        line.put(amount(m.n_a), c.dim);
        line.put(amount(m.n_b), c.dim);
        let effect = row.effect_ns.map(|ns| {
            let sign = if ns < 0 { '−' } else { '+' };
            format!("{sign}{}", duration(ns.unsigned_abs()).trim())
        });
        line.put(effect.unwrap_or_default(), c.dim);
    });
    match clicked {
        Some(Click::Row(_, Press::Menu(text))) => menu::open(ui, cx, Target::of_text(text)),
        Some(Click::Row(n, _)) => cx.chosen.compared = rows.get(n).map(|row| (row.proto, row.pair)),
        Some(Click::Title(_)) | None => {}
    }
}

/// Description of a difference.
fn verdict(m: &Measured, c: &'static crate::colours::Colours) -> (String, Color32) {
    let by = m.p50.ratio.map_or_else(String::new, |ratio| format!(": p50 ×{ratio:.2}"));
    match m.change {
        Change::Slower => (format!("▲ slower{by}"), c.slow),
        Change::Faster => (format!("▼ faster{by}"), c.good),
        Change::Mixed => ("▲▼ p50 and p99 differ".to_owned(), c.slow),
        Change::NotShown => ("no difference shown".to_owned(), c.dim),
        Change::TooFew => ("too few to say".to_owned(), c.dim),
        Change::OnlyInA => ("only before".to_owned(), c.slow),
        Change::OnlyInB => ("only after".to_owned(), c.slow),
    }
}

fn spreads(ui: &mut Ui, compared: &Compared, row: &Row, height: f32, cx: &UiContext) {
    let size = egui::vec2(ui.available_width(), ui.available_height().max(height));
    let (rect, response) = ui.allocate_exact_size(size, Sense::hover());
    let name = name_of(row.pair);
    response.widget_info(|| WidgetInfo::labeled(Role::Image, true, format!("{name}, before and after")));
    let edges: Vec<f64> = (0..=CLASSES).map(edge_ns).collect();
    let sides = [&compared.spreads.0, &compared.spreads.1].map(|side| side.of(row.proto, row.pair));
    let (before, after) = colours(cx);
    let curves: Vec<(Curve, Color32)> = sides
        .iter()
        .zip([before, after])
        .filter_map(|(counts, colour)| Some((Curve { counts: (*counts)?, edges: &edges }, colour)))
        .collect();
    let all: Vec<Curve> = curves.iter().map(|(curve, _)| *curve).collect();
    let chart = distributions::chart(rect, &all, cx);
    distributions::frame(&chart, ui, cx);
    for (n, (curve, colour)) in curves.iter().enumerate() {
        curve.draw(ui, &chart, *colour, n == 0, cx);
    }
    let q = &row.measured.p50;
    let interval = q.at_least_ns.zip(q.at_most_ns).map_or_else(String::new, |(least, most)| {
        let signed =
            |ns: i64| format!("{}{}", if ns < 0 { '−' } else { '+' }, short_duration(ns.unsigned_abs()));
        format!("p50 differs by {} to {}", signed(least), signed(most))
    });
    let at = chart.area.right_top() + egui::vec2(-6.0, 4.0);
    crate::text::put(
        ui.painter(),
        at,
        egui::Align2::RIGHT_TOP,
        &format!("{name}   {interval}"),
        crate::text::SMALL,
        cx.c.text,
        chart.area.width(),
    );
}

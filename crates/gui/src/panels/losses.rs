//! Drops by the kernel, events that the instrument missed, and its overhead.

use crate::menu::{self, Target};
use crate::side::{heading, number};
use crate::text::explained;
use crate::time::Ink;
use crate::ui_context::UiContext;
use egui::{
    Color32, FontSelection, Grid, Label, Rect, RichText, Role, ScrollArea, Sense, TextWrapMode, Ui, WidgetInfo,
    WidgetText, pos2,
};
use magscope_core::drop_reason::clean_up_words;
use magscope_scope::Frame;
use magscope_scope::condition::DROPPED;
use magscope_scope::format::{SUMMED, count, counted, percent};
use magscope_scope::look::LossPanel;

/// Number of reasons of drops with a row each.
const REASONS: usize = 12;

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame, cx: &mut UiContext) {
    let panel = frame.losses();
    ScrollArea::vertical().auto_shrink([false, false]).show(ui, |ui| {
        ui.horizontal_top(|ui| {
            ui.vertical(|ui| {
                ui.set_width(300.0);
                losses(ui, frame, &panel, cx);
            });
            ui.vertical(|ui| {
                ui.set_width(280.0);
                cost(ui, &panel, cx);
            });
            ui.vertical(|ui| {
                hops(ui, &panel, cx);
                probes(ui, &panel, cx);
            });
        });
    });
}

fn losses(ui: &mut Ui, frame: &Frame, panel: &LossPanel, cx: &mut UiContext) {
    drops(ui, panel, cx);
    ui.add_space(6.0);
    missed(ui, frame, panel, cx);
}

fn missed(ui: &mut Ui, frame: &Frame, panel: &LossPanel, cx: &mut UiContext) {
    let c = cx.c;
    let alarm = |n: u64| if n > 0 { c.missed } else { c.text };
    heading(ui, "EVENTS THE INSTRUMENT MISSED", cx);
    Grid::new("losses").num_columns(3).spacing([12.0, 2.0]).show(ui, |ui| {
        for row in &panel.losses {
            let cause = row.cause.to_string();
            let first = explained(ui.label(&cause), &cause);
            menu::on_line(ui, &first, cx, || Target::of_text(format!("{cause}\t{}", row.count)));
            ui.label(number(format!("{:>9}", count(row.count)), alarm(row.count)));
            let last = row.last_ns.and_then(|ns| frame.time_of_day(ns)).unwrap_or_default();
            ui.label(number(last, cx.c.dim));
            ui.end_row();
        }
        explained(ui.label("too late to be sorted"), "too late to be sorted");
        ui.label(number(format!("{:>9}", count(panel.totals.late)), alarm(panel.totals.late)));
        ui.end_row();
    });
}

/// The reasons of drops without a row, and their packets; `None` if each has one.
fn rest_of(drops: &[(String, u64)]) -> Option<(String, u64)> {
    let others = drops.get(REASONS..).filter(|others| !others.is_empty())?;
    let packets = others.iter().fold(0_u64, |sum, (_, n)| sum.saturating_add(*n));
    Some((counted(others.len() as u64, "more reason", "more reasons"), packets))
}

fn drops(ui: &mut Ui, panel: &LossPanel, cx: &mut UiContext) {
    let c = cx.c;
    let alarm = |n: u64| if n > 0 { c.bad } else { c.text };
    heading(ui, "PACKETS THE KERNEL DROPPED", cx);
    if panel.drops.is_empty() {
        ui.label(number("none", cx.c.text));
    }
    Grid::new("drops").num_columns(2).spacing([12.0, 2.0]).show(ui, |ui| {
        for (reason, n) in panel.drops.iter().take(REASONS) {
            let first = explained(ui.label(reason), "dropped");
            // No filter names a reason.
            let target = || Target { condition: Some(DROPPED.to_owned()), text: format!("{reason}\t{n}") };
            menu::on_line(ui, &first, cx, target);
            ui.label(number(format!("{:>9}", count(*n)), alarm(*n)));
            ui.end_row();
        }
        if let Some((reasons, n)) = rest_of(&panel.drops) {
            let first = ui.label(&reasons);
            menu::on_line(ui, &first, cx, || Target::of_text(format!("{reasons}\t{n}")));
            ui.label(number(format!("{:>9}", count(n)), alarm(n)));
            ui.end_row();
        }
        for (cause, n) in &panel.drops_left_out {
            let first = ui.label(format!("more, {cause}"));
            menu::on_line(ui, &first, cx, || Target::of_text(format!("{cause}\t{n}")));
            ui.label(number(format!("{:>9}", count(*n)), cx.c.dim));
            ui.end_row();
        }
        for (reason, n) in &panel.cleaned_up {
            let first = ui.label(format!("{reason} ({}, no drop)", clean_up_words(reason)));
            menu::on_line(ui, &first, cx, || Target::of_text(format!("{reason}\t{n}")));
            ui.label(number(format!("{:>9}", count(*n)), cx.c.dim));
            ui.end_row();
        }
    });
}

fn cost(ui: &mut Ui, panel: &LossPanel, cx: &UiContext) {
    heading(ui, "OVERHEAD OF THE CAPTURE", cx);
    let Some(own) = panel.overhead else {
        ui.label(RichText::new("not measured: nothing is captured here").color(cx.c.dim));
        return;
    };
    Grid::new("cost").num_columns(2).spacing([12.0, 2.0]).show(ui, |ui| {
        let or_dot = |value: Option<String>| value.unwrap_or_else(|| "·".to_owned());
        let mut rows = vec![
            ("this program, of a core", percent(own.reader_cpu_ratio)),
            ("probes, of a core (est.)", or_dot(own.kernel_cpu_ratio_estimate.map(percent))),
            ("per event", or_dot(own.kernel_ns_per_hit.map(|ns| format!("{ns:.0} ns")))),
        ];
        if let Some(budget) = own.budget {
            let (used, most) = (percent(budget.used_ratio), percent(budget.ratio));
            rows.push(("of the machine, budget", format!("{} of {}", used.trim(), most.trim())));
            rows.push(("so it captures", budget.captured.to_owned()));
        }
        rows.push(("events of all probes", count(own.hits)));
        rows.push(("fullest ring buffer", percent(own.ring_fill_ratio)));
        for (words, value) in rows {
            explained(ui.label(words), words);
            ui.label(number(format!("{value:>12}"), cx.c.text));
            ui.end_row();
        }
    });
    spark(ui, "own CPU over time", &panel.own_cpu, 0.1, cx.c.series[0], cx);
    spark(ui, "fullest ring buffer over time", &panel.ring_fill, 1.0, cx.c.series[3], cx);
}

/// Values over time on a scale up to at least `much`, so that small values look small.
fn spark(ui: &mut Ui, name: &str, values: &[f64], much: f64, colour: Color32, cx: &UiContext) {
    ui.label(RichText::new(name).color(cx.c.dim).small());
    let (rect, response) = ui.allocate_exact_size(egui::vec2(260.0, 30.0), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Image, true, name));
    ui.painter().rect_filled(rect, 2.0, cx.c.back);
    let most = values.iter().copied().fold(much, f64::max);
    let width = 2.0;
    let room = (rect.width() / width) as usize;
    let mut ink = Ink::new(rect, false);
    for (n, value) in values.iter().skip(values.len().saturating_sub(room)).enumerate() {
        let left = rect.left() + n as f32 * width;
        let height = rect.height() * (value / most).clamp(0.02, 1.0) as f32;
        ink.block(
            Rect::from_min_max(pos2(left, rect.bottom() - height), pos2(left + width, rect.bottom())),
            colour,
        );
    }
    ui.painter().add(ink.mesh());
}

fn probes(ui: &mut Ui, panel: &LossPanel, cx: &UiContext) {
    if panel.probes.is_empty() && panel.strangers == 0 {
        return;
    }
    ui.add_space(6.0);
    heading(ui, "YOUR OWN PROBES", cx);
    Grid::new("probes").num_columns(4).striped(true).spacing([12.0, 2.0]).show(ui, |ui| {
        for probe in panel.probes {
            let unread: u64 = probe.unread.iter().sum();
            ui.label(&probe.name);
            ui.label(number(format!("{:>11}", count(probe.hits)), cx.c.text));
            let words = if unread > 0 { format!("{} values not read", count(unread)) } else { String::new() };
            ui.label(RichText::new(words).color(cx.c.slow).small());
            wrapped(ui, RichText::new(probe.place()).color(cx.c.dim).small());
            ui.end_row();
        }
    });
    if panel.strangers > 0 {
        let words = format!("{} hits name no probe of their recording: it is damaged", count(panel.strangers));
        ui.label(RichText::new(words).color(cx.c.bad));
    }
}

/// Minimum width of a wrapped text, points: narrower ones are columns of single words.
const MIN_TEXT: f32 = 160.0;

/// The last cell of a row, in as many lines as the rest of the panel's width asks for: why a hop is missing is a sentence.
/// A grid lets its cells grow, so that a text would end beyond the edge.
fn wrapped(ui: &mut Ui, text: RichText) {
    let room = (ui.clip_rect().right() - EDGE - ui.cursor().left()).max(MIN_TEXT);
    let in_one_line = Some(TextWrapMode::Extend);
    let galley =
        WidgetText::from(text.clone()).into_galley(ui, in_one_line, f32::INFINITY, FontSelection::Default);
    if galley.size().x <= room {
        ui.label(text); // on the line of the other cells
        return;
    }
    ui.vertical(|ui| {
        ui.set_max_width(room);
        ui.add(Label::new(text).wrap());
    });
}

/// Space for the scroll bar at the right edge, points.
const EDGE: f32 = 16.0;

fn hops(ui: &mut Ui, panel: &LossPanel, cx: &mut UiContext) {
    heading(ui, "HOPS", cx);
    Grid::new("hops").num_columns(3).striped(true).spacing([12.0, 2.0]).show(ui, |ui| {
        for hop in &panel.hops {
            let colour = if hop.state.is_on() { cx.c.text } else { cx.c.dim };
            let words = hop.state.words();
            let first = explained(ui.label(RichText::new(hop.hop.name()).color(colour)), hop.hop.name());
            let count_text = if hop.summed > 0 {
                format!("{SUMMED}{}", count(hop.events.saturating_add(hop.summed)))
            } else {
                count(hop.events)
            };
            menu::on_line(ui, &first, cx, || Target::of_text(format!("{}\t{count_text}\t{words}", hop.hop)));
            ui.label(number(format!("{count_text:>11}"), colour));
            wrapped(ui, RichText::new(words).color(cx.c.dim).small());
            ui.end_row();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_drops_without_a_row_are_counted() {
        let drops = |number: u64| -> Vec<(String, u64)> {
            (0..number).map(|n| (format!("reason {n}"), 100 - n)).collect()
        };
        assert_eq!(rest_of(&drops(3)), None);
        assert_eq!(rest_of(&drops(12)), None);
        assert_eq!(rest_of(&drops(13)), Some(("1 more reason".to_owned(), 88)));
        assert_eq!(rest_of(&drops(14)), Some(("2 more reasons".to_owned(), 175)));
    }
}

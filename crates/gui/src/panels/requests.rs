//! Requests: the services with their times, then the slowest requests as bars of their parts.

use crate::menu::{self, Target};
use crate::side::{heading, number};
use crate::text::explained;
use crate::ui_context::UiContext;
use egui::{Color32, Grid, Rect, RichText, ScrollArea, Sense, Ui, pos2, vec2};
use magscope_core::exchange::ExchangePart;
use magscope_scope::format::{bytes, count, duration, percent};
use magscope_scope::look::{MOST_SLOWEST, RequestRow, RequestTable, SlowRequest, more_services, slowest_parts};
use magscope_scope::{Action, Frame, condition};

/// Number of services.
const SERVICES: usize = 20;
/// Widths of numbers, characters.
const TIME: usize = 8;
const COUNT: usize = 9;
const SHARE: usize = 6;
/// Titles of the table of services, with the widths of numbers, 0 for texts.
const TITLES: [(&str, usize); 7] = [
    ("service", 0),
    ("p50", TIME),
    ("p99", TIME),
    ("max", TIME),
    ("n", COUNT),
    ("turns", SHARE),
    ("where the slowest go", 0),
];
/// Size of a bar.
const BAR: egui::Vec2 = vec2(320.0, 12.0);

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame, cx: &mut UiContext) {
    let panel = frame.requests(SERVICES, MOST_SLOWEST);
    ScrollArea::both().auto_shrink([false, false]).show(ui, |ui| {
        ui.label(RichText::new(panel.title()).color(cx.c.dim));
        if panel.table.rows.is_empty() {
            return;
        }
        services(ui, &panel.table, cx);
        if let Some(words) = more_services(&panel.table) {
            ui.label(RichText::new(words).color(cx.c.dim));
        }
        if !panel.slowest.is_empty() {
            ui.add_space(6.0);
            heading(ui, "THE SLOWEST", cx);
            for slow in &panel.slowest {
                request(ui, frame, slow, panel.selected == Some(slow.id), cx);
            }
        }
    });
}

fn services(ui: &mut Ui, table: &RequestTable, cx: &mut UiContext) {
    Grid::new("services").num_columns(7).spacing([12.0, 2.0]).show(ui, |ui| {
        for (words, width) in TITLES {
            // As wide as the numbers below, which are right-aligned.
            let title = if width == 0 {
                RichText::new(words).color(cx.c.dim)
            } else {
                number(format!("{words:>width$}"), cx.c.dim)
            };
            explained(ui.label(title), words);
        }
        ui.end_row();
        for row in &table.rows {
            let first = ui.label(row.label());
            menu::on_line(ui, &first, cx, || service(row));
            let times = row.times();
            for ns in [times.map(|q| q.p50_ns), times.map(|q| q.p99_ns), times.map(|q| q.max_ns)] {
                let time = ns.map_or_else(|| "·".to_owned(), duration);
                ui.label(number(format!("{time:>TIME$}"), cx.c.text));
            }
            let all = row.grades.total();
            ui.label(number(format!("{:>COUNT$}", count(all)), cx.c.text));
            let turns = percent(row.grades.turn as f64 / all.max(1) as f64);
            ui.label(number(format!("{turns:>SHARE$}"), cx.c.text));
            ui.label(RichText::new(slowest_parts(row)).color(cx.c.dim));
            ui.end_row();
        }
    });
}

/// A service for the menu.
fn service(row: &RequestRow) -> Target {
    let label = row.label();
    let times = row.times().map(|q| [q.p50_ns, q.p99_ns, q.max_ns].map(|ns| duration(ns).trim().to_owned()));
    let times = times.map(|times| times.join("\t")).unwrap_or_default();
    let text = format!("{label}\t{times}\t{}\t{}", row.grades.total(), slowest_parts(row));
    Target { condition: condition::of_service(&row.name), text }
}

fn request(ui: &mut Ui, frame: &Frame, slow: &SlowRequest, is_selected: bool, cx: &mut UiContext) {
    let time = frame.time_of_day(slow.start_ns).unwrap_or_default();
    let port = slow.service.split(' ').next().unwrap_or_default();
    let head =
        format!("{time} {} → {} {port}  {}", slow.requester, slow.responder, duration(slow.total_ns).trim());
    let head = if slow.grade.has_latency() { head } else { format!("{head}, {}", slow.grade) };
    let response = ui.selectable_label(is_selected, head.trim_start()).on_hover_text("show its journey");
    if response.clicked() {
        cx.act(Action::ChooseRequest(slow.id));
    } else if response.secondary_clicked() {
        let condition = condition::of_service(&slow.service);
        menu::open(ui, cx, Target { condition, text: head.trim_start().to_owned() });
    }
    Grid::new(("request", slow.id)).num_columns(5).spacing([12.0, 2.0]).show(ui, |ui| {
        for part in &slow.parts {
            explained(ui.label(RichText::new(part.part.words()).color(cx.c.dim)), part.part.words());
            let size = part.bytes.map(bytes).unwrap_or_default();
            ui.label(number(format!("{size:>8}"), cx.c.dim));
            ui.label(number(format!("{:>8}", duration(part.ns)), cx.c.text));
            bar(ui, slow.total_ns, part.from_ns, part.ns, colour(part.part, cx));
            ui.label(RichText::new(&part.note).color(cx.c.dim));
            ui.end_row();
        }
    });
    for inner in &slow.during {
        ui.label(RichText::new(format!("    {inner}")).color(cx.c.dim));
    }
    ui.add_space(4.0);
}

const fn colour(part: ExchangePart, cx: &UiContext) -> Color32 {
    match part {
        ExchangePart::RequestTransfer | ExchangePart::ResponseTransfer => cx.c.dim,
        ExchangePart::UntilAnswered => cx.c.text,
    }
}

/// The place of a part within its request.
fn bar(ui: &mut Ui, total_ns: u64, from_ns: u64, ns: u64, colour: Color32) {
    let (area, _) = ui.allocate_exact_size(BAR, Sense::hover());
    let x = |ns: u64| area.left() + (ns as f64 / total_ns.max(1) as f64) as f32 * area.width();
    let (from, to) = (x(from_ns), x(from_ns.saturating_add(ns)).min(area.right()));
    let filled =
        Rect::from_min_max(pos2(from, area.top() + 1.0), pos2(to.max(from + 1.0), area.bottom() - 1.0));
    ui.painter().rect_filled(filled, 1.0, colour);
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::Proto;
    use magscope_report::GradeCounts;
    use magscope_report::stats::Quantiles;

    #[test]
    fn times_of_a_service_are_those_of_most_of_its_turns() {
        let times = |p50_ns, n| Some(Quantiles { p50_ns, n, ..Quantiles::default() });
        let row = |seen| RequestRow {
            proto: Proto::TCP,
            name: ":80".to_owned(),
            grades: GradeCounts { turn: 1_000, ..GradeCounts::default() },
            total: times(7_000_000, seen),
            answer: times(2_000_000, 1_000),
            request_bytes: 0,
            response_bytes: 0,
            retransmits: 0,
            asked_again: 0,
            slowest: Vec::new(),
            slowest_exchange: None,
            unanswered_requester: None,
            long: 0,
            waited_for: None,
            may_be_more: false,
        };
        for (seen, p50_ns) in [(3, 2_000_000), (900, 7_000_000)] {
            let Target { condition, text } = service(&row(seen));
            assert_eq!(condition.as_deref(), Some("port = 80"), "the menu chooses its traffic");
            assert_eq!(text.split('\t').nth(1), Some(duration(p50_ns).trim()), "{text}");
        }
    }
}

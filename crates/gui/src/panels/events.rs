//! Recorded events around the middle of the picture or the chosen cursor.

use crate::grid::{self, Click, Col, Press, ROW, number, words};
use crate::menu::{self, Target};
use crate::ui_context::UiContext;
use egui::{RichText, Ui};
use magscope_scope::format::{count, duration};
use magscope_scope::look::EventRow;
use magscope_scope::{Action, Frame, condition};

pub(super) const COLUMNS: &[Col] = &[
    number("time (UTC)", 130.0),
    number("after", 76.0),
    words("hop", 110.0),
    number("CPU", 44.0),
    words("who", 150.0),
    words("flow", 320.0),
    number("bytes", 70.0),
    number("sequence", 90.0),
    number("packet", 80.0),
    words("detail", 120.0),
];

/// Draws the panel: as many rows as there is room for, the selected one in the middle.
pub fn show(ui: &mut Ui, frame: &Frame, cx: &mut UiContext) {
    let rows = ((ui.available_height() - 46.0) / (ROW + 3.0)).clamp(3.0, 200.0) as usize;
    let table = frame.events(rows);
    if table.rows.is_empty() {
        let words = if frame.footer.shows_sums {
            "no events: the kernel added up, and handed over sums (Σ)"
        } else {
            "no event of this stretch is kept; zoom in"
        };
        ui.label(RichText::new(words).color(cx.c.dim));
        return;
    }
    let middle = table.rows.iter().position(|row| row.selected).unwrap_or(0);
    ui.horizontal(|ui| {
        for (name, by) in [("◀◀", -(rows as i32)), ("◀", -1), ("▶", 1), ("▶▶", rows as i32)] {
            let response = ui.small_button(name);
            response
                .widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, format!("{by:+} events")));
            if response.clicked() {
                cx.act(Action::SelectRow(by));
            }
        }
        ui.label(RichText::new(table.extent()).color(cx.c.dim).small());
    });
    let (c, mut before) = (cx.c, None);
    let clicked = grid::show(ui, "events", COLUMNS, table.rows.len(), cx, |row, n| {
        let Some(event) = table.rows.get(n) else { return };
        row.select(event.selected);
        one(row, event, before, frame, c);
        before = Some(event.time_ns());
    });
    let Some(Click::Row(n, press)) = clicked else { return };
    if let Press::Menu(text) = press {
        let condition = table.rows.get(n).and_then(|row| row.ends).map(condition::of_ends);
        return menu::open(ui, cx, Target { condition, text });
    }
    cx.act(Action::SelectRow(n as i32 - middle as i32));
    if press == Press::Twice {
        cx.act(Action::TakeRow);
    }
}

fn one(
    row: &mut grid::Row,
    shown: &EventRow,
    before: Option<u64>,
    frame: &Frame,
    c: &'static crate::colours::Colours,
) {
    let event = shown.event();
    let bad = event.is_some_and(|event| frame.is_drop(shown.node, event));
    let colour = match (bad, shown.of_journey) {
        (true, _) => c.bad,
        (_, true) => c.accent,
        _ => c.text,
    };
    let time_ns = shown.time_ns();
    row.put(frame.time_of_day(time_ns).unwrap_or_else(|| duration(time_ns)), c.dim);
    row.put(before.map_or_else(String::new, |at| duration(time_ns.saturating_sub(at))), c.dim);
    let own = if event.is_some() { "" } else { "◆ " };
    row.put(format!("{own}{}", shown.name()), colour);
    row.put(shown.cpu().to_string(), colour);
    row.put(
        match (shown.tid(), shown.comm) {
            (0, _) => String::new(),
            (tid, "") => tid.to_string(),
            (tid, comm) => format!("{comm}/{tid}"),
        },
        colour,
    );
    row.put(
        shown.ends.map_or_else(|| "·".to_owned(), |(from, to)| format!("{} {from} → {to}", shown.proto())),
        colour,
    );
    row.put(count(u64::from(shown.len())), colour);
    row.put(if shown.seq() != 0 { shown.seq().to_string() } else { String::new() }, colour);
    let skb = event.map_or(0, |event| event.skb);
    row.put(if skb != 0 { format!("{skb:x}") } else { String::new() }, c.dim);
    row.put(event.map_or_else(|| shown.values_text(), |event| frame.details(shown.node, event)), colour);
}

//! The flows, or groups of them: endpoints, rates, and blame.

use crate::cache::key;
use crate::grid::{self, Click, Col, Press, number, words};
use crate::menu::{self, Target};
use crate::ui_context::UiContext;
use egui::{Color32, Rect, RichText, Sense, Ui, pos2};
use magscope_scope::format::{amount, bit_rate, bytes, count, counted, duration, percent};
use magscope_scope::look::{FlowOrder, FlowRow};
use magscope_scope::{Action, Frame, GROUPINGS, GroupBy, Pick};

pub(super) const COLUMNS: &[Col] = &[
    words("flow", 270.0),
    words("processes", 160.0),
    number("journeys", 70.0),
    number("failed", 54.0),
    number("broken", 54.0),
    number("resent", 54.0),
    number("bytes", 76.0),
    number("p50", 76.0),
    number("p99", 76.0),
    number("max", 76.0),
    words("most of its time", 226.0),
    words("longest, lately", 84.0),
];
/// Columns of the kernel's sums.
pub(super) const SUMS: [Col; 3] =
    [number("Σ packets", 76.0), number("Σ bytes", 76.0), number("Σ lately", 84.0)];
/// Rows at most.
const MOST: usize = 10_000;
/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame, cx: &mut UiContext) {
    let table = cx.cache.flows.get(key(&[cx.revision]), || frame.flows(MOST));
    ui.horizontal_wrapped(|ui| {
        ui.label(RichText::new("by").color(cx.c.dim));
        for by in [GroupBy::Flow].into_iter().chain(GROUPINGS) {
            let is_chosen = table.by == by && frame.controls.within.is_none();
            if ui.selectable_label(is_chosen, by.name()).clicked() {
                cx.act(Action::GroupFlows(by));
            }
        }
        if let Some(within) = &frame.controls.within {
            ui.separator();
            if ui.button("◀").on_hover_text("back to the groups").clicked() {
                cx.act(Action::GroupFlows(within.by));
            }
            ui.label(RichText::new(format!("flows of {}", within.words)).color(cx.c.accent));
        }
        let (one, many) = if table.by == GroupBy::Flow { ("flow", "flows") } else { ("group", "groups") };
        let mut words = counted(table.total as u64, one, many);
        if table.left_out > 0 {
            words = format!(
                "{words}; {} of others are counted, not listed",
                counted(table.left_out, "journey", "journeys")
            );
        }
        if table.packets_left_out > 0 {
            words =
                format!("{words}; {} packets of others are counted, not listed", count(table.packets_left_out));
        }
        if table.summed {
            words.push_str("; Σ is what the kernel added up");
        }
        ui.label(RichText::new(words).color(cx.c.dim).small());
        if !frame.controls.picks.is_empty()
            && ui.button("Everything").on_hover_text("undo what was picked").clicked()
        {
            cx.act(Action::Pick(Pick::Nothing));
        }
    });
    if table.rows.is_empty() {
        ui.label(RichText::new("no flow yet").color(cx.c.dim));
        return;
    }
    let c = cx.c;
    let mut columns = COLUMNS.to_vec();
    if table.by != GroupBy::Flow {
        columns.splice(0..1, [words(table.by.name(), 230.0), number("flows", 54.0)]);
    }
    if table.summed {
        // After the owner columns: a flow without journeys has no other data.
        let behind = columns.len() + 1 - COLUMNS.len();
        columns.splice(behind..behind, SUMS);
    }
    for column in &mut columns {
        if let Some(order) = FlowOrder::by_column(column.title()) {
            *column = column.sorts(order == table.order);
        }
    }
    let name = match (table.by == GroupBy::Flow, table.summed) {
        (true, false) => "flows",
        (true, true) => "summed flows",
        (false, false) => "groups of flows",
        (false, true) => "summed groups of flows",
    };
    let clicked = grid::show(ui, name, &columns, table.rows.len(), cx, |row, n| {
        let Some(flow) = table.rows.get(n) else { return };
        let picked = flow.group.is_none() && frame.controls.picks.contains(&Pick::Flow(flow.flow));
        row.select(flow.selected || picked);
        one(row, flow, table.summed, c);
    });
    let (n, press) = match clicked {
        None => return,
        Some(Click::Row(n, press)) => (n, press),
        Some(Click::Title(title)) => {
            if let Some(order) = FlowOrder::by_column(title) {
                cx.act(Action::OrderFlows(order));
            }
            return;
        }
    };
    let Some(flow) = table.rows.get(n) else { return };
    match press {
        Press::Menu(text) => {
            let condition = frame.condition_of(flow);
            menu::open(ui, cx, Target { condition, text });
        }
        _ if flow.group.is_some() => cx.act(Action::OpenGroup(table.first + n)),
        _ => cx.act(Action::Pick(Pick::Flow(flow.flow))),
    }
}

fn one(row: &mut grid::Row, flow: &FlowRow, summed: bool, c: &'static crate::colours::Colours) {
    row.put(flow.name(" → "), c.text);
    if let Some(group) = &flow.group {
        row.put(amount(group.flows), c.text);
    }
    if summed {
        let or_dot = |words: Option<String>| words.unwrap_or_else(|| "·".to_owned());
        row.put(or_dot(flow.summed.map(|sum| amount(sum.packets))), c.text);
        row.put(or_dot(flow.summed.map(|sum| bytes(sum.bytes))), c.text);
        row.put(or_dot(flow.summed.map(|sum| bit_rate(sum.bytes_per_s))), c.text);
    }
    if flow.journeys == 0 {
        (0..11).for_each(|_| row.put("·", c.dim));
        return;
    }
    let or_dot = |name: &str| if name.is_empty() { "·".to_owned() } else { name.to_owned() };
    row.put(format!("{} → {}", or_dot(&flow.processes.0), or_dot(&flow.processes.1)), c.text);
    row.put(amount(flow.journeys), c.text);
    row.put(amount(flow.bad), if flow.bad > 0 { c.bad } else { c.dim });
    row.put(amount(flow.broken), c.dim);
    row.put(amount(flow.resent), if flow.resent > 0 { c.slow } else { c.dim });
    row.put(bytes(flow.bytes), c.text);
    for ns in [flow.times.p50_ns, flow.times.p99_ns, flow.times.max_ns] {
        let measured = flow.times.n > 0;
        row.put(if measured { duration(ns) } else { "·".to_owned() }, if measured { c.text } else { c.dim });
    }
    match flow.blame {
        Some((part, share)) => row.put(format!("{} {}", part.words(), percent(share).trim()), c.text),
        None => row.put("·", c.dim),
    }
    row.draw(|ui| sparkline(ui, &flow.trend_max_ns, c.series[0]));
}

fn sparkline(ui: &mut Ui, values: &[u64], colour: Color32) {
    let (rect, _) = ui.allocate_exact_size(ui.available_size(), Sense::hover());
    let most = values.iter().copied().max().unwrap_or(0).max(1) as f32;
    let mut ink = crate::time::Ink::new(rect, false);
    let width = (rect.width() / values.len().max(1) as f32).min(6.0);
    for (n, value) in values.iter().enumerate().filter(|(_, value)| **value > 0) {
        let left = rect.left() + n as f32 * width;
        let height = (rect.height() - 4.0) * (*value as f32 / most).clamp(0.05, 1.0);
        let bottom = rect.bottom() - 2.0;
        ink.block(
            Rect::from_min_max(pos2(left, bottom - height), pos2(left + (width - 1.0).max(0.8), bottom)),
            colour,
        );
    }
    ui.painter().add(ink.mesh());
}

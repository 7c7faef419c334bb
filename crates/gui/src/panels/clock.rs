//! The clocks: each node's clock state, their relation, and its bound over time.

use crate::chart::{Axis, Chart};
use crate::side::{heading, number};
use crate::text::explained;
use crate::ui_context::UiContext;
use egui::{Grid, Role, ScrollArea, Sense, Ui, WidgetInfo};
use magscope_scope::Frame;
use magscope_scope::format::{self, count, short_duration};
use magscope_scope::look::{ClockPair, ClockRow};
use magscope_timeline::pair::State;

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame, cx: &mut UiContext) {
    let clock = frame.clock();
    ScrollArea::vertical().auto_shrink([false, false]).show(ui, |ui| {
        ui.horizontal_top(|ui| {
            for (n, node) in clock.nodes.iter().enumerate() {
                ui.vertical(|ui| {
                    ui.set_width(270.0);
                    heading(ui, &node.host.to_uppercase(), cx);
                    // not by name: names may repeat
                    facts(ui, &format!("node {n}"), &of_node(node), cx);
                });
            }
        });
        if clock.pairs.is_empty() {
            ui.label("one kernel, one clock: times from sender to receiver are exact");
        }
        for (n, pair) in clock.pairs.iter().enumerate() {
            ui.separator();
            ui.horizontal_top(|ui| {
                ui.vertical(|ui| {
                    ui.set_width(270.0);
                    heading(ui, &format!("{} AND {}", pair.hosts.0, pair.hosts.1).to_uppercase(), cx);
                    let name = format!("pair {n}");
                    facts(ui, &name, &of_pair(pair), cx);
                });
                bound(ui, pair, cx);
            });
        }
    });
}

fn facts(ui: &mut Ui, name: &str, facts: &[(&str, String)], cx: &UiContext) {
    Grid::new(name).num_columns(2).spacing([12.0, 2.0]).show(ui, |ui| {
        for (words, value) in facts {
            explained(ui.label(egui::RichText::new(*words).color(cx.c.dim)), words);
            ui.label(number(value.as_str(), cx.c.text));
            ui.end_row();
        }
    });
}

fn of_node(node: &ClockRow) -> Vec<(&'static str, String)> {
    let Some(last) = node.last else { return vec![("readings", "none yet".to_owned())] };
    let drift = node.drift_ppm.map_or_else(|| "not known yet".to_owned(), |ppm| format!("{ppm:+.3} ppm"));
    let utc = last
        .utc_error_ns
        .map_or_else(|| "nobody vouches for it".to_owned(), |ns| format!("±{}", short_duration(ns)));
    vec![
        ("counts time by", format!("{:?}", last.clocksource).to_lowercase()),
        ("readings", count(node.samples)),
        ("each is sure to", format!("±{}", short_duration(u64::from(last.width_ns).div_ceil(2)))),
        ("UTC against monotonic", drift),
        ("UTC is right to", utc),
        ("UTC was set", format!("{}×", last.realtime_steps)),
    ]
}

fn of_pair(pair: &ClockPair) -> Vec<(&'static str, String)> {
    let or_unknown = |value: Option<String>| value.unwrap_or_else(|| "not known".to_owned());
    let offset = pair.offset_ns.map(|ns| {
        let sign = if ns < 0 { '−' } else { '+' };
        format!("{sign}{}", short_duration(ns.unsigned_abs()))
    });
    let hints = pair.hints.iter().map(|hint| ("suspect", hint.clone()));
    let mut rows = vec![
        ("second less first", or_unknown(offset)),
        ("sure to", or_unknown(pair.half_width_ns.map(|ns| format!("±{}", short_duration(ns))))),
        ("rests on", pair.state.map_or_else(|| "one clock".to_owned(), |state: State| state.to_string())),
        ("drift", or_unknown(pair.drift_ppm.map(format::drift))),
        ("shortest round trip", or_unknown(pair.min_round_trip_ns.map(short_duration))),
        ("packets that bound it", count(pair.packets_used)),
    ];
    rows.extend(hints);
    let unseen = pair.smallest_visible_step_ns.filter(|_| !pair.hints.is_empty());
    rows.extend(unseen.map(|ns| ("not seen is a step", format!("below {}", short_duration(ns)))));
    rows
}

/// The bound over time.
fn bound(ui: &mut Ui, pair: &ClockPair, cx: &UiContext) {
    let size = egui::vec2(ui.available_width().max(160.0), 130.0);
    let (rect, response) = ui.allocate_exact_size(size, Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Image, true, "the bound of the clocks over time"));
    let from = pair.bound.iter().map(|(at, _)| *at).min().unwrap_or(0);
    let to = pair.bound.iter().map(|(at, _)| *at).max().unwrap_or(0);
    let halves = || pair.bound.iter().map(|(_, half)| *half as f64);
    let least = halves().fold(f64::MAX, f64::min).max(1.0);
    let most = halves().fold(1.0, f64::max);
    let log = most / least > 20.0;
    let y = if log { Axis::new(least * 0.8, most * 1.3, true) } else { Axis::new(0.0, most * 1.15, false) };
    let chart = Chart::new(rect, Axis::new(0.0, to.saturating_sub(from) as f64, false), y);
    let words = |ns: f64| short_duration(ns.max(0.0) as u64);
    chart.frame(ui.painter(), words, |ns| format!("±{}", words(ns)), cx);
    let points = pair.bound.iter().map(|(at, half)| (at.saturating_sub(from) as f64, *half as f64));
    chart.curve(ui.painter(), points, 1.8, cx.c.series[1]);
    if let Some(at) = response.hover_pos().filter(|at| chart.area.contains(*at)) {
        let nearest = pair.bound.iter().min_by(|a, b| {
            let off = |(ns, half): &(u64, u64)| {
                (chart.at(ns.saturating_sub(from) as f64, *half as f64).x - at.x).abs()
            };
            off(a).total_cmp(&off(b))
        });
        if let Some((ns, half)) = nearest {
            let words = format!("±{} at {}", short_duration(*half), short_duration(ns.saturating_sub(from)));
            response.on_hover_text_at_pointer(words);
        }
    }
}

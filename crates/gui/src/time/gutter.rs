//! Labels next to the lanes: host, hop, and measurements.

use super::bands;
use super::plot::Plot;
use crate::text::{self, NUMBERS, SMALL, WORDS};
use crate::ui_context::UiContext;
use egui::{Align2, Rect, Role, Sense, Ui, WidgetInfo, pos2};
use magscope_core::node::Service;
use magscope_scope::explain::explain;
use magscope_scope::format::{count, duration, rate, short_duration};
use magscope_scope::{Frame, HopState, Lane, Place, Probe};

/// Width of the names.
pub const NAMES: f32 = 112.0;
/// Minimum height for an upright name.
const UPRIGHT: f32 = 40.0;
/// Width of the numbers.
pub const FIGURES: f32 = 218.0;

/// Draws the names on the left of the plot.
pub fn names(ui: &mut Ui, plot: &Plot, left: f32, frame: &Frame, cx: &mut UiContext) {
    let painter = ui.painter().clone();
    let legible = plot.rows.legible(frame.lanes);
    for ((lane, rect), legible) in frame.lanes.iter().zip(plot.rows.rects()).zip(legible) {
        let place = Rect::from_min_max(pos2(left + 22.0, rect.top()), pos2(plot.area.left(), rect.bottom()));
        match lane.place {
            Place::Probe(id) => {
                if let Some(probe) = frame.probe(id) {
                    own(ui, place, probe, legible, cx);
                }
            }
            Place::Wire(number) => wire(ui, place, number, legible, frame, cx),
            Place::Forwarder(number) => bands::title(ui, place, lane, number, legible, frame, cx),
            Place::Inside(number, hop) => bands::hop(ui, place, (number, hop), legible, frame, cx),
            Place::Hop(hop) => {
                let response = ui.interact(place, ui.scope_id().with(("lane", hop.id())), Sense::click());
                let selected = frame.controls.lane == Some(lane.place);
                response.widget_info(|| WidgetInfo::selected(Role::ListItem, true, selected, hop.name()));
                if selected || response.hovered() {
                    let colour = if selected { cx.c.accent.gamma_multiply(0.22) } else { cx.c.grid };
                    painter.rect_filled(place.shrink(1.0), 3.0, colour);
                }
                let colour = match (selected, lane.is_served()) {
                    (true, _) => cx.c.accent,
                    (_, true) => cx.c.text,
                    (_, false) => cx.c.dim.gamma_multiply(0.7),
                };
                if legible || selected {
                    let at = pos2(place.right() - 8.0, place.center().y);
                    text::put(&painter, at, Align2::RIGHT_CENTER, hop.name(), WORDS, colour, place.width());
                }
                if let Some(action) = lane.place.click(frame.controls.lane).filter(|_| response.clicked()) {
                    cx.act(action);
                }
                response.on_hover_text_at_pointer(about(lane));
            }
        }
    }
    hosts(&painter, plot, left, frame, cx);
}

/// The name of a custom probe, in the colour of its hits.
fn own(ui: &Ui, place: Rect, probe: &Probe, legible: bool, cx: &UiContext) {
    let id = ui.scope_id().with(("probe", probe.id.index()));
    let response = ui.interact(place, id, Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::ListItem, true, &probe.name));
    if legible {
        let at = pos2(place.right() - 8.0, place.center().y);
        let colour = super::colour_of(probe.id, cx);
        text::put(ui.painter(), at, Align2::RIGHT_CENTER, &probe.name, WORDS, colour, place.width());
    }
    let unread: u64 = probe.unread.iter().sum();
    let words =
        format!("your own: {}\n{} hits, {} values not read", probe.place(), count(probe.hits), count(unread));
    response.on_hover_text_at_pointer(words);
}

/// Tool tip of a lane: its service and measurements.
fn about(lane: &Lane) -> String {
    let means = lane.hop().and_then(|hop| explain(hop.name()));
    let measured = measured(lane);
    means.map_or_else(|| measured.clone(), |means| format!("{means}\n{measured}"))
}

fn measured(lane: &Lane) -> String {
    let served = match &lane.state {
        &HopState::OFF => "off: it was not asked for".to_owned(),
        HopState::SwitchedOff => "off: it was switched off while the capture ran".to_owned(),
        HopState::SwitchedOn => "on: it was switched on while the capture ran".to_owned(),
        state @ HopState::AsStarted(_) => state.words(),
    };
    let latency = lane.stats.as_ref().and_then(|stats| stats.latency.as_ref());
    let summed = lane.stats.as_ref().is_some_and(|stats| stats.summed);
    let served = if summed { format!("{served}\nΣ added up by the kernel: no events came") } else { served };
    match latency {
        Some(l) => format!(
            "{served}\n{}from {}: p50 {}, p99 {}, max {}",
            l.proto.map_or_else(String::new, |proto| format!("{proto} ")),
            l.from.map_or("several hops", magscope_core::Hop::name),
            short_duration(l.p50_ns),
            short_duration(l.p99_ns),
            short_duration(l.max_ns)
        ),
        None => served,
    }
}

fn wire(ui: &Ui, place: Rect, number: u8, legible: bool, frame: &Frame, cx: &UiContext) {
    let words = match frame.wire.half_width_ns {
        Some(ns) if ns > 0 && frame.leg(number).is_between_clocks => format!("wire ±{}", short_duration(ns)),
        None if frame.leg(number).is_between_clocks => "wire: not joined".to_owned(),
        _ => "wire".to_owned(),
    };
    let response = ui.interact(place, ui.scope_id().with(("wire", number)), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::ListItem, true, &words));
    if legible {
        let at = pos2(place.right() - 8.0, place.center().y);
        text::put(ui.painter(), at, Align2::RIGHT_CENTER, &words, SMALL, cx.c.dim, place.width() - 4.0);
    }
    if let Some(leg) = bands::words(frame, Place::Wire(number)) {
        response.on_hover_text_at_pointer(leg);
    }
}

/// Hosts of the lanes: a bar and a vertical name.
fn hosts(painter: &egui::Painter, plot: &Plot, left: f32, frame: &Frame, cx: &UiContext) {
    let [upper, lower] = match plot.rows.wires() {
        [] => return,
        [only] => [*only; 2],
        [upper, .., lower] => [*upper, *lower],
    };
    let (sender, receiver) = (&frame.header.sender, &frame.header.receiver);
    let several = receiver != sender && !receiver.is_empty();
    let name = |what: &str, of: &str| if several { format!("{what}: {of}") } else { what.to_owned() };
    let sides = [
        (plot.area.top(), upper.min, name("receiver", receiver), cx.c.series[1]),
        (lower.max, plot.area.bottom(), name("sender", sender), cx.c.series[0]),
    ];
    let between = bands::extents(plot, frame).into_iter();
    let between = between.map(|(top, bottom, name)| (top, bottom, name.to_owned(), cx.c.series[2]));
    for (top, bottom, words, colour) in sides.into_iter().chain(between) {
        let bar = Rect::from_min_max(pos2(left + 19.0, top + 3.0), pos2(left + 21.5, bottom - 3.0));
        painter.rect_filled(bar, 1.0, colour.gamma_multiply(0.8));
        let middle = pos2(left + 9.0, f32::midpoint(top, bottom));
        if bottom - top >= UPRIGHT {
            text::upright(painter, middle, &words, SMALL, cx.c.dim, bottom - top - 8.0);
        }
    }
}

/// Draws the titles of the numbers at a height.
pub fn titles(ui: &Ui, left: f32, y: f32, frame: &Frame, cx: &UiContext) {
    for (end, words) in columns(left).into_iter().zip(["p50", "p99", frame.rate_title()]) {
        text::put_explained(ui, pos2(end, y), Align2::RIGHT_CENTER, words, SMALL, cx.c.dim, 60.0);
    }
}

fn columns(left: f32) -> [f32; 3] {
    [left + 84.0, left + 146.0, left + FIGURES - 8.0]
}

/// Draws the numbers on the right of the plot.
pub fn figures(painter: &egui::Painter, plot: &Plot, left: f32, frame: &Frame, cx: &UiContext) {
    let legible = plot.rows.legible(frame.lanes);
    for ((lane, rect), _) in
        frame.lanes.iter().zip(plot.rows.rects()).zip(legible).filter(|(_, legible)| *legible)
    {
        let y = rect.center().y;
        let (Place::Hop(_) | Place::Forwarder(_), Some(stats)) = (lane.place, &lane.stats) else {
            let words = match (&lane.state, lane.place) {
                (_, Place::Probe(_)) => {
                    let words =
                        lane.stats.as_ref().map_or_else(|| "·".to_owned(), |stats| rate(stats.events_per_s));
                    let at = pos2(columns(left)[2], y);
                    text::put(painter, at, Align2::RIGHT_CENTER, &words, NUMBERS, cx.c.text, 90.0);
                    continue;
                }
                (_, place @ (Place::Wire(_) | Place::Inside(..) | Place::Forwarder(_))) => {
                    let one_clock =
                        || frame.wire.state.map_or_else(|| "one clock".to_owned(), |s| s.to_string());
                    let otherwise = if lane.is_wire() { one_clock() } else { "·".to_owned() };
                    bands::words(frame, place).unwrap_or(otherwise)
                }
                (HopState::AsStarted(Service::Missing { .. }), _) => "missing".to_owned(),
                (state, _) if state.is_on() => "·".to_owned(),
                (state, _) => state.words(),
            };
            let faint = cx.c.dim.gamma_multiply(0.8);
            text::put(painter, pos2(left + 12.0, y), Align2::LEFT_CENTER, &words, SMALL, faint, FIGURES - 16.0);
            continue;
        };
        let colour = if frame.controls.lane == Some(lane.place) { cx.c.accent } else { cx.c.text };
        let latency = stats.latency.as_ref();
        let times = [latency.map(|l| l.p50_ns), latency.map(|l| l.p99_ns)].map(|ns| ns.map(duration));
        if let Some(proto) = latency.and_then(|l| l.proto) {
            let name = proto.to_string();
            text::put(painter, pos2(left + 8.0, y), Align2::LEFT_CENTER, &name, SMALL, cx.c.dim, 30.0);
        }
        let shown = times.into_iter().chain([Some(stats.shown(&rate(stats.events_per_s)))]);
        for (end, words) in columns(left).into_iter().zip(shown) {
            let (words, colour) = words.map_or_else(|| ("·".to_owned(), cx.c.dim), |words| (words, colour));
            text::put(painter, pos2(end, y), Align2::RIGHT_CENTER, &words, NUMBERS, colour, 90.0);
        }
    }
}

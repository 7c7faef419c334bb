//! Forwarders in the picture: their titles, their hops, and what they did to the highlighted journey.

use super::plot::Plot;
use crate::text::{self, SMALL, WORDS, explained};
use crate::ui_context::UiContext;
use egui::{Align2, Painter, Pos2, Rect, Role, Sense, Ui, WidgetInfo, pos2};
use magscope_core::Hop;
use magscope_scope::format::short_duration;
use magscope_scope::{Frame, Lane, Lifeline, Place};
use std::fmt::Write as _;

/// Space for the time in a forwarder behind its stroke, points.
const TIME: f32 = 76.0;

/// The title of a forwarder, which a click opens or folds.
pub fn title(ui: &Ui, place: Rect, lane: &Lane, number: u8, legible: bool, frame: &Frame, cx: &mut UiContext) {
    let Some(band) = frame.bands.get(usize::from(number).wrapping_sub(1)) else { return };
    let response = ui.interact(place, ui.scope_id().with(("forwarder", number)), Sense::click());
    response.widget_info(|| WidgetInfo::selected(Role::ListItem, true, band.is_open, &band.name));
    let selected = frame.controls.lane == Some(lane.place);
    if selected || response.hovered() {
        let colour = if selected { cx.c.accent.gamma_multiply(0.22) } else { cx.c.grid };
        ui.painter().rect_filled(place.shrink(1.0), 3.0, colour);
    }
    if legible || selected {
        let mark = if band.is_open { "−" } else { "+" };
        let at = pos2(place.right() - 8.0, place.center().y);
        let colour = if selected { cx.c.accent } else { cx.c.text };
        let words = format!("{mark} {}", band.name);
        text::put(ui.painter(), at, Align2::RIGHT_CENTER, &words, WORDS, colour, place.width());
    }
    if let Some(action) = lane.place.click(None).filter(|_| response.clicked()) {
        cx.act(action);
    }
    response.on_hover_text_at_pointer(about(frame, lane, number));
}

/// Tool tip of a forwarder.
fn about(frame: &Frame, lane: &Lane, number: u8) -> String {
    let mut words = format!("forwarder {number} on the path: {}", frame.name_of(lane.place));
    if let Some(l) = lane.stats.as_ref().and_then(|stats| stats.latency.as_ref()) {
        let [p50, p99, max] = [l.p50_ns, l.p99_ns, l.max_ns].map(short_duration);
        _ = write!(words, "\ntime in it: p50 {p50}, p99 {p99}, max {max}");
    }
    if let Some(forwarding) = frame.forwarding(number) {
        let time = forwarding.ns.map_or_else(|| "one event".to_owned(), short_duration);
        _ = write!(words, "\nthis journey: {time}");
        if !(forwarding.rx_interface.is_empty() && forwarding.tx_interface.is_empty()) {
            _ = write!(words, ", {} → {}", forwarding.rx_interface, forwarding.tx_interface);
        }
        if let Some(translation) = &forwarding.translation {
            _ = write!(words, "\n{translation}");
        }
    }
    words + "\na click shows or hides its hops"
}

/// The name of a forwarder's hop.
pub fn hop(ui: &Ui, place: Rect, (number, hop): (u8, Hop), legible: bool, frame: &Frame, cx: &UiContext) {
    let response = ui.interact(place, ui.scope_id().with(("inside", number, hop.id())), Sense::hover());
    let of = frame.name_of(Place::Forwarder(number));
    response.widget_info(|| WidgetInfo::labeled(Role::ListItem, true, format!("{of}: {hop}")));
    if legible {
        let at = pos2(place.right() - 8.0, place.center().y);
        text::put(ui.painter(), at, Align2::RIGHT_CENTER, hop.name(), SMALL, cx.c.dim, place.width());
    }
    explained(response, hop.name());
}

/// The words on the right of a row without numbers of its own.
pub fn words(frame: &Frame, place: Place) -> Option<String> {
    match place {
        Place::Wire(number) if !frame.bands.is_empty() => Some(frame.leg(number).words()),
        Place::Inside(number, hop) => {
            frame.forwarding(number).and_then(|forwarding| forwarding.step_words(hop))
        }
        _ => None,
    }
}

/// Top and bottom of each band, from its title to the wire below it, with its name.
pub fn extents<'f>(plot: &Plot, frame: &'f Frame) -> Vec<(f32, f32, &'f str)> {
    let band = |(band, number): (&'f magscope_scope::Band, u8)| {
        let mine = |lane: &Lane| matches!(lane.place, Place::Forwarder(n) | Place::Inside(n, _) if n == number);
        let rects =
            || frame.lanes.iter().zip(plot.rows.rects()).filter(|(lane, _)| mine(lane)).map(|(_, rect)| rect);
        Some((rects().next()?.top(), rects().next_back()?.bottom(), band.name.as_str()))
    };
    frame.bands.iter().zip(1..).filter_map(band).collect()
}

/// Writes what each forwarder did to the addresses of the highlighted journey on the wire that the packet left to.
pub fn translations(painter: &Painter, plot: &Plot, frame: &Frame, cx: &UiContext) {
    for (lane, rect) in frame.lanes.iter().zip(plot.rows.rects()) {
        let Place::Wire(number) = lane.place else { continue };
        if let Some(words) = frame.forwarding(number).and_then(|forwarding| forwarding.translation) {
            // On the right, where fewer lifelines of a picture around one journey cross the wire.
            let at = (pos2(rect.right() - 8.0, rect.center().y), Align2::RIGHT_CENTER);
            text::put_over(painter, at, &words, cx.c.text, cx.c.back, rect.width() - 16.0);
        }
    }
}

/// Writes the time of a lifeline in each folded forwarder behind its stroke, or before it at the right edge.
pub fn times(painter: &Painter, plot: &Plot, frame: &Frame, line: &Lifeline, cx: &UiContext) {
    let mut entry: Option<(Place, u64, Pos2)> = None;
    for stop in frame.path_stops(line) {
        let Some(y) = plot.rows.line(stop.place) else { continue };
        let here = pos2(plot.x(frame.sweep.x(line, stop.time_ns)), y);
        if let Some((_, from_ns, from)) = entry.filter(|(place, ..)| *place == stop.place) {
            let words = short_duration(stop.time_ns.saturating_sub(from_ns));
            let (at, anchor) = if here.x + TIME < plot.area.right() {
                (pos2(here.x + 7.0, y), Align2::LEFT_CENTER)
            } else {
                (pos2(from.x - 7.0, y), Align2::RIGHT_CENTER)
            };
            if plot.area.contains(at) {
                text::put(painter, at, anchor, &words, SMALL, cx.c.accent, TIME);
            }
        }
        entry = matches!(stop.place, Place::Forwarder(_)).then_some((stop.place, stop.time_ns, here));
    }
}

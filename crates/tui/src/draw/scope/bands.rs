//! The words in the rows of forwarders and of the wires between them.

use super::density::set;
use super::layout::Layout;
use crate::draw::canvas::{Canvas, width};
use magscope_scope::format::short_duration;
use magscope_scope::{Frame, Place};

/// The text in place of numbers: the leg over a wire, or the highlighted journey's step to a hop of a forwarder.
pub fn words(frame: &Frame, place: Place) -> Option<String> {
    match place {
        Place::Wire(number) if !frame.bands.is_empty() => Some(frame.leg(number).words()),
        Place::Inside(number, hop) => {
            let step = frame.forwarding(number).and_then(|forwarding| forwarding.step_words(hop));
            Some(step.unwrap_or_else(|| "·".to_owned()))
        }
        _ => None,
    }
}

/// Writes what each forwarder did to the addresses of the highlighted journey on the wire that the packet left to.
pub fn translations(canvas: &mut Canvas, layout: &Layout, frame: &Frame) {
    for row in &layout.rows {
        let Some(Place::Wire(number)) = frame.lanes.get(row.lane).map(|lane| lane.place) else { continue };
        if let Some(words) = frame.forwarding(number).and_then(|forwarding| forwarding.translation) {
            // On the right, where fewer lifelines of a picture around one journey cross the wire.
            let words = format!(" {words} ");
            let room = layout.picture.width.saturating_sub(1);
            let x = room.saturating_sub(width(&words));
            let y = row.top + layout.middle();
            canvas.put_cut(layout.picture, x, y, room - x, &words, canvas.theme.plain);
        }
    }
}

/// Writes a lifeline's time in a forwarder behind the end of its stroke, or before it where there is no room behind.
pub fn time_inside(canvas: &mut Canvas, layout: &Layout, y: u16, (first, last): (u16, u16), ns: u64) {
    let words = format!(" {} ", short_duration(ns));
    let behind = last.saturating_add(1);
    let columns = width(&words);
    let x = if behind.saturating_add(columns) <= layout.picture.width {
        behind
    } else if let Some(before) = first.checked_sub(columns) {
        before
    } else {
        return;
    };
    for (at, symbol) in (x..).zip(words.chars()) {
        set(canvas, layout.picture, at, y, symbol, canvas.theme.accent);
    }
}

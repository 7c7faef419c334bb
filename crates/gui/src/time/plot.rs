//! Mapping of instants and lanes to the window.

use super::rows::Rows;
use egui::{Pos2, Rect, pos2};
use magscope_core::Hop;
use magscope_scope::{Frame, Lifeline, Place};

/// Mapping of instants and lanes to the window.
pub struct Plot<'p> {
    /// Area of the lanes, without names and axis.
    pub area: Rect,
    /// The lanes.
    pub rows: &'p Rows,
}

impl Plot<'_> {
    /// A part of the time axis (0 the left edge, 1 the right one) on the window.
    pub fn x(&self, part: f64) -> f32 {
        (f64::from(self.area.left()) + part * f64::from(self.area.width())) as f32
    }

    /// The part of the time axis at a place of the window.
    pub fn part(&self, x: f32) -> f64 {
        f64::from(x - self.area.left()) / f64::from(self.area.width().max(1.0))
    }

    /// The instant at a place of the window.
    pub fn instant(&self, frame: &Frame, x: f32) -> u64 {
        let since = self.part(x) * frame.sweep.timebase.span_ns() as f64;
        frame.sweep.origin_ns.saturating_add_signed(since as i64)
    }

    /// Positions of a journey's events in path order, including custom probes, each with true on the sender's clock. The
    /// driver's return is not on the path and is left out.
    pub fn path<'a>(&'a self, frame: &'a Frame, line: &'a Lifeline) -> impl Iterator<Item = (bool, Pos2)> + 'a {
        // The common case without custom probes needs no list.
        let stops = (!frame.probes().is_empty()).then(|| frame.stops(line));
        let events = if stops.is_none() { usize::MAX } else { 0 };
        let stops = frame.path_stops(line).take(events).chain(stops.into_iter().flatten());
        stops.filter(|stop| stop.place != Place::Hop(Hop::DevDone)).filter_map(move |stop| {
            let at = pos2(self.x(frame.sweep.x(line, stop.time_ns)), self.rows.line(stop.place)?);
            Some((stop.on_sender_clock, at))
        })
    }
}

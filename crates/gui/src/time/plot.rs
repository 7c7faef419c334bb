//! Mapping of instants and lanes to the window.

use super::rows::Rows;
use egui::{Pos2, Rect, pos2};
use magscope_core::{Direction, Hop};
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

    /// Positions of a journey's events in path order, including custom probes, with directions. The driver's
    /// return is not on the path and is left out.
    pub fn path<'a>(
        &'a self,
        frame: &'a Frame,
        line: &'a Lifeline,
    ) -> impl Iterator<Item = (Direction, Pos2)> + 'a {
        // The common case without custom probes needs no list.
        let stops = (!frame.probes().is_empty()).then(|| frame.stops(line));
        let marks = if stops.is_none() { usize::MAX } else { 0 };
        let marks = line.marks().take(marks).map(|mark| (Place::Hop(mark.hop), mark.time_ns));
        let stops = stops.into_iter().flatten().map(|stop| (stop.place, stop.time_ns));
        marks.chain(stops).filter(|(place, _)| *place != Place::Hop(Hop::DevDone)).filter_map(
            move |(place, time_ns)| {
                let direction = match place {
                    Place::Hop(hop) => hop.direction(),
                    Place::Probe(id) => frame.probe(id)?.direction()?,
                    Place::Wire => return None,
                };
                Some((direction, pos2(self.x(frame.sweep.x(line, time_ns)), self.rows.line(place)?)))
            },
        )
    }
}

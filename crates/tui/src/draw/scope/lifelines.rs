//! The picture: journeys as lines through the lanes, time to the right.
//!
//! Every journey is a thin line; the selected one has the accent colour and marks at its events. A line reaches
//! a lane at the time of the event, so flat segments show the delays.

use super::bands;
use super::density;
use super::layout::Layout;
use super::raster::Raster;
use crate::draw::canvas::Canvas;
use magscope_core::Hop;
use magscope_core::hop::PATH_HOPS;
use magscope_scope::look::Stop;
use magscope_scope::{Align, DIVISIONS, Detail, Frame, Lifeline, Place};
use ratatui::layout::Rect;

/// Number of lines per cell from which the line is drawn at full weight.
const DENSE: u8 = 4;

/// Dot row of each place; `None` without a lane.
struct DotRows {
    hops: [Option<f64>; PATH_HOPS],
    /// Those of custom probes and forwarders.
    others: Vec<(Place, f64)>,
}

impl DotRows {
    fn of(&self, place: Place) -> Option<f64> {
        match place {
            Place::Hop(hop) => self.hops.get(hop.rank()?).copied().flatten(),
            _ => self.others.iter().find(|(other, _)| *other == place).map(|(_, y)| *y),
        }
    }
}

/// Maximum number of lifelines per column; more would be unreadable.
const A_COLUMN: usize = 2;
/// Number of slowest lifelines over a density.
const SLOWEST: usize = 12;

/// Draws the picture.
pub fn draw(canvas: &mut Canvas, layout: &Layout, frame: &Frame) {
    if layout.picture.is_empty() {
        return;
    }
    graticule(canvas, layout, frame);
    let lines = &frame.sweep.lifelines;
    let crowded = lines.len() > A_COLUMN * usize::from(layout.picture.width);
    let dense = frame.controls.align == Align::Time && (frame.detail != Detail::Lifelines || crowded);
    let rows = dot_rows(layout, frame);
    let is_anchor = |line: &&Lifeline| Some(line.key()) == frame.sweep.anchor;
    let mut others: Vec<&Lifeline> = lines.iter().filter(|line| !is_anchor(line)).collect();
    if dense {
        density::draw(canvas, layout, frame);
        others.sort_by_key(|line| std::cmp::Reverse(line.total_ns()));
        others.truncate(SLOWEST);
    }
    crowd(canvas, layout.picture, frame, &rows, others.iter().copied());
    bands::translations(canvas, layout, frame);
    super::hits::draw(canvas, layout, frame);
    let anchor = lines.iter().find(is_anchor);
    if let Some(anchor) = anchor {
        single(canvas, layout, frame, &rows, anchor);
    }
    for line in others.into_iter().chain(anchor).filter(|line| line.is_bad()) {
        cross(canvas, layout.picture, frame, &rows, line);
    }
}

fn dot_rows(layout: &Layout, frame: &Frame) -> DotRows {
    let mut rows = DotRows { hops: [None; PATH_HOPS], others: Vec::new() };
    for row in &layout.rows {
        let Some(lane) = frame.lanes.get(row.lane) else { continue };
        // Middle of the row with its name.
        let y = f64::from(row.top + layout.middle()) * 4.0 + 1.5;
        match lane.hop().and_then(|hop| rows.hops.get_mut(hop.rank()?)) {
            Some(place) => *place = Some(y),
            None => rows.others.push((lane.place, y)),
        }
    }
    rows
}

/// Column of division `n` of the picture.
pub fn division(area: Rect, n: u64) -> u16 {
    (u64::from(area.width) * n / DIVISIONS) as u16
}

/// Dots where lanes and divisions cross, and the wire.
fn graticule(canvas: &mut Canvas, layout: &Layout, frame: &Frame) {
    let theme = canvas.theme;
    let area = layout.picture;
    for row in &layout.rows {
        let lane = &frame.lanes[row.lane];
        let y = row.top + layout.middle();
        if let Place::Wire(number) = lane.place {
            // The thickness of the wire shows the clock bound.
            let certain = frame.wire.half_width_ns == Some(0) || !frame.leg(number).is_between_clocks;
            canvas.rule(area, y, if certain { "╌" } else { "░" }, theme.grid);
        } else if lane.is_served() {
            for n in 0..DIVISIONS {
                canvas.put(area, division(area, n), y, "·", theme.grid);
            }
        }
    }
}

/// Positions of a journey's events that have a lane, as dots.
fn points<'a>(
    area: Rect,
    frame: &'a Frame,
    rows: &'a DotRows,
    line: &'a Lifeline,
) -> impl Iterator<Item = (f64, f64, Stop)> {
    let across = f64::from(area.width) * 2.0;
    frame.stops(line).into_iter().filter_map(move |stop| {
        let y = rows.of(stop.place)?;
        Some((frame.sweep.x(line, stop.time_ns) * across, y, stop))
    })
}

fn trace(raster: &mut Raster, area: Rect, frame: &Frame, rows: &DotRows, line: &Lifeline, number: u16) {
    let mut before: Option<(f64, f64)> = None;
    let mut clock = None;
    for (x, y, stop) in points(area, frame, rows, line) {
        if stop.place == Place::Hop(Hop::DevDone) {
            continue; // not on the path: the packet continues before the driver's call returns
        }
        if clock.replace(stop.on_sender_clock) == Some(true) && !stop.on_sender_clock && line.is_apart() {
            before = None; // no clock relation for this segment
        }
        raster.line(before.unwrap_or((x, y)), (x, y), number);
        before = Some((x, y));
    }
}

fn crowd<'a>(
    canvas: &mut Canvas,
    area: Rect,
    frame: &Frame,
    rows: &DotRows,
    lines: impl Iterator<Item = &'a Lifeline>,
) {
    let theme = canvas.theme;
    let mut raster = Raster::new(area.width, area.height);
    for (number, line) in lines.enumerate() {
        trace(&mut raster, area, frame, rows, line, number as u16);
    }
    for (x, y, dots) in raster.cells() {
        let style = if dots.lines >= DENSE { theme.plain } else { theme.dim };
        density::set(canvas, area, x, y, dots.symbol(), style);
    }
}

fn single(canvas: &mut Canvas, layout: &Layout, frame: &Frame, rows: &DotRows, line: &Lifeline) {
    let (theme, area) = (canvas.theme, layout.picture);
    let mut raster = Raster::new(area.width, area.height);
    trace(&mut raster, area, frame, rows, line, 0);
    for (x, y, dots) in raster.cells() {
        density::set(canvas, area, x, y, dots.symbol(), theme.accent);
    }
    // The start of a stroke in a forwarder.
    let mut entry: Option<(u16, Stop)> = None;
    for (x, y, stop) in points(area, frame, rows, line) {
        let Some((x, y)) = cell(area, x, y) else { continue };
        density::set(canvas, area, x, y, '●', theme.accent);
        let first = entry.filter(|(_, first)| first.place == stop.place);
        if let Some((from, first)) = first {
            let ns = stop.time_ns.saturating_sub(first.time_ns);
            bands::time_inside(canvas, layout, y, (from, x), ns);
        }
        entry = matches!(stop.place, Place::Forwarder(_)).then_some((x, stop));
    }
}

/// A red cross at the end of a failed journey.
fn cross(canvas: &mut Canvas, area: Rect, frame: &Frame, rows: &DotRows, line: &Lifeline) {
    let theme = canvas.theme;
    if let Some((x, y, _)) = points(area, frame, rows, line).last()
        && let Some((x, y)) = cell(area, x, y)
    {
        density::set(canvas, area, x, y, '✕', theme.bad);
    }
}

/// The cell of a dot, if it is on the picture.
fn cell(area: Rect, x: f64, y: f64) -> Option<(u16, u16)> {
    let (column, row) = (x / 2.0, y / 4.0);
    let inside = column >= 0.0 && column < f64::from(area.width) && row >= 0.0 && row < f64::from(area.height);
    inside.then_some((column as u16, row as u16))
}

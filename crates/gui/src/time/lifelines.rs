//! Lifelines: every journey is a line through the lanes, time to the right; all in one mesh.

use super::ink::Ink;
use super::plot::Plot;
use crate::chosen::Tint;
use crate::colours::Colours;
use egui::{Color32, Mesh, Pos2, pos2};
use magscope_scope::{Frame, Lifeline, Place};

/// Maximum number of antialiased lines; above it the difference is invisible.
const SOFT: usize = 600;
/// Maximum number of lines with a point at every event.
const POINTS: usize = 120;
/// Events closer than this, points, share a vertex.
const CORNER: f32 = 0.4;

/// Colours of lines.
pub struct Inks<'c> {
    c: &'c Colours,
    tint: Tint,
    /// Logarithms of the lowest and the highest latency.
    pace: (f32, f32),
}

impl<'c> Inks<'c> {
    /// Colours for these lines.
    pub fn new(c: &'c Colours, tint: Tint, lines: &[Lifeline]) -> Self {
        let logs = || lines.iter().map(|line| (line.total_ns().max(1) as f32).ln());
        let pace = (logs().fold(f32::MAX, f32::min), logs().fold(f32::MIN, f32::max));
        Inks { c, tint, pace }
    }

    /// The colour of a line.
    pub fn of(&self, line: &Lifeline) -> Color32 {
        if line.is_bad() {
            return self.c.bad;
        }
        let journey = &line.journey;
        match self.tint {
            Tint::Latency => {
                let (least, most) = self.pace;
                let log = (line.total_ns().max(1) as f32).ln();
                // Only the upper half of the scale is coloured: most journeys are alike.
                let part = (log - least) / (most - least).max(0.7);
                self.c.line.lerp_to_gamma(self.c.slow, ((part - 0.35) / 0.65).clamp(0.0, 1.0))
            }
            Tint::Flow => {
                let flow = if journey.tx_flow.is_none() { journey.rx_flow } else { journey.tx_flow };
                self.c.named(flow.0)
            }
            Tint::Process => {
                let who = journey.sender.or(journey.reader);
                who.map_or(self.c.dim, |who| self.c.named(u64::from(who.tgid)))
            }
            Tint::Node => {
                let netns_key = line.from.or(line.to);
                netns_key.map_or(self.c.dim, |s| self.c.named(u64::from(s.node) << 32 | u64::from(s.netns)))
            }
            Tint::Cpu => line.cpu().map_or(self.c.dim, |cpu| self.c.named(u64::from(cpu))),
            Tint::Verdict if journey.verdict.is_whole() => self.c.line,
            Tint::Verdict => self.c.named(journey.verdict.kind() as u64),
        }
    }
}

/// The mesh of all lifelines except the highlighted one.
pub fn crowd<'a>(
    plot: &Plot,
    frame: &Frame,
    inks: &Inks,
    lines: impl ExactSizeIterator<Item = &'a Lifeline>,
) -> Mesh {
    let many = lines.len();
    let mut ink = Ink::new(plot.area, many <= SOFT);
    let strength = (1.0 - (many as f32 / 5_000.0).sqrt() * 0.55).clamp(0.4, 0.9);
    for line in lines {
        let colour = inks.of(line);
        let faint = if line.is_bad() { colour } else { colour.gamma_multiply(strength) };
        trace(&mut ink, plot, frame, line, 1.0, faint);
        if many <= POINTS {
            let size = egui::vec2(3.0, 3.0);
            for (_, at) in plot.path(frame, line).filter(|(_, at)| plot.area.contains(*at)) {
                ink.block(egui::Rect::from_center_size(at, size), colour);
            }
        }
        if line.is_bad() {
            cross(&mut ink, plot, frame, line, inks.c);
        }
    }
    ink.mesh()
}

/// The mesh of the highlighted lifeline, with a mark for each event.
pub fn single(plot: &Plot, frame: &Frame, line: &Lifeline, colour: Color32, c: &Colours) -> Mesh {
    let mut ink = Ink::new(plot.area, true);
    trace(&mut ink, plot, frame, line, 4.5, c.back.gamma_multiply(0.85));
    trace(&mut ink, plot, frame, line, 2.0, colour);
    for (_, at) in plot.path(frame, line) {
        ink.diamond(at, 4.0, colour);
    }
    if line.is_bad() {
        cross(&mut ink, plot, frame, line, c);
    }
    ink.mesh()
}

/// A red cross at the end of a failed journey.
fn cross(ink: &mut Ink, plot: &Plot, frame: &Frame, line: &Lifeline, c: &Colours) {
    if let Some((_, at)) = plot.path(frame, line).last() {
        ink.cross(at, 5.0, 2.0, c.bad);
    }
}

fn trace(ink: &mut Ink, plot: &Plot, frame: &Frame, line: &Lifeline, width: f32, colour: Color32) {
    let mut path = plot.path(frame, line);
    let Some((mut was_senders, mut from)) = path.next() else { return };
    // Events at one pixel form a single vertical stroke.
    let mut stroke: Option<Pos2> = None;
    for (is_senders, to) in path {
        let crosses = was_senders && !is_senders;
        let upright = (to.x - from.x).abs() < CORNER && !crosses;
        let start = stroke.take().unwrap_or(from);
        if upright && (to.x - start.x).abs() < CORNER {
            stroke = Some(start);
        } else {
            if start != from {
                ink.line(start, from, width, colour);
            }
            if !crosses || !line.is_apart() {
                step(ink, plot, frame, (from, to), crosses, width, colour);
            }
        }
        (was_senders, from) = (is_senders, to);
    }
    if let Some(start) = stroke {
        ink.line(start, from, width, colour);
    }
}

/// A segment between two hops. From the sender's clock to the receiver's its width shows the clock bound; without a bound there is none.
fn step(
    ink: &mut Ink,
    plot: &Plot,
    frame: &Frame,
    (from, to): (Pos2, Pos2),
    crosses: bool,
    width: f32,
    colour: Color32,
) {
    if !crosses {
        return ink.line(from, to, width, colour);
    }
    let Some(half_width_ns) = frame.wire.half_width_ns else { return };
    let Some(wire) = plot.rows.wire_between(from.y, to.y) else { return ink.line(from, to, width, colour) };
    let half = (half_width_ns as f64 / frame.sweep.timebase.span_ns() as f64) as f32 * plot.area.width();
    if half >= 1.0 {
        // Any arrival on the upper edge of the wedge is possible.
        let (foot, top) = (pos2(from.x, wire.max), pos2(to.x, wire.min));
        let (left, right) = (pos2(top.x - half, top.y), pos2(top.x + half, top.y));
        ink.triangle([foot, left, right], colour.gamma_multiply(0.22));
        ink.line(from, foot, width, colour);
        ink.line(foot, top, width, colour.gamma_multiply(0.75));
        ink.line(left, right, width.max(1.5), colour);
        ink.line(top, to, width, colour);
    } else {
        ink.line(from, to, width, colour);
    }
}

/// The lifeline nearest to a position, within `within` points.
pub fn nearest<'a>(plot: &Plot, frame: &'a Frame, at: Pos2, within: f32) -> Option<&'a Lifeline> {
    let mut best: Option<(f32, &Lifeline)> = None;
    for line in &frame.sweep.lifelines {
        let mut before: Option<Pos2> = None;
        for (_, here) in plot.path(frame, line) {
            let from = before.replace(here).unwrap_or(here);
            if (from.x - within > at.x && here.x - within > at.x)
                || (from.x + within < at.x && here.x + within < at.x)
            {
                continue;
            }
            let off = distance(at, from, here);
            if off <= within && best.is_none_or(|(least, _)| off < least) {
                best = Some((off, line));
            }
        }
    }
    best.map(|(_, line)| line)
}

fn distance(at: Pos2, from: Pos2, to: Pos2) -> f32 {
    let (along, since) = (to - from, at - from);
    let part = (since.dot(along) / along.length_sq().max(1e-6)).clamp(0.0, 1.0);
    (since - along * part).length()
}

/// The lane at a height.
pub fn lane_at(plot: &Plot, frame: &Frame, y: f32) -> Option<Place> {
    Some(frame.lanes.get(plot.rows.at(y)?)?.place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::rows::Rows;
    use egui::{Rect, vec2};
    use magscope_core::journey::{Across, Correlator, Limits};
    use magscope_core::source::Source;
    use magscope_core::{Batch, Generator, GeneratorOptions};
    use magscope_scope::look::ClockPair;
    use magscope_scope::{Action, Options, Scope};
    use std::time::Duration;

    /// A picture of two hosts with a known first clock pair; all journeys have this certainty across the wire.
    fn scope(across: Across) -> Scope {
        let mut world = Generator::new(GeneratorOptions {
            events: 3_000,
            batch_events: 3_000,
            ..GeneratorOptions::default()
        });
        let info = world.info().clone();
        let mut scope = Scope::of_several(vec![info.clone(), info.clone()], Options::default());
        scope.set_clock_pairs(vec![ClockPair { half_width_ns: Some(9_000), ..ClockPair::default() }]);
        let (mut correlator, mut batch, mut done) =
            (Correlator::of_node(&info, Limits::default()), Batch::default(), Vec::new());
        world.next(&mut batch, Duration::ZERO).expect("it is made");
        scope.ingest_batch(0, &batch);
        correlator.push(&batch, &mut done);
        for journey in done {
            scope.ingest_journey(magscope_core::Journey { across, ..journey });
        }
        scope.apply(Action::Fit);
        scope
    }

    #[test]
    fn no_line_leads_across_a_wire_of_which_nothing_is_known() {
        let area = Rect::from_min_size(Pos2::ZERO, vec2(1_000.0, 900.0));
        let crossing = |across| {
            let scope = scope(across);
            let frame = scope.frame();
            let rows = Rows::new(area, frame.lanes);
            let plot = Plot { area, rows: &rows };
            let middle = rows.wires().first().expect("a wire").center();
            let inks = Inks::new(Colours::of(egui::Theme::Dark), Tint::Latency, &frame.sweep.lifelines);
            let mesh = crowd(&plot, &frame, &inks, frame.sweep.lifelines.iter());
            assert!(!mesh.is_empty());
            let heights =
                |corners: &[u32]| corners.iter().map(|at| mesh.vertices[*at as usize].pos.y - middle).collect();
            let is_over = |ys: &Vec<f32>| ys.iter().any(|y| *y < 0.0) && ys.iter().any(|y| *y > 0.0);
            mesh.indices.chunks(3).map(heights).filter(is_over).count()
        };
        assert!(crossing(Across::within(9_000)) > 0);
        assert!(crossing(Across::OneClock) > 0);
        assert_eq!(crossing(Across::Apart), 0);
    }
}

//! Column pictures.

use super::Scope;
use super::sums::Summed;
use crate::channel::{Channel, Unit, Vertical};
use crate::controls::Align;
use crate::frame::Detail;
use crate::journal::Mark;
use crate::lane::{Lane as Row, Place};
use crate::lifeline::Lifeline;
use crate::look::{
    Cell, Column, Density, LaneRow, Loadline, MOST_POINTS, MathTrace, Minimap, MinimapColumn, PersistenceMap,
    PersistenceRow, Point, XyPoint, XyTrace,
};
use crate::math::Math;
use crate::measure::{Origins, rate as rate_of};
use crate::pick::Pick;
use crate::pyramid::{Lane, Part, Tile};
use crate::scan::Scan;
use crate::signals::{Series, columns, compute, paired};
use crate::sums::{columns_of, part_of};
use magscope_core::context::Context;
use magscope_core::hop::PATH_HOPS;
use magscope_core::{FlowId, Proto};
use std::collections::HashSet;

/// Maximum number of columns of a picture: no front end is wider.
pub(super) const MOST_COLUMNS: usize = 8192;

/// Columns of the search for the slowest.
const EXEMPLARS: usize = 64;

impl Scope {
    /// The stretch of the picture. With lifelines aligned at their start, the stretch that they are from.
    pub(super) fn stretch(&self) -> (u64, u64) {
        (self.horizon.begin_ns(), self.horizon.end_ns().max(self.horizon.begin_ns() + 1))
    }

    pub(crate) fn density(&self, columns: usize) -> Density {
        let (columns, stretch) = (columns.clamp(1, MOST_COLUMNS), self.stretch());
        let mut density = Density { from_ns: stretch.0, to_ns: stretch.1, max_count: 1, ..Density::default() };
        let scan = self.scan_of(stretch);
        for lane in &self.lanes {
            let mut cells = vec![Cell::default(); columns];
            if let Place::Forwarder(number) = lane.place {
                cells = self.forwarded_cells(number, stretch, columns);
            } else if let (Some(hop), Some(scan)) = (lane.hop(), scan) {
                cells = scan.cells(hop, stretch, columns);
            } else if let Some(hop) = lane.hop() {
                // The first hop of the path has none below it: its events are used instead.
                let below = self.counts.below.protocols().zip(self.counts.below.values());
                let lanes_of = |(proto, hops): (Proto, &[Origins; PATH_HOPS])| {
                    let origins = hop.rank().and_then(|index| hops.get(index)).copied().unwrap_or_default();
                    origins.lanes().map(move |(lane, _)| Lane::Latency(proto, hop, lane))
                };
                let mut lanes: Vec<Lane> = below.flat_map(lanes_of).collect();
                let latency = !lanes.is_empty();
                if !latency {
                    lanes.push(Lane::Payload(hop));
                }
                for from in lanes {
                    let tile_ns = self.counts.pyramid.columns(from, stretch, columns, |first, last, tile| {
                        for cell in cells.iter_mut().take(last + 1).skip(first) {
                            let (min_ns, max_ns) = if latency { (tile.min, tile.max) } else { (0, 0) };
                            let none = cell.count == 0;
                            *cell = Cell {
                                count: cell.count + tile.count,
                                min_ns: if none { min_ns } else { cell.min_ns.min(min_ns) },
                                max_ns: cell.max_ns.max(max_ns),
                            };
                        }
                    });
                    density.tile_ns = density.tile_ns.max(tile_ns);
                }
            }
            if let Some(hop) = lane.hop() {
                self.add_hits(hop, stretch, &mut cells);
            }
            let most = cells.iter().map(|cell| cell.count).max().unwrap_or(0);
            density.max_count = density.max_count.max(most);
            density.lanes.push(LaneRow { place: lane.place, cells });
        }
        let mut slowest = self.counts.pyramid.slowest(stretch.0, stretch.1, columns.min(EXEMPLARS));
        for exemplar in &mut slowest {
            exemplar.x = self.horizon.x(exemplar.start_ns);
        }
        density.exemplars = slowest;
        density
    }

    /// The scan of a complete stretch, if one exists.
    fn scan_of(&self, stretch: (u64, u64)) -> Option<&Scan> {
        let recorded = self.recorded.as_ref()?;
        let filled = recorded.filled.as_ref()?;
        let seen = (stretch.0.max(recorded.all.from_ns), stretch.1.min(recorded.all.to_ns));
        filled.scan.as_ref().filter(|_| filled.window.holds(seen.0, seen.1))
    }

    pub(crate) fn points(&self) -> Vec<Point> {
        if self.controls.align == Align::Start {
            return Vec::new();
        }
        let (from_ns, to_ns) = self.stretch();
        let x = |at_ns| self.horizon.x(at_ns);
        let chosen = self.chosen_flows();
        let is_chosen =
            |mark: &&Mark| chosen.as_ref().zip(mark.flow).is_none_or(|(chosen, flow)| chosen.contains(&flow));
        let marks = self.journal.marks(from_ns, to_ns).filter(is_chosen);
        let point = |m: &Mark| Point { time_ns: m.time_ns, kind: m.kind, hop: m.hop, x: x(m.time_ns) };
        let mut points: Vec<Point> = marks.map(point).collect();
        if points.len() > MOST_POINTS {
            // The first of each kind in each part of a column: none is missing from the picture.
            let mut drawn = HashSet::new();
            points.retain(|point| {
                let part = (point.x.clamp(0.0, 1.0) * MOST_POINTS as f64) as u32;
                drawn.insert((part, std::mem::discriminant(&point.kind), point.hop))
            });
        }
        points
    }

    /// The flows of the journeys that a filter or a pick chose, where each of them is a line: points of others would
    /// seem to be theirs. `None` without a choice, and where the lines are too many.
    fn chosen_flows(&self) -> Option<HashSet<(u16, FlowId)>> {
        let is_each_a_line = self.controls.chooses_journeys() && self.detail() == Detail::Lifelines;
        let flows = |line: &Lifeline| {
            let journey = &line.journey;
            let of_forwarders = journey.forwarders.iter().flat_map(|at| [at.tx_flow, at.rx_flow]);
            let flows = [journey.tx_flow, journey.rx_flow, journey.drop_flow].into_iter().chain(of_forwarders);
            let nodes = [journey.tx_node, journey.rx_node];
            flows
                .filter(|flow| !flow.is_none())
                .flat_map(move |flow| nodes.map(|node| (node, flow)))
                .collect::<Vec<_>>()
        };
        is_each_a_line.then(|| self.sweep.lifelines.iter().flat_map(flows).collect())
    }

    pub(crate) fn minimap(&self, columns: usize) -> Minimap {
        let columns = columns.clamp(1, MOST_COLUMNS);
        let (from_ns, to_ns) = self.extent();
        let stretch = (from_ns, to_ns.max(from_ns).saturating_add(1));
        let mut out = vec![MinimapColumn::default(); columns];
        let mut each = |lane, add: &dyn Fn(&mut MinimapColumn, &Tile)| {
            self.counts.pyramid.columns(lane, stretch, columns, |first, last, tile| {
                out.iter_mut().take(last + 1).skip(first).for_each(|column| add(column, tile));
            });
        };
        each(Lane::Journeys, &|column, tile| {
            column.journeys += tile.count;
            column.max_ns = column.max_ns.max(tile.max);
        });
        each(Lane::Drops, &|column, tile| column.drops += tile.count);
        each(Lane::Lost, &|column, tile| column.missed = column.missed.saturating_add(tile.sum));
        for slice in self.sums.slices(stretch, columns).filter(|slice| slice.is_alone()) {
            let hits = slice.hops.values().fold(0_u64, |sum, hop| sum.saturating_add(hop.hits));
            columns_of((slice.from_ns, slice.to_ns), stretch, columns, |column, part| {
                if let Some(column) = out.get_mut(column) {
                    column.summed = column.summed.saturating_add(part_of(hits, part));
                    column.drops = column.drops.saturating_add(part_of(slice.drops, part));
                }
            });
        }
        let part = |at_ns: u64| {
            let since = i128::from(at_ns) - i128::from(from_ns);
            (since as f64 / (stretch.1 - from_ns) as f64).clamp(0.0, 1.0)
        };
        if let Some(recorded) = &self.recorded {
            let read = (part(recorded.read_ns) * columns as f64).ceil() as usize;
            let unread = recorded.read_ns < recorded.all.to_ns;
            out.iter_mut().skip(read).for_each(|column| column.unread = unread);
        }
        let (left, right) = self.stretch();
        Minimap { from_ns, to_ns, columns: out, view: (part(left), part(right)) }
    }

    /// The connection of the TCP signals, from its sender's side: the picked one, else the followed one.
    fn subject(&self) -> Option<FlowId> {
        let picked = self.controls.picks.iter().find_map(|pick| match pick {
            Pick::Flow(flow) => Some(*flow),
            _ => None,
        });
        picked.or_else(|| self.signals.followed())
    }

    /// A signal over the picture, with the resolution of the columns.
    pub(super) fn series(&self, channel: Channel, n: usize) -> Series {
        let (from_ns, to_ns) = self.stretch();
        if channel.is_of_connection() {
            let Some(flow) = self.subject() else { return Series::new() };
            return self.signals.series(channel, flow, from_ns, to_ns);
        }
        if channel == Channel::HostCpu {
            return self.host_cpu.iter().filter(|(at, _)| *at <= to_ns).copied().collect();
        }
        if let Channel::OwnCpu | Channel::RingFill = channel {
            let value = |(at_ns, cost): &(u64, crate::Overhead)| {
                let cpu = channel == Channel::OwnCpu;
                (*at_ns, if cpu { cost.reader_cpu_ratio } else { cost.ring_fill_ratio })
            };
            return self.own.iter().filter(|(at, _)| *at <= to_ns).map(value).collect();
        }
        if let Channel::Value(_) = channel {
            return self.probes.value(channel).map_or_else(Series::new, |value| self.value_series(value, n));
        }
        let (lane, sum) = match channel {
            Channel::Throughput(layer) => (self.lane_of(layer), true),
            Channel::Journeys => (Some(Lane::Ended), false),
            Channel::Losses => (Some(Lane::Lost), true),
            _ => (Some(Lane::Events), false),
        };
        let layer = if let Channel::Throughput(layer) = channel { Some(layer) } else { None };
        // The kernel's sums have no journeys; their payload counts are used. Without events they are the only
        // source.
        let summed = if matches!(channel, Channel::Throughput(_) | Channel::Journeys) {
            self.summed_rates(layer, (from_ns, to_ns), n)
        } else {
            Vec::new()
        };
        let Some(lane) = lane.or(Some(Lane::Events).filter(|_| !summed.is_empty())) else {
            return Series::new();
        };
        let counted = self.counts.pyramid.total(lane, from_ns, to_ns).count;
        if layer.is_some() && summed.is_empty() && rate_of(0.0, counted, to_ns - from_ns).is_none() {
            return Series::new(); // the picture is too narrow for a rate
        }
        let mut amounts = vec![Tile::default(); n];
        let width_ns = ((to_ns - from_ns) / n.max(1) as u64).max(1);
        let tile_ns = self.counts.pyramid.columns(lane, (from_ns, to_ns), n, |first, last, tile| {
            for column in amounts.iter_mut().take(last + 1).skip(first) {
                column.merge(tile);
            }
        });
        // A tile wider than a column is spread over its complete width.
        let s = tile_ns.max(width_ns) as f64 / 1e9;
        let (begin_ns, end_ns) = self.extent();
        let is_covered = |at_ns: u64| at_ns.saturating_add(width_ns) >= begin_ns && at_ns <= end_ns;
        let at = (0_u64..).map(|n| from_ns + n * width_ns).zip(amounts);
        let rate = |at_ns: u64, tile: &Tile| {
            let weight = layer.map_or(1.0, |layer| self.weight_of(layer, at_ns, at_ns + width_ns));
            let amount = if sum { tile.sum } else { tile.count };
            amount as f64 * weight / s
        };
        at.enumerate()
            .filter(|(_, (at_ns, _))| is_covered(*at_ns))
            .filter_map(|(column, (at_ns, tile))| match summed.get(column).copied().flatten() {
                Some(Summed::Unknown) if tile.count == 0 => None,
                Some(Summed::Rate(more)) => Some((at_ns, rate(at_ns, &tile) + more)),
                _ => Some((at_ns, rate(at_ns, &tile))),
            })
            .collect()
    }

    /// The subject of a signal, in words.
    fn subject_words(&self, channel: Channel) -> String {
        if let Channel::Throughput(layer) = channel {
            let (from_ns, to_ns) = self.stretch();
            let estimated = self.weight_of(layer, from_ns, to_ns) > 1.0;
            return if estimated { "an estimate".to_owned() } else { String::new() };
        }
        if let Some((probe, value)) = self.probes.value(channel) {
            let probe = self.probes.get(probe).map(|probe| &probe.asked);
            let of =
                probe.and_then(|asked| Some(format!("{} {}", asked.place(), asked.values.get(value)?.expr)));
            return of.unwrap_or_default();
        }
        let Some(flow) = self.subject().filter(|_| channel.is_of_connection()) else { return String::new() };
        let mut nodes = 0..self.names.nodes();
        let found = nodes.find_map(|node| self.names.flow(node, flow));
        found.map_or_else(|| flow.to_string(), |flow| format!("{}→{}", flow.local, flow.remote))
    }

    pub(crate) fn loadlines(&self, n: usize) -> Vec<Loadline> {
        let n = n.clamp(1, MOST_COLUMNS);
        let line = |(at, shown): (usize, &crate::Shown)| {
            let columns = match self.probes.value(shown.channel) {
                Some(value) => self.value_columns(value, n),
                None => columns(&self.series(shown.channel, n), self.stretch(), n),
            };
            let (foot, top) = axis(&columns, shown.vertical);
            Loadline {
                channel: shown.channel,
                of: self.subject_words(shown.channel),
                unit: shown.channel.unit(),
                last: columns.iter().flatten().next_back().map(|column| column.last),
                columns,
                foot,
                top,
                vertical: shown.vertical,
                chosen: at == self.controls.channel,
            }
        };
        self.controls.channels.iter().enumerate().map(line).collect()
    }

    pub(crate) fn math(&self, n: usize) -> Option<MathTrace> {
        let (math, n) = (self.controls.math?, n.clamp(1, MOST_COLUMNS));
        let series = compute(math, |channel| self.series(channel, n));
        let columns = columns(&series, self.stretch(), n);
        let low = columns.iter().flatten().map(|column| column.min).fold(f64::INFINITY, f64::min);
        let high = columns.iter().flatten().map(|column| column.max).fold(f64::NEG_INFINITY, f64::max);
        let (foot, top) = if low < high { (low, high) } else { (low.min(0.0), low.max(0.0) + 1.0) };
        let (foot, top) = if foot.is_finite() { (foot, top) } else { (0.0, 1.0) };
        let unit = match math {
            Math::Difference(a, _) | Math::Average(a, _) => a.unit(),
            Math::Ratio(..) => Unit::Ratio,
            Math::Rate(_) => Unit::PerS,
        };
        let last = columns.iter().flatten().next_back().map(|column| column.last);
        Some(MathTrace { math, unit, columns, last, foot, top })
    }

    pub(crate) fn xy(&self) -> Option<XyTrace> {
        let (x, y) = self.controls.xy?;
        let series = |channel| self.series(channel, XyTrace::MOST);
        let both = paired(&series(x), &series(y), |x, y| Some((x, y)));
        let every = both.len().div_ceil(XyTrace::MOST).max(1);
        let points = both.into_iter().step_by(every);
        let points: Vec<_> = points.map(|(time_ns, (x, y))| XyPoint { x, y, time_ns }).collect();
        let range = |of: fn(&XyPoint) -> f64| {
            let low = points.iter().map(of).fold(f64::INFINITY, f64::min);
            let high = points.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
            if low <= high { (low, high) } else { (0.0, 0.0) }
        };
        let (x_range, y_range) = (range(|p| p.x), range(|p| p.y));
        Some(XyTrace { x, y, points, x_range, y_range })
    }

    pub(crate) fn persistence(&self, columns: usize) -> Option<PersistenceMap> {
        let overlay = self.overlay.as_ref()?;
        let columns = columns.clamp(1, MOST_COLUMNS);
        let row = |lane: &Row| {
            let weights = match lane.place {
                Place::Hop(hop) => overlay.row(hop, columns, self.now_ns),
                _ => vec![0.0; columns],
            };
            PersistenceRow { place: lane.place, weights }
        };
        let rows: Vec<_> = self.lanes.iter().map(row).collect();
        let max_weight = rows.iter().flat_map(|row| &row.weights).fold(0.0_f32, |most, w| most.max(*w));
        Some(PersistenceMap { span_ns: overlay.is_for().1, rows, max_weight, lifelines: overlay.lines() })
    }
}

/// The least and largest value that an axis shows.
fn axis(columns: &[Option<Column>], vertical: Vertical) -> (f64, f64) {
    if let Some(per_division) = vertical.per_division {
        return (vertical.foot, vertical.foot + per_division * crate::DIVISIONS as f64);
    }
    let high = columns.iter().flatten().map(|column| column.max).fold(0.0, f64::max);
    // Values of a custom probe can be negative.
    let low = columns.iter().flatten().map(|column| column.min).fold(0.0, f64::min);
    let foot = if vertical.foot == 0.0 && !vertical.log { low } else { vertical.foot };
    (foot, if high > foot { high } else { foot + 1.0 })
}

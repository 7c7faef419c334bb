//! The kernel's sums: input, drawing, and display where no events arrived.

use super::Scope;
use super::pictures::MOST_COLUMNS;
use crate::axis::LogAxis;
use crate::controls::Align;
use crate::look::{Cell, HeatMap, HeatRow, PairReading, Percentiles, Span, SumMap};
use crate::roll::Roll;
use crate::stats::HopStats;
use crate::sums::{Raster, Slice, columns_of, part_of};
use crate::window::{BUCKET_NS, BUCKETS, Latency};
use magscope_core::drop_reason::Freed;
use magscope_core::histogram::LONGEST_NS;
use magscope_core::synthesis::{Sum, Synthesis};
use magscope_core::{Hop, Layer};
use std::ops::Range;

/// Classes of latency a picture has at most.
const MOST_CLASSES: usize = 256;
/// Maximum age of current sums: a row arrives every second.
pub(super) const FRESH_NS: u64 = 3_000_000_000;

/// The kernel's sums of a signal at some time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Summed {
    /// The sums do not cover the signal.
    Unknown,
    /// Rate per second.
    Rate(f64),
}

impl Scope {
    /// Processes a row of sums.
    pub(super) fn take_sum(&mut self, node: u16, row: &Synthesis) {
        let last_event_ns = self.last_event_ns.get(usize::from(node)).copied().flatten();
        let alone = last_event_ns.is_none_or(|at_ns| at_ns < row.from_ns);
        let is_clean_up = self.names.clean_up(node).is_some_and(|of| of.is_row(row));
        // A row of a reason counts packets of `skb.drop` and nothing else.
        if !is_clean_up {
            self.sums.add(row, alone);
        }
        if row.n > 0 {
            self.seen.insert(row.hop);
        }
        if let Sum::Flow(flow) = row.of {
            self.counts.flows.sum((node, flow, row.hop.direction()), row, &self.names);
        }
        if !alone {
            return;
        }
        if let (Sum::Since(_) | Sum::Begun, Some(hits)) =
            (row.of, self.hop_sums.get_mut(usize::from(row.hop.id())))
        {
            *hits = hits.saturating_add(row.n);
            if row.hop == Hop::TcpRetransmit {
                self.totals.summed_retransmits = self.totals.summed_retransmits.saturating_add(row.n);
            }
        }
        if row.hop == Hop::SkbDrop
            && let Some(freed) = match row.of {
                Sum::Reason(reason) => Some(Some(Freed::summed(reason))),
                Sum::Rest => Some(None),
                _ => None,
            }
        {
            if !is_clean_up {
                self.totals.dropped = self.totals.dropped.saturating_add(row.n);
            }
            self.count_drops(node, freed, row.n);
        }
    }

    /// True if only sums arrive: the picture then shows sums.
    pub(crate) fn draws_sums(&self) -> bool {
        if self.controls.align != Align::Time {
            return false;
        }
        if self.is_recorded() {
            let head_ns = self.playhead.head_ns;
            return self.sums.any_alone((head_ns.saturating_sub(FRESH_NS), head_ns.saturating_add(1)));
        }
        self.sums.alone_ns().is_some_and(|at_ns| at_ns.saturating_add(FRESH_NS) >= self.now_ns)
    }

    /// True if the picture covers time with sums and without events.
    pub(crate) fn shows_sums(&self) -> bool {
        self.controls.align == Align::Time && self.sums.any_alone(self.stretch())
    }

    /// True if the picture rolls at the pace of sums, because there are no journeys.
    pub(super) fn rolls_with_sums(&self) -> bool {
        self.controls.roll == Roll::Auto && self.draws_sums()
    }

    /// Times from hop to hop from the kernel's sums, with cells in these rows alone.
    pub(crate) fn sum_map(&self, columns: usize, classes: usize, shown: &Range<usize>) -> SumMap {
        let (columns, classes) = (columns.clamp(1, MOST_COLUMNS), classes.clamp(1, MOST_CLASSES));
        let stretch = self.stretch();
        let total = self.sums.total(stretch);
        let rows = pairs(&total);
        let map = HeatMap { from_ns: stretch.0, to_ns: stretch.1, max_count: 1, ..HeatMap::default() };
        let narrowed = self.controls.is_narrowed();
        let range = rows.iter().map(|(_, times)| (times.min_ns, times.max_ns.min(LONGEST_NS)));
        let Some((least, most)) = range.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else {
            return SumMap { map, interval_ns: 0, narrowed };
        };
        let axis = LogAxis::new(least, most, classes);
        let raster = Raster::new(&axis);
        let row = |(at, (pair, times)): (usize, &((Hop, Hop), Percentiles))| {
            let cells = if !shown.contains(&at) {
                Vec::new()
            } else if columns == 1 {
                let mut cells = vec![0; classes];
                if let Some(times) = total.pairs.get(pair) {
                    raster.add(times, 1.0, &mut cells);
                }
                cells
            } else {
                raster.draw(self.sums.slices(stretch, columns), *pair, stretch, columns)
            };
            HeatRow::new(Span::Step(pair.0, pair.1), *times, cells, classes)
        };
        let rows: Vec<_> = rows.iter().enumerate().map(row).collect();
        let max_count = rows.iter().map(|row| row.max_count).max().unwrap_or(1);
        let map = HeatMap { edges_ns: axis.edges_ns(), rows, max_count, ..map };
        SumMap { map, interval_ns: total.interval_ns, narrowed }
    }

    /// The same as numbers, over a stretch.
    pub(super) fn sum_readings(&self, stretch: (u64, u64)) -> Vec<PairReading> {
        let total = self.sums.total(stretch);
        let reading = |(pair, times): ((Hop, Hop), Percentiles)| PairReading {
            proto: None,
            span: Span::Step(pair.0, pair.1),
            times,
            per_s: Some(times.n as f64 / total.secs()),
            jitter_ns: None,
        };
        pairs(&total).into_iter().map(reading).collect()
    }

    /// The recent sums, where no events arrived.
    pub(super) fn lately_summed(&self) -> Option<Slice> {
        let (from_ns, to_ns) = match &self.recorded {
            None => (self.now_ns.saturating_sub(BUCKET_NS * BUCKETS as u64), self.now_ns),
            Some(recorded) => self.figures_of(recorded),
        };
        Some(self.sums.total((from_ns, to_ns.saturating_add(1)))).filter(Slice::is_alone)
    }

    /// The statistics of a hop from its events; without events, from the kernel's sums.
    pub(super) fn or_summed(stats: HopStats, hop: Hop, lately: Option<&Slice>) -> HopStats {
        let Some(slice) = lately.filter(|_| stats.events_per_s == 0.0) else { return stats };
        let counted = slice.hops.get(&hop).copied().unwrap_or_default();
        let latency = slice.latency_to(hop).map(|(from, times)| Latency::of(Some(from), times));
        HopStats {
            events_per_s: counted.hits as f64 / slice.secs(),
            bytes_per_s: counted.bytes.map(|bytes| bytes as f64 / slice.secs()),
            estimated: false,
            summed: true,
            latency: latency.or(stats.latency),
        }
    }

    /// Adds the hits at a hop over time where no events arrived, spread over their intervals.
    pub(super) fn add_hits(&self, hop: Hop, stretch: (u64, u64), cells: &mut [Cell]) {
        let columns = cells.len();
        for slice in self.sums.slices(stretch, columns).filter(|slice| slice.is_alone()) {
            let hits = slice.hops.get(&hop).map_or(0, |counted| counted.hits);
            let times = slice.latency_to(hop).map(|(_, times)| (times.min_ns, times.max_ns));
            columns_of((slice.from_ns, slice.to_ns), stretch, columns, |column, part| {
                let n = part_of(hits, part);
                if let Some(cell) = cells.get_mut(column).filter(|_| n > 0) {
                    let none = cell.count == 0;
                    cell.count = cell.count.saturating_add(n);
                    if let Some((least, most)) = times {
                        cell.min_ns = if none { least } else { cell.min_ns.min(least) };
                        cell.max_ns = cell.max_ns.max(most);
                    }
                }
            });
        }
    }

    /// The hop and value of a layer's payload in the kernel's sums: the first on the path with any.
    pub(super) fn summed_payload(slice: &Slice, hops: impl Fn(Hop) -> bool) -> Option<(Hop, u64, u64)> {
        let mut path = Hop::path().iter().copied().filter(|hop| hops(*hop));
        path.find_map(|hop| {
            let counted = slice.hops.get(&hop)?;
            Some((hop, counted.bytes?, counted.hits))
        })
    }

    /// Payload of a layer from the kernel's sums in each column, per second; `None` without sums.
    pub(super) fn summed_rates(
        &self,
        layer: Option<Layer>,
        stretch: (u64, u64),
        n: usize,
    ) -> Vec<Option<Summed>> {
        let mut rates = vec![None; n];
        for slice in self.sums.slices(stretch, n).filter(|slice| slice.is_alone()) {
            let bytes = layer.and_then(|layer| Self::summed_payload(slice, |hop| hop.layer() == layer));
            let rate = bytes.map_or(Summed::Unknown, |(_, bytes, _)| Summed::Rate(bytes as f64 / slice.secs()));
            columns_of((slice.from_ns, slice.to_ns), stretch, n, |column, _| {
                if let Some(place) = rates.get_mut(column) {
                    *place = Some(rate);
                }
            });
        }
        rates
    }
}

/// The pairs of some slices in path order, with their durations.
fn pairs(slice: &Slice) -> Vec<((Hop, Hop), Percentiles)> {
    let mut rows: Vec<_> = slice.pairs.iter().map(|(pair, cells)| (*pair, cells.percentiles())).collect();
    rows.retain(|(_, times)| times.n > 0);
    rows.sort_by_key(|((from, to), _)| (*to, *from));
    rows
}

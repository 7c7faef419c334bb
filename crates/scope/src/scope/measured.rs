//! Numbers over a stretch of time.

use super::Scope;
use crate::channel::Channel;
use crate::controls::Align;
use crate::look::{ChannelReading, CursorReading, LayerRate, Measurements, PairReading};
use crate::measure::{MeasureSpan, estimated, exact, rate};
use crate::protocols::only;
use crate::pyramid::{Extent, Lane, Part, Tile};
use crate::stats::{HopStats, carries_payload};
use crate::window::Latency;
use magscope_core::{Direction, Hop, Layer, Proto};

/// Columns of a rate measurement.
const MEASURED_COLUMNS: usize = 512;

impl Scope {
    /// The stretch of the measurement.
    fn measured_stretch(&self) -> (u64, u64) {
        match (self.controls.over, &self.controls.cursors) {
            (MeasureSpan::Cursors, Some(cursors)) => cursors.span(),
            _ => (self.horizon.begin_ns(), self.horizon.end_ns()),
        }
    }

    /// The observed part of a stretch, for rates; all of it if nothing was observed there.
    fn observed(&self, (from_ns, to_ns): (u64, u64)) -> (u64, u64) {
        let recorded = self.recorded.as_ref().map(|r| (r.observed.from_ns, r.observed.to_ns));
        let (begin_ns, end_ns) = recorded.unwrap_or((self.begin_ns.unwrap_or(0), self.now_ns));
        let observed = (from_ns.max(begin_ns), to_ns.min(end_ns));
        if observed.0 < observed.1 { observed } else { (from_ns, to_ns) }
    }

    /// True if every journey of a stretch is in memory.
    pub(super) fn has_all(&self, from_ns: u64, to_ns: u64) -> bool {
        self.controls.align == Align::Time
            && self.horizon.begin_ns() <= from_ns
            && to_ns <= self.horizon.end_ns()
            && self.detail() == crate::frame::Detail::Lifelines
    }

    /// Measurements over the picture or between the cursors.
    pub(crate) fn measurements(&self) -> Measurements {
        let (from_ns, to_ns) = self.measured_stretch();
        let (seen_from_ns, seen_to_ns) = self.observed((from_ns, to_ns));
        let mut pairs: Vec<PairReading> = if self.has_all(from_ns, to_ns) {
            exact(self.sweep.lifelines.iter(), seen_from_ns, seen_to_ns)
        } else {
            estimated(&self.counts.pyramid, &self.counts.below, seen_from_ns, seen_to_ns.saturating_add(1))
        };
        // With one protocol its name carries no information.
        if only(pairs.iter().filter_map(|pair| pair.proto)).is_some() {
            for pair in &mut pairs {
                pair.proto = None;
            }
        }
        let end_ns = to_ns.saturating_add(1);
        let count = |lane| self.counts.pyramid.total(lane, from_ns, end_ns).count;
        let summed = self.sums.total((from_ns, end_ns));
        let (journeys, lost) = (count(Lane::Ended), count(Lane::LostJourneys));
        Measurements {
            over: self.controls.over,
            from_ns,
            to_ns,
            pairs,
            sums: self.sum_readings((from_ns, end_ns)),
            passes: self.measured_passes(from_ns, to_ns),
            layers: self.layer_rates(seen_from_ns, seen_to_ns.saturating_add(1)),
            journeys,
            untimed: count(Lane::Untimed),
            is_narrowed: self.controls.is_narrowed(),
            drops: count(Lane::Drops).saturating_add(summed.drops),
            retransmits: count(Lane::Retransmits)
                .saturating_add(summed.hops.get(&Hop::TcpRetransmit).map_or(0, |counted| counted.hits)),
            missed_events: self.counts.pyramid.total(Lane::Lost, from_ns, end_ns).sum,
            channels: self.channel_readings(from_ns, end_ns),
            loss_ratio: (journeys > 0).then(|| lost as f64 / journeys as f64),
        }
    }

    /// The loadlines over a stretch: custom probes' values from all of their hits, the others from the drawn
    /// columns.
    fn channel_readings(&self, from_ns: u64, end_ns: u64) -> Vec<ChannelReading> {
        let reading = |shown: &crate::Shown| {
            let channel = shown.channel;
            let drawn = || {
                let series = self.series(channel, MEASURED_COLUMNS);
                let inside = series.into_iter().filter(|(at_ns, _)| (from_ns..end_ns).contains(at_ns));
                inside.fold(Extent::default(), |mut all, (at_ns, value)| {
                    all.merge(&Extent::of(at_ns, value));
                    all
                })
            };
            let read = self.probes.value(channel).map(|value| self.value_extent(value, from_ns, end_ns));
            let extent = read.unwrap_or_else(drawn);
            let Extent { count: n, min, max, last: (_, last), .. } = extent;
            (n > 0).then(|| ChannelReading { channel, n, min, mean: extent.mean(), max, last })
        };
        self.controls.channels.iter().filter_map(reading).collect()
    }

    /// Payload through every layer, separately for sender and receiver.
    fn layer_rates(&self, from_ns: u64, to_ns: u64) -> Vec<LayerRate> {
        let stretch_ns = to_ns.saturating_sub(from_ns);
        let sides = [Direction::Tx, Direction::Rx];
        let layers = [Layer::Socket, Layer::Transport, Layer::Ip, Layer::Device];
        let mut rates: Vec<LayerRate> = Vec::new();
        let summed = self.sums.total((from_ns, to_ns));
        for side in sides {
            for layer in layers {
                let hops = Hop::path().iter().filter(|hop| hop.direction() == side && hop.layer() == layer);
                let mut totals =
                    hops.map(|hop| (*hop, self.counts.pyramid.total(Lane::Payload(*hop), from_ns, to_ns)));
                if let Some((hop, total)) = totals.find(|(_, total)| total.sum > 0) {
                    let weight = self.weights.between(hop, from_ns, to_ns);
                    rates.push(LayerRate {
                        layer,
                        hop,
                        bytes_per_s: rate(total.sum as f64 * weight, total.count, stretch_ns),
                        per_s: rate(total.count as f64 * weight, total.count, stretch_ns),
                        estimated: weight > 1.0,
                        summed: false,
                    });
                } else if let Some((hop, bytes, hits)) =
                    Self::summed_payload(&summed, |hop| hop.direction() == side && hop.layer() == layer)
                {
                    let s = summed.secs();
                    let (bytes_per_s, per_s) = (Some(bytes as f64 / s), Some(hits as f64 / s));
                    rates.push(LayerRate { layer, hop, bytes_per_s, per_s, estimated: false, summed: true });
                }
            }
        }
        rates.sort_by_key(|rate| rate.hop.rank());
        rates
    }

    /// The statistics of a hop from what is counted over time, so that they are of what is chosen. Of a recording
    /// they are those of the five seconds before the head, or before the end of the picture if that is later.
    pub(super) fn lately_counted(&self, hop: Hop) -> Option<HopStats> {
        let (from_ns, to_ns) = self.lately()?;
        let s = (to_ns - from_ns) as f64 / 1e9;
        let payload = self.counts.pyramid.total(Lane::Payload(hop), from_ns, to_ns);
        let index = hop.rank()?;
        let of = |proto: Proto| {
            let origins = self.counts.below.get(proto)?[index];
            let mut times = Tile::default();
            for (lane, _) in origins.lanes() {
                times.merge(&self.counts.pyramid.total(Lane::Latency(proto, hop, lane), from_ns, to_ns));
            }
            Some((proto, Latency::of(origins.only(), times.percentiles())))
        };
        let latency = Latency::of_most(self.counts.below.protocols().filter_map(of));
        let stats = HopStats {
            events_per_s: payload.count as f64 / s,
            bytes_per_s: carries_payload(hop).then(|| payload.sum as f64 / s),
            estimated: false,
            summed: false,
            latency,
        };
        Some(stats.scaled(self.weights.between(hop, from_ns, to_ns)))
    }

    /// A signal of everything over a stretch.
    pub(super) fn rate(&self, channel: Channel, from_ns: u64, to_ns: u64) -> f64 {
        let s = to_ns.saturating_sub(from_ns).max(1) as f64 / 1e9;
        let total = |lane| self.counts.pyramid.total(lane, from_ns, to_ns);
        match channel {
            Channel::Throughput(layer) => {
                let lane = self.lane_of(layer);
                let summed = self.sums.total((from_ns, to_ns));
                let bytes = Self::summed_payload(&summed, |hop| hop.layer() == layer);
                let summed = bytes.map_or(0.0, |(_, bytes, _)| bytes as f64 / summed.secs());
                let weight = self.weight_of(layer, from_ns, to_ns);
                lane.map_or(0.0, |lane| total(lane).sum as f64 * weight / s) + summed
            }
            Channel::Journeys => total(Lane::Ended).count as f64 / s,
            Channel::Events => total(Lane::Events).count as f64 / s,
            Channel::Losses => total(Lane::Lost).sum as f64 / s,
            _ => 0.0,
        }
    }

    /// The hop that measures a layer's payload: the first on the path with any event.
    fn hop_of(&self, layer: Layer) -> Option<Hop> {
        Hop::path().iter().copied().find(|hop| hop.layer() == layer && self.seen.contains(*hop))
    }

    /// Its payload.
    pub(super) fn lane_of(&self, layer: Layer) -> Option<Lane> {
        self.hop_of(layer).map(Lane::Payload)
    }

    /// Weight of its events within a stretch.
    pub(super) fn weight_of(&self, layer: Layer, from_ns: u64, to_ns: u64) -> f64 {
        self.hop_of(layer).map_or(1.0, |hop| self.weights.between(hop, from_ns, to_ns))
    }

    /// Cursors as they are read.
    pub(crate) fn cursor_reading(&self) -> Option<CursorReading> {
        let cursors = self.controls.cursors.as_ref()?;
        // Two instants of one journey on both sides of the wire belong to two clocks.
        let on_sender_clock = |at_ns: u64| {
            let mut rungs = self.sweep.lifelines.iter().flat_map(|line| line.journey.ladder());
            rungs.find(|rung| rung.time_ns == at_ns).map(|rung| rung.on_sender_clock)
        };
        let clocks = on_sender_clock(cursors.a_ns).zip(on_sender_clock(cursors.b_ns));
        let crosses = clocks.is_some_and(|(a, b)| a != b);
        Some(CursorReading {
            a: self.horizon.x(cursors.a_ns),
            b: self.horizon.x(cursors.b_ns),
            a_ns: cursors.a_ns,
            b_ns: cursors.b_ns,
            delta_ns: cursors.delta_ns(),
            per_s: cursors.per_s(),
            half_width_ns: if crosses { self.wire().half_width_ns.unwrap_or(0) } else { 0 },
            chosen: cursors.chosen,
        })
    }
}

//! The bands of the picture: see [`crate::bands`].

use super::Scope;
use crate::bands::{Bands, Passages, translation};
use crate::lane::Place;
use crate::lifeline::Lifeline;
use crate::look::{Cell, Forwarding, Leg};
use crate::names::NetnsKey;
use crate::pyramid::Lane;
use crate::stats::HopStats;
use crate::window::Latency;
use magscope_core::Direction;
use magscope_core::context::Context;
use magscope_core::journey::Forwarder;
use std::borrow::Cow;

impl Scope {
    /// The bands of the picture.
    pub(crate) const fn bands(&self) -> &Bands {
        &self.bands
    }

    /// The bands for the selection and the counts as they are now.
    pub(super) fn bands_now(&self) -> Bands {
        let selected = self.selected.as_ref().map(|line| Cow::Owned(Passages::of(line)));
        let passages = selected.unwrap_or(Cow::Borrowed(&self.counts.passages));
        let name = |node| self.names.netns_name(Some(node));
        Bands::new(&passages, self.controls.open_forwarders, name)
    }

    /// Has the lanes of the bands, after a change of selection or of an open band.
    pub(super) fn arrange_bands(&mut self) {
        if self.bands != self.bands_now() {
            self.measure();
        }
        let is_gone =
            |lane| matches!(lane, Place::Forwarder(number) if usize::from(number) > self.bands.all().len());
        self.controls.lane = self.controls.lane.filter(|lane| !is_gone(*lane));
    }

    /// True if the counts of this number are those of the band's node.
    fn counts_band(&self, number: u8) -> bool {
        let counted = self.counts.passages.get(number).map(|passage| passage.node);
        counted.is_some() && counted == self.bands.get(number).map(|band| band.node)
    }

    /// Rate of journeys through a band, and their times in it.
    pub(super) fn stats_of_band(&self, number: u8) -> Option<HopStats> {
        if !self.counts_band(number) {
            return None;
        }
        let (from_ns, to_ns) = self.lately()?;
        let first = self.bands.get(number)?.hops.first()?;
        let of = |proto| {
            let tile = self.counts.pyramid.total(Lane::Forwarded(proto, number), from_ns, to_ns);
            (proto, Latency::of(Some(*first), tile.percentiles()))
        };
        let times: Vec<_> = self.counts.below.protocols().map(of).collect();
        let n: u64 = times.iter().map(|(_, latency)| latency.n).sum();
        let stats = HopStats {
            events_per_s: n as f64 / ((to_ns - from_ns) as f64 / 1e9),
            latency: Latency::of_most(times.into_iter()),
            ..HopStats::default()
        };
        Some(stats.scaled(self.weights.of_journeys().unwrap_or(1.0)))
    }

    /// Journeys through a band in each column of a stretch, and their times in it.
    pub(super) fn forwarded_cells(&self, number: u8, stretch: (u64, u64), columns: usize) -> Vec<Cell> {
        let mut cells = vec![Cell::default(); columns];
        for proto in self.counts.below.protocols().filter(|_| self.counts_band(number)) {
            self.counts.pyramid.columns(
                Lane::Forwarded(proto, number),
                stretch,
                columns,
                |first, last, tile| {
                    for cell in cells.iter_mut().take(last + 1).skip(first) {
                        let min_ns = if cell.count == 0 { tile.min } else { cell.min_ns.min(tile.min) };
                        *cell =
                            Cell { count: cell.count + tile.count, min_ns, max_ns: cell.max_ns.max(tile.max) };
                    }
                },
            );
        }
        cells
    }

    /// The journey that a picture highlights: the selected one, else the one that it was taken for.
    fn highlighted(&self) -> Option<&Lifeline> {
        let anchor = || self.sweep.lifelines.iter().find(|line| Some(line.key()) == self.sweep.anchor);
        self.selected.as_ref().or_else(anchor)
    }

    /// The highlighted journey and its forwarder in this band.
    fn highlighted_in(&self, number: u8) -> Option<(&Lifeline, &Forwarder)> {
        let (line, at) = (self.highlighted()?, usize::from(number).checked_sub(1)?);
        let (band, forwarder) = (self.bands.get(number)?, line.journey.forwarders.get(at)?);
        let is_of_band = band.node.is_none() || line.passed.get(at).copied().flatten() == band.node;
        is_of_band.then_some((line, forwarder))
    }

    /// What a forwarder did to the addresses of a journey, in words.
    pub(super) fn translation(&self, line: &Lifeline, at: &Forwarder) -> Option<String> {
        let (node, context): (u16, &dyn Context) = (line.journey.node_of_forwarder(at), &self.names);
        translation(context.flow(node, at.rx_flow)?, context.flow(node, at.tx_flow)?)
    }

    /// What the highlighted journey did in a band.
    pub(crate) fn forwarding(&self, number: u8) -> Option<Forwarding> {
        let (line, at) = self.highlighted_in(number)?;
        let node = line.journey.node_of_forwarder(at);
        let context: &dyn Context = &self.names;
        let interface = |flow, ifindex| context.interface_of(node, flow, ifindex).to_owned();
        let steps = line.steps().filter(|step| step.forwarder == number).map(|step| (step.to, step.ns));
        Some(Forwarding {
            ns: at.inside_ns(),
            rx_interface: interface(at.rx_flow, at.rx_ifindex),
            tx_interface: interface(at.tx_flow, at.tx_ifindex),
            translation: self.translation(line, at),
            steps: steps.collect(),
        })
    }

    /// The leg over the wire of this number.
    pub(crate) fn leg(&self, number: u8) -> Leg {
        let ends = self.ends_shown();
        let is_last = usize::from(number) == self.bands.all().len();
        let above = number.saturating_add(1);
        let of_band = |number: u8, interface: fn(Forwarding) -> String| {
            let name = self.bands.get(number).map_or("", |band| &band.name);
            let interface = self.forwarding(number).map(interface).unwrap_or_default();
            format!("{name} {interface}").trim_end().to_owned()
        };
        let end = |node: Option<NetnsKey>, role: &str| {
            node.map_or_else(|| role.to_owned(), |node| self.names.netns_name(Some(node)))
        };
        let node_of = |number: u8| self.bands.get(number).and_then(|band| band.node);
        let (from_node, to_node) =
            (if number == 0 { ends.0 } else { node_of(number) }, if is_last { ends.1 } else { node_of(above) });
        let time = self.time_over(number, is_last);
        Leg {
            from: if number == 0 { end(ends.0, "sender") } else { of_band(number, |it| it.tx_interface) },
            to: if is_last { end(ends.1, "receiver") } else { of_band(above, |it| it.rx_interface) },
            ns: time.map(|(ns, _)| ns),
            half_width_ns: time.map_or(0, |(_, half_width_ns)| half_width_ns),
            is_between_clocks: self.bands.all().is_empty()
                || from_node.zip(to_node).is_none_or(|(from, to)| from.node != to.node),
        }
    }

    /// The nodes of sender and receiver, where all that is shown, or the selected journey, has the same.
    fn ends_shown(&self) -> (Option<NetnsKey>, Option<NetnsKey>) {
        let of_route = self.controls.route.map(|route| (route.from, route.to));
        of_route.or_else(|| self.selected.as_ref().map(|line| (line.from, line.to))).unwrap_or_default()
    }

    /// The time of the highlighted journey over the wire of this number, and its error bound.
    fn time_over(&self, number: u8, is_last: bool) -> Option<(u64, u64)> {
        let line = self.highlighted()?;
        if line.passed.len() != self.bands.all().len()
            || (1..).take(line.passed.len()).any(|number| self.highlighted_in(number).is_none())
        {
            return None;
        }
        let reached = if is_last { 0 } else { number.saturating_add(1) };
        let mut latencies = line.journey.latencies().filter(|latency| {
            let directions = (latency.from.direction(), latency.to.direction());
            latency.forwarder == reached && directions == (Direction::Tx, Direction::Rx)
        });
        latencies.next().map(|latency| (latency.ns, latency.half_width_ns))
    }
}

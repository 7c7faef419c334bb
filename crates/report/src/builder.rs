//! Adds up batches and journeys to a report.

use super::blame::BlameSum;
use super::connections::PointSums;
use super::custom::Customs;
use super::drops::DropSums;
use super::estimates::{Estimates, Off};
use super::governed::Stretches;
use super::groups::{self, FlowEnds, GroupBy, Groups, Label};
use super::headline::{Facts, Findings, REQUEST_SERVICES, headline};
use super::hop_rates::HopRates;
use super::hop_sums::HopSums;
use super::kernel::KernelSums;
use super::missed::LossSums;
use super::observed::Observed;
use super::requests::{RequestSums, RequestsBy};
use super::running::Receives;
use super::throughput::Throughput;
use super::unobserved::UnobservedHop;
use super::{Denominator, FlowRow, HopNode, HopRow, LeftOut, MissingHop, NotFollowed, Report, VerdictRow};
use crate::stats::layers::Layers;
use crate::stats::per_second;
use crate::stats::running::Window;
use magscope_core::batch::Batch;
use magscope_core::blame::{self, Blame};
use magscope_core::context::Context;
use magscope_core::event::Event;
use magscope_core::exchange::ExchangeReader;
use magscope_core::flow::{Flow, FlowId, Proto};
use magscope_core::hash::Map;
use magscope_core::hop::{Direction, Hop, HopSet};
use magscope_core::journey::Journey;
use magscope_core::netns_resolver::Places;
use magscope_core::node::{NodeInfo, Service};
use magscope_core::omissions::Omissions;
use magscope_core::outcomes::{Counts, Outcomes};
use magscope_core::sampled::Sampled;
use std::collections::BTreeMap;

/// Default number of groups in a table.
const TOP: usize = 20;
/// Maximum number of flows with stored addresses and namespaces.
pub(super) const MAX_FLOWS: usize = 1 << 16;
/// Maximum number of distinct namespaces; beyond it only the sums count.
const MAX_NODES: usize = 256;
/// Row name for an unknown namespace.
const UNKNOWN: &str = "not known";
/// Name of the row of namespaces beyond [`MAX_NODES`].
const FURTHER: &str = "further namespaces";

/// The journeys of a protocol.
#[derive(Clone, Copy, Default)]
struct ProtoJourneys {
    outcomes: Outcomes,
    ambiguous: u64,
}

/// Adds up batches and journeys. Memory grows with hops, and up to a bound with namespaces and flows; not with time.
pub struct ReportBuilder {
    /// One entry per recording.
    infos: Vec<NodeInfo>,
    /// Hops that any recording serves.
    coverage: HopSet,
    top: usize,
    observed: Observed,
    events: u64,
    all: HopSums,
    /// By recording.
    rates: Vec<HopRates>,
    /// By recording and namespace. An unknown namespace has a row of its own, so that the rows add up to the
    /// total.
    nodes: Vec<((u16, Option<u32>), HopSums)>,
    /// Sums of further namespaces.
    elsewhere: HopSums,
    flows_seen: Map<(u16, FlowId), Flow>,
    places: Vec<Places>,
    flows: Groups,
    groups: Option<(GroupBy, Option<Groups>)>,
    layers: Option<Layers>,
    receives: Option<Receives>,
    /// For the headline, also if no table of them is wanted.
    requests: (ExchangeReader, RequestSums),
    wants_requests: bool,
    findings: Findings,
    customs: Customs,
    governed: Stretches,
    estimates: Estimates,
    kernel: KernelSums,
    journeys: BTreeMap<Proto, ProtoJourneys>,
    blame: BTreeMap<Proto, BlameSum>,
    drops: DropSums,
    points: PointSums,
    losses: LossSums,
    measured: u64,
    /// Ambiguous ones of the measured journeys.
    ambiguous: u64,
    disordered: u64,
}

impl ReportBuilder {
    /// An empty report about one node.
    pub fn new(info: &NodeInfo) -> Self {
        Self::of_many(std::slice::from_ref(info))
    }

    /// An empty report about several recordings.
    pub fn of_many(infos: &[NodeInfo]) -> Self {
        let mut report = ReportBuilder {
            infos: Vec::new(),
            coverage: HopSet::EMPTY,
            top: TOP,
            observed: Observed::default(),
            events: 0,
            all: HopSums::new(),
            rates: Vec::new(),
            nodes: Vec::new(),
            elsewhere: HopSums::new(),
            flows_seen: Map::default(),
            places: Vec::new(),
            flows: Groups::new(GroupBy::Flow),
            groups: None,
            layers: None,
            receives: None,
            requests: (ExchangeReader::new(&[]), RequestSums::new(RequestsBy::Service)),
            wants_requests: false,
            findings: Findings::default(),
            customs: Customs::default(),
            governed: Stretches::default(),
            estimates: Estimates::default(),
            kernel: KernelSums::default(),
            journeys: BTreeMap::new(),
            blame: BTreeMap::new(),
            drops: DropSums::default(),
            points: PointSums::default(),
            losses: LossSums::default(),
            measured: 0,
            ambiguous: 0,
            disordered: 0,
        };
        for info in infos {
            report.join(info);
        }
        report
    }

    /// Adds a recording that begins while the others run.
    pub fn join(&mut self, info: &NodeInfo) {
        self.coverage.0 |= info.coverage.served().0;
        self.customs.join(self.infos.len() as u16, info);
        self.estimates.join(info);
        self.requests.0.join(info);
        self.rates.push(HopRates::new(info));
        self.places.push(Places::default());
        self.infos.push(info.clone());
    }

    /// Number of flows, or other groups, in a table; 20 by default.
    #[must_use]
    pub fn top_flows(mut self, top: usize) -> Self {
        self.top = top;
        self
    }

    /// Groups the journeys.
    #[must_use]
    pub fn by(mut self, by: GroupBy) -> Self {
        // Flows are counted anyway.
        self.groups = Some((by, (by != GroupBy::Flow).then(|| Groups::new(by))));
        self
    }

    /// Adds the throughput of each layer.
    #[must_use]
    pub fn throughput(mut self) -> Self {
        self.layers = Some(Layers::default());
        self
    }

    /// Adds the running average of received data.
    #[must_use]
    pub fn window(mut self, window: Window) -> Self {
        self.receives = Some(Receives::new(window, self.coverage));
        self
    }

    /// Adds requests and responses by service.
    #[must_use]
    pub fn requests(mut self) -> Self {
        self.wants_requests = true;
        self
    }

    /// Includes all recorded time of recordings, with and without events: two instants on their time line, nanoseconds.
    #[must_use]
    pub fn observed(mut self, from_ns: u64, to_ns: u64) -> Self {
        self.observed.note(from_ns);
        self.observed.note(to_ns);
        self
    }

    /// Counts the events and losses of a batch.
    pub fn batch(&mut self, batch: &Batch) -> &mut Self {
        self.batch_of(0, batch)
    }

    /// Counts the events and losses of a batch of one of several recordings, with times on the time line of the first.
    pub fn batch_of(&mut self, node: u16, batch: &Batch) -> &mut Self {
        for flow in &batch.flows {
            if self.flows_seen.len() < MAX_FLOWS {
                self.flows_seen.insert((node, flow.id), *flow);
            }
        }
        if let Some(receives) = &mut self.receives {
            batch.tasks.iter().for_each(|task| receives.name((node, task.tid), &task.comm));
        }
        if let Some(rates) = self.rates.get_mut(usize::from(node)) {
            rates.sampled.batch(batch);
        }
        if let Some(info) = self.infos.get_mut(usize::from(node)) {
            for names in &batch.names {
                info.learn(names);
            }
            batch.changes.iter().for_each(|change| self.governed.change(node, &info.host, change));
            batch.changes.iter().for_each(|change| self.estimates.change(node, &info.host, change));
        }
        let (reader, sums) = &mut self.requests;
        sums.add_all(&reader.batch(node, batch), reader.context());
        self.observed.note_watermark(batch);
        self.events += batch.events.len() as u64;
        for event in &batch.events {
            self.points.event(node, event);
            self.findings.event(event, false, || self.flows_seen.get(&(node, event.flow)));
            self.event(node, event);
        }
        for sample in &batch.tcp {
            self.all.of(Hop::TcpState).rate.count(0);
            let netns = self.flows_seen.get(&(node, sample.flow)).map(|flow| flow.netns);
            self.place((node, netns)).of(Hop::TcpState).rate.count(0);
            if let Some(rates) = self.rates.get_mut(usize::from(node)) {
                rates.tcp_state();
            }
        }
        for hit in &batch.hits {
            self.observed.note(hit.time_ns);
            self.customs.hit(node, hit);
        }
        batch.synthesis.iter().for_each(|row| self.kernel.add(node, row));
        self.drops.batch(node, batch, &self.infos, &self.flows_seen);
        self.losses.batch(batch);
        self
    }

    fn event(&mut self, node: u16, event: &Event) {
        self.observed.note(event.time_ns);
        let bytes = event.payload_bytes();
        self.all.of(event.hop).rate.count(bytes);
        if let Some(rates) = self.rates.get_mut(usize::from(node)) {
            rates.event(event, bytes, self.flows_seen.get(&(node, event.flow)));
        }
        self.estimates.event(node, event, |flow| self.flows_seen.get(&(node, flow)));
        let flows = &self.flows_seen;
        let places = self.places.get_mut(usize::from(node));
        let netns = places.and_then(|p| p.of(event, |flow| flows.get(&(node, flow)).map(|flow| flow.netns)));
        self.place((node, netns)).of(event.hop).rate.count(bytes);
        if let Some(layers) = &mut self.layers {
            layers.event(node, event);
        }
        if let Some(receives) = &mut self.receives {
            let place = || netns.map(|netns| place(&self.infos, node, netns));
            receives.event(node, event, self.flows_seen.get(&(node, event.flow)), place);
        }
    }

    /// The sums of a namespace of a recording, `None` for an unknown one; beyond the maximum, those of all
    /// further ones.
    fn place(&mut self, place: (u16, Option<u32>)) -> &mut HopSums {
        let at = self.nodes.iter().position(|(existing, _)| *existing == place);
        let at = at.or_else(|| {
            (self.nodes.len() < MAX_NODES).then(|| {
                self.nodes.push((place, HopSums::new()));
                self.nodes.len() - 1
            })
        });
        match at.and_then(|at| self.nodes.get_mut(at)) {
            Some((_, sums)) => sums,
            None => &mut self.elsewhere,
        }
    }

    /// Counts a journey; the context resolves its flows and processes.
    pub fn journey(&mut self, journey: &Journey, context: &dyn Context) -> &mut Self {
        let of_proto = self.journeys.entry(journey.proto).or_default();
        of_proto.outcomes.journey(journey);
        of_proto.ambiguous += u64::from(journey.ambiguous);
        self.disordered += journey.disordered() as u64;
        self.drops.journey(context.dropped_by(journey));
        let (reader, sums) = &mut self.requests;
        sums.add_all(&reader.journey(journey, context), reader.context());
        let mut blame = None;
        if journey.verdict.is_whole() {
            self.measured += 1;
            self.ambiguous += u64::from(journey.ambiguous);
            blame = Blame::of(journey, blame::served(journey, &self.infos));
            if let Some(blame) = &blame {
                self.blame.entry(journey.proto).or_default().count(blame);
            }
            for latency in journey.latencies() {
                let steps = self.all.of(latency.to).latency(journey.proto, latency.ns);
                if latency.half_width_ns > 0 {
                    steps.half_width.get_or_insert_default().record(latency.half_width_ns);
                    steps.unresolvable += u64::from(!latency.is_resolvable());
                }
                let forwarder = usize::from(latency.forwarder).checked_sub(1);
                let forwarder = forwarder.and_then(|n| journey.forwarders.get(n));
                let node = if latency.on_sender_clock { journey.tx_node } else { journey.rx_node };
                let flow = match (forwarder, latency.to.direction()) {
                    (Some(at), _) => at.flow(),
                    (None, Direction::Tx) => journey.tx_flow,
                    (None, _) => journey.rx_flow,
                };
                let netns = self.flows_seen.get(&(node, flow)).map(|flow| flow.netns);
                self.place((node, netns)).of(latency.to).latency(journey.proto, latency.ns);
            }
        }
        self.findings.journey(journey, None, blame.as_ref(), context);
        self.flows.count(journey, blame.as_ref(), context);
        if let Some((_, Some(groups))) = &mut self.groups {
            groups.count(journey, blame.as_ref(), context);
        }
        self
    }

    /// The report.
    pub fn finish(mut self) -> Report {
        // The kernel's sums cover time without events.
        let spans = [self.observed.ends_ns(), self.kernel.span()].into_iter().flatten();
        let whole = spans.reduce(|(from, to), (first, last)| (from.min(first), to.max(last)));
        let (start_ns, end_ns) = whole.unwrap_or_default();
        let duration_ns = end_ns.saturating_sub(start_ns);
        let estimates = std::mem::take(&mut self.estimates).finish(&self.infos, start_ns, end_ns);
        // The row of the unknown namespace is the last of its recording.
        self.nodes.sort_unstable_by_key(|((node, netns), _)| (*node, netns.is_none(), *netns));
        let seen = |hop: &Hop| self.all.0[usize::from(hop.id())].rate.events > 0;
        let rows = Hop::ALL.iter().filter(|hop| self.coverage.contains(**hop) || seen(hop));
        let hops: Vec<HopRow> = rows.map(|hop| self.hop_row(*hop, duration_ns, &estimates.off)).collect();
        let received = |hop: Hop| byte_weight(&self.rates, hop, weight(&self.rates, hop, |_| 0));
        let weights = |hop: Hop| weights_of_all(&self.rates, hop);
        let journey_weight = journey_weight(&self.rates);
        let verdicts: Vec<_> = self
            .journeys
            .iter()
            .map(|(proto, of)| VerdictRow::of(*proto, &of.outcomes, of.ambiguous))
            .collect();
        let blame = self.blame.iter().map(|(proto, sum)| sum.row(*proto)).collect();
        let flows = self.flows.ranking(self.top);
        let groups = self.groups.map(|(by, groups)| match groups {
            Some(groups) => groups::table(by, &groups.ranking(self.top), duration_ns, journey_weight),
            // a sampled flow is complete
            None => groups::table(by, &flows, duration_ns, journey_weight.map(|_| 1.0)),
        });
        let losses = self.losses.finish();
        let several = self.infos.len() > 1;
        let missing = self.infos.iter().flat_map(|info| info.coverage.hops.iter().map(move |row| (info, row)));
        let missing = missing.filter_map(|(info, row)| match &row.service {
            Service::Missing { because } if several => {
                Some(MissingHop { hop: row.hop, because: format!("{}: {because}", info.host) })
            }
            Service::Missing { because } => Some(MissingHop { hop: row.hop, because: because.clone() }),
            _ => None,
        });
        let mut outcomes = Outcomes::default();
        self.journeys.values().for_each(|of_proto| outcomes.merge(&of_proto.outcomes));
        let drops = self.drops.finish(&self.infos, omissions(&self.rates).drops);
        let (mut reader, mut requests) = self.requests;
        requests.add_all(&reader.finish(), reader.context());
        let counts = Counts::of(&outcomes, drops.dropped, losses.records, 0);
        let reasons: Vec<_> = drops.reasons.iter().map(|row| (row.reason.clone(), row.packets)).collect();
        let headline = headline(&Facts {
            findings: &self.findings,
            requests: Some(&requests.table(REQUEST_SERVICES)),
            counts,
            outcomes: &outcomes,
            infos: &self.infos,
            omissions: omissions(&self.rates),
            events: self.events + self.all.0[usize::from(Hop::TcpState.id())].rate.events,
            duration_ns,
            sums: outcomes.journeys() == 0 && self.kernel.span().is_some(),
            reasons: &reasons,
        });
        let denominator = Denominator {
            measured: self.measured,
            ambiguous: self.ambiguous,
            journeys: outcomes.journeys(),
            left_out: LeftOut::of(&outcomes.verdicts),
            disordered: self.disordered,
        };
        Report {
            node: listed(self.infos.iter().map(|info| info.host.as_str())),
            kernel: listed(self.infos.iter().map(|info| info.kernel.as_str())),
            start_ns,
            end_ns,
            duration_ns,
            events: self.events,
            counts,
            headline,
            hops,
            events_elsewhere: self.elsewhere.0.iter().map(|sum| sum.rate.events).sum(),
            verdicts,
            blame,
            flows_total: flows.rows.len() as u64 + flows.others,
            flows_rest_bytes: flows.rest.figures(duration_ns, None).bytes,
            flows_bound: flows.bound,
            flows: flows.rows.iter().map(|row| flow_row(&row.value, duration_ns)).collect(),
            groups,
            requests: (self.wants_requests && !requests.is_empty()).then(|| requests.table(self.top)),
            throughput: self.layers.map(|layers| Throughput::of(layers, start_ns, end_ns, weights)),
            running: self
                .receives
                .map(|receives| receives.finish(self.top, received, journey_weight.is_some())),
            synthesis: self.kernel.finish(self.top, |node, flow| match self.flows_seen.get(&(node, flow)) {
                Some(flow) => format!("{} {} → {}", flow.proto, flow.local, flow.remote),
                None => format!("{flow}"),
            }),
            probes: self.customs.finish(&self.infos, start_ns, end_ns),
            drops,
            connections: self.points.finish(&self.infos, self.findings.peers(), &self.rates),
            losses,
            damage: Vec::new(),
            governed: self.governed.since(start_ns),
            estimates: estimates.rows,
            missing: missing.collect(),
            not_followed: self.infos.iter().flat_map(NotFollowed::of).collect(),
            unobserved_hops: Self::unobserved(&self.infos, self.journeys.contains_key(&Proto::UDP)),
            denominator,
        }
    }

    fn unobserved(infos: &[NodeInfo], has_datagrams: bool) -> Vec<UnobservedHop> {
        if has_datagrams { UnobservedHop::of(infos) } else { Vec::new() }
    }

    fn host(&self, node: u16) -> &str {
        self.infos.get(usize::from(node)).map_or("", |info| info.host.as_str())
    }

    fn hop_row(&self, hop: Hop, duration_ns: u64, off: &Off) -> HopRow {
        let sum = &self.all.0[usize::from(hop.id())];
        let name = |(node, netns): &(u16, Option<u32>)| match netns {
            Some(netns) => place(&self.infos, *node, *netns),
            None if self.infos.len() > 1 => format!("{}/{UNKNOWN}", self.host(*node)),
            None => UNKNOWN.to_owned(),
        };
        let nodes = self.nodes.iter().map(|(place, sums)| (name(place), &sums.0[usize::from(hop.id())]));
        let further = (FURTHER.to_owned(), &self.elsewhere.0[usize::from(hop.id())]);
        let mut nodes: Vec<HopNode> = nodes
            .chain([further])
            .filter(|(_, sum)| sum.rate.events > 0 || !sum.steps.is_empty())
            .map(|(node, sum)| {
                let mut protocols = sum.protocols();
                let only = if protocols.len() == 1 { protocols.pop() } else { None };
                let latency = only.map(|only| only.latency);
                HopNode { node, events: sum.rate.events, bytes: sum.rate.bytes, latency, protocols }
            })
            .collect();
        if nodes.len() < 2 {
            nodes.clear();
        }
        let mut protocols = sum.protocols();
        let only = if protocols.len() == 1 { protocols.pop() } else { None };
        let is_estimated =
            self.rates.iter().any(|of| of.sampled.weight(hop) > 1.0 || of.sampled.added_up(hop) > 0);
        // The sampler decides before the kernel adds up.
        let passed = |of: &HopRates| of.of(hop).events.saturating_add(of.sampled.added_up(hop));
        let all_events = || self.rates.iter().map(|of| passed(of) as f64 * of.sampled.weight(hop)).sum();
        let added_up = self.rates.iter().any(|of| of.sampled.added_up(hop) > 0);
        let all_bytes = || self.rates.iter().map(|of| of.all_bytes(hop)).sum();
        HopRow {
            hop,
            events: sum.rate.events,
            bytes: sum.rate.bytes,
            events_per_s: self.events_per_s(hop, duration_ns, off),
            estimated: is_estimated,
            all_events: is_estimated.then(all_events),
            // The kernel's sums have hits, and bytes at few hops.
            all_bytes: (is_estimated && !added_up).then(all_bytes).flatten(),
            latency: only.as_ref().map(|only| only.latency),
            half_width: only.as_ref().and_then(|only| only.half_width),
            unresolvable: only.as_ref().and_then(|only| only.unresolvable),
            histogram: only.map(|only| only.histogram).unwrap_or_default(),
            protocols,
            nodes,
        }
    }

    /// Rate of all events while the hop was enabled: recorded, sampled out, or added up by the kernel.
    fn events_per_s(&self, hop: Hop, duration_ns: u64, off: &Off) -> f64 {
        let rates = self.rates.iter().enumerate().map(|(node, of)| {
            let watched_ns = duration_ns.saturating_sub(off.ns(node, hop));
            let passed = of.of(hop).events.saturating_add(of.sampled.added_up(hop));
            per_second(passed, watched_ns) * of.sampled.weight(hop)
        });
        rates.sum()
    }
}

/// Events per recorded event of a hop, over all recordings, including those that `added_up` counts.
fn weight(rates: &[HopRates], hop: Hop, added_up: impl Fn(&Sampled) -> u64) -> f64 {
    let (mut seen, mut meant) = (0.0, 0.0);
    for of in rates {
        let events = of.of(hop).events as f64;
        seen += events;
        meant += (events + added_up(&of.sampled) as f64) * of.sampled.weight(hop);
    }
    if seen > 0.0 { meant / seen } else { 1.0 }
}

/// The same for events and for bytes over the complete time, in part of which the kernel may have added up the events.
fn weights_of_all(rates: &[HopRates], hop: Hop) -> (f64, f64) {
    let weight = weight(rates, hop, |sampled| sampled.added_up(hop));
    (weight, byte_weight(rates, hop, weight))
}

/// Payload bytes per recorded byte of a hop, over all recordings. Without an estimate of their bytes, the weight of events.
fn byte_weight(rates: &[HopRates], hop: Hop, event_weight: f64) -> f64 {
    let bytes = rates.iter().fold(0, |all: u64, of| all.saturating_add(of.of(hop).bytes));
    let has_sums = rates.iter().any(|of| of.sampled.added_up(hop) > 0);
    let all: Option<f64> = rates.iter().map(|of| of.all_bytes(hop)).sum();
    all.filter(|_| bytes > 0 && !has_sums).map_or(event_weight, |all| all / bytes as f64)
}

/// What any recording left out.
fn omissions(rates: &[HopRates]) -> Omissions {
    rates.iter().map(|of| of.sampled.omissions()).fold(Omissions::default(), Omissions::merged)
}

/// Journeys per recorded journey, if equal for all recordings. For the kernel's sums the number of journeys is unknown.
fn journey_weight(rates: &[HopRates]) -> Option<f64> {
    if rates.iter().any(|of| Hop::ALL.iter().any(|hop| of.sampled.added_up(*hop) > 0)) {
        return None;
    }
    let mut weights = rates.iter().map(|of| of.sampled.journey_weight());
    let first = weights.next().unwrap_or(Some(1.0));
    weights.all(|weight| weight == first).then_some(first).flatten()
}

/// Display name of a namespace of a recording.
fn place(infos: &[NodeInfo], node: u16, netns: u32) -> String {
    infos.get(usize::from(node)).map_or_else(String::new, |info| info.place(netns, infos.len() > 1))
}

/// Each name once.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut all: Vec<&str> = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all.join(" + ")
}

fn flow_row(sum: &groups::Sum, duration_ns: u64) -> FlowRow {
    let figures = sum.figures(duration_ns, None);
    let ends = if let Label::Flow(ends) = &sum.label { (**ends).clone() } else { FlowEnds::default() };
    FlowRow {
        ends,
        bytes: figures.bytes,
        journeys: figures.journeys,
        whole: figures.whole,
        resent: figures.resent,
        retransmits: figures.retransmits,
        total: figures.total,
    }
}

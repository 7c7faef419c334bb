//! Adds up batches and journeys to a report.

use super::blame::BlameSum;
use super::{CauseRow, Denominator, FlowRow, HopNode, HopRow, LeftOut, Losses, MissingHop, Report, VerdictRow};
use crate::batch::{Batch, LossCause};
use crate::blame::Blame;
use crate::context::Context;
use crate::flow::Task;
use crate::flow::{FlowId, Proto};
use crate::hop::{Hop, HopSet};
use crate::journey::{Journey, Verdict};
use crate::node::{NodeInfo, Service};
use crate::places::Places;
use crate::stats::{HopPairStats, HopRate, per_second};
use std::collections::{BTreeMap, HashMap};

/// Flows in the table unless asked otherwise.
const TOP_FLOWS: usize = 20;
/// Flows added up; beyond that only the totals count.
const MAX_FLOWS: usize = 1 << 16;

#[derive(Default)]
struct HopSum {
    rate: HopRate,
    latency: Option<HopPairStats>,
}

impl HopSum {
    fn latency(&mut self, ns: u64) {
        self.latency.get_or_insert_with(HopPairStats::new).record(ns);
    }

    fn quantiles(&self) -> Option<crate::stats::Quantiles> {
        self.latency.as_ref().and_then(HopPairStats::quantiles)
    }
}

struct FlowSum {
    row: FlowRow,
    total: HopPairStats,
}

/// Adds up batches and journeys. Memory grows with hops, namespaces and flows, not with time.
pub struct ReportBuilder {
    info: NodeInfo,
    coverage: HopSet,
    top: usize,
    span: Option<(u64, u64)>,
    events: u64,
    hops: BTreeMap<(Hop, u32), HopSum>,
    all: BTreeMap<Hop, HopSum>,
    flow_node: HashMap<FlowId, u32>,
    places: Places,
    flows: HashMap<FlowId, FlowSum>,
    kinds: BTreeMap<Proto, [u64; Verdict::KINDS]>,
    extra: BTreeMap<Proto, (u64, u64)>,
    blame: BTreeMap<Proto, BlameSum>,
    causes: BTreeMap<u8, u64>,
    losses: Losses,
    measured: u64,
    disordered: u64,
}

impl ReportBuilder {
    /// An empty report about one node.
    pub fn new(info: &NodeInfo) -> Self {
        ReportBuilder {
            info: info.clone(),
            coverage: info.coverage.served(),
            top: TOP_FLOWS,
            span: None,
            events: 0,
            hops: BTreeMap::new(),
            all: BTreeMap::new(),
            flow_node: HashMap::new(),
            places: Places::default(),
            flows: HashMap::new(),
            kinds: BTreeMap::new(),
            extra: BTreeMap::new(),
            blame: BTreeMap::new(),
            causes: BTreeMap::new(),
            losses: Losses::default(),
            measured: 0,
            disordered: 0,
        }
    }

    /// How many flows the table has; 20 unless asked otherwise.
    #[must_use]
    pub fn top_flows(mut self, top: usize) -> Self {
        self.top = top;
        self
    }

    /// Counts the events and losses of a batch.
    pub fn batch(&mut self, batch: &Batch) -> &mut Self {
        for flow in &batch.flows {
            if self.flow_node.len() < MAX_FLOWS {
                self.flow_node.insert(flow.id, flow.netns);
            }
        }
        self.events += batch.events.len() as u64;
        for event in &batch.events {
            let (from, to) = self.span.unwrap_or((event.time_ns, event.time_ns));
            self.span = Some((from.min(event.time_ns), to.max(event.time_ns)));
            let bytes = u64::from(event.len);
            self.all.entry(event.hop).or_default().rate.count(bytes);
            let flows = &self.flow_node;
            if let Some(netns) = self.places.of(event, |flow| flows.get(&flow).copied()) {
                self.hops.entry((event.hop, netns)).or_default().rate.count(bytes);
            }
        }
        for loss in &batch.losses {
            self.losses.records += loss.count;
            self.losses.stretches += 1;
            self.losses.span_ns += loss.to_ns.saturating_sub(loss.from_ns);
            *self.causes.entry(loss.cause as u8).or_default() += loss.count;
        }
        self.losses.late_events += batch.late;
        self
    }

    /// Counts a journey; the context knows its flows and processes.
    pub fn journey(&mut self, journey: &Journey, context: &dyn Context) -> &mut Self {
        self.kinds.entry(journey.proto).or_default()[journey.verdict.kind()] += 1;
        let (retransmits, ambiguous) = self.extra.entry(journey.proto).or_default();
        *retransmits += u64::from(journey.retransmits);
        *ambiguous += u64::from(journey.ambiguous);
        self.disordered += journey.disordered() as u64;
        if journey.verdict.is_whole() {
            self.measured += 1;
            if let Some(blame) = Blame::of(journey, self.coverage) {
                self.blame.entry(journey.proto).or_default().count(&blame);
            }
            for latency in journey.latencies() {
                self.all.entry(latency.to).or_default().latency(latency.ns);
                let end = journey.rung(latency.to).map(|rung| rung.flow);
                if let Some(netns) = end.and_then(|flow| self.flow_node.get(&flow)) {
                    self.hops.entry((latency.to, *netns)).or_default().latency(latency.ns);
                }
            }
        }
        self.count_flow(journey, context);
        self
    }

    fn count_flow(&mut self, journey: &Journey, context: &dyn Context) {
        // One row a direction, whichever halves a journey has: named after the sender where it is known.
        let (tx, rx) = (context.tx_flow(journey), context.rx_flow(journey));
        let id = tx.or(rx).map_or(FlowId::NONE, |flow| flow.id);
        // A flow received and not sent here is another direction than the same id sending.
        let key = if tx.is_some() { id } else { FlowId(!id.0) };
        if self.flows.len() >= MAX_FLOWS && !self.flows.contains_key(&key) {
            return;
        }
        let sum = self.flows.entry(key).or_insert_with(|| {
            let (from, to) = match (tx, rx) {
                (Some(tx), _) => (tx.local.to_string(), tx.remote.to_string()),
                (None, Some(rx)) => (rx.remote.to_string(), rx.local.to_string()),
                (None, None) => (String::new(), String::new()),
            };
            let row = FlowRow {
                id,
                proto: journey.proto,
                from,
                to,
                from_node: String::new(),
                to_node: String::new(),
                sender: String::new(),
                reader: String::new(),
                bytes: 0,
                journeys: 0,
                whole: 0,
                retransmits: 0,
                total: None,
            };
            FlowSum { row, total: HopPairStats::new() }
        });
        let row = &mut sum.row;
        let name = |place: &mut String, task: Option<&Task>| {
            if place.is_empty()
                && let Some(task) = task
            {
                place.clone_from(&task.comm);
            }
        };
        name(&mut row.sender, context.sender(journey));
        name(&mut row.reader, context.reader(journey));
        for (place, node, flow) in
            [(&mut row.from_node, journey.tx_node, tx), (&mut row.to_node, journey.rx_node, rx)]
        {
            if place.is_empty()
                && let Some(flow) = flow
            {
                *place = context.place(node, flow.netns);
            }
        }
        row.bytes = row.bytes.saturating_add(journey.bytes());
        row.journeys += 1;
        row.retransmits += u64::from(journey.retransmits);
        if journey.verdict.is_whole() {
            row.whole += 1;
            if let Some(ns) = journey.total_ns() {
                sum.total.record(ns);
            }
        }
    }

    /// The report.
    pub fn finish(self) -> Report {
        let (start_ns, end_ns) = self.span.unwrap_or_default();
        let duration_ns = end_ns - start_ns;
        let rows = Hop::ALL.iter().filter(|h| self.coverage.contains(**h) || self.all.contains_key(*h));
        let hops = rows.map(|hop| self.hop_row(*hop, duration_ns)).collect();
        let verdicts: Vec<_> =
            self.kinds.iter().map(|(proto, kinds)| self.verdict_row(*proto, kinds)).collect();
        let blame = self.blame.iter().map(|(proto, sum)| sum.row(*proto)).collect();
        let flows_total = self.flows.len() as u64;
        let mut flows: Vec<FlowRow> =
            self.flows.into_values().map(|sum| FlowRow { total: sum.total.quantiles(), ..sum.row }).collect();
        flows.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| (&a.from, &a.to).cmp(&(&b.from, &b.to))));
        flows.truncate(self.top);
        let mut losses = self.losses;
        losses.causes = LossCause::ALL
            .into_iter()
            .filter_map(|cause| self.causes.get(&(cause as u8)).map(|n| CauseRow { cause, records: *n }))
            .collect();
        let missing = self.info.coverage.hops.iter().filter_map(|row| match &row.service {
            Service::Missing { because } => Some(MissingHop { hop: row.hop, because: because.clone() }),
            _ => None,
        });
        let mut left: [u64; Verdict::KINDS] = [0; Verdict::KINDS];
        for kinds in self.kinds.values() {
            left.iter_mut().zip(kinds).for_each(|(sum, n)| *sum += n);
        }
        let left_out = left.iter().zip(Verdict::NAMES).skip(2).filter(|(n, _)| **n > 0);
        let denominator = Denominator {
            measured: self.measured,
            journeys: left.iter().sum(),
            left_out: left_out.map(|(n, name)| LeftOut { because: name.to_owned(), journeys: *n }).collect(),
            disordered: self.disordered,
        };
        Report {
            node: self.info.host.clone(),
            kernel: self.info.kernel.clone(),
            start_ns,
            end_ns,
            duration_ns,
            events: self.events,
            hops,
            verdicts,
            blame,
            flows,
            flows_total,
            losses,
            missing: missing.collect(),
            denominator,
        }
    }

    fn hop_row(&self, hop: Hop, duration_ns: u64) -> HopRow {
        let empty = HopSum::default();
        let sum = self.all.get(&hop).unwrap_or(&empty);
        let mut nodes: Vec<HopNode> = self
            .hops
            .range((hop, 0)..=(hop, u32::MAX))
            .map(|((_, netns), sum)| HopNode {
                node: self.info.netns_name(*netns),
                events: sum.rate.events,
                bytes: sum.rate.bytes,
                latency: sum.quantiles(),
            })
            .collect();
        if nodes.len() < 2 {
            nodes.clear();
        }
        HopRow {
            hop,
            events: sum.rate.events,
            bytes: sum.rate.bytes,
            events_per_s: per_second(sum.rate.events, duration_ns),
            latency: sum.quantiles(),
            nodes,
        }
    }

    fn verdict_row(&self, proto: Proto, kinds: &[u64; Verdict::KINDS]) -> VerdictRow {
        let (retransmits, ambiguous) = self.extra.get(&proto).copied().unwrap_or_default();
        let [complete, half_complete, lost, dropped, broken, in_flight, read_unseen, evicted] = *kinds;
        VerdictRow {
            proto,
            journeys: kinds.iter().sum(),
            complete,
            half_complete,
            lost,
            dropped,
            broken_by_event_loss: broken,
            in_flight,
            read_unseen,
            evicted,
            retransmits,
            ambiguous,
        }
    }
}

//! Converts batches and journeys to rows of the flat tables, in constant memory.

mod events;
mod exchanges;
mod hops;
mod journeys;
mod samples;
mod sums;

use super::definition::{Table, columns};
use crate::error::ExportError;
use crate::names::Names;
use crate::timeline::TimeLine;
use crate::wire;
use arrow::array::RecordBatch;
use magscope_core::batch::Batch;
use magscope_core::context::Context;
use magscope_core::exchange::{Exchange, ExchangeBuilder};
use magscope_core::node::NodeInfo;
use magscope_core::{Filter, Flow, FlowId, Journey};
use magscope_timeline::merged_reader::Piece;
use std::borrow::Cow;

/// Rows per batch. A sort in SQL holds a batch twice before it can spill.
const BATCH_ROWS: usize = 14 << 10;

/// Selection for an export.
#[derive(Clone, Debug, Default)]
pub struct Chosen {
    /// The tables; empty for all.
    pub tables: Vec<Table>,
    /// Restriction to matching journeys and their hops. Other tables are unaffected.
    pub filter: Option<Filter>,
}

impl Chosen {
    /// True if a table is selected.
    pub fn has(&self, table: Table) -> bool {
        self.tables.is_empty() || self.tables.contains(&table)
    }

    /// True if a journey is selected.
    pub fn wants(&self, journey: &Journey, context: &dyn Context) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.matches(journey, context))
    }
}

/// Consumer of finished rows: table, node, rows.
pub type Out<'o> = dyn FnMut(Table, u16, RecordBatch) -> Result<(), ExportError> + 'o;

/// Cached keys of a table, looked up once per batch.
#[derive(Default)]
struct Common {
    hops: hops::Common,
    journeys: journeys::Common,
}

/// The tables of one node.
#[derive(Default)]
struct Node {
    events: columns::Events,
    hops: columns::Hops,
    journeys: columns::Journeys,
    common: Common,
    /// Made for the first exchange: their columns take memory in each reader.
    exchanges: Option<Box<(columns::Exchanges, columns::Nested)>>,
    flows: columns::Flows,
    tcp: columns::Tcp,
    losses: columns::Losses,
    clock: columns::Clock,
    hits: columns::Hits,
    heads: columns::Heads,
    counts: columns::Counts,
    sums: columns::Sums,
    histograms: columns::Histograms,
}

/// Converts batches and journeys to rows, in recording order. A node's events are in time order except late
/// ones, journeys in order of their ends, exchanges some seconds after theirs.
pub struct Rows {
    chosen: Chosen,
    line: TimeLine,
    names: Names,
    nodes: Vec<Node>,
    new_flows: Vec<Flow>,
    /// If a table of exchanges is selected.
    exchanges: Option<ExchangeBuilder>,
    /// Exchanges without rows so far.
    closed: Vec<Exchange>,
}

impl Rows {
    /// Rows of these nodes.
    pub fn new(infos: &[NodeInfo], line: TimeLine, chosen: Chosen) -> Self {
        let has_exchanges = chosen.has(Table::Exchanges) || chosen.has(Table::Nested);
        Rows {
            chosen,
            line,
            names: Names::new(infos),
            nodes: infos.iter().map(|_| Node::default()).collect(),
            new_flows: Vec::new(),
            exchanges: has_exchanges.then(ExchangeBuilder::new),
            closed: Vec::new(),
        }
    }

    /// Adds a piece; full batches go to `out`.
    pub fn piece(&mut self, piece: &Piece<'_>, out: &mut Out<'_>) -> Result<(), ExportError> {
        match piece {
            Piece::Batch(node, batch) => {
                self.batch(*node, batch);
                if let Some(exchanges) = &mut self.exchanges {
                    exchanges.batch(*node, batch, &mut self.closed);
                    self.closed_exchanges();
                }
                self.flush_batches(BATCH_ROWS, out)
            }
            Piece::Journey(journey, _, context) => {
                // An exchange needs all its journeys, whatever the filter.
                if let Some(exchanges) = &mut self.exchanges {
                    exchanges.journey(journey, *context, &mut self.closed);
                }
                if self.chosen.wants(journey, *context) {
                    self.journey(journey, *context);
                    self.flush_journeys(BATCH_ROWS, out)?;
                }
                Ok(())
            }
        }
    }

    /// Emits the rows so far. Open exchanges have none yet.
    pub fn flush(&mut self, out: &mut Out<'_>) -> Result<(), ExportError> {
        self.flush_batches(1, out)?;
        self.flush_journeys(1, out)
    }

    /// Closes open exchanges and emits the rest.
    pub fn finish(&mut self, out: &mut Out<'_>) -> Result<(), ExportError> {
        if let Some(exchanges) = &mut self.exchanges {
            exchanges.finish(&mut self.closed);
            self.closed_exchanges();
        }
        self.flush(out)
    }

    /// What the rows lack, in words, and how many.
    pub fn left_out(&self) -> Option<(Cow<'static, str>, u64)> {
        self.names.left_out()
    }

    fn flush_batches(&mut self, at_least: usize, out: &mut Out<'_>) -> Result<(), ExportError> {
        for (at, node) in self.nodes.iter_mut().enumerate() {
            macro_rules! flush {
                ($($table:ident $field:ident),*) => { $(
                    if node.$field.rows >= at_least {
                        out(Table::$table, at as u16, node.$field.finish()?)?;
                    }
                )* };
            }
            flush!(Events events, Flows flows, Tcp tcp, Losses losses, Clock clock, Hits hits, Heads heads, Counts counts, Sums sums, Histograms histograms);
            let Some(tables) = &mut node.exchanges else { continue };
            let (exchanges, nested) = &mut **tables;
            if exchanges.rows >= at_least {
                out(Table::Exchanges, at as u16, exchanges.finish()?)?;
            }
            if nested.rows >= at_least {
                out(Table::Nested, at as u16, nested.finish()?)?;
            }
        }
        Ok(())
    }

    fn flush_journeys(&mut self, at_least: usize, out: &mut Out<'_>) -> Result<(), ExportError> {
        for (at, node) in self.nodes.iter_mut().enumerate() {
            if node.hops.rows >= at_least {
                // Keys are invalid after the columns are taken.
                node.common.hops = hops::Common::default();
                out(Table::Hops, at as u16, node.hops.finish()?)?;
            }
            if node.journeys.rows >= at_least {
                node.common.journeys = journeys::Common::default();
                out(Table::Journeys, at as u16, node.journeys.finish()?)?;
            }
        }
        Ok(())
    }

    fn batch(&mut self, node: u16, batch: &Batch) {
        let mut new = std::mem::take(&mut self.new_flows);
        self.names.learn(node, batch, &mut new);
        let Rows { chosen, line, names, nodes, .. } = self;
        let Some(tables) = nodes.get_mut(usize::from(node)) else { return };
        if chosen.has(Table::Flows) {
            let at_ns = batch.events.first().map_or(batch.watermark_ns, |event| event.time_ns);
            for flow in &new {
                samples::flow_row(&mut tables.flows, *line, names, node, flow, at_ns);
            }
        }
        if chosen.has(Table::Events) {
            events::event_rows(&mut tables.events, *line, names, node, &batch.events);
        }
        let host = names.host(node);
        if chosen.has(Table::Tcp) {
            for sample in &batch.tcp {
                let host = names.host_of_flow(node, sample.flow);
                samples::tcp_row(&mut tables.tcp, *line, &host, sample);
            }
        }
        if chosen.has(Table::Losses) {
            batch.losses.iter().for_each(|loss| samples::loss_row(&mut tables.losses, *line, &host, loss));
        }
        if chosen.has(Table::Clock) {
            batch.clock.iter().for_each(|sample| samples::clock_row(&mut tables.clock, &host, sample));
        }
        if chosen.has(Table::Counts) {
            batch.counts.iter().for_each(|count| samples::count_row(&mut tables.counts, *line, &host, count));
        }
        if chosen.has(Table::Hits) {
            batch.hits.iter().for_each(|hit| samples::hit_row(&mut tables.hits, *line, names, node, hit));
        }
        if chosen.has(Table::Heads) {
            batch.heads.iter().for_each(|head| samples::head_row(&mut tables.heads, *line, names, node, head));
        }
        for sum in &batch.synthesis {
            if chosen.has(Table::Sums) {
                sums::sum_row(&mut tables.sums, *line, names, node, sum);
            }
            if chosen.has(Table::Histograms) {
                sums::histogram_rows(&mut tables.histograms, *line, &host, sum);
            }
        }
        self.new_flows = new;
    }

    fn closed_exchanges(&mut self) {
        let Rows { chosen, line, names, nodes, closed, .. } = self;
        for exchange in closed.drain(..) {
            // An exchange belongs to its requester's node, or to the only one that saw it.
            let end = if exchange.requester.flow.is_none() { &exchange.responder } else { &exchange.requester };
            let Some(tables) = nodes.get_mut(usize::from(end.node)) else { continue };
            let (rows, nested) = &mut **tables.exchanges.get_or_insert_default();
            if chosen.has(Table::Exchanges) {
                exchanges::exchange_row(rows, *line, names, &exchange);
            }
            if chosen.has(Table::Nested) {
                exchanges::nested_rows(nested, *line, &exchange);
            }
        }
    }

    fn journey(&mut self, journey: &Journey, context: &dyn Context) {
        let Rows { chosen, line, names, nodes, .. } = self;
        if chosen.has(Table::Hops) {
            let key = wire::key(journey, context.sent_flow(journey), context.received_flow(journey));
            hops::hop_rows(nodes, *line, names, journey, context, key);
        }
        if chosen.has(Table::Journeys) {
            // A journey belongs to its sender's node, or to the only one that saw it.
            let node = if journey.tx_flow.is_none() { journey.rx_node } else { journey.tx_node };
            if let Some(tables) = nodes.get_mut(usize::from(node)) {
                let Node { journeys, common, .. } = tables;
                journeys::journey_row(journeys, &mut common.journeys, *line, names, journey, context);
            }
        }
    }
}

fn some_id(id: FlowId) -> Option<u64> {
    Some(id.0).filter(|id| *id != 0)
}

fn some_u32(n: u32) -> Option<u32> {
    Some(n).filter(|n| *n != 0)
}

/// The protocol name, without allocation for common ones.
pub(in crate::table) fn proto(proto: magscope_core::Proto) -> std::borrow::Cow<'static, str> {
    use magscope_core::Proto;
    match proto {
        Proto::TCP => "tcp".into(),
        Proto::UDP => "udp".into(),
        other => other.to_string().into(),
    }
}

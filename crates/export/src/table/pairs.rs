//! Each journey's time between two hops, for the table function `hop_pair` of queries.

use super::definition::columns;
use super::rows::proto;
use crate::error::ExportError;
use crate::names::Names;
use crate::timeline::TimeLine;
use crate::wire;
use arrow::array::RecordBatch;
use magscope_core::context::Context;
use magscope_core::node::NodeInfo;
use magscope_core::{Hop, Journey};

/// Rows per batch.
const BATCH_ROWS: usize = 8 << 10;

/// Rows of one pair of hops.
pub struct Pairs {
    from: Hop,
    to: Hop,
    line: TimeLine,
    names: Names,
    /// Restriction to journeys from this host or namespace to that one.
    nodes: Option<(String, String)>,
    rows: columns::Pairs,
}

impl Pairs {
    /// Rows from one hop to another, of these nodes.
    pub fn new(infos: &[NodeInfo], line: TimeLine, from: Hop, to: Hop) -> Self {
        Pairs { from, to, line, names: Names::new(infos), nodes: None, rows: columns::Pairs::default() }
    }

    /// Restricts to journeys from one host or namespace to another.
    #[must_use]
    pub fn of_nodes(mut self, from: &str, to: &str) -> Self {
        self.nodes = Some((from.to_owned(), to.to_owned()));
        self
    }

    /// Adds a journey that passed both hops, if the time between them is defined.
    pub fn journey(&mut self, journey: &Journey, context: &dyn Context) {
        let Some((lower_ns, upper_ns)) = journey.bounds_between_ns(self.from, self.to) else { return };
        let (Some(ns), Some(at)) = (journey.between_ns(self.from, self.to), journey.rung(self.from)) else {
            return;
        };
        let (tx, rx) = (context.tx_flow(journey), context.rx_flow(journey));
        if let Some((from, to)) = &self.nodes {
            let mut is = |node: u16, flow: Option<&magscope_core::Flow>, name: &str| {
                flow.is_some_and(|flow| {
                    *self.names.host_of(node, flow.netns) == *name
                        || *self.names.place(node, flow.netns) == *name
                })
            };
            if !is(journey.tx_node, tx, from) || !is(journey.rx_node, rx, to) {
                return;
            }
        }
        let key = wire::key(journey, tx, rx);
        let rows = &mut self.rows;
        rows.rows += 1;
        rows.ts_ns.push_signed(self.line.ns(at.time_ns));
        rows.ts.push(self.line.utc_ns(at.time_ns));
        rows.journey.push(journey.id);
        rows.ns.push(ns);
        rows.half_width_ns.push(journey.half_width_ns(self.from, self.to));
        rows.proto.push(&proto(journey.proto));
        rows.bytes.push(journey.bytes());
        rows.verdict.push(journey.verdict.name());
        rows.whole.push(journey.verdict.is_whole());
        rows.tx_host.push(&tx.map(|flow| self.names.host_of(journey.tx_node, flow.netns)).unwrap_or_default());
        rows.tx_netns_name
            .push(&tx.map(|flow| self.names.place(journey.tx_node, flow.netns)).unwrap_or_default());
        rows.rx_host.push(&rx.map(|flow| self.names.host_of(journey.rx_node, flow.netns)).unwrap_or_default());
        rows.rx_netns_name
            .push(&rx.map(|flow| self.names.place(journey.rx_node, flow.netns)).unwrap_or_default());
        rows.sender.push(context.sender(journey).map_or("", |task| task.comm.as_str()));
        rows.reader.push(context.reader(journey).map_or("", |task| task.comm.as_str()));
        rows.wire_key.push(key);
        rows.wire_bucket.push(key.map(wire::bucket));
        rows.lower_ns.push(lower_ns);
        rows.upper_ns.push(upper_ns);
    }

    /// Returns a full batch, or with `all` any rows.
    pub fn take(&mut self, all: bool) -> Result<Option<RecordBatch>, ExportError> {
        if self.rows.rows >= BATCH_ROWS || all && self.rows.rows > 0 {
            return Ok(Some(self.rows.finish()?));
        }
        Ok(None)
    }
}

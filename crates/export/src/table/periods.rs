//! Synthesis: counts, bytes and latencies per period, hop and group.
//!
//! Percentiles exist only for hops as a whole. Flows, processes and cgroups have mean, deviation, minimum and
//! maximum, so that memory is bounded for any number of them.

use super::definition::{Table, columns};
use crate::Chosen;
use crate::error::ExportError;
use crate::format::tables::TableWriter;
use crate::names::Names;
use crate::output::{Export, Written};
use crate::timeline::TimeLine;
use magscope_core::context::Context;
use magscope_core::journey::Latency;
use magscope_core::merged_reader::Piece;
use magscope_core::node::NodeInfo;
use magscope_core::stats::HopPairStats;
use magscope_core::{Direction, Hop, Journey};
use std::collections::BTreeMap;

/// Maximum number of periods open for late journeys.
const OPEN: usize = 32;
/// Maximum number of groups per period; further ones share one group.
const GROUPS: usize = 4_096;
const OTHERS: &str = "(others)";

/// Grouping criterion.
const HOP: &str = "hop";
const FLOW: &str = "flow";
const PROCESS: &str = "process";
const CGROUP: &str = "cgroup";

/// Node, criterion, group, hop.
type Key = (u16, &'static str, String, Hop);

/// Sums of a group.
#[derive(Default)]
struct Sum {
    journeys: u64,
    bytes: u64,
    n: u64,
    mean: f64,
    /// Sum of squares of differences from the mean (Welford, 1962).
    squares: f64,
    min: u64,
    max: u64,
    /// The largest error of the latencies.
    half_width_ns: u64,
    percentiles: Option<Box<HopPairStats>>,
}

impl Sum {
    fn latency(&mut self, Latency { ns, half_width_ns, .. }: Latency) {
        self.n += 1;
        self.half_width_ns = self.half_width_ns.max(half_width_ns);
        let off = ns as f64 - self.mean;
        self.mean += off / self.n as f64;
        self.squares += off * (ns as f64 - self.mean);
        self.min = if self.n == 1 { ns } else { self.min.min(ns) };
        self.max = self.max.max(ns);
    }
}

/// An export of sums over time.
pub struct Periods<W> {
    every_ns: i64,
    line: TimeLine,
    chosen: Chosen,
    names: Names,
    open: BTreeMap<i64, BTreeMap<Key, Sum>>,
    /// Maximum number of open periods.
    most_open: usize,
    /// Periods before this are written.
    written_to: Option<i64>,
    late: u64,
    rows: columns::Periods,
    count: u64,
    writer: W,
}

impl<W: TableWriter> Periods<W> {
    /// One row per period of `every_ns`, hop and group.
    pub fn new(infos: &[NodeInfo], line: TimeLine, chosen: Chosen, every_ns: u64, writer: W) -> Self {
        Periods {
            every_ns: i64::try_from(every_ns).unwrap_or(i64::MAX).max(1),
            line,
            chosen,
            names: Names::new(infos),
            open: BTreeMap::new(),
            most_open: OPEN,
            written_to: None,
            late: 0,
            rows: columns::Periods::default(),
            count: 0,
            writer,
        }
    }

    /// Limits the number of open periods, for earlier output.
    #[must_use]
    pub fn keeping_open(mut self, most: usize) -> Self {
        self.most_open = most.clamp(1, OPEN);
        self
    }

    fn journey(&mut self, journey: &Journey, context: &dyn Context) {
        let ends = context.tx_flow(journey).map(|f| (f.local, f.remote));
        let ends = ends.or_else(|| context.rx_flow(journey).map(|f| (f.remote, f.local)));
        let flow = ends.map(|(from, to)| format!("{} {from}→{to}", journey.proto));
        let task = |sent: bool| if sent { context.sender(journey) } else { context.reader(journey) };
        for (rung, span) in journey.spans() {
            let latency = span.filter(|span| !span.is_wait && journey.verdict.is_whole());
            // A journey counts once per hop, whatever the number of copies.
            let counts = rung.copy == 0 || rung.copy == journey.copy;
            let sent = rung.hop.direction() == Direction::Tx;
            let node = if sent { journey.tx_node } else { journey.rx_node };
            let mut at = self.line.ns(rung.time_ns).div_euclid(self.every_ns);
            if let Some(written_to) = self.written_to.filter(|to| at < *to) {
                // Too late for its period, but not lost.
                self.late += 1;
                at = written_to;
            }
            let groups = self.open.entry(at).or_default();
            let mut add = |by: &'static str, name: &str| {
                let full = groups.len() >= GROUPS;
                let mut key = (node, by, name.to_owned(), rung.hop);
                if full && by != HOP && !groups.contains_key(&key) {
                    OTHERS.clone_into(&mut key.2);
                }
                let sum = groups.entry(key).or_default();
                if counts {
                    sum.journeys += 1;
                    sum.bytes = sum.bytes.saturating_add(journey.bytes());
                }
                if let Some(latency) = latency {
                    sum.latency(latency);
                    if by == HOP {
                        sum.percentiles.get_or_insert_default().record(latency.ns);
                    }
                }
            };
            add(HOP, rung.hop.name());
            if let Some(flow) = &flow {
                add(FLOW, flow);
            }
            if let Some(task) = task(sent) {
                add(PROCESS, &format!("{} {}", task.comm, task.tgid));
                let path = context.info(node).and_then(|info| info.cgroup_path(task.cgroup));
                add(CGROUP, &path.map_or_else(|| task.cgroup.to_string(), str::to_owned));
            }
        }
    }

    fn close(&mut self, keep: usize) -> Result<(), ExportError> {
        while self.open.len() > keep {
            let Some((at, groups)) = self.open.pop_first() else { break };
            self.written_to = Some(at.saturating_add(1));
            for ((node, by, name, hop), sum) in groups {
                self.row(at, node, by, &name, hop, &sum);
            }
        }
        if self.rows.rows >= 8_192 || keep == 0 { self.hand_over() } else { Ok(()) }
    }

    fn hand_over(&mut self) -> Result<(), ExportError> {
        if self.rows.rows > 0 {
            let batch = self.rows.finish()?;
            self.count += batch.num_rows() as u64;
            self.writer.rows(Table::Periods, 0, &batch)?;
        }
        Ok(())
    }

    fn row(&mut self, at: i64, node: u16, by: &str, name: &str, hop: Hop, sum: &Sum) {
        let rows = &mut self.rows;
        let ns = at.saturating_mul(self.every_ns);
        let measured = sum.n > 0;
        rows.rows += 1;
        rows.ts_ns.push_signed(ns);
        rows.ts.push(self.line.to_utc_ns.map(|_| ns));
        rows.every_ns.push_signed(self.every_ns);
        rows.host.push(&self.names.host(node));
        rows.group_by.push(by);
        rows.name.push(name);
        rows.hop.push(hop.name());
        rows.journeys.push(sum.journeys);
        rows.bytes.push(sum.bytes);
        rows.latencies.push(sum.n);
        rows.mean_ns.push(measured.then_some(sum.mean));
        rows.stddev_ns.push((sum.n > 1).then(|| (sum.squares / (sum.n - 1) as f64).max(0.0).sqrt()));
        rows.min_ns.push(measured.then_some(sum.min));
        let quantiles = sum.percentiles.as_ref().and_then(|p| p.quantiles());
        rows.p50_ns.push(quantiles.map(|q| q.p50_ns));
        rows.p90_ns.push(quantiles.map(|q| q.p90_ns));
        rows.p99_ns.push(quantiles.map(|q| q.p99_ns));
        rows.max_ns.push(measured.then_some(sum.max));
        rows.half_width_ns.push(measured.then_some(sum.half_width_ns));
    }
}

impl<W: TableWriter> Export for Periods<W> {
    fn piece(&mut self, piece: &Piece<'_>) -> Result<(), ExportError> {
        let Piece::Journey(journey, _, context) = piece else { return Ok(()) };
        if self.chosen.wants(journey, *context) {
            self.journey(journey, *context);
        }
        if self.open.len() > self.most_open { self.close(self.most_open) } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        self.hand_over()?;
        self.writer.flush()
    }

    fn finish(&mut self) -> Result<Written, ExportError> {
        self.close(0)?;
        self.writer.finish()?;
        let late =
            ("passes of hops came too late for their stretch and count in a later one".into(), self.late);
        Ok(Written {
            rows: vec![("rows", self.count)],
            left_out: if self.late > 0 { vec![late] } else { Vec::new() },
        })
    }
}

//! Synthesis: counts, bytes and latencies per period, hop and group.
//!
//! Percentiles exist only for hops as a whole. Flows, processes and cgroups have mean, deviation, minimum and
//! maximum, so that memory is bounded for any number of them. The parts of the time are those of the report.

use super::definition::{Table, columns};
use crate::Chosen;
use crate::error::ExportError;
use crate::format::tables::TableWriter;
use crate::names::Names;
use crate::output::{Export, Written};
use crate::timeline::TimeLine;
use magscope_core::blame::{self, Blame, Part};
use magscope_core::context::Context;
use magscope_core::node::NodeInfo;
use magscope_core::{Direction, Hop, Journey, Proto};
use magscope_report::stats::HopPairStats;
use magscope_timeline::merged_reader::Piece;
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
/// The parts of the time of journeys with a seen end: [`Part`]. Their rows have no hop.
const PART: &str = "part";

/// Node, criterion, group, hop, protocol.
type Key = (u16, &'static str, String, Option<Hop>, Proto);

/// True for a part of the sender's host; the others are in the rows of the receiver's.
const fn is_senders(part: Part) -> bool {
    match part {
        Part::SenderStack | Part::SendQueue | Part::ReceiveWindow | Part::Retransmission => true,
        Part::Wire
        | Part::Forwarding
        | Part::ReceiverStack
        | Part::HeadOfLine
        | Part::Scheduler
        | Part::ReaderAway
        | Part::Reading
        | Part::Unknown => false,
    }
}

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
    /// The interval that holds all of them.
    bounds_ns: (u64, u64),
    percentiles: Option<Box<HopPairStats>>,
}

impl Sum {
    fn count(&mut self, journey: &Journey) {
        self.journeys += 1;
        self.bytes = self.bytes.saturating_add(journey.bytes());
    }

    fn latency(&mut self, ns: u64, half_width_ns: u64, (lower_ns, upper_ns): (u64, u64)) {
        self.n += 1;
        let least_ns = if self.n == 1 { lower_ns } else { self.bounds_ns.0.min(lower_ns) };
        self.bounds_ns = (least_ns, self.bounds_ns.1.max(upper_ns));
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

    /// The groups of the interval of an instant, or of the first one that is not written yet.
    fn at(&mut self, time_ns: u64) -> &mut BTreeMap<Key, Sum> {
        let mut at = self.line.ns(time_ns).div_euclid(self.every_ns);
        if let Some(written_to) = self.written_to.filter(|to| at < *to) {
            // Too late for its period, but not lost.
            self.late += 1;
            at = written_to;
        }
        self.open.entry(at).or_default()
    }

    /// The parts of its time, in the interval of its end.
    fn parts(&mut self, journey: &Journey) {
        let Some(end_ns) = journey.end_ns().filter(|_| journey.verdict.is_whole()) else { return };
        let served = blame::served(journey, self.names.infos());
        let Some(blame) = Blame::of(journey, served) else { return };
        let groups = self.at(end_ns);
        for (part, ns) in blame.parts() {
            let node = if is_senders(part) { journey.tx_node } else { journey.rx_node };
            let sum = groups.entry((node, PART, part.words().to_owned(), None, journey.proto)).or_default();
            sum.count(journey);
            let is_between = matches!(part, Part::Wire | Part::Unknown);
            let (half_width_ns, bounds_ns) = if is_between {
                let (below_ns, above_ns) = journey.total_errors_ns();
                (below_ns.max(above_ns), (ns.saturating_sub(below_ns), ns.saturating_add(above_ns)))
            } else {
                (0, (ns, ns))
            };
            sum.latency(ns, half_width_ns, bounds_ns);
            sum.percentiles.get_or_insert_default().record(ns);
        }
    }

    fn journey(&mut self, journey: &Journey, context: &dyn Context) {
        self.parts(journey);
        let ends = context.tx_flow(journey).map(|f| (f.local, f.remote));
        let ends = ends.or_else(|| context.rx_flow(journey).map(|f| (f.remote, f.local)));
        let flow = ends.map(|(from, to)| format!("{} {from}→{to}", journey.proto));
        let task = |sent: bool| if sent { context.sender(journey) } else { context.reader(journey) };
        for (rung, span) in journey.spans() {
            let latency = span.filter(|span| !span.is_wait && journey.verdict.is_whole());
            // A journey counts once per hop, whatever the number of copies.
            let counts = rung.copy == 0 || rung.copy == journey.copy;
            let (sent, node) = (rung.hop.direction() == Direction::Tx, journey.node_of(&rung));
            let groups = self.at(rung.time_ns);
            let mut add = |by: &'static str, name: &str| {
                let full = groups.len() >= GROUPS;
                let mut key = (node, by, name.to_owned(), Some(rung.hop), journey.proto);
                if full && by != HOP && !groups.contains_key(&key) {
                    OTHERS.clone_into(&mut key.2);
                }
                let sum = groups.entry(key).or_default();
                if counts {
                    sum.count(journey);
                }
                if let Some(latency) = latency {
                    sum.latency(latency.ns, latency.half_width_ns, latency.bounds_ns);
                    if by == HOP {
                        sum.percentiles.get_or_insert_default().record(latency.ns);
                    }
                }
            };
            add(HOP, rung.hop.name());
            if let Some(flow) = &flow {
                add(FLOW, flow);
            }
            if let Some(task) = task(sent).filter(|_| rung.forwarder == 0) {
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
            for (key, sum) in groups {
                self.row(at, &key, &sum);
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

    fn row(&mut self, at: i64, (node, by, name, hop, proto): &Key, sum: &Sum) {
        let rows = &mut self.rows;
        let ns = at.saturating_mul(self.every_ns);
        let measured = sum.n > 0;
        rows.rows += 1;
        rows.ts_ns.push_signed(ns);
        rows.ts.push(self.line.to_utc_ns.map(|_| ns));
        rows.every_ns.push_signed(self.every_ns);
        rows.host.push(&self.names.host(*node));
        rows.group_by.push(by);
        rows.name.push(name);
        rows.hop.push(hop.map_or("", Hop::name));
        rows.proto.push(&super::rows::proto(*proto));
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
        rows.lower_ns.push(measured.then_some(sum.bounds_ns.0));
        rows.upper_ns.push(measured.then_some(sum.bounds_ns.1));
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

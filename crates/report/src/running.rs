//! The running average of each flow's received data, compared with its average over the complete capture.

use super::figures::{beyond_bound, count, fit, heights, plural, rate, wrap};
use super::groups::FlowEnds;
use crate::stats::heaviest::{Heaviest, Weighed};
use crate::stats::running::{Point, Running, Window};
use magscope_core::event::{Event, EventFlags};
use magscope_core::flow::{Flow, FlowId};
use magscope_core::hash::Map;
use magscope_core::hop::{Hop, HopSet};
use serde::Serialize;
use std::fmt::{self, Write};

/// Maximum number of entries of all windows together, 16 bytes each: it limits the number of tracked flows.
const MOST_ENTRIES: usize = 4 << 20;
/// Maximum number of threads with stored names.
const MOST_NAMES: usize = 1 << 16;
/// Columns of a drawing.
const COLUMNS: usize = 64;

/// Running averages of received data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunningTable {
    /// Receives in the window; `None` for a window of time.
    pub window_receives: Option<u32>,
    /// Length of the window, nanoseconds; `None` for a window of receives.
    pub window_ns: Option<u64>,
    /// The hops whose events are the receives.
    pub hops: Vec<Hop>,
    /// All flows together.
    pub all: RunningRow,
    /// The flows with the most bytes received.
    pub rows: Vec<RunningRow>,
    /// Number of flows outside the rows; an evicted flow that returned counts each time.
    pub others: u64,
    /// Receives of those.
    pub other_receives: u64,
    /// Bytes of those.
    pub other_bytes: u64,
    /// Maximum number of remembered flows, if there were more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<u64>,
}

/// The running average of one flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunningRow {
    /// The flow; a socket without a peer has a reader and no addresses.
    #[serde(flatten)]
    pub ends: FlowEnds,
    /// Receives.
    pub receives: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Bytes per second from the first receive to the last.
    pub overall_bytes_per_s: Option<f64>,
    /// Minimum of the running average; `None` without a full window.
    pub lowest: Option<Point>,
    /// Maximum of the running average.
    pub highest: Option<Point>,
    /// Final value.
    pub latest: Option<Point>,
    /// The running average over time, one point per a number of receives.
    pub series: Vec<Point>,
    /// True if it was first seen after evictions and may be an evicted flow: part of it may be among the
    /// others.
    pub may_be_more: bool,
    /// True if all rates here are estimates, because a sampler left events out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

/// A flow, or a socket without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Key {
    Flow(u16, FlowId),
    Socket(u16, u64),
}

#[derive(Clone, Debug, Default)]
struct Sum {
    ends: FlowEnds,
    running: Option<Running>,
    receives: u64,
    bytes: u64,
}

impl Weighed for Sum {
    fn weight(&self) -> u64 {
        self.bytes
    }

    /// Running averages cannot be added; the counts can.
    fn merge(&mut self, other: &Self) {
        self.receives += other.receives;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Tracks received data. Memory is bounded.
#[derive(Clone, Debug)]
pub(super) struct Receives {
    window: Window,
    hops: HopSet,
    all: Running,
    sums: Heaviest<Key, Sum>,
    names: Map<(u16, u32), String>,
}

impl Receives {
    /// Uses the uppermost of the served hops that receive bytes.
    pub fn new(window: Window, served: HopSet) -> Self {
        let uppermost: [&[Hop]; 4] =
            [&[Hop::AppRecv], &[Hop::AppCopy], &[Hop::TcpRecv, Hop::UdpRecv], &[Hop::DevRecv]];
        let served = |hops: &&[Hop]| hops.iter().any(|hop| served.contains(*hop));
        let hops = uppermost.into_iter().find(served).unwrap_or(&[Hop::AppRecv]).iter().copied().collect();
        let flows = (MOST_ENTRIES / window.entries()).clamp(16, 1024);
        Receives { window, hops, all: Running::new(window), sums: Heaviest::new(flows), names: Map::default() }
    }

    /// Stores the name of a thread.
    pub fn name(&mut self, thread: (u16, u32), comm: &str) {
        if self.names.len() >= MOST_NAMES {
            self.names.clear(); // they are announced again periodically
        }
        self.names.insert(thread, comm.to_owned());
    }

    /// Counts an event of a recording, if it is a receive. `flow` and `place` describe the place of its
    /// arrival, if known.
    pub fn event(
        &mut self,
        node: u16,
        event: &Event,
        flow: Option<&Flow>,
        place: impl FnOnce() -> Option<String>,
    ) {
        let looked = event.peeks() || event.flags.contains(EventFlags::FRAGMENT);
        if !self.hops.contains(event.hop) || event.len == 0 || looked {
            return;
        }
        let bytes = u64::from(event.len);
        self.all.receive(event.time_ns, bytes);
        let key =
            if event.flow.is_none() { Key::Socket(node, event.socket) } else { Key::Flow(node, event.flow) };
        let (window, names) = (self.window, &self.names);
        let sum = self.sums.entry(key);
        sum.running.get_or_insert_with(|| Running::new(window)).receive(event.time_ns, bytes);
        sum.receives += 1;
        sum.bytes = sum.bytes.saturating_add(bytes);
        let ends = &mut sum.ends;
        (ends.id, ends.proto) = (event.flow, event.proto);
        if let Some(flow) = flow.filter(|_| ends.to.is_empty()) {
            (ends.from, ends.to) = (flow.remote.to_string(), flow.local.to_string());
        }
        if ends.to_node.is_empty()
            && let Some(place) = place()
        {
            ends.to_node = place;
        }
        if let Some(name) = names.get(&(node, event.tid)).filter(|_| ends.reader.is_empty()) {
            ends.reader.clone_from(name);
        }
    }

    /// The table. A byte at a hop has the weight `weight`; `whole_flows` is true if the recorded flows are
    /// complete.
    pub fn finish(self, top: usize, weight: impl Fn(Hop) -> f64, whole_flows: bool) -> RunningTable {
        // two hops, of TCP and UDP: the larger weight is used for both
        let all = self.hops.iter().map(weight).fold(1.0, f64::max);
        let own = if whole_flows { 1.0 } else { all };
        let row = |ends: FlowEnds, running: &Running, weight: f64| {
            let scaled = |point: Point| Point { bytes_per_s: point.bytes_per_s * weight, ..point };
            RunningRow {
                ends,
                receives: running.receives,
                bytes: running.bytes,
                overall_bytes_per_s: running.overall_bytes_per_s().map(|per_s| per_s * weight),
                lowest: running.lowest.map(scaled),
                highest: running.highest.map(scaled),
                latest: running.latest.map(scaled),
                series: running.points().iter().copied().map(scaled).collect(),
                may_be_more: false,
                estimated: weight > 1.0,
            }
        };
        let ranking = self.sums.ranking(top);
        let rows = ranking.rows.into_iter().filter_map(|entry| {
            let running = entry.value.running?;
            Some(RunningRow { may_be_more: entry.may_be_more, ..row(entry.value.ends, &running, own) })
        });
        let (window_receives, window_ns) = match self.window {
            Window::Receives(n) => (Some(n), None),
            Window::Time(ns) => (None, Some(ns)),
        };
        RunningTable {
            window_receives,
            window_ns,
            hops: self.hops.iter().collect(),
            all: row(FlowEnds::default(), &self.all, all),
            rows: rows.collect(),
            others: ranking.others,
            other_receives: ranking.rest.receives,
            other_bytes: ranking.rest.bytes,
            bound: ranking.bound,
        }
    }
}

/// The section as text. The capture began at `start_ns` and ended at `end_ns`.
pub(super) fn write(
    out: &mut String,
    table: &RunningTable,
    start_ns: u64,
    end_ns: u64,
    width: usize,
) -> fmt::Result {
    let window = match (table.window_receives, table.window_ns) {
        (Some(n), _) => plural(u64::from(n), "receive", "receives"),
        (None, ns) => super::figures::time(ns.unwrap_or_default()).trim().to_owned(),
    };
    let name_width = width.saturating_sub(54).clamp(20, 60);
    writeln!(
        out,
        "\n{:<name_width$} {:>9} {:>10} {:>10} {:>10} {:>10}",
        format!("over the last {window}"),
        "receives",
        "overall",
        "lowest",
        "highest",
        "at the end"
    )?;
    if table.all.receives == 0 {
        return writeln!(out, "Nothing was received.");
    }
    row(out, "all of them", &table.all, [name_width, width], (start_ns, end_ns))?;
    for flow in &table.rows {
        let ends = &flow.ends;
        let name = match (ends.from.is_empty(), ends.reader.is_empty()) {
            (false, _) => format!("{} {}", ends.proto, ends.from),
            (true, false) => format!("{}, read by {}", ends.proto, ends.reader),
            (true, true) => format!("{}, not known", ends.proto),
        };
        row(out, &name, flow, [name_width, width], (start_ns, end_ns))?;
    }
    if table.others > 0 {
        let others = plural(table.others, "flow", "flows");
        let bytes = super::figures::bytes(table.other_bytes);
        let receives = plural(table.other_receives, "receive", "receives");
        wrap(out, &format!("and {others} with fewer bytes: {receives}, {}", bytes.trim()), width, "  ")?;
    }
    if let Some(words) = beyond_bound(table.bound, table.rows.len(), "flows", "bytes") {
        wrap(out, &words, width, "  ")?;
    }
    let hops = table.hops.iter().map(|hop| hop.name()).collect::<Vec<_>>().join(" and ");
    let explanation = format!(
        "Receives are those of {hops}. Overall is from a flow's first receive to its last; · where the window was \
         never full. Each drawing has its own scale, up to its highest."
    );
    wrap(out, &explanation, width, "")
}

fn row(
    out: &mut String,
    name: &str,
    row: &RunningRow,
    [name_width, width]: [usize; 2],
    span: (u64, u64),
) -> fmt::Result {
    let rate_or_dot =
        |per_s: Option<f64>| per_s.map_or_else(|| format!("{:>10}", "·"), |per_s| rate(per_s, row.estimated));
    let at = |point: Option<Point>| rate_or_dot(point.map(|point| point.bytes_per_s));
    writeln!(
        out,
        "{:<name_width$} {:>9} {} {} {} {}",
        fit(name, name_width),
        count(row.receives),
        rate_or_dot(row.overall_bytes_per_s),
        at(row.lowest),
        at(row.highest),
        at(row.latest)
    )?;
    if !row.ends.to.is_empty() {
        let reader = if row.ends.reader.is_empty() { "?" } else { &row.ends.reader };
        writeln!(out, "{}", fit(&format!("  → {}  ({reader}@{})", row.ends.to, row.ends.to_node), width))?;
    }
    if row.may_be_more {
        writeln!(out, "  part of it may be among the others")?;
    }
    if let Some(highest) = row.highest {
        let line = heights(&columns(&row.series, span), highest.bytes_per_s);
        writeln!(out, "  {}", line.trim_end())?;
    }
    Ok(())
}

/// The mean of the points in each column; the previous value for an empty column, until the last point.
fn columns(series: &[Point], (start_ns, end_ns): (u64, u64)) -> Vec<f64> {
    let width = (end_ns.saturating_sub(start_ns) as f64 + 1.0) / COLUMNS as f64;
    let column = |point: &Point| (point.time_ns.saturating_sub(start_ns) as f64 / width) as usize;
    let (Some(first), Some(last)) = (series.first(), series.last()) else { return vec![0.0; COLUMNS] };
    let (mut out, mut before) = (vec![0.0; COLUMNS], 0.0);
    for (at, place) in out.iter_mut().enumerate().take(column(last) + 1).skip(column(first)) {
        let here: Vec<f64> = series.iter().filter(|p| column(p) == at).map(|p| p.bytes_per_s).collect();
        if !here.is_empty() {
            before = here.iter().sum::<f64>() / here.len() as f64;
        }
        *place = before;
    }
    out
}

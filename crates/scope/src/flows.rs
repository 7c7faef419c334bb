//! The flow table: load, times and blame of each direction of a connection.

use crate::lifeline::Lifeline;
use crate::look::{FlowOrder, FlowRow, FlowTable, Percentiles, SummedFlow};
use crate::names::{Names, NetnsKey};
use crate::pyramid::Tile;
use magscope_core::blame::{Blame, Part};
use magscope_core::context::Context;
use magscope_core::synthesis::Synthesis;
use magscope_core::{Direction, Endpoint, FlowId, HopSet, Proto, Verdict};
use magscope_report::stats::heaviest::{Heaviest, Weighed};
use std::collections::HashMap;

/// Maximum number of flows with an entry of their own, about 1.5 kB each: the heaviest by time, bytes and
/// errors. The others are counted together.
pub const MOST: usize = 4096;
/// Stretches of the trend.
const TREND: usize = 24;
/// Length of each interval, nanoseconds.
const TREND_NS: u64 = 500_000_000;

#[derive(Clone, Default)]
struct Page {
    proto: Proto,
    ends: Option<(Endpoint, Endpoint)>,
    route: String,
    processes: (String, String),
    journeys: u64,
    bad: u64,
    broken: u64,
    resent: u64,
    bytes: u64,
    times: Tile,
    parts_ns: [u64; Part::COUNT],
    /// Number of a stretch and the longest in it.
    trend: [(u64, u64); TREND],
}

/// Weight of a failed journey, nanoseconds and bytes: more than that of a slow one.
const BAD: u64 = 1_000_000_000;

impl Weighed for Page {
    fn weight(&self) -> u64 {
        self.times.sum.saturating_add(self.bytes).saturating_add(self.bad.saturating_mul(BAD))
    }

    // For evicted flows only the number is shown.
    fn merge(&mut self, other: &Self) {
        self.journeys += other.journeys;
    }
}

/// The kernel's sums of a flow at one hop, as an entry of its own.
#[derive(Clone, Default)]
struct Summed {
    proto: Proto,
    /// Sender and receiver.
    ends: Option<(Endpoint, Endpoint)>,
    netns_name: String,
    packets: u64,
    bytes: u64,
    lately: Interval,
}

/// Counts of one interval.
#[derive(Clone, Copy, Default)]
struct Interval {
    from_ns: u64,
    to_ns: u64,
    packets: u64,
    bytes: u64,
}

/// Maximum age of a current interval.
const LATELY_NS: u64 = 3_000_000_000;

impl Summed {
    fn shown(&self, newest_ns: u64) -> SummedFlow {
        let last = &self.lately;
        let s = last.to_ns.saturating_sub(last.from_ns).max(1_000_000) as f64 / 1e9;
        let is_of_lately = last.to_ns.saturating_add(LATELY_NS) >= newest_ns;
        let rate = |n: u64| if is_of_lately { n as f64 / s } else { 0.0 };
        SummedFlow {
            packets: self.packets,
            bytes: self.bytes,
            packets_per_s: rate(last.packets),
            bytes_per_s: rate(last.bytes),
        }
    }
}

impl Weighed for Summed {
    fn weight(&self) -> u64 {
        self.bytes.saturating_add(self.packets)
    }

    fn merge(&mut self, other: &Self) {
        self.packets = self.packets.saturating_add(other.packets);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Recording, flow, and true for the sending side.
type SumKey = (u16, FlowId, bool);

/// The flow table.
pub struct Flows {
    pages: Heaviest<FlowId, Page>,
    sums: Heaviest<SumKey, Summed>,
    newest_ns: u64,
    /// The end of the newest interval.
    summed_ns: u64,
}

impl Default for Flows {
    fn default() -> Self {
        Flows { pages: Heaviest::new(MOST), sums: Heaviest::new(MOST), newest_ns: 0, summed_ns: 0 }
    }
}

/// The data of a row: a page of journeys, the kernel's sums, or both.
struct Entry<'f> {
    flow: FlowId,
    page: Option<&'f Page>,
    summed: Option<&'f Summed>,
}

impl Flows {
    /// Enters a journey.
    pub fn journey(&mut self, line: &Lifeline, served: HopSet, names: &Names) {
        let journey = &line.journey;
        let flow = if journey.tx_flow.is_none() { journey.rx_flow } else { journey.tx_flow };
        let page = self.pages.entry(flow);
        if page.journeys == 0 {
            (page.proto, page.ends) = (journey.proto, line.ends);
            page.route = format!("{} → {}", names.netns_name(line.from), names.netns_name(line.to));
        }
        let comm = |node, who: Option<magscope_core::journey::ThreadRef>| names.comm(node, who?.tid);
        for (place, name) in [
            (&mut page.processes.0, comm(journey.tx_node, journey.sender)),
            (&mut page.processes.1, comm(journey.rx_node, journey.reader)),
        ] {
            if place.is_empty()
                && let Some(name) = name
            {
                name.clone_into(place);
            }
        }
        page.journeys += 1;
        page.bad += u64::from(line.is_bad());
        page.broken += u64::from(matches!(journey.verdict, Verdict::BrokenByEventLoss { .. }));
        page.resent += u64::from(journey.retransmits() > 0);
        page.bytes = page.bytes.saturating_add(journey.bytes());
        self.newest_ns = self.newest_ns.max(line.end_ns());
        if !journey.verdict.is_whole() {
            return;
        }
        if let Some(total_ns) = journey.total_ns() {
            page.times.add(total_ns, true);
            let stretch = line.end_ns() / TREND_NS;
            if let Some(place) = page.trend.get_mut(stretch as usize % TREND) {
                if place.0 < stretch {
                    *place = (stretch, 0);
                }
                if place.0 == stretch {
                    place.1 = place.1.max(total_ns);
                }
            }
        }
        if let Some(blame) = Blame::of(journey, served) {
            for (part, ns) in blame.parts() {
                page.parts_ns[part as usize] = page.parts_ns[part as usize].saturating_add(ns);
            }
        }
    }

    /// Adds packets and bytes from the kernel's sums.
    pub fn sum(&mut self, (node, flow, direction): (u16, FlowId, Direction), row: &Synthesis, names: &Names) {
        self.summed_ns = self.summed_ns.max(row.to_ns);
        let sends = direction == Direction::Tx;
        let page = self.sums.entry((node, flow, sends));
        page.packets = page.packets.saturating_add(row.n);
        page.bytes = page.bytes.saturating_add(row.sum);
        if row.to_ns >= page.lately.to_ns {
            page.lately = Interval { from_ns: row.from_ns, to_ns: row.to_ns, packets: row.n, bytes: row.sum };
        }
        if page.ends.is_none()
            && let Some(recorded_flow) = names.flow(node, flow)
        {
            page.proto = recorded_flow.proto;
            page.ends = Some(if sends {
                (recorded_flow.local, recorded_flow.remote)
            } else {
                (recorded_flow.remote, recorded_flow.local)
            });
            page.netns_name = names.netns_name(Some(NetnsKey { node, netns: recorded_flow.netns }));
        }
    }

    /// Takes over from others what the kernel added up.
    pub fn take_sums(&mut self, others: &mut Self) {
        self.sums = std::mem::replace(&mut others.sums, Heaviest::new(MOST));
        self.summed_ns = std::mem::take(&mut others.summed_ns);
    }

    /// All rows. Packets are counted at one hop of each end; with both ends, the sender's count is used.
    fn entries(&self) -> Vec<Entry<'_>> {
        let mut entries: Vec<Entry<'_>> = self
            .pages
            .iter()
            .map(|(flow, page)| Entry { flow: *flow, page: Some(page), summed: None })
            .collect();
        if self.sums.is_empty() {
            return entries;
        }
        let mut of_flow: HashMap<FlowId, usize> = HashMap::new();
        let mut of_ends: HashMap<(Proto, Endpoint, Endpoint), usize> = HashMap::new();
        for (at, entry) in entries.iter().enumerate() {
            of_flow.insert(entry.flow, at);
            if let Some(((from, to), page)) = entry.page.and_then(|page| Some((page.ends?, page))) {
                of_ends.insert((page.proto, from, to), at);
            }
        }
        let mut sums: Vec<_> = self.sums.iter().collect();
        sums.sort_unstable_by_key(|((node, flow, sends), _)| (!sends, *node, *flow));
        for ((_, flow, sends), summed) in sums {
            let ends = summed.ends.map(|(from, to)| (summed.proto, from, to));
            let found = ends.and_then(|ends| of_ends.get(&ends));
            let found = found.or_else(|| of_flow.get(flow).filter(|_| *sends || ends.is_none()));
            if let Some(entry) = found.and_then(|at| entries.get_mut(*at)) {
                entry.summed = entry.summed.or(Some(summed));
                continue;
            }
            if let Some(ends) = ends {
                of_ends.insert(ends, entries.len());
            }
            entries.push(Entry { flow: *flow, page: None, summed: Some(summed) });
        }
        entries
    }

    /// The flows in order, up to a maximum number; `selected` is an index into all of them.
    pub fn table(&self, order: FlowOrder, most: usize, selected: usize) -> FlowTable {
        let mut all = self.entries();
        let rank = |page: &Page| match order {
            FlowOrder::Blame => page.times.sum,
            FlowOrder::P99 => page.times.percentiles().p99_ns,
            FlowOrder::Bytes => page.bytes,
            FlowOrder::Journeys => page.journeys,
            FlowOrder::Bad => page.bad,
        };
        let summed = |entry: &Entry<'_>| entry.summed.map_or(0, |summed| summed.bytes);
        all.sort_by_cached_key(|entry| {
            let own = entry.page.map_or(0, rank);
            // A flow without journeys has only this.
            let bytes = if order == FlowOrder::Bytes { own.max(summed(entry)) } else { own };
            (std::cmp::Reverse((bytes, summed(entry))), entry.flow)
        });
        let first = (selected + 1).saturating_sub(most.max(1));
        let rows = all.iter().enumerate().skip(first).take(most);
        let rows = rows.map(|(at, entry)| self.row(entry, at == selected)).collect();
        FlowTable {
            order,
            rows,
            flows: all.len(),
            first,
            left_out: self.pages.rest().journeys,
            summed: !self.sums.is_empty(),
            packets_left_out: self.sums.rest().packets,
        }
    }

    /// The flow at a place in an order.
    pub fn at(&self, order: FlowOrder, at: usize) -> Option<FlowId> {
        self.table(order, at + 1, at).rows.last().map(|row| row.flow)
    }

    /// Number of flows.
    pub fn len(&self) -> usize {
        if self.sums.is_empty() { self.pages.len() } else { self.entries().len() }
    }

    /// The flow that carried most journeys.
    pub fn busiest(&self) -> Option<FlowId> {
        let busy = self.pages.iter().max_by_key(|(flow, page)| (page.journeys, **flow));
        busy.map(|(flow, _)| *flow)
    }

    fn row(&self, entry: &Entry<'_>, selected: bool) -> FlowRow {
        let (flow, summed) = (entry.flow, entry.summed.map(|summed| summed.shown(self.summed_ns)));
        let Some(page) = entry.page else {
            let sums = entry.summed.cloned().unwrap_or_default();
            return FlowRow {
                flow,
                proto: sums.proto,
                ends: sums.ends,
                route: sums.netns_name,
                processes: <(String, String)>::default(),
                journeys: 0,
                bad: 0,
                broken: 0,
                resent: 0,
                bytes: 0,
                times: Percentiles::default(),
                blame: None,
                trend_max_ns: Vec::new(),
                summed,
                selected,
            };
        };
        let all: f64 = page.parts_ns.iter().map(|ns| *ns as f64).sum();
        let most = Part::ALL.into_iter().max_by_key(|part| page.parts_ns[*part as usize]);
        let blame = most.filter(|_| all > 0.0).map(|part| (part, page.parts_ns[part as usize] as f64 / all));
        let now = self.newest_ns / TREND_NS;
        let trend = (0..TREND as u64).rev().map(|ago| {
            let stretch = now.checked_sub(ago);
            let place = stretch.and_then(|s| page.trend.get(s as usize % TREND).filter(|p| p.0 == s));
            place.map_or(0, |place| place.1)
        });
        FlowRow {
            flow,
            proto: page.proto,
            ends: page.ends,
            route: page.route.clone(),
            processes: page.processes.clone(),
            journeys: page.journeys,
            bad: page.bad,
            broken: page.broken,
            resent: page.resent,
            bytes: page.bytes,
            times: page.times.percentiles(),
            blame,
            trend_max_ns: trend.collect(),
            summed,
            selected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifeline::tests::lifeline;
    use magscope_core::Hop;

    #[test]
    fn flows_are_added_up_ordered_and_bounded() {
        let (mut flows, names) = (Flows::default(), Names::default());
        let line = |id, flow: u64, ns| {
            let mut line = lifeline(id, &[(Hop::DevXmit, id * 1_000), (Hop::DevRecv, id * 1_000 + ns)]);
            line.journey.tx_flow = FlowId(flow);
            line
        };
        for id in 0..100 {
            flows.journey(&line(id, 1, 10), HopSet::all(), &names);
        }
        flows.journey(&line(200, 2, 5_000), HopSet::all(), &names);
        let by_time = flows.table(FlowOrder::Blame, 10, 0);
        assert_eq!(by_time.rows.iter().map(|r| r.flow.0).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(by_time.rows[0].blame, Some((Part::Wire, 1.0)));
        assert_eq!(by_time.rows[0].trend_max_ns.last(), Some(&5_000));
        assert_eq!(
            (by_time.rows[1].journeys, by_time.rows[1].times.n, by_time.rows[1].times.p50_ns),
            (100, 100, 10)
        );
        assert_eq!(flows.table(FlowOrder::Journeys, 1, 0).rows[0].flow, FlowId(1));
        assert_eq!(flows.table(FlowOrder::Journeys, 1, 1).rows[0].flow, FlowId(2), "the selected one is in it");
        assert_eq!((flows.busiest(), flows.at(FlowOrder::Blame, 1)), (Some(FlowId(1)), Some(FlowId(1))));
        for flow in 0..10_000 {
            flows.journey(&line(flow, flow, 1), HopSet::all(), &names);
        }
        let table = flows.table(FlowOrder::Journeys, MOST, 0);
        assert!(flows.len() <= MOST && table.left_out > 0);
        let listed: u64 = table.rows.iter().map(|row| row.journeys).sum();
        assert_eq!(listed + table.left_out, 101 + 10_000, "no journey is forgotten");
        let heavy: Vec<u64> =
            table.rows.iter().map(|row| row.flow.0).filter(|flow| [1, 2].contains(flow)).collect();
        assert_eq!(heavy.len(), 2, "those that came first and are heavy stay");
        // A late, slow flow gets an entry, too.
        flows.journey(&line(20_000, 77_777, 900_000), HopSet::all(), &names);
        assert_eq!(flows.table(FlowOrder::P99, 1, 0).rows[0].flow, FlowId(77_777));
    }
}

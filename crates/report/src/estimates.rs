//! Estimates from complete flows under flow sampling, and their chance error.
//!
//! One flow in `N` is recorded, chosen by a hash of its ends, both directions together. So the total is `N`
//! times the recorded part. With `x` of each connection its standard error is √(N (N − 1) Σ x²). The formula is
//! that of Horvitz and Thompson (1952) for a sample in which each is chosen independently. The error is itself
//! an estimate, and rough for few connections, or for few that have nearly everything. So the report includes
//! their number.

use super::figures::{bytes, count, plural, wrap};
use magscope_core::change::Change;
use magscope_core::event::Event;
use magscope_core::flow::{Flow, FlowId, Proto};
use magscope_core::hash::Map;
use magscope_core::hop::{Hop, HopSet};
use magscope_core::node::NodeInfo;
use magscope_core::sampled::flows_one_in;
use magscope_core::synthesis::rated;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;

/// Maximum number of rows.
const MOST: usize = 1_000;
/// Maximum number of printed rows.
const SHOWN: usize = 8;
/// Maximum number of intervals with disabled hops: a capture at rest has one every ten seconds.
const MOST_OFF: usize = 1 << 18;
/// Maximum number of stretches that an event may still belong to.
const OPEN: usize = 4;
/// Maximum number of distinct connections of one stretch at a hop; the error is computed from these.
const MOST_CONNECTIONS: usize = 1 << 16;

/// The estimate of one stretch with sampled flows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The host.
    pub host: String,
    /// Begin of the stretch, nanoseconds on the time line of the first recording.
    pub from_ns: u64,
    /// End of the stretch.
    pub to_ns: u64,
    /// One of this number of flows was recorded.
    pub one_in: u32,
    /// The hop of the counts.
    pub hop: Hop,
    /// Recorded connections and other flows, both directions together: the basis of the estimate.
    pub connections: u64,
    /// Recorded packets, including those without a flow.
    pub packets: u64,
    /// Their payload.
    pub bytes: u64,
    /// Packets that there were.
    pub all_packets: f64,
    /// The standard error of that.
    pub packets_error: f64,
    /// Payload that there was.
    pub all_bytes: f64,
    /// The standard error of that.
    pub bytes_error: f64,
}

/// The hash input of the flow choice.
type Connection = (Proto, SocketAddr, SocketAddr);

/// Recorded packets at one hop in one stretch.
#[derive(Default)]
struct HopArrivals {
    connections: Map<Connection, (u64, u64)>,
    /// Packets and bytes of flows.
    chosen: (u64, u64),
    /// Packets and bytes without a flow, which are always recorded.
    always: (u64, u64),
}

/// A time with a constant sampling rate.
struct Stretch {
    from_ns: u64,
    to_ns: Option<u64>,
    one_in: u32,
    came: BTreeMap<Hop, HopArrivals>,
}

/// One recording.
struct Node {
    /// Hops that count packets.
    hops: HopSet,
    one_in: u32,
    /// True if it has events.
    has_events: bool,
    /// The disabled hops, with the instant of the change.
    off: BTreeMap<Hop, u64>,
    /// When they were, before.
    were_off: Vec<(Hop, u64, u64)>,
    /// The last stretches: an event may arrive after later changes.
    stretches: VecDeque<Stretch>,
}

/// Tracks the recorded part of the flows.
#[derive(Default)]
pub(super) struct Estimates {
    nodes: Vec<Node>,
    rows: Vec<Estimate>,
}

/// Time of disabled hops, by recording.
#[derive(Default)]
pub(super) struct Off(Vec<BTreeMap<Hop, u64>>);

impl Off {
    /// Time of one hop, nanoseconds.
    pub fn ns(&self, node: usize, hop: Hop) -> u64 {
        self.0.get(node).and_then(|off| off.get(&hop)).copied().unwrap_or(0)
    }
}

/// The results.
pub(super) struct Estimated {
    pub rows: Vec<Estimate>,
    pub off: Off,
}

impl Node {
    fn new(info: &NodeInfo) -> Self {
        let calls = [Hop::AppSend, Hop::AppRecv, Hop::SkbDrop];
        let hops = rated(info.coverage.served()).iter().filter(|hop| !calls.contains(hop)).collect();
        let mut node = Node {
            hops,
            one_in: 1,
            has_events: true,
            off: BTreeMap::new(),
            were_off: Vec::new(),
            stretches: VecDeque::new(),
        };
        for setting in &info.settings {
            node.set(setting, 0);
        }
        node.open(0);
        node
    }

    /// Applies a setting in force from `at_ns` on. True if the sampling rate, the detail or the enabled hops changed.
    fn set(&mut self, what: &str, at_ns: u64) -> bool {
        let before = (self.one_in, self.has_events);
        let named =
            |hops: &str| hops.split(',').filter_map(|hop| hop.trim().parse().ok()).collect::<Vec<Hop>>();
        let mut switched = Vec::new();
        if let Some(one_in) = flows_one_in(what) {
            self.one_in = one_in;
        } else if let Some(detail) = what.strip_prefix("detail ") {
            self.has_events = detail != "histograms";
        } else if let Some(hops) = what.strip_prefix("disable ") {
            switched = named(hops);
            for hop in &switched {
                self.off.entry(*hop).or_insert(at_ns);
            }
        } else if let Some(hops) = what.strip_prefix("enable ") {
            switched = named(hops);
            for hop in &switched {
                let since_ns = self.off.remove(hop).filter(|_| self.were_off.len() < MOST_OFF);
                self.were_off.extend(since_ns.map(|since_ns| (*hop, since_ns, at_ns)));
            }
        }
        before != (self.one_in, self.has_events) || switched.iter().any(|hop| self.hops.contains(*hop))
    }

    fn open(&mut self, from_ns: u64) {
        if self.one_in > 1 && self.has_events {
            let stretch = Stretch { from_ns, to_ns: None, one_in: self.one_in, came: BTreeMap::new() };
            self.stretches.push_back(stretch);
        }
    }

    fn close(&mut self, to_ns: u64) {
        if let Some(last) = self.stretches.back_mut() {
            last.to_ns.get_or_insert(to_ns);
        }
    }
}

impl Stretch {
    fn has(&self, at_ns: u64) -> bool {
        at_ns >= self.from_ns && self.to_ns.is_none_or(|to_ns| at_ns < to_ns)
    }

    /// The estimates at each hop.
    fn rows(&self, host: &str, span: (u64, u64)) -> Vec<Estimate> {
        let row = |(hop, came): (&Hop, &HopArrivals)| {
            let n = f64::from(self.one_in);
            let error = |of: fn(&(u64, u64)) -> u64| {
                let squares: f64 = came.connections.values().map(|sums| (of(sums) as f64).powi(2)).sum();
                (n * (n - 1.0) * squares).sqrt()
            };
            Estimate {
                host: host.to_owned(),
                from_ns: self.from_ns.max(span.0),
                to_ns: self.to_ns.unwrap_or(span.1),
                one_in: self.one_in,
                hop: *hop,
                connections: came.connections.len() as u64,
                packets: came.chosen.0 + came.always.0,
                bytes: came.chosen.1 + came.always.1,
                all_packets: n * came.chosen.0 as f64 + came.always.0 as f64,
                packets_error: error(|sums| sums.0),
                all_bytes: n * came.chosen.1 as f64 + came.always.1 as f64,
                bytes_error: error(|sums| sums.1),
            }
        };
        // Without any connection there is no estimate.
        self.came.iter().filter(|(_, came)| !came.connections.is_empty()).map(row).collect()
    }
}

impl HopArrivals {
    fn count(&mut self, event: &Event, flow: Option<&Flow>) {
        let add = |sums: &mut (u64, u64)| {
            sums.0 += u64::from(event.segs.max(1));
            sums.1 += event.payload_bytes();
        };
        let Some(connection) = flow.and_then(connection) else { return add(&mut self.always) };
        add(&mut self.chosen);
        if self.connections.len() < MOST_CONNECTIONS || self.connections.contains_key(&connection) {
            add(self.connections.entry(connection).or_default());
        }
    }
}

/// The hash input of a flow; `None` if the flow is not sampled, because its protocol has no ports or one end is unknown.
pub(super) fn connection(flow: &Flow) -> Option<Connection> {
    let (near, far) = (flow.local.min(flow.remote), flow.local.max(flow.remote));
    let has_ports = flow.proto.has_ports() && near.port() != 0 && far.port() != 0;
    has_ports.then_some((flow.proto, near, far))
}

impl Estimates {
    /// Adds a recording.
    pub fn join(&mut self, info: &NodeInfo) {
        self.nodes.push(Node::new(info));
    }

    /// Applies a change of a recording.
    pub fn change(&mut self, node: u16, host: &str, change: &Change) {
        let Some(node) = self.nodes.get_mut(usize::from(node)) else { return };
        if !node.set(&change.what, change.to_ns) {
            return;
        }
        node.close(change.from_ns);
        node.open(change.to_ns);
        while node.stretches.len() > OPEN {
            let Some(oldest) = node.stretches.pop_front() else { break };
            self.rows.extend(oldest.rows(host, (0, 0)));
            self.rows.truncate(MOST);
        }
    }

    /// Counts an event.
    pub fn event<'f>(&mut self, node: u16, event: &Event, flow: impl FnOnce(FlowId) -> Option<&'f Flow>) {
        let Some(node) = self.nodes.get_mut(usize::from(node)) else { return };
        // an event of a left-out flow is covered by the estimate
        if !node.hops.contains(event.hop) || event.is_for_order() {
            return;
        }
        if let Some(stretch) = node.stretches.iter_mut().rev().find(|stretch| stretch.has(event.time_ns)) {
            stretch.came.entry(event.hop).or_default().count(event, flow(event.flow));
        }
    }

    /// The results, for recordings with these begins and ends.
    pub fn finish(mut self, infos: &[NodeInfo], start_ns: u64, end_ns: u64) -> Estimated {
        for (node, info) in self.nodes.iter().zip(infos) {
            let rows = node.stretches.iter().flat_map(|stretch| stretch.rows(&info.host, (start_ns, end_ns)));
            self.rows.extend(rows);
        }
        self.rows.truncate(MOST);
        self.rows.iter_mut().for_each(|row| row.from_ns = row.from_ns.max(start_ns));
        let off = self.nodes.into_iter().map(|node| {
            let still = node.off.into_iter().map(|(hop, since_ns)| (hop, since_ns, end_ns));
            let mut off_ns: BTreeMap<Hop, u64> = BTreeMap::new();
            for (hop, from_ns, to_ns) in node.were_off.into_iter().chain(still) {
                // A part of a recording has the changes of the complete recording.
                let there_ns = to_ns.min(end_ns).saturating_sub(from_ns.max(start_ns));
                *off_ns.entry(hop).or_default() += there_ns;
            }
            off_ns
        });
        Estimated { off: Off(off.collect()), rows: self.rows }
    }
}

/// A line each.
pub(super) fn write(
    out: &mut String,
    rows: &[Estimate],
    start_ns: u64,
    several: bool,
    width: usize,
) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    wrap(
        out,
        "\nWhat whole flows stand for where others were left out (± one standard error, of chance):",
        width,
        "",
    )?;
    let since = |ns: u64| ns.saturating_sub(start_ns) as f64 / 1e9;
    let whole = |n: f64| n.max(0.0).round() as u64;
    for row in rows.iter().take(SHOWN) {
        let host = if several { format!("{}, ", row.host) } else { String::new() };
        let line = format!(
            "  {host}+{:.3} s to +{:.3} s, 1/{} at {}: {} and {} of {} stand for {} ± {} packets, {} ± {}",
            since(row.from_ns),
            since(row.to_ns),
            row.one_in,
            row.hop,
            plural(row.packets, "packet", "packets"),
            bytes(row.bytes).trim(),
            plural(row.connections, "connection", "connections"),
            count(whole(row.all_packets)),
            count(whole(row.packets_error)),
            bytes(whole(row.all_bytes)).trim(),
            bytes(whole(row.bytes_error)).trim(),
        );
        wrap(out, &line, width, "    ")?;
    }
    let more = rows.len().saturating_sub(SHOWN) as u64;
    if more > 0 {
        wrap(out, &format!("  and {more} more."), width, "    ")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::event::EventFlags;
    use magscope_core::node::{Backend, Coverage};

    const CLIENT: FlowId = FlowId(1);

    fn flow(id: FlowId, local: &str, remote: &str) -> Flow {
        let end = |text: &str| text.parse().expect("an end");
        Flow { id, netns: 1, proto: Proto::UDP, local: end(local), remote: end(remote) }
    }

    fn node(settings: &[&str]) -> NodeInfo {
        NodeInfo {
            host: "web-1".to_owned(),
            settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
            coverage: Coverage::full(Backend::Generator),
            ..NodeInfo::default()
        }
    }

    fn change(what: &str, at_ns: u64) -> Change {
        Change { from_ns: at_ns - 1, to_ns: at_ns, what: what.to_owned() }
    }

    fn packet(time_ns: u64, flow: FlowId, len: u32) -> Event {
        Event { flow, len, segs: 1, flags: EventFlags::default(), ..Event::at(Hop::DevXmit, time_ns) }
    }

    #[test]
    fn both_directions_of_a_connection_are_one_and_what_has_no_flow_counts_once() {
        let flows = [
            flow(CLIENT, "10.0.0.1:4000", "10.0.0.2:53"),
            flow(FlowId(2), "10.0.0.2:53", "10.0.0.1:4000"),
            flow(FlowId(3), "10.0.0.1:4001", "10.0.0.2:53"),
            flow(FlowId(4), "10.0.0.1:0", "10.0.0.2:0"),
        ];
        let flow_of = |id: FlowId| flows.iter().find(|flow| flow.id == id);
        let mut estimates = Estimates::default();
        let info = node(&["sample flows 1/4"]);
        estimates.join(&info);
        for (id, many) in [(1, 3), (2, 2), (3, 1), (4, 7), (5, 1)] {
            (0..many).for_each(|at| estimates.event(0, &packet(10 + at, FlowId(id), 100), flow_of));
        }
        let all = estimates.finish(std::slice::from_ref(&info), 10, 20);
        assert_eq!(all.rows.len(), 1);
        let row = &all.rows[0];
        assert_eq!((row.one_in, row.connections, row.packets, row.bytes), (4, 2, 14, 1_400));
        assert_eq!((row.from_ns, row.to_ns), (10, 20));
        assert!((row.all_packets - (4.0 * 6.0 + 8.0)).abs() < 1e-9, "{row:?}");
        assert!((row.packets_error - (4.0 * 3.0 * (25.0 + 1.0_f64)).sqrt()).abs() < 1e-9, "{row:?}");
        assert!((row.bytes_error - 100.0 * row.packets_error).abs() < 1e-6, "{row:?}");
        let mut text = String::new();
        write(&mut text, &all.rows, 10, false, 200).expect("a String takes all");
        assert!(
            text.contains("1/4 at dev.xmit: 14 packets and 1.40 kB of 2 connections stand for 32 ± 18"),
            "{text}"
        );
    }

    #[test]
    fn an_event_for_the_order_of_its_socket_represents_no_other() {
        let flows =
            [flow(CLIENT, "10.0.0.2:53", "10.0.0.1:4000"), flow(FlowId(2), "10.0.0.2:53", "10.0.0.1:4001")];
        let flow_of = |id: FlowId| flows.iter().find(|flow| flow.id == id);
        let mut info = node(&["sample flows 1/4"]);
        info.coverage.hops.retain(|row| row.hop == Hop::UdpRecv);
        let mut estimates = Estimates::default();
        estimates.join(&info);
        let recorded = Event { hop: Hop::UdpRecv, ..packet(10, CLIENT, 100) };
        estimates.event(0, &recorded, flow_of);
        estimates.event(0, &Event { flow: FlowId(2), flags: EventFlags::ORDER, ..recorded }, flow_of);
        let all = estimates.finish(std::slice::from_ref(&info), 10, 20);
        let rows: Vec<_> = all.rows.iter().map(|row| (row.hop, row.connections, row.packets)).collect();
        assert_eq!(rows, [(Hop::UdpRecv, 1, 1)]);
    }

    #[test]
    fn an_event_belongs_to_the_stretch_of_its_time_whenever_it_comes() {
        let flows = [flow(CLIENT, "10.0.0.1:4000", "10.0.0.2:53")];
        let flow_of = |id: FlowId| flows.iter().find(|flow| flow.id == id);
        let mut estimates = Estimates::default();
        let info = node(&[]);
        estimates.join(&info);
        let changes = |estimates: &mut Estimates, what: &str, at_ns| {
            estimates.change(0, "web-1", &change(what, at_ns));
        };
        estimates.event(0, &packet(50, CLIENT, 1), flow_of);
        changes(&mut estimates, "sample flows 1/4", 100);
        changes(&mut estimates, "sample flows 1/16", 200);
        // All except the first arrive after the second change.
        for at in [90, 110, 120, 199, 250] {
            estimates.event(0, &packet(at, CLIENT, 1), flow_of);
        }
        changes(&mut estimates, "detail histograms", 300);
        changes(&mut estimates, "detail full", 400);
        changes(&mut estimates, "disable dev.xmit,dev.recv", 450);
        changes(&mut estimates, "enable dev.xmit", 480);
        estimates.event(0, &packet(410, CLIENT, 1), flow_of);
        changes(&mut estimates, "sample flows 1/1", 500);
        estimates.event(0, &packet(510, CLIENT, 1), flow_of);
        let all = estimates.finish(std::slice::from_ref(&info), 50, 600);
        let rows: Vec<_> =
            all.rows.iter().map(|row| (row.one_in, row.from_ns, row.to_ns, row.packets)).collect();
        assert_eq!(rows, [(4, 100, 199, 2), (16, 200, 299, 1), (16, 400, 449, 1)]);
        assert_eq!((all.off.ns(0, Hop::DevXmit), all.off.ns(0, Hop::DevRecv)), (30, 150));
        assert_eq!(all.off.ns(0, Hop::IpOut), 0);
    }

    #[test]
    fn memory_is_bounded() {
        let mut estimates = Estimates::default();
        let info = node(&[]);
        estimates.join(&info);
        let flows = [flow(CLIENT, "10.0.0.1:4000", "10.0.0.2:53")];
        for n in 1..5_000 {
            estimates.change(0, "web-1", &change(&format!("sample flows 1/{}", 2 + n % 2), 10 * n));
            estimates.event(0, &packet(10 * n, CLIENT, 1), |_| flows.first());
            estimates.change(0, "web-1", &change("disable dev.recv", 10 * n + 5));
            estimates.change(0, "web-1", &change("enable dev.recv", 10 * n + 6));
        }
        assert!(estimates.nodes[0].stretches.len() <= OPEN);
        let all = estimates.finish(std::slice::from_ref(&info), 0, u64::MAX);
        assert_eq!((all.rows.len(), all.off.ns(0, Hop::DevRecv)), (MOST, 4_999));
    }
}

//! The cost of a datagram without an identification for the alignment: of 200 000, on two hosts.
//!
//! `cargo bench -p magscope-timeline --bench unnumbered`

use magscope_core::journey::{Correlator, Limits};
use magscope_core::node::{Backend, Coverage, NodeInfo};
use magscope_core::{Batch, Event, EventFlags, Flow, FlowId, Hop, Proto};
use magscope_timeline::join::{JoinLimits, Joiner, OneClock};
use std::hint::black_box;
use std::net::SocketAddr;
use std::time::Instant;

const DATAGRAMS: u64 = 200_000;
const BATCH: usize = 4_096;
const RUNS: usize = 25;
/// The recordings begin with a datagram of another flow; flows from two seconds after it on are used.
const BEGIN_NS: u64 = 1_000_000;
const FIRST_NS: u64 = BEGIN_NS + 3_000_000_000;

/// Traffic: the flow and the length of each datagram.
struct Traffic {
    name: &'static str,
    flows: u64,
    lengths: u64,
}

const TRAFFIC: [Traffic; 3] = [
    Traffic { name: "one flow of one length", flows: 1, lengths: 1 },
    Traffic { name: "a hundred flows of 64 lengths", flows: 100, lengths: 64 },
    Traffic { name: "a new flow for every 20 datagrams", flows: 10_000, lengths: 1 },
];

impl Traffic {
    fn flow(&self, number: u64) -> u64 {
        // Flows that end, or flows that alternate.
        if self.lengths == 1 { number * self.flows / DATAGRAMS } else { number % self.flows }
    }

    fn len(&self, number: u64) -> u32 {
        40 + (number / self.flows.min(DATAGRAMS) % self.lengths) as u32
    }
}

fn flow(host: usize, number: u64) -> Flow {
    let end = |host: u16, port: u16| SocketAddr::new([0xfd00, 0, 0, 0, 0, number as u16, 0, host].into(), port);
    let (client, server) = (end(1, 40_000), end(2, 53));
    let (local, remote) = if host == 0 { (client, server) } else { (server, client) };
    Flow { id: id(host, number), netns: host as u32 + 1, proto: Proto::UDP, local, remote }
}

/// The kernel side hashes a flow to its id.
fn id(host: usize, number: u64) -> FlowId {
    FlowId((number * 2 + host as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn event(flow: FlowId, hop: Hop, time_ns: u64, len: u32) -> Event {
    Event { flow, len, proto: Proto::UDP, segs: 1, flags: EventFlags::IPV6, ..Event::at(hop, time_ns) }
}

/// What one host records: the socket's event and the device's.
fn batches(traffic: &Traffic, host: usize) -> Vec<Batch> {
    let numbers: Vec<u64> = (0..DATAGRAMS).collect();
    let events = |number: u64| {
        let (flow, len) = (id(host, traffic.flow(number)), traffic.len(number));
        let sent_ns = FIRST_NS + number * 10_000;
        let hops = if host == 0 {
            [(Hop::UdpSend, sent_ns - 2_000), (Hop::DevXmit, sent_ns)]
        } else {
            [(Hop::DevRecv, sent_ns + 25_000), (Hop::UdpRecv, sent_ns + 26_000)]
        };
        hops.map(|(hop, at_ns)| event(flow, hop, at_ns, len))
    };
    let batch = |numbers: &[u64]| Batch {
        events: numbers.iter().flat_map(|number| events(*number)).collect(),
        ..Batch::default()
    };
    numbers.chunks(BATCH).map(batch).collect()
}

fn main() {
    let info = NodeInfo { coverage: Coverage::full(Backend::Generator), ..NodeInfo::default() };
    for traffic in &TRAFFIC {
        let hosts = [batches(traffic, 0), batches(traffic, 1)];
        let first = |host: usize| Batch {
            flows: (0..traffic.flows).map(|number| flow(host, number)).collect(),
            events: vec![event(FlowId(3), Hop::DevXmit, BEGIN_NS, 1)],
            ..Batch::default()
        };
        let correlators = [0, 1].map(|host| {
            let mut correlator = Correlator::of_node(&info, Limits::default());
            correlator.push(&first(host), &mut Vec::new());
            correlator
        });
        let run = || {
            let mut joiner = Joiner::new(&OneClock, JoinLimits::default());
            for host in [0, 1] {
                joiner.push_events(host as u16, &info, &first(host), &correlators[host]);
            }
            let (began, mut crossings) = (Instant::now(), 0);
            for (sent, received) in hosts[0].iter().zip(&hosts[1]) {
                joiner.push_events(0, &info, sent, &correlators[0]);
                joiner.push_events(1, &info, received, &correlators[1]);
                crossings += black_box(joiner.take_crossings()).len();
            }
            (began.elapsed().as_nanos() as f64 / DATAGRAMS as f64, crossings)
        };
        let mut runs: Vec<(f64, usize)> = (0..RUNS).map(|_| run()).collect();
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (ns, crossings) = runs[0];
        println!(
            "{}: {ns:.0} ns a datagram for both of its ends, the least of {RUNS} runs; {crossings} crossings of {DATAGRAMS}",
            traffic.name
        );
    }
}

//! Datagrams of a client to a published port, through some forwarders. The first of several masquerades, and the last has the
//! address of the server. The numbers are reproducible.

use magscope_core::node::{Backend, Coverage, InterfaceName, NetnsName, NodeInfo, Service};
use magscope_core::{Batch, Direction, Event, Flow, FlowId, Hop, Proto};
use std::net::SocketAddr;
use std::ops::Range;

const CLIENT: u32 = 4_026_532_301;
const SERVER: u32 = 4_026_532_302;
/// Namespace of the first forwarder; those of the others follow.
const NODE: u32 = 4_026_532_310;
/// Time of the first datagram.
pub const START_NS: u64 = 1_000_000_000_000;
/// Time between datagrams.
pub const APART_NS: u64 = 2_000_000;

/// Hops of the sender, a forwarder and the receiver, each with the time since the hop before.
const SENT: [(Hop, u64); 4] = [(Hop::IpOut, 0), (Hop::IpPost, 900), (Hop::DevQueue, 500), (Hop::DevXmit, 700)];
const PASSED: [(Hop, u64); 5] = [
    (Hop::DevRecv, 9_000),
    (Hop::IpPre, 1_100),
    (Hop::IpPost, 2_300),
    (Hop::DevQueue, 800),
    (Hop::DevXmit, 4_000),
];
const RECEIVED: [(Hop, u64); 5] =
    [(Hop::DevRecv, 11_000), (Hop::IpPre, 700), (Hop::IpIn, 600), (Hop::UdpRecv, 1_200), (Hop::AppRecv, 5_500)];

/// The host of all these nodes.
pub fn info(forwarders: u8) -> NodeInfo {
    let mut coverage = Coverage::full(Backend::Generator);
    let is_on = |hop| [&SENT[..], &PASSED, &RECEIVED].concat().iter().any(|(other, _)| *other == hop);
    for row in coverage.hops.iter_mut().filter(|row| !is_on(row.hop)) {
        row.service = Service::Off;
    }
    let name = |netns, name: &str| NetnsName { netns, name: name.to_owned() };
    let node = |number: u8| name(NODE + u32::from(number) - 1, &format!("router-{number}"));
    let interface =
        |netns, index, name: &str| InterfaceName { netns, index, name: name.to_owned(), kind: String::new() };
    let of_node = |number: u8| {
        let netns = NODE + u32::from(number) - 1;
        [interface(netns, 2, "wan"), interface(netns, 3, "br0")]
    };
    NodeInfo {
        host: "bench-3".to_owned(),
        cpus: 8,
        clock: "monotonic".to_owned(),
        netns: [name(CLIENT, "client"), name(SERVER, "web")]
            .into_iter()
            .chain((1..=forwarders).map(node))
            .collect(),
        interfaces: (1..=forwarders).flat_map(of_node).collect(),
        coverage,
        ..NodeInfo::default()
    }
}

fn end(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// The flows of all nodes, in the order of the path.
fn flows(forwarders: u8) -> Vec<Flow> {
    let (mut source, mut destination) = (end("10.0.0.5:4000"), end("192.0.2.1:8080"));
    let flow = |id, netns, local, remote| Flow { id: FlowId(id), netns, proto: Proto::UDP, local, remote };
    let mut flows = vec![flow(1, CLIENT, source, destination)];
    for number in 1..=forwarders {
        let (id, netns) = (u64::from(number) * 10, NODE + u32::from(number) - 1);
        flows.push(flow(id + 1, netns, destination, source));
        if number == 1 && forwarders > 1 {
            source = end("192.0.2.9:61000");
        }
        if number == forwarders {
            destination = end("10.88.0.3:80");
        }
        flows.push(flow(id + 2, netns, source, destination));
    }
    flows.push(flow(2, SERVER, destination, source));
    flows
}

/// The datagrams of these numbers. Of forty one is slow in the first forwarder, or at the reader if there is none.
pub fn batch(forwarders: u8, numbers: Range<u64>) -> Batch {
    let flows = flows(forwarders);
    let mut batch = Batch { watermark_ns: START_NS + numbers.end * APART_NS, ..Batch::default() };
    for n in numbers {
        let mut time_ns = START_NS + n * APART_NS;
        let slow_ns = if n % 40 == 20 { 60_000 } else { 0 };
        let mut pass = |flow: FlowId, ifindex: u32, hops: &[(Hop, u64)], slow_ns: u64, who: (u32, u64)| {
            for (at, (hop, later_ns)) in hops.iter().enumerate() {
                time_ns += later_ns + if at + 1 == hops.len() { slow_ns } else { n % 7 * 40 };
                let is_called = *hop == Hop::AppRecv || hop.direction() == Direction::Tx;
                let tid = if is_called { who.0 } else { 0 };
                batch.events.push(Event {
                    flow,
                    ifindex,
                    len: 64,
                    ip_id: n as u16,
                    skb: if *hop == Hop::AppRecv { 0 } else { n as u32 % 512 + 1 },
                    cpu: (n % 8) as u16,
                    proto: Proto::UDP,
                    segs: 1,
                    socket: who.1,
                    tgid: tid,
                    tid,
                    ..Event::at(*hop, time_ns)
                });
            }
        };
        pass(FlowId(1), 2, &SENT, 0, (5, 50));
        for number in 1..=forwarders {
            let slow_ns = if number == 1 { slow_ns } else { 0 };
            let id = u64::from(number) * 10;
            pass(FlowId(id + 1), 2, &PASSED[..2], 0, (0, 0));
            pass(FlowId(id + 2), 3, &PASSED[2..], slow_ns, (0, 0));
        }
        let slow_ns = if forwarders == 0 { slow_ns } else { 0 };
        pass(FlowId(2), 2, &RECEIVED, slow_ns, (7, 70));
    }
    batch.flows = flows;
    batch
}

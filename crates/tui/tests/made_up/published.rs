//! Datagrams of a client to a container behind a node, and their answers. The node publishes the container's port, so
//! it translates addresses both ways; it drops some requests by a rule, and others are lost behind it.

use super::{CLIENT, SERVER, START_NS};
use magscope_core::journey::Limits;
use magscope_core::node::{DropReason, InterfaceName, NetnsName, NodeInfo};
use magscope_core::{Batch, Container, DetailKind, Direction, Event, Flow, FlowId, Hop, Proto};
use magscope_scope::{Options, Scope};

const NODE: u32 = 4_026_532_303;
/// Time between requests, and the number of them: some three seconds.
const APART_NS: u64 = 20_000_000;
const REQUESTS: u64 = 150;
/// Time after which a datagram counts as lost.
const LOST_NS: u64 = 100_000_000;
/// The interfaces of the node: to the client, and to the container.
const LEFT: u32 = 3;
const RIGHT: u32 = 4;

/// The flows of one direction: of the sender, where the node receives and sends, of the reader.
#[derive(Clone, Copy)]
struct Path {
    sender: FlowId,
    enters: FlowId,
    leaves: FlowId,
    reader: FlowId,
    /// Interfaces of the node.
    devices: (u32, u32),
    /// Sockets of the sender and the reader, and their threads.
    sockets: (u64, u64),
}

const REQUEST: Path = Path {
    sender: FlowId(1),
    enters: FlowId(2),
    leaves: FlowId(3),
    reader: FlowId(4),
    devices: (LEFT, RIGHT),
    sockets: (50, 70),
};
const ANSWER: Path = Path {
    sender: FlowId(4),
    enters: FlowId(5),
    leaves: FlowId(6),
    reader: FlowId(1),
    devices: (RIGHT, LEFT),
    sockets: (70, 50),
};

fn info() -> NodeInfo {
    let mut info = super::info();
    let named = |netns, name: &str| NetnsName { netns, name: name.to_owned() };
    info.netns = vec![named(CLIENT, "client"), named(NODE, "host"), named(SERVER, "web")];
    let interface =
        |index, name: &str| InterfaceName { netns: NODE, index, name: name.to_owned(), kind: String::new() };
    info.interfaces = vec![interface(LEFT, "eth0"), interface(RIGHT, "veth7f2")];
    info.containers = vec![Container { name: "web".to_owned(), netns: SERVER, ..Container::default() }];
    info.drop_reasons.push(DropReason { number: 8, name: "netfilter_drop".to_owned() });
    info
}

fn flows() -> Vec<Flow> {
    let flow = |id, netns, local: &str, remote: &str| {
        let end = |text: &str| text.parse().expect("an address");
        Flow { id, netns, proto: Proto::UDP, local: end(local), remote: end(remote) }
    };
    let (client, published, own) = ("10.0.0.9:40000", "10.0.0.1:8080", "10.1.0.2:80");
    vec![
        flow(REQUEST.sender, CLIENT, client, published),
        flow(REQUEST.enters, NODE, published, client),
        flow(REQUEST.leaves, NODE, client, own),
        flow(REQUEST.reader, SERVER, own, client),
        flow(ANSWER.enters, NODE, client, own),
        flow(ANSWER.leaves, NODE, published, client),
    ]
}

/// Where the packet of a datagram ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    Read,
    DroppedInNode,
    LostBehindNode,
}

/// A datagram on its path.
fn datagram(path: Path, at_ns: u64, number: u64, len: u32, until: Until) -> Vec<Event> {
    let id = number as u16 + 1;
    let at = |hop: Hop, later_ns: u64, flow| Event {
        flow,
        len,
        ip_id: id,
        skb: u32::from(id) | 0x10_0000,
        cpu: (number % 4) as u16,
        segs: 1,
        proto: Proto::UDP,
        ..Event::at(hop, at_ns + later_ns)
    };
    // Some are slower on the first wire, some in the node.
    let wire_ns = 41_000 + 500 * (number % 17) + if number.is_multiple_of(40) { 22_000 } else { 0 };
    let node_ns = 8_000 + 300 * (number % 11);
    let mut time = 0;
    let mut events = Vec::new();
    let mut add = |hops: &[(Hop, u64)], flow, ifindex| {
        for (hop, step_ns) in hops {
            time += step_ns;
            let socket = if hop.direction() == Direction::Tx { path.sockets.0 } else { path.sockets.1 };
            let is_ends = ifindex == 0;
            let who = if is_ends && hop.knows_process() { socket as u32 } else { 0 };
            let socket = if is_ends { socket } else { 0 };
            let is_read = *hop == Hop::AppRecv;
            let event = Event { socket, tid: who, tgid: who, ifindex, ..at(*hop, time, flow) };
            events.push(if is_read { Event { skb: 0, ip_id: 0, ..event } } else { event });
        }
    };
    add(&[(Hop::IpOut, 1_000), (Hop::IpPost, 700), (Hop::DevQueue, 500), (Hop::DevXmit, 900)], path.sender, 0);
    add(&[(Hop::DevRecv, wire_ns), (Hop::IpPre, 900)], path.enters, path.devices.0);
    if until == Until::DroppedInNode {
        add(&[(Hop::SkbDrop, 1_500)], path.enters, path.devices.0);
    } else {
        let leaves = [(Hop::IpPost, node_ns - 2_000), (Hop::DevQueue, 500), (Hop::DevXmit, 600)];
        add(&leaves, path.leaves, path.devices.1);
    }
    if until == Until::Read {
        let arrives = [
            (Hop::DevRecv, 3_000),
            (Hop::IpPre, 800),
            (Hop::IpIn, 600),
            (Hop::UdpRecv, 900),
            (Hop::SockReady, 700),
        ];
        add(&arrives, path.reader, 0);
        add(&[(Hop::AppRecv, 9_000)], path.reader, 0);
    }
    for event in events.iter_mut().filter(|event| event.hop == Hop::SkbDrop) {
        event.detail = DetailKind::DropReason.of(8);
    }
    events
}

/// The capture.
pub fn scope() -> Scope {
    let limits = Limits { max_age_ns: LOST_NS, ..Limits::default() };
    let mut scope = Scope::new(info(), Options { limits, ..Options::default() });
    for number in 0..REQUESTS {
        let until = match number % 30 {
            11 | 23 => Until::DroppedInNode,
            17 => Until::LostBehindNode,
            _ => Until::Read,
        };
        let at_ns = START_NS + number * APART_NS;
        let mut events = datagram(REQUEST, at_ns, 2 * number, 120, until);
        if until == Until::Read {
            events.extend(datagram(ANSWER, at_ns + 300_000, 2 * number + 1, 900, until));
        }
        let flows = if number == 0 { flows() } else { Vec::new() };
        scope.ingest(&Batch { events, flows, watermark_ns: at_ns + APART_NS / 2, ..Batch::default() });
    }
    let end_ns = START_NS + REQUESTS * APART_NS;
    scope.ingest(&Batch { watermark_ns: end_ns + 2 * LOST_NS, ..Batch::default() });
    scope
}

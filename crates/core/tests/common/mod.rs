//! A small world for scenarios: two namespaces, a client's flow and a server's, and a list of events.
#![allow(dead_code)]

pub mod heap;
pub mod new_flows;

use magscope_core::hop::Role;
use magscope_core::journey::{Correlator, Journey, Limits};
use magscope_core::node::{Backend, Coverage, HopService, NodeInfo, Service};
use magscope_core::{Batch, Event, EventFlags, ExtentKind, Flow, FlowId, Hop, HopSet, Proto};

pub const CLIENT: FlowId = FlowId(11);
pub const SERVER: FlowId = FlowId(22);
pub const OTHER_CLIENT: FlowId = FlowId(33);
pub const OTHER_SERVER: FlowId = FlowId(44);

pub fn flow(id: FlowId, netns: u32, proto: Proto, local: &str, remote: &str) -> Flow {
    Flow { id, netns, proto, local: local.parse().unwrap(), remote: remote.parse().unwrap() }
}

pub fn flows(proto: Proto) -> Vec<Flow> {
    vec![
        flow(CLIENT, 1, proto, "10.0.0.1:4000", "10.0.0.2:80"),
        flow(SERVER, 2, proto, "10.0.0.2:80", "10.0.0.1:4000"),
        flow(OTHER_CLIENT, 1, proto, "10.0.0.1:4001", "10.0.0.2:80"),
        flow(OTHER_SERVER, 2, proto, "10.0.0.2:80", "10.0.0.1:4001"),
    ]
}

pub fn flows_v6() -> Vec<Flow> {
    vec![
        flow(CLIENT, 1, Proto::UDP, "[fd00::1]:4000", "[fd00::2]:80"),
        flow(SERVER, 2, Proto::UDP, "[fd00::2]:80", "[fd00::1]:4000"),
    ]
}

/// Hops without the sends recorded at return, so that there are no late events, and without packet hops that the
/// scenarios omit: a journey would lack them.
pub fn coverage() -> HopSet {
    let is_omitted = |hop: Hop| {
        hop.role() == Role::Packet
            && !PACKET_TX.contains(&hop)
            && !PACKET_RX.contains(&hop)
            && hop != Hop::UdpRecv
    };
    let mut set: HopSet = HopSet::all().iter().filter(|hop| !is_omitted(*hop)).collect();
    set.remove(Hop::AppSend);
    set
}

pub fn tcp(hop: Hop, time_ns: u64, flow: FlowId, seq: u32, len: u32) -> Event {
    Event { flow, extent: ExtentKind::Stream.of(seq), len, ..Event::at(hop, time_ns) }
}

pub fn udp(hop: Hop, time_ns: u64, flow: FlowId, ip_id: u16, skb: u32, len: u32) -> Event {
    Event { flow, len, ip_id, skb, segs: 1, proto: Proto::UDP, ..Event::at(hop, time_ns) }
}

pub fn by(mut event: Event, tid: u32, socket: u64) -> Event {
    event.tgid = tid;
    event.tid = tid;
    event.socket = socket;
    event
}

pub fn at_return(mut event: Event) -> Event {
    event.flags = event.flags.with(EventFlags::AT_RETURN);
    event
}

pub const PACKET_TX: [Hop; 5] = [Hop::TcpXmit, Hop::IpOut, Hop::IpPost, Hop::DevQueue, Hop::DevXmit];
pub const PACKET_RX: [Hop; 4] = [Hop::DevRecv, Hop::IpPre, Hop::IpIn, Hop::TcpRecv];

/// A range at several hops, one nanosecond apart.
pub fn run(hops: &[Hop], time_ns: u64, flow: FlowId, seq: u32, len: u32) -> Vec<Event> {
    hops.iter().enumerate().map(|(i, hop)| tcp(*hop, time_ns + i as u64, flow, seq, len)).collect()
}

pub fn batch(flows: Vec<Flow>, events: Vec<Event>) -> Batch {
    let watermark_ns = events.iter().map(|e| e.time_ns).max().unwrap_or(0);
    Batch { events, flows, watermark_ns, ..Batch::default() }
}

/// Correlates all events in one batch, then ends the input. Journeys are in order of their range.
pub fn correlate(coverage: HopSet, flows: Vec<Flow>, events: Vec<Event>) -> (Vec<Journey>, Correlator) {
    let mut correlator = Correlator::new(coverage, Limits::default());
    let mut done = Vec::new();
    correlator.push(&batch(flows, events), &mut done);
    correlator.finish(&mut done);
    assert_eq!(correlator.in_flight(), 0);
    done.sort_by_key(|j| (j.tx_flow, j.range.start, j.id));
    (done, correlator)
}

/// Ranges as first byte and length, in wire numbers.
pub fn ranges(journeys: &[Journey]) -> Vec<(u32, u64)> {
    journeys.iter().map(|j| (j.range.start as u32, j.bytes())).collect()
}

/// The hops of a datagram that leaves, in order.
pub const TX: [Hop; 4] = [Hop::IpOut, Hop::IpPost, Hop::DevQueue, Hop::DevXmit];
/// The hops of one that arrives.
pub const RX: [Hop; 4] = [Hop::DevRecv, Hop::IpPre, Hop::IpIn, Hop::UdpRecv];

/// A datagram that leaves the client.
pub fn down(time_ns: u64, ip_id: u16, skb: u32, len: u32) -> Vec<Event> {
    TX.iter().zip(0..).map(|(hop, i)| by(udp(*hop, time_ns + i, CLIENT, ip_id, skb, len), 5, 50)).collect()
}

/// The journeys of these events, in order of their beginnings.
pub fn journeys(flows: Vec<Flow>, events: Vec<Event>) -> Vec<Journey> {
    let mut done = correlate(coverage(), flows, events).0;
    done.sort_by_key(Journey::start_ns);
    done
}

/// The receiver's.
pub const SOCKET: u64 = 70;

/// A datagram on the receiver's path to its socket, which is then ready.
pub fn up(time_ns: u64, ip_id: u16, skb: u32, len: u32) -> Vec<Event> {
    let arrive =
        |(hop, i): (&Hop, u64)| Event { socket: SOCKET, ..udp(*hop, time_ns + i, SERVER, ip_id, skb, len) };
    RX.iter().zip(0..).map(arrive).chain([ready(time_ns + 5)]).collect()
}

pub fn ready(time_ns: u64) -> Event {
    by(udp(Hop::SockReady, time_ns, FlowId::NONE, 0, 0, 0), 0, SOCKET)
}

/// A read, without its datagram.
pub fn read(time_ns: u64, len: u32) -> Event {
    by(udp(Hop::AppRecv, time_ns, FlowId::NONE, 0, 0, len), 7, SOCKET)
}

/// A node that serves the hops of these tests.
pub fn node() -> NodeInfo {
    let served = || Service::Served { backend: Backend::Generator, point: String::new(), note: String::new() };
    let row = |hop: &Hop| HopService {
        hop: *hop,
        service: if coverage().contains(*hop) { served() } else { Service::Off },
    };
    let hops = Hop::ALL.iter().map(row).collect();
    NodeInfo { coverage: Coverage { hops, left_out: Vec::new() }, ..NodeInfo::default() }
}

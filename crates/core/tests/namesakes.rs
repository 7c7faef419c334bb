//! Identity of sockets and connections: equal addresses in several namespaces, ports that a close has cleared,
//! datagrams that leave a queue without a read.

use crate::common;
use common::*;
use magscope_core::journey::{Journey, Verdict};
use magscope_core::{Event, Flow, FlowId, Hop, Proto};

const SECOND_CLIENT: FlowId = FlowId(111);
const SECOND_SERVER: FlowId = FlowId(122);

/// Two pairs of namespaces with the same addresses and ports.
fn pairs(proto: Proto) -> Vec<Flow> {
    let mut all = flows(proto);
    all.truncate(2);
    let second = [(SECOND_CLIENT, 101), (SECOND_SERVER, 102)];
    all.extend(second.iter().zip(all.clone()).map(|((id, netns), flow)| Flow {
        id: *id,
        netns: *netns,
        ..flow
    }));
    all
}

fn ends(done: &[Journey]) -> Vec<(FlowId, FlowId, &'static str)> {
    let mut ends: Vec<_> = done.iter().map(|j| (j.tx_flow, j.rx_flow, j.verdict.name())).collect();
    ends.sort_unstable();
    ends
}

fn sent(time_ns: u64, flow: FlowId, seq: u32) -> Vec<Event> {
    [vec![tcp(Hop::TcpSend, time_ns, flow, seq, 100)], run(&PACKET_TX, time_ns + 1, flow, seq, 100)].concat()
}

fn read(time_ns: u64, flow: FlowId, seq: u32) -> Vec<Event> {
    let read = tcp(Hop::AppRecv, time_ns + 50, flow, seq, 100);
    [run(&PACKET_RX, time_ns, flow, seq, 100), vec![read]].concat()
}

#[test]
fn each_receiver_is_paired_with_the_sender_of_its_bytes() {
    // The second receiver is first, so that only the bytes show its sender.
    let events = [
        sent(0, CLIENT, 1000),
        sent(100, SECOND_CLIENT, 5000),
        read(200, SECOND_SERVER, 5000),
        read(300, SERVER, 1000),
    ];
    let (done, correlator) = correlate(coverage(), pairs(Proto::TCP), events.concat());
    let expected = [(CLIENT, SERVER, "complete"), (SECOND_CLIENT, SECOND_SERVER, "complete")];
    assert_eq!(ends(&done), expected);
    assert_eq!(correlator.counters().forwarded, 0);
}

#[test]
fn senders_alone_have_a_journey_each() {
    let events = [sent(0, CLIENT, 1000), sent(100, SECOND_CLIENT, 5000)].concat();
    let done = correlate(coverage(), pairs(Proto::TCP), events).0;
    assert_eq!(ends(&done).iter().map(|e| e.0).collect::<Vec<_>>(), [CLIENT, SECOND_CLIENT]);
    assert!(done.iter().all(|j| j.rx_flow.is_none()));
}

#[test]
fn equal_bytes_of_two_senders_prove_nothing() {
    let events = [
        sent(0, CLIENT, 1000),
        sent(100, SECOND_CLIENT, 1000),
        read(200, SECOND_SERVER, 1000),
        read(300, SERVER, 1000),
    ];
    let done = correlate(coverage(), pairs(Proto::TCP), events.concat()).0;
    assert_eq!(done.len(), 4);
    assert!(done.iter().all(|j| j.tx_flow.is_none() || j.rx_flow.is_none()), "{done:#?}");
    assert!(done.iter().all(|j| j.verdict != Verdict::Complete));
}

#[test]
fn a_forwarder_is_no_namesake() {
    const ROUTER_IN: FlowId = FlowId(7);
    const ROUTER_OUT: FlowId = FlowId(8);
    let mut all = flows(Proto::TCP);
    all.push(Flow { id: ROUTER_IN, netns: 3, ..all[1] });
    all.push(Flow { id: ROUTER_OUT, netns: 3, ..all[0] });
    let events = [
        sent(0, CLIENT, 1000),
        run(&[Hop::DevRecv, Hop::IpPre], 20, ROUTER_IN, 1000, 100),
        run(&[Hop::IpPost, Hop::DevXmit], 30, ROUTER_OUT, 1000, 100),
        read(200, SERVER, 1000),
    ];
    let (done, correlator) = correlate(coverage(), all, events.concat());
    assert_eq!(ends(&done), [(CLIENT, SERVER, "complete")]);
    assert!(correlator.counters().forwarded > 0);
}

#[test]
fn a_read_without_its_port_is_of_its_socket_or_of_nothing() {
    const CLOSED: FlowId = FlowId(9);
    let mut all = flows(Proto::TCP);
    all.push(Flow { id: CLOSED, local: "10.0.0.2:0".parse().unwrap(), ..all[1] });
    let mut arrival = run(&PACKET_RX, 100, SERVER, 1000, 100);
    for event in &mut arrival {
        event.socket = 55;
    }
    for (socket, rx_read) in [(55, true), (56, false)] {
        let late = by(tcp(Hop::AppRecv, 500, CLOSED, 1000, 100), 3, socket);
        let events = [sent(0, CLIENT, 1000), arrival.clone(), vec![late]].concat();
        let (done, correlator) = correlate(coverage(), all.clone(), events);
        assert_eq!(done.len(), 1);
        assert_eq!((done[0].tx_flow, done[0].rx_flow), (CLIENT, SERVER));
        assert_eq!(done[0].rungs.time_ns(Hop::AppRecv).is_some(), rx_read);
        assert_eq!(correlator.counters().unattributed, u64::from(!rx_read));
    }
}

#[test]
fn a_datagram_that_the_kernel_frees_at_its_read_moves_no_later_one() {
    let mut events = Vec::new();
    for n in 0..3 {
        let (at, id) = (u64::from(n) * 100, n as u16 + 1);
        let sent =
            [Hop::IpOut, Hop::DevXmit].map(|hop| udp(hop, at + u64::from(hop.id()), CLIENT, id, 70 + n, 100));
        let came = [Hop::DevRecv, Hop::IpIn, Hop::UdpRecv];
        events.extend(sent);
        events.extend(came.map(|hop| by(udp(hop, at + u64::from(hop.id()), SERVER, id, 70 + n, 100), 0, 55)));
    }
    let read = |time_ns| by(udp(Hop::AppRecv, time_ns, SERVER, 0, 0, 100), 3, 55);
    // The kernel frees the second one: device, namespace and flow are unknown there.
    events.extend([read(1000), udp(Hop::SkbDrop, 1100, FlowId::NONE, 2, 71, 100), read(1200)]);
    let (mut done, correlator) = correlate(coverage(), flows(Proto::UDP), events);
    done.sort_by_key(|j| j.ip_id);
    let reads: Vec<_> = done.iter().map(|j| j.rungs.time_ns(Hop::AppRecv)).collect();
    assert_eq!(reads, [Some(1000), None, Some(1200)]);
    assert!(matches!(done[1].verdict, Verdict::Dropped { .. }), "{:?}", done[1]);
    assert!(done.iter().all(|j| !j.ambiguous));
    assert_eq!(correlator.counters().unmatched_drops, 0);
}

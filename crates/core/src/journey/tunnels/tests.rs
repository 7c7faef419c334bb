//! Tests of the ties in buffers.

use super::*;
use crate::flow::FlowId;

const NETNS: u32 = 3;
const VXLAN: u32 = 7;

fn tunnels() -> Tunnels {
    let mut tunnels = Tunnels::default();
    let name = |index, kind: &str| {
        let (name, kind) = (format!("if{index}"), kind.to_owned());
        InterfaceName { netns: NETNS, index, name, kind }
    };
    tunnels.learn(&[name(2, ""), name(3, "veth"), name(VXLAN, "vxlan")]);
    tunnels
}

const HERE: Place = Place { netns: NETNS, stream: 0, is_of_program: false, lacks_others: false };

fn packet(hop: Hop, flow: u64, len: u32, ifindex: u32) -> Event {
    let proto = Proto::UDP;
    Event { flow: FlowId(flow), skb: 64, len, ifindex, ip_id: 5, proto, ..Event::at(hop, 1_000) }
}

/// The inner packet that an event shows, and the hops to be recorded.
fn shown(inside: Option<&Inside>) -> Option<(u64, Vec<Hop>)> {
    inside.map(|inside| (inside.inner.flow.0, inside.outer.iter().flatten().map(|event| event.hop).collect()))
}

#[test]
fn the_next_packet_in_the_buffer_is_the_outer_one() {
    let mut tunnels = tunnels();
    let mut send = |event: Event| shown(tunnels.send(&event, &HERE).as_ref());
    assert_eq!(send(packet(Hop::DevXmit, 1, 100, VXLAN)), None);
    assert_eq!(send(packet(Hop::IpOut, 2, 150, 2)), None, "whose packet it is shows at its device");
    assert_eq!(send(packet(Hop::DevQueue, 2, 150, 2)), Some((1, vec![Hop::IpOut, Hop::DevQueue])));
    assert_eq!(send(packet(Hop::DevXmit, 2, 150, 2)), Some((1, vec![Hop::DevXmit])));
    assert_eq!(send(packet(Hop::DevXmit, 3, 150, 2)), None, "another packet");
    assert_eq!(send(packet(Hop::DevXmit, 2, 150, 2)), None, "the tie is gone");
}

#[test]
fn only_a_tunnel_and_a_longer_packet_of_no_other_socket_make_a_tie() {
    let outer = packet(Hop::DevQueue, 2, 150, 2);
    let later = Event { time_ns: outer.time_ns + MOST_NS, ..outer };
    let tries = [
        (VXLAN, HERE, outer, true),
        (VXLAN, HERE, Event { socket: 5, ..outer }, true),
        (VXLAN, HERE, Event { socket: 6, ..outer }, false),
        (VXLAN, HERE, Event { proto: Proto::TCP, ..outer }, false),
        (VXLAN, HERE, Event { len: 100, ..outer }, false),
        (VXLAN, HERE, Event { len: 400, ..outer }, false),
        (VXLAN, HERE, later, false),
        (VXLAN, Place { is_of_program: true, ..HERE }, outer, false),
        (VXLAN, Place { netns: NETNS + 1, ..HERE }, outer, false),
        (3, HERE, outer, false),
    ];
    for (ifindex, at, outer, is_tied) in tries {
        let mut tunnels = tunnels();
        tunnels.send(&Event { socket: 5, ..packet(Hop::DevXmit, 1, 100, ifindex) }, &at);
        assert_eq!(tunnels.send(&outer, &at).is_some(), is_tied, "{ifindex} {at:?} {outer:?}");
    }
}

#[test]
fn what_a_socket_has_received_holds_no_other_packet() {
    let program = Place { is_of_program: true, ..HERE };
    for (last, at, is_tied) in
        [(Hop::IpIn, HERE, true), (Hop::UdpRecv, HERE, false), (Hop::IpIn, program, false)]
    {
        let mut tunnels = tunnels();
        tunnels.receive(&packet(Hop::DevRecv, 2, 150, 2), &at);
        tunnels.receive(&packet(last, 2, 150, 2), &at);
        tunnels.receive(&packet(Hop::DevRecv, 1, 100, VXLAN), &HERE);
        assert_eq!(tunnels.has_arrived(), is_tied, "{last} {at:?}");
    }
}

#[test]
fn an_inner_packet_arrives_in_the_buffer_of_its_outer_one() {
    let mut tunnels = tunnels();
    for hop in [Hop::DevRecv, Hop::IpPre, Hop::IpIn] {
        tunnels.receive(&packet(hop, 2, 150, 2), &HERE);
    }
    tunnels.receive(&packet(Hop::DevRecv, 1, 100, VXLAN), &HERE);
    let outer = tunnels.arrived.take().expect("the outer packet");
    let hops: Vec<Hop> = outer.hops.iter().flatten().map(|event| event.hop).collect();
    assert_eq!(hops, [Hop::DevRecv, Hop::IpPre, Hop::IpIn]);
    // A later hop of the inner packet is no second arrival.
    tunnels.receive(&packet(Hop::IpPre, 1, 100, VXLAN), &HERE);
    assert!(tunnels.arrived.is_none());
}

#[test]
fn hops_of_the_packet_before_in_this_buffer_are_not_those_of_the_outer_one() {
    let mut tunnels = tunnels();
    tunnels.receive(&packet(Hop::DevRecv, 2, 150, 2), &HERE);
    tunnels.receive(&packet(Hop::IpIn, 2, 150, 2), &HERE);
    tunnels.receive(&Event { ip_id: 6, ..packet(Hop::DevRecv, 2, 150, 2) }, &HERE);
    tunnels.receive(&packet(Hop::DevRecv, 1, 100, VXLAN), &HERE);
    let outer = tunnels.arrived.take().expect("the outer packet");
    assert_eq!(outer.hops.iter().flatten().count(), 1);
}

/// Receives a packet in a buffer at an instant.
fn receive(tunnels: &mut Tunnels, skb: u32, time_ns: u64, event: Event, at: &Place) -> bool {
    tunnels.receive(&Event { time_ns, skb, ..event }, at);
    tunnels.arrived.take().is_some()
}

#[test]
fn a_packet_copied_into_the_buffer_of_an_earlier_one_was_not_inside_that() {
    let (outer, inner) = (packet(Hop::DevRecv, 2, 150, 2), packet(Hop::DevRecv, 1, 100, VXLAN));
    for apart_ns in [100, 1_000_000, UNPACK_NS] {
        let mut tunnels = tunnels();
        for n in 1..5 {
            let at_ns = apart_ns * u64::from(n);
            assert!(!receive(&mut tunnels, n, at_ns, outer, &HERE));
            let is_tied = receive(&mut tunnels, n - 1, at_ns + 50, inner, &HERE);
            assert!(!is_tied, "in the buffer of the outer packet {apart_ns} ns earlier");
        }
    }
}

#[test]
fn each_of_several_outer_packets_in_one_run_has_its_inner_one() {
    let (outer, inner) = (packet(Hop::DevRecv, 2, 150, 2), packet(Hop::DevRecv, 1, 100, VXLAN));
    for (lacks_others, tied) in [(false, [true; 3]), (true, [false; 3])] {
        let mut tunnels = tunnels();
        let at = Place { lacks_others, ..HERE };
        for n in 1..=3 {
            receive(&mut tunnels, n, 1_000 + u64::from(n), outer, &at);
        }
        let unpacked = [1, 2, 3].map(|n| receive(&mut tunnels, n, 2_000 + u64::from(n), inner, &at));
        assert_eq!(unpacked, tied, "lost events may be those of the packet inside an earlier one");
    }
}

#[test]
fn packets_come_out_of_a_tunnel_in_order() {
    let (outer, inner) = (packet(Hop::DevRecv, 2, 150, 2), packet(Hop::DevRecv, 1, 100, VXLAN));
    let mut tunnels = tunnels();
    for n in 1..=2 {
        receive(&mut tunnels, n, 1_000 + u64::from(n), outer, &HERE);
    }
    assert!(receive(&mut tunnels, 2, 2_000, inner, &HERE));
    assert!(!receive(&mut tunnels, 1, 2_001, inner, &HERE), "the one before came out earlier");
}

#[test]
fn an_identification_shows_the_arrival_of_an_outer_packet() {
    let mut tunnels = tunnels();
    tunnels.send(&packet(Hop::DevXmit, 1, 100, VXLAN), &Place { stream: 4, ..HERE });
    tunnels.send(&packet(Hop::DevXmit, 2, 150, 2), &Place { stream: 5, ..HERE });
    let arrives = |hop, ip_id| Event { skb: 99, ip_id, ..packet(hop, 9, 150, 2) };
    for (hop, ip_id, stream) in [(Hop::DevRecv, 6, 5), (Hop::DevRecv, 5, 6), (Hop::DevRecv, 0, 5)] {
        assert_eq!(tunnels.receive(&arrives(hop, ip_id), &Place { stream, ..HERE }), None);
    }
    for hop in [Hop::DevRecv, Hop::IpIn] {
        let inside = tunnels.receive(&arrives(hop, 5), &Place { stream: 5, ..HERE }).expect("the inner packet");
        assert_eq!(inside.flow, FlowId(1));
    }
    let dropped = tunnels.drop(&arrives(Hop::SkbDrop, 5), [Some(4), Some(5)]);
    assert_eq!(shown(dropped.as_ref()), Some((1, vec![])));
    // Its hops are recorded, although it comes out of the same buffer.
    tunnels.receive(&Event { skb: 99, ..packet(Hop::DevRecv, 8, 100, VXLAN) }, &Place { stream: 4, ..HERE });
    assert!(!tunnels.has_arrived());
}

#[test]
fn a_dropped_outer_packet_takes_the_inner_one_with_it() {
    let mut tunnels = tunnels();
    tunnels.send(&packet(Hop::DevXmit, 1, 100, VXLAN), &HERE);
    let mut drop =
        |flow, len, ifindex| shown(tunnels.drop(&packet(Hop::SkbDrop, flow, len, ifindex), [None; 2]).as_ref());
    assert_eq!(drop(1, 100, VXLAN), None, "the inner one itself");
    tunnels.send(&packet(Hop::DevXmit, 1, 100, VXLAN), &HERE);
    tunnels.send(&packet(Hop::IpOut, 2, 150, 2), &HERE);
    let mut drop =
        |flow, len, ifindex| shown(tunnels.drop(&packet(Hop::SkbDrop, flow, len, ifindex), [None; 2]).as_ref());
    assert_eq!(drop(2, 150, 2), Some((1, vec![Hop::IpOut])), "with the hop before its device");
    assert_eq!(drop(2, 150, 2), None);
}

#[test]
fn an_interface_that_has_become_another_one_is_no_tunnel() {
    let mut tunnels = tunnels();
    let name = "eth0".to_owned();
    tunnels.learn(&[InterfaceName { netns: NETNS, index: VXLAN, name, kind: "veth".to_owned() }]);
    tunnels.send(&packet(Hop::DevXmit, 1, 100, VXLAN), &HERE);
    assert!(tunnels.send(&packet(Hop::DevXmit, 2, 150, 2), &HERE).is_none());
}

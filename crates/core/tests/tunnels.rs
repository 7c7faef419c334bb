//! Journeys inside the outer packets of tunnels.

use crate::common::*;
use magscope_core::blame::Blame;
use magscope_core::journey::{Forwarder, Journey, Limits, Verdict};
use magscope_core::node::InterfaceName;
use magscope_core::workload::Names;
use magscope_core::{Batch, Correlator, Event, Flow, FlowId, Hop, Part, Proto};

const OUTER_OUT: FlowId = FlowId(91);
const OUTER_IN: FlowId = FlowId(92);
const TUNNEL: u32 = 7;
const BELOW: u32 = 2;

/// What a tunnel adds to a segment without options: two IP headers less the outer one, TCP, UDP, VXLAN and Ethernet.
const ADDED: u32 = 62;

fn names() -> Vec<InterfaceName> {
    let name = |(netns, index, kind): (u32, u32, &str)| InterfaceName {
        netns,
        index,
        name: format!("if{index}"),
        kind: kind.to_owned(),
    };
    [(1, BELOW, "veth"), (1, TUNNEL, "vxlan"), (2, BELOW, "veth"), (2, TUNNEL, "vxlan")].map(name).to_vec()
}

fn at(ifindex: u32, skb: u32, events: Vec<Event>) -> Vec<Event> {
    events.into_iter().map(|event| Event { ifindex, skb, ..event }).collect()
}

/// A hop of the outer packet of a segment.
fn outer(hop: Hop, time_ns: u64, flow: FlowId, ip_id: u16, skb: u32) -> Event {
    Event {
        flow,
        len: 50 + ADDED,
        ip_id,
        skb,
        ifindex: BELOW,
        proto: Proto::UDP,
        segs: 1,
        ..Event::at(hop, time_ns)
    }
}

fn sent(time_ns: u64, seq: u32, ip_id: u16, skb: u32) -> Vec<Event> {
    let mut events = vec![by(tcp(Hop::TcpSend, time_ns, CLIENT, seq, 50), 5, 50)];
    events.extend(at(TUNNEL, skb, run(&PACKET_TX, time_ns + 10, CLIENT, seq, 50)));
    for (hop, later_ns) in [(Hop::IpOut, 20), (Hop::DevQueue, 30), (Hop::DevXmit, 80)] {
        events.push(outer(hop, time_ns + later_ns, OUTER_OUT, ip_id, skb));
    }
    events
}

/// `copied`: the kernel copies the packet before it takes the inner one out.
fn received(time_ns: u64, seq: u32, ip_id: u16, skb: u32, copied: bool) -> Vec<Event> {
    let mut events = Vec::new();
    for (hop, later_ns) in [(Hop::DevRecv, 200), (Hop::IpPre, 205), (Hop::IpIn, 210)] {
        events.push(outer(hop, time_ns + later_ns, OUTER_IN, ip_id, skb));
    }
    let skb = if copied { skb + 1000 } else { skb };
    events.extend(at(TUNNEL, skb, run(&PACKET_RX, time_ns + 240, SERVER, seq, 50)));
    events.push(by(tcp(Hop::SockReady, time_ns + 260, SERVER, seq + 50, 0), 0, 70));
    events.push(by(tcp(Hop::AppRecv, time_ns + 300, SERVER, seq, 50), 7, 70));
    events
}

fn flows_of_tunnel() -> Vec<Flow> {
    let mut flows = flows(Proto::TCP);
    flows.push(flow(OUTER_OUT, 1, Proto::UDP, "192.0.2.1:50000", "192.0.2.2:4789"));
    flows.push(flow(OUTER_IN, 2, Proto::UDP, "192.0.2.2:4789", "192.0.2.1:50000"));
    flows
}

fn inner(names_come_later: bool, events: Vec<Event>) -> Vec<Journey> {
    inner_of(flows_of_tunnel(), names_come_later, events)
}

/// The journeys of the inner flow. The names come with the capture's start, or later in a batch.
fn inner_of(flows: Vec<Flow>, names_come_later: bool, events: Vec<Event>) -> Vec<Journey> {
    let mut info = node();
    let mut batch = Batch { flows, events, watermark_ns: 10_000, ..Batch::default() };
    if names_come_later {
        batch.names.push(Names { interfaces: names(), ..Names::default() });
    } else {
        info.interfaces = names();
    }
    let mut correlator = Correlator::of_node(&info, Limits::default());
    let mut done = Vec::new();
    correlator.push(&batch, &mut done);
    correlator.finish(&mut done);
    done.retain(|journey| journey.proto == Proto::TCP);
    done
}

#[test]
fn a_journey_shows_the_hops_of_its_outer_packet() {
    for (ip_id, copied, names_come_later) in [(9, false, false), (9, true, true), (0, false, true)] {
        let events = [sent(0, 1000, ip_id, 77), received(0, 1000, ip_id, 77, copied)].concat();
        let done = inner(names_come_later, events);
        let [journey] = &done[..] else { panic!("{done:#?}") };
        assert_eq!((journey.verdict, journey.disordered()), (Verdict::Complete, 0));
        let [leaves, arrives] = journey.tunnels[..] else { panic!("{journey:#?}") };
        assert_eq!((leaves.tx_flow, leaves.span_ns()), (OUTER_OUT, Some((20, 80))));
        assert_eq!((arrives.rx_flow, arrives.span_ns()), (OUTER_IN, Some((200, 210))));
        let hops: Vec<_> = journey.path_with_tunnels().map(|rung| (rung.hop, rung.tunnel)).collect();
        let before = hops.iter().position(|(_, tunnel)| *tunnel == 1).expect("an outer hop");
        assert_eq!(hops[before - 1], (Hop::DevXmit, 0));
        let inside = [Hop::IpOut, Hop::DevQueue, Hop::DevXmit, Hop::DevRecv, Hop::IpPre, Hop::IpIn];
        assert_eq!(hops[before..before + 6].iter().map(|(hop, _)| *hop).collect::<Vec<_>>(), inside);
        assert!(journey.path_with_tunnels().map(|rung| rung.time_ns).is_sorted());
        assert!(journey.ladder().all(|rung| rung.tunnel == 0), "its own hops alone");
        let blame = Blame::of(journey, coverage()).unwrap();
        assert_eq!(blame.ns(Part::Wire), Some(120), "between the devices below the tunnel");
        assert_eq!(blame.parts().map(|(_, ns)| ns).sum::<u64>(), 300);
    }
}

#[test]
fn a_router_of_the_outer_packet_is_not_the_receivers_stack() {
    const ROUTER_IN: FlowId = FlowId(93);
    let passes = [Hop::DevRecv, Hop::IpPre].map(|hop| outer(hop, 120, ROUTER_IN, 9, 55));
    let arrives = received(0, 1000, 9, 55, true);
    let mut flows = flows_of_tunnel();
    flows.push(flow(ROUTER_IN, 9, Proto::UDP, "192.0.2.2:4789", "192.0.2.1:50000"));
    let done = inner_of(flows, false, [sent(0, 1000, 9, 77), passes.to_vec(), arrives].concat());
    let [journey] = &done[..] else { panic!("{done:#?}") };
    assert_eq!(journey.tunnels.len(), 3, "{:#?}", journey.tunnels);
    let blame = Blame::of(journey, coverage()).unwrap();
    assert_eq!((blame.ns(Part::Wire), blame.ns(Part::Unknown)), (Some(40), Some(80)));
    assert_eq!(blame.parts().map(|(_, ns)| ns).sum::<u64>(), 300);
}

#[test]
fn each_journey_has_its_own_outer_packets() {
    // The buffers change places, and the second packet overtakes the first one's arrival.
    let events = [sent(0, 1000, 9, 77), sent(100, 1050, 10, 78), received(100, 1050, 10, 77, true)].concat();
    let mut events = [events, received(150, 1000, 9, 78, true)].concat();
    events.sort_by_key(|event| event.time_ns);
    let done = inner(false, events);
    for (seq, left_ns, came_ns) in [(1000, 20, 350), (1050, 120, 300)] {
        let journey = done.iter().find(|journey| journey.range.start as u32 == seq).expect("a journey");
        let first = |n: usize| journey.tunnels.get(n).and_then(Forwarder::span_ns).map(|(from, _)| from);
        assert_eq!((first(0), first(1)), (Some(left_ns), Some(came_ns)), "{seq}");
    }
}

#[test]
fn the_segments_of_an_outer_super_packet_are_tied_each_to_its_bytes() {
    const SEGMENTS: u16 = 3;
    let whole = |event: Event| Event { len: 150 + event.len - 50, segs: SEGMENTS, ..event };
    let path = [(Hop::IpOut, 20), (Hop::DevQueue, 30), (Hop::DevXmit, 80)];
    for cut_at in [Hop::DevQueue, Hop::DevXmit] {
        let mut events = vec![by(tcp(Hop::TcpSend, 0, CLIENT, 1000, 150), 5, 50)];
        let leaves = at(TUNNEL, 77, run(&PACKET_TX, 10, CLIENT, 1000, 150));
        events.extend(leaves.into_iter().map(|event| Event { segs: SEGMENTS, ..event }));
        for (hop, time_ns) in path {
            if hop < cut_at {
                events.push(whole(outer(hop, time_ns, OUTER_OUT, 9, 77)));
                continue;
            }
            let segment = |n: u16| outer(hop, time_ns + u64::from(n), OUTER_OUT, 9 + n, 100 + u32::from(n));
            events.extend((0..SEGMENTS).map(segment));
        }
        for n in 0..u32::from(SEGMENTS) {
            let arrives = received(100 + u64::from(n), 1000 + 50 * n, 9 + n as u16, 100 + n, true);
            events.extend(arrives);
        }
        events.sort_by_key(|event| event.time_ns);
        let done = inner(false, events);
        assert_eq!(ranges(&done), [(1000, 50), (1050, 50), (1100, 50)]);
        for (n, journey) in (0..).zip(&done) {
            assert_eq!((journey.verdict, journey.disordered()), (Verdict::Complete, 0));
            let spans: Vec<_> = journey.tunnels.iter().map(Forwarder::span_ns).collect();
            assert_eq!(spans, [Some((20, 80 + n)), Some((300 + n, 310 + n))], "cut at {cut_at}");
            let hops = journey.path_with_tunnels().filter(|rung| rung.tunnel > 0);
            assert_eq!(hops.count(), 6, "cut at {cut_at}");
        }
    }
}

#[test]
fn a_packet_whose_outer_one_is_dropped_is_dropped() {
    let drop = |time_ns, flow| outer(Hop::SkbDrop, time_ns, flow, 9, 77);
    let arrives = |n: usize| received(0, 1000, 9, 77, false).into_iter().take(n).collect::<Vec<_>>();
    for (arrived, dropped) in [(0, drop(90, OUTER_OUT)), (2, drop(230, OUTER_IN))] {
        let done = inner(false, [sent(0, 1000, 9, 77), arrives(arrived), vec![dropped]].concat());
        let [journey] = &done[..] else { panic!("{done:#?}") };
        assert!(matches!(journey.verdict, Verdict::Dropped { .. }), "{:?}", journey.verdict);
        assert_eq!((journey.drop_flow, journey.drop_ifindex), (dropped.flow, BELOW));
        let longest = journey.spans_with_tunnels().filter_map(|(_, step)| step).map(|step| step.ns).max();
        assert!(journey.total_ns() >= longest, "{:?} {longest:?}", journey.total_ns());
        assert_eq!(journey.tunnels.len(), 1 + usize::from(arrived > 0));
    }
}

#[test]
fn a_plain_interface_ties_nothing() {
    let mut events = [sent(0, 1000, 9, 77), received(0, 1000, 9, 77, false)].concat();
    for event in events.iter_mut().filter(|event| event.ifindex == TUNNEL) {
        event.ifindex = BELOW;
    }
    let done = inner(false, events);
    assert!(done.iter().all(|journey| journey.tunnels.is_empty()), "{done:#?}");
}

/// The receiver's part of segments alone, `apart_ns` from one to the next: each is copied into the buffer that the outer
/// packet of the one before had.
fn copied_into_earlier_buffers(apart_ns: u64) -> Vec<Event> {
    let arrive = |n: u32| {
        let events = received(u64::from(n) * apart_ns, 1000 + 50 * n, 9 + n as u16, 70 + n, true);
        let is_inner = |event: &Event| event.ifindex == TUNNEL;
        events
            .into_iter()
            .map(move |event| if is_inner(&event) { Event { skb: 69 + n, ..event } } else { event })
    };
    (0..4).flat_map(arrive).collect()
}

#[test]
fn an_outer_packet_that_had_the_buffer_before_is_not_that_of_a_copy() {
    for apart_ns in [1_000, 20_000_000] {
        let done = inner(false, copied_into_earlier_buffers(apart_ns));
        assert_eq!(done.len(), 4, "{done:#?}");
        for journey in &done {
            assert!(journey.tunnels.is_empty(), "{apart_ns}: {journey:#?}");
            assert_eq!(journey.total_ns(), Some(60));
        }
    }
}

#[test]
fn outer_packets_that_arrive_in_one_run_are_tied_each_to_its_own() {
    let mut events = Vec::new();
    for n in 0..3 {
        // All outer packets arrive before the first one inside.
        let own = received(20 * u64::from(n), 1000 + 50 * n, 9 + n as u16, 70 + n, false);
        let later = |event: Event| if event.flow == OUTER_IN { 0 } else { 1_000 };
        events.extend(own.into_iter().map(|event| Event { time_ns: event.time_ns + later(event), ..event }));
    }
    events.sort_by_key(|event| event.time_ns);
    let done = inner(false, events);
    assert_eq!(done.len(), 3, "{done:#?}");
    for (n, journey) in (0..).zip(&done) {
        let spans: Vec<_> = journey.tunnels.iter().map(Forwarder::span_ns).collect();
        assert_eq!(spans, [Some((200 + 20 * n, 210 + 20 * n))]);
        let (start_ns, end_ns) = journey.span_ns().unwrap();
        assert_eq!(journey.total_ns(), Some(end_ns - start_ns));
    }
}

#[test]
fn a_joined_journey_has_no_outer_packet_from_before_its_departure() {
    let sent = inner(false, sent(0, 1000, 9, 77));
    let half = sent.first().expect("the sender's half");
    for (earlier_ns, count) in [(0, 2), (190, 1)] {
        let mut came = received(0, 1000, 9, 77, false);
        came.iter_mut().filter(|event| event.flow == OUTER_IN).for_each(|event| event.time_ns -= earlier_ns);
        let came = inner(false, came);
        let theirs = came.first().expect("the receiver's half");
        assert_eq!(theirs.tunnels.len(), 1);
        let mut joined = half.clone();
        joined.take_receiver(theirs);
        assert_eq!(joined.tunnels.len(), count, "{joined:#?}");
        let (start_ns, end_ns) = joined.span_ns().unwrap();
        assert_eq!(joined.total_ns(), Some(end_ns - start_ns));
    }
}

/// The kernel takes the packet inside: no socket shows its end.
#[test]
fn an_outer_packet_is_not_in_flight_for_ever() {
    let mut arrives = received(0, 1000, 9, 77, true);
    arrives.retain(|event| event.flow == OUTER_IN);
    for (quiet_ns, verdict) in [
        (10_000, Verdict::InFlight),
        (2_000_000_000, Verdict::HalfComplete),
        (60_000_000_000, Verdict::HalfComplete),
    ] {
        let mut correlator = Correlator::new(coverage(), Limits::default());
        let mut done = Vec::new();
        correlator.push(&batch(flows_of_tunnel(), arrives.clone()), &mut done);
        correlator.push(&Batch { watermark_ns: quiet_ns, ..Batch::default() }, &mut done);
        correlator.finish(&mut done);
        let verdicts: Vec<_> = done.iter().map(|journey| journey.verdict).collect();
        assert_eq!(verdicts, [verdict], "{quiet_ns}");
    }
}

/// Nothing shows that a datagram which has only passed its device is of a tunnel.
#[test]
fn a_datagram_behind_no_hop_of_its_host_is_lost_there() {
    let mut arrives = received(0, 1000, 9, 77, true);
    arrives.retain(|event| event.flow == OUTER_IN && event.hop == Hop::DevRecv);
    for (names, verdict) in
        [(Vec::new(), Verdict::LostAfter { hop: Hop::DevRecv }), (names(), Verdict::HalfComplete)]
    {
        let mut correlator = Correlator::new(coverage(), Limits::default());
        let mut done = Vec::new();
        // What is known of a flow counts from its second packet on.
        let second =
            arrives.iter().map(|event| Event { time_ns: event.time_ns + 50, ip_id: 10, skb: 78, ..*event });
        let events = arrives.iter().copied().chain(second).collect();
        let names = vec![Names { interfaces: names, ..Names::default() }];
        correlator.push(&Batch { names, ..batch(flows_of_tunnel(), events) }, &mut done);
        correlator.push(&Batch { watermark_ns: 60_000_000_000, ..Batch::default() }, &mut done);
        correlator.finish(&mut done);
        assert!(done.iter().all(|journey| journey.verdict == verdict), "{done:#?}");
        assert_eq!(done.len(), 2);
    }
}

//! Journeys through nodes that pass packets on, with and without a translation of addresses.

use crate::common::*;
use magscope_core::blame::Blame;
use magscope_core::journey::{Journey, Limits, Verdict};
use magscope_core::{Correlator, DetailKind, Event, Flow, FlowId, Hop, HopSet, Part, Proto};

const NODE_IN: FlowId = FlowId(91);
const NODE_OUT: FlowId = FlowId(92);
const INSIDE: FlowId = FlowId(93);
const NODE_BACK_IN: FlowId = FlowId(94);
const STRANGER: FlowId = FlowId(96);

/// Client (namespace 1) → node (9) → server (2). The node gives the client's packets its own address.
fn masqueraded(proto: Proto) -> Vec<Flow> {
    vec![
        flow(CLIENT, 1, proto, "10.0.0.1:4000", "10.0.0.2:80"),
        flow(NODE_IN, 9, proto, "10.0.0.2:80", "10.0.0.1:4000"),
        flow(NODE_OUT, 9, proto, "192.0.2.1:61000", "10.0.0.2:80"),
        flow(SERVER, 2, proto, "10.0.0.2:80", "192.0.2.1:61000"),
    ]
}

/// The same without a translation.
fn routed(proto: Proto) -> Vec<Flow> {
    vec![
        flow(CLIENT, 1, proto, "10.0.0.1:4000", "10.0.0.2:80"),
        flow(NODE_IN, 9, proto, "10.0.0.2:80", "10.0.0.1:4000"),
        flow(NODE_OUT, 9, proto, "10.0.0.1:4000", "10.0.0.2:80"),
        flow(SERVER, 2, proto, "10.0.0.2:80", "10.0.0.1:4000"),
    ]
}

/// Masqueraded, with another client whose connection uses the node's port again.
fn of_two_clients(proto: Proto) -> Vec<Flow> {
    let mut flows = masqueraded(proto);
    flows.push(flow(OTHER_CLIENT, 1, proto, "10.0.0.1:4001", "10.0.0.2:80"));
    flows.push(flow(NODE_BACK_IN, 9, proto, "10.0.0.2:80", "10.0.0.1:4001"));
    flows
}

/// A later segment, of the other client.
fn segment_of_other_client() -> Vec<Event> {
    let of_other = |event: Event| Event {
        flow: match event.flow {
            CLIENT => OTHER_CLIENT,
            NODE_IN => NODE_BACK_IN,
            same => same,
        },
        ..event
    };
    segment(5000, 3_000_000, 79).into_iter().map(of_other).collect()
}

fn in_buffer(skb: u32, events: Vec<Event>) -> Vec<Event> {
    events.into_iter().map(|event| Event { skb, ..event }).collect()
}

const ENTERS: [Hop; 2] = [Hop::DevRecv, Hop::IpPre];
const LEAVES: [Hop; 3] = [Hop::IpPost, Hop::DevQueue, Hop::DevXmit];

/// A segment from the client's send to the server's read, 100 ns of them in the node.
fn segment(time_ns: u64, seq: u32, skb: u32) -> Vec<Event> {
    let mut events = vec![by(tcp(Hop::TcpSend, time_ns, CLIENT, seq, 50), 5, 50)];
    events.extend(in_buffer(skb, run(&PACKET_TX, time_ns + 10, CLIENT, seq, 50)));
    events.extend(in_buffer(skb, run(&ENTERS, time_ns + 100, NODE_IN, seq, 50)));
    events.extend(in_buffer(skb, run(&LEAVES, time_ns + 198, NODE_OUT, seq, 50)));
    events.extend(in_buffer(skb, run(&PACKET_RX, time_ns + 300, SERVER, seq, 50)));
    events.push(by(tcp(Hop::SockReady, time_ns + 310, SERVER, seq + 50, 0), 0, 70));
    events.push(by(tcp(Hop::AppRecv, time_ns + 400, SERVER, seq, 50), 7, 70));
    events
}

fn segments(flows: Vec<Flow>) -> (Vec<Journey>, Correlator) {
    let events = [segment(0, 1000, 77), segment(1000, 1050, 78), segment(2000, 1100, 77)].concat();
    correlate(served(), flows, events)
}

fn served() -> HopSet {
    let mut set = coverage();
    for hop in [Hop::AppCopy, Hop::TaskWake, Hop::TaskRun] {
        set.remove(hop);
    }
    set
}

#[test]
fn a_journey_through_a_node_has_its_times_and_both_ends() {
    for flows in [routed(Proto::TCP), masqueraded(Proto::TCP)] {
        let (done, correlator) = segments(flows);
        assert_eq!(ranges(&done), [(1000, 50), (1050, 50), (1100, 50)]);
        for journey in &done {
            assert_eq!((journey.tx_flow, journey.rx_flow), (CLIENT, SERVER));
            assert_eq!((journey.verdict, journey.disordered()), (Verdict::Complete, 0));
            let start = journey.start_ns().unwrap();
            assert_eq!(journey.rungs.time_ns(Hop::DevXmit), Some(start + 14), "the sender's own");
            assert_eq!(journey.rungs.time_ns(Hop::DevRecv), Some(start + 300), "the receiver's own");
            let [node] = journey.forwarders[..] else { panic!("{journey:#?}") };
            assert_eq!((node.rx_flow, node.tx_flow), (NODE_IN, NODE_OUT));
            assert_eq!(node.span_ns(), Some((start + 100, start + 200)));
            assert_eq!(journey.total_ns(), Some(400));
            let blame = Blame::of(journey, served()).unwrap();
            assert_eq!(blame.ns(Part::Forwarding), Some(100));
            assert_eq!(blame.ns(Part::Wire), Some(86 + 100), "two wires");
            assert_eq!(blame.parts().map(|(_, ns)| ns).sum::<u64>(), 400);
            let latencies: u64 = journey.latencies().map(|latency| latency.ns).sum();
            assert_eq!(latencies, 400);
        }
        assert_eq!(correlator.counters().journeys, 3);
    }
}

fn handshake() -> Vec<Event> {
    let syn = |hop, time_ns, flow| Event { tcp_flags: 2, skb: 70, ..tcp(hop, time_ns, flow, 999, 0) };
    vec![
        syn(Hop::IpOut, 1, CLIENT),
        syn(Hop::DevXmit, 2, CLIENT),
        syn(Hop::DevRecv, 3, NODE_IN),
        syn(Hop::DevXmit, 4, NODE_OUT),
        syn(Hop::DevRecv, 5, SERVER),
        syn(Hop::IpIn, 6, SERVER),
    ]
}

/// A segment that the node copies into another buffer, which proves nothing without an acknowledgement.
fn copied_segment(time_ns: u64) -> Vec<Event> {
    let mut data = segment(time_ns, 1000, 77);
    data.iter_mut().filter(|event| event.flow == NODE_OUT).for_each(|event| event.skb = 99);
    data
}

#[test]
fn a_translation_is_proven_by_the_handshake() {
    let events = [handshake(), copied_segment(100)].concat();
    let (done, correlator) = correlate(served(), masqueraded(Proto::TCP), events);
    assert_eq!(correlator.counters().translations, 1);
    let [journey] = &done[..] else { panic!("{done:#?}") };
    assert_eq!((journey.verdict, journey.forwarders.len()), (Verdict::Complete, 1));
    assert_eq!((journey.sent_flow(), journey.received_flow()), (NODE_OUT, SERVER));
}

/// Reads `data` after the proofs of a reader of `all`, from the instant of `data`'s first event.
fn read_again(flows: fn(Proto) -> Vec<Flow>, all: Vec<Event>, data: Vec<Event>) -> (Vec<Journey>, u64) {
    let mut survey = Correlator::new(served(), Limits::default());
    survey.keep_proofs();
    survey.push(&batch(flows(Proto::TCP), all), &mut Vec::new());
    let mut reader = Correlator::new(served(), Limits::default());
    reader.begin_with(survey.proofs().expect("they were kept"), data[0].time_ns);
    let mut done = Vec::new();
    reader.push(&batch(flows(Proto::TCP), data), &mut done);
    reader.finish(&mut done);
    (done, reader.counters().translations)
}

#[test]
fn a_reader_of_a_part_knows_what_was_proven_before_it() {
    for flows in [routed, masqueraded] {
        let all = [handshake(), copied_segment(100)].concat();
        let whole = correlate(served(), flows(Proto::TCP), all.clone()).0;
        let (part, translations) = read_again(flows, all, copied_segment(100));
        assert_eq!((part, translations), (whole, 0));
    }
}

#[test]
fn a_reader_of_a_part_knows_nothing_of_later_packets() {
    let later: Vec<Event> =
        handshake().into_iter().map(|event| Event { time_ns: event.time_ns + 1000, ..event }).collect();
    let all = [copied_segment(100), later].concat();
    let (part, _) = read_again(masqueraded, all, copied_segment(100));
    assert_eq!(part.len(), 2, "two halves, as a reader of all sees them then: {part:#?}");
}

/// The port of a node's own address had another connection before.
#[test]
fn what_was_proven_before_a_part_yields_to_what_its_packets_prove() {
    let second = segment_of_other_client();
    let (part, _) = read_again(of_two_clients, [segment(0, 1000, 77), second.clone()].concat(), second);
    let ends: Vec<_> = part.iter().map(|j| (j.tx_flow, j.rx_flow, j.verdict)).collect();
    assert_eq!(ends, [(OTHER_CLIENT, SERVER, Verdict::Complete)]);
}

#[test]
fn a_node_that_changes_buffer_and_addresses_leaves_two_halves() {
    let (done, correlator) = correlate(served(), masqueraded(Proto::TCP), copied_segment(100));
    assert_eq!(correlator.counters().translations, 0);
    let ends: Vec<_> = done.iter().map(|j| (j.tx_flow, j.rx_flow, j.verdict)).collect();
    assert_eq!(ends, [(CLIENT, NODE_IN, Verdict::HalfComplete), (NODE_OUT, SERVER, Verdict::HalfComplete)]);
}

/// The node copies the packets of a sender on its own host, which may have to send them again.
#[test]
fn an_acknowledgement_shows_a_copied_segment() {
    let acknowledges = |number: u32, ip_id| {
        let with = move |event: Event| {
            let detail = if event.hop.spec().has_packet { DetailKind::Ack.of(number) } else { event.detail };
            Event { detail, ip_id, ..event }
        };
        copied_segment(100).into_iter().map(with).collect::<Vec<Event>>()
    };
    let ends = |events: Vec<Event>| {
        let (done, correlator) = correlate(served(), masqueraded(Proto::TCP), events);
        let ends: Vec<_> = done.iter().map(|j| (j.tx_flow, j.rx_flow, j.verdict)).collect();
        (ends, correlator.counters().translations)
    };
    let halves = vec![(CLIENT, NODE_IN, Verdict::HalfComplete), (NODE_OUT, SERVER, Verdict::HalfComplete)];
    assert_eq!(ends(acknowledges(7_000_000, 5)), (vec![(CLIENT, SERVER, Verdict::Complete)], 1));
    let change = |change: fn(&mut Event)| {
        let mut events = acknowledges(7_000_000, 5);
        events.iter_mut().filter(|event| event.flow == NODE_OUT).for_each(change);
        events
    };
    let others = [
        change(|event| event.detail = DetailKind::Ack.of(7_000_001)),
        change(|event| event.ip_id = 6),
        change(|event| event.tcp_flags = 24),
    ];
    for other in others {
        assert_eq!(ends(other), (halves.clone(), 0));
    }
}

/// A datagram from the client to the server through the node.
fn datagram(time_ns: u64, ip_id: u16, skb: u32) -> Vec<Event> {
    let at = |hops: &[Hop], from_ns: u64, flow| -> Vec<Event> {
        let events = hops.iter().zip(from_ns..);
        events.map(|(hop, ns)| udp(*hop, time_ns + ns, flow, ip_id, skb, 40)).collect()
    };
    let mut events: Vec<Event> = at(&TX, 10, CLIENT).into_iter().map(|event| by(event, 5, 50)).collect();
    events.extend(at(&ENTERS, 100, NODE_IN));
    events.extend(at(&LEAVES, 198, NODE_OUT));
    let arrival = at(&RX, 300, SERVER).into_iter();
    events.extend(arrival.map(|event| if event.hop == Hop::UdpRecv { by(event, 0, 70) } else { event }));
    let read = Event { proto: Proto::UDP, len: 40, flow: SERVER, ..Event::at(Hop::AppRecv, time_ns + 400) };
    events.push(by(read, 7, 70));
    events
}

#[test]
fn datagrams_pass_a_node_from_the_first_on() {
    for (flows, ip_id) in [
        (routed(Proto::UDP), 7),
        (masqueraded(Proto::UDP), 7),
        (routed(Proto::UDP), 0),
        (masqueraded(Proto::UDP), 0),
    ] {
        let ids = |n: u16| if ip_id == 0 { 0 } else { ip_id + n };
        let events = [datagram(0, ids(0), 77), datagram(1000, ids(1), 78), datagram(2000, ids(2), 77)].concat();
        let (done, _) = correlate(served(), flows, events);
        assert_eq!(done.len(), 3, "{done:#?}");
        for journey in &done {
            assert_eq!((journey.tx_flow, journey.rx_flow), (CLIENT, SERVER), "{journey:#?}");
            assert_eq!((journey.verdict, journey.ambiguous), (Verdict::Complete, false));
            let start = journey.start_ns().unwrap() - 10;
            assert_eq!(journey.forwarders.len(), 1, "{journey:#?}");
            assert_eq!(journey.forwarders[0].span_ns(), Some((start + 100, start + 200)));
            assert_eq!(journey.rungs.time_ns(Hop::DevRecv), Some(start + 300));
        }
    }
}

/// A datagram of a flow of its own each millisecond: time goes on for all others.
fn others(from_ns: u64, to_ns: u64) -> Vec<Event> {
    let sent = (from_ns..to_ns).step_by(1_000_000).zip(1..);
    sent.map(|(ns, id)| udp(Hop::DevXmit, ns, STRANGER, id, 500 + u32::from(id), 9)).collect()
}

/// The journeys that have ended by `until_ns`, and the correlator.
fn until(proto: Proto, events: Vec<Event>, until_ns: u64) -> (Vec<Journey>, Correlator) {
    let mut flows = routed(proto);
    flows.push(flow(STRANGER, 7, Proto::UDP, "10.0.9.1:9", "10.0.9.2:9"));
    let mut all = [events, others(1_000, until_ns)].concat();
    all.sort_by_key(|event| event.time_ns);
    let (mut done, mut correlator) = (Vec::new(), Correlator::new(served(), Limits::default()));
    let mut flows = Some(flows);
    // Batches, as from a capture: each ends what is due.
    for events in all.chunks(16) {
        correlator.push(&batch(flows.take().unwrap_or_default(), events.to_vec()), &mut done);
    }
    done.retain(|journey| journey.tx_flow != STRANGER);
    (done, correlator)
}

fn correlate_with_others(proto: Proto, events: Vec<Event>, until_ns: u64) -> (Vec<Journey>, Correlator) {
    let (mut done, mut correlator) = until(proto, events, until_ns);
    correlator.finish(&mut done);
    done.retain(|journey| journey.tx_flow != STRANGER);
    (done, correlator)
}

const WAIT_NS: u64 = 2_500_000_000;

#[test]
fn a_packet_that_a_node_drops_after_a_long_wait_is_dropped_there() {
    for proto in [Proto::UDP, Proto::TCP] {
        let (sent, drop) = match proto {
            Proto::UDP => (datagram(0, 7, 77), udp(Hop::SkbDrop, WAIT_NS, NODE_IN, 7, 77, 40)),
            _ => (segment(0, 1000, 77), Event { skb: 77, ..tcp(Hop::SkbDrop, WAIT_NS, NODE_IN, 1000, 50) }),
        };
        let drop = Event { detail: DetailKind::DropReason.of(8), ..drop };
        // A dropped packet that was received has the flow of its arrival. It waits for the address of the next hop, before or after the first hop of sending.
        for last_ns in [150, 199] {
            let mut events: Vec<Event> = sent.iter().filter(|event| event.time_ns < last_ns).copied().collect();
            events.push(drop);
            let (done, correlator) = correlate_with_others(proto, events, WAIT_NS + 100_000_000);
            let [journey] = &done[..] else { panic!("{proto} {done:#?}") };
            assert!(matches!(journey.verdict, Verdict::Dropped { reason: 8, .. }), "{proto} {journey:#?}");
            assert_eq!(correlator.counters().unmatched_drops, 0);
        }
    }
}

#[test]
fn a_packet_that_waits_in_a_node_stays_one_journey() {
    for proto in [Proto::UDP, Proto::TCP] {
        let sent = if proto == Proto::UDP { datagram(0, 7, 77) } else { segment(0, 1000, 77) };
        // In the queue of the interface where it leaves, for less than a buffer is remembered.
        let wait_ns = WAIT_NS / 5;
        let late = |event: Event| {
            let ns = if event.time_ns >= 200 { wait_ns } else { 0 };
            Event { time_ns: event.time_ns + ns, ..event }
        };
        let events = sent.into_iter().map(late).collect();
        let (done, _) = correlate_with_others(proto, events, wait_ns + 100_000_000);
        let [journey] = &done[..] else { panic!("{proto} {done:#?}") };
        assert_eq!((journey.tx_flow, journey.rx_flow, journey.verdict), (CLIENT, SERVER, Verdict::Complete));
        assert_eq!(journey.forwarders.len(), 1, "{journey:#?}");
        assert_eq!(journey.forwarders[0].inside_ns(), Some(wait_ns + 100), "{proto}");
    }
}

/// The device that sends it is on top of another one, whose queue holds it.
#[test]
fn a_packet_waits_in_the_queue_of_the_device_below() {
    let wait_ns = WAIT_NS / 5;
    let mut events = Vec::new();
    for event in datagram(0, 7, 77) {
        let is_late = event.time_ns > 200;
        events.push(Event { time_ns: event.time_ns + if is_late { wait_ns } else { 0 }, ..event });
        if event.hop == Hop::DevXmit && event.flow == NODE_OUT {
            let below = |hop, time_ns| Event { hop, time_ns, ifindex: 2, ..event };
            events.extend([below(Hop::DevQueue, 201), below(Hop::DevXmit, 210 + wait_ns)]);
        }
    }
    let (done, _) = correlate_with_others(Proto::UDP, events, wait_ns + 100_000_000);
    let [journey] = &done[..] else { panic!("{done:#?}") };
    assert_eq!((journey.rx_flow, journey.verdict), (SERVER, Verdict::Complete));
    assert_eq!(journey.forwarders[0].inside_ns(), Some(wait_ns + 110), "{journey:#?}");
}

/// Another connection begins at the same addresses.
#[test]
fn bytes_that_wait_in_a_node_are_not_lost_by_a_new_connection() {
    let is_early = |event: &Event| event.time_ns < 150;
    let mut events: Vec<Event> = segment(0, 1000, 77).into_iter().filter(is_early).collect();
    let syn = tcp(Hop::IpOut, 1_000_000_000, CLIENT, 3_000_000_000, 0);
    events.push(Event { tcp_flags: 2, ..syn });
    let (done, _) = until(Proto::TCP, events, 1_100_000_000);
    let verdicts: Vec<Verdict> = done.iter().map(|journey| journey.verdict).collect();
    assert_eq!(verdicts, [Verdict::HalfComplete]);
}

/// The receiver is not in the capture.
#[test]
fn a_packet_that_waits_in_a_node_holds_back_no_later_one() {
    let mut events = Vec::new();
    for n in 0..100_u16 {
        let own = datagram(1_000 * u64::from(n), 7 + n, 700 + u32::from(n));
        let is_here =
            |event: &&Event| event.flow == CLIENT || event.flow == NODE_IN || event.flow == NODE_OUT && n != 1;
        events.extend(own.iter().filter(is_here).copied());
    }
    let (done, _) = until(Proto::UDP, events.clone(), 300_000_000);
    assert_eq!(done.len(), 99, "but the one that waits");
    let (done, _) = until(Proto::UDP, events, 11_000_000_000);
    assert_eq!(done.len(), 100);
    assert!(done.iter().all(|journey| journey.verdict == Verdict::HalfComplete), "{done:#?}");
}

#[test]
fn an_answer_in_the_buffer_of_the_question_is_not_passed_on() {
    // A server on the node answers each datagram with one of the same length in the same buffer.
    let flows = vec![
        flow(CLIENT, 1, Proto::UDP, "10.0.0.1:4000", "10.0.0.2:80"),
        flow(SERVER, 2, Proto::UDP, "10.0.0.2:80", "10.0.0.1:4000"),
    ];
    let mut events = Vec::new();
    for n in 0..4 {
        let at_ns = 1000 * n;
        events.extend(TX.iter().zip(at_ns..).map(|(hop, ns)| by(udp(*hop, ns, CLIENT, 0, 77, 40), 5, 50)));
        let arrival = RX.iter().zip(at_ns + 100..).map(|(hop, ns)| udp(*hop, ns, SERVER, 0, 77, 40));
        events.extend(arrival.map(|event| by(event, 0, 70)));
        events.push(by(Event { flow: SERVER, ..udp(Hop::AppRecv, at_ns + 200, SERVER, 0, 0, 40) }, 7, 70));
        events
            .extend(TX.iter().zip(at_ns + 300..).map(|(hop, ns)| by(udp(*hop, ns, SERVER, 0, 77, 40), 7, 70)));
    }
    let (done, correlator) = correlate(served(), flows, events);
    assert!(done.iter().all(|journey| journey.forwarders.is_empty()), "{done:#?}");
    assert_eq!((correlator.counters().translations, correlator.counters().forwarded), (0, 0));
}

#[test]
fn a_proxy_that_sends_on_in_the_same_buffer_is_not_passed_on() {
    // Without an identification, and with two pairs of addresses: what it sends begins at `ip.out`.
    let flows = vec![
        flow(SERVER, 2, Proto::UDP, "10.0.0.2:53", "10.0.0.1:4000"),
        flow(INSIDE, 2, Proto::UDP, "10.0.0.2:5353", "10.0.0.9:53"),
    ];
    let mut events: Vec<Event> =
        RX.iter().zip(0..).map(|(hop, ns)| by(udp(*hop, ns, SERVER, 0, 77, 40), 0, 70)).collect();
    events.push(by(udp(Hop::AppRecv, 50, SERVER, 0, 0, 40), 7, 70));
    events.extend(TX.iter().zip(100..).map(|(hop, ns)| by(udp(*hop, ns, INSIDE, 0, 77, 40), 7, 71)));
    let (done, correlator) = correlate(served(), flows, events);
    assert_eq!(correlator.counters().translations, 0);
    assert_eq!(done.len(), 2);
    assert!(done.iter().all(|journey| journey.forwarders.is_empty()));
}

#[test]
fn a_published_port_is_one_stream_on_its_own_host() {
    // The client's own host changes the destination, behind `ip.out`.
    let flows = vec![
        flow(CLIENT, 1, Proto::TCP, "192.0.2.1:4000", "192.0.2.1:8080"),
        flow(NODE_OUT, 1, Proto::TCP, "192.0.2.1:4000", "172.17.0.2:80"),
        flow(SERVER, 2, Proto::TCP, "172.17.0.2:80", "192.0.2.1:4000"),
    ];
    let mut events = vec![by(tcp(Hop::TcpSend, 0, CLIENT, 1000, 50), 5, 50)];
    events.extend(in_buffer(77, run(&[Hop::TcpXmit, Hop::IpOut], 10, CLIENT, 1000, 50)));
    events.extend(in_buffer(77, run(&LEAVES, 20, NODE_OUT, 1000, 50)));
    events.extend(in_buffer(77, run(&PACKET_RX, 300, SERVER, 1000, 50)));
    events.push(by(tcp(Hop::SockReady, 310, SERVER, 1050, 0), 0, 70));
    events.push(by(tcp(Hop::AppRecv, 400, SERVER, 1000, 50), 7, 70));
    let (done, _) = correlate(served(), flows, events);
    let [journey] = &done[..] else { panic!("{done:#?}") };
    assert_eq!((journey.tx_flow, journey.rx_flow, journey.verdict), (CLIENT, SERVER, Verdict::Complete));
    assert_eq!(journey.rungs.time_ns(Hop::DevXmit), Some(22), "its own device, under another address");
    assert!(journey.forwarders.is_empty());
}

#[test]
fn an_answer_reaches_a_client_whose_host_translates_it_back() {
    let flows = vec![
        flow(SERVER, 2, Proto::TCP, "172.17.0.2:80", "192.0.2.1:4000"),
        flow(NODE_IN, 1, Proto::TCP, "192.0.2.1:4000", "172.17.0.2:80"),
        flow(CLIENT, 1, Proto::TCP, "192.0.2.1:4000", "192.0.2.1:8080"),
    ];
    let mut events = vec![by(tcp(Hop::TcpSend, 0, SERVER, 1000, 50), 5, 50)];
    events.extend(in_buffer(77, run(&PACKET_TX, 10, SERVER, 1000, 50)));
    events.extend(in_buffer(77, run(&ENTERS, 100, NODE_IN, 1000, 50)));
    events.extend(in_buffer(77, run(&[Hop::IpIn, Hop::TcpRecv], 110, CLIENT, 1000, 50)));
    events.push(by(tcp(Hop::SockReady, 310, CLIENT, 1050, 0), 0, 70));
    events.push(by(tcp(Hop::AppRecv, 400, CLIENT, 1000, 50), 7, 70));
    let (done, _) = correlate(served(), flows, events);
    let [journey] = &done[..] else { panic!("{done:#?}") };
    assert_eq!((journey.tx_flow, journey.rx_flow, journey.verdict), (SERVER, CLIENT, Verdict::Complete));
    assert_eq!(journey.rungs.time_ns(Hop::DevRecv), Some(100), "its own device, under another address");
    assert!(journey.forwarders.is_empty());
}

#[test]
fn an_answer_without_an_identification_is_translated_inside_a_bridge() {
    // The hooks of IP run at the port; then the bridge's own device has the packet under its last addresses.
    let flows = vec![
        flow(SERVER, 2, Proto::UDP, "172.17.0.2:80", "192.0.2.1:4000"),
        flow(NODE_IN, 1, Proto::UDP, "192.0.2.1:4000", "172.17.0.2:80"),
        flow(CLIENT, 1, Proto::UDP, "192.0.2.1:4000", "192.0.2.1:8080"),
    ];
    for hooks in [true, false] {
        let at = |hop, time_ns, flow, ifindex| Event { ifindex, ..udp(hop, time_ns, flow, 0, 77, 40) };
        let mut events: Vec<Event> =
            TX.iter().zip(10..).map(|(hop, ns)| by(at(*hop, ns, SERVER, 2), 5, 50)).collect();
        events.push(at(Hop::DevRecv, 100, NODE_IN, 3));
        events.extend(hooks.then(|| at(Hop::IpPre, 101, NODE_IN, 4)));
        events.push(at(Hop::DevRecv, 102, CLIENT, 4));
        events.push(at(Hop::IpIn, 103, CLIENT, 4));
        events.push(by(at(Hop::UdpRecv, 104, CLIENT, 4), 0, 70));
        events.push(by(udp(Hop::AppRecv, 200, CLIENT, 0, 0, 40), 7, 70));
        let (done, _) = correlate(served(), flows.clone(), events);
        let [journey] = &done[..] else { panic!("{done:#?}") };
        assert_eq!((journey.tx_flow, journey.rx_flow, journey.verdict), (SERVER, CLIENT, Verdict::Complete));
        assert_eq!(journey.rungs.time_ns(Hop::DevRecv), Some(100));
    }
}

#[test]
fn a_packet_lost_behind_a_node_says_so() {
    let mut events = segment(0, 1000, 77);
    let mut lost = segment(1000, 1050, 78);
    lost.retain(|event| event.flow != SERVER);
    events.extend(lost);
    let (done, _) = correlate(served(), masqueraded(Proto::TCP), events);
    assert_eq!(done.len(), 2);
    assert_eq!(done[1].ended_at().map(|at| (at.tx_flow, at.last())), Some((NODE_OUT, Some(Hop::DevXmit))));
    assert_eq!(done[0].ended_at(), None);
    assert_eq!(done[1].total_ns(), Some(200));
}

/// The node has translated the destination and not yet the source when a rule drops the packet. No hop has shown these
/// addresses.
#[test]
fn a_drop_between_two_translations_is_of_the_packet_in_its_buffer() {
    const BETWEEN: FlowId = FlowId(95);
    for proto in [Proto::UDP, Proto::TCP] {
        let mut flows = masqueraded(proto);
        flows.push(flow(BETWEEN, 9, proto, "10.0.0.9:8080", "10.0.0.1:4000"));
        let (sent, drop) = if proto == Proto::UDP {
            (datagram(0, 7, 77), udp(Hop::SkbDrop, 150, BETWEEN, 7, 77, 40))
        } else {
            (segment(0, 1000, 77), Event { skb: 77, ..tcp(Hop::SkbDrop, 150, BETWEEN, 1000, 50) })
        };
        let drop = Event { detail: DetailKind::DropReason.of(8), ifindex: 3, ..drop };
        let mut events: Vec<Event> = sent.into_iter().filter(|event| event.time_ns < 150).collect();
        events.push(drop);
        let (done, correlator) = correlate(served(), flows.clone(), events.clone());
        let [journey] = &done[..] else { panic!("{done:#?}") };
        assert!(matches!(journey.verdict, Verdict::Dropped { reason: 8, .. }), "{journey:#?}");
        assert_eq!((journey.drop_flow, journey.drop_ifindex), (NODE_IN, 3), "it was in the node");
        assert_eq!((correlator.counters().drops, correlator.counters().unmatched_drops), (1, 0));
        // Another packet in that buffer proves nothing.
        let last = events.len() - 1;
        (events[last].len, events[last].ip_id) = (41, 8);
        let (done, correlator) = correlate(served(), flows, events);
        assert!(!matches!(done[0].verdict, Verdict::Dropped { .. }), "{done:#?}");
        assert_eq!(correlator.counters().drops, 0);
    }
}

#[test]
fn a_bridge_may_translate_between_its_own_device_and_its_port() {
    // The node's packets pass `dev.xmit` twice, and only the second time with their last addresses.
    let mut flows = masqueraded(Proto::TCP);
    flows.push(flow(INSIDE, 9, Proto::TCP, "10.0.0.1:4000", "198.51.100.7:81"));
    let mut events = Vec::new();
    for event in [segment(0, 1000, 77), segment(1000, 1050, 78)].concat() {
        if event.flow == NODE_OUT && event.hop == Hop::DevXmit {
            events.push(Event { flow: INSIDE, ifindex: 2, time_ns: event.time_ns - 1, ..event });
            events.push(Event { ifindex: 3, ..event });
        } else if event.flow != NODE_OUT {
            events.push(event);
        }
    }
    let (done, _) = correlate(served(), flows, events);
    let ends: Vec<_> = done.iter().map(|j| (j.tx_flow, j.rx_flow, j.verdict)).collect();
    assert_eq!(ends, [(CLIENT, SERVER, Verdict::Complete); 2]);
    assert!(done.iter().all(|journey| journey.forwarders.len() == 1 && journey.sent_flow() == NODE_OUT));
}

#[test]
fn a_port_used_again_leads_to_its_new_connection() {
    let second = segment_of_other_client();
    let (done, _) = correlate(served(), of_two_clients(Proto::TCP), [segment(0, 1000, 77), second].concat());
    let ends: Vec<_> = done.iter().map(|j| (j.tx_flow, j.rx_flow, j.verdict)).collect();
    assert_eq!(ends, [(CLIENT, SERVER, Verdict::Complete), (OTHER_CLIENT, SERVER, Verdict::Complete)]);
}

#[test]
fn evicted_streams_with_two_pairs_of_addresses_are_evicted_once() {
    let limits = Limits { max_flows: 8, ..Limits::default() };
    let mut correlator = Correlator::new(served(), limits);
    let mut done = Vec::new();
    for n in 0..64_u64 {
        let port = 4000 + n;
        let id = |k: u64| FlowId(100 * n + k + 1);
        let flows = vec![
            flow(id(0), 1, Proto::TCP, &format!("10.0.0.1:{port}"), "10.0.0.2:80"),
            flow(id(1), 9, Proto::TCP, "10.0.0.2:80", &format!("10.0.0.1:{port}")),
            flow(id(2), 9, Proto::TCP, &format!("192.0.2.1:{port}"), "10.0.0.2:80"),
            flow(id(3), 2, Proto::TCP, "10.0.0.2:80", &format!("192.0.2.1:{port}")),
        ];
        let ids = [CLIENT, NODE_IN, NODE_OUT, SERVER];
        let number = |flow| ids.iter().position(|id| *id == flow).unwrap() as u64;
        let events = segment(1000 * n, 1000, 77 + n as u32);
        let events = events.into_iter().map(|event| Event { flow: id(number(event.flow)), ..event }).collect();
        correlator.push(&batch(flows, events), &mut done);
    }
    correlator.finish(&mut done);
    assert_eq!(done.len(), 64);
    assert!(done.iter().all(|journey| journey.verdict == Verdict::Complete), "{done:#?}");
}

/// A host that is not the receiver gets a copy of the packet, from a bridge that floods or a mirror, and drops it.
fn copy_to_a_stranger(time_ns: u64, sent: &Event) -> [Event; 2] {
    let copy = Event { flow: STRANGER, skb: 99, ifindex: 8, tid: 0, tgid: 0, socket: 0, ..*sent };
    let detail = DetailKind::DropReason.of(8);
    [
        Event { hop: Hop::DevRecv, time_ns, ..copy },
        Event { hop: Hop::SkbDrop, time_ns: time_ns + 2, detail, ..copy },
    ]
}

#[test]
fn a_copy_that_a_stranger_drops_is_not_the_packet() {
    for proto in [Proto::UDP, Proto::TCP] {
        let mut flows = routed(proto);
        flows.push(flow(STRANGER, 7, proto, "10.0.0.2:80", "10.0.0.1:4000"));
        for at_ns in [220, 303, 350] {
            let packet = |n: u32| match proto {
                Proto::UDP => datagram(1000 * u64::from(n), 7 + n as u16, 77),
                _ => segment(1000 * u64::from(n), 1000 + 50 * n, 77),
            };
            let mut events = Vec::new();
            for n in 0..3 {
                let own = packet(n);
                let sent = *own.iter().find(|event| event.hop == Hop::DevXmit).unwrap();
                events.extend(copy_to_a_stranger(1000 * u64::from(n) + at_ns, &sent));
                events.extend(own);
            }
            events.sort_by_key(|event| event.time_ns);
            let (done, _) = correlate(served(), flows.clone(), events);
            assert_eq!(done.len(), 3, "{done:#?}");
            for journey in &done {
                assert_eq!(journey.verdict, Verdict::Complete, "{at_ns} {journey:#?}");
                assert_eq!((journey.tx_flow, journey.rx_flow), (CLIENT, SERVER));
                let through: Vec<FlowId> = journey.forwarders.iter().map(|at| at.tx_flow).collect();
                assert_eq!(through, [NODE_OUT], "{at_ns} {journey:#?}");
                let arrived_ns = journey.rungs.time_ns(Hop::DevRecv).map(|ns| ns % 1000);
                assert_eq!(arrived_ns, Some(300), "{at_ns} {journey:#?}");
            }
        }
    }
}

#[test]
fn a_packet_of_which_only_a_stranger_has_a_copy_is_dropped_there() {
    let mut flows = routed(Proto::UDP);
    flows.push(flow(STRANGER, 7, Proto::UDP, "10.0.0.2:80", "10.0.0.1:4000"));
    let mut events: Vec<Event> = datagram(0, 7, 77).into_iter().filter(|event| event.flow == CLIENT).collect();
    let sent = *events.last().unwrap();
    events.extend(copy_to_a_stranger(100, &sent));
    let (done, _) = correlate(served(), flows, events);
    let [journey] = &done[..] else { panic!("{done:#?}") };
    assert!(matches!(journey.verdict, Verdict::Dropped { reason: 8, .. }), "{journey:#?}");
    assert_eq!(journey.drop_flow, STRANGER);
}

#[test]
fn a_joined_journey_keeps_no_passage_of_another_copy() {
    let named = |ip_id, events: Vec<Event>| -> Vec<Event> {
        events.into_iter().map(|event| Event { ip_id, segs: 1, ..event }).collect()
    };
    let copy = |time_ns, ip_id, skb| {
        let mut events = named(ip_id, in_buffer(skb, run(&PACKET_TX, time_ns, CLIENT, 1000, 50)));
        events.extend(named(ip_id, in_buffer(skb, run(&ENTERS, time_ns + 100, NODE_IN, 1000, 50))));
        events.extend(named(ip_id, in_buffer(skb, run(&LEAVES, time_ns + 198, NODE_OUT, 1000, 50))));
        events
    };
    let mut sent = vec![by(tcp(Hop::TcpSend, 0, CLIENT, 1000, 50), 5, 50)];
    sent.extend(copy(10, 1, 77));
    sent.extend(copy(10_000, 2, 78));
    let (done, _) = correlate(served(), routed(Proto::TCP), sent);
    let [half] = &done[..] else { panic!("{done:#?}") };
    assert_eq!((half.copies.len(), half.copy, half.forwarders.len()), (2, 2, 1));
    for (ip_id, time_ns, forwarders) in [(1, 500, 0), (2, 10_500, 1)] {
        let mut events = named(ip_id, run(&PACKET_RX, time_ns, SERVER, 1000, 50));
        events.push(by(tcp(Hop::AppRecv, time_ns + 100, SERVER, 1000, 50), 7, 70));
        let (arrived, _) = correlate(served(), routed(Proto::TCP), events);
        let mut joined = half.clone();
        joined.take_receiver(&arrived[0]);
        assert_eq!((joined.copy, joined.forwarders.len()), (u32::from(ip_id), forwarders));
    }
}

/// Without `ip.in`, no hop shows that a packet of a protocol without sockets came to its end.
#[test]
fn a_ping_that_a_node_drops_is_dropped_there() {
    let mut served = served();
    for hop in [Hop::IpIn, Hop::IpPre, Hop::IpPost] {
        served.remove(hop);
    }
    let echo = |hop, time_ns, flow| Event { skb: 77, ..udp(hop, time_ns, flow, 7, 1, 64) };
    let icmp =
        |events: Vec<Event>| events.into_iter().map(|event| Event { proto: Proto::ICMP, ..event }).collect();
    let sent =
        vec![echo(Hop::IpOut, 10, CLIENT), echo(Hop::DevXmit, 20, CLIENT), echo(Hop::DevRecv, 30, NODE_IN)];
    let drop = |flow| Event { detail: DetailKind::DropReason.of(9), ..echo(Hop::SkbDrop, 40, flow) };
    let verdicts = |events: Vec<Event>| -> Vec<Verdict> {
        let (done, _) = correlate(served, masqueraded(Proto::ICMP), icmp(events));
        done.iter().map(|journey| journey.verdict).collect()
    };
    let dropped = |hop| vec![Verdict::Dropped { hop, reason: 9 }];
    for flow in [NODE_IN, NODE_OUT] {
        assert_eq!(verdicts([sent.clone(), vec![drop(flow)]].concat()), dropped(Hop::DevRecv), "{flow}");
    }
    assert_eq!(verdicts(sent.clone()), [Verdict::HalfComplete]);
    let passed = vec![echo(Hop::DevXmit, 40, NODE_OUT), echo(Hop::DevRecv, 50, SERVER)];
    assert_eq!(verdicts([sent, passed].concat()), [Verdict::HalfComplete]);
}

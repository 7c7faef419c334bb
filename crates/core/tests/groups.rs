//! Datagrams to a group: every receiver has its journey.

use crate::common;
use common::*;
use magscope_core::blame::Blame;
use magscope_core::journey::{Correlator, Limits, Verdict};
use magscope_core::node::{DropReason, NodeInfo};
use magscope_core::{DetailKind, Event, EventFlags, Flow, FlowId, Hop, Part, Proto};

const GROUP_HERE: FlowId = FlowId(51);
const GROUP_THERE: FlowId = FlowId(52);

/// A sender's flow to a group, from the side of the sender, of the sender as a receiver, and of another host.
fn group_flows() -> Vec<Flow> {
    vec![
        flow(CLIENT, 1, Proto::UDP, "10.0.0.1:4000", "239.1.1.1:80"),
        flow(GROUP_HERE, 1, Proto::UDP, "239.1.1.1:80", "10.0.0.1:4000"),
        flow(GROUP_THERE, 2, Proto::UDP, "239.1.1.1:80", "10.0.0.1:4000"),
    ]
}

fn group_up(time_ns: u64, flow: FlowId, ip_id: u16, sockets: &[u64]) -> Vec<Event> {
    let at = |hop, time_ns, socket| {
        let event = udp(hop, time_ns, flow, ip_id, 1, 100);
        Event { flags: EventFlags::GROUP, socket, ..event }
    };
    let mut events: Vec<_> = RX[..3].iter().zip(0..).map(|(hop, i)| at(*hop, time_ns + i, 0)).collect();
    for (socket, i) in sockets.iter().zip(0..) {
        events.push(at(Hop::UdpRecv, time_ns + 4 + 2 * i, *socket));
        events.push(by(udp(Hop::SockReady, time_ns + 5 + 2 * i, FlowId::NONE, 0, 0, 0), 0, *socket));
    }
    events
}

fn group_read(time_ns: u64, tid: u32, socket: u64) -> Event {
    by(udp(Hop::AppRecv, time_ns, FlowId::NONE, 0, 0, 100), tid, socket)
}

/// Over IPv6 the fragments have an identification, and the datagram that was put together has none.
#[test]
fn fragments_to_a_group_are_the_datagram_that_was_put_together() {
    let sent = [down(0, 0, 1, 100), down(200, 0, 1, 100)].concat();
    let named = sent.into_iter().zip([0, 0, 0, 7, 0, 0, 0, 8]).map(|(event, ip_id)| Event { ip_id, ..event });
    let mut events: Vec<Event> = named.collect();
    for (ns, ip_id) in [(10, 7), (210, 8)] {
        let mut came = group_up(ns, GROUP_THERE, ip_id, &[73]);
        came.iter_mut().filter(|event| event.hop == Hop::UdpRecv).for_each(|event| event.ip_id = 0);
        events.extend(came);
        events.push(group_read(ns + 50, 3, 73));
    }
    events.sort_by_key(|event| event.time_ns);
    let done = journeys(group_flows(), events);
    let seen: Vec<_> = done.iter().map(|j| (j.verdict, j.rungs.time_ns(Hop::AppRecv))).collect();
    assert_eq!(seen, [(Verdict::Complete, Some(60)), (Verdict::Complete, Some(260))], "{done:#?}");
}

#[test]
fn every_receiver_of_a_group_has_its_journey() {
    for (ip_id, waits) in [(9, false), (0, false), (9, true), (0, true)] {
        let mut events = down(0, ip_id, 1, 100);
        // The copy that the sender loops back leaves between the two events at ip.post, and may wait until the
        // other has gone.
        let post = if waits { events.len() } else { 2 };
        events.truncate(post);
        events.extend(group_up(10, GROUP_HERE, ip_id, &[71, 72]));
        let again = if waits { Vec::new() } else { down(30, ip_id, 1, 100).split_off(1) };
        events.extend(again);
        events.extend(group_up(40, GROUP_THERE, ip_id, &[73, 74]));
        events.push(at_return(by(udp(Hop::AppSend, 60, CLIENT, 0, 0, 100), 5, 50)));
        events.extend(
            [(71, 1), (72, 2), (73, 3), (74, 4)]
                .map(|(socket, tid)| group_read(100 + u64::from(tid), tid, socket)),
        );
        let done = journeys(group_flows(), events);
        assert_eq!(done.len(), 4, "{done:#?}");
        let mut readers: Vec<_> = done.iter().map(|j| (j.reader.map(|w| w.tid), j.rx_flow)).collect();
        readers.sort_unstable_by_key(|r| r.0);
        let (here, there) = (GROUP_HERE, GROUP_THERE);
        assert_eq!(readers, [(Some(1), here), (Some(2), here), (Some(3), there), (Some(4), there)]);
        for journey in &done {
            assert_eq!((journey.verdict, journey.tx_flow, journey.bytes()), (Verdict::Complete, CLIENT, 100));
            assert_eq!(
                (journey.sender.map(|w| w.tid), journey.ambiguous, journey.disordered()),
                (Some(5), false, 0)
            );
            assert!(journey.rungs.has(Hop::AppSend) && journey.rungs.time_ns(Hop::IpPost) == Some(1));
            // a looped-back datagram never reaches the device
            assert_eq!(journey.rungs.has(Hop::DevXmit), journey.rx_flow == GROUP_THERE);
        }
    }
}

/// A log that is imported marks the arrival of each receiver.
#[test]
fn a_receiver_in_doubt_leaves_the_others_of_its_group_certain() {
    const OTHER: FlowId = FlowId(55);
    let mut flows = group_flows();
    flows.push(flow(OTHER, 3, Proto::UDP, "239.1.1.1:80", "10.0.0.1:4000"));
    let mut in_doubt = group_up(40, OTHER, 9, &[75]);
    for event in in_doubt.iter_mut().filter(|event| event.flags.contains(EventFlags::GROUP)) {
        event.flags = event.flags.with(EventFlags::AMBIGUOUS);
    }
    let reads = vec![group_read(100, 3, 73), group_read(101, 4, 75)];
    let events = [down(0, 9, 1, 100), group_up(20, GROUP_THERE, 9, &[73]), in_doubt, reads].concat();
    let mut done = journeys(flows, events);
    done.sort_by_key(|j| j.rx_flow);
    let seen: Vec<_> = done.iter().map(|j| (j.rx_flow, j.verdict, j.ambiguous)).collect();
    let want = [(GROUP_THERE, Verdict::Complete, false), (OTHER, Verdict::Complete, true)];
    assert_eq!(seen, want, "{done:#?}");
}

/// A bridge copies the packet to two ports in one buffer and with the same addresses, and one of them has a queue.
#[test]
fn a_copy_in_one_port_of_a_bridge_is_not_on_the_path_through_another() {
    const BRIDGE_IN: FlowId = FlowId(53);
    const BRIDGE_OUT: FlowId = FlowId(54);
    const OTHER: FlowId = FlowId(55);
    let mut flows = group_flows();
    flows.push(flow(BRIDGE_IN, 9, Proto::UDP, "239.1.1.1:80", "10.0.0.1:4000"));
    flows.push(flow(BRIDGE_OUT, 9, Proto::UDP, "10.0.0.1:4000", "239.1.1.1:80"));
    flows.push(flow(OTHER, 3, Proto::UDP, "239.1.1.1:80", "10.0.0.1:4000"));
    for ip_id in [9, 0] {
        let at = |hop, time_ns, flow, ifindex| Event { ifindex, ..udp(hop, time_ns, flow, ip_id, 1, 100) };
        let came = Event { flags: EventFlags::GROUP, ..at(Hop::DevRecv, 10, BRIDGE_IN, 3) };
        let near = [at(Hop::DevQueue, 20, BRIDGE_OUT, 4), at(Hop::DevXmit, 21, BRIDGE_OUT, 4)];
        let far = [at(Hop::DevQueue, 22, BRIDGE_OUT, 5), at(Hop::DevXmit, 5_000, BRIDGE_OUT, 5)];
        let mut events = [down(0, ip_id, 1, 100), vec![came], near.to_vec(), far.to_vec()].concat();
        events.extend(group_up(30, GROUP_THERE, ip_id, &[73]));
        events.extend(group_up(5_010, OTHER, ip_id, &[75]));
        events.extend([group_read(100, 3, 73), group_read(5_100, 4, 75)]);
        events.sort_by_key(|event| event.time_ns);
        let mut done = journeys(flows.clone(), events);
        done.sort_by_key(|j| j.rx_flow);
        assert_eq!(done.len(), 2, "{done:#?}");
        for (journey, (to, came_ns)) in done.iter().zip([(GROUP_THERE, 30), (OTHER, 5_010)]) {
            assert_eq!((journey.rx_flow, journey.verdict), (to, Verdict::Complete), "{journey:#?}");
            assert_eq!(journey.rungs.time_ns(Hop::DevRecv), Some(came_ns), "the first one too");
            let [bridge] = journey.forwarders[..] else { panic!("{journey:#?}") };
            assert_eq!((bridge.rx_flow, bridge.tx_flow, bridge.rx_ifindex), (BRIDGE_IN, FlowId::NONE, 3));
            assert_eq!((bridge.span_ns(), bridge.inside_ns()), (Some((10, 10)), None));
            let blame = Blame::of(journey, coverage()).unwrap();
            assert_eq!((blame.ns(Part::Wire), blame.ns(Part::Unknown)), (Some(7), Some(came_ns - 10)));
        }
    }
}

/// The bridge has a queue, and the link behind it too.
#[test]
fn a_datagram_to_a_group_may_take_long() {
    const BRIDGE_IN: FlowId = FlowId(53);
    const BRIDGE_OUT: FlowId = FlowId(54);
    const MS: u64 = 1_000_000;
    let mut flows = group_flows();
    flows.push(flow(BRIDGE_IN, 9, Proto::UDP, "239.1.1.1:80", "10.0.0.1:4000"));
    flows.push(flow(BRIDGE_OUT, 9, Proto::UDP, "10.0.0.1:4000", "239.1.1.1:80"));
    let at = |hop, time_ns, flow, ifindex| Event { ifindex, ..udp(hop, time_ns, flow, 9, 1, 100) };
    let came = Event { flags: EventFlags::GROUP, ..at(Hop::DevRecv, 10, BRIDGE_IN, 3) };
    let mut events = [down(0, 9, 1, 100), vec![came, at(Hop::DevXmit, 80 * MS, BRIDGE_OUT, 4)]].concat();
    events.extend(group_up(160 * MS, GROUP_THERE, 9, &[73]));
    events.push(group_read(161 * MS, 3, 73));
    let (mut done, mut correlator) = (Vec::new(), Correlator::new(coverage(), Limits::default()));
    let mut flows = Some(flows);
    for event in events {
        correlator.push(&batch(flows.take().unwrap_or_default(), vec![event]), &mut done);
    }
    correlator.finish(&mut done);
    let [journey] = &done[..] else { panic!("{done:#?}") };
    assert_eq!((journey.rx_flow, journey.verdict), (GROUP_THERE, Verdict::Complete));
}

#[test]
fn what_goes_to_a_group_that_nobody_here_is_in_is_one_journey() {
    let done = journeys(group_flows(), down(0, 9, 1, 100));
    assert_eq!((done.len(), done[0].rx_flow), (1, FlowId::NONE));
}

#[test]
fn one_of_several_sockets_that_is_full_drops_only_its_own() {
    let mut events = [down(0, 9, 1, 100), group_up(40, GROUP_THERE, 9, &[73, 74])].concat();
    let drop = Event {
        detail: DetailKind::DropReason.of(6),
        flags: EventFlags::GROUP,
        ..udp(Hop::SkbDrop, 60, GROUP_THERE, 9, 1, 100)
    };
    events.extend([drop, group_read(100, 3, 73)]);
    let mut done = journeys(group_flows(), events);
    done.sort_by_key(|j| j.reader.map(|w| w.tid));
    assert_eq!(done.len(), 2, "{done:#?}");
    assert!(matches!(done[0].verdict, Verdict::Dropped { reason: 6, .. }), "{:?}", done[0]);
    assert_eq!(done[1].verdict, Verdict::Complete);
}

/// A host loops its broadcast back to itself, and frees the copy if no socket wants it.
#[test]
fn a_copy_that_no_socket_wants_is_no_journey() {
    let name = |number, name: &str| DropReason { number, name: name.to_owned() };
    let drop_reasons = vec![name(2, "not_specified"), name(6, "socket_rcvbuff")];
    let info = NodeInfo { drop_reasons, ..node() };
    let freed = |reason| Event {
        detail: DetailKind::DropReason.of(reason),
        flags: EventFlags::GROUP,
        ..udp(Hop::SkbDrop, 15, GROUP_HERE, 9, 1, 100)
    };
    let verdicts = |reason| {
        let events = [
            down(0, 9, 1, 100),
            group_up(10, GROUP_HERE, 9, &[]),
            vec![freed(reason)],
            group_up(40, GROUP_THERE, 9, &[73]),
            vec![group_read(100, 3, 73)],
        ];
        let mut correlator = Correlator::of_node(&info, Limits::default());
        let mut done = Vec::new();
        correlator.push(&batch(group_flows(), events.concat()), &mut done);
        correlator.finish(&mut done);
        done.iter().map(|journey| (journey.rx_flow, journey.verdict)).collect::<Vec<_>>()
    };
    assert_eq!(verdicts(2), [(GROUP_THERE, Verdict::Complete)]);
    let full = Verdict::Dropped { hop: Hop::IpIn, reason: 6 };
    assert_eq!(verdicts(6), [(GROUP_HERE, full), (GROUP_THERE, Verdict::Complete)]);
}

/// A host that is not in the group of a membership report frees it before its own receiver has it.
#[test]
fn a_report_of_membership_that_a_host_ignores_is_its_senders_half() {
    let icmp = Proto(58);
    let flows = || group_flows().into_iter().map(|flow| Flow { proto: icmp, ..flow }).collect();
    let drop_reasons = vec![DropReason { number: 2, name: "not_specified".to_owned() }];
    let info = NodeInfo { drop_reasons, ..node() };
    let verdicts = |hops: usize| {
        let freed = Event {
            detail: DetailKind::DropReason.of(2),
            flags: EventFlags::GROUP,
            ..udp(Hop::SkbDrop, 45, GROUP_THERE, 9, 1, 100)
        };
        let mut came = group_up(40, GROUP_THERE, 9, &[]);
        came.truncate(hops);
        let events = [down(0, 9, 1, 100), came, vec![freed]].concat();
        let events = events.into_iter().map(|event| Event { proto: icmp, ..event }).collect();
        let mut correlator = Correlator::of_node(&info, Limits::default());
        let mut done = Vec::new();
        correlator.push(&batch(flows(), events), &mut done);
        correlator.finish(&mut done);
        let counters = correlator.counters();
        let seen = done.iter().map(|journey| (journey.rx_flow, journey.verdict)).collect::<Vec<_>>();
        (seen, counters.forwarded, counters.cleaned_up)
    };
    assert_eq!(verdicts(2), (vec![(FlowId::NONE, Verdict::HalfComplete)], 0, 1));
    assert_eq!(verdicts(3), (vec![(GROUP_THERE, Verdict::Complete)], 0, 1));
}

#[test]
fn a_group_whose_sender_is_elsewhere() {
    let mut events = group_up(40, GROUP_THERE, 9, &[73, 74]);
    events.extend([group_read(100, 3, 73), group_read(101, 4, 74)]);
    let done = journeys(group_flows(), events);
    assert_eq!(done.len(), 2);
    assert!(done.iter().all(|j| j.verdict == Verdict::HalfComplete && j.rungs.has(Hop::DevRecv)));
}

/// Datagrams without an identification, 300 ms apart: each is received in its own buffer, which an earlier one
/// was sent in.
fn nameless(n: u64, is_lost: impl Fn(u64) -> bool) -> Vec<Event> {
    nameless_in(n, is_lost, |i| (1 + i as u32, if i == 0 { 1000 } else { i as u32 }))
}

/// The same, the n-th of them in these buffers of sender and receiver.
fn nameless_in(n: u64, is_lost: impl Fn(u64) -> bool, buffers: impl Fn(u64) -> (u32, u32)) -> Vec<Event> {
    let mut events = Vec::new();
    for i in 0..n {
        let at = i * 300_000_000;
        let (sent_in, skb) = buffers(i);
        events.extend(down(at, 0, sent_in, 100));
        if !is_lost(i) {
            let up = group_up(at + 10_000, GROUP_THERE, 0, &[73]);
            events.extend(up.into_iter().map(|e| Event { skb: if e.skb == 0 { 0 } else { skb }, ..e }));
            events.push(group_read(at + 20_000, 3, 73));
        }
    }
    events
}

#[test]
fn one_place_takes_one_copy_of_one_datagram_without_an_identification() {
    let done = journeys(group_flows(), nameless(10, |_| false));
    assert_eq!(done.len(), 10, "{done:#?}");
    for journey in &done {
        assert_eq!((journey.verdict, journey.rx_flow), (Verdict::Complete, GROUP_THERE), "{journey:#?}");
        assert!(journey.total_ns().is_some_and(|ns| ns < 100_000), "{journey:#?}");
    }
}

#[test]
fn a_buffer_that_is_used_again_holds_another_datagram_to_a_group() {
    for buffers in [(7, 8), (7, 7)] {
        let done = journeys(group_flows(), nameless_in(10, |_| false, |_| buffers));
        assert_eq!(done.len(), 10, "{done:#?}");
        for journey in &done {
            assert_eq!((journey.verdict, journey.rx_flow), (Verdict::Complete, GROUP_THERE), "{journey:#?}");
            assert!(journey.total_ns().is_some_and(|ns| ns < 100_000), "{journey:#?}");
        }
    }
}

#[test]
fn a_lost_datagram_to_a_group_is_not_taken_for_the_next_one() {
    let done = journeys(group_flows(), nameless(10, |i| i == 0 || i == 4));
    let complete: Vec<_> = done.iter().filter(|j| j.verdict == Verdict::Complete).collect();
    assert_eq!((done.len(), complete.len()), (10, 8), "{done:#?}");
    assert!(complete.iter().all(|j| j.total_ns().is_some_and(|ns| ns < 100_000)), "{done:#?}");
}

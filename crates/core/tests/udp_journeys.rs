//! UDP: tables of events and the journeys they must become.

use crate::common;
use common::*;
use magscope_core::annotations::MatchedBy;
use magscope_core::head::PayloadHead;
use magscope_core::journey::{Correlator, Journey, Limits, Verdict};
use magscope_core::{Batch, DetailKind, Event, EventFlags, ExtentKind, Flow, FlowId, Hop, Proto};

/// Three datagrams in one buffer, of which the reader's memory has room for one and a half.
#[test]
fn datagrams_behind_a_small_buffer_are_discarded() {
    let whole = |event: Event| Event { segs: 3, extent: ExtentKind::Segments.of(400), ..event };
    let sent = down(0, 7, 3, 1_200).into_iter().map(whole);
    let came = up(100, 7, 3, 1_200).into_iter().map(|e| if e.hop == Hop::SockReady { e } else { whole(e) });
    let events = sent.chain(came).chain([read(200, 600)]).collect();
    let mut done = journeys(flows(Proto::UDP), events);
    done.sort_by_key(|journey| journey.ip_id);
    let discarded = Verdict::Discarded { hop: Hop::SockReady };
    let verdicts: Vec<_> = done.iter().map(|journey| journey.verdict).collect();
    assert_eq!(verdicts, [Verdict::Complete, Verdict::Complete, discarded]);
}

#[test]
fn a_datagram_over_ipv4_joins_both_ends() {
    let events = [down(0, 9, 1, 100), up(50, 9, 2, 100), vec![read(90, 100)]].concat();
    let done = journeys(flows(Proto::UDP), events);
    assert_eq!(done.len(), 1);
    let journey = &done[0];
    assert_eq!((journey.verdict, journey.ambiguous, journey.range.clone()), (Verdict::Complete, false, 0..100));
    let hops: Vec<_> = journey.ladder().map(|r| r.hop).collect();
    assert_eq!(hops, [&TX[..], &RX[..], &[Hop::SockReady, Hop::AppRecv]].concat());
    assert_eq!((journey.sender.map(|w| w.tid), journey.reader.map(|w| w.tid)), (Some(5), Some(7)));
    assert_eq!(journey.total_ns(), Some(90));
    assert_eq!(journey.ip_id, 9);
}

#[test]
fn a_datagram_over_ipv6_joins_by_buffer_and_over_a_wire_by_order() {
    let veth = [down(0, 0, 1, 100), up(50, 0, 1, 100), vec![read(90, 100)]].concat();
    let done = journeys(flows_v6(), veth);
    assert_eq!((done.len(), done[0].verdict, done[0].ambiguous), (1, Verdict::Complete, false));

    let sent = [down(0, 0, 1, 100), down(10, 0, 2, 200), down(20, 0, 3, 300)].concat();
    let came = [up(50, 0, 7, 100), up(60, 0, 8, 200), up(70, 0, 9, 300)].concat();
    let wire = [sent, came, vec![read(90, 100), read(91, 200), read(92, 300)]].concat();
    let done = journeys(flows_v6(), wire);
    assert_eq!(done.len(), 3);
    assert!(done.iter().all(|j| j.verdict == Verdict::Complete && j.ambiguous && j.rungs.len() == 10));
}

/// A generic XDP program copies each arriving packet, and fragments are copies of a part of theirs.
#[test]
fn a_datagram_that_is_copied_on_its_way_is_found_by_its_order() {
    let copied = |events: Vec<Event>, from: Hop, ip_id: u16, skb: u32| -> Vec<Event> {
        let copy = |event: Event| if event.hop < from { event } else { Event { ip_id, skb, ..event } };
        events.into_iter().map(copy).collect()
    };
    let two =
        |first: Vec<Event>, second: Vec<Event>| [first, second, vec![read(900, 100), read(901, 100)]].concat();
    let sent = [down(0, 0, 1, 100), down(10, 0, 2, 100)].concat();
    // Both arrive before the first one goes on, in the buffers that they were sent in, and in others.
    for skbs in [[1, 2], [3, 4]] {
        let [first, second] =
            [0, 1].map(|n| copied(up(50 + n as u64, 0, skbs[n], 100), Hop::IpPre, 0, 7 + n as u32));
        let mut events = [sent.clone(), two(first, second)].concat();
        events.sort_by_key(|event| event.time_ns);
        let done = journeys(flows_v6(), events);
        assert_eq!(done.len(), 2, "{done:#?}");
        assert!(done.iter().all(|j| j.verdict == Verdict::Complete && j.ambiguous && j.rungs.len() == 10));
    }
    let [first, second] =
        [0, 10].map(|ns| copied(down(ns, 0, 1, 100), Hop::DevXmit, 7 + ns as u16, 3 + ns as u32));
    let arrived = two(up(50, 7, 3, 100), up(60, 17, 13, 100));
    let done = journeys(flows_v6(), [first, second, arrived].concat());
    assert_eq!(done.len(), 2, "{done:#?}");
    assert!(done.iter().all(|j| j.verdict == Verdict::Complete && j.rungs.len() == 10), "{done:#?}");
}

#[test]
fn reads_out_of_step_find_their_datagram_and_say_so() {
    let mut events = Vec::new();
    for (i, len) in [100, 200, 300].into_iter().enumerate() {
        let (id, time_ns) = (i as u16 + 1, 100 * i as u64);
        events.extend([down(time_ns, id, 1, len), up(time_ns + 50, id, 2, len)].concat());
    }
    // the second was read first; the last into a buffer that was too small
    events.extend([read(1000, 200), read(1001, 100), read(1002, 64)]);
    let done = journeys(flows(Proto::UDP), events);
    let seen: Vec<_> = done.iter().map(|j| (j.bytes(), j.rungs.time_ns(Hop::AppRecv), j.ambiguous)).collect();
    assert_eq!(seen, [(100, Some(1001), false), (200, Some(1000), true), (300, Some(1002), true)]);
}

#[test]
fn a_full_receive_buffer_does_not_shift_the_queue() {
    let mut events = [down(0, 1, 1, 100), up(50, 1, 2, 100)].concat();
    events.extend([down(100, 2, 1, 100), up(150, 2, 3, 100)].concat());
    events.push(Event { detail: DetailKind::DropReason.of(6), ..udp(Hop::SkbDrop, 160, SERVER, 1, 2, 100) });
    events.push(read(200, 100));
    let done = journeys(flows(Proto::UDP), events);
    assert_eq!(done[0].verdict, Verdict::Dropped { hop: Hop::SockReady, reason: 6 });
    assert_eq!((done[1].verdict, done[1].rungs.time_ns(Hop::AppRecv)), (Verdict::Complete, Some(200)));
}

#[test]
fn the_same_identification_again_is_another_datagram() {
    let mut events = [down(0, 9, 1, 100), down(10, 9, 1, 100)].concat();
    events.extend([up(50, 9, 2, 100), vec![read(90, 100)]].concat());
    let done = journeys(flows(Proto::UDP), events);
    assert_eq!(done.len(), 2);
    // the arrived one of the two is a guess
    assert_eq!(
        done.iter().map(|j| (j.verdict == Verdict::Complete, j.ambiguous)).collect::<Vec<_>>(),
        [(true, true), (false, false)]
    );
}

#[test]
fn over_a_wire_a_buffer_that_comes_again_proves_nothing() {
    // the second datagram arrives in the buffer that the third, which is lost, was sent in
    let sent = [down(0, 0, 1, 100), down(10, 0, 2, 100), down(20, 0, 3, 100)].concat();
    let came = [up(50, 0, 7, 100), up(60, 0, 3, 100)].concat();
    let done = journeys(flows_v6(), [sent, came, vec![read(90, 100), read(91, 100)]].concat());
    let read = done.iter().filter(|j| j.rungs.has(Hop::AppRecv));
    assert_eq!(read.map(|j| j.ambiguous).collect::<Vec<_>>(), [true, true]);
}

#[test]
fn super_packets_whose_identifications_overlap_are_told_apart_as_long_as_all_come() {
    // a connected socket counts one per send: 40, 41, 42 and then 41, 42, 43
    let mut events = [super_at(&TX, 0, CLIENT, 40, 1, 50), super_at(&TX, 10, CLIENT, 41, 2, 50)].concat();
    let came = |time_ns, id, skb, len| up(time_ns, id, skb, len);
    for (n, len) in [(0, 100), (1, 100), (2, 50)] {
        events.extend(came(100 + 20 * u64::from(n), 40 + n, 11 + u32::from(n), len));
    }
    for (n, len) in [(0, 100), (1, 100), (2, 50)] {
        events.extend(came(200 + 20 * u64::from(n), 41 + n, 21 + u32::from(n), len));
    }
    events.extend([100, 100, 50, 100, 100, 50].iter().zip(0..).map(|(len, i)| read(400 + i, *len)));
    let done = journeys(flows(Proto::UDP), events);
    assert_eq!(done.len(), 6);
    let mut by_start: Vec<_> = done
        .iter()
        .map(|j| (j.rungs.time_ns(Hop::IpOut), j.rungs.time_ns(Hop::DevRecv), j.ambiguous))
        .collect();
    by_start.sort_unstable();
    let of = |sent, came, ambiguous| (Some(sent), Some(came), ambiguous);
    let expected = [
        of(0, 100, false),
        of(0, 120, true),
        of(0, 140, false),
        of(10, 200, false),
        of(10, 220, false),
        of(10, 240, false),
    ];
    assert_eq!(by_start, expected);
}

#[test]
fn a_send_seen_at_return_names_the_sender_and_gives_no_latency() {
    let mut events = [down(0, 9, 1, 100), up(50, 9, 2, 100)].concat();
    events.push(at_return(by(udp(Hop::AppSend, 60, CLIENT, 0, 0, 100), 5, 50)));
    events.push(read(90, 100));
    let done = journeys(flows(Proto::UDP), events);
    assert!(done[0].rung(Hop::AppSend).is_some_and(|r| r.at_return && r.tid == 5));
    assert_eq!(done[0].latencies().next().map(|l| (l.from, l.to)), Some((Hop::IpOut, Hop::IpPost)));
    assert_eq!(done[0].total_ns(), Some(90));
}

#[test]
fn a_super_packet_comes_out_in_segments() {
    let whole: Vec<_> = TX[..3]
        .iter()
        .zip(0..)
        .map(|(hop, i)| Event {
            segs: 3,
            extent: ExtentKind::Segments.of(100),
            ..udp(*hop, i, CLIENT, 40, 1, 300)
        })
        .collect();
    let mut events = whole;
    for i in 0..3_u16 {
        let time_ns = 10 + u64::from(i);
        events.push(udp(Hop::DevXmit, time_ns, CLIENT, 40 + i, 10 + u32::from(i), 100));
    }
    for i in 0..3_u16 {
        events.extend(up(50 + 10 * u64::from(i), 40 + i, 20 + u32::from(i), 100));
    }
    events.extend((0..3).map(|i| read(200 + i, 100)));
    let done = journeys(flows(Proto::UDP), events);
    assert_eq!(done.len(), 3);
    assert!(done.iter().all(|j| j.verdict == Verdict::Complete && j.bytes() == 100 && j.rungs.len() == 10));
    assert_eq!(done.iter().map(|j| j.ip_id).collect::<Vec<_>>(), [40, 41, 42]);
}

#[test]
fn a_look_leaves_the_datagram_in_the_queue() {
    let mut events = [down(0, 9, 1, 100), up(50, 9, 2, 100)].concat();
    events.push(Event { flags: EventFlags::PEEK, ..read(80, 100) });
    events.push(read(90, 100));
    let done = journeys(flows(Proto::UDP), events);
    assert_eq!((done.len(), done[0].rungs.time_ns(Hop::AppRecv)), (1, Some(90)));
}

#[test]
fn a_sleeping_reader_of_datagrams() {
    let mut events = [down(0, 9, 1, 100), up(50, 9, 2, 100)].concat();
    events.push(by(Event::at(Hop::TaskWake, 60), 7, SOCKET));
    events.push(by(Event::at(Hop::TaskRun, 70), 7, SOCKET));
    events.push(read(90, 100));
    let done = journeys(flows(Proto::UDP), events);
    let sleep: Vec<_> = done[0].latencies().filter(|l| l.from >= Hop::SockReady).map(|l| l.ns).collect();
    assert_eq!(sleep, [5, 10, 20]);
}

#[test]
fn a_datagram_that_no_socket_was_seen_to_take_is_not_said_to_be_lost() {
    let verdict = |left_out: Option<Hop>, read: &[Event]| {
        let served = coverage().iter().filter(|hop| Some(*hop) != left_out).collect();
        let events = [down(0, 9, 1, 100), up(50, 9, 2, 100), read.to_vec()].concat();
        let events = events.into_iter().filter(|event| Some(event.hop) != left_out).collect();
        let mut correlator = magscope_core::journey::Correlator::new(served, Limits::default());
        let mut done = Vec::new();
        correlator.push(&batch(flows(Proto::UDP), events), &mut done);
        correlator.push(&Batch { watermark_ns: 60_000_000_000, ..Batch::default() }, &mut done);
        done.iter().map(|journey| journey.verdict).collect::<Vec<_>>()
    };
    // Its socket was ready and was read, and neither event identifies the datagram.
    let beyond = [Verdict::NotProbed { beyond: Hop::IpIn }];
    assert_eq!(verdict(Some(Hop::UdpRecv), &[read(90, 100)]), beyond);
    assert_eq!(verdict(Some(Hop::UdpRecv), &[]), beyond);
    assert_eq!(verdict(None, &[read(90, 100)]), [Verdict::Complete]);
    assert_eq!(verdict(None, &[]), [Verdict::InFlight], "it waits in the socket");
}

/// The flows of fragments, which have no ports.
fn flows_and_fragments() -> Vec<Flow> {
    let mut all = flows(Proto::UDP);
    all.push(flow(CLIENT_HOST, 1, Proto::UDP, "10.0.0.1:0", "10.0.0.2:0"));
    all.push(flow(SERVER_HOST, 2, Proto::UDP, "10.0.0.2:0", "10.0.0.1:0"));
    all
}

const CLIENT_HOST: FlowId = FlowId(12);
const SERVER_HOST: FlowId = FlowId(23);

/// The n-th of three fragments of a datagram of 4000 bytes.
fn fragment(n: u32, hop: Hop, time_ns: u64) -> Event {
    let (flow, host) = match hop.direction() {
        magscope_core::Direction::Rx => (SERVER, SERVER_HOST),
        _ => (CLIENT, CLIENT_HOST),
    };
    let more = EventFlags::MORE;
    let later = EventFlags::FRAGMENT;
    match n {
        0 => Event {
            flags: more,
            extent: ExtentKind::FirstFragment.of(1480),
            ..udp(hop, time_ns, flow, 9, 2, 4000)
        },
        1 => Event {
            flags: more.with(later),
            extent: ExtentKind::LaterFragment.of(1480),
            ..udp(hop, time_ns, host, 9, 3, 1480)
        },
        _ => Event {
            flags: later,
            extent: ExtentKind::LaterFragment.of(2960),
            ..udp(hop, time_ns, host, 9, 4, 1048)
        },
    }
}

/// A datagram of 4000 bytes that leaves in fragments; those in `arrive` arrive in that order, and if `whole` it
/// is read.
fn fragmented(arrive: &[u32], whole: bool) -> (Vec<Journey>, magscope_core::journey::Correlator) {
    let mut events: Vec<_> =
        [Hop::IpOut, Hop::IpPost].iter().zip(0..).map(|(h, i)| udp(*h, i, CLIENT, 9, 1, 4000)).collect();
    for n in 0..3 {
        for (hop, i) in [(Hop::DevQueue, 3), (Hop::DevXmit, 4)] {
            events.push(fragment(n, hop, i + 10 * u64::from(n)));
        }
    }
    for (n, i) in arrive.iter().zip(0..) {
        for (hop, at) in [(Hop::DevRecv, 50), (Hop::IpPre, 51)] {
            events.push(fragment(*n, hop, at + 10 * i));
        }
    }
    if whole {
        let arrive = |(hop, i): (&Hop, u64)| Event { socket: SOCKET, ..udp(*hop, 100 + i, SERVER, 9, 2, 4000) };
        events.extend(RX[2..].iter().zip(0..).map(arrive));
        events.extend([ready(110), read(190, 4000)]);
    }
    correlate(coverage(), flows_and_fragments(), events)
}

#[test]
fn a_datagram_in_fragments_passes_a_hop_with_the_last_of_them() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let (done, correlator) = fragmented(&order, true);
        assert_eq!((done.len(), done[0].verdict, done[0].bytes()), (1, Verdict::Complete, 4000), "{order:?}");
        let times = [Hop::DevQueue, Hop::DevXmit, Hop::DevRecv, Hop::IpPre, Hop::IpIn, Hop::AppRecv];
        let times = times.map(|hop| done[0].rungs.time_ns(hop));
        // the first on the sender's path, the last on the receiver's
        assert_eq!(times, [3, 4, 70, 71, 100, 190].map(Some), "{order:?}");
        assert_eq!((done[0].disordered(), done[0].ip_id, done[0].ambiguous), (0, 9, false));
        let counters = correlator.counters();
        assert_eq!((counters.later_fragments, counters.stray_fragments, counters.unattributed), (8, 0, 0));
    }
}

#[test]
fn a_datagram_that_lost_a_fragment_is_lost_where_the_last_of_them_were_all_there() {
    for arrive in [&[0, 1][..], &[1, 2], &[0, 2], &[0], &[]] {
        let (done, _) = fragmented(arrive, false);
        assert_eq!(done.len(), 1, "{arrive:?}: {done:?}");
        assert_eq!(done[0].rungs.last(), Some(Hop::DevXmit), "{arrive:?}");
    }
}

#[test]
fn a_fragment_that_came_twice_changes_nothing() {
    let (done, _) = fragmented(&[0, 1, 1, 0, 2, 2], true);
    assert_eq!((done.len(), done[0].verdict, done[0].bytes()), (1, Verdict::Complete, 4000));
    assert_eq!(done[0].rungs.time_ns(Hop::DevRecv), Some(90));
}

#[test]
fn the_drop_of_a_fragment_is_the_drop_of_its_datagram() {
    let mut events: Vec<_> = (0..3).map(|n| fragment(n, Hop::DevRecv, 50 + u64::from(n))).collect();
    events.push(Event {
        detail: DetailKind::DropReason.of(71),
        flow: SERVER_HOST,
        ..fragment(2, Hop::SkbDrop, 60)
    });
    let mut events = [down(0, 9, 1, 4000), events].concat();
    events.sort_by_key(|e| e.time_ns);
    let (done, _) = correlate(coverage(), flows_and_fragments(), events);
    assert_eq!(done.len(), 1);
    assert_eq!(done[0].verdict, Verdict::Dropped { hop: Hop::DevRecv, reason: 71 });
}

#[test]
fn fragments_without_their_first_are_counted() {
    let events: Vec<_> = (1..3).map(|n| fragment(n, Hop::DevRecv, 50 + u64::from(n))).collect();
    let (done, correlator) = correlate(coverage(), flows_and_fragments(), events);
    assert_eq!((done.len(), correlator.counters().stray_fragments), (0, 2));
}

/// A super-packet of three datagrams at some hops.
fn super_at(hops: &[Hop], time_ns: u64, flow: FlowId, ip_id: u16, skb: u32, socket: u64) -> Vec<Event> {
    let one = |(hop, i): (&Hop, u64)| Event {
        segs: 3,
        extent: ExtentKind::Segments.of(100),
        socket,
        ..udp(*hop, time_ns + i, flow, ip_id, skb, 250)
    };
    hops.iter().zip(0..).map(one).collect()
}

#[test]
fn a_super_packet_that_stays_whole_is_still_its_datagrams() {
    for (ip_id, flows) in [(40, flows(Proto::UDP)), (0, flows_v6())] {
        let sent = super_at(&TX, 0, CLIENT, ip_id, 1, 50);
        let came = super_at(&RX, 20, SERVER, ip_id, 1, SOCKET);
        let events = [sent, came, vec![ready(30), read(40, 250)]].concat();
        let done = journeys(flows, events);
        let seen: Vec<_> = done.iter().map(|j| (j.verdict, j.bytes(), j.rungs.len(), j.ambiguous)).collect();
        let one = |len| (Verdict::Complete, len, 10, false);
        assert_eq!(seen, [one(100), one(100), one(50)]);
    }
}

#[test]
fn datagrams_that_the_receiver_merges_stay_what_they_were() {
    let mut events = Vec::new();
    for (i, len) in [(0, 100), (1, 100), (2, 50)] {
        events.extend(down(10 * i, 40 + i as u16, 1 + i as u32, len));
    }
    events.extend(super_at(&RX, 50, SERVER, 40, 1, SOCKET));
    events.extend([ready(60), read(90, 250)]);
    let done = journeys(flows(Proto::UDP), events);
    assert_eq!(done.len(), 3);
    assert!(done.iter().all(|j| j.verdict == Verdict::Complete && !j.ambiguous && j.rungs.len() == 10));
    assert_eq!(done.iter().map(|j| j.ip_id).collect::<Vec<_>>(), [40, 41, 42]);
}

#[test]
fn without_identifications_the_segments_of_a_super_packet_keep_their_order() {
    let mut events = super_at(&TX[..3], 0, CLIENT, 0, 1, 50);
    for (i, len) in [(0, 100), (1, 100), (2, 50)] {
        events.push(udp(Hop::DevXmit, 10 + i, CLIENT, 0, 10 + i as u32, len));
    }
    for (i, len) in [(0, 100), (1, 100), (2, 50)] {
        events.extend(up(50 + 10 * i, 0, 10 + i as u32, len));
    }
    events.push(at_return(by(udp(Hop::AppSend, 85, CLIENT, 0, 0, 250), 5, 50)));
    events.extend([100, 100, 50].iter().zip(0..).map(|(len, i)| read(100 + i, *len)));
    let done = journeys(flows_v6(), events);
    assert_eq!(done.len(), 3);
    let xmit: Vec<_> = done.iter().map(|j| j.rungs.time_ns(Hop::DevXmit)).collect();
    assert_eq!(xmit, [Some(10), Some(11), Some(12)]);
    assert!(done.iter().all(|j| j.verdict == Verdict::Complete && !j.ambiguous && j.rungs.has(Hop::AppSend)));
}

#[test]
fn a_device_on_another_device_makes_no_second_journey() {
    let on = |events: Vec<Event>, ifindex| events.into_iter().map(move |e| Event { ifindex, ..e });
    let mut events: Vec<_> = on(down(0, 0, 1, 100), 2).collect();
    events.extend(on(down(10, 0, 1, 100).split_off(2), 3));
    events.extend(on(up(50, 0, 1, 100), 4).take(1));
    events.extend(on(up(52, 0, 1, 100), 5));
    events.push(read(90, 100));
    let done = journeys(flows_v6(), events);
    assert_eq!(
        (done.len(), done[0].verdict, done[0].rungs.time_ns(Hop::DevXmit)),
        (1, Verdict::Complete, Some(3))
    );
}

#[test]
fn the_start_of_a_send_is_its_packets_first_rung() {
    let begin = |time_ns, len| by(udp(Hop::UdpSend, time_ns, CLIENT, 0, 0, len), 5, 50);
    let mut events = vec![begin(0, 100)];
    events.extend(down(10, 9, 1, 100));
    // a call without a packet, and then one of unknown length
    events.extend([begin(20, 77), begin(30, 0)]);
    events.extend(down(40, 10, 1, 120));
    events.extend([up(50, 9, 2, 100), up(60, 10, 3, 120), vec![read(90, 100), read(91, 120)]].concat());
    let (done, correlator) = correlate(coverage(), flows(Proto::UDP), events);
    let begun: Vec<_> = done.iter().map(|j| j.rungs.time_ns(Hop::UdpSend)).collect();
    assert_eq!(begun, [Some(0), Some(30)]);
    assert_eq!(correlator.counters().unmatched_sends, 1);
    assert_eq!(done[0].latencies().next().map(|l| (l.from, l.to, l.ns)), Some((Hop::UdpSend, Hop::IpOut, 10)));
}

#[test]
fn a_send_that_made_no_packet_gives_its_start_to_no_other() {
    let begin = by(udp(Hop::UdpSend, 0, CLIENT, 0, 0, 64), 5, 50);
    let returned = at_return(by(udp(Hop::AppSend, 5, CLIENT, 0, 0, 64), 5, 50));
    for before in [vec![begin], vec![begin, returned]] {
        let events = [before, down(10, 9, 1, 100), up(50, 9, 2, 100), vec![read(90, 100)]].concat();
        let (done, _) = correlate(coverage(), flows(Proto::UDP), events);
        assert_eq!((done.len(), done[0].rungs.has(Hop::UdpSend)), (1, false));
    }
}

#[test]
fn an_empty_datagram_keeps_its_place_in_the_queue() {
    let mut events = [down(0, 1, 1, 100), up(50, 1, 2, 100)].concat();
    events.extend([down(100, 2, 1, 0), up(150, 2, 3, 0), down(200, 3, 1, 100), up(250, 3, 4, 100)].concat());
    events.extend([read(300, 100), read(301, 0), read(302, 100)]);
    let done = journeys(flows(Proto::UDP), events);
    let seen: Vec<_> = done.iter().map(|j| (j.bytes(), j.rungs.time_ns(Hop::AppRecv), j.ambiguous)).collect();
    assert_eq!(seen, [(100, Some(300), false), (0, Some(301), false), (100, Some(302), false)]);
}

#[test]
fn threads_that_share_a_socket_may_have_swapped_what_is_alike() {
    let events = |lens: [u32; 3]| {
        let mut events = Vec::new();
        for (len, i) in lens.into_iter().zip(0..) {
            events
                .extend([down(100 * i, i as u16 + 1, 1, len), up(100 * i + 50, i as u16 + 1, 2, len)].concat());
        }
        let reads = [(7, lens[0]), (8, lens[1]), (7, lens[2])].into_iter().zip(0..);
        events.extend(
            reads.map(|((tid, len), i)| by(udp(Hop::AppRecv, 400 + i, FlowId::NONE, 0, 0, len), tid, SOCKET)),
        );
        events
    };
    let seen = |lens| -> Vec<_> {
        let done = journeys(flows(Proto::UDP), events(lens));
        done.iter().map(|j| (j.reader.map(|w| w.tid), j.ambiguous)).collect()
    };
    // distinct lengths identify each reader's datagram
    assert_eq!(seen([100, 200, 300]), [(Some(7), false), (Some(8), false), (Some(7), false)]);
    // several readers are recognised from the second thread on; the last cannot be swapped
    assert_eq!(seen([100, 100, 100]), [(Some(7), false), (Some(8), true), (Some(7), false)]);
}

/// An echo request and its answer.
fn icmp(hop: Hop, time_ns: u64, flow: FlowId, number: u32, ip_id: u16, skb: u32) -> Event {
    Event { proto: Proto::ICMP, extent: ExtentKind::Echo.of(number), ..udp(hop, time_ns, flow, ip_id, skb, 56) }
}

#[test]
fn an_echo_is_a_journey_each_way_up_to_ip() {
    let flows = vec![
        flow(CLIENT, 1, Proto::ICMP, "10.0.0.1:77", "10.0.0.2:77"),
        flow(SERVER, 2, Proto::ICMP, "10.0.0.2:77", "10.0.0.1:77"),
    ];
    let mut events = Vec::new();
    for (from, to, at, id) in [(CLIENT, SERVER, 0, 9), (SERVER, CLIENT, 50, 0)] {
        events.extend(TX.iter().zip(0..).map(|(hop, i)| icmp(*hop, at + i, from, 1, id, 5)));
        events.extend(RX[..3].iter().zip(0..).map(|(hop, i)| icmp(*hop, at + 10 + i, to, 1, id, 5)));
    }
    let (done, correlator) = correlate(coverage(), flows, events);
    assert_eq!(done.len(), 2);
    for journey in &done {
        assert_eq!((journey.verdict, journey.rungs.len(), journey.proto), (Verdict::Complete, 7, Proto::ICMP));
    }
    assert_eq!(correlator.counters().other_protocols, 0);
}

#[test]
fn what_a_host_without_an_address_sends_is_not_taken_for_what_another_sent() {
    // Both report their groups when their link comes up, and each receives the other's.
    let flows = vec![
        flow(CLIENT, 1, Proto::ICMPV6, "[::]:0", "[ff02::16]:0"),
        flow(SERVER, 1, Proto::ICMPV6, "[ff02::16]:0", "[::]:0"),
    ];
    let report = |hop, at, flow| Event { proto: Proto::ICMPV6, ..udp(hop, at, flow, 0, 7, 20) };
    let events = vec![
        report(Hop::IpOut, 10, CLIENT),
        report(Hop::DevXmit, 20, CLIENT),
        report(Hop::DevRecv, 400_000, SERVER),
        report(Hop::IpIn, 400_010, SERVER),
    ];
    let (done, _) = correlate(coverage(), flows, events);
    assert_eq!(done.len(), 2, "{done:#?}");
    assert!(done.iter().all(|journey| journey.tx_flow.is_none() != journey.rx_flow.is_none()), "{done:#?}");
}

#[test]
fn an_echo_in_fragments_is_one_journey() {
    let host = |id, netns, a: &str, b: &str| flow(id, netns, Proto::ICMP, a, b);
    let flows = vec![
        host(CLIENT, 1, "10.0.0.1:77", "10.0.0.2:77"),
        host(SERVER, 2, "10.0.0.2:77", "10.0.0.1:77"),
        host(CLIENT_HOST, 1, "10.0.0.1:0", "10.0.0.2:0"),
        host(SERVER_HOST, 2, "10.0.0.2:0", "10.0.0.1:0"),
    ];
    // 2000 bytes: the first fragment does not have the length
    let is_icmp = |e: Event| Event { proto: Proto::ICMP, ..e };
    let first = |hop, at, flow| {
        is_icmp(Event {
            flags: EventFlags::MORE,
            extent: ExtentKind::FirstFragment.of(1480),
            ..udp(hop, at, flow, 9, 2, 1472)
        })
    };
    let last = |hop, at, flow| {
        is_icmp(Event {
            flags: EventFlags::FRAGMENT,
            extent: ExtentKind::LaterFragment.of(1480),
            ..udp(hop, at, flow, 9, 3, 528)
        })
    };
    let there = [first(Hop::DevRecv, 20, SERVER), last(Hop::DevRecv, 30, SERVER_HOST)];
    let whole = is_icmp(udp(Hop::IpIn, 40, SERVER, 9, 2, 2000));
    let sent = is_icmp(udp(Hop::IpOut, 0, CLIENT, 9, 1, 2000));
    let sends = [first(Hop::DevXmit, 10, CLIENT), last(Hop::DevXmit, 11, CLIENT_HOST)];
    for (events, rungs) in
        [([&[sent][..], &sends, &there, &[whole]].concat(), 4), ([&there[..], &[whole]].concat(), 2)]
    {
        let (done, _) = correlate(coverage(), flows.clone(), events);
        assert_eq!((done.len(), done[0].bytes(), done[0].rungs.len()), (1, 2000, rungs), "{done:?}");
        assert_eq!(done[0].rungs.time_ns(Hop::DevRecv), Some(30));
    }
}

#[test]
fn a_datagram_is_not_taken_for_a_part_of_the_longer_one_before_it() {
    let events = [down(2_000, 8, 1, 300), up(2_050, 8, 2, 300), vec![read(2_090, 300)]].concat();
    let done = journeys(flows(Proto::UDP), events);
    let tie = |ip_id, of_bytes, time_ns| {
        let head = PayloadHead {
            time_ns,
            flow: SERVER,
            seq: 0,
            of_bytes,
            event: 0,
            record: 0,
            cpu: 0,
            ip_id,
            hop: Hop::DevRecv,
            proto: Proto::UDP,
            bytes: Vec::new(),
        };
        head.tie(0, &done[0])
    };
    assert_eq!(tie(8, 300, 2_050), Some(MatchedBy::Bytes));
    assert_eq!(tie(8, 300, 900_000), Some(MatchedBy::Bytes), "so soon no identification comes again");
    assert_eq!(tie(7, 500, 1_000), None, "it was seen before this one was sent");
    assert_eq!(tie(7, 500, 2_060), Some(MatchedBy::Time), "a super-packet, or a neighbour");
    assert_eq!((tie(7, 299, 2_060), tie(9, 300, 2_060), tie(8, 300, 2_000_000_000)), (None, None, None));
}

#[test]
fn an_idle_end_decides_like_an_unrelated_datagram() {
    const S: u64 = 1_000_000_000;
    let gone = [by(udp(Hop::UdpSend, 0, CLIENT, 0, 0, 50), 5, 50)].into_iter().chain(down(10, 9, 1, 50));
    let gone: Vec<Event> = gone.chain([up(90, 8, 2, 70), vec![read(200, 70)]].concat()).collect();
    let verdict = |later: &[Event], watermark_ns| {
        let mut correlator = Correlator::new(coverage(), Limits::default());
        let mut done = Vec::new();
        correlator.push(&batch(flows(Proto::UDP), gone.clone()), &mut done);
        correlator.push(&Batch { watermark_ns, ..batch(Vec::new(), later.to_vec()) }, &mut done);
        correlator.finish(&mut done);
        let mut of = done.iter().filter(|journey| journey.start_ns() == Some(0));
        of.next().expect("the first datagram").verdict
    };
    let unrelated = down(14 * S, 20, 7, 30);
    let lost = verdict(&unrelated, 14 * S + 10);
    assert_eq!(lost, Verdict::LostAfter { hop: Hop::DevXmit });
    assert_eq!(verdict(&[], 14 * S), lost);
    assert_eq!(verdict(&[], 2 * S), Verdict::InFlight, "it may still arrive");
}

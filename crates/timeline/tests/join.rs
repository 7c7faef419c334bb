//! Two recordings of two hosts: halves that must join, and those that must not.

use crate::common;
use common::*;
use magscope_core::context::{Context, NodeContext};
use magscope_core::journey::{Across, Verdict};
use magscope_core::node::NodeInfo;
use magscope_core::{Event, Flow, FlowId, Hop, Proto};
use magscope_timeline::join::{
    Crossing, JoinLimits, Joined, Joiner, OneClock, Pairing, Timeline, Unaligned, Unjoined,
};
use magscope_timeline::pair::Estimate;

/// The contents of a recording: its flows and events.
struct Recording {
    flows: Vec<Flow>,
    events: Vec<Event>,
}

/// Correlates each recording separately, then joins.
fn join_with(
    timeline: &dyn Timeline,
    limits: JoinLimits,
    recordings: Vec<Recording>,
) -> (Vec<Joined>, Vec<Pairing>) {
    let mut joiner = Joiner::new(timeline, limits);
    let (mut done, info) = (Vec::new(), NodeInfo::default());
    for (node, Recording { flows, mut events }) in recordings.into_iter().enumerate() {
        events.sort_by_key(|e| e.time_ns);
        let (journeys, correlator) = correlate(coverage(), flows, events);
        let context = NodeContext { correlator: &correlator, node: &info };
        for journey in journeys {
            joiner.push(node as u16, journey, &context as &dyn Context, &mut done);
        }
    }
    joiner.finish(&mut done);
    done.sort_by_key(|j| (j.journey.tx_flow, j.journey.range.start, j.journey.id));
    (done, joiner.pairings())
}

fn join(recordings: Vec<Recording>) -> (Vec<Joined>, Vec<Pairing>) {
    join_with(&OneClock, JoinLimits::default(), recordings)
}

fn client(events: Vec<Event>) -> Recording {
    Recording { flows: vec![flows(Proto::TCP)[0], flows(Proto::TCP)[2]], events }
}

fn server(events: Vec<Event>) -> Recording {
    Recording { flows: vec![flows(Proto::TCP)[1], flows(Proto::TCP)[3]], events }
}

fn sent(time_ns: u64, seq: u32, len: u32) -> Vec<Event> {
    let mut events = vec![by(tcp(Hop::TcpSend, time_ns, CLIENT, seq, len), 5, 50)];
    events.extend(run(&PACKET_TX, time_ns + 10, CLIENT, seq, len));
    events
}

fn received(time_ns: u64, seq: u32, len: u32) -> Vec<Event> {
    let mut events = run(&PACKET_RX, time_ns, SERVER, seq, len);
    events.push(by(tcp(Hop::AppRecv, time_ns + 30, SERVER, seq, len), 7, 70));
    events
}

fn wire_ranges(done: &[Joined]) -> Vec<(u32, u64)> {
    done.iter().map(|j| (j.journey.range.start as u32, j.journey.bytes())).collect()
}

#[test]
fn halves_are_cut_at_each_others_ends() {
    let mut a = sent(0, 1000, 3000);
    a.extend(sent(100, 4000, 2000));
    let mut b = received(1_000, 1000, 1500);
    b.extend(received(1_100, 2500, 2500));
    b.extend(received(1_200, 5000, 1000));
    let (done, pairings) = join(vec![client(a), server(b)]);
    assert_eq!(wire_ranges(&done), [(1000, 1500), (2500, 1500), (4000, 1000), (5000, 1000)]);
    for Joined { journey, .. } in &done {
        assert_eq!(journey.verdict, Verdict::Complete, "{journey:?}");
        assert_eq!((journey.tx_node, journey.rx_node, journey.across), (0, 1, Across::OneClock));
        assert_eq!((journey.tx_flow, journey.rx_flow), (CLIENT, SERVER));
        assert!(journey.sender.is_some_and(|w| w.tid == 5) && journey.reader.is_some_and(|w| w.tid == 7));
        assert_eq!(journey.disordered(), 0);
        assert!(journey.rungs.has(Hop::DevXmit) && journey.rungs.has(Hop::DevRecv));
    }
    // the second read spans both sends
    let xmit: Vec<_> = done.iter().filter_map(|j| j.journey.rungs.time_ns(Hop::DevXmit)).collect();
    let read: Vec<_> = done.iter().filter_map(|j| j.journey.rungs.time_ns(Hop::AppRecv)).collect();
    assert_eq!((xmit, read), (vec![14, 14, 114, 114], vec![1030, 1130, 1130, 1230]));
    let crossing = Crossing { tx_node: 0, rx_node: 1, sent_ns: 14, received_ns: 1000 };
    assert_eq!(done[0].crossing, Some(crossing));
    let [pairing] = &pairings[..] else { panic!("{pairings:?}") };
    assert_eq!((pairing.joined, pairing.tx_only, pairing.rx_only, pairing.because), (4, 0, 0, None));
    assert_eq!((pairing.nodes, pairing.translated), ((Some(0), Some(1)), None));
}

#[test]
fn halves_of_running_recordings_are_output_when_nobody_can_have_the_other() {
    const S: i64 = 1_000_000_000;
    let info = NodeInfo::default();
    let mut joiner = Joiner::live(&OneClock, JoinLimits::default());
    let push =
        |joiner: &mut Joiner<'_>, node, Recording { flows, events }: Recording, done: &mut Vec<Joined>| {
            let (journeys, correlator) = correlate(coverage(), flows, events);
            let context = NodeContext { correlator: &correlator, node: &info };
            for journey in journeys {
                joiner.push(node, journey, &context as &dyn Context, done);
            }
        };
    // Of the other end nothing was seen.
    let mut done = Vec::new();
    push(&mut joiner, 0, client(sent(0, 1000, 3000)), &mut done);
    joiner.release_old(S, &mut done);
    assert!(done.is_empty(), "the other recording may be a second behind: {done:?}");
    joiner.release_old(3 * S, &mut done);
    assert_eq!(done.iter().map(|j| j.journey.verdict).collect::<Vec<_>>(), [Verdict::HalfComplete]);
    // Both ends were seen: a slow reader has more time.
    done.clear();
    push(&mut joiner, 0, client(sent(4 * S as u64, 4000, 100)), &mut done);
    push(&mut joiner, 1, server(received(4 * S as u64 + 1_000, 4000, 100)), &mut done);
    push(&mut joiner, 0, client(sent(5 * S as u64, 4100, 100)), &mut done);
    joiner.release_old(10 * S, &mut done);
    push(&mut joiner, 1, server(received(10 * S as u64, 4100, 100)), &mut done);
    assert_eq!(done.iter().map(|j| j.journey.verdict).collect::<Vec<_>>(), [Verdict::Complete; 2]);
    done.clear();
    push(&mut joiner, 0, client(sent(11 * S as u64, 4200, 100)), &mut done);
    joiner.release_old(70 * S, &mut done);
    assert!(done.is_empty());
    joiner.release_old(80 * S, &mut done);
    assert_eq!(done.len(), 1);
}

#[test]
fn the_order_of_the_recordings_does_not_matter() {
    let (a, b) = (sent(0, 1000, 3000), received(1_000, 1000, 3000));
    let (done, pairings) = join(vec![server(b), client(a)]);
    assert_eq!((done.len(), done[0].journey.verdict), (1, Verdict::Complete));
    assert_eq!((done[0].journey.tx_node, done[0].journey.rx_node), (1, 0));
    assert_eq!(pairings[0].nodes, (Some(1), Some(0)));
}

#[test]
fn bytes_across_the_turn_of_the_numbers_join() {
    let seq = 0u32.wrapping_sub(1000);
    // the receiver's recording begins at another byte of the stream, so its unwrapped numbers differ
    let mut b = received(900, seq.wrapping_sub(100), 50);
    b.extend(received(1_000, seq, 500));
    b.extend(received(1_100, seq.wrapping_add(500), 1500));
    let (done, _) = join(vec![client(sent(0, seq, 2000)), server(b)]);
    let whole: Vec<_> = done.iter().filter(|j| j.journey.verdict == Verdict::Complete).collect();
    assert_eq!(whole.iter().map(|j| j.journey.bytes()).sum::<u64>(), 2000);
    let ranges: Vec<_> = whole.iter().map(|j| (j.journey.range.start as u32, j.journey.bytes())).collect();
    assert_eq!(ranges, [(seq, 500), (seq + 500, 500), (0, 1000)]);
}

#[test]
fn two_clocks_of_which_nothing_has_time_give_no_time_between_them() {
    let timeline = Unaligned { to_utc_ns: vec![0, 0] };
    let recordings = vec![client(sent(5_000_000, 1000, 100)), server(received(100, 1000, 100))];
    let (done, _) = join_with(&timeline, JoinLimits::default(), recordings);
    let journey = &done[0].journey;
    assert_eq!((journey.verdict, journey.across), (Verdict::Complete, Across::Apart));
    assert_eq!((journey.total_ns(), journey.disordered()), (None, 0));
    assert!(journey.latencies().all(|l| l.from.direction() == l.to.direction()), "{journey:?}");
    assert_eq!(journey.between_ns(Hop::DevXmit, Hop::DevRecv), None);
    assert_eq!(journey.between_ns(Hop::DevRecv, Hop::AppRecv), Some(30));
    assert_eq!(journey.start_ns(), Some(5_000_000));
    // and this is the input of the clock alignment
    let crossing = done[0].crossing.expect("a crossing");
    assert_eq!((crossing.sent_ns, crossing.received_ns), (5_000_014, 100));
}

/// The second recording's clock is an hour ahead, or up to 20 ns less, or up to 12 ns more.
struct HourAhead;

impl Timeline for HourAhead {
    fn shift_ns(&self, node: u16, _: u64) -> Option<i64> {
        Some(if node == 1 { -3_600_000_000_000 } else { 0 })
    }

    fn difference_ns(&self, a: u16, b: u16, _: u64) -> Option<Estimate> {
        let hour = 3_600_000_000_000;
        Some(match (a, b) {
            (0, 1) => Estimate { ns: hour, below_ns: 20, above_ns: 12 },
            (1, 0) => Estimate { ns: -hour, below_ns: 12, above_ns: 20 },
            _ => Estimate::default(),
        })
    }

    fn rough_ns(&self, node: u16, at_ns: u64) -> i64 {
        at_ns as i64 + self.shift_ns(node, at_ns).unwrap_or(0)
    }
}

#[test]
fn aligned_clocks_give_an_interval() {
    let late = 3_600_000_000_000;
    let recordings = vec![client(sent(0, 1000, 100)), server(received(late + 500, 1000, 100))];
    let (done, _) = join_with(&HourAhead, JoinLimits::default(), recordings);
    let journey = &done[0].journey;
    assert_eq!(journey.across, Across::Bounded { below_ns: 12, above_ns: 20 });
    let wire = journey.latencies().find(|l| l.to == Hop::DevRecv).expect("the wire");
    assert_eq!((wire.from, wire.ns, wire.half_width_ns), (Hop::DevXmit, 486, 20));
    assert_eq!(wire.bounds_ns, (474, 506));
    assert_eq!(journey.total_bounds_ns(), Some((518, 550)));
    assert_eq!(journey.bounds_between_ns(Hop::DevXmit, Hop::DevRecv), Some((474, 506)));
    assert!(journey.latencies().filter(|l| l.to != Hop::DevRecv).all(|l| l.half_width_ns == 0));
    assert_eq!((journey.total_ns(), journey.total_half_width_ns()), (Some(530), 20));
    // the crossing keeps each end's own clock
    assert_eq!(done[0].crossing.map(|c| c.received_ns), Some(late + 500));
}

#[test]
fn bytes_sent_again_say_nothing_about_clocks() {
    let mut a = sent(0, 1000, 100);
    a.extend(run(&PACKET_TX, 300_000_000, CLIENT, 1000, 100));
    let (done, _) = join(vec![client(a), server(received(300_001_000, 1000, 100))]);
    assert_eq!((done.len(), done[0].journey.verdict), (1, Verdict::Complete));
    assert_eq!(done[0].journey.retransmits(), 1);
    assert_eq!(done[0].crossing, None);
}

/// Events with IPv4 identifications.
fn with_id(mut events: Vec<Event>, ip_id: u16) -> Vec<Event> {
    events.iter_mut().filter(|event| event.hop != Hop::TcpSend && event.hop != Hop::AppRecv).for_each(
        |event| {
            (event.ip_id, event.segs) = (ip_id, 1);
        },
    );
    events
}

/// Bytes that were sent at 0 and 1 ms, as packets 7 and 8, and arrived as `arrived`.
fn sent_twice(arrived: u16) -> Joined {
    let mut a = with_id(sent(0, 1000, 100), 7);
    a.extend(with_id(run(&PACKET_TX, 1_000_000, CLIENT, 1000, 100), 8));
    let b = with_id(received(2_000_000, 1000, 100), arrived);
    join(vec![client(a), server(b)]).0.remove(0)
}

#[test]
fn the_identification_shows_which_copy_arrived() {
    for (arrived, copy, wire_ns) in [(7, 1, 2_000_000 - 14), (8, 2, 1_000_000 - 4)] {
        let Joined { journey, crossing } = sent_twice(arrived);
        assert_eq!((journey.copy, journey.packet_ids.first, crossing), (copy, arrived, None));
        assert!(journey.copies.iter().all(|copy| !copy.ambiguous), "{journey:?}");
        let wire = journey.latencies().find(|l| l.to == Hop::DevRecv).expect("the wire");
        assert_eq!(wire.ns, wire_ns, "{journey:?}");
    }
    // A device on the way may have changed it.
    let Joined { journey, .. } = sent_twice(9);
    assert!(journey.copies.iter().any(|copy| copy.number == journey.copy && copy.ambiguous), "{journey:?}");
}

#[test]
fn bytes_that_come_after_their_half_was_closed_have_a_time_if_their_copy_has_time() {
    let late = 2_000_000_000;
    for (arrived, has_time) in [(7, true), (8, false), (0, false)] {
        let (a, b) = (with_id(sent(0, 1000, 100), 7), with_id(received(late, 1000, 100), arrived));
        let journey = join(vec![client(a), server(b)]).0.remove(0).journey;
        let across = if has_time { Across::OneClock } else { Across::Apart };
        assert_eq!((journey.ambiguous, journey.across), (!has_time, across), "{arrived}");
    }
}

fn translated_server(events: Vec<Event>) -> Recording {
    // the server receives the translator's address
    let seen = flow(SERVER, 2, Proto::TCP, "10.0.0.2:80", "192.168.7.1:61000");
    Recording { flows: vec![seen], events }
}

#[test]
fn translated_addresses_are_found_and_said() {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for i in 0..10 {
        a.extend(sent(1000 * u64::from(i), 1000 + 100 * i, 100));
        b.extend(received(1000 * u64::from(i) + 500, 1000 + 100 * i, 100));
    }
    // another connection of the client, without events in the server's recording
    let other = run(&PACKET_TX, 20_000, OTHER_CLIENT, 77_000, 100);
    a.extend(other);
    let (done, pairings) = join(vec![client(a), translated_server(b)]);
    let joined: Vec<_> = done.iter().filter(|j| j.journey.verdict == Verdict::Complete).collect();
    assert_eq!(joined.len(), 10);
    let pairing = pairings.iter().find(|p| p.joined == 10).expect("the pair");
    let seen = ("192.168.7.1:61000".parse().unwrap(), "10.0.0.2:80".parse().unwrap());
    assert_eq!((pairing.translated, pairing.nodes), (Some(seen), (Some(0), Some(1))));
    assert_eq!((pairing.from.to_string(), pairing.because), ("10.0.0.1:4000".to_owned(), None));
    let alone = pairings.iter().find(|p| p.joined == 0).expect("the other");
    assert_eq!((alone.tx_only, alone.because), (1, Some(Unjoined::NoOtherEnd)));
}

#[test]
fn one_packet_is_enough_where_one_address_is_the_same() {
    let (done, pairings) = join(vec![client(sent(0, 1000, 100)), translated_server(received(500, 1000, 100))]);
    assert_eq!((done.len(), done[0].journey.verdict), (1, Verdict::Complete));
    assert!(pairings[0].translated.is_some(), "{pairings:?}");
}

#[test]
fn different_numbers_do_not_join() {
    let (done, pairings) =
        join(vec![client(sent(0, 1000, 100)), translated_server(received(500, 900_000, 100))]);
    assert!(done.iter().all(|j| j.journey.verdict == Verdict::HalfComplete), "{done:?}");
    assert_eq!(pairings.len(), 2);
    assert!(pairings.iter().all(|p| p.because == Some(Unjoined::NoOtherEnd)), "{pairings:?}");
}

#[test]
fn loopback_is_another_host_in_every_recording() {
    let at = |id, netns, local: &str, remote: &str| flow(id, netns, Proto::TCP, local, remote);
    let a = at(CLIENT, 1, "127.0.0.1:4000", "127.0.0.1:80");
    let b = at(SERVER, 1, "127.0.0.1:80", "127.0.0.1:4000");
    let recordings = vec![
        Recording { flows: vec![a], events: sent(0, 1000, 100) },
        Recording { flows: vec![b], events: received(500, 1000, 100) },
    ];
    let (done, pairings) = join(recordings);
    assert!(done.iter().all(|j| j.journey.verdict == Verdict::HalfComplete));
    assert!(pairings.iter().all(|p| p.because == Some(Unjoined::Loopback)));
}

const DATAGRAM_TX: [Hop; 4] = [Hop::IpOut, Hop::IpPost, Hop::DevQueue, Hop::DevXmit];
const DATAGRAM_RX: [Hop; 4] = [Hop::DevRecv, Hop::IpPre, Hop::IpIn, Hop::UdpRecv];

fn datagram(hops: &[Hop], time_ns: u64, flow: FlowId, ip_id: u16, len: u32) -> Vec<Event> {
    let skb = time_ns as u32 | 1;
    let socket = 70;
    let event =
        |(i, hop): (usize, &Hop)| Event { socket, ..udp(*hop, time_ns + i as u64, flow, ip_id, skb, len) };
    let mut events: Vec<_> = hops.iter().enumerate().map(event).collect();
    if hops[0] == Hop::DevRecv {
        events.push(by(udp(Hop::AppRecv, time_ns + 9, FlowId::NONE, 0, 0, len), 7, socket));
    }
    events
}

fn datagrams(ids: &[u16], lost: usize) -> Vec<Recording> {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for (i, id) in ids.iter().enumerate() {
        let at = 1_000_000 * i as u64;
        a.extend(datagram(&DATAGRAM_TX, at, CLIENT, *id, 200));
        if i != lost {
            b.extend(datagram(&DATAGRAM_RX, at + 700, SERVER, *id, 200));
        }
    }
    let flows = flows(Proto::UDP);
    vec![Recording { flows: vec![flows[0]], events: a }, Recording { flows: vec![flows[1]], events: b }]
}

#[test]
fn datagrams_join_by_identification_and_length() {
    let (done, pairings) = join(datagrams(&[11, 12, 13, 14], 1));
    let whole: Vec<_> = done.iter().filter(|j| j.journey.verdict == Verdict::Complete).collect();
    assert_eq!(whole.len(), 3, "{done:#?}");
    for Joined { journey, crossing } in whole {
        assert!(!journey.ambiguous && crossing.is_some());
        assert_eq!(journey.between_ns(Hop::DevXmit, Hop::DevRecv), Some(697));
    }
    assert_eq!((pairings[0].tx_only, pairings[0].because), (1, Some(Unjoined::NotSeenThere)));
}

#[test]
fn datagrams_without_identification_join_in_order_and_say_so() {
    let (done, _) = join(datagrams(&[0; 4], 9));
    assert_eq!(done.len(), 4);
    for Joined { journey, crossing } in &done {
        assert_eq!((journey.verdict, journey.ambiguous), (Verdict::Complete, true));
        assert_eq!(crossing, &None);
        assert_eq!(journey.between_ns(Hop::DevXmit, Hop::DevRecv), Some(697));
    }
}

#[test]
fn translated_datagrams_join_by_many_equal_identifications_and_never_without() {
    let translate = |mut recordings: Vec<Recording>| {
        recordings[1].flows = vec![flow(SERVER, 2, Proto::UDP, "10.0.0.2:80", "192.168.7.1:61000")];
        recordings
    };
    let ids: Vec<u16> = (100..120).collect();
    let (done, pairings) = join(translate(datagrams(&ids, 99)));
    assert_eq!(done.iter().filter(|j| j.journey.verdict == Verdict::Complete).count(), 20);
    assert!(pairings.iter().any(|p| p.translated.is_some() && p.joined == 20));
    let (done, pairings) = join(translate(datagrams(&[0; 20], 99)));
    assert!(done.iter().all(|j| j.journey.verdict == Verdict::HalfComplete));
    assert!(pairings.iter().all(|p| p.because == Some(Unjoined::NoKey)), "{pairings:?}");
    let few: Vec<u16> = (100..104).collect();
    let (done, _) = join(translate(datagrams(&few, 99)));
    assert!(done.iter().all(|j| j.journey.verdict == Verdict::HalfComplete), "four are no proof");
}

/// Two calls with other hosts, as long as each other: each counts its identifications up, and they meet.
#[test]
fn flows_of_datagrams_without_a_common_address_do_not_join() {
    let ids: Vec<u16> = (100..200).collect();
    let mut recordings = datagrams(&ids, 999);
    recordings[0].flows = vec![flow(CLIENT, 1, Proto::UDP, "10.0.0.1:4000", "203.0.113.1:5004")];
    recordings[1].flows = vec![flow(SERVER, 2, Proto::UDP, "10.0.0.2:80", "198.51.100.7:5004")];
    let (done, pairings) = join(recordings);
    assert_eq!(done.len(), 200);
    assert!(
        done.iter().all(|j| j.journey.verdict == Verdict::HalfComplete && j.crossing.is_none()),
        "{done:?}"
    );
    assert!(pairings.iter().all(|p| p.translated.is_none()), "{pairings:?}");
}

#[test]
fn a_multicast_send_joins_with_every_receiver() {
    let group = "239.1.1.1:5000";
    let receiver = |id, netns| flow(id, netns, Proto::UDP, group, "10.0.0.1:4000");
    let ids = [21, 22, 23];
    let many = |id: FlowId, delay| {
        let events = ids.iter().enumerate();
        events.flat_map(|(i, n)| datagram(&DATAGRAM_RX, 1_000_000 * i as u64 + delay, id, *n, 200)).collect()
    };
    let sent = ids.iter().enumerate();
    let sent = sent.flat_map(|(i, n)| datagram(&DATAGRAM_TX, 1_000_000 * i as u64, CLIENT, *n, 200)).collect();
    let recordings = vec![
        Recording { flows: vec![flow(CLIENT, 1, Proto::UDP, "10.0.0.1:4000", group)], events: sent },
        Recording { flows: vec![receiver(SERVER, 2)], events: many(SERVER, 500) },
        Recording { flows: vec![receiver(OTHER_SERVER, 3)], events: many(OTHER_SERVER, 900) },
    ];
    let (done, _) = join(recordings);
    assert_eq!(done.len(), 6, "{done:#?}");
    assert!(done.iter().all(|j| j.journey.verdict == Verdict::Complete));
    for node in [1, 2] {
        assert_eq!(done.iter().filter(|j| j.journey.rx_node == node).count(), 3);
    }
}

#[test]
fn waiting_halves_are_bounded_and_go_on_alone() {
    let a = (0..1000).flat_map(|i| sent(u64::from(i) * 100, 1000 + 100 * i, 100)).collect();
    let limits = JoinLimits { max_waiting: 64, ..JoinLimits::default() };
    let (done, pairings) = join_with(&OneClock, limits, vec![client(a), server(received(1, 1, 1))]);
    assert_eq!(done.len(), 1001);
    assert_eq!(done.iter().map(|j| j.journey.bytes()).sum::<u64>(), 100_001);
    assert_eq!(pairings[0].tx_only, 1000);
    let ids: std::collections::HashSet<_> = done.iter().map(|j| j.journey.id).collect();
    assert_eq!(ids.len(), 1001, "numbers are given once");
}

#[test]
fn connections_are_bounded() {
    let mut recordings = vec![client(Vec::new())];
    let limits = JoinLimits { max_connections: 10, ..JoinLimits::default() };
    for i in 0..100u64 {
        let id = FlowId(1000 + i);
        recordings[0].flows.push(flow(id, 1, Proto::TCP, &format!("10.0.0.1:{}", 5000 + i), "10.0.0.2:80"));
        recordings[0].events.extend(run(&PACKET_TX, 100 * i, id, 1000, 100));
    }
    let (done, pairings) = join_with(&OneClock, limits, recordings);
    assert_eq!((done.len(), pairings.len() <= 10), (100, true));
}

/// The correlator closed the sender's half before the segment was sent again.
#[test]
fn bytes_that_arrive_after_the_end_of_their_half_have_no_time_on_the_wire() {
    for (delay_ns, is_measured) in [(299_000_000, true), (400_000_000, false)] {
        let (done, _) = join(vec![client(sent(0, 1000, 100)), server(received(delay_ns, 1000, 100))]);
        let [Joined { journey, .. }] = &done[..] else { panic!("{done:?}") };
        let is_wire = |l: &magscope_core::journey::Latency| l.from == Hop::DevXmit && l.to == Hop::DevRecv;
        assert_eq!(journey.latencies().any(|l| is_wire(&l)), is_measured, "{journey:?}");
        assert_eq!((journey.ambiguous, journey.verdict), (!is_measured, Verdict::Complete));
    }
}

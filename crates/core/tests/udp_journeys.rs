//! UDP: tables of events and the journeys they must become.

mod common;
use common::*;
use magscope_core::journey::{Journey, Verdict};
use magscope_core::{Event, EventFlags, Flow, FlowId, Hop, Proto};

const TX: [Hop; 4] = [Hop::IpOut, Hop::IpPost, Hop::DevQueue, Hop::DevXmit];
const RX: [Hop; 4] = [Hop::DevRecv, Hop::IpPre, Hop::IpIn, Hop::UdpRecv];
const SOCKET: u64 = 70;

fn down(time_ns: u64, ip_id: u16, skb: u32, len: u32) -> Vec<Event> {
    TX.iter().zip(0..).map(|(hop, i)| by(udp(*hop, time_ns + i, CLIENT, ip_id, skb, len), 5, 50)).collect()
}

fn up(time_ns: u64, ip_id: u16, skb: u32, len: u32) -> Vec<Event> {
    let arrive =
        |(hop, i): (&Hop, u64)| Event { socket: SOCKET, ..udp(*hop, time_ns + i, SERVER, ip_id, skb, len) };
    RX.iter().zip(0..).map(arrive).chain([ready(time_ns + 5)]).collect()
}

fn ready(time_ns: u64) -> Event {
    by(udp(Hop::SockReady, time_ns, FlowId::NONE, 0, 0, 0), 0, SOCKET)
}

fn read(time_ns: u64, len: u32) -> Event {
    by(udp(Hop::AppRecv, time_ns, FlowId::NONE, 0, 0, len), 7, SOCKET)
}

fn journeys(flows: Vec<Flow>, events: Vec<Event>) -> Vec<Journey> {
    let mut done = correlate(coverage(), flows, events).0;
    done.sort_by_key(Journey::start_ns);
    done
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
    events.push(Event { detail: 6, ..udp(Hop::SkbDrop, 160, SERVER, 1, 2, 100) });
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
    let whole: Vec<_> =
        TX[..3].iter().zip(0..).map(|(hop, i)| Event { segs: 3, ..udp(*hop, i, CLIENT, 40, 1, 300) }).collect();
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
fn a_datagram_in_fragments_is_one_journey_of_its_first() {
    // whole until the device, whole again from ip.in on; the first fragment's header tells the length of all
    let later = |hop, time_ns, flow, skb, len| {
        let event = udp(hop, time_ns, FlowId::NONE, 9, skb, len);
        Event { flow, flags: EventFlags::FRAGMENT, ..event }
    };
    let mut events: Vec<_> = [Hop::IpOut, Hop::IpPost].iter().map(|h| udp(*h, 0, CLIENT, 9, 1, 4000)).collect();
    for (hop, time_ns, flow) in
        [(Hop::DevQueue, 3, CLIENT), (Hop::DevXmit, 6, CLIENT), (Hop::DevRecv, 50, SERVER)]
    {
        events.push(udp(hop, time_ns, flow, 9, 2, 4000));
        events.push(later(hop, time_ns + 1, FlowId::NONE, 3, 1480));
        events.push(later(hop, time_ns + 2, flow, 4, 1048));
    }
    let arrive = |(hop, i): (&Hop, u64)| Event { socket: SOCKET, ..udp(*hop, 60 + i, SERVER, 9, 2, 4000) };
    events.extend(RX[2..].iter().zip(0..).map(arrive));
    events.extend([ready(70), read(90, 4000)]);
    let (done, correlator) = correlate(coverage(), flows(Proto::UDP), events);
    assert_eq!((done.len(), done[0].verdict, done[0].bytes()), (1, Verdict::Complete, 4000));
    let times = [Hop::DevXmit, Hop::DevRecv, Hop::AppRecv].map(|hop| done[0].rungs.time_ns(hop));
    assert_eq!(times, [Some(6), Some(50), Some(90)]);
    assert_eq!((correlator.counters().later_fragments, correlator.counters().unattributed), (6, 0));
}

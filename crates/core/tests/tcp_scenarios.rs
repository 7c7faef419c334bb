//! TCP beyond sending in order: tables of events, and no byte in two journeys.

use crate::common;
use common::*;
use magscope_core::journey::{Correlator, Journey, Limits, Verdict};
use magscope_core::{Batch, Event, FlowId, Hop, HopSet, Proto};

const SYN: u8 = 2;
const FIN: u8 = 1;

/// One transfer of `len` bytes from `seq`, every hop once, read at the end.
fn whole(time_ns: u64, seq: u32, len: u32) -> Vec<Event> {
    let mut events = vec![tcp(Hop::TcpSend, time_ns, CLIENT, seq, len)];
    events.extend(packet(time_ns + 10, seq, len));
    events.extend(arrival(time_ns + 100, seq, len));
    events.push(read(time_ns + 130, seq, len));
    events
}

fn packet(time_ns: u64, seq: u32, len: u32) -> Vec<Event> {
    run(&PACKET_TX, time_ns, CLIENT, seq, len)
}

fn arrival(time_ns: u64, seq: u32, len: u32) -> Vec<Event> {
    run(&PACKET_RX, time_ns, SERVER, seq, len)
}

fn read(time_ns: u64, seq: u32, len: u32) -> Event {
    tcp(Hop::AppRecv, time_ns, SERVER, seq, len)
}

/// A segment with flags, over the packet hops that read the header.
fn flagged(time_ns: u64, tcp_flags: u8, seq: u32, len: u32) -> Vec<Event> {
    let mut events = [packet(time_ns, seq, len), arrival(time_ns + 10, seq, len)].concat();
    // a SYN does not pass tcp.recv
    events.retain(|e| tcp_flags & SYN == 0 || e.hop != Hop::TcpRecv);
    for event in &mut events {
        event.tcp_flags = tcp_flags;
    }
    events
}

/// The journeys; no byte is in two of them.
fn journeys(events: Vec<Event>) -> Vec<Journey> {
    let done = correlate(coverage(), flows(Proto::TCP), events).0;
    for pair in done.windows(2).filter(|w| w[0].tx_flow == w[1].tx_flow) {
        assert!(pair[0].range.end <= pair[1].range.start, "twice: {pair:#?}");
    }
    done
}

fn verdicts(done: &[Journey]) -> Vec<Verdict> {
    done.iter().map(|j| j.verdict).collect()
}

#[test]
fn numbers_wrap_in_the_middle_of_a_send() {
    let start = u32::MAX - 499; // 500 bytes before the end of the numbers
    let mut events = vec![tcp(Hop::TcpSend, 0, CLIENT, start, 1000)];
    events.extend(packet(10, start, 400));
    events.extend(packet(20, start.wrapping_add(400), 600)); // over the edge
    events.extend(arrival(50, start, 1000));
    events.push(read(60, start, 700));
    events.push(read(70, start.wrapping_add(700), 300));
    let done = journeys(events);
    assert_eq!(ranges(&done), [(start, 400), (start + 400, 300), (200, 300)]);
    assert!(done.windows(2).all(|w| w[0].range.end == w[1].range.start));
    assert!(done.iter().all(|j| j.verdict == Verdict::Complete && j.disordered() == 0));
}

#[test]
fn a_handshake_and_an_end_carry_no_byte() {
    let mut events = flagged(0, SYN, 101, 0);
    events.extend(flagged(20, SYN, 101, 0)); // sent again
    events.extend(whole(100, 101, 50));
    events.extend(flagged(1000, FIN, 151, 0));
    let done = journeys(events);
    assert_eq!((ranges(&done), verdicts(&done)), (vec![(101, 50)], vec![Verdict::Complete]));
    assert_eq!(done[0].retransmits(), 0);
}

#[test]
fn data_on_a_syn_is_data() {
    // fast open: the first bytes accompany the SYN, and do not pass tcp.recv
    let mut events = vec![tcp(Hop::TcpSend, 0, CLIENT, 101, 80)];
    events.extend(flagged(10, SYN, 101, 30));
    events.extend(packet(50, 131, 50));
    events.extend(arrival(60, 131, 50));
    events.push(read(100, 101, 80));
    let done = journeys(events);
    assert_eq!(ranges(&done), [(101, 30), (131, 50)]);
    assert_eq!(verdicts(&done), [Verdict::Complete, Verdict::Complete]);
    assert!(!done[0].rungs.has(Hop::TcpRecv) && done[0].rungs.has(Hop::IpIn));
}

#[test]
fn data_on_a_fin_is_data() {
    let mut events = vec![tcp(Hop::TcpSend, 0, CLIENT, 101, 30)];
    events.extend(flagged(10, FIN, 101, 30));
    events.push(read(100, 101, 30));
    let done = journeys(events);
    assert_eq!((ranges(&done), verdicts(&done)), (vec![(101, 30)], vec![Verdict::Complete]));
}

#[test]
fn keep_alives_with_a_byte_and_without() {
    let mut events = whole(0, 100, 50);
    for (time_ns, len) in [(1000, 0), (2000, 1), (3000, 1)] {
        events.extend(packet(time_ns, 149, len));
        events.extend(arrival(time_ns + 10, 149, len));
    }
    events.extend(whole(5000, 150, 20));
    let done = journeys(events);
    assert_eq!(ranges(&done), [(100, 50), (150, 20)]);
    assert!(done.iter().all(|j| j.verdict == Verdict::Complete && j.retransmits() == 0));
}

#[test]
fn a_probe_of_a_closed_window_with_a_byte_is_that_byte() {
    let mut events = vec![tcp(Hop::TcpSend, 0, CLIENT, 100, 50)];
    events.extend(packet(10, 99, 0)); // Linux: no byte, an old number
    events.extend(packet(20, 100, 1)); // others: the next byte, which the receiver has no room for
    events.extend(run(&PACKET_RX[..3], 25, SERVER, 100, 1));
    events.extend(packet(1000, 100, 50));
    events.extend(arrival(1010, 100, 50));
    events.push(read(1100, 100, 50));
    let done = journeys(events);
    assert_eq!(ranges(&done), [(100, 1), (101, 49)]);
    assert_eq!(verdicts(&done), [Verdict::Complete, Verdict::Complete]);
    assert_eq!(done.iter().map(Journey::retransmits).collect::<Vec<_>>(), [1, 0]);
}

#[test]
fn packets_that_overtake_one_another() {
    let mut events = vec![tcp(Hop::TcpSend, 0, CLIENT, 100, 300)];
    for (i, seq) in [100, 200, 300].into_iter().enumerate() {
        events.extend(packet(10 + 10 * i as u64, seq, 100));
    }
    for (time_ns, seq) in [(50, 300), (60, 100), (70, 200)] {
        events.extend(arrival(time_ns, seq, 100));
    }
    events.push(tcp(Hop::SockReady, 80, SERVER, 400, 0));
    events.push(read(100, 100, 300));
    let done = journeys(events);
    assert_eq!(ranges(&done), [(100, 100), (200, 100), (300, 100)]);
    assert!(done.iter().all(|j| j.verdict == Verdict::Complete && j.retransmits() == 0));
    let came: Vec<_> = done.iter().filter_map(|j| j.rungs.time_ns(Hop::DevRecv)).collect();
    assert_eq!(came, [60, 70, 50]);
}

#[test]
fn an_urgent_byte_that_reads_pass_over_spoils_no_other() {
    // 50 bytes, the one at 120 urgent: a read stops before it, the next begins behind it
    let mut events = vec![tcp(Hop::TcpSend, 0, CLIENT, 100, 50)];
    events.extend(packet(10, 100, 50).into_iter().map(|e| Event { tcp_flags: 16 | 32, ..e }));
    events.extend(arrival(20, 100, 50).into_iter().map(|e| Event { tcp_flags: 16 | 32, ..e }));
    events.push(read(100, 100, 20));
    events.push(read(200, 121, 29));
    events.extend(whole(1000, 150, 10));
    let done = journeys(events);
    assert_eq!(ranges(&done), [(100, 20), (120, 1), (121, 29), (150, 10)]);
    let unseen = Verdict::ReadUnseen;
    assert_eq!(verdicts(&done), [Verdict::Complete, unseen, Verdict::Complete, Verdict::Complete]);
}

#[test]
fn a_capture_that_begins_in_the_middle_of_a_send() {
    // of 1000 bytes, 400 were in flight and the rest is declared again by a later piece of the call
    let mut events = arrival(0, 5000, 400);
    events.push(tcp(Hop::TcpSend, 10, CLIENT, 5400, 600));
    events.extend(packet(20, 5400, 600));
    events.extend(arrival(30, 5400, 600));
    events.push(read(100, 5000, 1000));
    let done = journeys(events);
    assert_eq!(ranges(&done), [(5000, 400), (5400, 600)]);
    assert_eq!(done[1].verdict, Verdict::Complete);
    assert_eq!((done[0].verdict, done[0].tx_flow), (Verdict::HalfComplete, FlowId::NONE));
}

#[test]
fn a_port_used_again_with_numbers_that_overlap() {
    let mut events = flagged(0, SYN, 1000, 0);
    events.extend(whole(100, 1000, 500));
    events.extend(flagged(10_000, SYN, 1200, 0)); // inside the range of the old connection
    events.extend(whole(10_100, 1200, 500));
    let (done, correlator) = correlate(coverage(), flows(Proto::TCP), events);
    assert_eq!(ranges(&done), [(1000, 500), (1200, 500)]);
    assert_eq!(verdicts(&done), [Verdict::Complete, Verdict::Complete]);
    assert_eq!(done.iter().map(Journey::retransmits).sum::<u32>(), 0);
    assert_eq!((correlator.counters().resets, correlator.counters().after_end), (1, 0));
}

#[test]
fn a_port_used_again_far_away_without_a_syn_in_the_capture() {
    let mut events = whole(0, 1000, 50);
    events.extend(packet(500, 1050, 10)); // never arrives
    events.extend(whole(10_000, 1000 + (3 << 29), 50));
    let (done, correlator) = correlate(coverage(), flows(Proto::TCP), events);
    assert_eq!(done.len(), 3);
    assert_eq!(correlator.counters().resets, 1);
    let whole = done.iter().filter(|j| j.verdict == Verdict::Complete);
    assert_eq!(whole.map(|j| j.range.start as u32).collect::<Vec<_>>(), [1000, 1000 + (3 << 29)]);
}

#[test]
fn a_tuple_taken_over_from_time_wait_begins_right_above_the_old_numbers() {
    // RFC 6191: the new first number is a little above the last one of the old connection
    let mut events = flagged(0, SYN, 1000, 0);
    events.extend(whole(100, 1000, 500));
    events.extend(flagged(400, FIN, 1500, 0));
    events.extend(flagged(10_000, SYN, 1502, 0));
    events.extend(whole(10_100, 1502, 100));
    let (done, correlator) = correlate(coverage(), flows(Proto::TCP), events);
    assert_eq!(ranges(&done), [(1000, 500), (1502, 100)]);
    assert_eq!(verdicts(&done), [Verdict::Complete, Verdict::Complete]);
    assert_eq!(correlator.counters().resets, 1);
}

/// Verdicts of events with only these hops served, after a long time.
fn settled(served: &[Hop], events: Vec<Event>) -> Vec<Verdict> {
    let served: HopSet = served.iter().copied().collect();
    let events: Vec<_> = events.into_iter().filter(|e| served.contains(e.hop)).collect();
    let mut correlator = Correlator::new(served, Limits::default());
    let mut done = Vec::new();
    correlator.push(&batch(flows(Proto::TCP), events), &mut done);
    correlator.push(&Batch { watermark_ns: 60_000_000_000, ..Batch::default() }, &mut done);
    assert_eq!(correlator.in_flight(), 0);
    verdicts(&done)
}

#[test]
fn an_end_that_no_served_hop_shows_is_not_claimed() {
    let beyond = |hop| vec![Verdict::NotProbed { beyond: hop }];
    let sent = [Hop::IpOut, Hop::DevXmit];
    assert_eq!(settled(&[&sent[..], &[Hop::DevRecv]].concat(), whole(0, 100, 50)), beyond(Hop::DevRecv));
    assert_eq!(
        settled(&[&sent[..], &[Hop::DevRecv, Hop::TcpRecv]].concat(), whole(0, 100, 50)),
        beyond(Hop::TcpRecv)
    );
    assert_eq!(settled(&sent, whole(0, 100, 50)), beyond(Hop::DevXmit));
    let all = [&sent[..], &[Hop::DevRecv, Hop::IpIn, Hop::AppRecv]].concat();
    assert_eq!(settled(&all, whole(0, 100, 50)), [Verdict::Complete]);
    // Unread for long: it may wait in the socket or have been lost above ip.in, and no hop between is served.
    let mut unread = whole(0, 100, 50);
    unread.pop();
    assert_eq!(settled(&all, unread.clone()), beyond(Hop::IpIn));
    assert_eq!(settled(&[&all[..], &[Hop::TcpRecv]].concat(), unread.clone()), [Verdict::InFlight]);
    unread.retain(|e| e.hop != Hop::TcpRecv);
    let lost = [Verdict::LostAfter { hop: Hop::IpIn }];
    assert_eq!(settled(&[&all[..], &[Hop::TcpRecv]].concat(), unread), lost);
}

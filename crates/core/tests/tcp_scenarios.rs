//! TCP beyond sending in order: tables of events, and no byte in two journeys.

use crate::common;
use common::*;
use magscope_core::journey::{Consumer, Correlator, Journey, Limits, Verdict};
use magscope_core::{Batch, DetailKind, Event, EventFlags, FlowId, Hop, HopSet, Proto, TcpSample};

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

/// The receiver's socket is destroyed with `len` unread bytes from `seq` on.
fn destroyed(time_ns: u64, seq: u32, len: u32) -> Event {
    tcp(Hop::SockDestroy, time_ns, SERVER, seq, len)
}

#[test]
fn unread_bytes_of_a_destroyed_socket_were_discarded() {
    // 100 read, 50 spliced, 150 unread, of them 20 ahead of a gap; 60 never arrived
    let mut events = vec![tcp(Hop::TcpSend, 0, CLIENT, 100, 360)];
    events.extend(packet(10, 100, 360));
    events.extend(arrival(20, 100, 280));
    events.extend(arrival(30, 440, 20));
    events.push(tcp(Hop::SockReady, 40, SERVER, 380, 0));
    events.push(read(50, 100, 100));
    events.push(destroyed(1000, 250, 130));
    let done = journeys(events);
    assert_eq!(ranges(&done), [(100, 100), (200, 50), (250, 130), (380, 60), (440, 20)]);
    let (ready, ahead) = (Verdict::Discarded { hop: Hop::SockReady }, Verdict::Discarded { hop: Hop::TcpRecv });
    assert_eq!(verdicts(&done), [Verdict::Complete, Verdict::ReadUnseen, ready, Verdict::InFlight, ahead]);
}

#[test]
fn a_read_that_is_reported_after_the_end_of_its_socket_counts() {
    let mut events = whole(0, 100, 50);
    let read = events.pop().expect("a read");
    events.push(destroyed(read.time_ns - 1, 100, 50));
    events.push(read);
    let done = journeys(events);
    assert_eq!(verdicts(&done), [Verdict::Complete]);
}

#[test]
fn unsent_bytes_of_a_destroyed_socket_were_discarded() {
    let send = |time_ns, seq, len| at_return(tcp(Hop::AppSend, time_ns, CLIENT, seq, len));
    let mut events = vec![tcp(Hop::TcpSend, 0, CLIENT, 100, 100), send(5, 100, 100)];
    events.extend(packet(10, 100, 60));
    events.extend(arrival(20, 100, 60));
    events.push(read(30, 100, 60));
    events.push(tcp(Hop::SockDestroy, 1000, CLIENT, 1, 0));
    let done = journeys(events);
    assert_eq!(ranges(&done), [(100, 60), (160, 40)]);
    assert_eq!(verdicts(&done), [Verdict::Complete, Verdict::Discarded { hop: Hop::TcpSend }]);
}

/// A `send` that is seen at its beginning alone declares bytes. The socket's end shows which were accepted.
#[test]
fn declared_bytes_of_a_destroyed_socket_were_discarded_if_it_had_accepted_them() {
    let ends = |write_seq: u32| {
        let mut events = vec![tcp(Hop::AppSend, 0, CLIENT, 100, 60), tcp(Hop::TcpSend, 1, CLIENT, 100, 60)];
        events.extend(packet(10, 100, 60));
        events.extend(arrival(20, 100, 60));
        events.push(read(30, 100, 60));
        events.push(tcp(Hop::TcpSend, 40, CLIENT, 160, 40));
        events.push(tcp(Hop::TcpSend, 50, CLIENT, 200, 40));
        let end = tcp(Hop::SockDestroy, 1000, CLIENT, 1, 0);
        events.push(Event { detail: DetailKind::WriteSeq.of(write_seq), ..end });
        let done = journeys(events);
        assert_eq!(verdicts(&done)[0], Verdict::Complete);
        assert!(verdicts(&done)[1..].iter().all(|end| *end == Verdict::Discarded { hop: Hop::TcpSend }));
        ranges(&done)
    };
    assert_eq!(ends(240), [(100, 60), (160, 40), (200, 40)]);
    assert_eq!(ends(230), [(100, 60), (160, 40), (200, 30)], "a part of the last call");
    assert_eq!(ends(200), [(100, 60), (160, 40)], "the last call failed");
    assert_eq!(ends(201), [(100, 60), (160, 40)], "the last call failed, and a FIN followed");
    assert_eq!(ends(160), [(100, 60)], "both failed");
}

#[test]
fn another_socket_with_the_same_addresses_ends_no_journey() {
    let mut events: Vec<_> = whole(0, 100, 50).into_iter().map(|e| by(e, 0, 7)).collect();
    events.pop();
    events.push(by(destroyed(1000, 100, 50), 0, 8));
    assert_eq!(verdicts(&journeys(events)), [Verdict::InFlight]);
}

#[test]
fn a_reader_without_events_is_known_by_the_state_of_its_socket() {
    let unread = || {
        let mut events = whole(0, 100, 50);
        events.pop();
        events
    };
    let sample = |time_ns, copied_seq| TcpSample { time_ns, flow: SERVER, copied_seq, ..TcpSample::default() };
    for (at_ns, end_ns, verdict) in [
        (1_000, 60_000_000_000, Verdict::ReadUnseen), // waited for long
        (1_000, 100_000_000, Verdict::ReadUnseen),    // at the end of the capture
        (99_000_000, 100_000_000, Verdict::InFlight), // its call may not have returned
    ] {
        let mut correlator = Correlator::new(coverage(), Limits::default());
        let mut done = Vec::new();
        let tcp = vec![sample(at_ns, 150)];
        correlator.push(&Batch { tcp, ..batch(flows(Proto::TCP), unread()) }, &mut done);
        correlator.push(&Batch { watermark_ns: end_ns, ..Batch::default() }, &mut done);
        correlator.finish(&mut done);
        assert_eq!(verdicts(&done), [verdict], "{at_ns}");
    }
}

/// The kernel takes bytes at `sock.ready`, and frees their packets later: that is no drop.
#[test]
fn bytes_that_the_kernel_takes_are_delivered_to_it() {
    for consumer in Consumer::ALL {
        let in_kernel = |event: Event| Event {
            flags: event.flags.with(EventFlags::IN_KERNEL),
            detail: DetailKind::Consumer.of(consumer as u32),
            ..event
        };
        let not_of_stream =
            |event: Event| Event { flags: event.flags.with(EventFlags::PARTIAL), ..in_kernel(event) };
        let mut events = vec![not_of_stream(at_return(tcp(Hop::AppSend, 0, CLIENT, 0, 70)))];
        events.extend(packet(10, 100, 50));
        events.extend(arrival(20, 100, 50));
        events.push(in_kernel(tcp(Hop::SockReady, 30, SERVER, 150, 0)));
        events.push(tcp(Hop::SkbDrop, 40, SERVER, 100, 50));
        events.push(not_of_stream(tcp(Hop::AppRecv, 50, SERVER, 0, 30)));
        // Other code of the kernel may still read by a call; samples show that it has taken the bytes.
        let tcp = vec![TcpSample { time_ns: 60, flow: SERVER, copied_seq: 150, ..TcpSample::default() }];
        let mut correlator = Correlator::new(coverage(), Limits::default());
        let mut done = Vec::new();
        correlator.push(&Batch { tcp, ..batch(flows(Proto::TCP), events) }, &mut done);
        correlator.push(&Batch { watermark_ns: 60_000_000, ..Batch::default() }, &mut done);
        correlator.finish(&mut done);
        assert_eq!(ranges(&done), [(100, 50)]);
        assert_eq!(verdicts(&done), [Verdict::Delivered { to: consumer }]);
        assert!(done[0].verdict.is_whole());
    }
}

#[test]
fn a_call_of_the_kernel_with_an_event_is_a_read() {
    let mut events = whole(0, 100, 50);
    let read = events.pop().expect("a read");
    events.push(Event {
        flags: EventFlags::IN_KERNEL,
        detail: DetailKind::Consumer.of(Consumer::Kernel as u32),
        ..tcp(Hop::SockReady, 125, SERVER, 150, 0)
    });
    events.push(Event { time_ns: 2_000_000_000, ..read });
    assert_eq!(verdicts(&journeys(events)), [Verdict::Complete]);
}

#[test]
fn an_urgent_byte_is_read_out_of_band_or_discarded() {
    let urgent = |time_ns| {
        let mut events = vec![tcp(Hop::TcpSend, time_ns, CLIENT, 100, 50)];
        events.extend(packet(time_ns + 10, 100, 50));
        events.extend(arrival(time_ns + 20, 100, 50));
        events
    };
    let flagged = |flag, event: Event| Event { flags: event.flags.with(flag), ..event };
    // Taken before the bytes before it.
    let mut events = urgent(0);
    events.push(flagged(EventFlags::OUT_OF_BAND, read(100, 120, 1)));
    events.push(read(200, 100, 20));
    events.push(flagged(EventFlags::URGENT, read(300, 121, 29)));
    let done = journeys(events);
    assert_eq!(ranges(&done), [(100, 20), (120, 1), (121, 29)]);
    assert_eq!(verdicts(&done), [Verdict::Complete; 3]);
    assert_eq!(done[1].rungs.time_ns(Hop::AppRecv), Some(100));
    // Not taken.
    let mut events = urgent(0);
    events.push(read(200, 100, 20));
    events.push(flagged(EventFlags::URGENT, read(300, 121, 29)));
    let discarded = Verdict::Discarded { hop: Hop::TcpRecv };
    assert_eq!(verdicts(&journeys(events)), [Verdict::Complete, discarded, Verdict::Complete]);
    // The last byte before the end.
    let mut events = urgent(0);
    events.push(read(200, 100, 49));
    events.push(flagged(EventFlags::URGENT, destroyed(300, 150, 0)));
    assert_eq!(verdicts(&journeys(events)), [Verdict::Complete, discarded]);
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

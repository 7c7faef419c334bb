//! Retransmitted bytes: each pass is a copy of their journey, with its reason and the hops of its own packet.
//! No step is measured from one copy to another.

use crate::common;
use common::*;
use magscope_core::blame::{Blame, Part};
use magscope_core::journey::{Journey, MAX_COPIES, Resend, SentCopy, Verdict};
use magscope_core::{DetailKind, Event, Hop, HopSet, Proto};

const BYTES: (u32, u32) = (100, 50);

/// The sender's packet hops, a nanosecond each; the packet has an IPv4 identification.
fn out(time_ns: u64, ip_id: u16) -> Vec<Event> {
    out_of(&PACKET_TX, time_ns, ip_id, BYTES)
}

fn out_of(hops: &[Hop], time_ns: u64, ip_id: u16, (seq, len): (u32, u32)) -> Vec<Event> {
    numbered(run(hops, time_ns, CLIENT, seq, len), ip_id, 1)
}

fn come(time_ns: u64, ip_id: u16) -> Vec<Event> {
    numbered(run(&PACKET_RX, time_ns, SERVER, BYTES.0, BYTES.1), ip_id, 1)
}

/// `tcp.xmit` precedes the IP header, `tcp.recv` follows its removal.
fn numbered(mut events: Vec<Event>, ip_id: u16, segs: u16) -> Vec<Event> {
    for event in &mut events {
        event.segs = segs;
        if !matches!(event.hop, Hop::TcpXmit | Hop::TcpRecv) {
            event.ip_id = ip_id;
        }
    }
    events
}

fn retransmit_event(time_ns: u64, kind: Resend) -> Event {
    Event {
        detail: DetailKind::ResendReason.of(kind as u32),
        ..tcp(Hop::TcpRetransmit, time_ns, CLIENT, BYTES.0, BYTES.1)
    }
}

fn read(time_ns: u64) -> Event {
    tcp(Hop::AppRecv, time_ns, SERVER, BYTES.0, BYTES.1)
}

fn journeys(served: HopSet, events: Vec<Event>) -> Vec<Journey> {
    correlate(served, flows(Proto::TCP), events).0
}

/// These tests leave out the sends.
fn served() -> HopSet {
    let mut set = coverage();
    set.remove(Hop::TcpSend);
    set
}

fn one(events: Vec<Event>) -> Journey {
    let mut done = journeys(served(), events);
    assert_eq!(done.len(), 1, "{done:#?}");
    done.remove(0)
}

type Row = (Resend, Option<u64>, Option<u64>, Option<u64>);

/// Kind, time of the report, and the times at `dev.xmit` and `tcp.recv` of each copy.
fn copies(journey: &Journey) -> Vec<Row> {
    let row =
        |c: &SentCopy| (c.kind, c.retransmit_ns, c.rungs.time_ns(Hop::DevXmit), c.rungs.time_ns(Hop::TcpRecv));
    journey.copies.iter().map(row).collect()
}

/// A copy seen only by the sender.
const fn lost(dev_xmit: u64) -> Row {
    (Resend::Unknown, None, Some(dev_xmit), None)
}

#[test]
fn what_is_sent_once_has_no_copies() {
    let journey = one([out(0, 7), come(10, 7), come(15, 7), vec![read(20)]].concat()); // a copy is no pass
    assert_eq!((journey.copies.len(), journey.retransmits()), (0, 0));
}

#[test]
fn a_reader_may_be_done_before_the_kernel_tells() {
    let quick =
        [out(0, 7), out(1000, 8), come(1100, 8), vec![read(1110)], vec![retransmit_event(1120, Resend::Fast)]];
    let journey = one(quick.concat());
    assert_eq!(copies(&journey), [lost(4), (Resend::Fast, Some(1120), Some(1004), Some(1103))]);
    assert_eq!(journey.verdict, Verdict::Complete);
}

#[test]
fn each_copy_has_its_reason_and_its_hops() {
    let journey = one([
        out(0, 7),
        out(1000, 8),
        vec![retransmit_event(1010, Resend::TailLossProbe)],
        out(2000, 9),
        vec![retransmit_event(2010, Resend::Timeout)],
        come(3000, 9),
        vec![read(3010)],
    ]
    .concat());
    assert_eq!(journey.verdict, Verdict::Complete);
    assert_eq!(
        copies(&journey),
        [
            lost(4),
            (Resend::TailLossProbe, Some(1010), Some(1004), None),
            (Resend::Timeout, Some(2010), Some(2004), Some(3003)),
        ]
    );
    assert_eq!(journey.rungs.time_ns(Hop::DevXmit), Some(2004), "that of the copy that arrived");
    assert_eq!((journey.copy, journey.copies[2].rungs.hops().count()), (3, 9));
    assert!(journey.copies.iter().all(|copy| !copy.ambiguous));
}

#[test]
fn the_identification_tells_which_copy_came_first() {
    // retransmitted too early: the first copy was only late
    let events = [
        out(0, 7),
        out(1000, 8),
        vec![retransmit_event(1010, Resend::Fast)],
        come(1500, 7),
        come(1600, 8),
        vec![read(2000)],
    ];
    let journey = one(events.concat());
    let first = (Resend::Unknown, None, Some(4), Some(1503));
    assert_eq!(copies(&journey), [first, (Resend::Fast, Some(1010), Some(1004), Some(1603))]);
    assert_eq!((journey.copy, journey.rungs.time_ns(Hop::TcpRecv)), (1, Some(1503)));
    assert!(journey.copies.iter().all(|copy| !copy.ambiguous));
    // There was no wait: the bytes of the first copy were on the wire all the time.
    let blame = Blame::of(&journey, coverage()).unwrap();
    assert_eq!((blame.ns(Part::Retransmission), blame.ns(Part::Wire)), (None, Some(1496)));
    let wires: Vec<_> = journey.latencies().filter(|l| l.to == Hop::DevRecv).map(|l| l.ns).collect();
    assert_eq!(wires, [1496, 596], "of each copy its own");
}

#[test]
fn without_an_identification_the_newest_is_taken_and_the_doubt_is_told() {
    let events = [out(0, 0), out(1000, 0), come(1500, 0), come(1600, 0), vec![read(2000)]];
    let journey = one(events.concat());
    assert_eq!(
        copies(&journey),
        [(Resend::Unknown, None, Some(4), Some(1603)), (Resend::Unknown, None, Some(1004), Some(1503))]
    );
    assert!(journey.copies[1].ambiguous);
    assert!(journey.latencies().all(|l| l.from.direction() == l.to.direction()), "whose wire, nothing shows");
    // A copy dropped before the wire cannot be the arrived one, if the capture saw the bytes enter the socket.
    let events = [
        out_of(&[Hop::TcpSend], 0, 0, BYTES),
        out_of(&PACKET_TX[..4], 0, 0, BYTES),
        out(1000, 0),
        vec![retransmit_event(1010, Resend::Timeout)],
        come(1500, 0),
        vec![read(2000)],
    ];
    let journey = one(events.concat());
    assert_eq!(
        copies(&journey),
        [(Resend::Unknown, None, None, None), (Resend::Timeout, Some(1010), Some(1004), Some(1503))]
    );
    assert!(!journey.copies[1].ambiguous);
}

#[test]
fn selective_acknowledgement_repeats_a_middle_and_nothing_else() {
    // 300 bytes in one super-packet of three segments, the middle one lost
    let wide = (100, 300);
    let mut events =
        out_of(&PACKET_TX, 0, 20, wide).into_iter().map(|e| Event { segs: 3, ..e }).collect::<Vec<_>>();
    for (time_ns, seq, ip_id) in [(50, 100, 20), (60, 300, 22)] {
        events.extend(numbered(run(&PACKET_RX, time_ns, SERVER, seq, 100), ip_id, 1));
    }
    events.extend(out_of(&PACKET_TX, 1000, 23, (200, 100)));
    events.push(Event {
        detail: DetailKind::ResendReason.of(1),
        ..tcp(Hop::TcpRetransmit, 1010, CLIENT, 200, 100)
    });
    events.extend(numbered(run(&PACKET_RX, 1050, SERVER, 200, 100), 23, 1));
    events.push(tcp(Hop::AppRecv, 1100, SERVER, 100, 300));
    let done = journeys(served(), events);
    assert_eq!(ranges(&done), [(100, 100), (200, 100), (300, 100)]);
    assert!(done.iter().all(|j| j.verdict == Verdict::Complete));
    let all: Vec<_> = done.iter().map(copies).collect();
    assert_eq!(all, [vec![], vec![lost(4), (Resend::Fast, Some(1010), Some(1004), Some(1053))], vec![]]);
}

#[test]
fn the_kernel_alone_tells_where_no_packet_hop_is_served() {
    let served: HopSet = [Hop::TcpSend, Hop::TcpRetransmit, Hop::TcpRecv, Hop::AppRecv].into_iter().collect();
    let events = vec![
        tcp(Hop::TcpSend, 0, CLIENT, 100, 50),
        retransmit_event(1000, Resend::Fast),
        retransmit_event(2000, Resend::Timeout),
        tcp(Hop::TcpRecv, 3000, SERVER, 100, 50),
        read(4000),
    ];
    let done = journeys(served, events);
    // the arrived one of the three cannot be identified
    assert_eq!(
        copies(&done[0]),
        [
            (Resend::Unknown, None, None, None),
            (Resend::Fast, Some(1000), None, None),
            (Resend::Timeout, Some(2000), None, None),
        ]
    );
}

#[test]
fn behind_the_queue_the_packet_comes_after_it_was_told_of() {
    let served: HopSet = [Hop::DevXmit, Hop::TcpRetransmit, Hop::TcpRecv, Hop::AppRecv].into_iter().collect();
    let events = vec![
        tcp(Hop::DevXmit, 0, CLIENT, 100, 50),
        retransmit_event(1000, Resend::Fast),
        tcp(Hop::DevXmit, 1500, CLIENT, 100, 50),
        tcp(Hop::TcpRecv, 3000, SERVER, 100, 50),
        read(4000),
    ];
    let done = journeys(served, events);
    assert_eq!(copies(&done[0]), [lost(0), (Resend::Fast, Some(1000), Some(1500), Some(3000))]);
}

#[test]
fn a_pass_that_was_only_told_of_is_not_mixed_with_the_next() {
    // the records of the second pass were lost
    let events = [
        out(0, 7),
        vec![retransmit_event(1010, Resend::Fast)],
        out(2000, 9),
        vec![retransmit_event(2010, Resend::Timeout)],
        come(3000, 9),
        vec![read(3010)],
    ];
    let journey = one(events.concat());
    assert_eq!(
        copies(&journey),
        [
            lost(4),
            (Resend::Fast, Some(1010), None, None),
            (Resend::Timeout, Some(2010), Some(2004), Some(3003))
        ]
    );
}

#[test]
fn so_many_are_kept_and_the_rest_counted() {
    let mut events = out(0, 1);
    for n in 1..=20_u16 {
        events.extend(out(u64::from(n) * 1000, n + 1));
        events.push(retransmit_event(u64::from(n) * 1000 + 10, Resend::Timeout));
    }
    events.extend(come(30_000, 21)); // the last one
    events.push(read(30_010));
    let journey = one(events);
    assert_eq!((journey.copies.len(), journey.copies_left_out, journey.retransmits()), (MAX_COPIES, 12, 20));
    let numbers: Vec<_> = journey.copies.iter().map(|copy| copy.number).collect();
    assert_eq!((numbers, journey.copy), (vec![1, 2, 3, 4, 5, 6, 7, 8, 21], 21));
    assert_eq!(journey.copies[7].retransmit_ns, Some(7010));
    assert_eq!(journey.rungs.time_ns(Hop::DevXmit), Some(20_004));
    assert_eq!(journey.verdict, Verdict::Complete);
}

#[test]
fn a_late_driver_belongs_to_the_packet_it_had() {
    let mut served = coverage();
    served.insert(Hop::DevDone);
    let events = [
        out(0, 7),
        out(1000, 8),
        vec![retransmit_event(1010, Resend::Fast)],
        numbered(vec![tcp(Hop::DevDone, 1020, CLIENT, 100, 50)], 8, 1),
        numbered(vec![tcp(Hop::DevDone, 1030, CLIENT, 100, 50)], 7, 1),
        come(1500, 8),
        vec![read(2000)],
    ];
    let events = events.concat();
    let done = journeys(served, events.clone());
    assert_eq!(done[0].copies[1].rungs.time_ns(Hop::DevDone), Some(1020));
    // without identifications the owner of the return is unknown
    let done = journeys(served, numbered(events, 0, 1));
    assert_eq!(done[0].copies[1].rungs.time_ns(Hop::DevDone), None);
}

#[test]
fn a_single_byte_sent_again_is_a_retransmission_until_it_is_read() {
    // The byte at the end of a longer packet that has arrived: it looks like a keep-alive and is none.
    let events = [
        out(0, 7),
        come(10, 7),
        out_of(&PACKET_TX, 1000, 8, (149, 1)),
        vec![Event { detail: DetailKind::ResendReason.of(2), ..tcp(Hop::TcpRetransmit, 1010, CLIENT, 149, 1) }],
        vec![tcp(Hop::AppRecv, 2000, SERVER, 100, 50)],
    ];
    let (done, correlator) = correlate(coverage(), flows(Proto::TCP), events.concat());
    assert_eq!(ranges(&done), [(100, 49), (149, 1)]);
    assert_eq!(done.iter().map(Journey::retransmits).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(correlator.counters().keep_alives, 0);
}

#[test]
fn the_driver_of_a_single_byte_returns_after_the_read() {
    let mut served = coverage();
    served.insert(Hop::DevDone);
    let byte = (100, 1);
    let events = [
        out_of(&PACKET_TX, 0, 7, byte),
        numbered(run(&PACKET_RX, 10, SERVER, 100, 1), 7, 1),
        vec![tcp(Hop::AppRecv, 20, SERVER, 100, 1), tcp(Hop::DevDone, 30, CLIENT, 100, 1)],
    ];
    let (done, correlator) = correlate(served, flows(Proto::TCP), events.concat());
    assert_eq!(done[0].rungs.time_ns(Hop::DevDone), Some(30));
    assert_eq!(correlator.counters().keep_alives, 0);
}

#[test]
fn a_pass_from_before_the_capture_may_be_the_one_that_comes() {
    // The first event is already a retransmission, as the kernel reports; it is dropped, and sent once more.
    let events = [
        out_of(&PACKET_TX[..4], 0, 0, BYTES),
        vec![retransmit_event(10, Resend::Fast)],
        out(1000, 0),
        vec![retransmit_event(1010, Resend::Timeout)],
        come(1500, 0),
        vec![read(2000)],
    ];
    let journey = one(events.concat());
    assert_eq!(journey.copies[2].rungs.time_ns(Hop::TcpRecv), Some(1503));
    assert!(journey.copies[2].ambiguous);
}

fn dropped(time_ns: u64, ip_id: u16) -> Event {
    Event {
        detail: DetailKind::DropReason.of(77),
        ip_id,
        segs: 1,
        ..tcp(Hop::SkbDrop, time_ns, CLIENT, BYTES.0, BYTES.1)
    }
}

/// Times between neighbours, with waits, as `(from, to, ns, waits)`.
fn spans(journey: &Journey) -> Vec<(Hop, Hop, u64, bool)> {
    journey.spans().filter_map(|(_, s)| s).map(|s| (s.from, s.to, s.ns, s.is_wait)).collect()
}

#[test]
fn a_copy_dropped_in_the_queue_gives_no_time_in_the_queue() {
    // The queueing discipline drops the first copy; the second waits 20 in the queue.
    let queue = PACKET_TX.iter().position(|hop| *hop == Hop::DevQueue).unwrap();
    let served: HopSet =
        [Hop::TcpSend, Hop::DevQueue, Hop::DevXmit, Hop::DevRecv, Hop::TcpRecv, Hop::AppRecv, Hop::SkbDrop]
            .into_iter()
            .collect();
    assert!(queue > 0);
    for ip_id in [7, 0] {
        let second = if ip_id == 0 { 0 } else { ip_id + 1 };
        let packet = |hop, at, end, ip_id| numbered(vec![tcp(hop, at, end, BYTES.0, BYTES.1)], ip_id, 1);
        let events = [
            vec![tcp(Hop::TcpSend, 0, CLIENT, BYTES.0, BYTES.1)],
            packet(Hop::DevQueue, 10, CLIENT, ip_id),
            vec![dropped(11, ip_id)],
            packet(Hop::DevQueue, 1000, CLIENT, second),
            packet(Hop::DevXmit, 1020, CLIENT, second),
            packet(Hop::DevRecv, 1050, SERVER, second),
            packet(Hop::TcpRecv, 1060, SERVER, second),
            vec![read(1100)],
        ];
        let done = journeys(served, events.concat());
        let journey = &done[0];
        assert_eq!((done.len(), journey.verdict, journey.copy), (1, Verdict::Complete, 2));
        let drops: Vec<_> =
            journey.copies.iter().map(|copy| copy.dropped.map(|d| (d.time_ns, d.reason))).collect();
        assert_eq!(drops, [Some((11, 77)), None]);
        let expected = [
            (Hop::TcpSend, Hop::DevQueue, 10, false),
            (Hop::DevQueue, Hop::DevQueue, 990, true),
            (Hop::DevQueue, Hop::DevXmit, 20, false),
            (Hop::DevXmit, Hop::DevRecv, 30, false),
            (Hop::DevRecv, Hop::TcpRecv, 10, false),
            (Hop::TcpRecv, Hop::AppRecv, 40, false),
        ];
        assert_eq!(spans(journey), expected);
        assert_eq!(
            (journey.total_ns(), journey.between_ns(Hop::DevQueue, Hop::DevXmit)),
            (Some(1100), Some(20))
        );
        assert_eq!(journey.between_ns(Hop::TcpSend, Hop::DevQueue), Some(10));
        assert_eq!(journey.between_ns(Hop::TcpSend, Hop::AppRecv), Some(1100));
        let blame = Blame::of(journey, served).unwrap();
        assert_eq!((blame.largest(), blame.ns(Part::Retransmission)), (Some(Part::Retransmission), Some(990)));
        assert_eq!(blame.parts().map(|(_, ns)| ns).sum::<u64>(), 1100);
    }
}

#[test]
fn a_copy_lost_on_the_wire_keeps_its_own_steps() {
    let events =
        [out(0, 7), out(1000, 8), vec![retransmit_event(1010, Resend::Fast)], come(1100, 8), vec![read(1200)]];
    let journey = one(events.concat());
    let waits: Vec<_> = spans(&journey).into_iter().filter(|(.., waits)| *waits).collect();
    assert_eq!(waits, [(Hop::DevXmit, Hop::TcpXmit, 996, true)]);
    let to_driver: Vec<_> = journey.latencies().filter(|l| l.to == Hop::DevXmit).map(|l| l.ns).collect();
    assert_eq!(to_driver, [1, 1], "both copies came to the driver");
    let wire: Vec<_> = journey.latencies().filter(|l| l.to == Hop::DevRecv).map(|l| l.ns).collect();
    assert_eq!(wire, [96]);
}

#[test]
fn what_never_arrives_is_of_the_copy_that_came_furthest() {
    let events = [out(0, 7), out_of(&PACKET_TX[..4], 1000, 8, BYTES), vec![dropped(1005, 8)]];
    let journey = one(events.concat());
    assert_eq!((journey.copy, journey.rungs.last()), (1, Some(Hop::DevXmit)));
    assert!(journey.copies[1].dropped.is_some());
    assert_eq!(journey.total_ns(), Some(4));
}

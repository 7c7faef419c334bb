//! TCP: tables of events and the journeys they must become.

use crate::common;
use common::*;
use magscope_core::journey::{Correlator, Journey, Limits, Verdict};
use magscope_core::node::NodeInfo;
use magscope_core::{
    Batch, Blame, DetailKind, Event, EventFlags, FlowId, Hop, HopSet, Loss, LossCause, Part, Proto,
};

fn journeys(events: Vec<Event>) -> Vec<Journey> {
    correlate(coverage(), flows(Proto::TCP), events).0
}

/// One transfer of `len` bytes from `seq`, every hop once, read at the end.
fn whole(time_ns: u64, seq: u32, len: u32) -> Vec<Event> {
    let mut events = vec![tcp(Hop::TcpSend, time_ns, CLIENT, seq, len)];
    events.extend(run(&PACKET_TX, time_ns + 10, CLIENT, seq, len));
    events.extend(run(&PACKET_RX, time_ns + 100, SERVER, seq, len));
    events.push(tcp(Hop::SockReady, time_ns + 110, SERVER, seq.wrapping_add(len), 0));
    events.push(by(tcp(Hop::AppCopy, time_ns + 120, SERVER, seq, len), 7, 70));
    events.push(by(tcp(Hop::AppRecv, time_ns + 130, SERVER, seq, len), 7, 70));
    events
}

#[test]
fn bulk_is_cut_by_segmentation_merge_and_partial_reads() {
    // one send, two super-packets, the second cut in two on the wire, all merged again, read in three
    let mut events = vec![tcp(Hop::TcpSend, 0, CLIENT, 1000, 100_000)];
    events.extend(run(&PACKET_TX, 10, CLIENT, 1000, 64_000));
    events.extend(run(&PACKET_TX[..4], 20, CLIENT, 65_000, 36_000));
    events.push(tcp(Hop::DevXmit, 30, CLIENT, 65_000, 18_000));
    events.push(tcp(Hop::DevXmit, 31, CLIENT, 83_000, 18_000));
    events.extend(run(&PACKET_RX, 50, SERVER, 1000, 100_000));
    events.push(tcp(Hop::SockReady, 60, SERVER, 101_000, 0));
    for (time, seq, len) in [(70, 1000, 50_000), (80, 51_000, 40_000), (90, 91_000, 10_000)] {
        events.push(tcp(Hop::AppRecv, time, SERVER, seq, len));
    }
    let done = journeys(events);
    assert_eq!(
        ranges(&done),
        [(1000, 50_000), (51_000, 14_000), (65_000, 18_000), (83_000, 8_000), (91_000, 10_000)]
    );
    for journey in &done {
        assert_eq!((journey.verdict, journey.retransmits()), (Verdict::Complete, 0), "{journey:?}");
        assert_eq!((journey.tx_flow, journey.rx_flow), (CLIENT, SERVER));
        assert_eq!(journey.disordered(), 0);
        assert_eq!(journey.rungs.time_ns(Hop::SockReady), Some(60));
    }
    let xmit: Vec<_> = done.iter().filter_map(|j| j.rungs.time_ns(Hop::DevXmit)).collect();
    assert_eq!(xmit, [14, 14, 30, 31, 31]);
    let read: Vec<_> = done.iter().filter_map(|j| j.rungs.time_ns(Hop::AppRecv)).collect();
    assert_eq!(read, [70, 80, 80, 80, 90]);
}

#[test]
fn small_sends_in_one_packet_stay_apart() {
    let mut events: Vec<_> = (0..10).map(|i| tcp(Hop::TcpSend, i, CLIENT, 500 + 10 * i as u32, 10)).collect();
    events.extend(run(&PACKET_TX, 20, CLIENT, 500, 100));
    events.extend(run(&PACKET_RX, 30, SERVER, 500, 100));
    events.push(tcp(Hop::AppRecv, 40, SERVER, 500, 100));
    let done = journeys(events);
    assert_eq!(done.len(), 10);
    for (i, journey) in done.iter().enumerate() {
        assert_eq!(journey.rungs.time_ns(Hop::TcpSend), Some(i as u64));
        assert_eq!(journey.total_ns(), Some(40 - i as u64));
    }
}

#[test]
fn a_retransmission_is_counted_once_and_completes() {
    let mut events = whole(0, 100, 50);
    let tail = events.split_off(6); // lost on the wire
    events.push(Event { detail: DetailKind::DropReason.of(42), ..tcp(Hop::SkbDrop, 50, CLIENT, 100, 50) });
    events.extend(run(&PACKET_TX, 200, CLIENT, 100, 50));
    events.push(tcp(Hop::TcpRetransmit, 210, CLIENT, 100, 50));
    events.extend(tail.into_iter().map(|e| Event { time_ns: e.time_ns + 300, ..e }));
    let (done, correlator) = correlate(coverage(), flows(Proto::TCP), events);
    assert_eq!(ranges(&done), [(100, 50)]);
    assert_eq!((done[0].verdict, done[0].retransmits()), (Verdict::Complete, 1));
    assert_eq!(done[0].rungs.time_ns(Hop::DevXmit), Some(204), "of the copy that arrived");
    assert_eq!(done[0].copies[0].dropped.map(|drop| drop.reason), Some(42));
    assert_eq!(correlator.counters().drops, 1);
}

#[test]
fn what_is_sent_again_after_it_was_read_is_counted_beside_the_journeys() {
    let mut events = whole(0, 100, 50);
    // 20 bytes already read are sent again, and 30 new ones with them
    events.extend(run(&PACKET_TX, 500, CLIENT, 130, 50));
    events.push(tcp(Hop::TcpRetransmit, 510, CLIENT, 130, 50));
    let (done, correlator) = correlate(coverage(), flows(Proto::TCP), events);
    assert_eq!(ranges(&done), [(100, 50), (150, 30)]);
    assert_eq!(done[0].retransmits(), 0);
    assert_eq!(correlator.counters().resent_after_end_bytes, 20);
}

#[test]
fn a_drop_that_stays_one_has_its_reason() {
    let mut events = whole(0, 100, 50);
    events.truncate(4);
    events.push(Event { detail: DetailKind::DropReason.of(42), ..tcp(Hop::SkbDrop, 50, CLIENT, 100, 50) });
    let done = journeys(events);
    assert_eq!(done[0].verdict, Verdict::Dropped { hop: Hop::IpPost, reason: 42 });
}

#[test]
fn sequence_numbers_wrap() {
    let start = u32::MAX - 149;
    let events: Vec<_> =
        (0..4_u32).flat_map(|i| whole(u64::from(i) * 1000, start.wrapping_add(i * 100), 100)).collect();
    let done = journeys(events);
    assert_eq!(ranges(&done), [(start, 100), (start + 100, 100), (50, 100), (150, 100)]);
    assert!(done.iter().all(|j| j.verdict == Verdict::Complete));
    assert!(done.windows(2).all(|w| w[0].range.end == w[1].range.start));
}

#[test]
fn a_capture_that_begins_half_way() {
    // the first event is an arrival, then older bytes, then a complete journey
    let mut events = run(&PACKET_RX, 0, SERVER, 2000, 100);
    events.extend(run(&PACKET_RX, 10, SERVER, 1900, 100));
    events.push(tcp(Hop::AppRecv, 20, SERVER, 1900, 200));
    events.extend(whole(100, 2100, 10));
    let done = journeys(events);
    let mut seen: Vec<_> = done.iter().map(|j| (j.range.start as u32, j.verdict)).collect();
    seen.sort_by_key(|s| s.0);
    assert_eq!(seen, [(1900, Verdict::HalfComplete), (2000, Verdict::HalfComplete), (2100, Verdict::Complete)]);
}

#[test]
fn flows_do_not_mix() {
    let mut events = whole(0, 100, 50);
    for event in whole(5, 100, 50) {
        let flow = if event.flow == CLIENT { OTHER_CLIENT } else { OTHER_SERVER };
        events.push(Event { flow, ..event });
    }
    events.sort_by_key(|e| e.time_ns);
    let done = journeys(events);
    assert_eq!(done.len(), 2);
    let ends: Vec<(FlowId, FlowId)> = done.iter().map(|j| (j.tx_flow, j.rx_flow)).collect();
    assert_eq!(ends, [(CLIENT, SERVER), (OTHER_CLIENT, OTHER_SERVER)]);
    assert_eq!(done[0].rungs.time_ns(Hop::AppRecv), Some(130));
    assert_eq!(done[1].rungs.time_ns(Hop::AppRecv), Some(135));
}

#[test]
fn a_reader_that_slept_has_its_wake_up_and_one_that_did_not_has_none() {
    let mut events = whole(0, 100, 50);
    events.insert(
        events.len() - 2,
        by(Event { detail: DetailKind::OtherThread.of(3), ..Event::at(Hop::TaskWake, 112) }, 7, 70),
    );
    events.insert(events.len() - 2, by(Event::at(Hop::TaskRun, 118), 7, 70));
    events.extend(whole(1000, 150, 50)); // the same thread is still awake
    let done = journeys(events);
    let slept: Vec<_> =
        done[0].latencies().filter(|l| l.from >= Hop::SockReady).map(|l| (l.to, l.ns)).collect();
    assert_eq!(slept, [(Hop::TaskWake, 2), (Hop::TaskRun, 6), (Hop::AppCopy, 2), (Hop::AppRecv, 10)]);
    assert_eq!(done[0].reader.map(|w| w.tid), Some(7));
    assert!(!done[1].rungs.has(Hop::TaskWake) && !done[1].rungs.has(Hop::TaskRun));
}

#[test]
fn a_look_does_not_read() {
    let mut events = whole(0, 100, 50);
    let (copy, recv) = (events[events.len() - 2], events[events.len() - 1]);
    let at = events.len() - 2;
    events.insert(at, Event { time_ns: 113, flags: EventFlags::PEEK, ..recv });
    events.insert(at, Event { time_ns: 112, ..copy });
    let done = journeys(events);
    assert_eq!(ranges(&done), [(100, 50)]);
    assert_eq!(done[0].rungs.time_ns(Hop::AppCopy), Some(120));
    assert_eq!(done[0].rungs.time_ns(Hop::AppRecv), Some(130));
}

#[test]
fn a_send_that_took_less_than_it_declared() {
    let mut all = coverage();
    all.insert(Hop::AppSend);
    let mut events = vec![by(tcp(Hop::TcpSend, 0, CLIENT, 100, 5000), 5, 50)];
    events.extend(run(&PACKET_TX, 2, CLIENT, 100, 2000));
    events.push(at_return(by(tcp(Hop::AppSend, 10, CLIENT, 100, 2000), 5, 50)));
    events.push(by(tcp(Hop::TcpSend, 20, CLIENT, 2100, 3000), 5, 50));
    events.extend(run(&PACKET_TX, 22, CLIENT, 2100, 1000));
    events.push(at_return(by(tcp(Hop::AppSend, 30, CLIENT, 2100, 1000), 5, 50)));
    events.extend(run(&PACKET_RX, 40, SERVER, 100, 3000));
    events.push(tcp(Hop::AppRecv, 60, SERVER, 100, 3000));
    let (done, correlator) = correlate(all, flows(Proto::TCP), events);
    assert_eq!(ranges(&done), [(100, 2000), (2100, 1000)]);
    assert_eq!(done[1].rungs.time_ns(Hop::TcpSend), Some(20));
    assert!(done.iter().all(|j| j.verdict == Verdict::Complete && j.sender.map(|w| w.tid) == Some(5)));
    assert!(done.iter().all(|j| j.disordered() == 0 && j.rung(Hop::AppSend).is_some_and(|r| r.at_return)));
    assert_eq!(correlator.counters().never_sent_bytes, 3000 + 2000);
}

#[test]
fn keep_alives_and_acknowledgements_make_nothing() {
    let mut events = whole(0, 100, 50);
    events.extend(run(&PACKET_TX, 500, CLIENT, 149, 1));
    events.extend(run(&PACKET_RX, 510, SERVER, 149, 1));
    events.extend(run(&PACKET_TX, 520, CLIENT, 149, 0));
    events.extend(run(&PACKET_TX, 530, CLIENT, 150, 0));
    events.extend(whole(1000, 150, 50));
    let (done, correlator) = correlate(coverage(), flows(Proto::TCP), events);
    assert_eq!(ranges(&done), [(100, 50), (150, 50)]);
    assert!(done.iter().all(|j| j.retransmits() == 0));
    assert_eq!(correlator.counters().keep_alives, 9);
}

#[test]
fn a_new_connection_on_the_tuple_begins_anew() {
    let syn = |time_ns, seq| Event { tcp_flags: 2, ..tcp(Hop::IpOut, time_ns, CLIENT, seq, 0) };
    let mut events = vec![syn(0, 100)];
    events.extend(whole(10, 100, 50));
    events.push(Event { hop: Hop::DevRecv, flow: SERVER, ..syn(11, 100) });
    events.push(syn(1000, 90)); // near, but another connection
    events.extend(whole(1010, 90, 30));
    let (done, correlator) = correlate(coverage(), flows(Proto::TCP), events);
    assert_eq!(done.len(), 2);
    assert!(done.iter().all(|j| j.verdict == Verdict::Complete));
    assert_eq!(correlator.counters().resets, 1);
}

#[test]
fn losses_break_what_they_touch_and_nothing_else() {
    let mut events = whole(0, 100, 50); // no gap: complete despite the loss
    let mut gapped = whole(1000, 150, 50);
    gapped.retain(|e| e.hop != Hop::IpIn);
    events.extend(gapped);
    let mut unread = whole(2000, 200, 50);
    unread.truncate(8);
    events.extend(unread);
    let mut far = whole(9000, 250, 50);
    far.truncate(6);
    events.extend(far);
    let mut input = batch(flows(Proto::TCP), events);
    let loss = |from_ns, to_ns| Loss { cpu: 0, from_ns, to_ns, count: 3, cause: LossCause::RingFull };
    input.losses = vec![loss(50, 60), loss(1050, 1060), loss(2500, 2600)];
    let mut correlator = Correlator::new(coverage(), Limits::default());
    let mut done = Vec::new();
    correlator.push(&input, &mut done);
    let later = Batch { watermark_ns: 60_000_000_000, ..Batch::default() };
    correlator.push(&later, &mut done);
    done.sort_by_key(|j| j.range.start);
    let verdicts: Vec<_> = done.iter().map(|j| j.verdict).collect();
    assert_eq!(
        verdicts,
        [
            Verdict::Complete,
            Verdict::BrokenByEventLoss { gap: loss(1050, 1060) },
            Verdict::BrokenByEventLoss { gap: loss(2500, 2600) },
            Verdict::LostAfter { hop: Hop::DevXmit }
        ]
    );
    assert_eq!((correlator.in_flight(), correlator.counters().lost_records), (0, 9));
}

#[test]
fn one_end_alone_makes_halves() {
    let client: Vec<_> = flows(Proto::TCP).into_iter().take(1).collect();
    let mut events = whole(0, 100, 50);
    events.retain(|e| e.flow == CLIENT);
    let mut correlator = Correlator::new(coverage(), Limits::default());
    let mut done = Vec::new();
    correlator.push(&batch(client, events), &mut done);
    assert!(done.is_empty());
    correlator.push(&Batch { watermark_ns: 400_000_000, ..Batch::default() }, &mut done);
    assert_eq!((done[0].verdict, done[0].rx_flow), (Verdict::HalfComplete, FlowId::NONE));

    let server: Vec<_> = flows(Proto::TCP).into_iter().skip(1).take(1).collect();
    let mut events = whole(0, 100, 50);
    events.retain(|e| e.flow == SERVER);
    let done = correlate(coverage(), server, events).0;
    assert_eq!((done[0].verdict, done[0].tx_flow), (Verdict::HalfComplete, FlowId::NONE));
}

#[test]
fn a_reader_that_passed_unseen() {
    let mut events = whole(0, 100, 50);
    events.retain(|e| e.hop != Hop::AppRecv && e.hop != Hop::AppCopy); // spliced
    events.extend(whole(1000, 150, 50));
    let done = journeys(events);
    assert_eq!(done[0].verdict, Verdict::ReadUnseen);
    assert_eq!(done[1].verdict, Verdict::Complete);
}

#[test]
fn a_forwarder_is_not_an_end() {
    const ROUTER_IN: FlowId = FlowId(91);
    const ROUTER_OUT: FlowId = FlowId(92);
    let mut all = flows(Proto::TCP);
    all.push(flow(ROUTER_OUT, 9, Proto::TCP, "10.0.0.1:4000", "10.0.0.2:80"));
    all.push(flow(ROUTER_IN, 9, Proto::TCP, "10.0.0.2:80", "10.0.0.1:4000"));
    let forwarded = |time_ns, seq| {
        let mut events = whole(time_ns, seq, 50);
        events.extend(run(&[Hop::DevRecv, Hop::IpPre], time_ns + 20, ROUTER_IN, seq, 50));
        events.extend(run(&[Hop::IpPost, Hop::DevQueue, Hop::DevXmit], time_ns + 30, ROUTER_OUT, seq, 50));
        events.sort_by_key(|e| e.time_ns);
        events
    };
    let events = [forwarded(0, 100), forwarded(1000, 150)].concat();
    let done = correlate(coverage(), all, events).0;
    assert_eq!(ranges(&done), [(100, 50), (150, 50)]);
    assert!(done.iter().all(|j| j.retransmits() == 0 && j.verdict == Verdict::Complete));
    assert_eq!(done[1].rungs.time_ns(Hop::DevRecv), Some(1100));
}

#[test]
fn the_driver_returns_after_the_reader_on_loopback() {
    let mut events = whole(0, 100, 50);
    events.push(tcp(Hop::DevDone, 135, CLIENT, 100, 50));
    let mut all = coverage();
    all.insert(Hop::DevDone);
    let done = correlate(all, flows(Proto::TCP), events).0;
    assert_eq!(done[0].rungs.time_ns(Hop::DevDone), Some(135));
    assert_eq!(done[0].disordered(), 0);
    let wire = done[0].latencies().find(|l| l.to == Hop::DevRecv).unwrap();
    assert_eq!((wire.from, wire.ns), (Hop::DevXmit, 86));
    let driver = done[0].latencies().find(|l| l.to == Hop::DevDone).unwrap();
    assert_eq!((driver.from, driver.ns), (Hop::DevXmit, 121));
    assert_eq!(done[0].total_ns(), Some(130));
}

#[test]
fn too_many_in_flight_evicts_the_oldest() {
    let limits = Limits { max_pieces: 64, ..Limits::default() };
    let mut correlator = Correlator::new(coverage(), limits);
    let mut done = Vec::new();
    let events = (0..1000).map(|i| tcp(Hop::IpIn, i, SERVER, 10 * i as u32, 10)).collect();
    correlator.push(&batch(flows(Proto::TCP), events), &mut done);
    assert!(correlator.in_flight() <= 64);
    assert_eq!(done.len() + correlator.in_flight(), 1000);
    assert_eq!(correlator.counters().evicted, done.len() as u64);
    assert!(done.windows(2).all(|w| w[0].range.start < w[1].range.start));
    assert!(done.iter().all(|j| j.verdict == Verdict::Evicted));
}

#[test]
fn flows_are_bounded_and_unknown_ones_counted() {
    let limits = Limits { max_flows: 100, ..Limits::default() };
    let mut correlator = Correlator::new(HopSet::all(), limits);
    let mut done = Vec::new();
    for i in 0..1000_u64 {
        let id = FlowId(i + 1);
        let new = flow(id, 1, Proto::TCP, &format!("10.0.0.1:{}", i + 1), "10.0.0.2:80");
        correlator.push(&batch(vec![new], vec![tcp(Hop::IpOut, i, id, 5, 10)]), &mut done);
    }
    assert!(correlator.flows().count() <= 100);
    assert_eq!(correlator.counters().evicted_flows, 1000 - correlator.flows().count() as u64);
    correlator.push(&batch(vec![], vec![tcp(Hop::IpOut, 5000, FlowId(77_777), 5, 10)]), &mut done);
    assert_eq!(correlator.counters().unattributed, 1);
}

#[test]
fn to_make_room_for_flows_forgets_none_whose_events_are_still_to_come() {
    // Announced together with their events, or in the batch before.
    for early in [false, true] {
        let limits = Limits { max_flows: 100, ..Limits::default() };
        let mut correlator = Correlator::new(HopSet::all(), limits);
        let mut done = Vec::new();
        let mut held = Vec::new();
        for first in (0..2000_u64).step_by(40) {
            let new = (first..first + 40)
                .map(|i| flow(FlowId(i + 1), 1, Proto::TCP, &format!("10.0.0.1:{}", i + 1), "10.0.0.2:80"));
            let events: Vec<_> =
                (first..first + 40).map(|i| tcp(Hop::IpOut, i, FlowId(i + 1), 5, 10)).collect();
            let now = if early { std::mem::replace(&mut held, events) } else { events };
            correlator.push(&batch(new.collect(), now), &mut done);
            assert!(correlator.flows().count() <= 100);
        }
        correlator.push(&batch(Vec::new(), held), &mut done);
        correlator.finish(&mut done);
        assert_eq!((correlator.counters().unattributed, done.len()), (0, 2000), "early: {early}");
    }
}

#[test]
fn what_comes_between_wake_and_run_waited_for_the_cpu() {
    let mut events = run(&PACKET_RX, 0, SERVER, 100, 50);
    events.push(tcp(Hop::SockReady, 10, SERVER, 150, 0));
    events.push(by(Event::at(Hop::TaskWake, 12), 7, 70));
    events.extend(run(&PACKET_RX, 20, SERVER, 150, 50));
    events.push(tcp(Hop::SockReady, 30, SERVER, 200, 0));
    events.push(by(Event::at(Hop::TaskRun, 100), 7, 70));
    events.extend(run(&PACKET_RX, 110, SERVER, 200, 50));
    events.push(tcp(Hop::SockReady, 120, SERVER, 250, 0));
    events.push(by(tcp(Hop::AppRecv, 130, SERVER, 100, 150), 7, 70));
    let done = journeys(events);
    let seen: Vec<_> =
        done.iter().map(|j| (j.rungs.time_ns(Hop::TaskWake), j.rungs.time_ns(Hop::TaskRun))).collect();
    assert_eq!(seen, [(Some(12), Some(100)), (None, Some(100)), (None, None)]);
    let waited: Vec<_> = done.iter().filter_map(|j| Blame::of(j, coverage())?.ns(Part::Scheduler)).collect();
    assert_eq!(waited, [88, 70]);
}

#[test]
fn the_first_packet_of_all_is_lost_and_comes_after_a_time_out() {
    let mut correlator = Correlator::new(coverage(), Limits::default());
    let mut done = Vec::new();
    let mut sent = vec![tcp(Hop::TcpSend, 0, CLIENT, 100, 50)];
    sent.extend(run(&PACKET_TX, 1, CLIENT, 100, 50));
    correlator.push(&batch(flows(Proto::TCP), sent), &mut done);
    correlator.push(&Batch { watermark_ns: 200_000_000, ..Batch::default() }, &mut done);
    let mut events = run(&PACKET_TX, 201_000_000, CLIENT, 100, 50);
    events.extend(run(&PACKET_RX, 202_000_000, SERVER, 100, 50));
    events.push(tcp(Hop::AppRecv, 203_000_000, SERVER, 100, 50));
    correlator.push(&batch(vec![], events), &mut done);
    correlator.finish(&mut done);
    let seen: Vec<_> = done.iter().map(|j| (j.verdict, j.retransmits(), j.bytes())).collect();
    assert_eq!(seen, [(Verdict::Complete, 1, 50)]);
}

/// A capture begins while bytes wait in the queue of the sender's device.
#[test]
fn bytes_under_way_when_the_capture_begins_are_not_complete() {
    let mut events = whole(0, 100, 50);
    events.retain(|event| event.hop >= Hop::DevXmit);
    events.extend(whole(1000, 150, 50));
    let (done, _) = correlate(coverage(), flows(Proto::TCP), events.clone());
    let seen: Vec<_> =
        done.iter().map(|j| (j.range.end - j.range.start, j.precedes_capture, j.verdict)).collect();
    assert_eq!(seen, [(50, true, Verdict::HalfComplete), (50, false, Verdict::Complete)]);
    // With its handshake in the capture, nothing of a connection was sent before.
    let syn = Event { tcp_flags: 2, ..tcp(Hop::IpOut, 0, CLIENT, 99, 0) };
    events.insert(0, syn);
    let (done, _) = correlate(coverage(), flows(Proto::TCP), events);
    assert!(done.iter().all(|j| j.verdict == Verdict::Complete), "{done:#?}");
}

/// A sampler left out the notification of the first bytes, and a later one announces all bytes below it.
#[test]
fn a_later_notification_is_not_that_of_bytes_whose_own_was_left_out() {
    let second_ns = 1_000_000_000;
    let mut events = whole(0, 100, 50);
    events.retain(|event| !matches!(event.hop, Hop::SockReady | Hop::AppCopy | Hop::AppRecv));
    events.extend(whole(second_ns, 150, 50));
    let announced = |settings: &[&str]| {
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut correlator = Correlator::of_node(&NodeInfo { settings, ..node() }, Limits::default());
        let mut done = Vec::new();
        correlator.push(&batch(flows(Proto::TCP), events.clone()), &mut done);
        correlator.finish(&mut done);
        done.sort_by_key(Journey::start_ns);
        done.iter().map(|journey| journey.rungs.time_ns(Hop::SockReady)).collect::<Vec<_>>()
    };
    assert_eq!(announced(&["sample 1/10 all"]), [None, Some(second_ns + 110)]);
    assert_eq!(announced(&[]), [Some(second_ns + 110); 2], "bytes may wait for earlier ones");
}

/// The same for datagrams.
#[test]
fn a_later_notification_is_not_that_of_a_datagram_whose_own_was_left_out() {
    let at = |hop, time_ns, ip_id| by(udp(hop, time_ns, SERVER, ip_id, 1, 100), 0, 70);
    let arrives = |time_ns, ip_id| {
        [
            at(Hop::DevRecv, time_ns, ip_id),
            at(Hop::IpIn, time_ns + 1, ip_id),
            at(Hop::UdpRecv, time_ns + 2, ip_id),
        ]
    };
    let ready = by(udp(Hop::SockReady, 1_000_000_010, FlowId::NONE, 0, 0, 0), 0, 70);
    let events = [arrives(0, 7).to_vec(), arrives(1_000_000_000, 8).to_vec(), vec![ready]].concat();
    let settings = vec!["sample 1/10 all".to_owned()];
    let mut correlator = Correlator::of_node(&NodeInfo { settings, ..node() }, Limits::default());
    let mut done = Vec::new();
    correlator.push(&batch(flows(Proto::UDP), events), &mut done);
    correlator.finish(&mut done);
    done.sort_by_key(Journey::start_ns);
    let announced: Vec<_> = done.iter().map(|journey| journey.rungs.time_ns(Hop::SockReady)).collect();
    assert_eq!(announced, [None, Some(1_000_000_010)]);
}

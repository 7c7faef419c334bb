//! Conclusions that a missing record must prevent: minimal scenarios of failures that the model stack found.

use crate::common;
use common::*;
use magscope_core::change::Change;
use magscope_core::journey::{Correlator, Journey, Limits, Verdict};
use magscope_core::node::{Backend, Coverage, NodeInfo};
use magscope_core::{Batch, DetailKind, Event, EventFlags, FlowId, Hop, Loss, LossCause, Proto};

const SOCKET: u64 = 70;

fn loss(from_ns: u64, to_ns: u64) -> Loss {
    Loss { cpu: 0, from_ns, to_ns, count: 3, cause: LossCause::RingFull }
}

fn whole(time_ns: u64, seq: u32, len: u32) -> Vec<Event> {
    let mut events = vec![tcp(Hop::TcpSend, time_ns, CLIENT, seq, len)];
    events.extend(run(&PACKET_TX, time_ns + 10, CLIENT, seq, len));
    events.extend(run(&PACKET_RX, time_ns + 100, SERVER, seq, len));
    events.push(tcp(Hop::SockReady, time_ns + 110, SERVER, seq.wrapping_add(len), 0));
    events.push(tcp(Hop::AppRecv, time_ns + 130, SERVER, seq, len));
    events
}

/// The events in one batch, the losses with it or in the next.
fn correlate_lossy(proto: Proto, events: Vec<Event>, losses: Vec<Loss>, later: bool) -> Vec<Journey> {
    let mut correlator = Correlator::new(coverage(), Limits::default());
    let mut done = Vec::new();
    let mut first = batch(flows(proto), events);
    let mut second = Batch { watermark_ns: first.watermark_ns + 1000, ..Batch::default() };
    let place = if later { &mut second } else { &mut first };
    place.losses = losses;
    correlator.push(&first, &mut done);
    correlator.push(&second, &mut done);
    correlator.finish(&mut done);
    done.sort_by_key(|j| (j.range.start, j.start_ns()));
    done
}

#[test]
fn a_loss_before_the_first_rung_breaks_what_lacks_its_beginning() {
    let mut second = whole(1000, 150, 50);
    second.retain(|e| !matches!(e.hop, Hop::TcpSend | Hop::TcpXmit | Hop::IpOut)); // until 1011
    let events = [whole(0, 100, 50), second].concat();
    let done = correlate_lossy(Proto::TCP, events, vec![loss(999, 1011)], false);
    let verdicts: Vec<_> = done.iter().map(|j| j.verdict).collect();
    assert_eq!(verdicts, [Verdict::Complete, Verdict::BrokenByEventLoss { gap: loss(999, 1011) }]);
}

#[test]
fn a_loss_that_is_told_of_after_the_read_breaks_what_it_touched() {
    let mut events = whole(0, 100, 50);
    events.retain(|e| !matches!(e.hop, Hop::DevXmit | Hop::DevQueue));
    let done = correlate_lossy(Proto::TCP, events, vec![loss(12, 400)], true);
    assert_eq!(done[0].verdict, Verdict::BrokenByEventLoss { gap: loss(12, 400) });
}

#[test]
fn a_gap_without_a_loss_is_no_loss() {
    let mut events = whole(0, 100, 50);
    events.retain(|e| e.hop != Hop::DevQueue);
    let done = correlate_lossy(Proto::TCP, events, vec![], false);
    assert_eq!(done[0].verdict, Verdict::Complete);
}

#[test]
fn a_dropped_copy_is_no_drop_of_what_has_arrived() {
    let mut events = run(&PACKET_TX, 0, CLIENT, 150, 50);
    events.extend(run(&PACKET_RX, 20, SERVER, 150, 50)); // out of order: not ready, not acknowledged
    events.extend(run(&PACKET_TX[..4], 100, CLIENT, 100, 100));
    events.push(Event { detail: DetailKind::DropReason.of(9), ..tcp(Hop::SkbDrop, 110, CLIENT, 100, 100) });
    let done = correlate_lossy(Proto::TCP, events, vec![], false);
    let verdicts: Vec<_> = done.iter().map(|j| (j.range.start as u32, j.verdict)).collect();
    assert_eq!(verdicts, [(100, Verdict::Dropped { hop: Hop::DevQueue, reason: 9 }), (150, Verdict::InFlight)]);
}

fn datagram(time_ns: u64, ip_id: u16) -> Vec<Event> {
    let skb = u32::from(ip_id);
    let hops = [Hop::IpOut, Hop::IpPost, Hop::DevQueue, Hop::DevXmit, Hop::DevRecv, Hop::IpPre, Hop::IpIn];
    let mut events: Vec<_> = hops
        .iter()
        .zip(0..)
        .map(|(hop, i)| udp(*hop, time_ns + i, if i < 4 { CLIENT } else { SERVER }, ip_id, skb, 100))
        .collect();
    events.push(by(udp(Hop::UdpRecv, time_ns + 8, SERVER, ip_id, skb, 100), 0, SOCKET));
    events
}

fn read(time_ns: u64) -> Event {
    by(udp(Hop::AppRecv, time_ns, FlowId::NONE, 0, 0, 100), 7, SOCKET)
}

#[test]
fn a_read_after_a_lost_arrival_is_in_doubt_until_the_reader_sleeps() {
    let mut lost = datagram(100, 2);
    lost.retain(|e| e.hop != Hop::UdpRecv);
    let mut events = [datagram(0, 1), vec![read(50)], lost, datagram(120, 3)].concat();
    events.extend([read(150), read(160)]); // of the second and the third
    events.extend(datagram(200, 4));
    events.push(by(Event::at(Hop::TaskWake, 210), 7, SOCKET));
    events.push(read(250));
    let done = correlate_lossy(Proto::UDP, events, vec![loss(105, 110)], false);
    let read = |j: &Journey| Some((j.rungs.time_ns(Hop::AppRecv)?, j.ambiguous, j.verdict));
    let mut reads: Vec<_> = done.iter().filter_map(read).collect();
    reads.sort_unstable_by_key(|(ns, ..)| *ns);
    // The order does not identify the datagram of the read at 150: no time may be measured from it.
    let gap = loss(105, 110);
    assert_eq!(
        reads,
        [
            (50, false, Verdict::Complete),
            (150, true, Verdict::BrokenByEventLoss { gap }),
            (250, false, Verdict::Complete)
        ]
    );
}

/// Each read leaves the queue empty, and the record of one was lost.
#[test]
fn a_lost_read_is_not_that_of_another_thread() {
    const MS: u64 = 1_000_000;
    let read_of = |n: u64| Event { flags: EventFlags::QUEUE_EMPTY, ..read(n * MS + 50) };
    let mut events = Vec::new();
    for n in 1..=6 {
        events.extend(datagram(n * MS, n as u16));
        events.push(ready(n * MS + 9));
        events.push(by(Event::at(Hop::TaskWake, n * MS + 10), 7, SOCKET));
        events.extend((n != 2).then(|| read_of(n)));
    }
    let gap = loss(2 * MS + 20, 2 * MS + 100);
    let done = correlate_lossy(Proto::UDP, events, vec![gap], false);
    let of = |j: &Journey| (j.ip_id, j.rungs.time_ns(Hop::AppRecv), j.ambiguous, j.verdict);
    let broken = Verdict::BrokenByEventLoss { gap };
    let whole = |n: u16| (n, Some(u64::from(n) * MS + 50), false, Verdict::Complete);
    // The first read after the loss may have taken one of two. Then the queue is certain again.
    let doubtful = [(2, Some(3 * MS + 50), true, broken), (3, None, false, broken)];
    let expected = [vec![whole(1)], doubtful.to_vec(), vec![whole(4), whole(5), whole(6)]].concat();
    assert_eq!(done.iter().map(of).collect::<Vec<_>>(), expected);
}

#[test]
fn a_send_that_returns_after_a_loss_is_in_doubt() {
    let sent = |ip_id| by(udp(Hop::IpOut, 10, CLIENT, ip_id, 1, 100), 5, 50);
    let returned = at_return(by(udp(Hop::AppSend, 60, CLIENT, 0, 0, 100), 5, 50));
    for (losses, in_doubt) in [(vec![], false), (vec![loss(20, 50)], true)] {
        let done = correlate_lossy(Proto::UDP, vec![sent(1), returned], losses, false);
        assert_eq!((done.len(), done[0].ambiguous), (1, in_doubt));
    }
}

#[test]
fn what_a_filter_may_have_hidden_is_not_lost() {
    let packets = || run(&PACKET_TX, 0, CLIENT, 1000, 100);
    let ends = |settings: &[&str], changes: Vec<Change>| {
        // The other direction has been seen at both ends, so that the receiver's silence is significant.
        let mut events = run(&PACKET_TX, 0, CLIENT, 100, 10);
        events.extend(run(&PACKET_RX, 50, SERVER, 100, 10));
        events.push(tcp(Hop::AppRecv, 60, SERVER, 100, 10));
        events.extend(packets().into_iter().map(|e| Event { time_ns: e.time_ns + 100, ..e }));
        let settings = settings.iter().map(ToString::to_string).collect();
        let info = NodeInfo { settings, coverage: Coverage::full(Backend::Generator), ..NodeInfo::default() };
        let mut correlator = Correlator::of_node(&info, Limits::default());
        let mut done = Vec::new();
        correlator.push(&Batch { changes, ..batch(flows(Proto::TCP), events) }, &mut done);
        correlator.push(&Batch { watermark_ns: 60_000_000_000, ..Batch::default() }, &mut done);
        done.iter().find(|j| j.range.start as u32 == 1000).map(|j| j.verdict)
    };
    let lost = Some(Verdict::LostAfter { hop: Hop::DevXmit });
    let filtered = Some(Verdict::Filtered { beyond: Hop::DevXmit });
    assert_eq!(ends(&[], Vec::new()), lost);
    assert_eq!(ends(&["filter port = 80", "sample flows 1/4"], Vec::new()), lost);
    assert_eq!(ends(&["filter cpu = 0"], Vec::new()), filtered);
    assert_eq!(ends(&["sample 1/10 dev.recv"], Vec::new()), filtered);
    for what in ["disable dev.recv", "filter port = 80", "sample flows 1/16", "detail histograms"] {
        let change = |from_ns| Change { from_ns, to_ns: from_ns + 5, what: what.to_owned() };
        assert_eq!(ends(&[], vec![change(200)]), filtered, "{what}");
        assert_eq!(ends(&[], vec![change(90_000_000_000)]), lost, "{what}: it was before that");
    }
    let ended = [(1, "disable dev.recv"), (50, "enable dev.recv")];
    let ended = ended.map(|(at_ns, what)| Change { from_ns: at_ns, to_ns: at_ns, what: what.to_owned() });
    assert_eq!(ends(&[], ended.to_vec()), lost, "it was sent after that");
}

/// Independent of the contents of a batch, a loss affects only the journeys that it can have touched.
#[test]
fn what_had_waited_long_enough_before_a_loss_is_not_broken_by_it() {
    const SECOND: u64 = 1_000_000_000;
    let sent = |n: u64| {
        let mut events = run(&PACKET_TX, n * SECOND, CLIENT, 100 + n as u32 * 50, 50);
        events.insert(0, tcp(Hop::TcpSend, n * SECOND - 5, CLIENT, 100 + n as u32 * 50, 50));
        events
    };
    let gap = loss(9 * SECOND + 1_000, 9 * SECOND + 2_000);
    let whole = vec![batch(flows(Proto::TCP), (1..=20).flat_map(sent).collect())];
    let pieces =
        (1..=20).map(|n| batch(if n == 1 { flows(Proto::TCP) } else { Vec::new() }, sent(n))).collect();
    let verdicts = |mut batches: Vec<Batch>| {
        let (mut correlator, mut done) = (Correlator::new(coverage(), Limits::default()), Vec::new());
        let lossy = batches.iter().position(|b| b.events.last().is_some_and(|e| e.time_ns >= 9 * SECOND));
        batches[lossy.expect("a batch")].losses = vec![gap];
        for batch in &batches {
            correlator.push(batch, &mut done);
        }
        correlator.finish(&mut done);
        done.sort_by_key(|j: &Journey| j.range.start);
        done.iter().map(|j| j.verdict.name()).collect::<Vec<_>>()
    };
    let one_by_one = verdicts(pieces);
    assert_eq!(verdicts(whole), one_by_one);
    let broken: Vec<_> = (1..).zip(&one_by_one).filter(|(_, v)| v.contains("broken")).map(|(n, _)| n).collect();
    assert_eq!(broken, [9], "{one_by_one:?}");
}

//! Reads assigned to datagrams by order, unless events that the order requires were left out or evicted.

use crate::common;
use common::*;
use magscope_core::journey::{Correlator, Journey, Limits, Verdict};
use magscope_core::node::{Backend, Coverage, NodeInfo};
use magscope_core::{Batch, Change, Event, EventFlags, FlowId, Hop, HopSet, Proto};

/// Four datagrams, 10 ms apart; the reads of the first two are not seen. Before the fourth the reader certainly
/// slept.
fn journeys_with_reads_unseen(changes: &[(u64, &str)]) -> Vec<Journey> {
    const MS: u64 = 1_000_000;
    let mut correlator = Correlator::new(coverage(), Limits::default());
    let mut done = Vec::new();
    for n in 0..4 {
        let at = n * 10 * MS;
        let id = 10 + n as u16;
        let mut events = [down(at, id, 1, 100), up(at + 50, id, 2 + n as u32, 100)].concat();
        if n == 3 {
            events.push(by(Event::at(Hop::TaskWake, at + 60), 7, SOCKET));
        }
        if n >= 2 {
            events.push(read(at + 90, 100));
        }
        let of_now = changes.iter().filter(|(when, _)| *when == n);
        let changes = of_now.map(|(_, what)| Change { from_ns: at, to_ns: at + 1, what: (*what).to_owned() });
        let batch = Batch { changes: changes.collect(), ..batch(flows(Proto::UDP), events) };
        correlator.push(&batch, &mut done);
    }
    correlator.finish(&mut done);
    done.sort_by_key(|journey| journey.ip_id);
    done
}

/// Their times to the reader, where available.
fn with_reads_unseen(changes: &[(u64, &str)]) -> Vec<Option<u64>> {
    journeys_with_reads_unseen(changes)
        .iter()
        .map(|journey| Some(journey.rungs.time_ns(Hop::AppRecv)? - journey.rungs.time_ns(Hop::IpOut)?))
        .collect()
}

#[test]
fn no_read_is_given_to_a_datagram_by_an_order_that_something_left_out() {
    // the model: by order alone the reads would be those of the first two, 20 ms too late
    assert_eq!(with_reads_unseen(&[]), [Some(20_000_090), Some(20_000_090), None, None]);
    // disabled for a while: no time until the reader certainly slept
    let off = [(0, "disable app.recv,task.run"), (2, "enable app.recv,task.run")];
    assert_eq!(with_reads_unseen(&off), [None, None, None, Some(90)]);
    // left out all the time: no time at all
    for all_the_time in ["sample 1/10 all", "filter cpu = 1", "disable app.recv"] {
        assert_eq!(with_reads_unseen(&[(0, all_the_time)]), [None; 4], "{all_the_time}");
    }
    // this socket has no peer: some flows of its datagrams are left out, and none of its reads
    assert_eq!(with_reads_unseen(&[(0, "sample flows 1/2")]), [None; 4]);
    let verdicts: Vec<_> =
        journeys_with_reads_unseen(&[(0, "sample flows 1/2")]).iter().map(|journey| journey.verdict).collect();
    let filtered = Verdict::Filtered { beyond: Hop::SockReady };
    assert_eq!(verdicts, [filtered, filtered, Verdict::InFlight, Verdict::InFlight], "as many as were read");
    assert_eq!(with_reads_unseen(&[(0, "sample flows 1/1")])[0], Some(20_000_090));
}

/// More datagrams wait in one socket than the queue stores: reads are unassigned until the reader certainly
/// slept.
#[test]
fn a_queue_that_outgrew_what_is_remembered_says_nothing_of_reads() {
    const MANY: u64 = (1 << 14) + 3;
    const US: u64 = 1_000;
    let at = |n: u64| n * US;
    let arrive =
        |n: u64| [down(at(n), n as u16 | 1, 1, 100), up(at(n) + 50, n as u16 | 1, 2 + n as u32, 100)].concat();
    let mut events: Vec<Event> = (1..=MANY).flat_map(arrive).collect();
    events.extend((0..MANY).map(|n| read(at(MANY + 1 + n), 100)));
    let alone = at(3 * MANY);
    events.extend([down(alone, 9, 1, 100), up(alone + 50, 9, 2, 100)].concat());
    events.push(by(Event::at(Hop::TaskWake, alone + 60), 7, SOCKET));
    events.push(read(alone + 90, 100));
    let mut correlator = Correlator::new(coverage(), Limits::default());
    let mut done = Vec::new();
    correlator.push(&batch(flows(Proto::UDP), events), &mut done);
    correlator.finish(&mut done);
    let read: Vec<_> = done.iter().filter(|journey| journey.verdict == Verdict::Complete).collect();
    assert_eq!((done.len() as u64, read.len()), (MANY + 1, 1), "the last one alone");
    assert_eq!(read[0].rungs.time_ns(Hop::AppRecv), Some(alone + 90));
}

/// The arrival of the first datagram was not recorded, and each read takes the previous one. An empty queue
/// after a read proves nothing.
#[test]
fn an_empty_queue_proves_nothing_where_arrivals_were_left_out() {
    const MS: u64 = 1_000_000;
    let mut correlator = Correlator::new(coverage(), Limits::default());
    let mut done = Vec::new();
    for n in 0..5 {
        let (at, id) = (n * MS, 10 + n as u16);
        let mut events = [down(at, id, 1, 100), up(at + 50, id, 2 + n as u32, 100)].concat();
        let what = if n == 0 {
            events.retain(|event| event.hop != Hop::UdpRecv);
            "disable udp.recv"
        } else {
            events.push(read(at + 90, 100));
            "enable udp.recv"
        };
        let change = (n < 2).then(|| Change { from_ns: at, to_ns: at + 1, what: what.to_owned() });
        let batch = Batch { changes: change.into_iter().collect(), ..batch(flows(Proto::UDP), events) };
        correlator.push(&batch, &mut done);
    }
    correlator.finish(&mut done);
    assert_eq!(done.len(), 5);
    assert!(done.iter().all(|journey| journey.rung(Hop::AppRecv).is_none()), "{done:?}");
}

/// A sampler leaves out the flows of the second and the third datagram. Events report that the socket accepted
/// both, and later had no room for the third. So the second read belongs to no journey, and the third to the
/// fourth datagram.
#[test]
fn datagrams_of_flows_that_are_left_out_have_their_place_in_the_order() {
    let other = |hop: Hop, time_ns: u64, flow: u64| Event {
        flow: FlowId(flow),
        socket: if hop == Hop::UdpRecv { SOCKET } else { 0 },
        flags: EventFlags::ORDER,
        ..udp(hop, time_ns, FlowId(flow), 1, 0, 100)
    };
    let events = [
        down(0, 9, 1, 100),
        up(50, 9, 2, 100),
        vec![other(Hop::UdpRecv, 70, 77), other(Hop::UdpRecv, 80, 78), other(Hop::SkbDrop, 81, 78)],
        down(100, 11, 3, 100),
        up(150, 11, 4, 100),
        vec![read(1_000, 100), read(2_000, 100), read(3_000, 100)],
    ];
    let info =
        NodeInfo { tells_order: true, settings: vec!["sample flows 1/4".to_owned()], ..served(coverage()) };
    let mut correlator = Correlator::of_node(&info, Limits::default());
    let mut done = Vec::new();
    correlator.push(&batch(flows(Proto::UDP), events.concat()), &mut done);
    correlator.finish(&mut done);
    done.sort_by_key(|journey| journey.ip_id);
    let read: Vec<_> = done
        .iter()
        .map(|journey| (journey.ip_id, journey.verdict, journey.rungs.time_ns(Hop::AppRecv)))
        .collect();
    assert_eq!(read, [(9, Verdict::Complete, Some(1_000)), (11, Verdict::Complete, Some(3_000))]);
    assert!(done.iter().all(|journey| !journey.ambiguous));
}

/// A node with these hops.
fn served(hops: HopSet) -> NodeInfo {
    let mut coverage = Coverage::full(Backend::Generator);
    coverage.hops.retain(|row| hops.contains(row.hop));
    NodeInfo { coverage, ..NodeInfo::default() }
}

/// A filter by the other end's port keeps what arrives at a socket without a peer, and cannot decide its reads.
#[test]
fn a_datagram_whose_read_the_filter_left_out_is_filtered() {
    let verdict = |filter: &str, more: Vec<Event>| {
        let settings = vec![format!("filter {filter}")];
        let info = NodeInfo { settings, ..served(coverage()) };
        let mut correlator = Correlator::of_node(&info, Limits::default());
        let events = [down(0, 10, 1, 100), up(50, 10, 2, 100), more].concat();
        let mut done = Vec::new();
        correlator.push(&batch(flows(Proto::UDP), events), &mut done);
        correlator.finish(&mut done);
        done.iter().map(|journey| journey.verdict).collect::<Vec<_>>()
    };
    assert_eq!(verdict("udp", Vec::new()), [Verdict::InFlight]);
    assert_eq!(verdict("port = 80", Vec::new()), [Verdict::InFlight], "the reader's own port");
    let filtered = Verdict::Filtered { beyond: Hop::SockReady };
    assert_eq!(verdict("port = 4000", Vec::new()), [filtered]);
    assert_eq!(verdict("host = 10.0.0.1", Vec::new()), [filtered]);
    assert_eq!(verdict("port = 4000", vec![read(90, 100)]), [Verdict::Complete]);
}

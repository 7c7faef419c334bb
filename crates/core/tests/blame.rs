//! Blame: tables of events and their required split; every split sums to the total.

use crate::common;
use common::*;
use magscope_core::blame::{Blame, Part};
use magscope_core::journey::Presence;
use magscope_core::{DetailKind, Event, EventFlags, Hop, HopSet, Proto};
use proptest::prelude::*;

/// A journey with these events, and its blame.
fn blame(served: HopSet, rungs: &[(Hop, u64)]) -> Blame {
    let mut events: Vec<Event> = rungs
        .iter()
        .map(|(hop, time_ns)| {
            let end = if hop.direction() == magscope_core::Direction::Tx { CLIENT } else { SERVER };
            let (seq, len) = if *hop == Hop::SockReady { (150, 0) } else { (100, 50) };
            match hop {
                Hop::TaskWake | Hop::TaskRun => by(Event::at(*hop, *time_ns), 7, 70),
                Hop::AppCopy | Hop::AppRecv => by(tcp(*hop, *time_ns, end, seq, len), 7, 70),
                _ => tcp(*hop, *time_ns, end, seq, len),
            }
        })
        .collect();
    events.sort_by_key(|e| e.time_ns);
    let done = correlate(served, flows(Proto::TCP), events).0;
    assert_eq!(done.len(), 1);
    Blame::of(&done[0], served).unwrap()
}

const WHOLE: [(Hop, u64); 13] = [
    (Hop::TcpSend, 0),
    (Hop::TcpXmit, 100),
    (Hop::IpOut, 101),
    (Hop::DevQueue, 105),
    (Hop::DevXmit, 110),
    (Hop::DevRecv, 1110),
    (Hop::IpIn, 1120),
    (Hop::TcpRecv, 1125),
    (Hop::SockReady, 1130),
    (Hop::TaskWake, 1132),
    (Hop::TaskRun, 1432),
    (Hop::AppCopy, 1440),
    (Hop::AppRecv, 1450),
];

#[test]
fn a_whole_journey_has_a_part_for_everyone() {
    let blame = blame(coverage(), &WHOLE);
    let parts: Vec<_> = blame.parts().collect();
    let expected = [
        (Part::SenderStack, 10),
        (Part::SendQueue, 100),
        (Part::Wire, 1000),
        (Part::ReceiverStack, 22),
        (Part::Scheduler, 300),
        (Part::Reading, 18),
    ];
    assert_eq!(parts, expected);
    assert_eq!((blame.total_ns(), blame.largest(), blame.ns(Part::Unknown)), (1450, Some(Part::Wire), None));
}

#[test]
fn a_reader_that_was_not_woken_was_away() {
    let rungs: Vec<_> =
        WHOLE.into_iter().filter(|(hop, _)| !matches!(hop, Hop::TaskWake | Hop::TaskRun)).collect();
    let here = blame(coverage(), &rungs);
    assert_eq!((here.ns(Part::ReaderAway), here.ns(Part::Reading)), (Some(310), Some(10)));
    // without wake-up events a wait for a CPU cannot be recognised
    let mut served = coverage();
    served.remove(Hop::TaskWake);
    let here = blame(served, &rungs);
    assert_eq!((here.ns(Part::ReaderAway), here.ns(Part::Unknown)), (None, Some(310)));
}

#[test]
fn what_no_hop_tells_is_unknown() {
    let hops = [Hop::TcpSend, Hop::IpOut, Hop::DevRecv, Hop::AppRecv];
    let rungs: Vec<_> = WHOLE.into_iter().filter(|(hop, _)| hops.contains(hop)).collect();
    let here = blame(hops.into_iter().collect(), &rungs);
    assert_eq!(here.parts().collect::<Vec<_>>(), [(Part::SendQueue, 101), (Part::Unknown, 1349)]);
}

const OTHER: u64 = 71;

/// A datagram at its socket, with its readers notified, at 15.
fn arrived() -> Vec<Event> {
    let hops = [Hop::IpOut, Hop::DevXmit, Hop::DevRecv, Hop::IpIn, Hop::UdpRecv];
    let flow = |hop: Hop| if hop.direction() == magscope_core::Direction::Tx { CLIENT } else { SERVER };
    let one = |(hop, at): (&Hop, u64)| Event { socket: 70, ..udp(*hop, at, flow(*hop), 9, 1, 100) };
    let mut events: Vec<_> = hops.iter().zip(10..).map(one).collect();
    events.push(by(udp(Hop::SockReady, 15, magscope_core::FlowId::NONE, 0, 0, 0), 0, 70));
    events
}

fn wake(time_ns: u64, tid: u32, socket: u64) -> Event {
    by(Event::at(Hop::TaskWake, time_ns), tid, socket)
}

fn run(time_ns: u64, tid: u32) -> Event {
    by(Event::at(Hop::TaskRun, time_ns), tid, 0)
}

fn reads(time_ns: u64, tid: u32, socket: u64, asked_ago_ns: u32) -> Event {
    let event = by(udp(Hop::AppRecv, time_ns, magscope_core::FlowId::NONE, 0, 0, 100), tid, socket);
    Event { detail: DetailKind::EmptyRead.of(asked_ago_ns), ..event }
}

/// Name, scenario, and the part of the time.
type Row = (&'static str, Vec<Event>, Vec<(Part, u64)>);

#[test]
fn the_last_leg_by_what_the_reader_did() {
    const MS: u64 = 1_000_000;
    let (own, away, cpu) = (Part::Reading, Part::ReaderAway, Part::Scheduler);
    let late = reads(MS, 7, 70, 0);
    // scenario, and the time of each part of the last leg, from 15 on
    let table: Vec<Row> = vec![
        (
            "in recv or epoll",
            vec![wake(20, 7, 70), run(50, 7), reads(60, 7, 70, 0)],
            vec![(cpu, 30), (own, 10)],
        ),
        ("nobody asked", vec![late], vec![(away, MS - 15)]),
        ("a timer woke it later", vec![wake(400, 7, 0), run(500, 7), late], vec![(away, MS - 15)]),
        ("another socket woke it later", vec![wake(400, 7, OTHER), run(500, 7), late], vec![(away, MS - 15)]),
        ("another thread was woken for it", vec![wake(20, 8, 70), run(50, 8), late], vec![(away, MS - 15)]),
        // it had been woken and had no CPU yet: that is the scheduler's time for any cause of the wake-up
        (
            "woken before by another socket",
            vec![wake(5, 7, OTHER), run(40, 7), reads(60, 7, 70, 0)],
            vec![(cpu, 25), (own, 20)],
        ),
        // and then it read other data first
        (
            "epoll with two that are ready",
            vec![wake(5, 7, OTHER), run(40, 7), reads(50, 7, OTHER, 0), late],
            vec![(cpu, 25), (away, MS - 40)],
        ),
        ("it spins", vec![reads(1000, 7, 70, 990)], vec![(own, 985)]),
        ("it asks now and then", vec![reads(MS, 7, 70, MS as u32 + 100_000)], vec![(away, MS - 15)]),
    ];
    for (name, more, expected) in table {
        let all = arrived().into_iter().chain(more);
        let mut events: Vec<_> = all.map(|e| Event { time_ns: e.time_ns + MS, ..e }).collect();
        events.sort_by_key(|e| e.time_ns);
        let done = correlate(coverage(), flows(Proto::UDP), events).0;
        assert_eq!((done.len(), done[0].reader.map(|w| w.tid)), (1, Some(7)), "{name}");
        let blame = Blame::of(&done[0], coverage()).unwrap();
        let got: Vec<_> = blame.parts().filter(|(part, _)| [own, away, cpu].contains(part)).collect();
        assert_eq!(got, expected, "{name}");
    }
}

#[test]
fn a_reader_is_busy_if_it_read_other_data_on_its_cpu_first() {
    let peek = |time_ns| {
        let event = reads(time_ns, 7, OTHER, 0);
        Event { flags: event.flags.with(EventFlags::PEEK), ..event }
    };
    let last = reads(60, 7, 70, 0);
    let (other, own) = (wake(5, 7, OTHER), wake(20, 7, 70));
    let table = [
        ("other data first", Presence::Busy, vec![other, run(40, 7), reads(50, 7, OTHER, 0), last]),
        (
            "woken by this socket, other data first",
            Presence::Busy,
            vec![own, run(40, 7), reads(50, 7, OTHER, 0), last],
        ),
        ("other data at once", Presence::Busy, vec![other, run(40, 7), reads(40, 7, OTHER, 0), last]),
        ("this data only", Presence::Unsaid, vec![other, run(40, 7), last]),
        ("other data before its CPU", Presence::Unsaid, vec![other, reads(30, 7, OTHER, 0), run(40, 7), last]),
        (
            "other data by another thread",
            Presence::Unsaid,
            vec![other, run(40, 7), reads(50, 8, OTHER, 0), last],
        ),
        ("other data after this", Presence::Unsaid, vec![other, run(40, 7), last, reads(70, 7, OTHER, 0)]),
        ("a look at other data", Presence::Unsaid, vec![other, run(40, 7), peek(50), last]),
        ("on its CPU before the data", Presence::Unsaid, vec![other, run(8, 7), reads(50, 7, OTHER, 0), last]),
        ("polling", Presence::Polling, vec![reads(60, 7, 70, 50)]),
    ];
    for (name, expected, more) in table {
        let mut events: Vec<_> = arrived().into_iter().chain(more).collect();
        events.sort_by_key(|e| e.time_ns);
        let done = correlate(coverage(), flows(Proto::UDP), events).0;
        let presence: Vec<_> = done.iter().map(|journey| journey.presence).collect();
        assert_eq!(presence, [expected], "{name}");
        // The time on its CPU until this read belongs to the other data.
        let blame = Blame::of(&done[0], coverage()).unwrap();
        let (away, own) = (blame.ns(Part::ReaderAway), blame.ns(Part::Reading));
        if done[0].rungs.has(Hop::TaskRun) {
            let expected = if expected == Presence::Busy { (Some(20), None) } else { (None, Some(20)) };
            assert_eq!((away, own), expected, "{name}");
        }
    }
}

#[test]
fn a_busy_poll_is_the_readers_own_call() {
    let mut events = arrived();
    if let Some(ready) = events.last_mut() {
        ready.detail = DetailKind::Poller.of(7); // the thread that fetched the data from the device
    }
    events.push(reads(40, 7, 70, 0));
    let mine = correlate(coverage(), flows(Proto::UDP), events.clone()).0;
    assert_eq!(Blame::of(&mine[0], coverage()).unwrap().ns(Part::Reading), Some(25));
    // without the busy poll of another thread
    events.pop();
    events.push(reads(40, 8, 70, 0));
    let other = correlate(coverage(), flows(Proto::UDP), events).0;
    assert_eq!(Blame::of(&other[0], coverage()).unwrap().ns(Part::ReaderAway), Some(25));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parts_sum_to_the_total(times in prop::collection::vec(0..50_u64, 13), hops in any::<u64>(), ordered in any::<bool>()) {
        let mut times = times;
        if ordered {
            times.sort_unstable();
        }
        let served: HopSet = coverage().iter().filter(|h| hops & (1 << h.id()) != 0).collect();
        let mut events = Vec::new();
        for ((hop, _), time_ns) in WHOLE.iter().zip(&times).filter(|((hop, _), _)| served.contains(*hop)) {
            let end = if hop.direction() == magscope_core::Direction::Tx { CLIENT } else { SERVER };
            let (seq, len) = if *hop == Hop::SockReady { (150, 0) } else { (100, 50) };
            events.push(by(tcp(*hop, *time_ns, end, seq, len), 7, 70));
        }
        for journey in correlate(served, flows(Proto::TCP), events).0 {
            let blame = Blame::of(&journey, served);
            prop_assert_eq!(blame.map(|b| b.total_ns()), journey.total_ns());
            if let Some(blame) = blame {
                prop_assert_eq!(blame.parts().map(|(_, ns)| ns).sum::<u64>(), blame.total_ns());
                let most = blame.parts().map(|(_, ns)| ns).max();
                prop_assert!(blame.total_ns() == 0 || blame.largest().and_then(|p| blame.ns(p)) == most);
            }
        }
    }
}

//! Bytes that arrived before earlier ones wait for those: no fault of the receiver's stack.

use crate::common;
use common::*;
use magscope_core::blame::{Blame, Part};
use magscope_core::journey::{HeadOfLine, Journey, Resend};
use magscope_core::{DetailKind, Event, Hop, Proto};

/// Two segments of a stream.
const FIRST: (u32, u32) = (100, 50);
const SECOND: (u32, u32) = (150, 50);

fn out(time_ns: u64, (seq, len): (u32, u32)) -> Vec<Event> {
    run(&PACKET_TX, time_ns, CLIENT, seq, len)
}

fn come(time_ns: u64, (seq, len): (u32, u32)) -> Vec<Event> {
    run(&PACKET_RX, time_ns, SERVER, seq, len)
}

/// `sock.ready` for everything below 200, and one read of it.
fn ready_and_read(time_ns: u64) -> Vec<Event> {
    vec![tcp(Hop::SockReady, time_ns, SERVER, 200, 0), tcp(Hop::AppRecv, time_ns + 10, SERVER, 100, 100)]
}

/// The journeys of both segments.
fn both(events: Vec<Event>) -> [Journey; 2] {
    let mut events = events;
    events.sort_by_key(|event| event.time_ns);
    let mut done = correlate(coverage(), flows(Proto::TCP), events).0;
    done.sort_by_key(|journey| journey.range.start);
    done.try_into().expect("two journeys")
}

fn parts(journey: &Journey) -> Vec<(Part, u64)> {
    let blame = Blame::of(journey, coverage()).expect("it has a time");
    assert_eq!(blame.parts().map(|(_, ns)| ns).sum::<u64>(), blame.total_ns());
    blame.parts().filter(|(part, _)| matches!(part, Part::Retransmission | Part::HeadOfLine)).collect()
}

#[test]
fn a_segment_behind_a_lost_one_waits_for_its_retransmission() {
    let again = Event {
        detail: DetailKind::ResendReason.of(Resend::Timeout as u32),
        ..tcp(Hop::TcpRetransmit, 5_000, CLIENT, FIRST.0, FIRST.1)
    };
    let events =
        [out(0, FIRST), out(10, SECOND), come(100, SECOND), vec![again], out(5_001, FIRST), come(6_000, FIRST)];
    let arrived_ns = 100 + PACKET_RX.len() as u64 - 1;
    let filled_ns = 6_000 + PACKET_RX.len() as u64 - 1;
    let [first, second] = both([events.concat(), ready_and_read(6_020)].concat());
    assert_eq!(first.head_of_line, None);
    assert_eq!(second.head_of_line, Some(HeadOfLine { until_ns: filled_ns, resent: true }));
    assert_eq!(parts(&second), [(Part::Retransmission, filled_ns - arrived_ns)]);
    assert_eq!(second.head_of_line_ns(), filled_ns - arrived_ns);
    let stack = Blame::of(&second, coverage()).and_then(|blame| blame.ns(Part::ReceiverStack));
    let expected_ns = arrived_ns - 100 + 6_020 - filled_ns;
    assert_eq!(
        stack,
        Some(expected_ns),
        "its own way through the stack, and from the last arrival to the announcement"
    );
}

#[test]
fn a_segment_that_overtook_another_waits_for_that() {
    let events = [out(0, FIRST), out(10, SECOND), come(100, SECOND), come(900, FIRST)];
    let filled_ns = 900 + PACKET_RX.len() as u64 - 1;
    let [first, second] = both([events.concat(), ready_and_read(950)].concat());
    assert_eq!(first.head_of_line, None);
    assert_eq!(second.head_of_line, Some(HeadOfLine { until_ns: filled_ns, resent: false }));
    assert_eq!(parts(&second), [(Part::HeadOfLine, 800)]);
}

#[test]
fn segments_in_order_wait_for_nothing() {
    let events = [out(0, FIRST), out(10, SECOND), come(100, FIRST), come(900, SECOND)];
    let [first, second] = both([events.concat(), ready_and_read(950)].concat());
    assert_eq!((first.head_of_line, second.head_of_line), (None, None));
    // One super-packet brings both.
    let events = [out(0, FIRST), out(10, SECOND), come(100, (100, 100))];
    let [first, second] = both([events.concat(), ready_and_read(950)].concat());
    assert_eq!((first.head_of_line, second.head_of_line), (None, None));
}

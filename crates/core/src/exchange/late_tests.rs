//! Lost datagrams that are given up after those behind them were processed.

use super::connection::{Connection, End};
use super::grade::{BrokenBy, Grade};
use super::group::Closing;
use super::late::Closed;
use super::losses::Losses;
use super::piece::{Moment, Part, Piece};
use super::tests::{CLIENT, SERVER, closed_by, journey};
use crate::flow::{FlowId, Proto};
use crate::journey::{Journey, ThreadRef};
use std::time::{Duration, Instant};

const MS: u64 = 1_000_000;

/// A datagram of one end; without a read it is lost.
fn datagram((from, to): (ThreadRef, ThreadRef), sent_ns: u64, read_ns: Option<u64>) -> Part {
    let at = |ns, who| Moment { ns, who: Some(who) };
    let broken = read_ns.is_none().then_some(BrokenBy::Journey("dropped"));
    Part { start: 0, end: 50, sent: Some(at(sent_ns, from)), read: read_ns.map(|ns| at(ns, to)), broken }
}

const ASKS: (ThreadRef, ThreadRef) = (CLIENT, SERVER);
const ANSWERS: (ThreadRef, ThreadRef) = (SERVER, CLIENT);

/// A connection in which these questions (with or without their answer's read) were processed; each takes a millisecond.
fn asked(questions: &[(u64, bool)]) -> Connection {
    let mut connection = Connection::new(Proto::UDP, 0);
    for (index, flow) in [(0, 1), (1, 2)] {
        connection.index_of(End { node: 0, flow: FlowId(flow) }, index == 0).expect("an end");
    }
    let own = |id| Journey { proto: Proto::UDP, ..journey(id) };
    for (n, (ms, is_answered)) in (1..).zip(questions) {
        let ns = ms * MS;
        connection.push(0, datagram(ASKS, ns, Some(ns + MS / 4)), &own(2 * n));
        if *is_answered {
            connection.push(1, datagram(ANSWERS, ns + MS / 2, Some(ns + MS)), &own(2 * n + 1));
        }
    }
    connection
}

#[test]
fn a_lost_answer_breaks_the_exchange_that_asked_twice() {
    // The second question had no answer, and the client asked again.
    let mut connection = asked(&[(10, true), (20, false), (220, true), (300, true)]);
    let exchanges = closed_by(&Losses::default(), |around| {
        connection.process(u64::MAX, around);
        connection.close_all(Closing::Closed, around);
    });
    let grades: Vec<_> = exchanges.iter().map(|exchange| exchange.grade).collect();
    assert_eq!(grades, [Grade::Turn; 3], "nothing shows it so far");
    let mut closed = Closed::default();
    for exchange in exchanges {
        closed.push(0, (0, 0), exchange);
    }
    let late =
        connection.late(1, &datagram(ANSWERS, 20 * MS + MS / 2, None)).expect("later ones were processed");
    assert!(closed.break_by((0, 0), &late) && !closed.break_by((1, 0), &late));
    let grades: Vec<_> = std::iter::from_fn(|| closed.pop(0, 9)).map(|(_, exchange)| exchange.grade).collect();
    assert_eq!(grades, [Grade::Turn, Grade::Broken, Grade::Turn]);
}

#[test]
fn a_lost_datagram_is_looked_up_among_those_of_its_connection() {
    let mut connection = asked(&[(10, true), (20, true), (30, true), (300, true)]);
    let exchanges = closed_by(&Losses::default(), |around| {
        connection.process(u64::MAX, around);
        connection.close_all(Closing::Closed, around);
    });
    let mut closed = Closed::default();
    for (n, exchange) in (0..).zip(exchanges) {
        closed.push(10 - n, (0, 0), exchange);
    }
    assert_eq!(closed.indexed(), 4);
    let late = |sender: usize, ns: u64| {
        let from = if sender == 1 { ANSWERS } else { ASKS };
        connection.late(sender, &datagram(from, ns, None)).expect("later ones were processed")
    };
    assert!(!closed.break_by((0, 1), &late(1, 21 * MS)), "the slot has another connection");
    assert!(!closed.break_by((0, 0), &late(1, 9 * MS)), "all of them began later");
    assert!(!closed.break_by((0, 0), &late(0, 25 * MS)), "a question between two exchanges is of neither");
    assert!(closed.break_by((0, 0), &late(0, 20 * MS + MS / 2)), "within the second");
    assert!(closed.break_by((0, 0), &late(1, 31 * MS)), "the answer of the third");
    let mut grades: Vec<_> = std::iter::from_fn(|| closed.pop(u64::MAX, 9))
        .map(|(_, exchange)| (exchange.start_ns().expect("a send") / MS, exchange.grade))
        .collect();
    grades.sort_unstable();
    let expected = [(10, Grade::Turn), (20, Grade::Broken), (30, Grade::Broken), (300, Grade::Turn)];
    assert_eq!(grades, expected);
    assert!(!closed.break_by((0, 0), &late(1, 31 * MS)), "they were output");
    assert_eq!(closed.indexed(), 0);
}

#[test]
fn many_lost_datagrams_do_not_look_at_all_exchanges_each() {
    const EXCHANGES: u64 = 1 << 14;
    const LOST: u64 = 1 << 17;
    let mut connection = asked(&[(10, true), (u64::from(u32::MAX), true)]);
    let exchanges = closed_by(&Losses::default(), |around| {
        connection.process(u64::MAX, around);
        connection.close_all(Closing::Closed, around);
    });
    let mut closed = Closed::default();
    for id in 0..EXCHANGES {
        let (mut exchange, start_ns) = (exchanges[0].clone(), (10 + 2 * id) * MS);
        exchange.id = id;
        exchange.request.first_sent_ns = Some(start_ns);
        exchange.response.last_read_ns = Some(start_ns + MS);
        closed.push(id, (0, 0), exchange);
    }
    let answer = connection.late(1, &datagram(ANSWERS, 11 * MS, None)).expect("later ones were processed");
    let question = datagram(ASKS, (10 + 3 * EXCHANGES) * MS, None);
    let question = connection.late(0, &question).expect("later ones were processed");
    let begin = Instant::now();
    for _ in 0..LOST {
        assert!(closed.break_by((0, 0), &answer) && !closed.break_by((0, 0), &question));
    }
    // Looking at all of them takes minutes.
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[test]
fn a_lost_answer_breaks_the_open_exchange() {
    let mut connection = asked(&[(20, false), (220, true)]);
    let exchanges = closed_by(&Losses::default(), |around| {
        connection.process(u64::MAX, around);
        let late = connection.late(1, &datagram(ANSWERS, 20 * MS + MS / 2, None)).expect("it is late");
        assert!(connection.break_open(&late));
        connection.close_all(Closing::Closed, around);
    });
    assert_eq!(exchanges.iter().map(|exchange| exchange.grade).collect::<Vec<_>>(), [Grade::Broken]);
}

#[test]
fn a_lost_question_is_an_exchange_of_its_own() {
    let mut connection = asked(&[(10, true), (220, true)]);
    let lost = datagram(ASKS, 100 * MS, None);
    let exchanges = closed_by(&Losses::default(), |around| {
        connection.process(u64::MAX, around);
        let late = connection.late(0, &lost).expect("it is late");
        assert!(!connection.break_open(&late), "the open one began later");
        connection.close_alone(Piece::new(lost, &journey(9)), around);
        connection.close_all(Closing::Closed, around);
    });
    let mut grades: Vec<_> =
        exchanges.iter().map(|exchange| (exchange.start_ns().expect("a send") / MS, exchange.grade)).collect();
    grades.sort_unstable();
    assert_eq!(grades, [(10, Grade::Turn), (100, Grade::Broken), (220, Grade::Turn)]);
    let pause = |ms| exchanges.iter().find(|exchange| exchange.start_ns() == Some(ms * MS))?.pause_ns;
    assert_eq!((pause(100), pause(220)), (None, Some(209 * MS)), "pauses are between the others");
}

#[test]
fn what_was_read_in_time_is_not_late() {
    let mut connection = asked(&[(10, true)]);
    closed_by(&Losses::default(), |around| connection.process(u64::MAX, around));
    assert!(connection.late(1, &datagram(ANSWERS, 30 * MS, None)).is_none(), "nothing behind it was processed");
    assert!(connection.late(1, &datagram(ANSWERS, 5 * MS, Some(6 * MS))).is_none(), "it is whole");
}

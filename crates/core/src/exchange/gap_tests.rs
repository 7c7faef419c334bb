//! Bytes without an event: before the first one, between two exchanges, and at the end.

use super::best::BestGrades;
use super::builder::{ExchangeBuilder, ExchangeLimits};
use super::connection::{Connection, End};
use super::exchange::{Exchange, ExchangePart};
use super::grade::{BrokenBy, Grade};
use super::group::Closing;
use super::late::Closed;
use super::losses::Losses;
use super::openings::Openings;
use super::piece::{Moment, Part};
use super::tests::{CLIENT, SERVER, closed_by, journey};
use crate::batch::{Batch, Loss, LossCause};
use crate::change::Change;
use crate::event::Event;
use crate::flow::{FlowId, Proto};
use crate::hop::Hop;
use crate::journey::{Across, Journey, ThreadRef};
use crate::stored_context::StoredContext;
use std::ops::Range;

/// A call of the client, or of the server.
#[derive(Clone, Debug)]
enum Call {
    Ask(Range<u64>, u64),
    Answer(Range<u64>, u64),
}
use Call::{Answer, Ask};

/// A connection from the client to the server.
fn connection() -> Connection {
    let mut connection = Connection::new(Proto::TCP, 0);
    for (index, flow) in [(0, 1), (1, 2)] {
        connection.index_of(End { node: 0, flow: FlowId(flow) }, index == 0).expect("an end");
    }
    connection.opened_by(0);
    connection
}

/// Bytes that are sent at an instant and read 10 ns later.
fn part(bytes: Range<u64>, ns: u64, (from, to): (ThreadRef, ThreadRef)) -> Part {
    let at = |ns, who| Some(Moment { ns, who: Some(who) });
    Part { start: bytes.start, end: bytes.end, sent: at(ns, from), read: at(ns + 10, to), broken: None }
}

fn push(connection: &mut Connection, calls: &[Call]) {
    for (id, call) in (1..).zip(calls.iter().cloned()) {
        match call {
            Ask(bytes, ns) => connection.push(0, part(bytes, ns, (CLIENT, SERVER)), &journey(id)),
            Answer(bytes, ns) => connection.push(1, part(bytes, ns, (SERVER, CLIENT)), &journey(id)),
        };
    }
}

fn close(mut connection: Connection, closing: Closing, losses: &Losses) -> Vec<Exchange> {
    closed_by(losses, |around| {
        connection.process(u64::MAX, around);
        connection.close_all(closing, around);
    })
}

fn grades(exchanges: &[Exchange]) -> Vec<(Grade, Option<BrokenBy>)> {
    exchanges.iter().map(|exchange| (exchange.grade, exchange.broken)).collect()
}

const TURN: (Grade, Option<BrokenBy>) = (Grade::Turn, None);
const UNSEEN: (Grade, Option<BrokenBy>) = (Grade::Broken, Some(BrokenBy::UnseenBytes));

/// The flow was not recorded for a while: the rest of an answer, and others, have no event.
#[test]
fn unseen_bytes_break_the_exchange_before_them_too() {
    let of = |calls: &[Call]| {
        let mut connection = connection();
        push(&mut connection, calls);
        grades(&close(connection, Closing::Closed, &Losses::default()))
    };
    let last = [Ask(300..400, 110), Answer(60..70, 130)];
    let both = [Ask(0..100, 10), Answer(0..10, 30), Ask(200..300, 60), Answer(50..60, 80)];
    assert_eq!(of(&[both.as_slice(), last.as_slice()].concat()), [UNSEEN, UNSEEN, TURN]);
    let answers = [Ask(0..100, 10), Answer(0..10, 30), Ask(100..300, 60), Answer(50..60, 80)];
    assert_eq!(of(&[answers.as_slice(), last.as_slice()].concat()), [UNSEEN, UNSEEN, TURN]);
    let none = [Ask(0..100, 10), Answer(0..50, 30), Ask(100..300, 60), Answer(50..60, 80)];
    assert_eq!(of(&[none.as_slice(), last.as_slice()].concat()), [TURN; 3]);
}

#[test]
fn the_first_bytes_are_those_behind_the_syn() {
    let of = |calls: &[Call]| {
        let mut openings = Openings::default();
        openings.syn(1, true, 1_000, true);
        openings.syn(2, false, 5_000, true);
        let mut connection = connection();
        connection.begin(0, openings.at(1).expect("its SYN"));
        push(&mut connection, calls);
        grades(&close(connection, Closing::Closed, &Losses::default()))
    };
    let next = Ask(1_100..1_200, 60);
    let all = [Ask(1_000..1_100, 10), Answer(5_000..5_010, 30), next.clone(), Answer(5_010..5_020, 80)];
    assert_eq!(of(&all), [TURN; 2]);
    let later = [Ask(1_050..1_100, 10), Answer(5_000..5_010, 30), next.clone(), Answer(5_010..5_020, 80)];
    assert_eq!(of(&later), [UNSEEN, TURN], "a part of the first request");
    let no_request = [Answer(5_000..5_010, 30), next.clone(), Answer(5_010..5_020, 80)];
    assert_eq!(of(&no_request), [UNSEEN; 2], "all of it, so the server seems to send by itself");
    let short = [Ask(1_000..1_100, 10), Answer(5_005..5_010, 30), next, Answer(5_010..5_020, 80)];
    assert_eq!(of(&short), [UNSEEN, TURN], "a part of the first response");
}

fn losses_at(from_ns: u64) -> Losses {
    let mut losses = Losses::default();
    let cause = LossCause::RingFull;
    losses.take(0, &[Loss { cpu: 0, from_ns, to_ns: from_ns + 5, count: 1, cause }]);
    losses
}

#[test]
fn a_response_that_may_have_been_missed_is_not_absent() {
    let of = |losses: &Losses| {
        let mut connection = connection();
        push(&mut connection, &[Ask(0..100, 10)]);
        grades(&close(connection, Closing::Closed, losses))
    };
    assert_eq!(of(&Losses::default()), [(Grade::Unanswered, None)]);
    assert_eq!(of(&losses_at(1)), [(Grade::Unanswered, None)], "before the request");
    assert_eq!(of(&losses_at(50)), [(Grade::Broken, Some(BrokenBy::EventLoss))]);
    let mut changed = Losses::default();
    changed.change(0, &[Change { from_ns: 50, to_ns: 55, what: "sample flows 1/16".to_owned() }]);
    assert_eq!(of(&changed), [(Grade::Broken, Some(BrokenBy::Changed))]);
}

#[test]
fn a_request_that_may_have_been_missed_is_not_absent() {
    let of = |losses: &Losses| {
        let mut connection = connection();
        push(&mut connection, &[Answer(0..10, 30)]);
        grades(&close(connection, Closing::Closed, losses))
    };
    assert_eq!(of(&Losses::default()), [(Grade::Streamed, None)]);
    assert_eq!(of(&losses_at(10)), [(Grade::Broken, Some(BrokenBy::EventLoss))]);
}

#[test]
fn settings_that_change_amid_an_exchange_break_it() {
    let of = |what: &str, ns: u64| {
        let mut connection = connection();
        push(&mut connection, &[Ask(0..100, 10), Answer(0..10, 30)]);
        let mut losses = Losses::default();
        losses.change(0, &[Change { from_ns: ns, to_ns: ns + 1, what: what.to_owned() }]);
        grades(&close(connection, Closing::End(1_000_000_000), &losses))
    };
    let changed = [(Grade::Broken, Some(BrokenBy::Changed))];
    assert_eq!(of("filter port = 443", 35), changed);
    assert_eq!(of("filter port = 443", 45), changed, "more of the response may have followed");
    assert_eq!(of("filter port = 443", 500_000_000), [TURN], "it was over");
    assert_eq!(of("disable dev.queue", 35), [TURN], "sends and reads have their events");
}

#[test]
fn sends_by_an_unrelated_clock_are_no_pauses() {
    const AHEAD: u64 = 3_600_000_000_000;
    let mut connection = connection();
    let apart = |id| Journey { across: Across::Apart, ..journey(id) };
    let mut ask = part(0..100, 10, (CLIENT, SERVER));
    ask.read = Some(Moment { ns: AHEAD + 20, who: Some(SERVER) });
    connection.push(0, ask, &apart(1));
    for n in 0..2 {
        let mut answer = part(10 * n..10 * n + 10, AHEAD + 30 + n, (SERVER, CLIENT));
        answer.read = Some(Moment { ns: 40 + n, who: Some(CLIENT) });
        connection.push(1, answer, &apart(2 + n));
    }
    let exchanges = close(connection, Closing::Closed, &Losses::default());
    assert_eq!(grades(&exchanges), [TURN]);
    let parts: Vec<_> = exchanges[0].parts().collect();
    assert_eq!((exchanges[0].total_ns(), parts), (Some(31), vec![(ExchangePart::UntilAnswered, 10)]));
}

#[test]
fn what_a_connection_has_shown_is_stored_while_its_exchanges_wait() {
    let mut connection = connection();
    push(&mut connection, &[Ask(0..100, 10), Answer(0..10, 30)]);
    let exchanges = close(connection, Closing::Closed, &Losses::default());
    let (mut best, mut closed) = (BestGrades::default(), Closed::default());
    let [open, waiting, output, turns] = [(0, 0), (1, 0), (2, 0), (3, 0)];
    for slot in [open, waiting, output, turns] {
        best.note(slot, Grade::Overlapped);
    }
    best.note(turns, Grade::Turn);
    for exchange in exchanges {
        closed.push(5, waiting, exchange);
    }
    best.forget(&closed, |slot| slot == open);
    let of = [open, waiting, output, turns].map(|slot| best.of(slot));
    assert_eq!(of, [Grade::Overlapped, Grade::Overlapped, Grade::Turn, Grade::Turn]);
    assert_eq!(best.len(), 2);
}

#[test]
fn a_connection_that_has_ended_is_closed_although_too_many_pieces_waited() {
    const S: u64 = 1_000_000_000;
    let mut builder = ExchangeBuilder::with(ExchangeLimits { waiting: 0, ..ExchangeLimits::default() });
    let (context, mut ready) = (StoredContext::default(), Vec::new());
    let ends = |flow| Event { flow: FlowId(flow), ..Event::at(Hop::SockDestroy, 100) };
    let last = Batch { events: vec![ends(1), ends(2)], watermark_ns: S, ..Batch::default() };
    builder.batch(0, &last, &mut ready);
    builder.journey(&Journey { range: 10..20, ..journey(1) }, &context, &mut ready);
    assert_eq!(ready.len(), 0);
    for s in [10, 20, 30, 40] {
        builder.batch(0, &Batch { watermark_ns: s * S, ..Batch::default() }, &mut ready);
    }
    assert_eq!(ready.len(), 1);
    builder.finish(&mut ready);
    assert_eq!(ready.len(), 1);
}

#[test]
fn an_event_at_the_end_of_time_holds_nothing_up() {
    let mut builder = ExchangeBuilder::new();
    let (context, mut ready) = (StoredContext::default(), Vec::new());
    let last = Event { flow: FlowId(1), ..Event::at(Hop::SockDestroy, u64::MAX) };
    for id in 1..4 {
        let range = 10 * id..10 * id + 10;
        builder.batch(0, &Batch { events: vec![last], ..Batch::default() }, &mut ready);
        builder.journey(&Journey { range, ..journey(id) }, &context, &mut ready);
    }
    builder.finish(&mut ready);
    assert!(!ready.is_empty());
}

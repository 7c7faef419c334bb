//! Requests that no byte came back for, and questions that were asked again.

use super::builder::ExchangeBuilder;
use super::connection::{Connection, End};
use super::exchange::Exchange;
use super::grade::{BrokenBy, Grade};
use super::group::{Closing, UNANSWERED_NS};
use super::losses::Losses;
use super::piece::Part;
use super::tests::{CLIENT, SERVER, closed_by, journey};
use crate::batch::{Batch, Loss, LossCause};
use crate::flow::{Flow, FlowId, Proto};
use crate::hop::Hop;
use crate::journey::{Journey, Verdict};
use crate::node::NodeInfo;
use crate::stored_context::StoredContext;
use std::net::SocketAddr;
use std::ops::Range;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

/// Bytes of the client that reached the server's socket. Without a read they wait there.
fn ask(id: u64, range: Range<u64>, ns: u64, read_ns: Option<u64>) -> Journey {
    let mut own = Journey { range, sender: Some(CLIENT), reader: Some(SERVER), ..journey(id) };
    own.rungs.set(Hop::IpOut, ns, 0, false);
    own.rungs.set(Hop::SockReady, ns + 10, 0, false);
    match read_ns {
        Some(read_ns) => own.rungs.set(Hop::AppRecv, read_ns, 0, false),
        None => own.verdict = Verdict::InFlight,
    }
    own
}

/// Bytes of the server that the client read 10 ns after their send.
fn answer(id: u64, range: Range<u64>, ns: u64) -> Journey {
    let mut own = Journey { range, sender: Some(SERVER), reader: Some(CLIENT), ..journey(id) };
    (own.tx_flow, own.rx_flow) = (FlowId(2), FlowId(1));
    own.rungs.set(Hop::IpOut, ns, 0, false);
    own.rungs.set(Hop::AppRecv, ns + 10, 0, false);
    own
}

/// The exchanges of a connection from the client to the server.
fn exchanges(journeys: &[Journey], closing: Closing, losses: &Losses) -> Vec<Exchange> {
    let proto = journeys.first().map_or(Proto::TCP, |journey| journey.proto);
    let mut connection = Connection::new(proto, 0);
    for (index, flow) in [(0, 1), (1, 2)] {
        connection.index_of(End { node: 0, flow: FlowId(flow) }, index == 0).expect("an end");
    }
    connection.opened_by(0);
    for journey in journeys {
        let sender = usize::from(journey.tx_flow == FlowId(2));
        connection.push(sender, Part::of(journey), journey);
    }
    closed_by(losses, |around| {
        connection.process(u64::MAX, around);
        connection.close_all(closing, around);
    })
}

fn last_grade(journeys: &[Journey], closing: Closing, losses: &Losses) -> (Grade, Option<BrokenBy>) {
    let all = exchanges(journeys, closing, losses);
    all.last().map(|last| (last.grade, last.broken)).expect("an exchange")
}

const UNANSWERED: (Grade, Option<BrokenBy>) = (Grade::Unanswered, None);

fn broken(why: BrokenBy) -> (Grade, Option<BrokenBy>) {
    (Grade::Broken, Some(why))
}

#[test]
fn a_request_that_a_hung_server_never_read_is_unanswered() {
    let turn = [ask(1, 0..100, 10, Some(30)), answer(2, 0..10, 40)];
    let (none, closed) = (Losses::default(), Closing::Closed);
    let hung = [turn.to_vec(), vec![ask(3, 100..200, 70, None)]].concat();
    let found = exchanges(&hung, closed, &none);
    let grades: Vec<_> = found.iter().map(|exchange| (exchange.grade, exchange.is_unread())).collect();
    assert_eq!(grades, [(Grade::Turn, false), (Grade::Unanswered, true)], "the client closed");
    let read = [turn.to_vec(), vec![ask(3, 100..200, 70, Some(90))]].concat();
    let found = exchanges(&read, closed, &none);
    assert_eq!((found[1].grade, found[1].is_unread()), (Grade::Unanswered, false), "it was read");
    let mut discarded = hung.clone();
    discarded[2].verdict = Verdict::Discarded { hop: Hop::SockReady };
    assert_eq!(last_grade(&discarded, closed, &none), UNANSWERED, "the server closed without a read");
    let unread = broken(BrokenBy::Journey("in-flight"));
    let short = Closing::End(70 + UNANSWERED_NS - 1);
    assert_eq!(last_grade(&hung, short, &none), unread, "it may be read yet");
    assert_eq!(last_grade(&hung, Closing::End(70 + UNANSWERED_NS), &none), UNANSWERED);
    assert_eq!(last_grade(&read, Closing::End(60 * S), &none), broken(BrokenBy::Unfinished), "a long answer");
}

#[test]
fn a_missing_read_is_not_the_only_reason() {
    let turn = [ask(1, 0..100, 10, Some(30)), answer(2, 0..10, 40)];
    let (none, closed) = (Losses::default(), Closing::Closed);
    let hung = [turn.to_vec(), vec![ask(3, 100..200, 70, None)]].concat();
    let mut lost = hung.clone();
    lost[2].verdict = Verdict::LostAfter { hop: Hop::SockReady };
    assert_eq!(last_grade(&lost, closed, &none), broken(BrokenBy::Journey("lost")));
    let gap = [turn.to_vec(), vec![ask(3, 150..200, 70, None)]].concat();
    assert_eq!(last_grade(&gap, closed, &none), broken(BrokenBy::UnseenBytes));
    let mut losses = Losses::default();
    losses.take(0, &[Loss { cpu: 0, from_ns: 80, to_ns: 90, count: 1, cause: LossCause::RingFull }]);
    assert_eq!(last_grade(&hung, closed, &losses), broken(BrokenBy::EventLoss));
    let unread = broken(BrokenBy::Journey("in-flight"));
    assert_eq!(last_grade(&hung, Closing::End(60 * S), &losses), unread, "an answer may have been missed");
    let partly = [ask(1, 0..100, 10, Some(30)), ask(2, 100..200, 35, None), answer(3, 0..10, 40)];
    assert_eq!(last_grade(&partly, closed, &none), unread, "it has an answer");
}

#[test]
fn a_question_that_was_read_before_the_next_was_asked_again() {
    let udp = |own: Journey| Journey { proto: Proto::UDP, range: 0..4, ..own };
    let asked = |gap_ms: u64, read_ns: u64| {
        let again_ns = (10 + gap_ms) * MS;
        let all = [
            udp(ask(1, 0..4, 10 * MS, Some(read_ns))),
            udp(ask(2, 0..4, again_ns, Some(again_ns + 20))),
            udp(answer(3, 0..4, again_ns + 30)),
        ];
        let found = exchanges(&all, Closing::Closed, &Losses::default());
        assert_eq!((found.len(), found[0].grade), (1, Grade::Turn));
        assert_eq!(found[0].total_ns(), Some(gap_ms * MS + 40));
        let request = found[0].request;
        (request.repeats, request.repeated_ns, request.sending_ns())
    };
    assert_eq!(asked(100, 10 * MS + 20), (1, 100 * MS, Some(0)));
    assert_eq!(asked(5, 10 * MS + 20), (0, 0, Some(5 * MS)), "one call after the other");
    assert_eq!(asked(100, 110 * MS + 5), (0, 0, Some(100 * MS)), "its reader was late");
}

/// A client that asks by UDP, and the exchanges so far.
struct Requester {
    port: u16,
    builder: ExchangeBuilder,
    context: StoredContext,
    ready: Vec<Exchange>,
    questions: u64,
}

impl Requester {
    fn of(port: u16) -> Self {
        let (builder, context) = (ExchangeBuilder::new(), StoredContext::default());
        Requester { port, builder, context, ready: Vec::new(), questions: 0 }
    }

    /// Sends from one of its sockets. The server reads.
    fn ask(&mut self, socket: u16, ns: u64) {
        let [own, server] = [format!("10.0.0.1:{socket}"), format!("10.0.0.2:{}", self.port)];
        let [own, server] = [own, server].map(|addr| addr.parse::<SocketAddr>().expect("an address"));
        let (tx_flow, rx_flow) = (FlowId(u64::from(socket)), FlowId(u64::from(socket) + (1 << 16)));
        let flow = |id, local, remote| Flow { id, netns: 1, proto: Proto::UDP, local, remote };
        let flows = vec![flow(tx_flow, own, server), flow(rx_flow, server, own)];
        let batch = Batch { flows, watermark_ns: ns, ..Batch::default() };
        self.context.batch(0, &batch);
        self.builder.batch(0, &batch, &mut self.ready);
        self.questions += 1;
        let question = ask(self.questions, 0..4, ns, Some(ns + 20));
        let question = Journey { proto: Proto::UDP, tx_flow, rx_flow, ..question };
        self.builder.journey(&question, &self.context, &mut self.ready);
    }

    /// Has a recording go on without an event.
    fn until(&mut self, node: u16, ns: u64) {
        self.builder.batch(node, &Batch { watermark_ns: ns, ..Batch::default() }, &mut self.ready);
    }

    fn finish(mut self) -> Vec<(Grade, Option<BrokenBy>)> {
        self.builder.finish(&mut self.ready);
        self.ready.iter().map(|exchange| (exchange.grade, exchange.broken)).collect()
    }
}

#[test]
fn datagrams_to_a_server_that_never_answers_are_unanswered() {
    let of = |port, sockets: u16, each: u64, end_ns: u64| {
        let mut requester = Requester::of(port);
        for n in 0..each * u64::from(sockets) {
            requester.ask(40_000 + (n % u64::from(sockets)) as u16, S + 100 * MS * n);
        }
        requester.until(0, end_ns);
        requester.finish()
    };
    let unfinished = broken(BrokenBy::Unfinished);
    assert_eq!(of(53, 15, 1, 5 * S), [UNANSWERED; 15], "one question from each socket");
    assert_eq!(of(53, 1, 1, 2 * S - 1), [unfinished], "the answer may come later");
    assert_eq!(of(53, 1, 15, 5 * S), [UNANSWERED], "one socket asks again and again");
    assert_eq!(of(514, 1, 15, 5 * S), [(Grade::Unidirectional, None)], "a log");
    assert_eq!(of(8_125, 1, 1, 5 * S), [unfinished], "one line of statistics, which nobody answers");
}

#[test]
fn an_answer_may_have_come_after_the_recording_of_an_end() {
    let mut requester = Requester::of(53);
    requester.until(1, S);
    requester.ask(40_000, S);
    requester.until(1, 9 * S);
    assert_eq!(requester.finish(), [broken(BrokenBy::Unfinished)]);
}

#[test]
fn a_question_of_dns_is_unanswered_after_a_long_silence() {
    let unfinished = broken(BrokenBy::Unfinished);
    for (port, expected, at_end) in [(53, 1, UNANSWERED), (5_300, 0, unfinished)] {
        let mut requester = Requester::of(port);
        requester.ask(40_000, S);
        for s in [40, 60, 80] {
            requester.until(0, s * S);
        }
        let grades: Vec<_> = requester.ready.iter().map(|exchange| exchange.grade).collect();
        assert_eq!(grades, vec![Grade::Unanswered; expected], "{port}");
        assert_eq!(requester.finish(), [at_end], "{port}");
    }
}

#[test]
fn an_answer_that_the_settings_hide_from_the_beginning_is_not_absent() {
    let info = |setting: &str| NodeInfo { settings: vec![setting.to_owned()], ..NodeInfo::default() };
    let udp = |setting| {
        let mut requester = Requester::of(53);
        requester.context = StoredContext::new(vec![info(setting)]);
        requester.ask(40_000, S);
        requester.until(0, 5 * S);
        requester.finish()
    };
    let tcp = |setting| {
        let mut losses = Losses::default();
        losses.begin(0, &info(setting));
        last_grade(&[ask(1, 0..100, 10, Some(30))], Closing::Closed, &losses)
    };
    for setting in ["filter tx", "sample 1/10 app.recv"] {
        assert_eq!(udp(setting), [broken(BrokenBy::Unfinished)], "{setting}");
        assert_eq!(tcp(setting), broken(BrokenBy::UnseenBytes), "{setting}");
    }
    for setting in ["filter port = 53", "sample flows 1/4"] {
        assert_eq!(udp(setting), [UNANSWERED], "{setting}");
        assert_eq!(tcp(setting), UNANSWERED, "{setting}");
    }
}

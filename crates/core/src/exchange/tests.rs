//! Two programs that speak over a connection, and the exchanges that their calls make.

use super::connection::{Connection, End, Surroundings};
use super::exchange::{Exchange, ExchangePart};
use super::filter::ExchangeFilter;
use super::grade::{BrokenBy, Grade, PAUSE_NS};
use super::group::Closing;
use super::losses::Losses;
use super::piece::{Moment, Part};
use super::threads::Threads;
use super::tls::Heads;
use super::{RequesterBy, View};
use crate::batch::{Loss, LossCause};
use crate::deciders::SocketFilter;
use crate::flow::{FlowId, Proto};
use crate::journey::{Across, IpIds, Journey, Presence, Rungs, ThreadRef, Verdict};
use crate::stored_context::StoredContext;
use proptest::prelude::*;
use std::net::{Ipv4Addr, SocketAddr};

pub(super) const CLIENT: ThreadRef = ThreadRef { tgid: 100, tid: 101 };
pub(super) const SERVER: ThreadRef = ThreadRef { tgid: 200, tid: 201 };

/// The instant of a read that a filter or a hop that was off has left out.
const UNSEEN: u64 = u64::MAX;

/// One direction of a byte stream, with the calls at both ends: position behind the call, instant.
#[derive(Clone, Debug, Default)]
struct Stream {
    sent: Vec<(u64, u64)>,
    read: Vec<(u64, u64)>,
}

impl Stream {
    fn end(calls: &[(u64, u64)]) -> u64 {
        calls.last().map_or(0, |(end, _)| *end)
    }

    fn send(&mut self, bytes: u64, ns: u64) {
        self.sent.push((Self::end(&self.sent) + bytes, ns));
    }

    fn read(&mut self, bytes: u64, ns: u64) {
        self.read.push((Self::end(&self.read) + bytes, ns));
    }

    fn unread(&self) -> u64 {
        Self::end(&self.sent) - Self::end(&self.read)
    }

    /// The bytes between any two borders of calls.
    fn pieces(&self, from: ThreadRef, to: ThreadRef, first_journey: u64, base: u64) -> Vec<(Part, Journey)> {
        let mut borders: Vec<u64> = self.sent.iter().chain(&self.read).map(|(end, _)| *end).collect();
        borders.sort_unstable();
        borders.dedup();
        let at = |calls: &[(u64, u64)], end: u64| calls.iter().find(|(to, _)| *to >= end).map(|(_, ns)| *ns);
        let mut start = 0;
        let mut pieces = Vec::new();
        for (number, end) in borders.into_iter().enumerate() {
            let moment = |calls, who| at(calls, end).map(|ns| Moment { ns, who: Some(who) });
            let read = moment(&self.read, to).filter(|read| read.ns != UNSEEN);
            let part = Part {
                start: base + start,
                end: base + end,
                sent: moment(&self.sent, from),
                read,
                broken: read.is_none().then_some(BrokenBy::Journey("in-flight")),
            };
            pieces.push((part, journey(first_journey + number as u64)));
            start = end;
        }
        pieces
    }
}

/// The exchanges that are closed while a connection is processed.
pub(super) fn closed_by(losses: &Losses, process: impl FnOnce(&mut Surroundings<'_>)) -> Vec<Exchange> {
    let (mut next_id, mut closed) = (0, Vec::new());
    process(&mut Surroundings {
        next_id: &mut next_id,
        closed: &mut closed,
        heads: &Heads::default(),
        threads: &Threads::default(),
        losses,
        newest_ns: &[],
    });
    closed
}

/// A journey without a hop.
pub(super) fn journey(id: u64) -> Journey {
    Journey {
        id,
        proto: Proto::TCP,
        tx_node: 0,
        rx_node: 0,
        across: Across::OneClock,
        tx_flow: FlowId(1),
        rx_flow: FlowId(2),
        range: 0..0,
        rungs: Rungs::default(),
        sender: None,
        reader: None,
        copies: Vec::new(),
        copies_left_out: 0,
        copy: 0,
        ip_id: 0,
        packet_ids: IpIds::default(),
        presence: Presence::Unsaid,
        verdict: Verdict::Complete,
        drop_flow: FlowId::NONE,
        drop_ifindex: 0,
        drop_rules_changed: false,
        drop_filter: SocketFilter::default(),
        ambiguous: false,
        head_of_line: None,
        receive_window_ns: 0,
        precedes_capture: false,
        forwarders: Vec::new(),
        tunnels: Vec::new(),
    }
}

/// Both directions.
#[derive(Clone, Debug, Default)]
struct Talk {
    asks: Stream,
    answers: Stream,
    ns: u64,
}

impl Talk {
    fn after(&mut self, ns: u64) -> &mut Self {
        self.ns += ns;
        self
    }

    fn ask(&mut self, bytes: u64) -> &mut Self {
        self.ns += 10;
        self.asks.send(bytes, self.ns);
        self
    }

    fn take(&mut self, bytes: u64) -> &mut Self {
        self.ns += 10;
        self.asks.read(bytes, self.ns);
        self
    }

    fn answer(&mut self, bytes: u64) -> &mut Self {
        self.ns += 10;
        self.answers.send(bytes, self.ns);
        self
    }

    fn get(&mut self, bytes: u64) -> &mut Self {
        self.ns += 10;
        self.answers.read(bytes, self.ns);
        self
    }

    fn exchanges(&self, view: View, order: u64) -> Vec<Exchange> {
        self.closed_by(Proto::TCP, view, order, Closing::Closed, &Losses::default())
    }

    fn closed_by(
        &self,
        proto: Proto,
        view: View,
        order: u64,
        closing: Closing,
        losses: &Losses,
    ) -> Vec<Exchange> {
        let mut connection = Connection::new(proto, 0);
        let ends = [End { node: 0, flow: FlowId(1) }, End { node: 0, flow: FlowId(2) }];
        if view != View::Responder {
            connection.index_of(ends[0], true).expect("an end");
        }
        if view != View::Requester {
            connection.index_of(ends[1], false).expect("an end");
        }
        let addr = |port| Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        connection.addrs = [addr(40_000), addr(80)];
        connection.opened_by(0);
        let asks = self.asks.pieces(CLIENT, SERVER, 1, 1 << 40);
        let answers = self.answers.pieces(SERVER, CLIENT, 1_000_000, 7);
        let mut all: Vec<(usize, (Part, Journey))> = asks
            .into_iter()
            .map(|piece| (0, piece))
            .chain(answers.into_iter().map(|piece| (1, piece)))
            .collect();
        // Any order of arrival.
        all.sort_by_key(|(sender, (_, journey))| {
            (journey.id ^ (*sender as u64) << 7).wrapping_mul(order | 1).rotate_left(17)
        });
        for (sender, (mut piece, journey)) in all {
            let (requester_sees, responder_sees) = (view != View::Responder, view != View::Requester);
            let (sends, reads) =
                if sender == 0 { (requester_sees, responder_sees) } else { (responder_sees, requester_sees) };
            piece.sent = piece.sent.filter(|_| sends);
            piece.read = piece.read.filter(|_| reads);
            if !reads {
                piece.broken = None;
            }
            connection.push(sender, piece, &journey);
        }
        closed_by(losses, |around| {
            connection.process(u64::MAX, around);
            connection.close_all(closing, around);
        })
    }

    fn grades(&self) -> Vec<Grade> {
        self.exchanges(View::Both, 1).iter().map(|exchange| exchange.grade).collect()
    }
}

#[test]
fn a_request_in_two_sends_and_a_response_in_two_reads_are_one_exchange() {
    let mut talk = Talk::default();
    talk.ask(100).ask(20).take(120).after(500).answer(3_000).get(1_000).get(2_000);
    talk.after(900).ask(50).take(50).answer(10).get(10);
    let exchanges = talk.exchanges(View::Both, 1);
    assert_eq!(exchanges.len(), 2);
    let first = &exchanges[0];
    assert_eq!(
        (first.grade, first.view, first.requester_by),
        (Grade::Turn, View::Both, RequesterBy::Handshake)
    );
    assert_eq!((first.request.bytes, first.response.bytes), (120, 3_000));
    assert_eq!(first.part_ns(ExchangePart::RequestTransfer), Some(20));
    assert_eq!(first.answer_ns(), Some(510));
    assert_eq!(first.part_ns(ExchangePart::ResponseTransfer), Some(20));
    assert_eq!(first.total_ns(), Some(550));
    assert_eq!(exchanges[1].pause_ns, Some(910));
    assert_eq!((first.requester.sender, first.responder.reader), (Some(CLIENT), Some(SERVER)));
    assert_eq!(first.largest(), Some((ExchangePart::UntilAnswered, 510)));
}

#[test]
fn one_end_knows_only_its_part() {
    let mut talk = Talk::default();
    for _ in 0..3 {
        talk.after(100).ask(100).take(100).after(500).answer(300).get(300);
    }
    let client = talk.exchanges(View::Requester, 1);
    assert_eq!(client.len(), 3);
    for exchange in &client {
        assert_eq!((exchange.grade, exchange.view), (Grade::Turn, View::Requester));
        assert_eq!((exchange.total_ns(), exchange.answer_ns(), exchange.request.ns()), (Some(530), None, None));
    }
    let server = talk.exchanges(View::Responder, 1);
    assert_eq!(server.len(), 3);
    for exchange in &server {
        assert_eq!((exchange.grade, exchange.view), (Grade::Turn, View::Responder));
        assert_eq!((exchange.total_ns(), exchange.answer_ns()), (None, Some(510)));
        // The whole is longer than the answer: that proves "longer than", and nothing else.
        let holds = |text: &str| {
            ExchangeFilter::parse(text).expect(text).matches(exchange, &StoredContext::new(Vec::new()))
        };
        assert!(holds("total > 500ns") && holds("total >= 510ns"));
        for unknown in ["total > 510ns", "total < 1s", "total <= 510ns", "total = 510ns", "total != 1s"] {
            assert!(!holds(unknown), "{unknown}");
        }
    }
}

#[test]
fn a_request_sent_into_a_response_overlaps_with_it() {
    let mut talk = Talk::default();
    talk.ask(10).take(10).answer(10).get(10); // alone
    talk.ask(10).take(10).answer(10).get(5).ask(10).get(5).take(10).answer(10).get(10);
    talk.ask(10).take(10).answer(10).get(10); // the connection has shown that it overlaps
    assert_eq!(talk.grades(), [Grade::Turn, Grade::Overlapped, Grade::Overlapped]);
    let exchanges = talk.exchanges(View::Both, 1);
    assert_eq!((exchanges[1].request.bytes, exchanges[1].response.bytes), (20, 20));
    assert_eq!((exchanges[1].total_ns(), exchanges[1].envelope_ns()), (None, Some(80)));
}

#[test]
fn an_answer_before_the_end_of_the_request_overlaps() {
    let mut talk = Talk::default();
    talk.ask(10).ask(10).take(10).answer(10).get(10).take(10).answer(10).get(10);
    assert_eq!(talk.grades(), [Grade::Overlapped]);
}

#[test]
fn a_server_that_sends_by_itself_is_no_answer() {
    let mut talk = Talk::default();
    talk.answer(50).get(50).ask(10).take(10).answer(10).get(10);
    assert_eq!(talk.grades(), [Grade::Streamed, Grade::Turn], "a greeting");
    let mut talk = Talk::default();
    talk.ask(10).take(10).answer(10).get(10);
    for _ in 0..5 {
        talk.after(3 * PAUSE_NS).answer(40).get(40);
    }
    talk.ask(10).take(10).answer(10).get(10);
    assert_eq!(talk.grades()[0], Grade::Streamed, "messages of a subscription");
}

/// While the hops of reads are off, nothing shows that a response answers anything.
#[test]
fn what_was_left_out_shows_nothing_of_a_protocol() {
    let mut talk = Talk::default();
    talk.ask(10).take(10).answer(10).get(10);
    for _ in 0..20 {
        talk.ask(10).after(3 * PAUSE_NS).answer(10).answer(10);
        talk.asks.read(10, UNSEEN);
        talk.answers.read(20, UNSEEN);
    }
    for _ in 0..3 {
        talk.ask(10).take(10).answer(10).get(10);
    }
    let exchanges = talk.closed_by(Proto::UDP, View::Both, 1, Closing::Closed, &Losses::default());
    let grades: Vec<_> = exchanges.iter().map(|exchange| exchange.grade).collect();
    let expected = [vec![Grade::Turn], vec![Grade::Broken; 20], vec![Grade::Turn; 3]].concat();
    assert_eq!(grades, expected);
}

#[test]
fn a_request_without_a_byte_in_return_is_unanswered() {
    let mut talk = Talk::default();
    talk.ask(10).take(10).answer(10).get(10).ask(10).take(10);
    assert_eq!(talk.grades(), [Grade::Turn, Grade::Unanswered]);
}

#[test]
fn bytes_in_one_direction_alone_are_no_broken_exchange() {
    let mut transfer = Talk::default();
    transfer.ask(10).take(10).ask(10).take(10).ask(10);
    let mut request = Talk::default();
    request.ask(10).take(10);
    let mut answered = Talk::default();
    answered.ask(10).take(10).answer(10).get(10).ask(10).take(10).ask(10).take(10);
    let mut losses = Losses::default();
    losses.take(0, &[Loss { cpu: 0, from_ns: 15, to_ns: 20, count: 1, cause: LossCause::RingFull }]);
    let (none, end) = (Losses::default(), Closing::End(100 * PAUSE_NS));
    let table = [
        (&transfer, end, Proto::UDP, &none, Grade::Unidirectional, "some were not read"),
        (&transfer, end, Proto::TCP, &none, Grade::Unidirectional, "a stream"),
        (&transfer, Closing::Closed, Proto::UDP, &none, Grade::Unanswered, "its socket is closed"),
        (&transfer, Closing::Closed, Proto::TCP, &none, Grade::Broken, "bytes were not read before the end"),
        (&transfer, Closing::Evicted, Proto::UDP, &none, Grade::Broken, "what followed is unknown"),
        (&transfer, end, Proto::UDP, &losses, Grade::Broken, "an answer may have been lost with its events"),
        (&request, end, Proto::UDP, &none, Grade::Broken, "a request may have its answer later"),
        (&answered, end, Proto::UDP, &none, Grade::Broken, "it had answers before"),
    ];
    for (talk, closing, proto, losses, grade, why) in table {
        let exchanges = talk.closed_by(proto, View::Both, 1, closing, losses);
        let last = exchanges.last().expect("an exchange");
        assert_eq!((last.grade, last.broken.is_some()), (grade, grade == Grade::Broken), "{why}");
    }
}

#[test]
fn bytes_that_were_not_read_break_their_exchange_only() {
    let mut talk = Talk::default();
    talk.ask(10).take(10).answer(10).get(10).ask(10).take(10).answer(10);
    assert_eq!(talk.grades(), [Grade::Turn, Grade::Broken]);
}

/// What the programs of a random talk do.
#[derive(Clone, Debug)]
struct Script {
    /// Requests that may be open at once.
    window: usize,
    /// The server sends by itself.
    pushes: bool,
    requests: Vec<(u8, u8)>,
    dice: Vec<u8>,
}

/// A request or response of the truth: the first send, the last read, and the bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Truth {
    first_sent_ns: u64,
    last_read_ns: u64,
    request: u64,
    response: u64,
}

/// Two programs that follow a script. Every call is at its own instant.
fn perform(script: &Script) -> (Talk, Vec<Truth>) {
    let mut talk = Talk::default();
    let mut truths: Vec<Truth> = Vec::new();
    let (mut asked, mut answered, mut complete) = (0, 0, 0); // requests sent, answers sent, answers read
    let (mut request_ends, mut response_ends): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
    let mut dice = script.dice.iter().cycle().copied();
    let mut rolled = 0_u8;
    // Every number comes up, whatever the dice are.
    let mut roll = move |sides: u8| {
        rolled = rolled.wrapping_add(1).wrapping_mul(5).wrapping_add(dice.next().unwrap_or(0));
        (rolled >> 3) % sides.max(1)
    };
    let mut before = 0;
    while complete < script.requests.len() {
        talk.ns += u64::from(roll(200)) + 1;
        let ns = talk.ns;
        // Nothing distinguishes a client that asks on amid its answers from one that has them all.
        let came = Stream::end(&talk.answers.read);
        if complete == asked {
            before = came;
        }
        let is_amid = came != before;
        match roll(4) {
            0 if asked < script.requests.len() && asked - complete < script.window && !is_amid => {
                let bytes = u64::from(script.requests[asked].0) + 1;
                truths.push(Truth { first_sent_ns: ns, request: bytes, ..Truth::default() });
                let first = bytes / 2;
                if first > 0 {
                    talk.asks.send(first, ns);
                    talk.ns += 3;
                }
                talk.asks.send(bytes - first, talk.ns);
                request_ends.push(Stream::end(&talk.asks.sent));
                asked += 1;
            }
            1 if talk.asks.unread() > 0 => {
                let bytes = 1 + u64::from(roll(255)) % talk.asks.unread();
                talk.asks.read(bytes, ns);
            }
            2 => {
                let is_read =
                    request_ends.get(answered).is_some_and(|end| *end <= Stream::end(&talk.asks.read));
                if is_read {
                    let bytes = u64::from(script.requests[answered].1) + 1;
                    talk.answers.send(bytes, ns);
                    response_ends.push(Stream::end(&talk.answers.sent));
                    truths[answered].response = bytes;
                    answered += 1;
                } else if script.pushes && roll(8) == 0 {
                    talk.answers.send(1, ns);
                    response_ends.iter_mut().skip(answered).for_each(|end| *end += 1);
                }
            }
            3 if talk.answers.unread() > 0 => {
                let bytes = 1 + u64::from(roll(255)) % talk.answers.unread();
                talk.answers.read(bytes, ns);
                while response_ends.get(complete).is_some_and(|end| *end <= Stream::end(&talk.answers.read)) {
                    truths[complete].last_read_ns = ns;
                    complete += 1;
                }
            }
            _ => {}
        }
    }
    talk.ns += 1;
    if talk.asks.unread() > 0 {
        talk.asks.read(talk.asks.unread(), talk.ns);
    }
    if talk.answers.unread() > 0 {
        talk.answers.read(talk.answers.unread(), talk.ns + 1);
    }
    (talk, truths)
}

fn scripts() -> impl Strategy<Value = Script> {
    let requests = prop::collection::vec((any::<u8>(), any::<u8>()), 1..20);
    let dice = prop::collection::vec(any::<u8>(), 97..160);
    (1_usize..5, any::<bool>(), requests, dice).prop_map(|(window, pushes, requests, dice)| Script {
        window,
        pushes,
        requests,
        dice,
    })
}

proptest! {
    #[test]
    fn strict_programs_have_one_turn_a_request(script in scripts(), order in any::<u64>()) {
        let script = Script { window: 1, pushes: false, ..script };
        let (talk, truths) = perform(&script);
        for view in [View::Both, View::Requester, View::Responder] {
            let exchanges = talk.exchanges(view, order);
            prop_assert_eq!(exchanges.len(), truths.len());
            for (exchange, truth) in exchanges.iter().zip(&truths) {
                prop_assert_eq!(exchange.grade, Grade::Turn);
                prop_assert_eq!((exchange.request.bytes, exchange.response.bytes), (truth.request, truth.response));
                if view != View::Responder {
                    prop_assert_eq!(exchange.total_ns(), Some(truth.last_read_ns - truth.first_sent_ns));
                }
                if view == View::Both {
                    let sum: u64 = exchange.parts().map(|(_, ns)| ns).sum();
                    prop_assert_eq!((exchange.parts().count(), Some(sum)), (3, exchange.total_ns()));
                }
            }
        }
    }

    #[test]
    fn a_turn_is_whole_requests_and_their_responses(script in scripts(), order in any::<u64>()) {
        let script = Script { pushes: false, ..script };
        let (talk, truths) = perform(&script);
        let exchanges = talk.exchanges(View::Both, order);
        let asked: u64 = exchanges.iter().map(|exchange| exchange.request.bytes).sum();
        let answered: u64 = exchanges.iter().map(|exchange| exchange.response.bytes).sum();
        prop_assert_eq!(asked, truths.iter().map(|truth| truth.request).sum::<u64>());
        prop_assert_eq!(answered, truths.iter().map(|truth| truth.response).sum::<u64>());
        for exchange in exchanges.iter().filter(|exchange| exchange.grade == Grade::Turn) {
            let first = truths.iter().position(|t| Some(t.first_sent_ns) == exchange.request.first_sent_ns);
            let last = truths.iter().rposition(|t| Some(t.last_read_ns) == exchange.response.last_read_ns);
            let (first, last) = (first.expect("a request begins"), last.expect("a response ends"));
            let within = &truths[first..=last];
            prop_assert_eq!(exchange.request.bytes, within.iter().map(|t| t.request).sum::<u64>());
            prop_assert_eq!(exchange.response.bytes, within.iter().map(|t| t.response).sum::<u64>());
            let later = truths.get(last + 1);
            prop_assert!(later.is_none_or(|t| t.first_sent_ns > truths[last].last_read_ns));
        }
    }

    #[test]
    fn whatever_a_server_sends_by_itself_the_bytes_are_counted_once(script in scripts(), order in any::<u64>()) {
        let (talk, _) = perform(&script);
        for view in [View::Both, View::Requester, View::Responder] {
            let exchanges = talk.exchanges(view, order);
            let asked: u64 = exchanges.iter().map(|exchange| exchange.request.bytes).sum();
            let answered: u64 = exchanges.iter().map(|exchange| exchange.response.bytes).sum();
            prop_assert_eq!(asked, Stream::end(&talk.asks.sent));
            prop_assert_eq!(answered, Stream::end(&talk.answers.sent));
            prop_assert!(exchanges.iter().all(|exchange| exchange.grade != Grade::Broken));
            for exchange in exchanges.iter().filter(|exchange| exchange.grade == Grade::Turn) {
                let sum: u64 = exchange.parts().map(|(_, ns)| ns).sum();
                prop_assert!(view != View::Both || Some(sum) == exchange.total_ns());
            }
        }
    }
}

#[test]
fn the_first_datagram_is_the_request_whatever_arrives_first() {
    for order in [[0, 1], [1, 0]] {
        let mut connection = Connection::new(Proto::UDP, 0);
        for (index, flow) in [(0, 1), (1, 2)] {
            let end = End { node: index, flow: FlowId(flow) };
            connection.index_of(end, index == 0).expect("an end");
        }
        let at = |ns, who| Some(Moment { ns, who: Some(who) });
        for sender in order {
            let (sent, read) =
                if sender == 1 { (at(10, SERVER), at(20, CLIENT)) } else { (at(30, CLIENT), at(40, SERVER)) };
            let journey = Journey { proto: Proto::UDP, ..journey(1 + sender as u64) };
            connection.push(sender, Part { start: 0, end: 5, sent, read, broken: None }, &journey);
        }
        let closed = closed_by(&Losses::default(), |around| {
            connection.process(u64::MAX, around);
            connection.close_all(Closing::Closed, around);
        });
        assert_eq!(closed.len(), 1);
        assert_eq!((closed[0].grade, closed[0].total_ns()), (Grade::Turn, Some(30)));
        assert_eq!(closed[0].requester_by, RequesterBy::FirstSender);
    }
}

#[test]
fn bytes_that_come_again_late_change_no_order() {
    let mut connection = Connection::new(Proto::TCP, 0);
    for (index, flow) in [(0, 1), (1, 2)] {
        connection.index_of(End { node: 0, flow: FlowId(flow) }, index == 0).expect("an end");
    }
    connection.opened_by(0);
    let at = |ns, who| Some(Moment { ns, who: Some(who) });
    let ask = |start, ns| Part {
        start,
        end: start + 100,
        sent: at(ns, CLIENT),
        read: at(ns + 10, SERVER),
        broken: None,
    };
    let answer = |start, ns| Part {
        start,
        end: start + 10,
        sent: at(ns, SERVER),
        read: at(ns + 10, CLIENT),
        broken: None,
    };
    let closed = closed_by(&Losses::default(), |around| {
        connection.push(0, ask(0, 10), &journey(1));
        connection.push(1, answer(0, 30), &journey(2));
        connection.push(0, ask(100, 60), &journey(3));
        connection.process(65, around);
        // The reader's half of the first request, behind the second one, while the second answer and the third request
        // wait.
        connection.push(0, Part { sent: None, ..ask(0, 10) }, &journey(4));
        connection.push(1, answer(10, 80), &journey(5));
        connection.push(0, ask(200, 110), &journey(6));
        connection.push(1, answer(20, 130), &journey(7));
        connection.process(u64::MAX, around);
        connection.close_all(Closing::Closed, around);
    });
    let grades: Vec<_> = closed.iter().map(|exchange| exchange.grade).collect();
    assert_eq!(grades, [Grade::Turn; 3], "{closed:#?}");
}

#[test]
fn an_upload_without_an_answer_takes_no_more_memory_with_its_length() {
    let mut talk = Talk::default();
    for _ in 0..10_000 {
        talk.ask(10).take(10);
    }
    talk.answer(5).get(5);
    let exchanges = talk.exchanges(View::Both, 1);
    assert_eq!(exchanges.len(), 1);
    assert_eq!((exchanges[0].grade, exchanges[0].request.bytes), (Grade::Turn, 100_000));
    let mut talk = Talk::default();
    talk.ask(10).take(10).answer(5);
    for _ in 0..10_000 {
        talk.ask(10).take(10);
    }
    talk.get(5);
    assert_eq!(talk.grades(), [Grade::Overlapped], "it answered after the first ten bytes");
}

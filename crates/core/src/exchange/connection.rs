//! One connection: cuts its two streams into exchanges.
//!
//! The pieces of both directions are processed in the order of one end's calls: the requester's where it is captured, else
//! the responder's. A send of the requester after a read begins a new request. Its previous exchange ends there if the
//! responder had read that whole request, and nothing behind it, before each byte of its response; the next byte of
//! a response decides.

use super::arrivals::Arrivals;
use super::end::{ANSWERED_PORTS, ExchangeEnd, RequesterBy, View, asks_by_port};
use super::exchange::Exchange;
use super::grade::{BrokenBy, Grade};
use super::group::{Closing, Group, UNANSWERED_NS};
use super::losses::Losses;
use super::openings::Opening;
use super::piece::{Part, Piece};
use super::threads::{ThreadTime, Threads};
use super::tls::{self, Heads};
use crate::flow::{Endpoint, FlowId, Proto};
use crate::hop::HopSet;
use crate::journey::{Journey, ThreadRef};
use std::collections::VecDeque;

/// Exchanges at the beginning of a connection that may overlap without a conclusion about the others: protocols
/// negotiate there.
const OPENING: u64 = 2;
/// Streamed exchanges after which a connection counts as streamed, if they are also this part of its exchanges: a
/// responder without a CPU pauses now and then.
const STREAMED: u32 = 3;
const STREAMED_PART: u64 = 4;
/// Later requests sent into a response after which a connection counts as streamed.
const INTERLEAVED: u32 = 2;

/// Maximum number of stored reads of a request. A response is sent within the last of them.
const MOST_READS: usize = 4_096;

/// A place in the builder's list of connections. The number changes when the place is used again.
pub(super) type Slot = (usize, u32);

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub node: u16,
    pub flow: FlowId,
}

impl End {
    pub const fn key(self) -> (u16, FlowId) {
        (self.node, self.flow)
    }
}

/// What a connection has shown of its protocol.
#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    /// Closed exchanges.
    exchanges: u64,
    /// Requests that the requester sent into a response.
    interleaved: u32,
    /// Exchanges whose request was not read completely before the answer.
    early: u32,
    /// Exchanges with pauses, and responses without a request.
    streamed: u32,
}

impl Shown {
    /// Takes what an exchange shows; `is_seen`: no part of it was left out.
    fn add(&mut self, group: &Group, own: Grade, is_seen: bool) {
        let exchanges = self.exchanges;
        self.exchanges += 1;
        if !is_seen {
            return;
        }
        self.interleaved = self.interleaved.saturating_add(group.merged);
        if group.early && exchanges >= OPENING {
            self.early = self.early.saturating_add(1);
        }
        let is_greeting = group.request.is_empty() && exchanges == 0;
        if own == Grade::Streamed && !is_greeting {
            self.streamed = self.streamed.saturating_add(1);
        }
    }

    /// The best grade that an exchange of the connection can have.
    const fn best(&self) -> Grade {
        let streams = self.streamed >= STREAMED && self.streamed as u64 * STREAMED_PART >= self.exchanges;
        if self.interleaved >= INTERLEAVED || streams {
            Grade::Streamed
        } else if self.interleaved > 0 || self.early > 0 {
            Grade::Overlapped
        } else {
            Grade::Turn
        }
    }
}

/// A connection, or the datagrams between two sockets.
#[derive(Debug)]
pub(super) struct Connection {
    pub proto: Proto,
    /// By index; which one asks is `requester`.
    pub ends: [Option<End>; 2],
    pub addrs: [Option<Endpoint>; 2],
    requester: usize,
    requester_by: RequesterBy,
    /// By the index of the sending end.
    arrivals: [Arrivals; 2],
    /// Requests that the responder has read, but before no byte of a response so far: position behind them, instant.
    responder_reads: VecDeque<(u64, u64)>,
    /// Position up to which the responder had read before the last byte of a response.
    responder_read: u64,
    /// Position behind the last request byte.
    asked: Option<u64>,
    pub group: Option<Group>,
    /// A request sent after a part of the response at least. Whether that part was all is open.
    pub pending: Option<Group>,
    shown: Shown,
    /// Instant of the last byte of the exchange that was closed last.
    pub previous_end_ns: Option<u64>,
    /// Instant of the newest processed piece, at the observed end.
    processed_ns: u64,
    is_midway: bool,
    /// Instants of the first and of the last piece.
    pub first_ns: u64,
    pub last_ns: u64,
    /// True while the connection is in the queue of those with new pieces.
    pub queued: bool,
    /// By index: which of the end's connections it is, by the instant of the SYN.
    pub openings_ns: [u64; 2],
    /// Hops of the capture, for blame.
    pub served: HopSet,
}

/// What the processing of pieces needs besides the connection.
pub(super) struct Surroundings<'a> {
    /// Number of the next exchange.
    pub next_id: &'a mut u64,
    /// Closed exchanges.
    pub closed: &'a mut Vec<Exchange>,
    pub heads: &'a Heads,
    pub threads: &'a Threads,
    pub losses: &'a Losses,
    /// The instant up to which each recording is observed.
    pub newest_ns: &'a [u64],
}

impl Surroundings<'_> {
    pub fn new_group(&mut self, at: u64) -> Group {
        *self.next_id += 1;
        Group::new(*self.next_id, at)
    }
}

impl Connection {
    pub fn new(proto: Proto, first_ns: u64) -> Self {
        let is_stream = proto == Proto::TCP;
        Connection {
            proto,
            ends: [None; 2],
            addrs: [None; 2],
            requester: 0,
            requester_by: RequesterBy::Unknown,
            arrivals: [Arrivals::new(is_stream), Arrivals::new(is_stream)],
            responder_reads: VecDeque::new(),
            responder_read: 0,
            asked: None,
            group: None,
            pending: None,
            shown: Shown::default(),
            previous_end_ns: None,
            processed_ns: 0,
            is_midway: is_stream,
            first_ns,
            last_ns: first_ns,
            queued: false,
            openings_ns: [0; 2],
            served: HopSet::EMPTY,
        }
    }

    /// The index of an end, which is added if there is room; `None` if the connection has two other ends.
    pub fn index_of(&mut self, end: End, is_first: bool) -> Option<usize> {
        if let Some(index) = self.ends.iter().position(|own| *own == Some(end)) {
            return Some(index);
        }
        let index = usize::from(!is_first);
        let index = if self.ends[index].is_none() { index } else { 1 - index };
        self.ends[index].is_none().then(|| {
            self.ends[index] = Some(end);
            index
        })
    }

    /// Sets the end that opened the connection.
    pub fn opened_by(&mut self, requester: usize) {
        (self.requester, self.requester_by, self.is_midway) = (requester, RequesterBy::Handshake, false);
    }

    /// Notes which of an end's connections it is, and where its streams begin.
    pub fn begin(&mut self, index: usize, opening: &Opening) {
        self.openings_ns[index] = opening.ns;
        if self.proto == Proto::TCP {
            let [sent, received] = opening.first;
            self.arrivals[index].begin(sent, true);
            self.arrivals[1 - index].begin(received, false);
        }
    }

    /// Chooses the requester of a connection whose beginning was not captured. The journeys of both directions that
    /// belong to its first bytes have arrived.
    fn assume_requester(&mut self) {
        if self.requester_by != RequesterBy::Unknown {
            return;
        }
        let [first_ns, second_ns] =
            self.arrivals.each_mut().map(|arrivals| arrivals.head_ns(true).unwrap_or(u64::MAX));
        let first_sender = usize::from(second_ns < first_ns);
        let by_ports = match self.addrs {
            [Some(first), Some(second)] => {
                asks_by_port(first.port(), second.port()).map(|first| usize::from(!first))
            }
            _ => None,
        };
        // The first datagram of the capture may be an answer.
        if self.proto != Proto::TCP && by_ports.is_none_or(|requester| requester == first_sender) {
            (self.requester, self.requester_by) = (first_sender, RequesterBy::FirstSender);
        } else if let Some(requester) = by_ports {
            (self.requester, self.requester_by) = (requester, RequesterBy::Ports);
        }
    }

    /// Adds a journey of an end. Returns false if it needs no place of its own.
    pub fn push(&mut self, sender: usize, part: Part, journey: &Journey) -> bool {
        self.last_ns = self.last_ns.max(part.ns(true)).max(part.ns(false));
        self.arrivals[sender].push(part, journey)
    }

    /// Position behind the last processed byte of an end; `None` before the first.
    pub fn next(&self, sender: usize) -> Option<u64> {
        self.arrivals.get(sender)?.next()
    }

    pub fn waiting(&self) -> usize {
        self.arrivals[0].len() + self.arrivals[1].len()
    }

    pub fn has_waiting(&self) -> bool {
        !self.arrivals.iter().all(Arrivals::is_empty)
    }

    /// The best grade that an exchange of the connection can have, by what it has shown.
    pub fn best(&self) -> Grade {
        self.shown.best()
    }

    /// Which of the two waiting times for journeys it has: 0 for both ends in one recording, else 1.
    pub fn hold(&self) -> usize {
        let [first, second] = self.ends.map(|end| end.map(|end| end.node));
        usize::from(first.is_none() || first != second)
    }

    /// The index of the end that asks.
    pub const fn requester(&self) -> usize {
        self.requester
    }

    /// True if the instants of the requester's calls order the pieces, else those of the responder's.
    pub fn requester_observes(&self) -> bool {
        self.view() != View::Responder
    }

    /// Instant of the newest processed piece, at the observed end; 0 before the first.
    pub const fn processed_ns(&self) -> u64 {
        self.processed_ns
    }

    pub fn view(&self) -> View {
        match (self.ends[self.requester], self.ends[1 - self.requester]) {
            (Some(_), None) => View::Requester,
            (None, Some(_)) => View::Responder,
            _ => View::Both,
        }
    }

    /// The requester's and the responder's end.
    pub fn requester_end(&self) -> Option<End> {
        self.ends[self.requester]
    }

    pub fn responder_end(&self) -> Option<End> {
        self.ends[1 - self.requester]
    }

    /// Processes pieces up to an instant of the observed end.
    pub fn process(&mut self, until_ns: u64, around: &mut Surroundings<'_>) {
        self.assume_requester();
        let view = self.view();
        let requester_observes = self.requester_observes();
        loop {
            let asks_ns = self.arrivals[self.requester].head_ns(requester_observes);
            let answers_ns = self.arrivals[1 - self.requester].head_ns(!requester_observes);
            let asks = match (asks_ns, answers_ns) {
                (None, None) => return,
                (_, None) => true,
                (None, _) => false,
                // At equal times a read was before a send.
                (Some(asks_ns), Some(answers_ns)) if requester_observes => asks_ns < answers_ns,
                (Some(asks_ns), Some(answers_ns)) => asks_ns <= answers_ns,
            };
            let ns = if asks { asks_ns } else { answers_ns };
            if ns.is_none_or(|ns| ns > until_ns) {
                return;
            }
            self.processed_ns = self.processed_ns.max(ns.unwrap_or(0));
            let sender = if asks { self.requester } else { 1 - self.requester };
            let Some((mut piece, is_gap)) = self.arrivals[sender].pop() else { return };
            if is_gap {
                piece.break_by(BrokenBy::UnseenBytes);
                self.note_gap(asks);
            }
            let seen = |end: Option<End>, moment: bool| end.is_none() || moment;
            // The reader's end has bytes that wait in its socket.
            let is_received = piece.part.read.is_some() || piece.is_unread();
            let is_sent = piece.part.sent.is_some();
            if !seen(self.ends[sender], is_sent) || !seen(self.ends[1 - sender], is_received) {
                piece.break_by(BrokenBy::UnseenEnd);
            }
            if asks {
                self.request(piece, view, around);
            } else {
                self.response(piece, view, around);
            }
        }
    }

    /// Bytes before the next piece were not seen. They may be the first ones of its exchange, or the last ones of
    /// the exchange before it.
    fn note_gap(&mut self, asks: bool) {
        if let Some(group) = self.group.as_mut().filter(|_| !asks || self.pending.is_none()) {
            group.break_by(Some(BrokenBy::UnseenBytes));
        }
    }

    /// The requester sent bytes; observed at the responder, it read them.
    fn request(&mut self, piece: Box<Piece>, view: View, around: &mut Surroundings<'_>) {
        let is_stream = self.proto == Proto::TCP;
        let start = if is_stream { piece.part.start } else { self.asked.unwrap_or(0) };
        let end = if is_stream { piece.part.end } else { start + 1 };
        if self.asked.is_none() {
            self.responder_read = start;
        }
        self.asked = Some(end);
        // A lost datagram is not waited for. What follows a lost piece of a stream shows when that was read.
        let read_ns =
            piece.part.read.map(|read| read.ns).or(piece.part.sent.map(|sent| sent.ns).filter(|_| !is_stream));
        if let Some(read_ns) = read_ns {
            // Of too many, the last ones become one: nothing counts as read before it was.
            if self.responder_reads.len() >= MOST_READS {
                self.responder_reads.pop_back();
            }
            self.responder_reads.push_back((end, read_ns));
        }
        let answered = self.group.as_ref().is_some_and(|group| !group.response.is_empty());
        if answered && view == View::Responder {
            self.close(Closing::Next(piece.part.ns(true)), around);
        }
        let head = match self.ends[self.requester] {
            Some(requester) => around.heads.at(requester, true, start),
            None => self.responder_end().and_then(|responder| around.heads.at(responder, false, start)),
        };
        let open = if answered && view != View::Responder { &mut self.pending } else { &mut self.group };
        let group = open.get_or_insert_with(|| {
            let mut group = around.new_group(start);
            group.head = head;
            group
        });
        group.add_request(piece, end);
    }

    /// The requester read bytes; observed at the responder, it sent them.
    fn response(&mut self, piece: Box<Piece>, view: View, around: &mut Surroundings<'_>) {
        let mut read = None;
        if let Some(sent) = piece.part.sent.filter(|_| view == View::Both) {
            while self.responder_reads.front().is_some_and(|(_, ns)| *ns <= sent.ns) {
                let passed = self.responder_reads.pop_front();
                self.responder_read = passed.map_or(self.responder_read, |(end, _)| end);
            }
            read = Some(self.responder_read);
        } else {
            self.responder_reads.clear();
        }
        if let Some(pending) = self.pending.take() {
            // Requests that were still unanswered are answered now, and this response may be theirs.
            let was_answered = self.group.as_ref().is_none_or(|group| !group.is_owed);
            if read.is_none_or(|read| was_answered && read > pending.request_start) {
                self.close(pending.ends_previous(), around);
                self.group = Some(pending);
            } else if let Some(group) = &mut self.group {
                group.merge(pending);
            }
        }
        let (asked, responder) = (self.asked.unwrap_or(0), self.responder_end());
        let group = self.group.get_or_insert_with(|| around.new_group(asked));
        match read {
            Some(read) if read > group.request_end => group.break_by(Some(BrokenBy::Order)),
            Some(read) if read < group.request_end => group.early = true,
            _ => {}
        }
        group.is_owed = read.is_some_and(|read| read < group.request_end);
        if group.response.is_empty() {
            // At once: later its thread's changes may have been forgotten.
            group.request.note_runnable(responder, around.threads);
            group.work = work(group, &piece, responder, around.threads);
        }
        group.add_response(piece);
    }

    /// Closes the exchanges that are over although no request follows.
    pub fn close_idle(&mut self, around: &mut Surroundings<'_>) {
        let is_over = |group: &Group| !group.response.is_empty() || self.must_answer();
        if self.pending.as_ref().or(self.group.as_ref()).is_some_and(is_over) {
            self.close_all(Closing::Idle, around);
        }
    }

    /// Closes the open exchanges: the last one of the connection, with a request after it if there is one.
    pub fn close_all(&mut self, closing: Closing, around: &mut Surroundings<'_>) {
        let pending = self.pending.take();
        // The request after it shows that its response was all, unless that came too late to be seen.
        self.close(pending.as_ref().map_or(closing, Group::ends_previous), around);
        self.group = pending;
        self.close(closing, around);
    }

    pub fn close(&mut self, closing: Closing, around: &mut Surroundings<'_>) {
        let Some(mut group) = self.group.take() else { return };
        group.response.note_runnable(self.requester_end(), around.threads);
        let view = self.view();
        let mut own = group.own_grade(view);
        if view != View::Responder && group.was_crossed(closing) {
            own = own.max(Grade::Overlapped);
        }
        let is_first = self.shown.exchanges == 0;
        let before = self.shown.exchanges;
        let is_silent = self.is_silent(&group, closing, around);
        let mut broken = group.broken_at(closing, self.proto == Proto::TCP).filter(|_| !is_silent);
        if is_first && self.is_midway {
            broken = broken.or(Some(BrokenBy::Midway));
        }
        if let Some((from_ns, to_ns)) = group.moved_ns(closing, self.since_ns()) {
            broken = broken.or_else(|| self.missed_by(around.losses, from_ns, to_ns));
        }
        if group.response.is_empty() && self.may_hide_answers(around.losses) {
            broken = broken.or(Some(BrokenBy::UnseenBytes));
        }
        // What was left out shows nothing: a response seems to come by itself.
        let is_seen = broken.is_none_or(|because| !because.is_of_unseen());
        self.shown.add(&group, own, is_seen);
        if self.requester_by == RequesterBy::Unknown {
            broken = broken.or(Some(BrokenBy::UnknownRequester));
        }
        let one_sided = self.one_sided_grade(&group, closing, around.losses).filter(|_| is_first && !is_silent);
        broken = broken.filter(|_| one_sided.is_none());
        let responder_port = self.addrs[1 - self.requester].map(|addr| addr.port());
        let grade = match own.max(self.shown.best()) {
            _ if broken.is_some() => Grade::Broken,
            _ if own == Grade::Unanswered => one_sided.unwrap_or(Grade::Unanswered),
            Grade::Turn if tls::is_handshake(group.head, self.proto, responder_port, before) => {
                Grade::Handshake
            }
            grade => grade,
        };
        let exchange = Exchange {
            id: group.id,
            proto: self.proto,
            grade,
            broken,
            view,
            requester_by: self.requester_by,
            requester: self.end(self.requester, group.request.sender, group.response.reader),
            responder: self.end(1 - self.requester, group.response.sender, group.request.reader),
            request: group.request.finish(self.served),
            response: group.response.finish(self.served),
            pause_ns: None,
            longest_idle_ns: group.longest_idle_ns,
            work: seen_work(&group, self.responder_end(), around.threads),
            during: Vec::new(),
        };
        let pause_ns =
            self.previous_end_ns.zip(exchange.start_ns()).map(|(end, start)| start.saturating_sub(end));
        self.previous_end_ns = exchange.end_ns();
        around.closed.push(Exchange { pause_ns, ..exchange });
    }

    /// True if no byte came back to a whole request for long enough, and none was missed, although the connection has not
    /// ended. A stream's request must wait in the responder's socket, because some answers take long; more than one piece
    /// without any answer may be one-way. A datagram may be one-way too, unless its protocol answers each.
    fn is_silent(&self, group: &Group, closing: Closing, around: &Surroundings<'_>) -> bool {
        let is_whole = group.response.is_empty() && group.broken.is_none();
        let Some(from_ns) = group.first_ns().filter(|_| is_whole) else { return false };
        let until_ns = match closing {
            Closing::Idle => u64::MAX,
            Closing::End(ns) => self.observed_ns(ns, around.newest_ns),
            _ => return false,
        };
        let (is_one, is_first) = (group.request.transfer.journeys == 1, self.shown.exchanges == 0);
        let is_due = if self.proto == Proto::UDP {
            self.must_answer()
        } else {
            group.unread.is_some() && (is_one || !is_first)
        };
        is_due
            && !self.may_hide_answers(around.losses)
            && from_ns.saturating_add(UNANSWERED_NS) <= until_ns
            && self.missed_by(around.losses, from_ns, u64::MAX).is_none()
    }

    /// The instant up to which the recordings of both ends are observed, at most the end of the capture.
    fn observed_ns(&self, end_ns: u64, newest_ns: &[u64]) -> u64 {
        let newest = |end: &End| newest_ns.get(usize::from(end.node)).copied();
        self.ends.iter().flatten().filter_map(newest).fold(end_ns, u64::min)
    }

    /// True for a protocol of UDP that answers each request, by the responder's port.
    fn must_answer(&self) -> bool {
        let port = self.addrs[1 - self.requester].map(|addr| addr.port());
        self.proto == Proto::UDP && port.is_some_and(|port| ANSWERED_PORTS.contains(&port))
    }

    /// The grade of a connection without a byte in return; `None` if one may have been missed.
    fn one_sided_grade(&self, group: &Group, closing: Closing, losses: &Losses) -> Option<Grade> {
        let from_ns = group.first_ns()?;
        let grade = group.one_sided_grade(closing, self.proto)?;
        let is_all = self.missed_by(losses, from_ns, u64::MAX).is_none() && !self.may_hide_answers(losses);
        is_all.then_some(grade)
    }

    /// True if a recording of one of its ends began with settings that may leave out all answers.
    fn may_hide_answers(&self, losses: &Losses) -> bool {
        self.ends.iter().flatten().any(|end| losses.hides_a_direction(end.node))
    }

    /// Why bytes between two instants may have no event at one of its ends; `None` if all have theirs.
    fn missed_by(&self, losses: &Losses, from_ns: u64, to_ns: u64) -> Option<BrokenBy> {
        self.ends.iter().flatten().find_map(|end| losses.cause(end.node, from_ns, to_ns))
    }

    /// From when on bytes may have been missed before an exchange without a request: the end of the one before, else
    /// the SYN, else the first byte.
    fn since_ns(&self) -> u64 {
        let opened_ns = self.openings_ns.into_iter().max().filter(|ns| *ns > 0);
        self.previous_end_ns.or(opened_ns).unwrap_or(self.first_ns)
    }

    fn end(&self, index: usize, sender: Option<ThreadRef>, reader: Option<ThreadRef>) -> ExchangeEnd {
        let End { node, flow } = self.ends[index].unwrap_or(End { node: 0, flow: FlowId::NONE });
        ExchangeEnd { node, flow, addr: self.addrs[index], reader, sender }
    }
}

/// The time of the thread that read a request and sends the first byte of its response.
fn work(group: &Group, answer: &Piece, responder: Option<End>, threads: &Threads) -> Option<ThreadTime> {
    let (reader, sent) = (group.request.reader?, answer.part.sent?);
    let read_ns = group.request.transfer.last_read_ns?;
    if sent.who? != reader {
        return None;
    }
    threads.between(responder?.node, reader.tid, read_ns, sent.ns)
}

/// The answering thread's time, unless a loss that was reported since hides a part of it.
fn seen_work(group: &Group, responder: Option<End>, threads: &Threads) -> Option<ThreadTime> {
    let (work, node) = (group.work?, responder?.node);
    let (from_ns, to_ns) = (group.request.transfer.last_read_ns?, group.response.transfer.first_sent_ns?);
    (!threads.may_lack(node, from_ns, to_ns)).then_some(work)
}

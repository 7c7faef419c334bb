//! An exchange that is still open.

use super::connection::End;
use super::end::View;
use super::exchange::Transfer;
use super::grade::{BrokenBy, Grade, PAUSE_NS};
use super::piece::Piece;
use super::threads::{ThreadTime, Threads};
use crate::blame::Blame;
use crate::flow::Proto;
use crate::hop::{Hop, HopSet};
use crate::journey::ThreadRef;

/// At the end of the capture a response is complete if nothing followed it for its exchange's own time, and at least for
/// this long, nanoseconds.
const SETTLED_NS: u64 = 10_000_000;

/// Time after the begin of a request from which on it counts as unanswered although its connection has not ended,
/// nanoseconds.
pub(super) const UNANSWERED_NS: u64 = 1_000_000_000;

/// Time between two datagrams of a request from which on the second may be a repetition, nanoseconds.
pub(super) const REPEATED_NS: u64 = 10_000_000;

/// The end of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// The requester's next request was answered, which began at this instant.
    Next(u64),
    /// The connection ended.
    Closed,
    /// It ended, and bytes that one end had accepted for sending were seen nowhere else.
    Short,
    /// Nothing happened for a long time.
    Idle,
    /// The capture ended at this instant.
    End(u64),
    /// Too many connections.
    Evicted,
}

/// The bytes of one direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    pub transfer: Transfer,
    /// Has the last journey.
    last: Option<Box<Piece>>,
    /// The thread of the first send.
    pub sender: Option<ThreadRef>,
    /// The thread of the last read.
    pub reader: Option<ThreadRef>,
    /// How long that thread was ready to run before the read, nanoseconds; 0 if unknown.
    runnable_ns: u64,
}

impl Run {
    pub fn add(&mut self, piece: Box<Piece>) {
        let transfer = &mut self.transfer;
        if transfer.journeys == 0 {
            transfer.first_journey = piece.first_journey;
            transfer.half_width_ns = piece.half_width_ns;
            self.sender = piece.part.sent.and_then(|sent| sent.who);
        }
        transfer.half_width_ns = transfer.half_width_ns.zip(piece.half_width_ns).map(|(a, b)| a.max(b));
        transfer.bytes += piece.part.bytes();
        transfer.journeys = transfer.journeys.saturating_add(piece.journeys);
        transfer.retransmits = transfer.retransmits.saturating_add(piece.retransmits);
        if let Some(sent) = piece.part.sent {
            transfer.first_sent_ns = Some(transfer.first_sent_ns.map_or(sent.ns, |ns| ns.min(sent.ns)));
            transfer.last_sent_ns = transfer.last_sent_ns.max(Some(sent.ns));
        }
        if let Some(read) = piece.part.read {
            transfer.first_read_ns = Some(transfer.first_read_ns.map_or(read.ns, |ns| ns.min(read.ns)));
            transfer.last_read_ns = transfer.last_read_ns.max(Some(read.ns));
            self.reader = read.who.or(self.reader);
        }
        self.last = Some(piece);
    }

    /// Counts a datagram that was sent long after the one before it, which had been read: the requester asks again.
    fn note_repeated(&mut self, piece: &Piece) {
        let Some(before) = &self.last else { return };
        let times = (before.part.sent, before.part.read, before.half_width_ns);
        let ((Some(sent), Some(read), Some(width_ns)), Some(again)) = (times, piece.part.sent) else { return };
        let gap_ns = again.ns.saturating_sub(sent.ns);
        if gap_ns >= REPEATED_NS && read.ns.saturating_add(width_ns) < again.ns {
            self.transfer.repeats = self.transfer.repeats.saturating_add(1);
            self.transfer.repeated_ns = self.transfer.repeated_ns.saturating_add(gap_ns);
        }
    }

    /// Appends later bytes of the same direction.
    fn append(&mut self, later: Run) {
        if later.is_empty() {
            return;
        }
        if self.is_empty() {
            *self = later;
            return;
        }
        let (all, more) = (&mut self.transfer, &later.transfer);
        all.half_width_ns = all.half_width_ns.zip(more.half_width_ns).map(|(a, b)| a.max(b));
        all.bytes += more.bytes;
        all.journeys = all.journeys.saturating_add(more.journeys);
        all.retransmits = all.retransmits.saturating_add(more.retransmits);
        all.repeats = all.repeats.saturating_add(more.repeats);
        all.repeated_ns = all.repeated_ns.saturating_add(more.repeated_ns);
        all.last_sent_ns = all.last_sent_ns.max(more.last_sent_ns);
        all.first_read_ns = all.first_read_ns.into_iter().chain(more.first_read_ns).min();
        all.last_read_ns = all.last_read_ns.max(more.last_read_ns);
        self.reader = later.reader.or(self.reader);
        self.last = later.last.or(self.last.take());
    }

    /// Notes how long the reader of the last journey was ready to run, from the arrival of the data to its read.
    pub fn note_runnable(&mut self, end: Option<End>, threads: &Threads) {
        let (Some(end), Some(reader), Some(last)) = (end, self.reader, &self.last) else { return };
        let times = [Hop::SockReady, Hop::AppRecv].map(|hop| last.journey.rungs.time_ns(hop));
        let [Some(ready_ns), Some(read_ns)] = times else { return };
        let time = threads.until(end.node, reader.tid, ready_ns, read_ns);
        self.runnable_ns = time.map_or(0, |time| time.runnable_ns);
    }

    /// The transfer, with the time of its last journey.
    pub fn finish(&self, served: HopSet) -> Transfer {
        let Some(piece) = &self.last else { return self.transfer };
        let last = &piece.journey;
        let mut last_blame = Blame::of(last, served);
        if let Some(blame) = &mut last_blame {
            blame.note_runnable(self.runnable_ns);
        }
        Transfer { last_journey: last.id, last_blame, last_rungs: last.rungs, ..self.transfer }
    }

    pub const fn is_empty(&self) -> bool {
        self.transfer.journeys == 0
    }
}

/// A request and the response so far.
#[derive(Debug)]
pub(super) struct Group {
    pub id: u64,
    pub request: Run,
    pub response: Run,
    /// Positions of the request in the requester's stream.
    pub request_start: u64,
    pub request_end: u64,
    /// Number of later requests sent before this one's response had ended.
    pub merged: u32,
    /// A byte of the response was sent before the responder had read all of the request.
    pub early: bool,
    /// The last byte of the response was: more must follow.
    pub is_owed: bool,
    /// Instant of the read of the response's first byte.
    pub first_response_read_ns: Option<u64>,
    pub longest_idle_ns: u64,
    pub broken: Option<BrokenBy>,
    /// Bytes of the request waited in the responder's socket and were not read: the verdict on them.
    pub unread: Option<BrokenBy>,
    pub work: Option<ThreadTime>,
    /// First bytes of the request, if captured.
    pub head: Option<[u8; 2]>,
}

impl Group {
    pub fn new(id: u64, at: u64) -> Self {
        Group {
            id,
            request: Run::default(),
            response: Run::default(),
            request_start: at,
            request_end: at,
            merged: 0,
            early: false,
            is_owed: false,
            first_response_read_ns: None,
            longest_idle_ns: 0,
            broken: None,
            unread: None,
            work: None,
            head: None,
        }
    }

    pub fn add_request(&mut self, piece: Box<Piece>, end: u64) {
        self.request_end = end;
        if piece.is_unread() {
            self.unread = self.unread.or(piece.part.broken);
        } else {
            self.break_by(piece.part.broken);
        }
        if piece.journey.proto == Proto::UDP {
            self.request.note_repeated(&piece);
        }
        self.request.add(piece);
    }

    /// Adds bytes of the response.
    pub fn add_response(&mut self, piece: Box<Piece>) {
        let last_ns = self.response.transfer.last_read_ns;
        if let (Some(last_ns), Some(read)) = (last_ns, piece.part.read) {
            // Without the sender's time on this clock, the time between two reads is a safe stand-in.
            let sent = piece.part.sent.filter(|_| piece.half_width_ns.is_some());
            let next_ns = sent.map_or(read.ns, |sent| sent.ns);
            let certain_ns = last_ns.saturating_add(piece.half_width_ns.unwrap_or(0));
            self.longest_idle_ns = self.longest_idle_ns.max(next_ns.saturating_sub(certain_ns));
        }
        self.first_response_read_ns = self.first_response_read_ns.or(piece.part.read.map(|read| read.ns));
        self.break_by(piece.part.broken);
        self.response.add(piece);
    }

    /// Takes a later request in, which was sent before the response to this one had ended.
    pub fn merge(&mut self, later: Group) {
        self.request.append(later.request);
        self.response.append(later.response);
        self.request_end = later.request_end;
        self.merged = self.merged.saturating_add(1).saturating_add(later.merged);
        self.early |= later.early;
        self.longest_idle_ns = self.longest_idle_ns.max(later.longest_idle_ns);
        self.break_by(later.broken);
        self.unread = self.unread.or(later.unread);
    }

    pub fn break_by(&mut self, why: Option<BrokenBy>) {
        self.broken = self.broken.or(why);
    }

    /// The time until the first byte of the response: the responder's own, else with both transfers, nanoseconds.
    fn until_answered_ns(&self) -> u64 {
        let (request, response) = (&self.request.transfer, &self.response.transfer);
        let own = response.first_sent_ns.zip(request.last_read_ns);
        let both = self.first_response_read_ns.zip(request.last_sent_ns);
        own.or(both).map_or(0, |(answered, asked)| answered.saturating_sub(asked))
    }

    /// Instant of the first call that was seen of the request.
    pub fn first_ns(&self) -> Option<u64> {
        self.request.transfer.first_sent_ns.or(self.request.transfer.first_read_ns)
    }

    /// The instant from which on the response is complete if nothing has followed it; `None` without one.
    fn settled_ns(&self) -> Option<u64> {
        let response = &self.response.transfer;
        let last_ns = response.last_read_ns.or(response.last_sent_ns)?;
        let own_ns = last_ns.saturating_sub(self.first_ns().unwrap_or(last_ns));
        Some(last_ns.saturating_add(own_ns.max(SETTLED_NS)))
    }

    /// How this request ends the exchange before it.
    pub fn ends_previous(&self) -> Closing {
        Closing::Next(self.first_ns().unwrap_or(u64::MAX))
    }

    /// True if the requester sent the next request before it read the end of this response. Bytes of that request which
    /// arrived after the response come here too late to be part of this exchange.
    pub fn was_crossed(&self, closing: Closing) -> bool {
        let Closing::Next(next_ns) = closing else { return false };
        self.response.transfer.last_read_ns.is_some_and(|read_ns| next_ns < read_ns)
    }

    /// The instants between which all its bytes moved, without a request from `since_ns` on; `None` without a response, of
    /// a connection that has not ended.
    pub fn moved_ns(&self, closing: Closing, since_ns: u64) -> Option<(u64, u64)> {
        let to_ns = match closing {
            Closing::Next(next_ns) => next_ns,
            // A response may have come at any time.
            Closing::Closed if self.response.is_empty() => u64::MAX,
            _ => self.settled_ns()?,
        };
        Some((self.first_ns().unwrap_or(since_ns), to_ns))
    }

    /// The grade of bytes that no byte came back for, although none was missed. A single piece at the end of the capture
    /// may be a request that is not answered yet.
    pub fn one_sided_grade(&self, closing: Closing, proto: Proto) -> Option<Grade> {
        match closing {
            _ if !self.response.is_empty() => None,
            Closing::Idle | Closing::End(_) if self.request.transfer.journeys > 1 => {
                Some(Grade::Unidirectional)
            }
            // Lost datagrams need no answer.
            Closing::Closed if proto == Proto::UDP => Some(Grade::Unanswered),
            _ => None,
        }
    }

    /// Why it is broken, according to its end too.
    pub fn broken_at(&self, closing: Closing, is_stream: bool) -> Option<BrokenBy> {
        // Without a byte in return, a request that nobody has read is unanswered when its connection ends.
        let unread = self.unread.filter(|_| closing != Closing::Closed || !self.response.is_empty());
        if self.broken.is_some() || unread.is_some() {
            return self.broken.or(unread);
        }
        let unfinished = match closing {
            Closing::Short => return Some(BrokenBy::UnseenBytes),
            Closing::Next(_) | Closing::Closed => false,
            Closing::Idle => self.response.is_empty(),
            Closing::Evicted => true,
            // A datagram is whole, so with an answer for each nothing more is expected.
            Closing::End(_)
                if !is_stream && self.response.transfer.journeys >= self.request.transfer.journeys =>
            {
                false
            }
            Closing::End(ns) => self.settled_ns().is_none_or(|settled_ns| ns < settled_ns),
        };
        unfinished.then_some(BrokenBy::Unfinished)
    }

    /// The grade of the exchange by itself.
    pub fn own_grade(&self, view: View) -> Grade {
        if self.response.is_empty() {
            return Grade::Unanswered;
        }
        let pauses = view != View::Responder && self.longest_idle_ns > self.until_answered_ns().max(PAUSE_NS);
        if self.request.is_empty() || self.merged > 1 {
            Grade::Streamed
        } else if self.merged > 0 || self.early {
            Grade::Overlapped
        } else if pauses {
            Grade::Streamed
        } else {
            Grade::Turn
        }
    }
}

//! An exchange, closed.

use super::end::{ExchangeEnd, RequesterBy, View};
use super::grade::{BrokenBy, Grade};
use super::nested::Nested;
use super::threads::ThreadTime;
use crate::blame::Blame;
use crate::flow::Proto;
use crate::hop::Hop;
use crate::journey::Rungs;
use serde::Serialize;

/// A request and its response. All times are nanoseconds on the common time line of the recordings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Number in the order of the first byte, from 1.
    pub id: u64,
    /// TCP or UDP.
    pub proto: Proto,
    /// What turn-taking proves.
    pub grade: Grade,
    /// Why it is broken, if it is.
    pub broken: Option<BrokenBy>,
    /// The ends in the capture.
    pub view: View,
    /// The source of the knowledge who asks.
    pub requester_by: RequesterBy,
    /// The end that sent the request.
    pub requester: ExchangeEnd,
    /// The end that sent the response.
    pub responder: ExchangeEnd,
    /// The request. Without bytes if the responder sent by itself.
    pub request: Transfer,
    /// The response. Without bytes if none came.
    pub response: Transfer,
    /// From the end of the previous exchange of the connection to the start of this one, by the requester's clock.
    pub pause_ns: Option<u64>,
    /// The longest time that the requester had read everything and the response had not ended, nanoseconds.
    pub longest_idle_ns: u64,
    /// The answering thread's time between request and response, if the scheduler's hops were captured and one thread
    /// read and answered.
    pub work: Option<ThreadTime>,
    /// Exchanges that the responder began and ended meanwhile.
    pub during: Vec<Nested>,
}

/// The bytes of one direction of an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// Payload bytes.
    pub bytes: u64,
    /// Journeys.
    pub journeys: u32,
    /// Retransmissions of them.
    pub retransmits: u32,
    /// Instant of the first send.
    pub first_sent_ns: Option<u64>,
    /// Instant of the send of the last journey.
    pub last_sent_ns: Option<u64>,
    /// Instant of the read of the first byte.
    pub first_read_ns: Option<u64>,
    /// Instant of the read of the last byte.
    pub last_read_ns: Option<u64>,
    /// UDP, a request: datagrams sent at least 10 ms after the one before, which had been read by then. The requester
    /// asked again.
    pub repeats: u32,
    /// Time until these, each from the send of the datagram before it, nanoseconds.
    pub repeated_ns: u64,
    /// Error bound of a time from send to read; `None` for unrelated clocks.
    pub half_width_ns: Option<u64>,
    /// Number of the first journey.
    pub first_journey: u64,
    /// Number of the last journey, which ends the transfer.
    pub last_journey: u64,
    /// The time of the last journey by its parts.
    pub last_blame: Option<Blame>,
    /// The hops of the last journey.
    pub last_rungs: Rungs,
}

impl Transfer {
    /// From the first send to the read of the last byte, nanoseconds; `None` if one end is not in the capture, or for
    /// unrelated clocks.
    pub fn ns(&self) -> Option<u64> {
        self.half_width_ns?;
        Some(self.last_read_ns?.saturating_sub(self.first_sent_ns?))
    }

    /// The time between two hops of the last journey, nanoseconds.
    pub fn last_step_ns(&self, from: Hop, to: Hop) -> Option<u64> {
        self.half_width_ns?;
        self.last_rungs.time_ns(to)?.checked_sub(self.last_rungs.time_ns(from)?)
    }

    /// From the first send to the send of the last journey, without the time until the requester asked again,
    /// nanoseconds: the sender's own time, a full window, or more requests of the protocol.
    pub fn sending_ns(&self) -> Option<u64> {
        let all_ns = self.last_sent_ns?.saturating_sub(self.first_sent_ns?);
        Some(all_ns.saturating_sub(self.repeated_ns))
    }
}

/// A part of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExchangePart {
    /// From the first send of the request to the read of its last byte.
    RequestTransfer,
    /// From that read to the first send of the response.
    UntilAnswered,
    /// From that send to the read of the response's last byte.
    ResponseTransfer,
}

impl ExchangePart {
    /// All parts, in the order of time.
    pub const ALL: [ExchangePart; 3] = [Self::RequestTransfer, Self::UntilAnswered, Self::ResponseTransfer];

    /// Words on screens.
    pub const fn words(self) -> &'static str {
        match self {
            Self::RequestTransfer => "request transfer",
            Self::UntilAnswered => "until answered",
            Self::ResponseTransfer => "response transfer",
        }
    }
}

impl Exchange {
    /// Instant of the first byte: sent by the requester, or read by the responder if the requester is not in the capture.
    pub fn start_ns(&self) -> Option<u64> {
        let request = &self.request;
        let read_ns = request.first_read_ns.or(request.last_read_ns);
        request.first_sent_ns.or(read_ns).or(self.response.first_sent_ns)
    }

    /// Instant of the last byte: read by the requester, or sent by the responder if the requester is not in the capture.
    pub fn end_ns(&self) -> Option<u64> {
        self.response.last_read_ns.or(self.response.last_sent_ns).or(self.request.last_read_ns)
    }

    /// From the first send of the request to the read of the response's last byte, by the requester's clock, nanoseconds;
    /// `None` without a latency by its grade, and without the requester.
    pub fn total_ns(&self) -> Option<u64> {
        if self.grade.has_latency() { self.envelope_ns() } else { None }
    }

    /// The time between the first and the last byte by the requester's clock, of whatever grade, nanoseconds.
    pub fn envelope_ns(&self) -> Option<u64> {
        let (Some(from), Some(to)) = (self.request.first_sent_ns, self.response.last_read_ns) else {
            return None;
        };
        Some(to.saturating_sub(from))
    }

    /// From the read of the request's last byte to the first send of the response, by the responder's clock,
    /// nanoseconds; `None` without a latency by its grade, and without the responder.
    pub fn answer_ns(&self) -> Option<u64> {
        if !self.grade.has_latency() {
            return None;
        }
        Some(self.response.first_sent_ns?.saturating_sub(self.request.last_read_ns?))
    }

    /// True for an unanswered request whose last bytes reached the responder's socket, but were not read there.
    pub fn is_unread(&self) -> bool {
        let last = &self.request.last_rungs;
        self.grade == Grade::Unanswered && last.has(Hop::SockReady) && !last.has(Hop::AppRecv)
    }

    /// Both transfers, nanoseconds. Between two clocks each is an estimate, and may be negative within its bounds. Their
    /// sum is exact, because total and answer are of one clock each, so both are cut to it.
    fn transfers_ns(&self) -> [Option<u64>; 2] {
        let each = [self.request.ns(), self.response.ns()];
        let whole = self.total_ns().zip(self.answer_ns());
        let ([Some(request_ns), Some(_)], Some((total_ns, answer_ns))) = (each, whole) else { return each };
        let both_ns = total_ns.saturating_sub(answer_ns);
        let request_ns = request_ns.min(both_ns);
        [Some(request_ns), Some(both_ns - request_ns)]
    }

    /// A part, nanoseconds; `None` without a latency by its grade, and where the capture does not have it. The three
    /// add up to [`Exchange::total_ns`].
    pub fn part_ns(&self, part: ExchangePart) -> Option<u64> {
        if !self.grade.has_latency() {
            return None;
        }
        match part {
            ExchangePart::RequestTransfer => self.transfers_ns()[0],
            ExchangePart::UntilAnswered => self.answer_ns(),
            ExchangePart::ResponseTransfer => self.transfers_ns()[1],
        }
    }

    /// The parts that are known, in the order of time, nanoseconds.
    pub fn parts(&self) -> impl Iterator<Item = (ExchangePart, u64)> + '_ {
        ExchangePart::ALL.into_iter().filter_map(|part| Some((part, self.part_ns(part)?)))
    }

    /// The longest known part, of equal ones the earlier.
    pub fn largest(&self) -> Option<(ExchangePart, u64)> {
        self.parts().reduce(|longest, part| if part.1 > longest.1 { part } else { longest })
    }
}

#[cfg(test)]
mod tests {
    use super::super::connection::{Connection, End};
    use super::super::example::turn;
    use super::super::filter::ExchangeFilter;
    use super::super::group::Closing;
    use super::super::losses::Losses;
    use super::super::piece::{Moment, Part};
    use super::super::tests::{SERVER, closed_by, journey};
    use super::*;
    use crate::flow::FlowId;
    use crate::journey::Journey;
    use crate::stored_context::StoredContext;

    #[test]
    fn the_parts_are_the_total_whichever_transfer_seems_negative() {
        let parts = |asked, answered| {
            let turn = turn(1, asked, answered);
            let parts: Vec<u64> = turn.parts().map(|(_, ns)| ns).collect();
            assert_eq!(Some(parts.iter().sum::<u64>()), turn.total_ns());
            parts
        };
        assert_eq!(parts([100, 120], [220, 250]), [20, 100, 30], "neither");
        assert_eq!(parts([100, 95], [195, 230]), [0, 100, 30], "the request's");
        assert_eq!(parts([100, 150], [195, 190]), [45, 45, 0], "the response's");
    }

    #[test]
    fn at_the_responder_an_upload_begins_with_its_first_read() {
        const MS: u64 = 1_000_000;
        let at = |ms: u64, who| Some(Moment { ns: ms * MS, who: Some(who) });
        for proto in [Proto::TCP, Proto::UDP] {
            let mut connection = Connection::new(proto, 0);
            connection.index_of(End { node: 0, flow: FlowId(2) }, false).expect("an end");
            connection.opened_by(0);
            let own = |id| Journey { proto, ..journey(id) };
            let read =
                |start, ms| Part { start, end: start + 10, sent: None, read: at(ms, SERVER), broken: None };
            let sent =
                |start, ms| Part { start, end: start + 10, sent: at(ms, SERVER), read: None, broken: None };
            // A short request, then an upload of ten seconds.
            connection.push(0, read(0, 1), &own(1));
            connection.push(1, sent(0, 2), &own(2));
            for (id, ms) in [(3, 10), (4, 5_010), (5, 10_010)] {
                connection.push(0, read(10 * (id - 2), ms), &own(id));
            }
            connection.push(1, sent(10, 10_020), &own(6));
            let closed = closed_by(&Losses::default(), |around| {
                connection.process(u64::MAX, around);
                connection.close_all(Closing::Closed, around);
            });
            let upload = closed.last().expect("two exchanges");
            assert_eq!((closed.len(), upload.view, upload.request.bytes), (2, View::Responder, 30));
            assert_eq!((upload.start_ns(), upload.pause_ns), (Some(10 * MS), Some(8 * MS)), "{proto}");
            assert_eq!(upload.answer_ns(), Some(10 * MS));
        }
    }

    #[test]
    fn without_a_latency_no_time_of_a_thread_is_compared() {
        let work = Some(ThreadTime { on_cpu_ns: 9_000_000, ..ThreadTime::default() });
        let turn = Exchange { work, ..turn(1, [100, 120], [220, 250]) };
        let filter = ExchangeFilter::parse("on_cpu > 5ms").expect("a filter");
        let holds =
            |grade| filter.matches(&Exchange { grade, ..turn.clone() }, &StoredContext::new(Vec::new()));
        assert!(holds(Grade::Turn) && !holds(Grade::Overlapped) && !holds(Grade::Broken));
    }
}

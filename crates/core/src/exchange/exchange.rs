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
    /// Instant of the read of the last byte.
    pub last_read_ns: Option<u64>,
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

    /// From the first send to the send of the last journey, nanoseconds: the sender's own time, a full window, or
    /// more requests of the protocol.
    pub fn sending_ns(&self) -> Option<u64> {
        Some(self.last_sent_ns?.saturating_sub(self.first_sent_ns?))
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
        self.request.first_sent_ns.or(self.request.last_read_ns).or(self.response.first_sent_ns)
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

    /// A part, nanoseconds; `None` without a latency by its grade, and where the capture does not have it. The three
    /// add up to [`Exchange::total_ns`].
    pub fn part_ns(&self, part: ExchangePart) -> Option<u64> {
        if !self.grade.has_latency() {
            return None;
        }
        match part {
            ExchangePart::RequestTransfer => self.request.ns(),
            ExchangePart::UntilAnswered => self.answer_ns(),
            ExchangePart::ResponseTransfer => self.response.ns(),
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

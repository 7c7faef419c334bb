//! Grades: what the order of sends and reads proves about an exchange.

use crate::journey::Verdict;
use serde::Serialize;
use std::fmt;

/// A pause of the response that is longer than this and than the answer's own time may be the end of the
/// response, nanoseconds.
pub const PAUSE_NS: u64 = 1_000_000;

/// What turn-taking proves about an exchange, from the most to the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    /// One request, then its response, then the next request: it has a latency and three parts.
    Turn,
    /// TLS opens the connection: by its first bytes if they were captured, else by port and position.
    Handshake,
    /// The requester sent again before the response had ended, or the responder answered before it had read all of the
    /// request. Only the time from the first byte to the last is known.
    Overlapped,
    /// Both directions interleave, or the responder sends by itself: rates, no latency.
    Streamed,
    /// No byte came back before the connection ended, or for at least a second before the capture did: to a request that
    /// was not read, or to questions of DNS or NTP.
    Unanswered,
    /// No request: bytes of one direction alone are in the capture, of a connection that did not end in it.
    Unidirectional,
    /// It began, and bytes are missing: see [`BrokenBy`].
    Broken,
}

impl Grade {
    /// All grades.
    pub const ALL: [Grade; 7] = [
        Self::Turn,
        Self::Handshake,
        Self::Overlapped,
        Self::Streamed,
        Self::Unanswered,
        Self::Unidirectional,
        Self::Broken,
    ];

    /// Name in files, on screens and in queries.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Handshake => "handshake",
            Self::Overlapped => "overlapped",
            Self::Streamed => "streamed",
            Self::Unanswered => "unanswered",
            Self::Unidirectional => "unidirectional",
            Self::Broken => "broken",
        }
    }

    /// The grade with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|grade| grade.name() == name)
    }

    /// True if it is an exchange: bytes of one direction alone ask for nothing.
    pub const fn is_exchange(self) -> bool {
        !matches!(self, Self::Unidirectional)
    }

    /// True if the exchange has a latency.
    pub const fn has_latency(self) -> bool {
        matches!(self, Self::Turn)
    }
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why an exchange is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "broken_by", content = "verdict", rename_all = "kebab-case")]
pub enum BrokenBy {
    /// The first exchange of a connection whose handshake was not seen: the connection is older than the capture, or a
    /// filter left the handshake out. Bytes before it may be missing.
    Midway,
    /// The capture ended, or the limits of memory were reached, before the end of the exchange.
    Unfinished,
    /// A journey of its bytes did not arrive: the name of the verdict.
    Journey(&'static str),
    /// Bytes between two journeys were not seen; or those of the response, because of the settings of the capture.
    UnseenBytes,
    /// Events were lost meanwhile, and bytes at its end may have none.
    EventLoss,
    /// A filter, a sampler, the level of detail or a hop of sends and reads changed meanwhile, and bytes at its end may have
    /// no event.
    Changed,
    /// One end of the connection is in the capture, but not at these bytes.
    UnseenEnd,
    /// The answer was read before it was sent, or was sent before its request: the order of events is wrong.
    Order,
    /// Neither a handshake nor the ports show who asks.
    UnknownRequester,
}

impl BrokenBy {
    /// True if a part of the exchange may not have been seen.
    pub(super) const fn is_of_unseen(self) -> bool {
        match self {
            Self::Journey(_)
            | Self::UnseenBytes
            | Self::EventLoss
            | Self::Changed
            | Self::UnseenEnd
            | Self::Order => true,
            Self::Midway | Self::Unfinished | Self::UnknownRequester => false,
        }
    }

    /// A journey with this verdict.
    pub(super) const fn verdict(verdict: Verdict) -> Self {
        Self::Journey(verdict.name())
    }
}

impl fmt::Display for BrokenBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Midway => f.write_str("the begin of its connection was not captured"),
            Self::Unfinished => f.write_str("not ended"),
            Self::Journey(verdict) => write!(f, "bytes {verdict}"),
            Self::UnseenBytes => f.write_str("bytes not seen"),
            Self::EventLoss => f.write_str("events were lost meanwhile"),
            Self::Changed => f.write_str("the settings of the capture changed meanwhile"),
            Self::UnseenEnd => f.write_str("bytes not seen at one end"),
            Self::Order => f.write_str("events in the wrong order"),
            Self::UnknownRequester => f.write_str("who asks is not known"),
        }
    }
}

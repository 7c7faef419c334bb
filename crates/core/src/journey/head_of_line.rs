//! Head-of-line blocking: a reader of TCP gets bytes in their order only.
//!
//! Bytes that arrive before earlier ones of their stream wait in the socket's out-of-order queue. The socket announces
//! them (`sock.ready`) in one step with the last of the missing ones. Of all bytes that are announced in one step, those
//! that arrived before an earlier piece did have waited for it.
//!
//! **Limit.** An earlier piece whose arrival was not recorded proves nothing; the wait is the receiver's stack then.

use super::piece::{ARRIVED, Piece};
use super::rungs::Rungs;
use crate::hop::{Direction, Hop};
use serde::Serialize;

/// Bytes waited in their socket for earlier ones of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HeadOfLine {
    /// Instant at which the last of the earlier bytes arrived, nanoseconds of the receiver's `CLOCK_MONOTONIC`.
    pub until_ns: u64,
    /// Those were seen to be sent again. Else they took longer on the network, or their sender's half was not seen.
    pub resent: bool,
}

impl HeadOfLine {
    /// True if it began after the arrival in these rungs, which may be that of a later copy.
    pub(super) fn follows(self, rungs: &Rungs) -> bool {
        rungs.newest_ns(ARRIVED).is_none_or(|at_ns| at_ns < self.until_ns)
    }

    /// Duration of the wait within a step to `sock.ready`, nanoseconds; 0 if the step is another one. It lasts from the
    /// last event below the socket.
    pub fn within_ns(self, from: Hop, to: Hop, at_ns: u64, step_ns: u64) -> u64 {
        if to != Hop::SockReady || from.direction() != Direction::Rx {
            return 0;
        }
        self.until_ns.min(at_ns).saturating_sub(at_ns.saturating_sub(step_ns))
    }

    /// The wait in words.
    pub const fn words(self) -> &'static str {
        if self.resent { "waiting for retransmission of earlier bytes" } else { "waiting for earlier bytes" }
    }
}

/// The latest arrival among the pieces of one announcement, from the first byte on.
#[derive(Clone, Copy, Default)]
pub(super) struct Arrivals(Option<HeadOfLine>);

impl Arrivals {
    /// The next piece of the stream.
    pub fn pass(&mut self, piece: &mut Piece) {
        let Some(at_ns) = arrived_ns(piece) else { return };
        match self.0 {
            Some(earlier) if at_ns < earlier.until_ns => piece.head_of_line = self.0,
            _ => self.0 = Some(HeadOfLine { until_ns: at_ns, resent: piece.retransmits() > 0 }),
        }
    }
}

/// Instant of its last event below the socket.
fn arrived_ns(piece: &Piece) -> Option<u64> {
    if piece.passes.is_none() { piece.rungs.newest_ns(ARRIVED) } else { piece.ladder().0.newest_ns(ARRIVED) }
}

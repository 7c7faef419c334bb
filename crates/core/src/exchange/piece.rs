//! What an exchange needs of a journey.

use super::grade::BrokenBy;
use crate::blame::Blame;
use crate::flow::Proto;
use crate::hop::{Direction, Hop, HopSet};
use crate::journey::{Journey, Rungs, ThreadRef};
use std::ops::Range;

/// A program's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub ns: u64,
    pub who: Option<ThreadRef>,
}

/// The bytes of a journey, and the calls that sent and read them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub journey: u64,
    /// TCP: position in the stream. UDP: unused.
    pub start: u64,
    pub end: u64,
    pub sent: Option<Moment>,
    pub read: Option<Moment>,
    pub half_width_ns: Option<u64>,
    pub retransmits: u32,
    pub blame: Option<Blame>,
    pub rungs: Rungs,
    pub broken: Option<BrokenBy>,
}

impl Piece {
    pub fn of(journey: &Journey, served: HopSet) -> Self {
        let tx = journey.all_rungs().filter(|rung| rung.hop.direction() == Direction::Tx);
        let sent = tx.map(|rung| rung.time_ns).min().map(|ns| Moment { ns, who: journey.sender });
        let read = journey.rungs.time_ns(Hop::AppRecv).map(|ns| Moment { ns, who: journey.reader });
        let unread = !journey.rx_flow.is_none() && read.is_none();
        let Range { start, end } = journey.range;
        Piece {
            journey: journey.id,
            start,
            end,
            sent,
            read,
            half_width_ns: journey.across.half_width_ns(),
            retransmits: journey.retransmits(),
            blame: Blame::of(journey, served),
            rungs: journey.rungs,
            broken: (!journey.verdict.is_whole() || unread).then(|| BrokenBy::verdict(journey.verdict)),
        }
    }

    pub const fn bytes(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// The instant at one end, else at the other one.
    pub fn ns(&self, sent: bool) -> u64 {
        let (own, other) = if sent { (self.sent, self.read) } else { (self.read, self.sent) };
        own.or(other).map_or(0, |moment| moment.ns)
    }
}

/// True for protocols with exchanges.
pub(super) const fn is_followed(proto: Proto) -> bool {
    proto.0 == Proto::TCP.0 || proto.0 == Proto::UDP.0
}

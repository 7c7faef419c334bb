//! What an exchange needs of a journey.

use super::grade::BrokenBy;
use crate::flow::Proto;
use crate::hop::{Direction, Hop};
use crate::journey::{Journey, Rungs, ThreadRef};

/// A program's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub ns: u64,
    pub who: Option<ThreadRef>,
}

/// The bytes of a journey, and the calls that sent and read them.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// TCP: position in the stream. UDP: unused.
    pub start: u64,
    pub end: u64,
    pub sent: Option<Moment>,
    pub read: Option<Moment>,
    pub broken: Option<BrokenBy>,
    pub journey: Box<Journey>,
}

impl Piece {
    pub fn of(journey: &Journey) -> Self {
        let sent = sent_ns(journey).map(|ns| Moment { ns, who: journey.sender });
        let read = journey.rungs.time_ns(Hop::AppRecv).map(|ns| Moment { ns, who: journey.reader });
        let unread = !journey.rx_flow.is_none() && read.is_none();
        Piece {
            start: journey.range.start,
            end: journey.range.end,
            sent,
            read,
            broken: (!journey.verdict.is_whole() || unread).then(|| BrokenBy::verdict(journey.verdict)),
            journey: Box::new(journey.clone()),
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

/// The first event at the sender.
fn sent_ns(journey: &Journey) -> Option<u64> {
    let first = |rungs: &Rungs| {
        let hops = rungs.hops().take_while(|hop| hop.direction() == Direction::Tx);
        hops.filter_map(|hop| rungs.time_ns(hop)).min()
    };
    let copies = journey.copies.iter().filter_map(|copy| first(&copy.rungs)).min();
    first(&journey.rungs).into_iter().chain(copies).min()
}

/// True for protocols with exchanges.
pub(super) const fn is_followed(proto: Proto) -> bool {
    proto.0 == Proto::TCP.0 || proto.0 == Proto::UDP.0
}

//! What an exchange needs of a journey.

use super::grade::BrokenBy;
use crate::flow::Proto;
use crate::hop::{Direction, Hop};
use crate::journey::{Journey, Rungs, ThreadRef, Verdict};

/// A program's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub ns: u64,
    pub who: Option<ThreadRef>,
}

/// The bytes of a journey, and the calls that sent and read them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// TCP: position in the stream. UDP: unused.
    pub start: u64,
    pub end: u64,
    pub sent: Option<Moment>,
    pub read: Option<Moment>,
    pub broken: Option<BrokenBy>,
}

impl Part {
    pub fn of(journey: &Journey) -> Self {
        let sent = sent_ns(journey).map(|ns| Moment { ns, who: journey.sender });
        let read = journey.rungs.time_ns(Hop::AppRecv).map(|ns| Moment { ns, who: journey.reader });
        let unread = !journey.rx_flow.is_none() && read.is_none();
        Part {
            start: journey.range.start,
            end: journey.range.end,
            sent,
            read,
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

/// The bytes of consecutive journeys of one call at each end. A call of 64 KiB makes dozens of journeys.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub part: Part,
    pub journeys: u32,
    /// Retransmissions of them.
    pub retransmits: u32,
    pub first_journey: u64,
    /// The largest error bound; `None` for unrelated clocks.
    pub half_width_ns: Option<u64>,
    /// The last one.
    pub journey: Journey,
}

impl Piece {
    /// In a box: it passes through many hands.
    pub fn new(part: Part, journey: &Journey) -> Box<Self> {
        Box::new(Piece {
            part,
            journeys: 1,
            retransmits: journey.retransmits(),
            first_journey: journey.id,
            half_width_ns: journey.across.half_width_ns(),
            journey: journey.clone(),
        })
    }

    /// True if nothing but a read is missing: its bytes reached the reader's socket, and waited there to the end of the
    /// capture or were discarded with the socket.
    pub fn is_unread(&self) -> bool {
        let Journey { verdict, rungs, .. } = &self.journey;
        let has_waited = matches!(verdict, Verdict::InFlight | Verdict::Discarded { .. });
        has_waited
            && rungs.has(Hop::SockReady)
            && self.part.read.is_none()
            && self.part.broken == Some(BrokenBy::verdict(*verdict))
    }

    /// Notes why it breaks its exchange. Of several reasons the first counts, but a missing read is the weakest: a
    /// request without a read may just be unanswered.
    pub fn break_by(&mut self, why: BrokenBy) {
        if self.part.broken.is_none() || self.is_unread() {
            self.part.broken = Some(why);
        }
    }

    /// Appends a journey of the same calls. Returns false if it is none.
    pub fn extend(&mut self, part: &Part, journey: &Journey) -> bool {
        let own = &mut self.part;
        let is_next = own.end == part.start && (own.sent, own.read) == (part.sent, part.read);
        if !is_next || own.broken.is_some() || part.broken.is_some() {
            return false;
        }
        own.end = part.end;
        self.journeys = self.journeys.saturating_add(1);
        self.retransmits = self.retransmits.saturating_add(journey.retransmits());
        self.half_width_ns = self.half_width_ns.zip(journey.across.half_width_ns()).map(|(a, b)| a.max(b));
        self.journey.clone_from(journey);
        true
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

//! A half-journey that waits for its other half.

use super::key::End;
use magscope_core::flow::Proto;
use magscope_core::hop::{Direction, Hop};
use magscope_core::journey::Journey;
use serde::Serialize;

/// A packet that left one recording and arrived in another: the input of clock alignment. Source: the joined
/// halves of one journey.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Crossing {
    /// Recording of the sender.
    pub tx_node: u16,
    /// Recording of the receiver.
    pub rx_node: u16,
    /// Latest time at which it was certainly still at the sender, the sender's `CLOCK_MONOTONIC`, nanoseconds.
    pub sent_ns: u64,
    /// Earliest time at which it was certainly at the receiver, the receiver's `CLOCK_MONOTONIC`, nanoseconds.
    pub received_ns: u64,
}

/// A half that waits.
#[derive(Clone, Debug)]
pub(super) struct Half {
    pub node: u16,
    pub end: End,
    pub journey: Journey,
    /// The event of its packet nearest to the wire at this end, on this end's clock.
    pub wire_ns: u64,
    /// Approximate common time of its packet, nanoseconds.
    pub rough_ns: i64,
    /// True if that time is on the common time line, not only on the hosts' own clocks.
    pub aligned: bool,
    /// A receiver has it already; others may follow (multicast).
    pub joined: bool,
}

impl Half {
    /// First and last sequence number on the wire, the last not included. Only for TCP halves that do not cross
    /// the wrap of the numbers.
    pub fn seqs(&self) -> (u64, u64) {
        let start = self.journey.range.start & 0xffff_ffff;
        (start, start + self.journey.bytes())
    }

    /// The same with other bounds of its range.
    pub fn cut(&self, from: u64, to: u64) -> Half {
        let mut part = self.clone();
        let base = self.journey.range.start & !0xffff_ffff;
        part.journey.range = base + from..base + to;
        part
    }

    /// Instant at which its packet left or arrived.
    pub fn wire_ns(journey: &Journey, end: End) -> Option<u64> {
        let of = |direction| {
            let rungs = journey.ladder().filter(move |rung| rung.hop.direction() == direction);
            rungs.filter(|rung| rung.hop != Hop::DevDone).map(|rung| rung.time_ns)
        };
        match end {
            End::Tx => of(Direction::Tx).max(),
            End::Rx => of(Direction::Rx).min(),
        }
    }

    /// The crossing of two halves. `None` if one of them was sent more than once: the arrived copy is unknown
    /// (P. Karn and C. Partridge, 1987).
    pub fn crossing(tx: &Half, rx: &Half) -> Option<Crossing> {
        let once = |half: &Half| {
            half.journey.retransmits() == 0 && !half.journey.ambiguous && half.journey.verdict.is_whole()
        };
        if !once(tx) || !once(rx) {
            return None;
        }
        Some(Crossing {
            tx_node: tx.node,
            rx_node: rx.node,
            sent_ns: Self::wire_ns(&tx.journey, End::Tx)?,
            received_ns: Self::wire_ns(&rx.journey, End::Rx)?,
        })
    }

    pub fn is_stream(&self) -> bool {
        self.journey.proto == Proto::TCP
    }
}

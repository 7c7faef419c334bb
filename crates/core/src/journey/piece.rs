//! A piece: a journey that is still open.

use super::rungs::{Rungs, Who, bit, bits};
use crate::hop::Hop;

/// What one event says about the bytes it covers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub hop: Hop,
    pub time_ns: u64,
    pub cpu: u16,
    pub who: Who,
    pub at_return: bool,
}

/// Where a piece stands in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its end was not seen.
    Open,
    /// Its end was seen; what belongs to it may still come until then.
    Lingering { until_ns: u64 },
    /// Closed and handed over. Keeps its place so that its bytes are not taken for new ones.
    Gone,
}

/// Hops where a byte is only promised: the call may take fewer.
const PROMISES: u32 = bit(Hop::AppSend) | bit(Hop::TcpSend);

/// Hops of the sender.
pub(super) const TX: u32 = bits(Hop::AppSend, Hop::DevDone);
/// Hops of the receiver.
pub(super) const RX: u32 = bits(Hop::DevRecv, Hop::AppRecv);
/// Hops of the receiver below the socket.
pub(super) const ARRIVED: u32 = bits(Hop::DevRecv, Hop::UdpRecv);
/// The socket has it.
pub(super) const DELIVERED: u32 = bits(Hop::TcpRecv, Hop::AppRecv);

/// A piece. A TCP piece is `[start, end)` of the unwrapped stream; the n-th datagram of a UDP stream is
/// `[n << 32, (n << 32) + len)`, so that both live in the same kind of list.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub start: u64,
    pub end: u64,
    pub first_ns: u64,
    pub last_ns: u64,
    pub rungs: Rungs,
    pub sender: Who,
    pub reader: Who,
    pub state: State,
    /// Passes through the hop that retransmissions are counted at, less one.
    pub again: u16,
    /// Retransmissions that `tcp.retransmit` told of.
    pub told: u16,
    /// Reason and the hops passed when the kernel dropped it.
    pub drop: Option<(u32, u32)>,
    pub ambiguous: bool,
    pub skb: u32,
    pub ip_id: u16,
    /// Segments of a UDP super-packet.
    pub segs: u16,
}

impl Piece {
    pub fn new(start: u64, end: u64, time_ns: u64) -> Self {
        Piece {
            start,
            end,
            first_ns: time_ns,
            last_ns: time_ns,
            rungs: Rungs::default(),
            sender: Who::default(),
            reader: Who::default(),
            state: State::Open,
            again: 0,
            told: 0,
            drop: None,
            ambiguous: false,
            skb: 0,
            ip_id: 0,
            segs: 0,
        }
    }

    pub const fn has(&self, hop: Hop) -> bool {
        self.rungs.has(hop)
    }

    pub const fn any(&self, hops: u32) -> bool {
        self.rungs.present() & hops != 0
    }

    pub const fn is_gone(&self) -> bool {
        matches!(self.state, State::Gone)
    }

    pub fn retransmits(&self) -> u32 {
        u32::from(self.again.max(self.told))
    }

    /// Whether nothing but the declaration of a send speaks for these bytes.
    pub fn is_only_promised(&self) -> bool {
        let present = self.rungs.present();
        present & !PROMISES == 0 && !self.rungs.is_at_return(Hop::AppSend)
    }

    /// Writes an event down. `counted_at` is the hop where a second pass counts as a retransmission.
    pub fn stamp(&mut self, mark: &Mark, counted_at: Hop) {
        let Mark { hop, time_ns, cpu, who, at_return } = *mark;
        let promise = bit(hop) & PROMISES != 0;
        if self.has(hop) {
            // A shorter send than declared: the same bytes are declared again by the next call. The first time of a
            // real pass stays: a journey begins when its byte first passed.
            if promise && !at_return && self.is_only_promised() {
                self.rungs.set(hop, time_ns, cpu, false);
                self.first_ns = time_ns;
                self.sender = who;
            } else if hop == counted_at {
                self.again = self.again.saturating_add(1);
            }
        } else {
            self.rungs.set(hop, time_ns, cpu, at_return);
            if !who.is_none() {
                if bit(hop) & TX != 0 {
                    self.sender = who;
                } else {
                    self.reader = who;
                }
            }
            // What was dropped and comes further than before was sent again.
            if self.drop.is_some_and(|(_, before)| bit(hop) > before) {
                self.drop = None;
            }
        }
        self.first_ns = self.first_ns.min(time_ns);
        self.last_ns = self.last_ns.max(time_ns);
    }
}

//! Forwarders: the nodes between sender and receiver that pass a packet on.
//!
//! **The problem.** A node that bridges, routes or translates shows a packet at the hops of a receiver and then at
//! those of a sender, and is neither.
//!
//! **The choice.** The ends of a journey have one place for each hop. A forwarder has a list of its own, because most
//! journeys pass none. Its receiving hops precede its sending hops in time. Of the receiving hops the first event
//! counts, of the sending hops the last: a packet passes stacked devices (a port and its bridge) several times.
//!
//! **Known limits.** A journey keeps the times of [`MAX_FORWARDERS`] nodes. The driver's return (`dev.done`) at a
//! forwarder has no place, because it is off the path.

use super::rungs::Rungs;
use crate::flow::FlowId;
use crate::hop::{Direction, Hop};

/// Maximum number of forwarders of a journey; further ones are counted.
pub const MAX_FORWARDERS: usize = 8;

/// The passage of a journey's packet through one node between its ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forwarder {
    /// The flow of the packet where it came in, from this node's side; [`FlowId::NONE`] if that was not seen.
    pub rx_flow: FlowId,
    /// The flow of the packet where it left, after any address translation; [`FlowId::NONE`] if that was not seen.
    pub tx_flow: FlowId,
    /// Interface of its first event, within the network namespace of the node; 0 if unknown.
    pub rx_ifindex: u32,
    /// Interface of its last event; 0 if it was not seen to leave.
    pub tx_ifindex: u32,
    /// True if it belongs to the receiver's recording, false for the sender's.
    pub is_receivers: bool,
    /// The instant at each hop.
    pub rungs: Rungs,
}

impl Forwarder {
    /// The flow of one of its events, for its names: the exit's, else the entry's.
    pub const fn flow(&self) -> FlowId {
        if self.tx_flow.is_none() { self.rx_flow } else { self.tx_flow }
    }

    /// Its hops in the order of time: those of reception, then those of sending.
    pub fn hops(&self) -> impl Iterator<Item = Hop> + use<> {
        let of = |direction| {
            let hops = self.rungs.hops();
            hops.filter(move |hop| hop.direction() == direction)
        };
        of(Direction::Rx).chain(of(Direction::Tx))
    }

    /// Instants of its first and its last event, nanoseconds of `CLOCK_MONOTONIC`.
    pub fn span_ns(&self) -> Option<(u64, u64)> {
        let mut hops = self.hops();
        let first = hops.next()?;
        let last = hops.last().unwrap_or(first);
        Some((self.rungs.time_ns(first)?, self.rungs.time_ns(last)?))
    }

    /// Time between its first and its last event, nanoseconds; `None` with fewer than two, as of the copies of a packet to
    /// a group.
    pub fn inside_ns(&self) -> Option<u64> {
        let (from_ns, to_ns) = self.span_ns().filter(|_| self.hops().count() > 1)?;
        Some(to_ns.saturating_sub(from_ns))
    }

    /// The last hop that the packet passed in it.
    pub fn last(&self) -> Option<Hop> {
        self.hops().last()
    }
}

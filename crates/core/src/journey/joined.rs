//! One journey from a sender's half and a receiver's.

use super::across::Across;
use super::copies::SentCopy;
use super::forwarder::Forwarder;
use super::ip_ids::IpIds;
use super::journey::{Journey, PACKET};
use super::piece::{RX, TX};
use super::rungs::bit;
use crate::hop::Hop;

impl Journey {
    /// Copies the receiver's part from another journey of the same bytes.
    pub fn take_receiver(&mut self, other: &Journey) {
        self.rungs.take(&other.rungs, RX);
        (self.rx_flow, self.reader) = (other.rx_flow, other.reader);
        self.ambiguous |= other.ambiguous;
        self.head_of_line = other.head_of_line;
        let theirs = |at: &Forwarder| Forwarder { is_receivers: true, ..*at };
        self.forwarders.extend(other.forwarders.iter().map(theirs));
        self.tunnels.extend(other.tunnels.iter().map(theirs));
        self.find_copy(other);
        self.leave_out_earlier();
    }

    /// Leaves out the receiver's outer packets that were there before the inner one had left its sender: they are of other
    /// packets.
    fn leave_out_earlier(&mut self) {
        let sent = self.rungs.in_order() & TX & !bit(Hop::DevDone);
        let Some(left_ns) = self.rungs.newest_ns(sent) else { return };
        // A time of the receiver may be this much later than its estimate.
        let width_ns = match self.across {
            Across::OneClock => 0,
            Across::Bounded { above_ns, .. } => above_ns,
            Across::Apart => return,
        };
        let has_left = |from_ns: u64| left_ns <= from_ns.saturating_add(width_ns);
        self.tunnels.retain(|at| !at.is_receivers || at.span_ns().is_none_or(|(from_ns, _)| has_left(from_ns)));
    }

    /// The number of the copy of this sender's half that arrived as a packet with these identifications, 0 if it was
    /// sent once; `None` if they do not show it.
    pub fn copy_with(&self, ids: IpIds) -> Option<u32> {
        if self.copies.is_empty() {
            return self.packet_ids.meets(ids).then_some(0);
        }
        let mut found = self.copies.iter().filter(|copy| copy.ids.meets(ids)).map(|copy| copy.number);
        found.next().filter(|_| found.next().is_none())
    }

    /// Finds the copy of this sender's half that the receiver's half had: by its identification, or without one the
    /// newest that had left before the arrival and was not dropped.
    fn find_copy(&mut self, other: &Journey) {
        let arrived = other.rungs.hops().find(|hop| bit(*hop) & PACKET & RX != 0);
        let Some(arrived_ns) = arrived.and_then(|hop| other.rungs.time_ns(hop)) else { return };
        // The arrival may be this much later than its estimate.
        let width_ns = match self.across {
            Across::OneClock => 0,
            Across::Bounded { above_ns, .. } => above_ns,
            Across::Apart => u64::MAX,
        };
        let by_ids = self.copy_with(other.packet_ids);
        let left_before = |copy: &&mut SentCopy| {
            // A driver may return after the packet's arrival.
            let hops = copy.rungs.hops().filter(|hop| *hop != Hop::DevDone);
            let left_ns = hops.last().and_then(|hop| copy.rungs.time_ns(hop));
            let has_left = left_ns.is_some_and(|ns| ns <= arrived_ns.saturating_add(width_ns));
            // What arrived was not dropped: a bridge or a mirror has copied the packet.
            has_left && by_ids.map_or(copy.dropped.is_none(), |number| copy.number == number)
        };
        let mut copies = std::mem::take(&mut self.copies);
        let mut candidates = copies.iter_mut().filter(left_before).rev();
        if let Some(found) = candidates.next() {
            if found.number != self.copy {
                // What the sender's half passed on the way was another copy's.
                self.forwarders.retain(|at| at.is_receivers);
                self.tunnels.retain(|at| at.is_receivers);
            }
            found.ambiguous = candidates.next().is_some();
            found.dropped = None;
            self.packet_ids = found.ids;
            found.rungs.take(&other.rungs, PACKET & RX);
            self.rungs.clear(PACKET & TX);
            self.rungs.take(&found.rungs, PACKET);
            self.copy = found.number;
        }
        self.copies = copies;
    }
}

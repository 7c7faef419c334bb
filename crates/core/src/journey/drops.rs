//! The correlator's part for drops: finds the packet that the kernel freed, and decides whether its journey ends.
//!
//! **The problem.** A bridge that floods, or a mirror, copies a packet to hosts that it is not for, and the kernel frees
//! those copies. Such a drop has the addresses, the numbers and the identification of the packet that arrives elsewhere.
//!
//! **The choice.** A drop in the namespace of a certain end is the packet's. Any other one is so only if the packet does
//! not arrive: a datagram waits for [`super::state::COPY_NS`], bytes of TCP until they are given up.
//!
//! **Known limits.** A copy that arrives later than that finds its journey ended, and is one of its own.

use super::correlator::Correlator;
use super::ip_ids::IpIds;
use super::journey::Journey;
use super::state::{Ends, Half};
use crate::event::{Event, EventFlags};
use crate::flow::{FlowId, Proto};
use crate::hop::Direction;
use std::ops::Range;

/// Whether the packet of a drop was found, the best last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DropMatch {
    /// Its flow is unknown.
    NoFlow,
    /// No packet of its flow is missing.
    NoPacket,
    Found,
}

impl DropMatch {
    pub const fn of(found: bool) -> Self {
        if found { Self::Found } else { Self::NoPacket }
    }
}

/// Where the kernel dropped a packet of TCP.
#[derive(Clone, Copy, Debug)]
pub(super) struct DropPlace {
    pub is_before_receiver: bool,
    /// True if the node is not known to pass packets on: it may have had only a copy of the packet.
    pub may_be_of_copy: bool,
}

/// Open bytes of which the kernel may have dropped a packet.
#[derive(Debug)]
struct Droppable {
    /// Newest event of them.
    seen_ns: u64,
    slot: usize,
    range: Range<u64>,
    place: DropPlace,
}

impl Correlator {
    /// The kernel dropped a packet.
    pub(super) fn dropped(&mut self, event: &Event, done: &mut Vec<Journey>) {
        let before = self.buffers.end(event);
        if event.flags.contains(EventFlags::PARTIAL) {
            self.state.counters.without_range += 1;
            return;
        }
        if let Some(inner) = self.dropped_inside(event, done) {
            self.state.outer_drop = Some(event.flow);
            self.find_dropped(&inner, done);
            self.state.outer_drop = None;
        }
        let mut found = self.find_dropped(event, done);
        // Between two translations of addresses no stream has those of the packet. Its last event in this buffer shows
        // whose it is.
        if let Some(flow) = before.filter(|flow| found != DropMatch::Found && *flow != event.flow)
            && self.find_dropped(&Event { flow, ..*event }, done) == DropMatch::Found
        {
            found = DropMatch::Found;
        }
        match found {
            DropMatch::Found => {}
            DropMatch::NoPacket => self.state.counters.unmatched_drops += 1,
            DropMatch::NoFlow => self.state.counters.unattributed += 1,
        }
    }

    /// The namespace of a drop that happened at neither certain end of a stream: a bridge or a mirror may have copied
    /// the packet, and another copy may arrive.
    pub(super) fn drop_between_ends(&self, ends: &Ends, flow: FlowId) -> Option<u32> {
        let netns = |flow| self.directory.get(flow).map(|flow| flow.netns);
        let here = netns(flow)?;
        let is_at = |half: &Half, sure: bool| sure && netns(half.flow) == Some(here);
        // Where no hop shows the receiver's end of a protocol, the last node that had the packet counts as it.
        let has_end = ends.rx.sure || !self.state.rules.of(ends.proto).shows_rx_end;
        (!is_at(&ends.tx, ends.tx.sure) && !is_at(&ends.rx, has_end)).then_some(here)
    }

    fn find_dropped(&mut self, event: &Event, done: &mut Vec<Journey>) -> DropMatch {
        if event.proto == Proto::TCP { self.tcp_drop(event) } else { self.datagram_dropped(event, done) }
    }

    /// The direction of a dropped packet is not recorded; the sequence numbers of the two directions are far
    /// apart.
    fn tcp_drop(&mut self, event: &Event) -> DropMatch {
        if event.len == 0 {
            return DropMatch::NoPacket;
        }
        let mut best = None;
        for direction in [Direction::Tx, Direction::Rx] {
            let Some(slot) = self.directory.stream(event.flow, direction, &mut self.streams) else {
                return DropMatch::NoFlow;
            };
            let found = self.droppable_at(slot, direction, event);
            best = best.into_iter().chain(found).max_by_key(|at| at.seen_ns);
        }
        let Some(Droppable { slot, range, place, .. }) = best else { return DropMatch::NoPacket };
        if let Some(stream) = self.streams.get_mut(slot) {
            self.state.counters.drops += 1;
            let drop = self.state.copy_drop(event);
            let ids = IpIds { first: event.ip_id, count: event.segs };
            stream.mark_dropped(range, place, drop, ids, &mut self.state);
        }
        DropMatch::Found
    }

    /// The bytes of a dropped packet in one of its two possible streams, if they are open there.
    fn droppable_at(&mut self, slot: usize, direction: Direction, event: &Event) -> Option<Droppable> {
        let stream = self.streams.get(slot)?;
        let (range, ends) = (stream.range_of(event)?, stream.ends);
        let between = self.drop_between_ends(&ends, event.flow);
        let stream = self.streams.get_mut(slot)?;
        if let Some(netns) = between {
            stream.end_transits(&range, netns);
        }
        let place = DropPlace {
            is_before_receiver: direction == Direction::Tx || between.is_some() && ends.rx.sure,
            may_be_of_copy: between.is_some() && !self.directory.passes(event.flow, true),
        };
        Some(Droppable { seen_ns: stream.droppable(&range)?, slot, range, place })
    }
}

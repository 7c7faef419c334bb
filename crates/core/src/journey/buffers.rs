//! The newest packet in each buffer: proof that two events are of one packet although its addresses changed.
//!
//! **The problem.** A node that translates addresses shows one packet as two flows. Nothing in the events names the
//! translation.
//!
//! **The choice.** A packet keeps its buffer from the moment it enters a node until it leaves. Two events in one
//! buffer are one packet if their protocol, length and sequence number (TCP) or identification (others) agree and
//! little time is between them. The table has a fixed size and each buffer one place, so an event costs one access.
//! A translation is the same for a whole connection, so one proof suffices, and a lost place does no harm.
//!
//! **Known limits.** A node that copies or merges the packet, or changes its sequence numbers, gives no proof.

use super::rungs::bit;
use crate::event::Event;
use crate::flow::{FlowId, Proto};
use crate::hop::Hop;

/// Number of places.
const PLACES: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 8;
/// Maximum time between two hops of a packet in one node, in units of 1,024 ns: one second. A queue rarely holds one
/// for longer.
const MAX_TICKS: u32 = 1_000_000_000 >> TICK_BITS;
const TICK_BITS: u32 = 10;

/// The event before another one of the same packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Previous {
    pub flow: FlowId,
    pub hop: Hop,
    /// Low bits of its interface.
    pub ifindex: u16,
    /// The stream that has the event.
    pub slot: u32,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    flow: FlowId,
    /// Low bits of the time.
    ticks: u32,
    /// 0: the place is free.
    skb: u32,
    len: u32,
    key: u32,
    slot: u32,
    ifindex: u16,
    proto: Proto,
    hop: Hop,
}

const FREE: Place = Place {
    flow: FlowId::NONE,
    ticks: 0,
    skb: 0,
    len: 0,
    key: 0,
    slot: 0,
    ifindex: 0,
    proto: Proto::TCP,
    hop: Hop::AppSend,
};

/// The table.
#[derive(Debug)]
pub(super) struct Buffers {
    places: Box<[Place]>,
}

impl Default for Buffers {
    fn default() -> Self {
        Buffers { places: vec![FREE; PLACES].into() }
    }
}

/// The number that distinguishes the packet from its successors: the position of its bytes, or its identification.
fn key_of(event: &Event) -> u32 {
    if event.proto == Proto::TCP { event.seq() } else { u32::from(event.ip_id) }
}

impl Buffers {
    /// Stores an event of a packet hop, which belongs to the stream `slot`. Returns the event before it of the same
    /// packet.
    #[inline]
    pub fn replace(&mut self, event: &Event, slot: usize) -> Option<Previous> {
        let place = self.places.get_mut(index_of(event.skb))?;
        let Event { flow, skb, len, proto, hop, .. } = *event;
        let (key, ticks) = (key_of(event), (event.time_ns >> TICK_BITS) as u32);
        let is_same = place.skb == skb
            && place.len == len
            && place.key == key
            && place.proto == proto
            && ticks.wrapping_sub(place.ticks) < MAX_TICKS;
        let Place { flow: before, hop: last, slot: of, ifindex: at, .. } = *place;
        let previous = is_same.then_some(Previous { flow: before, hop: last, ifindex: at, slot: of });
        let ifindex = event.ifindex as u16;
        *place = Place { flow, ticks, skb, len, key, slot: slot as u32, ifindex, proto, hop };
        previous
    }
}

impl Buffers {
    /// The packet in a buffer ends.
    pub fn forget(&mut self, skb: u32) {
        if let Some(place) = self.places.get_mut(index_of(skb)).filter(|place| place.skb == skb) {
            *place = FREE;
        }
    }
}

/// The place of a buffer.
const fn index_of(skb: u32) -> usize {
    (skb.wrapping_mul(0x9e37_79b9) >> (u32::BITS - PLACE_BITS)) as usize
}

/// True for an event that shows the buffer of a packet on its path.
pub(super) const fn shows_buffer(event: &Event) -> bool {
    event.skb != 0 && bit(event.hop) != 0 && !matches!(event.hop, Hop::DevDone | Hop::AppCopy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_stays_small() {
        assert!(size_of::<Place>() <= 32);
    }
}

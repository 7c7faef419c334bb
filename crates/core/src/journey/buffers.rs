//! The newest packet in each buffer: proof that two events are of one packet although its addresses changed.
//!
//! **The problem.** A node that translates addresses shows one packet as two flows. Nothing in the events names the
//! translation.
//!
//! **The choice.** A packet keeps its buffer from the moment it enters a node until it leaves. Two events in one
//! buffer are one packet if their protocol, length and sequence number (TCP) or identification (others) agree and
//! little time is between them. The table has a fixed size, and each buffer two possible places in one cache line, so an
//! event costs one access. A translation is the same for a whole connection, so one proof suffices, and a lost place
//! rarely does harm.
//!
//! **Known limits.** A node that copies or merges the packet, or changes its sequence numbers, gives no proof. If two
//! other packets take both places while the only packet of a connection passes, its journey is two halves.

use super::rungs::bit;
use crate::event::Event;
use crate::flow::{FlowId, Proto};
use crate::hop::Hop;
use std::mem::swap;

/// Number of pairs of places.
const PAIRS: usize = 1 << PAIR_BITS;
const PAIR_BITS: u32 = 7;
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

impl Place {
    /// True if the event is of the same packet.
    #[inline]
    fn is_of(&self, event: &Event) -> bool {
        self.skb == event.skb
            && self.len == event.len
            && self.key == key_of(event)
            && self.proto == event.proto
            && ticks_of(event).wrapping_sub(self.ticks) < MAX_TICKS
    }
}

const fn ticks_of(event: &Event) -> u32 {
    (event.time_ns >> TICK_BITS) as u32
}

/// The possible places of a buffer, in one cache line: that of the newest event first.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Pair([Place; 2]);

impl Pair {
    /// The place of this buffer, which is the first one from now on. If it has none, the older event gives way.
    fn place_for(&mut self, skb: u32) -> &mut Place {
        let [first, second] = &mut self.0;
        if first.skb != skb {
            swap(first, second);
        }
        first
    }

    /// Frees the place of this buffer; a free place is the second one.
    fn forget(&mut self, skb: u32) {
        let [first, second] = &mut self.0;
        if first.skb == skb {
            swap(first, second);
        }
        if second.skb == skb {
            *second = FREE;
        }
    }
}

/// The table.
#[derive(Debug)]
pub(super) struct Buffers {
    pairs: Box<[Pair]>,
}

impl Default for Buffers {
    fn default() -> Self {
        Buffers { pairs: vec![Pair([FREE; 2]); PAIRS].into() }
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
        let Event { flow, skb, len, proto, hop, .. } = *event;
        let (key, ticks) = (key_of(event), ticks_of(event));
        let place = self.pairs.get_mut(index_of(skb))?.place_for(skb);
        let is_same = place.is_of(event);
        let Place { flow: before, hop: last, slot: of, ifindex: at, .. } = *place;
        let previous = is_same.then_some(Previous { flow: before, hop: last, ifindex: at, slot: of });
        let ifindex = event.ifindex as u16;
        *place = Place { flow, ticks, skb, len, key, slot: slot as u32, ifindex, proto, hop };
        previous
    }
}

impl Buffers {
    /// The packet in a buffer ends. Returns the flow of the event before it of the same packet.
    pub fn end(&mut self, event: &Event) -> Option<FlowId> {
        let pair = self.pairs.get_mut(index_of(event.skb))?;
        let place = pair.0.iter().find(|place| place.skb == event.skb && event.skb != 0).copied();
        pair.forget(event.skb);
        place.filter(|place| place.is_of(event)).map(|place| place.flow)
    }
}

/// The pair of a buffer.
const fn index_of(skb: u32) -> usize {
    (skb.wrapping_mul(0x9e37_79b9) >> (u32::BITS - PAIR_BITS)) as usize
}

/// True for an event that shows the buffer of a packet on its path.
pub(super) const fn shows_buffer(event: &Event) -> bool {
    event.skb != 0 && bit(event.hop) != 0 && !matches!(event.hop, Hop::DevDone | Hop::AppCopy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_places_are_in_one_cache_line() {
        assert_eq!(size_of::<Pair>(), 64);
    }

    #[test]
    fn another_packet_displaces_none_whose_next_event_is_due() {
        let event = |skb, time_ns, hop| Event { skb, len: 100, ip_id: 7, ..Event::at(hop, time_ns) };
        let pair = index_of(1);
        let others: Vec<u32> = (2..).filter(|skb| index_of(*skb) == pair).take(2).collect();
        let mut buffers = Buffers::default();
        assert_eq!(buffers.replace(&event(1, 10_000, Hop::IpPre), 5), None);
        assert_eq!(buffers.replace(&event(others[0], 20_000, Hop::IpPre), 6), None);
        let again = buffers.replace(&event(1, 30_000, Hop::IpPost), 5);
        assert_eq!(again.map(|previous| (previous.slot, previous.hop)), Some((5, Hop::IpPre)));
        // The older one of two gives way.
        assert_eq!(buffers.replace(&event(others[1], 40_000, Hop::IpPre), 7), None);
        assert!(buffers.replace(&event(1, 50_000, Hop::DevXmit), 5).is_some());
        assert_eq!(buffers.replace(&event(others[0], 60_000, Hop::IpPost), 6), None);
        buffers.end(&event(1, 65_000, Hop::SkbDrop));
        assert_eq!(buffers.replace(&event(1, 70_000, Hop::IpPre), 5), None);
    }
}

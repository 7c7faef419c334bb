//! Segments of TCP that nodes have received: proof that a node passes one on although it copies it to another buffer.
//!
//! **The problem.** A node copies a packet whose buffer its sender still uses before it writes to it: every segment with
//! data whose sender is on the same host. So [`super::buffers`] has no proof of the addresses' translation until a packet
//! without data comes, and where answers acknowledge questions none does.
//!
//! **The choice.** A packet that a node sends soon after it has received it is the same one if sequence number,
//! acknowledgement, identification, length and flags agree. Both numbers count from random beginnings, so two connections
//! agree in them by an accident of one in 2⁶⁴. Only segments are stored whose receiver is not known yet.
//!
//! **Known limits.** A node that changes the numbers, or merges segments behind the hop that it shows, gives no proof. A
//! packet without an acknowledgement (the first of a connection) gives none here.

use super::buffers::Previous;
use crate::event::{Detail, Event};
use crate::flow::{FlowId, Proto};
use crate::hop::Hop;

/// Number of segments that are remembered. Between two hops of a segment in its node lie some microseconds.
const PLACES: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 7;
/// Maximum time between two hops of a segment in one node, nanoseconds.
const MAX_NS: u64 = 1_000_000_000;

/// What a segment keeps on its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    seq: u32,
    ack: u32,
    len: u32,
    ip_id: u16,
    tcp_flags: u8,
}

impl Segment {
    /// `None` for another packet, and for one without an acknowledgement.
    fn of(event: &Event) -> Option<Self> {
        let Detail::Ack(ack) = event.detail else { return None };
        let Event { len, ip_id, tcp_flags, .. } = *event;
        (event.proto == Proto::TCP && ack.get() != 0).then(|| Segment {
            seq: event.seq(),
            ack: ack.get(),
            len,
            ip_id,
            tcp_flags,
        })
    }

    const fn place(&self) -> usize {
        ((self.seq ^ self.ack.rotate_left(16)).wrapping_mul(0x9e37_79b9) >> (u32::BITS - PLACE_BITS)) as usize
    }
}

#[derive(Clone, Copy, Debug)]
struct Received {
    segment: Segment,
    time_ns: u64,
    flow: FlowId,
    slot: u32,
    ifindex: u16,
    hop: Hop,
}

/// The segments received last.
#[derive(Debug)]
pub(super) struct PassingSegments {
    places: Box<[Option<Received>]>,
}

impl Default for PassingSegments {
    fn default() -> Self {
        PassingSegments { places: vec![None; PLACES].into() }
    }
}

impl PassingSegments {
    /// A node has received this packet, which belongs to the stream `slot`.
    pub fn received(&mut self, event: &Event, slot: usize) {
        let Some(segment) = Segment::of(event) else { return };
        let Event { time_ns, flow, hop, .. } = *event;
        if let Some(place) = self.places.get_mut(segment.place()) {
            *place = Some(Received {
                segment,
                time_ns,
                flow,
                slot: slot as u32,
                ifindex: event.ifindex as u16,
                hop,
            });
        }
    }

    /// The last event of the packet that a node sends, if it has received it.
    pub fn sent(&self, event: &Event) -> Option<Previous> {
        let segment = Segment::of(event)?;
        let received = self.places.get(segment.place())?.as_ref()?;
        let is_same = received.segment == segment && event.time_ns.saturating_sub(received.time_ns) < MAX_NS;
        let Received { flow, hop, ifindex, slot, .. } = *received;
        is_same.then_some(Previous { flow, hop, ifindex, slot })
    }
}

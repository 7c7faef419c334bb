//! Outer super-packets that the kernel cuts on their way down: each segment has a buffer of its own.
//!
//! Their identifications are those of the super-packet and its successors, in order (`inet_gso_segment`). Each has as many
//! bytes of headers as the super-packet, so its length shows which bytes of the inner packet it holds.

use super::super::udp::segments;
use super::{Leaving, MOST_NS, make_room};
use crate::event::{Event, ExtentKind};
use crate::flow::Proto;
use crate::hash::Map;
use crate::hop::Hop;
use std::collections::VecDeque;

/// Super-packets of a stream that are remembered, at most: those that wait in the queue of their device.
const MOST_OF_STREAM: usize = 64;
/// Streams with super-packets, at most.
const MOST_STREAMS: usize = 256;

#[derive(Debug)]
struct SuperPacket {
    outer: Event,
    leaving: Leaving,
}

impl SuperPacket {
    /// The bytes of the inner packet that a segment holds; `None` if it is no segment of this packet.
    fn part(&self, segment: &Event) -> Option<Event> {
        let SuperPacket { outer, leaving: Leaving { inner, .. } } = self;
        let (count, n) = (u32::from(outer.segs), segment.ip_id.wrapping_sub(outer.ip_id));
        let headers = outer.len.checked_sub(inner.len)?;
        let len = segment.len.checked_sub(headers).filter(|len| *len > 0)?;
        if segment.segs > 1 || u32::from(n) >= count {
            return None;
        }
        if inner.proto == Proto::UDP {
            return segments(inner).nth(usize::from(n)).filter(|datagram| datagram.len == len);
        }
        let is_last = u32::from(n) + 1 == count;
        let start = if is_last { inner.len.checked_sub(len)? } else { u32::from(n).checked_mul(len)? };
        // All but the last have the same length, which is no shorter than that of the last.
        let size = if is_last { start / (count - 1) } else { len };
        let is_part = size > 0 && start == size * u32::from(n) && inner.len.div_ceil(size) == count;
        let ip_id = if inner.ip_id == 0 { 0 } else { inner.ip_id.wrapping_add(n) };
        let extent = ExtentKind::Stream.of(inner.seq().wrapping_add(start));
        (is_part && inner.proto == Proto::TCP).then_some(Event { len, ip_id, extent, segs: 1, ..*inner })
    }
}

/// The newest outer super-packets of each stream.
#[derive(Debug, Default)]
pub(super) struct SuperPackets(Map<usize, VecDeque<SuperPacket>>);

impl SuperPackets {
    /// An outer packet passes a hop of sending.
    pub fn note(&mut self, outer: &Event, stream: usize, leaving: &Leaving) {
        if outer.segs < 2 || outer.ip_id == 0 {
            return;
        }
        make_room(&mut self.0, MOST_STREAMS, outer.time_ns, |packets| {
            packets.back().map_or(0, |packet| packet.leaving.newest_ns())
        });
        let packets = self.0.entry(stream).or_default();
        let packet = SuperPacket { outer: *outer, leaving: *leaving };
        packets.retain(|other| other.outer.ip_id != outer.ip_id);
        if packets.len() == MOST_OF_STREAM {
            packets.pop_front();
        }
        packets.push_back(packet);
    }

    /// The part of an inner packet that a received packet holds, which is a segment of a super-packet: an interface cut it
    /// on the way.
    pub fn received(&self, event: &Event, stream: usize) -> Option<Event> {
        let is_soon = |packet: &SuperPacket| event.time_ns.saturating_sub(packet.leaving.newest_ns()) < MOST_NS;
        let mut packets = self.0.get(&stream)?.iter().rev().filter(|packet| is_soon(packet));
        packets.find_map(|packet| packet.part(event))
    }

    /// The part of an inner packet that a packet at its device holds, which is a segment of a super-packet.
    pub fn of_segment(&self, event: &Event, stream: usize) -> Option<Leaving> {
        if !matches!(event.hop, Hop::DevQueue | Hop::DevXmit) {
            return None;
        }
        self.0.get(&stream)?.iter().rev().find_map(|packet| {
            let inner = packet.part(event)?;
            let is_segment = packet.outer.flow == event.flow && packet.leaving.is_near(event);
            is_segment.then_some(Leaving { inner, outer: Some(*event), ..packet.leaving })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::FlowId;

    const HEADERS: u32 = 74;
    const STREAM: usize = 5;

    fn packet(hop: Hop, len: u32, segs: u16, ip_id: u16) -> Event {
        let (proto, flow) = (Proto::UDP, FlowId(2));
        Event { flow, skb: 64, len: len + HEADERS, segs, ip_id, proto, socket: 7, ..Event::at(hop, 1_000) }
    }

    /// A super-packet of three segments: 100, 100 and 30 bytes of TCP from number 4,294,967,200.
    fn with_packet() -> SuperPackets {
        let (proto, extent) = (Proto::TCP, ExtentKind::Stream.of(u32::MAX - 95));
        let inner = packet(Hop::DevXmit, 230, 3, 65_000);
        let inner = Event { flow: FlowId(1), len: 230, proto, extent, ..inner };
        let outer = packet(Hop::IpPost, 230, 3, u16::MAX);
        let leaving = Leaving { inner, outer: Some(outer), waiting: [Some(outer), None] };
        let mut packets = SuperPackets::default();
        packets.note(&outer, STREAM, &leaving);
        packets
    }

    #[test]
    fn a_segment_holds_its_bytes_of_the_inner_packet() {
        let packets = with_packet();
        for (ip_id, len, seq, inner_id) in
            [(u16::MAX, 100, u32::MAX - 95, 65_000), (0, 100, 4, 65_001), (1, 30, 104, 65_002)]
        {
            let segment = packet(Hop::DevXmit, len, 1, ip_id);
            let inner = packets.of_segment(&segment, STREAM).expect("a segment").inner;
            assert_eq!((inner.seq(), inner.len, inner.ip_id, inner.segs), (seq, len, inner_id, 1));
        }
    }

    #[test]
    fn what_differs_in_one_thing_is_no_segment() {
        let packets = with_packet();
        let first = packet(Hop::DevQueue, 100, 1, u16::MAX);
        assert!(packets.of_segment(&first, STREAM).is_some());
        for other in [
            Event { ip_id: 2, ..first },
            Event { ip_id: u16::MAX - 1, ..first },
            Event { ip_id: 1, ..first },
            Event { len: first.len - 60, ..first },
            Event { len: HEADERS, ..first },
            Event { len: 1, ..first },
            Event { segs: 2, ..first },
            Event { socket: 8, ..first },
            Event { flow: FlowId(3), ..first },
            Event { hop: Hop::IpPost, ..first },
            Event { time_ns: first.time_ns + MOST_NS, ..first },
        ] {
            assert!(packets.of_segment(&other, STREAM).is_none(), "{other:?}");
        }
        assert!(packets.of_segment(&first, 6).is_none());
    }

    #[test]
    fn memory_is_bounded() {
        let mut packets = with_packet();
        let leaving = packets.0[&STREAM][0].leaving;
        for n in 0..100_000_u32 {
            packets.note(&packet(Hop::IpPost, 230, 3, n as u16), n as usize % 1_000, &leaving);
        }
        assert!(packets.0.len() <= MOST_STREAMS);
        assert!(packets.0.values().all(|of| of.len() <= MOST_OF_STREAM));
    }
}

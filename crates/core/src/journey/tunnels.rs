//! Packets inside other packets: the outer packet of a tunnel, tied to the journey of the inner one.
//!
//! **The problem.** A tunnel's device puts a packet into one of its own, which passes the hops below as a packet of
//! another flow. A journey that waits there shows nothing between its device and that of the receiver.
//!
//! **The choice.** The names of a capture say which interfaces are tunnels. The outer packet takes the buffer of the
//! inner one: what leaves in the buffer of a packet that such an interface has just accepted is its outer packet, and
//! what such an interface receives was inside the packet that arrived in this buffer. Both have to be a little longer
//! than the inner one. Where both ends are in the capture, the identification of the outer packet shows its arrival too,
//! because a kernel that shares a packet with its sender copies it before it takes the inner one out. The hops of outer
//! packets become passages of the inner journey; they keep journeys of their own.
//!
//! **Known limits.** Where a tunnel copies, cuts or merges packets, as `WireGuard` does with super-packets, the outer
//! flow is alone. Of nested tunnels each packet is tied to the next one. `IPsec` without an interface shows no tie.

use super::correlator::Correlator;
use super::journey::Journey;
use crate::event::Event;
use crate::flow::FlowId;
use crate::hash::Set;
use crate::hop::{Direction, Hop};
use crate::node::InterfaceName;

/// Buffers remembered in each direction.
const PLACES: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 7;
/// Outer packets on their way, at most.
const SENT_BITS: u32 = 10;
/// Interfaces of tunnels, at most.
const MOST_INTERFACES: usize = 4_096;
/// Most bytes of headers that a tunnel adds: those of the inner packet, which do not count as its length, and its own.
const MOST_ADDED: u32 = 256;
/// Maximum time between two hops of a packet in one node, nanoseconds.
const MOST_NS: u64 = 1_000_000_000;
/// Hops of one packet from its device up, at most.
const MOST_HOPS: usize = 4;

/// A packet that a tunnel's device has accepted.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    inner: Event,
    /// The flow of its outer packet, once that was seen.
    outer: FlowId,
    newest_ns: u64,
}

/// The hops of a packet that arrived and may have another one inside.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Arriving {
    hops: [Option<Event>; MOST_HOPS],
    newest: Event,
    /// The packet inside was found by the identification, and its hops are recorded.
    is_recorded: bool,
}

/// An outer packet with an identification, which is on its way.
#[derive(Clone, Copy, Debug)]
struct Sent {
    stream: usize,
    outer: Event,
    inner: Event,
}

/// The interfaces of tunnels, and the newest packet in each buffer.
#[derive(Debug, Default)]
pub(super) struct Tunnels {
    interfaces: Set<(u32, u32)>,
    leaving: Vec<Option<Leaving>>,
    arriving: Vec<Option<Arriving>>,
    sent: Vec<Option<Sent>>,
    /// The outer packet of the event that is being processed.
    arrived: Option<Arriving>,
}

/// True if a packet of `outer` bytes can have one of `inner` bytes inside.
const fn fits(inner: u32, outer: u32) -> bool {
    outer > inner && outer - inner <= MOST_ADDED
}

const fn place_of(skb: u32) -> usize {
    (skb.wrapping_mul(0x9e37_79b9) >> (u32::BITS - PLACE_BITS)) as usize
}

/// The place of an outer packet that is on its way, in a stream.
fn sent_place(event: &Event, stream: usize) -> usize {
    let key = (stream as u32).wrapping_mul(0x85eb_ca6b) ^ u32::from(event.ip_id);
    (key.wrapping_mul(0x9e37_79b9) >> (u32::BITS - SENT_BITS)) as usize
}

impl Tunnels {
    /// Takes over the names of interfaces.
    pub fn learn(&mut self, names: &[InterfaceName]) {
        for name in names {
            let place = (name.netns, name.index);
            if !name.is_tunnel() {
                self.interfaces.remove(&place);
            } else if self.interfaces.len() < MOST_INTERFACES {
                self.interfaces.insert(place);
            }
        }
        if !self.interfaces.is_empty() && self.leaving.is_empty() {
            self.leaving = vec![None; PLACES];
            self.arriving = vec![None; PLACES];
            self.sent = vec![None; 1 << SENT_BITS];
        }
    }

    /// False without any tunnel: then packets cost nothing here.
    #[inline]
    pub const fn has_any(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// True after a packet came out of a tunnel, until its hops are recorded.
    #[inline]
    pub const fn has_arrived(&self) -> bool {
        self.arrived.is_some()
    }

    /// A packet of a stream passes a hop of sending. Returns the packet inside it.
    fn send(&mut self, event: &Event, netns: u32, stream: usize) -> Option<Event> {
        let place = self.leaving.get_mut(place_of(event.skb))?;
        let mut inside = None;
        if let Some(leaving) = place.as_mut().filter(|leaving| leaving.inner.skb == event.skb) {
            let is_soon = event.time_ns.saturating_sub(leaving.newest_ns) < MOST_NS;
            let is_first = leaving.outer.is_none() && fits(leaving.inner.len, event.len);
            if is_soon && leaving.inner.flow != event.flow && (is_first || leaving.outer == event.flow) {
                (leaving.outer, leaving.newest_ns) = (event.flow, event.time_ns);
                inside = Some(leaving.inner);
                if let Some(sent) = self.sent.get_mut(sent_place(event, stream)).filter(|_| event.ip_id != 0) {
                    *sent = Some(Sent { stream, outer: *event, inner: leaving.inner });
                }
            } else {
                *place = None;
            }
        }
        if event.hop == Hop::DevXmit && self.interfaces.contains(&(netns, event.ifindex)) {
            *place = Some(Leaving { inner: *event, outer: FlowId::NONE, newest_ns: event.time_ns });
        }
        inside
    }

    /// A packet of a stream passes a hop of reception; if a tunnel's interface has it, its outer packet is due. Returns
    /// the packet inside it, if its identification shows that.
    fn receive(&mut self, event: &Event, netns: u32, stream: usize) -> Option<Event> {
        let index = place_of(event.skb);
        if let Some(place) = self.leaving.get_mut(index) {
            *place = place.filter(|leaving| leaving.inner.skb != event.skb);
        }
        let inside = self.inside(event, stream);
        let place = self.arriving.get_mut(index)?;
        let before = place.take().filter(|arriving| {
            let newest = &arriving.newest;
            newest.skb == event.skb && event.time_ns.saturating_sub(newest.time_ns) < MOST_NS
        });
        let is_from_tunnel = matches!(event.hop, Hop::NapiPoll | Hop::DevRecv)
            && self.interfaces.contains(&(netns, event.ifindex));
        let is_other = |arriving: &Arriving| arriving.newest.flow != event.flow;
        if is_from_tunnel {
            let fits = |outer: &Arriving| is_other(outer) && fits(event.len, outer.newest.len);
            self.arrived = before.filter(|outer| fits(outer) && !outer.is_recorded);
        }
        let is_next = |arriving: &Arriving| {
            let newest = &arriving.newest;
            !is_other(arriving)
                && newest.len == event.len
                && newest.ip_id == event.ip_id
                && newest.hop < event.hop
        };
        let mut hops = before.filter(is_next).map_or([None; MOST_HOPS], |arriving| arriving.hops);
        if let Some(free) = hops.iter_mut().find(|hop| hop.is_none()) {
            *free = Some(*event);
        }
        *place = Some(Arriving { hops, newest: *event, is_recorded: inside.is_some() });
        inside
    }

    /// The packet inside one that is on its way in a stream, by its identification.
    fn inside(&self, event: &Event, stream: usize) -> Option<Event> {
        let sent = self.sent.get(sent_place(event, stream)).and_then(Option::as_ref)?;
        let is_soon = event.time_ns.saturating_sub(sent.outer.time_ns) < MOST_NS;
        let is_it = (sent.stream, sent.outer.ip_id, sent.outer.len) == (stream, event.ip_id, event.len)
            && event.ip_id != 0;
        (is_soon && is_it).then_some(sent.inner)
    }

    /// The kernel dropped a packet, which may be of these streams. Returns the packet inside it.
    fn drop(&mut self, event: &Event, streams: [Option<u32>; 2]) -> Option<Event> {
        let index = place_of(event.skb);
        if let Some(place) = self.arriving.get_mut(index) {
            *place = None;
        }
        let leaving = self.leaving.get_mut(index)?.take().filter(|leaving| leaving.inner.skb == event.skb);
        let is_outer = |leaving: &Leaving| {
            let is_soon = event.time_ns.saturating_sub(leaving.newest_ns) < MOST_NS;
            is_soon && leaving.outer == event.flow && !event.flow.is_none()
        };
        let by_identification = || streams.into_iter().flatten().find_map(|of| self.inside(event, of as usize));
        leaving.filter(is_outer).map(|leaving| leaving.inner).or_else(by_identification)
    }
}

impl Correlator {
    /// Ties the outer packet of a tunnel to the journey of the inner one.
    pub(super) fn follow_tunnel(&mut self, event: &Event, stream: usize, done: &mut Vec<Journey>) {
        let Some(netns) = self.directory.get(event.flow).map(|flow| flow.netns) else { return };
        let inside = if event.hop.direction() == Direction::Rx {
            self.tunnels.receive(event, netns, stream)
        } else {
            self.tunnels.send(event, netns, stream)
        };
        if let Some(inner) = inside {
            self.state.counters.tunnelled += 1;
            self.record_outer(&inner, event, done);
        }
    }

    /// The event of an inner packet was recorded: the hops of its outer packet follow.
    pub(super) fn note_arrived(&mut self, inner: &Event, done: &mut Vec<Journey>) {
        let Some(outer) = self.tunnels.arrived.take() else { return };
        self.state.counters.tunnelled += 1;
        for hop in outer.hops.iter().flatten() {
            self.record_outer(inner, hop, done);
        }
    }

    /// The packet inside a dropped one, as dropped there.
    pub(super) fn dropped_inside(&mut self, event: &Event) -> Option<Event> {
        if !self.tunnels.has_any() {
            return None;
        }
        let inner = self.tunnels.drop(event, self.directory.streams_of(event.flow))?;
        let Event { time_ns, ifindex, cpu, detail, hop, .. } = *event;
        Some(Event { time_ns, ifindex, cpu, detail, hop, ..inner })
    }

    /// Records a hop of an outer packet on the bytes of the inner one.
    fn record_outer(&mut self, inner: &Event, outer: &Event, done: &mut Vec<Journey>) {
        let Some(slot) = self.directory.stream(inner.flow, inner.hop.direction(), &mut self.streams) else {
            return;
        };
        let Event { time_ns, flow, ifindex, cpu, hop, .. } = *outer;
        let passing = Event { time_ns, flow, ifindex, cpu, hop, ..*inner };
        self.pass(&passing, slot, true, done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETNS: u32 = 3;
    const VXLAN: u32 = 7;

    fn tunnels() -> Tunnels {
        let mut tunnels = Tunnels::default();
        let name = |index, kind: &str| {
            let (name, kind) = (format!("if{index}"), kind.to_owned());
            InterfaceName { netns: NETNS, index, name, kind }
        };
        tunnels.learn(&[name(2, ""), name(3, "veth"), name(VXLAN, "vxlan")]);
        tunnels
    }

    fn packet(hop: Hop, flow: u64, len: u32, ifindex: u32) -> Event {
        Event { flow: FlowId(flow), skb: 64, len, ifindex, ip_id: 5, ..Event::at(hop, 1_000) }
    }

    #[test]
    fn the_next_packet_in_the_buffer_is_the_outer_one() {
        let mut tunnels = tunnels();
        assert_eq!(tunnels.send(&packet(Hop::DevXmit, 1, 100, VXLAN), NETNS, 0), None);
        for hop in [Hop::IpOut, Hop::DevXmit] {
            let inside = tunnels.send(&packet(hop, 2, 150, 2), NETNS, 0).expect("the inner packet");
            assert_eq!(inside.flow, FlowId(1));
        }
        assert_eq!(tunnels.send(&packet(Hop::IpOut, 3, 150, 2), NETNS, 0), None, "another packet");
        assert_eq!(tunnels.send(&packet(Hop::DevXmit, 2, 150, 2), NETNS, 0), None, "the tie is gone");
    }

    #[test]
    fn only_a_tunnel_and_a_longer_packet_make_a_tie() {
        for (ifindex, len, is_soon) in
            [(3, 150, true), (VXLAN, 100, true), (VXLAN, 99, true), (VXLAN, 400, true), (VXLAN, 150, false)]
        {
            let mut tunnels = tunnels();
            tunnels.send(&packet(Hop::DevXmit, 1, 100, ifindex), NETNS, 0);
            let later_ns = if is_soon { 0 } else { MOST_NS };
            let mut outer = packet(Hop::IpOut, 2, len, 2);
            outer.time_ns += later_ns;
            assert_eq!(tunnels.send(&outer, NETNS, 0), None, "{ifindex} {len}");
        }
        let mut tunnels = tunnels();
        tunnels.send(&packet(Hop::DevXmit, 1, 100, VXLAN), NETNS + 1, 0);
        assert_eq!(tunnels.send(&packet(Hop::IpOut, 2, 150, 2), NETNS + 1, 0), None, "of another namespace");
    }

    #[test]
    fn an_inner_packet_arrives_in_the_buffer_of_its_outer_one() {
        let mut tunnels = tunnels();
        for hop in [Hop::DevRecv, Hop::IpPre, Hop::IpIn] {
            tunnels.receive(&packet(hop, 2, 150, 2), NETNS, 0);
        }
        tunnels.receive(&packet(Hop::DevRecv, 1, 100, VXLAN), NETNS, 0);
        let outer = tunnels.arrived.take().expect("the outer packet");
        let hops: Vec<Hop> = outer.hops.iter().flatten().map(|event| event.hop).collect();
        assert_eq!(hops, [Hop::DevRecv, Hop::IpPre, Hop::IpIn]);
        // A later hop of the inner packet is no second arrival.
        tunnels.receive(&packet(Hop::IpPre, 1, 100, VXLAN), NETNS, 0);
        assert!(tunnels.arrived.is_none());
    }

    #[test]
    fn hops_of_the_packet_before_in_this_buffer_are_not_those_of_the_outer_one() {
        let mut tunnels = tunnels();
        tunnels.receive(&packet(Hop::DevRecv, 2, 150, 2), NETNS, 0);
        tunnels.receive(&packet(Hop::IpIn, 2, 150, 2), NETNS, 0);
        tunnels.receive(&Event { ip_id: 6, ..packet(Hop::DevRecv, 2, 150, 2) }, NETNS, 0);
        tunnels.receive(&packet(Hop::DevRecv, 1, 100, VXLAN), NETNS, 0);
        let outer = tunnels.arrived.take().expect("the outer packet");
        assert_eq!(outer.hops.iter().flatten().count(), 1);
    }

    #[test]
    fn an_identification_shows_the_arrival_of_an_outer_packet() {
        let mut tunnels = tunnels();
        tunnels.send(&packet(Hop::DevXmit, 1, 100, VXLAN), NETNS, 4);
        tunnels.send(&packet(Hop::IpOut, 2, 150, 2), NETNS, 5);
        let arrives = |hop, ip_id| Event { skb: 99, ip_id, ..packet(hop, 9, 150, 2) };
        for (hop, ip_id, stream) in [(Hop::DevRecv, 6, 5), (Hop::DevRecv, 5, 6), (Hop::DevRecv, 0, 5)] {
            assert_eq!(tunnels.receive(&arrives(hop, ip_id), NETNS, stream), None);
        }
        for hop in [Hop::DevRecv, Hop::IpIn] {
            let inside = tunnels.receive(&arrives(hop, 5), NETNS, 5).expect("the inner packet");
            assert_eq!(inside.flow, FlowId(1));
        }
        let dropped = tunnels.drop(&arrives(Hop::SkbDrop, 5), [Some(4), Some(5)]);
        assert_eq!(dropped.map(|inner| inner.flow), Some(FlowId(1)));
        // Its hops are recorded, although it comes out of the same buffer.
        tunnels.receive(&Event { skb: 99, ..packet(Hop::DevRecv, 8, 100, VXLAN) }, NETNS, 4);
        assert!(!tunnels.has_arrived());
    }

    #[test]
    fn a_dropped_outer_packet_takes_the_inner_one_with_it() {
        let mut tunnels = tunnels();
        tunnels.send(&packet(Hop::DevXmit, 1, 100, VXLAN), NETNS, 0);
        assert_eq!(tunnels.drop(&packet(Hop::SkbDrop, 1, 100, VXLAN), [None; 2]), None, "the inner one itself");
        tunnels.send(&packet(Hop::DevXmit, 1, 100, VXLAN), NETNS, 0);
        tunnels.send(&packet(Hop::IpOut, 2, 150, 2), NETNS, 0);
        let inside = tunnels.drop(&packet(Hop::SkbDrop, 2, 150, 2), [None; 2]).expect("the inner packet");
        assert_eq!(inside.flow, FlowId(1));
        assert_eq!(tunnels.drop(&packet(Hop::SkbDrop, 2, 150, 2), [None; 2]), None);
    }

    #[test]
    fn an_interface_that_has_become_another_one_is_no_tunnel() {
        let mut tunnels = tunnels();
        let name = "eth0".to_owned();
        tunnels.learn(&[InterfaceName { netns: NETNS, index: VXLAN, name, kind: "veth".to_owned() }]);
        tunnels.send(&packet(Hop::DevXmit, 1, 100, VXLAN), NETNS, 0);
        assert_eq!(tunnels.send(&packet(Hop::IpOut, 2, 150, 2), NETNS, 0), None);
    }
}

//! Packets inside other packets: the outer packet of a tunnel, tied to the journey of the inner one.
//!
//! **The problem.** A tunnel's device puts a packet into one of its own, which passes the hops below as a packet of
//! another flow. A journey that waits there shows nothing between its device and that of the receiver.
//!
//! **The choice.** The names of a capture say which interfaces are tunnels. The outer packet takes the buffer of the
//! inner one: what leaves in the buffer of a packet that such an interface has just accepted is its outer packet, and
//! what such an interface receives was inside the packet that arrived in this buffer. An outer packet is a little longer
//! than its inner one. Where both ends are in the capture, the identification of the outer packet shows its arrival too,
//! because a kernel that shares a packet with its sender copies it before it takes the inner one out. A buffer is used
//! again at once, and a tunnel may free a packet without a drop. So an outer packet is neither of TCP nor of a flow in which
//! a program sends or reads, and at its device it has the socket of the inner packet, or none. The segments of a
//! super-packet are in other buffers; [`cut`] finds them. The hops of outer packets become passages of the inner journey;
//! they keep journeys of their own.
//!
//! **Known limits.** Where a tunnel itself copies, cuts or merges packets, as `WireGuard` does with super-packets, the
//! outer flow is alone. Of nested tunnels each packet is tied to the next one. `IPsec` without an interface shows no tie.

mod cut;

use self::cut::SuperPackets;
use super::correlator::Correlator;
use super::journey::Journey;
use crate::event::Event;
use crate::flow::Proto;
use crate::hash::{Map, Set};
use crate::hop::{Direction, Hop};
use crate::node::InterfaceName;
use std::hash::Hash;

/// Packets remembered in each of the tables, at most.
const MOST_PACKETS: usize = 4_096;
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
    /// The newest hop of its outer packet.
    outer: Option<Event>,
    /// Hops of the outer packet above its device, which shows whose packet it is.
    waiting: [Option<Event>; 2],
}

/// The packet inside an outer one, and hops of that to be recorded.
#[derive(Clone, Copy, Debug)]
struct Inside {
    inner: Event,
    outer: [Option<Event>; 3],
}

/// The hops of a packet that arrived and may have another one inside.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Arriving {
    hops: [Option<Event>; MOST_HOPS],
    newest: Event,
    /// The packet inside was found by the identification, and its hops are recorded.
    is_recorded: bool,
    /// A program has its flow.
    is_of_program: bool,
}

impl Arriving {
    /// A packet of which no hop is recorded so far.
    const fn new(event: &Event) -> Self {
        Arriving { hops: [None; MOST_HOPS], newest: *event, is_recorded: false, is_of_program: false }
    }

    /// True if an event is at the next hop of the same packet.
    fn goes_on(&self, event: &Event) -> bool {
        is_same(&self.newest, event) && self.newest.hop < event.hop
    }
}

/// True if two events in one buffer are of the same packet. The buffer is soon that of another packet of the flow.
fn is_same(one: &Event, other: &Event) -> bool {
    (one.flow, one.len, one.ip_id) == (other.flow, other.len, other.ip_id)
}

/// Where a packet of a stream is.
#[derive(Clone, Copy, Debug)]
struct Place {
    netns: u32,
    stream: usize,
    /// A program has its flow at this end.
    is_of_program: bool,
}

impl Leaving {
    const fn new(inner: &Event) -> Self {
        Leaving { inner: *inner, outer: None, waiting: [None; 2] }
    }

    fn newest_ns(&self) -> u64 {
        self.outer.map_or(self.inner.time_ns, |outer| outer.time_ns)
    }

    /// True if an event follows soon, and has at its device the socket of the inner packet, or none.
    fn is_near(&self, event: &Event) -> bool {
        let is_soon = event.time_ns.saturating_sub(self.newest_ns()) < MOST_NS;
        let is_at_device = matches!(event.hop, Hop::DevQueue | Hop::DevXmit);
        is_soon && (!is_at_device || event.socket == 0 || event.socket == self.inner.socket)
    }

    /// True if an event is the next one of the outer packet.
    fn goes_on(&mut self, event: &Event, at: &Place) -> bool {
        let is_next = match &self.outer {
            None => may_hold(&self.inner, event, at.is_of_program),
            Some(outer) => is_same(outer, event),
        };
        let goes_on = is_next && self.is_near(event);
        if goes_on {
            self.outer = Some(*event);
        }
        goes_on
    }
}

/// An outer packet with an identification, which is on its way.
#[derive(Clone, Copy, Debug)]
struct Sent {
    outer: Event,
    inner: Event,
}

/// The interfaces of tunnels, and the newest packet in each buffer.
#[derive(Debug, Default)]
pub(super) struct Tunnels {
    interfaces: Set<(u32, u32)>,
    /// By their buffer.
    leaving: Map<u32, Leaving>,
    arriving: Map<u32, Arriving>,
    cut: SuperPackets,
    /// By their stream and identification.
    sent: Map<(usize, u16), Sent>,
    /// The outer packet of the event that is being processed.
    arrived: Option<Arriving>,
}

/// True if a packet may have another one inside: by their lengths, and because no program has its flow.
fn may_hold(inner: &Event, outer: &Event, is_of_program: bool) -> bool {
    let added = outer.len.saturating_sub(inner.len);
    let has_length = (1..=MOST_ADDED).contains(&added);
    has_length && outer.flow != inner.flow && outer.proto != Proto::TCP && !is_of_program
}

/// Makes room in a table with `most` entries: removes what is too old to go on, and everything if that is not enough.
fn make_room<K: Eq + Hash, T>(table: &mut Map<K, T>, most: usize, now_ns: u64, time_ns: impl Fn(&T) -> u64) {
    if table.len() < most {
        return;
    }
    table.retain(|_, one| now_ns.saturating_sub(time_ns(one)) < MOST_NS);
    if table.len() > most / 2 {
        table.clear();
    }
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
    }

    /// False without any tunnel: then packets cost nothing here.
    #[inline]
    pub fn has_any(&self) -> bool {
        !self.interfaces.is_empty()
    }

    /// True after a packet came out of a tunnel, until its hops are recorded.
    #[inline]
    pub const fn has_arrived(&self) -> bool {
        self.arrived.is_some()
    }

    /// A packet of a stream passes a hop of sending. Returns the packet inside it.
    fn send(&mut self, event: &Event, at: &Place) -> Option<Inside> {
        let mut inside = None;
        let in_buffer = self.leaving.remove(&event.skb);
        let goes_on = in_buffer.and_then(|mut leaving| leaving.goes_on(event, at).then_some(leaving));
        if let Some(mut leaving) = goes_on.or_else(|| self.cut.of_segment(event, at.stream)) {
            if matches!(event.hop, Hop::DevQueue | Hop::DevXmit) {
                let [above, next] = std::mem::take(&mut leaving.waiting);
                inside = Some(Inside { inner: leaving.inner, outer: [above, next, Some(*event)] });
                if event.ip_id != 0 {
                    make_room(&mut self.sent, MOST_PACKETS, event.time_ns, |sent| sent.outer.time_ns);
                    let sent = Sent { outer: *event, inner: leaving.inner };
                    self.sent.insert((at.stream, event.ip_id), sent);
                }
            } else if let Some(free) = leaving.waiting.iter_mut().find(|hop| hop.is_none()) {
                *free = Some(*event);
            }
            self.cut.note(event, at.stream, &leaving);
            self.leaving.insert(event.skb, leaving);
        }
        if event.hop == Hop::DevXmit && self.interfaces.contains(&(at.netns, event.ifindex)) {
            make_room(&mut self.leaving, MOST_PACKETS, event.time_ns, Leaving::newest_ns);
            self.leaving.insert(event.skb, Leaving::new(event));
        }
        inside
    }

    /// A packet of a stream passes a hop of reception; if a tunnel's interface has it, its outer packet is due. Returns
    /// the packet inside it, if its identification shows that.
    fn receive(&mut self, event: &Event, at: &Place) -> Option<Event> {
        self.leaving.remove(&event.skb);
        let inside = self.inside(event, at.stream);
        make_room(&mut self.arriving, MOST_PACKETS, event.time_ns, |arriving| arriving.newest.time_ns);
        let arriving = self.arriving.entry(event.skb).or_insert_with(|| Arriving::new(event));
        let is_soon = event.time_ns.saturating_sub(arriving.newest.time_ns) < MOST_NS;
        let is_from_tunnel = matches!(event.hop, Hop::NapiPoll | Hop::DevRecv)
            && self.interfaces.contains(&(at.netns, event.ifindex));
        if is_from_tunnel {
            let is_outer = is_soon
                && !arriving.is_recorded
                && arriving.newest.hop <= Hop::IpIn
                && may_hold(event, &arriving.newest, arriving.is_of_program);
            self.arrived = is_outer.then_some(*arriving);
        }
        if !is_soon || !arriving.goes_on(event) {
            arriving.hops = [None; MOST_HOPS];
        }
        if let Some(free) = arriving.hops.iter_mut().find(|hop| hop.is_none()) {
            *free = Some(*event);
        }
        arriving.newest = *event;
        (arriving.is_recorded, arriving.is_of_program) = (inside.is_some(), at.is_of_program);
        inside
    }

    /// The packet inside one that is on its way in a stream, by its identification.
    fn inside(&self, event: &Event, stream: usize) -> Option<Event> {
        let is_it = |sent: &&Sent| {
            sent.outer.len == event.len && event.time_ns.saturating_sub(sent.outer.time_ns) < MOST_NS
        };
        let whole = self.sent.get(&(stream, event.ip_id)).filter(is_it);
        whole.map(|sent| sent.inner).or_else(|| self.cut.received(event, stream))
    }

    /// The kernel dropped a packet, which may be of these streams. Returns the packet inside it.
    fn drop(&mut self, event: &Event, streams: [Option<u32>; 2]) -> Option<Inside> {
        self.arriving.remove(&event.skb);
        let leaving = self.leaving.remove(&event.skb);
        let is_outer = |leaving: &Leaving| {
            let is_its_flow = leaving.outer.is_some_and(|outer| outer.flow == event.flow);
            is_its_flow && event.time_ns.saturating_sub(leaving.newest_ns()) < MOST_NS
        };
        if let Some(Leaving { inner, waiting: [above, next], .. }) = leaving.filter(is_outer) {
            return Some(Inside { inner, outer: [above, next, None] });
        }
        let inner = streams.into_iter().flatten().find_map(|of| self.inside(event, of as usize))?;
        Some(Inside { inner, outer: [None; 3] })
    }
}

impl Correlator {
    /// Ties the outer packet of a tunnel to the journey of the inner one.
    pub(super) fn follow_tunnel(&mut self, event: &Event, stream: usize, done: &mut Vec<Journey>) {
        let Some(netns) = self.directory.get(event.flow).map(|flow| flow.netns) else { return };
        let is_of_program = self.streams.get(stream).is_some_and(|of| of.has_calls);
        let at = Place { netns, stream, is_of_program };
        if event.hop.direction() == Direction::Rx {
            if let Some(inner) = self.tunnels.receive(event, &at) {
                self.record_outer(&inner, event, done);
            }
        } else if let Some(Inside { inner, outer }) = self.tunnels.send(event, &at) {
            outer.iter().flatten().for_each(|hop| self.record_outer(&inner, hop, done));
        }
    }

    /// The event of an inner packet was recorded: the hops of its outer packet follow.
    pub(super) fn note_arrived(&mut self, inner: &Event, done: &mut Vec<Journey>) {
        let Some(outer) = self.tunnels.arrived.take() else { return };
        for hop in outer.hops.iter().flatten() {
            self.record_outer(inner, hop, done);
        }
    }

    /// The packet inside a dropped one, as dropped there.
    pub(super) fn dropped_inside(&mut self, event: &Event, done: &mut Vec<Journey>) -> Option<Event> {
        if !self.tunnels.has_any() {
            return None;
        }
        let Inside { inner, outer } = self.tunnels.drop(event, self.directory.streams_of(event.flow))?;
        outer.iter().flatten().for_each(|hop| self.record_outer(&inner, hop, done));
        let Event { time_ns, ifindex, cpu, detail, hop, .. } = *event;
        Some(Event { time_ns, ifindex, cpu, detail, hop, ..inner })
    }

    /// Records a hop of an outer packet on the bytes of the inner one.
    fn record_outer(&mut self, inner: &Event, outer: &Event, done: &mut Vec<Journey>) {
        let Some(slot) = self.directory.stream(inner.flow, inner.hop.direction(), &mut self.streams) else {
            return;
        };
        self.state.counters.tunnelled += 1;
        let Event { time_ns, flow, ifindex, cpu, hop, .. } = *outer;
        let passing = Event { time_ns, flow, ifindex, cpu, hop, ..*inner };
        self.pass(&passing, slot, true, done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::FlowId;

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

    const HERE: Place = Place { netns: NETNS, stream: 0, is_of_program: false };

    fn packet(hop: Hop, flow: u64, len: u32, ifindex: u32) -> Event {
        let proto = Proto::UDP;
        Event { flow: FlowId(flow), skb: 64, len, ifindex, ip_id: 5, proto, ..Event::at(hop, 1_000) }
    }

    /// The inner packet that an event shows, and the hops to be recorded.
    fn shown(inside: Option<&Inside>) -> Option<(u64, Vec<Hop>)> {
        inside
            .map(|inside| (inside.inner.flow.0, inside.outer.iter().flatten().map(|event| event.hop).collect()))
    }

    #[test]
    fn the_next_packet_in_the_buffer_is_the_outer_one() {
        let mut tunnels = tunnels();
        let mut send = |event: Event| shown(tunnels.send(&event, &HERE).as_ref());
        assert_eq!(send(packet(Hop::DevXmit, 1, 100, VXLAN)), None);
        assert_eq!(send(packet(Hop::IpOut, 2, 150, 2)), None, "whose packet it is shows at its device");
        assert_eq!(send(packet(Hop::DevQueue, 2, 150, 2)), Some((1, vec![Hop::IpOut, Hop::DevQueue])));
        assert_eq!(send(packet(Hop::DevXmit, 2, 150, 2)), Some((1, vec![Hop::DevXmit])));
        assert_eq!(send(packet(Hop::DevXmit, 3, 150, 2)), None, "another packet");
        assert_eq!(send(packet(Hop::DevXmit, 2, 150, 2)), None, "the tie is gone");
    }

    #[test]
    fn only_a_tunnel_and_a_longer_packet_of_no_other_socket_make_a_tie() {
        let outer = packet(Hop::DevQueue, 2, 150, 2);
        let later = Event { time_ns: outer.time_ns + MOST_NS, ..outer };
        let tries = [
            (VXLAN, HERE, outer, true),
            (VXLAN, HERE, Event { socket: 5, ..outer }, true),
            (VXLAN, HERE, Event { socket: 6, ..outer }, false),
            (VXLAN, HERE, Event { proto: Proto::TCP, ..outer }, false),
            (VXLAN, HERE, Event { len: 100, ..outer }, false),
            (VXLAN, HERE, Event { len: 400, ..outer }, false),
            (VXLAN, HERE, later, false),
            (VXLAN, Place { is_of_program: true, ..HERE }, outer, false),
            (VXLAN, Place { netns: NETNS + 1, ..HERE }, outer, false),
            (3, HERE, outer, false),
        ];
        for (ifindex, at, outer, is_tied) in tries {
            let mut tunnels = tunnels();
            tunnels.send(&Event { socket: 5, ..packet(Hop::DevXmit, 1, 100, ifindex) }, &at);
            assert_eq!(tunnels.send(&outer, &at).is_some(), is_tied, "{ifindex} {at:?} {outer:?}");
        }
    }

    #[test]
    fn what_a_socket_has_received_holds_no_other_packet() {
        let program = Place { is_of_program: true, ..HERE };
        for (last, at, is_tied) in
            [(Hop::IpIn, HERE, true), (Hop::UdpRecv, HERE, false), (Hop::IpIn, program, false)]
        {
            let mut tunnels = tunnels();
            tunnels.receive(&packet(Hop::DevRecv, 2, 150, 2), &at);
            tunnels.receive(&packet(last, 2, 150, 2), &at);
            tunnels.receive(&packet(Hop::DevRecv, 1, 100, VXLAN), &HERE);
            assert_eq!(tunnels.has_arrived(), is_tied, "{last} {at:?}");
        }
    }

    #[test]
    fn an_inner_packet_arrives_in_the_buffer_of_its_outer_one() {
        let mut tunnels = tunnels();
        for hop in [Hop::DevRecv, Hop::IpPre, Hop::IpIn] {
            tunnels.receive(&packet(hop, 2, 150, 2), &HERE);
        }
        tunnels.receive(&packet(Hop::DevRecv, 1, 100, VXLAN), &HERE);
        let outer = tunnels.arrived.take().expect("the outer packet");
        let hops: Vec<Hop> = outer.hops.iter().flatten().map(|event| event.hop).collect();
        assert_eq!(hops, [Hop::DevRecv, Hop::IpPre, Hop::IpIn]);
        // A later hop of the inner packet is no second arrival.
        tunnels.receive(&packet(Hop::IpPre, 1, 100, VXLAN), &HERE);
        assert!(tunnels.arrived.is_none());
    }

    #[test]
    fn hops_of_the_packet_before_in_this_buffer_are_not_those_of_the_outer_one() {
        let mut tunnels = tunnels();
        tunnels.receive(&packet(Hop::DevRecv, 2, 150, 2), &HERE);
        tunnels.receive(&packet(Hop::IpIn, 2, 150, 2), &HERE);
        tunnels.receive(&Event { ip_id: 6, ..packet(Hop::DevRecv, 2, 150, 2) }, &HERE);
        tunnels.receive(&packet(Hop::DevRecv, 1, 100, VXLAN), &HERE);
        let outer = tunnels.arrived.take().expect("the outer packet");
        assert_eq!(outer.hops.iter().flatten().count(), 1);
    }

    #[test]
    fn an_identification_shows_the_arrival_of_an_outer_packet() {
        let mut tunnels = tunnels();
        tunnels.send(&packet(Hop::DevXmit, 1, 100, VXLAN), &Place { stream: 4, ..HERE });
        tunnels.send(&packet(Hop::DevXmit, 2, 150, 2), &Place { stream: 5, ..HERE });
        let arrives = |hop, ip_id| Event { skb: 99, ip_id, ..packet(hop, 9, 150, 2) };
        for (hop, ip_id, stream) in [(Hop::DevRecv, 6, 5), (Hop::DevRecv, 5, 6), (Hop::DevRecv, 0, 5)] {
            assert_eq!(tunnels.receive(&arrives(hop, ip_id), &Place { stream, ..HERE }), None);
        }
        for hop in [Hop::DevRecv, Hop::IpIn] {
            let inside =
                tunnels.receive(&arrives(hop, 5), &Place { stream: 5, ..HERE }).expect("the inner packet");
            assert_eq!(inside.flow, FlowId(1));
        }
        let dropped = tunnels.drop(&arrives(Hop::SkbDrop, 5), [Some(4), Some(5)]);
        assert_eq!(shown(dropped.as_ref()), Some((1, vec![])));
        // Its hops are recorded, although it comes out of the same buffer.
        tunnels
            .receive(&Event { skb: 99, ..packet(Hop::DevRecv, 8, 100, VXLAN) }, &Place { stream: 4, ..HERE });
        assert!(!tunnels.has_arrived());
    }

    #[test]
    fn a_dropped_outer_packet_takes_the_inner_one_with_it() {
        let mut tunnels = tunnels();
        tunnels.send(&packet(Hop::DevXmit, 1, 100, VXLAN), &HERE);
        let mut drop = |flow, len, ifindex| {
            shown(tunnels.drop(&packet(Hop::SkbDrop, flow, len, ifindex), [None; 2]).as_ref())
        };
        assert_eq!(drop(1, 100, VXLAN), None, "the inner one itself");
        tunnels.send(&packet(Hop::DevXmit, 1, 100, VXLAN), &HERE);
        tunnels.send(&packet(Hop::IpOut, 2, 150, 2), &HERE);
        let mut drop = |flow, len, ifindex| {
            shown(tunnels.drop(&packet(Hop::SkbDrop, flow, len, ifindex), [None; 2]).as_ref())
        };
        assert_eq!(drop(2, 150, 2), Some((1, vec![Hop::IpOut])), "with the hop before its device");
        assert_eq!(drop(2, 150, 2), None);
    }

    #[test]
    fn an_interface_that_has_become_another_one_is_no_tunnel() {
        let mut tunnels = tunnels();
        let name = "eth0".to_owned();
        tunnels.learn(&[InterfaceName { netns: NETNS, index: VXLAN, name, kind: "veth".to_owned() }]);
        tunnels.send(&packet(Hop::DevXmit, 1, 100, VXLAN), &HERE);
        assert!(tunnels.send(&packet(Hop::DevXmit, 2, 150, 2), &HERE).is_none());
    }
}

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
//! Where the receiver copies a packet before it takes the inner one out, that is in a buffer of an earlier packet, which
//! may have been an outer one with an inner one of the same length. Packets come out of a tunnel in the order of their
//! outer packets. So such an earlier one differs from the true one: its own inner packet has come out meanwhile, in
//! another buffer, and the true one came later. See [`Tunnels::is_proven`].
//!
//! **Known limits.** Where a tunnel itself copies, cuts or merges packets, as `WireGuard` does with super-packets, the
//! outer flow is alone. So it is at a receiver that is captured alone and copies packets, as that of a veth pair does.
//! Of nested tunnels each packet is tied to the next one. `IPsec` without an interface shows no tie.

mod cut;

use self::cut::SuperPackets;
use super::correlator::Correlator;
use super::journey::Journey;
use super::state::Encloses;
use crate::event::Event;
use crate::flow::{FlowId, Proto};
use crate::hash::{Map, Set};
use crate::hop::{Direction, Hop};
use crate::node::InterfaceName;
use std::collections::VecDeque;
use std::hash::Hash;

/// Packets remembered in each of the tables, at most.
const MOST_PACKETS: usize = 4_096;
/// Interfaces of tunnels, at most.
const MOST_INTERFACES: usize = 4_096;
/// Most bytes of headers that a tunnel adds: those of the inner packet, which do not count as its length, and its own.
const MOST_ADDED: u32 = 256;
/// Maximum time between two hops of a packet in one node, nanoseconds.
const MOST_NS: u64 = 1_000_000_000;
/// Maximum time from the last hop of an outer packet to the first hop of the packet inside it, nanoseconds. The kernel
/// takes it out in the run of the softirq that received the outer one. A run ends after two ticks at most
/// (`netdev_budget_usecs`), which are 2 ms with 1,000 ticks a second, and takes microseconds as a rule.
const UNPACK_NS: u64 = 2_000_000;
/// Hops of one packet from its device up, at most.
const MOST_HOPS: usize = 4;
/// Arrivals whose order is remembered, at most: those of several runs of the softirq.
const MOST_RECENT: usize = 256;

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
    /// Its number in the order of arrivals.
    number: u64,
    /// The packet inside was found by the identification, and its hops are recorded.
    is_recorded: bool,
    /// A program has its flow.
    is_of_program: bool,
}

/// A packet that arrived lately, and may have another one inside.
#[derive(Clone, Copy, Debug)]
struct Recent {
    number: u64,
    /// Its first hop.
    first: Event,
    /// The packet inside came out.
    is_unpacked: bool,
}

impl Arriving {
    /// A packet of which no hop is recorded so far.
    const fn new(event: &Event) -> Self {
        Arriving {
            hops: [None; MOST_HOPS],
            newest: *event,
            number: 0,
            is_recorded: false,
            is_of_program: false,
        }
    }

    /// True if another packet, which a tunnel's device receives in the same buffer, may have been inside this one. One that
    /// was merged behind the tunnel is in the buffer of its first segment, which was inside this one alone.
    fn may_be_around(&self, inner: &Event) -> bool {
        inner.segs <= self.newest.segs.max(1)
            && inner.time_ns.saturating_sub(self.newest.time_ns) < UNPACK_NS
            && self.newest.hop <= Hop::IpIn
            && may_hold(inner, &self.newest, self.is_of_program)
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
    /// Events of other packets may be missing: they were lost or left out.
    lacks_others: bool,
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
    /// The namespaces that have some.
    namespaces: Set<u32>,
    /// Those of which a packet came out in another buffer than that of its outer packet.
    copying: Set<(u32, u32)>,
    /// By their buffer.
    leaving: Map<u32, Leaving>,
    arriving: Map<u32, Arriving>,
    cut: SuperPackets,
    /// By their stream and identification.
    sent: Map<(usize, u16), Sent>,
    /// The outer packet of the event that is being processed.
    arrived: Option<Arriving>,
    /// The newest arrivals in their order.
    recent: VecDeque<Recent>,
    /// Number of arrivals.
    arrivals: u64,
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
                self.copying.remove(&place);
            } else if self.interfaces.len() < MOST_INTERFACES {
                self.interfaces.insert(place);
            }
        }
        self.namespaces = self.interfaces.iter().map(|(netns, _)| *netns).collect();
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
        let is_soon = |of: &&Arriving| event.time_ns.saturating_sub(of.newest.time_ns) < MOST_NS;
        let goes_on = self.arriving.get(&event.skb).filter(is_soon).is_some_and(|of| of.goes_on(event));
        let is_from_tunnel = matches!(event.hop, Hop::NapiPoll | Hop::DevRecv)
            && self.interfaces.contains(&(at.netns, event.ifindex));
        if is_from_tunnel && !goes_on {
            self.arrived = self.unpack(event, at);
        }
        if !goes_on {
            self.note_arrival(event, at.is_of_program);
        }
        let arriving = self.arriving.entry(event.skb).or_insert_with(|| Arriving::new(event));
        if !goes_on {
            (arriving.hops, arriving.number) = ([None; MOST_HOPS], self.arrivals);
        }
        if let Some(free) = arriving.hops.iter_mut().find(|hop| hop.is_none()) {
            *free = Some(*event);
        }
        arriving.newest = *event;
        (arriving.is_recorded, arriving.is_of_program) = (inside.is_some(), at.is_of_program);
        inside
    }

    /// Remembers the order of a packet that arrived.
    fn note_arrival(&mut self, first: &Event, is_of_program: bool) {
        self.arrivals += 1;
        if first.proto == Proto::TCP || is_of_program {
            return;
        }
        if self.recent.len() >= MOST_RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(Recent { number: self.arrivals, first: *first, is_unpacked: false });
    }

    /// A tunnel's device receives a packet. Returns the hops of its outer packet if they are proven, and not recorded yet.
    fn unpack(&mut self, inner: &Event, at: &Place) -> Option<Arriving> {
        if at.lacks_others {
            return None;
        }
        let outer = self.arriving.get(&inner.skb).filter(|outer| outer.may_be_around(inner)).copied();
        let device = (at.netns, inner.ifindex);
        let copies = self.copying.contains(&device);
        let Some(outer) = outer.filter(|outer| self.is_proven(inner, outer, copies)) else {
            self.copying.insert(device);
            return None;
        };
        if let Some(recent) = self.recent.iter_mut().rfind(|recent| recent.number == outer.number) {
            recent.is_unpacked = true;
        }
        Some(outer).filter(|outer| !outer.is_recorded)
    }

    /// True if a packet was inside the one that arrived in the same buffer, and not inside a later one that was copied
    /// into this buffer. In that case the packet inside the earlier one has come out, and the later one arrived behind it.
    /// So no packet inside a later one of the same outer flow has come out. If the device `copies`, no other packet that fits
    /// has arrived since then either, and both events are on one CPU, where packets keep their order. All that shows
    /// nothing where events are missing.
    fn is_proven(&self, inner: &Event, outer: &Arriving, copies: bool) -> bool {
        let has_order = self.recent.front().is_some_and(|oldest| oldest.number <= outer.number);
        let is_overtaken = self
            .arrived_after(outer.number)
            .any(|recent| recent.is_unpacked && recent.first.flow == outer.newest.flow);
        if !has_order || is_overtaken {
            return false;
        }
        let is_other = |recent: &Recent| may_hold(inner, &recent.first, false);
        !copies || outer.newest.cpu == inner.cpu && !self.arrived_after(outer.number).any(is_other)
    }

    /// The remembered arrivals after the one with a number, the newest first.
    fn arrived_after(&self, number: u64) -> impl Iterator<Item = &Recent> + '_ {
        self.recent.iter().rev().take_while(move |recent| recent.number > number)
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
        let since_ns = event.time_ns.saturating_sub(UNPACK_NS);
        let lacks_others = self.state.losses.overlap(since_ns, event.time_ns)
            || self.state.selection.order_since_ns(false).is_none_or(|from_ns| from_ns > since_ns);
        let at = Place { netns, stream, is_of_program, lacks_others };
        if event.hop.direction() == Direction::Rx {
            if event.proto == Proto::UDP && !is_of_program && self.tunnels.namespaces.contains(&netns) {
                self.note_inside(stream, event.flow, Encloses::MayBe);
            }
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
        let slot = self.directory.stream(outer.newest.flow, Direction::Rx, &mut self.streams);
        if let Some(slot) = slot {
            self.note_inside(slot, outer.newest.flow, Encloses::Certain);
        }
        for hop in outer.hops.iter().flatten() {
            self.record_outer(inner, hop, done);
        }
    }

    /// What is known of packets inside those that arrive in a flow, which may be a forwarder's.
    fn note_inside(&mut self, slot: usize, flow: FlowId, encloses: Encloses) {
        if let Some(stream) = self.streams.get_mut(slot).filter(|stream| stream.ends.rx.has(flow)) {
            stream.ends.rx.encloses = stream.ends.rx.encloses.max(encloses);
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
mod tests;

//! UDP, ICMP and other datagrams: events are datagrams, or runs of them.
//!
//! A datagram is identified by its IP identification and length, and by its buffer while that is hot. Without
//! both (IPv6 over a wire) the order within the flow and the length decide, and the journey is marked as
//! ambiguous. A super-packet is a run of datagrams at one hop. A datagram to a group has one sender's half and
//! a journey for each receiver.

use super::forwarder::Forwarder;
use super::journey::Journey;
use super::piece::{Mark, Piece, RX, State, TX};
use super::rungs::{ThreadRef, bit, bits};
use super::state::CorrelatorState;
use super::stream::Stream;
use crate::event::{Event, EventFlags, Extent};
use crate::flow::{FlowId, Proto};
use crate::hop::{Direction, Hop};

/// Search range for a receiver's datagram in the order of the sender's.
const ORDER_WINDOW: usize = 64;
/// Maximum number of distinct segments of a super-packet; the kernel makes no more (`UDP_MAX_SEGMENTS`).
const MAX_SEGMENTS: u32 = 1 << 10;
/// Maximum number of distinct datagrams of one identification, if none is older than this.
const SAME_ID: usize = 8;
const SAME_ID_NS: u64 = 1_000_000_000;
/// Time that the sender's half waits for further receivers after the first.
const GROUP_NS: u64 = 1_000_000_000;
/// Maximum time between the sender's last event of a datagram to a group and its arrival at a receiver, without
/// an identification: both are on one host. Buffers are reused, and a lost datagram has an identical successor.
const NAMELESS_NS: u64 = 50_000_000;
/// Key kinds of [`super::stream::Datagrams::by_key`].
const BY_ID: u8 = 0;
const BY_SKB: u8 = 1;
/// The same for one receiver in a group.
const BY_ITS_ID: u8 = 2;
const BY_ITS_SKB: u8 = 3;
/// Hops of a receiver, without those of a host that the packet merely passes.
const RECEIVED: u32 = bits(Hop::IpIn, Hop::AppRecv);

type Key = (u8, u64);

/// The length as part of the key; 0 for an ICMP message, whose first fragment does not have it.
fn keyed_len(event: &Event) -> u64 {
    if event.proto == Proto::UDP { u64::from(event.len) } else { 0 }
}

fn id_key(event: &Event) -> Option<Key> {
    (event.ip_id != 0).then(|| (BY_ID, u64::from(event.ip_id) << 32 | keyed_len(event)))
}

fn skb_key(event: &Event) -> Option<Key> {
    (event.skb != 0).then(|| (BY_SKB, u64::from(event.skb) << 32 | keyed_len(event)))
}

/// The keys of one receiver's copy. They are hashes, so their results are verified.
fn its_keys(event: &Event) -> impl Iterator<Item = Key> {
    let mix = event.flow.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let id = id_key(event).map(|(_, key)| (BY_ITS_ID, key ^ mix));
    let skb = skb_key(event).map(|(_, key)| (BY_ITS_SKB, key ^ mix));
    [id, skb].into_iter().flatten()
}

/// The datagrams of an event: more than one in a super-packet.
pub(super) fn segments(event: &Event) -> impl Iterator<Item = Event> + use<> {
    let whole = *event;
    let size = whole.extent.segment_bytes();
    let count = if size == 0 { 1 } else { whole.len.div_ceil(size).max(1) };
    let (size, count) = if count > MAX_SEGMENTS { (0, 1) } else { (size, count) };
    (0..count).map(move |n| {
        if size == 0 {
            return whole;
        }
        let len = size.min(whole.len - n * size);
        let ip_id = if whole.ip_id == 0 { 0 } else { whole.ip_id.wrapping_add(n as u16) };
        // All are in one buffer; the first keeps its name, which is also that of the packet after segmentation.
        let skb = if whole.skb == 0 { 0 } else { whole.skb ^ n.wrapping_mul(0x9e37_79b9) };
        Event { len, ip_id, skb, extent: Extent::None, ..whole }
    })
}

impl Stream {
    /// Records an event of a packet hop on its datagrams, new ones included, and returns the start of each.
    pub fn datagrams(
        &mut self,
        event: &Event,
        mark: &Mark,
        state: &mut CorrelatorState,
        done: &mut Vec<Journey>,
        starts: &mut Vec<u64>,
    ) {
        for one in segments(event) {
            let Some(index) = self.find_or_make(&one, state) else { continue };
            starts.extend(self.pieces.get(index).map(|p| p.start));
            self.record_hop(index, mark, state, done);
        }
    }

    /// The datagram of a packet, a new one if necessary; `None` if the packet only passes a hop a second time, or its
    /// driver returns after it was dropped.
    pub fn find_or_make(&mut self, event: &Event, state: &mut CorrelatorState) -> Option<usize> {
        let receives = event.hop.direction() == Direction::Rx;
        if receives && event.flags.contains(EventFlags::GROUP) {
            let index = self.its_copy(event, state);
            if event.is_ambiguous() {
                self.set_ambiguous(index, state);
            }
            return Some(index);
        }
        let (index, in_doubt) = match self.find_seen(event, state) {
            Some(found) => found,
            None if self.is_second_pass(event) => return None,
            None if event.hop == Hop::DevDone && !state.rules.begins_at_done => return None,
            None => match self.next_in_order(event) {
                Some(found) => found,
                None => (self.new_datagram(event, state), false),
            },
        };
        if in_doubt || event.is_ambiguous() {
            self.set_ambiguous(index, state);
        }
        self.learn(index, event);
        Some(index)
    }

    /// Marks a datagram as ambiguous, and counts it once.
    fn set_ambiguous(&mut self, index: usize, state: &mut CorrelatorState) {
        if let Some(piece) = self.pieces.get_mut(index).filter(|p| !p.ambiguous) {
            piece.ambiguous = true;
            state.counters.ambiguous_datagrams += 1;
        }
    }

    /// Stores the last keys of the datagram.
    fn learn(&mut self, index: usize, event: &Event) {
        let Some(piece) = self.pieces.get_mut(index) else { return };
        let start = piece.start;
        piece.segs = event.segs;
        piece.ifindex = event.ifindex;
        if event.segs > 1 {
            self.udp.newest_run = self.udp.newest_run.max(start);
        }
        // Over a wire the receiver has a buffer of its own.
        let moved = event.skb != 0 && event.skb != piece.skb;
        if Self::is_arrival(piece, event) && event.skb != 0 && piece.skb != 0 {
            self.udp.same_buffers += if moved { -1 } else { 1 };
        }
        // The fragments of IPv6 have an identification, and the datagram has none before fragmentation.
        let named = event.ip_id != 0 && piece.ip_id == 0;
        if moved {
            piece.skb = event.skb;
        }
        if named {
            piece.ip_id = event.ip_id;
        }
        for (new, key) in [(moved, skb_key(event)), (named, id_key(event))] {
            if let Some(key) = key.filter(|_| new) {
                self.udp.by_key.insert(key, start);
            }
        }
    }

    /// True if an event is the receiver's first of a datagram with a departure.
    fn is_arrival(piece: &Piece, event: &Event) -> bool {
        event.hop.direction() == Direction::Rx && piece.any(TX) && !piece.any(RX)
    }

    /// True if an arrival matched only by its buffer may be another datagram. If the others arrive in buffers
    /// of the receiver's own, it used one that the sender had freed.
    fn is_by_chance(&self, index: usize, event: &Event) -> bool {
        let alone = |p: &Piece| Self::is_arrival(p, event) && (event.ip_id == 0 || p.ip_id == 0);
        self.udp.same_buffers < 0 && self.pieces.get(index).is_some_and(alone)
    }

    /// True if an event can belong to this datagram: it is open and has not passed the hop in this direction.
    fn can_take(piece: &Piece, event: &Event) -> bool {
        let side = if event.hop.direction() == Direction::Rx { RX } else { TX };
        let passed = piece.rungs.present() & side & !bits(Hop::AppSend, Hop::UdpSend);
        let back = event.hop.direction() == Direction::Tx && piece.any(RX) && event.hop != Hop::DevDone;
        !piece.is_gone() && bit(event.hop) > passed && !back && Self::has_length(piece, event)
    }

    /// The first fragment of a datagram other than UDP does not have the total length.
    fn has_length(piece: &Piece, event: &Event) -> bool {
        let is_cut = event.flags.contains(EventFlags::MORE) && event.proto != Proto::UDP;
        is_cut || piece.end - piece.start == u64::from(event.len)
    }

    /// As [`Stream::proof`](super::namesakes), for a datagram with hops of the `other` side.
    pub fn proof_of_datagram(&self, event: &Event, other: u32) -> u32 {
        let fits = |piece: &Piece| {
            let soon = event.time_ns.saturating_sub(piece.last_ns) < NAMELESS_NS;
            soon && piece.any(other) && Self::can_take(piece, event)
        };
        let Some(piece) = self.by_id_or_buffer(event, fits).and_then(|index| self.pieces.get(index)) else {
            return 0;
        };
        let same_id = event.ip_id != 0 && piece.ip_id == event.ip_id;
        let same_buffer = event.skb != 0 && piece.skb == event.skb;
        u32::from(same_id) + u32::from(same_buffer)
    }

    fn by_key(&self, key: Option<Key>) -> Option<usize> {
        self.pieces.starting_at(*self.udp.by_key.get(&key?)?)
    }

    /// The datagram of this identification or buffer, and whether another is possible as well. Identifications
    /// repeat, those of super-packets at once, because a socket counts one per send and not one per segment.
    fn find_seen(&self, event: &Event, state: &CorrelatorState) -> Option<(usize, bool)> {
        let fits = |piece: &Piece| {
            let fresh = event.time_ns.saturating_sub(piece.last_ns) < state.limits.max_age_ns;
            fresh && Self::can_take(piece, event)
        };
        let newest = self.by_id_or_buffer(event, fits);
        let newest = newest.map(|index| (index, self.is_by_chance(index, event)));
        let (mut at, mut found) = (self.by_key(id_key(event)), newest);
        for _ in 0..SAME_ID {
            let Some(piece) = at.and_then(|index| self.pieces.get(index)) else { break };
            let fresh = event.time_ns.saturating_sub(piece.last_ns) < SAME_ID_NS;
            if fits(piece) && (fresh || found.is_none()) && found.map(|f| f.0) != at {
                if piece.skb == event.skb && event.skb != 0 {
                    return at.map(|index| (index, false));
                }
                // The oldest arrives first, if it arrives at all.
                let is_it = found.is_some_and(|(f, _)| {
                    self.pieces.get(f).is_some_and(|p| p.skb == event.skb && event.skb != 0)
                });
                if !is_it {
                    found = at.map(|index| (index, found.is_some()));
                }
            }
            at = self.pieces.starting_at(piece.same_id);
        }
        found
    }

    /// The newest datagram with this identification or, unless that contradicts it, in this buffer.
    fn by_id_or_buffer(&self, event: &Event, fits: impl Fn(&Piece) -> bool) -> Option<usize> {
        let by = |key| self.by_key(key).filter(|index| self.pieces.get(*index).is_some_and(&fits));
        by(id_key(event)).or_else(|| {
            let index = by(skb_key(event))?;
            // A buffer is reused at once; the identification decides.
            let id = self.pieces.get(index)?.ip_id;
            (id == event.ip_id || id == 0 || event.ip_id == 0).then_some(index)
        })
    }

    /// True if a packet is this datagram although it cannot be its next step. It may pass a hop again on a
    /// stacked device, or as the copy that its sender loops back to itself.
    fn is_second_pass(&self, event: &Event) -> bool {
        let again = |piece: &Piece| {
            let same = piece.has(event.hop) && piece.skb == event.skb && Self::has_length(piece, event);
            let other_device = piece.ifindex != event.ifindex;
            same && match event.hop.direction() {
                Direction::Tx => piece.has(Hop::IpOut) && event.hop != Hop::IpOut && !piece.any(RX),
                // The hooks of IP run inside a bridge too, before its own device has the packet.
                _ if event.hop == Hop::DevRecv && piece.rungs.last() == Some(Hop::IpPre) => true,
                _ => other_device && piece.rungs.last() == Some(event.hop) && piece.ifindex != 0,
            }
        };
        event.skb != 0 && self.by_id_or_buffer(event, again).is_some()
    }

    /// The oldest datagram of the same length that has passed an earlier hop of this end and may be this one in another
    /// buffer. Where one of both has no identification, only the order shows that the kernel copied a packet, for a
    /// generic XDP program or to cut it into fragments.
    fn moved(&self, event: &Event) -> Option<usize> {
        let side = if event.hop.direction() == Direction::Rx { RX } else { TX };
        let earlier = side & !bits(Hop::AppSend, Hop::UdpSend) & (bit(event.hop) - 1);
        let is_it = |p: &Piece| {
            let nameless = event.ip_id == 0 || p.ip_id == 0;
            let soon = event.time_ns.saturating_sub(p.last_ns) < NAMELESS_NS;
            nameless && soon && event.skb != p.skb && p.any(earlier) && Self::can_take(p, event)
        };
        // The newest datagrams are at the end; those waiting for a read, or long lost, are before them.
        let last = self.pieces.len();
        let mut near = last.saturating_sub(16 * ORDER_WINDOW)..last;
        near.find(|index| self.pieces.get(*index).is_some_and(is_it))
    }

    /// The next datagram of the same length, if only the order identifies it, and whether that is in doubt.
    fn next_in_order(&self, event: &Event) -> Option<(usize, bool)> {
        if event.hop == Hop::IpOut {
            return None; // here they begin
        }
        // Bounded, because arrived datagrams waiting for a read are in between.
        let near = || 0..self.pieces.len().min(16 * ORDER_WINDOW);
        let of = |index: &usize| self.pieces.get(*index);
        let side = if event.hop.direction() == Direction::Rx { RX } else { TX };
        // A datagram that arrived in a super-packet and continues in segments keeps its order.
        let from_run = |p: &Piece| {
            p.segs > 1
                && event.segs <= 1
                && p.any(side & !bit(Hop::AppSend))
                && (p.ip_id == 0 || p.ip_id == event.ip_id)
        };
        let oldest = self.pieces.get(0).map_or(u64::MAX, |p| p.start);
        if oldest <= self.udp.newest_run
            && let Some(index) = near().find(|i| of(i).is_some_and(|p| from_run(p) && Self::can_take(p, event)))
        {
            return Some((index, false));
        }
        if let Some(found) = self.moved(event) {
            return Some((found, true));
        }
        if event.hop.direction() != Direction::Rx || !self.ends.tx.sure {
            return None;
        }
        let nameless = |p: &Piece| event.ip_id == 0 || p.ip_id == 0 && p.segs == 1 && p.cut;
        let waiting = |p: &Piece| p.any(TX) && !p.any(RX) && !p.is_gone();
        let mut at = near().filter(|i| of(i).is_some_and(waiting)).take(ORDER_WINDOW);
        let found = at.find(|i| of(i).is_some_and(|p| nameless(p) && Self::can_take(p, event)))?;
        Some((found, true))
    }

    pub(super) fn new_datagram(&mut self, event: &Event, state: &mut CorrelatorState) -> usize {
        let mut piece = Piece::new(0, u64::from(event.len), event.time_ns);
        piece.skb = event.skb;
        piece.ip_id = event.ip_id;
        piece.segs = event.segs;
        piece.cut = event.segs > 1;
        piece.ifindex = event.ifindex;
        let keys = [id_key(event), skb_key(event)];
        self.append(piece, keys.into_iter().flatten(), state)
    }

    /// The datagram that a forwarder passes on: open, sent, and not received yet by a certain receiver.
    pub(super) fn passing_datagram(&mut self, event: &Event, state: &CorrelatorState) -> Option<usize> {
        let may_come = !self.ends.rx.sure;
        let fits = |piece: &Piece| {
            let fresh = event.time_ns.saturating_sub(piece.last_ns) < state.limits.max_age_ns;
            let is_single = piece.rx_flow.is_none() && !piece.shared;
            let has_come = piece.any(RX) && !may_come;
            fresh && is_single && !piece.is_gone() && !has_come && Self::has_length(piece, event)
        };
        let index = self.by_id_or_buffer(event, fits)?;
        let piece = self.pieces.get_mut(index)?;
        if event.skb != 0 && event.skb != piece.skb {
            piece.skb = event.skb;
            let start = piece.start;
            self.udp.by_key.extend(skb_key(event).map(|key| (key, start)));
        }
        Some(index)
    }

    /// A node in the namespace `netns` sends a packet on. Returns true if that is a datagram to a group, which the node has
    /// received in a flow of that namespace (`is_here`). The copies in its ports have the same buffer and addresses, and
    /// nothing shows which of them leads to which receiver. So only the arrival at the node is of all their journeys.
    pub(super) fn note_copier(
        &mut self,
        event: &Event,
        netns: u32,
        is_here: impl Fn(FlowId) -> bool,
        state: &mut CorrelatorState,
    ) -> bool {
        let fits = |piece: &Piece| {
            let soon = event.time_ns.saturating_sub(piece.last_ns) < SAME_ID_NS;
            let is_sent = piece.rx_flow.is_none() && piece.any(TX) && !piece.any(RX);
            soon && is_sent && !piece.is_gone() && Self::has_length(piece, event)
        };
        let Some(origin) = self.by_id_or_buffer(event, fits) else { return false };
        let copies = self.udp.copies.get(&self.start_of(origin)).into_iter().flatten();
        let Some((copy, rx_flow)) = copies.copied().find(|(_, flow)| is_here(*flow)) else { return false };
        let Some(came) = self.pieces.starting_at(copy).and_then(|index| self.pieces.get(index)) else {
            return true;
        };
        let mut entry = Forwarder { rx_flow, rx_ifindex: came.ifindex, ..Forwarder::default() };
        if let Some(first) = came.rungs.hops().find(|hop| bit(*hop) & RX & !RECEIVED != 0) {
            entry.rungs.take(&came.rungs, bit(first));
            if let Some(piece) = self.pieces.get_mut(origin) {
                piece.transits.get_or_insert_default().note_copier(netns, entry);
            }
        }
        self.await_receivers(origin, event.time_ns, state);
        true
    }

    /// A datagram to a group is under way in a node: its receivers follow.
    fn await_receivers(&mut self, origin: usize, time_ns: u64, state: &mut CorrelatorState) {
        let Some(piece) = self.pieces.get_mut(origin).filter(|piece| !piece.is_gone()) else { return };
        piece.last_ns = piece.last_ns.max(time_ns);
        if let State::Lingering { until_ns } = piece.state {
            let until_ns = until_ns.max(time_ns.saturating_add(GROUP_NS));
            piece.state = State::Lingering { until_ns };
            self.want_visit(until_ns, state);
        }
    }

    /// The open datagram inside the packet of a tunnel.
    pub(super) fn datagram_inside(&self, event: &Event) -> Option<usize> {
        let fits = |piece: &Piece| !piece.is_gone() && !piece.shared && Self::has_length(piece, event);
        self.by_id_or_buffer(event, fits)
    }

    /// Appends a datagram under a new number.
    fn append(
        &mut self,
        mut piece: Piece,
        keys: impl Iterator<Item = Key>,
        state: &mut CorrelatorState,
    ) -> usize {
        self.udp.next += 1;
        piece.end = (self.udp.next << 32) + (piece.end - piece.start);
        piece.start = self.udp.next << 32;
        piece.same_id = 0;
        for key in keys {
            let before = self.udp.by_key.insert(key, piece.start).unwrap_or(0);
            if key.0 == BY_ID {
                piece.same_id = before;
            }
        }
        let index = self.pieces.len();
        self.add(index, piece, state);
        if self.udp.by_key.len() > 4 * self.pieces.open() + 64 {
            let pieces = &self.pieces;
            self.udp.by_key.retain(|_, start| pieces.starting_at(*start).is_some());
            self.udp.copies.retain(|start, _| pieces.starting_at(*start).is_some());
        }
        index
    }

    /// The journey of this receiver of a datagram to a group.
    fn its_copy(&mut self, event: &Event, state: &mut CorrelatorState) -> usize {
        let is_mine = |p: &Piece| {
            // Reassembled fragments over IPv6 have no identification any more, and the buffer of the first one.
            let nameless = p.ip_id == 0 || event.ip_id == 0;
            let named = p.ip_id == event.ip_id && !nameless || nameless && p.skb == event.skb;
            p.rx_flow == event.flow && named && Self::has_length(p, event)
        };
        let head = its_keys(event)
            .find_map(|key| self.by_key(Some(key)).filter(|i| self.pieces.get(*i).is_some_and(is_mine)));
        if let Some(head) = head {
            let Some(piece) = self.pieces.get(head) else { return 0 };
            if Self::can_take(piece, event) {
                self.received(head, event, state);
                return head;
            }
            // Below the sockets all receivers of this host share one packet; each socket gets a clone.
            if event.hop == Hop::UdpRecv && piece.socket != event.socket {
                let (origin, below) = (piece.origin, bits(Hop::AppSend, Hop::IpIn));
                let index = self.fork(head, below, event, state);
                self.received(index, event, state);
                let start = self.start_of(index);
                if origin != 0 {
                    self.udp.copies.entry(origin).or_default().push((start, event.flow));
                }
                return index;
            }
        }
        // A second one of the same is the network's copy: it has no sender's half of its own. Without an identification only the buffer
        // is the same, and the next datagram comes in a buffer that the one before has left.
        let is_again = head.is_some() && event.ip_id != 0;
        let origin = if is_again { None } else { self.origin_of(event, state) };
        let index = if let Some((origin, by_order)) = origin {
            let index = self.fork(origin, TX, event, state);
            let (from, copy) = (self.start_of(origin), self.start_of(index));
            if let Some(piece) = self.pieces.get_mut(index) {
                piece.origin = from;
                piece.ambiguous |= by_order;
                state.counters.ambiguous_datagrams += u64::from(by_order);
            }
            self.udp.copies.entry(from).or_default().push((copy, event.flow));
            self.await_receivers(origin, event.time_ns, state);
            index
        } else {
            let mut piece = Piece::new(0, u64::from(event.len), event.time_ns);
            piece.rx_flow = event.flow;
            self.append(piece, std::iter::empty(), state)
        };
        let start = self.start_of(index);
        if let Some(piece) = self.pieces.get_mut(index) {
            (piece.skb, piece.ip_id, piece.ifindex) = (event.skb, event.ip_id, event.ifindex);
        }
        self.udp.by_key.extend(its_keys(event).map(|key| (key, start)));
        self.received(index, event, state);
        index
    }

    /// The copy that a host makes for itself of a datagram to a group leaves no device. That holds even if the
    /// other copy has left by then.
    pub fn looped_back(&mut self, start: u64) {
        if let Some(piece) = self.pieces.starting_at(start).and_then(|index| self.pieces.get_mut(index)) {
            piece.rungs.clear(bits(Hop::DevQueue, Hop::DevDone));
            piece.transits = None;
        }
    }

    fn start_of(&self, index: usize) -> u64 {
        self.pieces.get(index).map_or(0, |p| p.start)
    }

    /// Stores the last keys of one receiver's journey.
    fn received(&mut self, index: usize, event: &Event, state: &mut CorrelatorState) {
        let Some(piece) = self.pieces.get_mut(index) else { return };
        if event.hop == Hop::UdpRecv {
            piece.socket = event.socket;
        }
        if event.skb != 0 && piece.skb != event.skb {
            piece.skb = event.skb;
            let start = piece.start;
            self.udp.by_key.extend(its_keys(event).map(|key| (key, start)));
        }
        if bit(event.hop) & RECEIVED == 0 {
            return;
        }
        let origin = piece.origin;
        self.share(origin, event.time_ns, state);
    }

    /// Reduces the sent datagram to the sender's half: one of its receivers has a journey of its own.
    pub fn share(&mut self, origin: u64, time_ns: u64, state: &mut CorrelatorState) {
        let Some(origin) = self.pieces.starting_at(origin) else { return };
        if let Some(piece) = self.pieces.get_mut(origin).filter(|p| !p.shared && !p.is_gone()) {
            piece.shared = true;
            let until_ns = time_ns.saturating_add(GROUP_NS);
            piece.state = State::Lingering { until_ns };
            self.want_visit(until_ns, state);
        }
    }

    /// The sent datagram of this arrival, and whether only its order shows that. One place accepts one copy of
    /// one datagram; without an identification, only soon after its departure.
    fn origin_of(&self, event: &Event, state: &CorrelatorState) -> Option<(usize, bool)> {
        let soon_ns = if event.ip_id == 0 { NAMELESS_NS } else { state.limits.max_age_ns };
        let has_come = |p: &Piece| {
            let mut copies = self.udp.copies.get(&p.start).into_iter().flatten();
            copies.any(|(_, flow)| *flow == event.flow)
        };
        let fits = |p: &Piece| {
            p.rx_flow.is_none()
                && p.any(TX)
                && !p.any(RX)
                && !p.is_gone()
                && event.time_ns.saturating_sub(p.last_ns) < soon_ns
                && Self::has_length(p, event)
                && !has_come(p)
        };
        if let Some(index) = self.by_id_or_buffer(event, fits) {
            return Some((index, false));
        }
        if event.ip_id != 0 || !self.ends.tx.sure {
            return None;
        }
        // The newest datagrams are at the end; those waiting for a read, or long lost, are before them.
        let last = self.pieces.len();
        let mut near = last.saturating_sub(16 * ORDER_WINDOW)..last;
        let found = near.find(|i| self.pieces.get(*i).is_some_and(fits))?;
        Some((found, true))
    }

    /// A journey of its own for one more receiver, which shares the events `below`.
    fn fork(&mut self, index: usize, below: u32, event: &Event, state: &mut CorrelatorState) -> usize {
        let Some(mut piece) = self.pieces.get(index).cloned() else { return index };
        piece.rungs.clear(!below);
        piece.state = State::Open;
        piece.reader = ThreadRef::default();
        piece.drop = None;
        piece.shared = false;
        piece.rx_flow = event.flow;
        piece.last_ns = event.time_ns;
        self.append(piece, std::iter::empty(), state)
    }

    /// The journeys of a sender's event: the datagram's own, or those of its receivers.
    pub fn with_copies(&self, start: u64) -> impl Iterator<Item = u64> + use<> {
        let copies = self.udp.copies.get(&start).cloned().unwrap_or_default();
        std::iter::once(start).chain(copies.into_iter().map(|(copy, _)| copy))
    }

    /// The open datagram of a drop.
    pub fn dropped_datagram(&self, event: &Event) -> Option<usize> {
        let is_it = |p: &Piece| !p.is_gone() && !p.shared && !p.has(Hop::AppRecv) && Self::has_length(p, event);
        let of_flow = |p: &Piece| is_it(p) && p.rx_flow == event.flow;
        // Of several sockets the newest is the one without room.
        let newest = |head: usize| {
            let mut copies = (head..self.pieces.len().min(head + ORDER_WINDOW)).rev();
            let ip_id = self.pieces.get(head).map_or(0, |p| p.ip_id);
            copies.find(|i| self.pieces.get(*i).is_some_and(|p| of_flow(p) && p.ip_id == ip_id))
        };
        let head = its_keys(event).find_map(|key| self.by_key(Some(key)));
        if let Some(index) = head.and_then(newest) {
            return Some(index);
        }
        let by = |key| {
            let mine = |p: &Piece| is_it(p) && p.rx_flow == FlowId::NONE;
            self.by_key(key).filter(|index| self.pieces.get(*index).is_some_and(mine))
        };
        by(id_key(event)).or_else(|| by(skb_key(event)))
    }

    /// True if a freed packet is a part of a merged one in a socket's queue. Before Linux 6.2 the kernel calls it a drop
    /// when a reader has taken all; if it is one, the merged packet is dropped too.
    pub fn is_part_of_merged(&self, index: usize, event: &Event) -> bool {
        let in_queue = |piece: &Piece| piece.has(Hop::UdpRecv) && piece.segs > 1;
        event.segs <= 1 && self.pieces.get(index).is_some_and(in_queue)
    }
}

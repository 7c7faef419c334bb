//! The correlator's part for nodes between the ends: forwarders, and translators of addresses.
//!
//! A node that passes a packet on shows it in one buffer, first as received, then as sent ([`super::buffers`]). Its
//! events become passages of the journey ([`super::transits`]). Where it copies a segment to another buffer, the segment's
//! numbers show the same ([`super::passing_segments`]). If the addresses changed in between, both pairs of
//! addresses are one stream from then on.

use super::buffers::Previous;
use super::correlator::{Correlator, FREE_NS};
use super::journey::Journey;
use super::piece::{Mark, Piece, RX, State, TX};
use super::rules::is_certain_end;
use super::state::{CloseReason, CorrelatorState};
use super::stream::Stream;
use super::udp::segments;
use crate::event::{Event, EventFlags};
use crate::flow::{FlowId, Proto};
use crate::hop::{Direction, Hop};
use std::net::IpAddr;

/// An event of a forwarder.
#[derive(Clone, Copy, Debug)]
struct Passing<'a> {
    event: &'a Event,
    mark: &'a Mark,
    netns: u32,
    /// It is a hop of the outer packet of a tunnel.
    is_outer: bool,
}

impl Correlator {
    /// Draws the conclusions from two events of one packet: `before`, and `event` in the stream `slot`. Returns the
    /// stream of both.
    pub(super) fn connect(
        &mut self,
        event: &Event,
        slot: usize,
        before: Previous,
        done: &mut Vec<Journey>,
    ) -> usize {
        let receives = event.hop.direction() == Direction::Rx;
        let received = before.hop.direction() == Direction::Rx;
        let is_passed_on = received && !receives;
        // A packet proceeds on its path, or passes a hop again at a stacked device. Else the buffer has the next one,
        // which may look the same.
        let is_nameless = event.proto != Proto::TCP && event.ip_id == 0;
        let is_again = before.hop == event.hop && before.ifindex != event.ifindex as u16;
        // The hooks of IP run inside a bridge too, before its own device has the packet.
        let in_bridge =
            matches!((before.hop, event.hop), (Hop::IpPre, Hop::DevRecv) | (Hop::DevXmit, Hop::IpPost));
        let is_stacked = (is_again || in_bridge) && (!is_nameless || self.state.rules.shows_own_packets);
        let is_next = received == receives && before.hop >= event.hop && !is_stacked;
        let is_over_wire = !received && receives;
        let is_own = !receives && is_certain_end(event.hop);
        // The node answers in the buffer of the question.
        let is_answer = before.flow == event.flow;
        if is_next || is_over_wire || is_own || is_answer {
            return slot;
        }
        // A datagram of the node's own, in a buffer that it has just received, would look the same.
        if is_passed_on && is_nameless && !self.state.rules.shows_own_packets {
            return slot;
        }
        let netns = |flow| self.directory.get(flow).map(|flow| flow.netns);
        let Some(here) = netns(event.flow).filter(|here| netns(before.flow) == Some(*here)) else {
            return slot;
        };
        let [tx, rx] = self.directory.streams_of(before.flow);
        let Some(earlier) = (if received { rx } else { tx }).map(|slot| slot as usize) else { return slot };
        if earlier != slot {
            if !self.translate(event, slot, earlier, done) {
                self.state.counters.unproven_translations += 1;
                return slot;
            }
            self.directory.note_translation(event.time_ns, (before.flow, received), (event.flow, receives));
        }
        if is_passed_on {
            self.note_forwarder(before.flow, true, earlier, here, event.time_ns);
            self.note_forwarder(event.flow, false, earlier, here, event.time_ns);
        } else if self.directory.passes(before.flow, receives) {
            self.note_forwarder(event.flow, receives, earlier, here, event.time_ns);
        } else if let Some(stream) = self.streams.get_mut(earlier) {
            stream.note_translated_end(before.flow, event.flow, receives);
        }
        earlier
    }

    /// The event before this one of a segment that its node received in another buffer. While the receiver of a flow is
    /// not known, its segments are remembered for that.
    pub(super) fn copied(&mut self, event: &Event, slot: usize) -> Option<Previous> {
        let receives = event.hop.direction() == Direction::Rx;
        if event.proto != Proto::TCP || is_certain_end(event.hop) {
            return None;
        }
        let ends = &self.streams.get(slot)?.ends;
        // Also of a flow that is passed on: a mirror's copy may have shown that, and the packet itself goes on elsewhere.
        if receives && !ends.rx.sure {
            self.passing_segments.received(event, slot);
        }
        if receives || ends.tx.sure || self.directory.passes(event.flow, false) {
            return None;
        }
        self.passing_segments.sent(event)
    }

    /// The addresses of an event belong to the stream `earlier`, where its packet was before their translation.
    fn translate(&mut self, event: &Event, later: usize, earlier: usize, done: &mut Vec<Journey>) -> bool {
        let receives = event.hop.direction() == Direction::Rx;
        let Ok([to, from]) = self.streams.get_disjoint_mut([earlier, later]) else { return false };
        let in_use = to.last_ns != FREE_NS && to.ends.proto == from.ends.proto;
        let is_own = !receives && from.ends.tx.sure && from.ends.tx.flow == event.flow;
        let has_receivers = to.ends.rx.sure && from.ends.rx.sure && to.ends.rx.flow != from.ends.rx.flow;
        if !in_use || is_own || has_receivers || to.has_namesakes || from.has_namesakes {
            return false;
        }
        let is_unused =
            self.directory.rekey(event.flow, receives, later as u32, earlier as u32, !from.has_several_flows);
        to.has_several_flows = true;
        let position = if event.proto == Proto::TCP { to.position_of(event.seq()) } else { None };
        let is_of_packet = |piece: &Piece| match position {
            Some(at) => piece.start < at.saturating_add(u64::from(event.len)) && at < piece.end,
            None => piece.ip_id == event.ip_id && (event.ip_id != 0 || piece.skb == event.skb),
        };
        let is_late = from.ends.rx.sure || !from.pieces.is_empty();
        // What this node has shown at these addresses so far is no end's.
        let unsure = if from.ends.tx.sure { 0 } else { TX } | if from.ends.rx.sure { 0 } else { RX };
        from.pieces.iter_mut().for_each(|piece| piece.forget(unsure));
        from.close_where(|_| true, CloseReason::Reset, &mut self.state, done);
        let receiver = std::mem::take(&mut from.ends.rx);
        // The receiver's part of earlier packets was at the other addresses: what is left of them is half.
        let is_other = |piece: &Piece| !piece.is_only_promised() && !is_of_packet(piece);
        if receiver.sure {
            to.close_where(is_other, CloseReason::Finished, &mut self.state, done);
        }
        if !receiver.flow.is_none() && (receiver.sure || to.ends.rx.flow.is_none()) {
            to.pieces.iter_mut().for_each(|piece| piece.forget(RX));
            to.ends.rx = receiver;
        }
        if is_unused {
            from.reset(CloseReason::Reset, &mut self.state, done);
            from.last_ns = FREE_NS;
        }
        self.state.counters.translations += 1;
        self.state.counters.late_translations += u64::from(is_late);
        true
    }

    /// A node passes on the packets that it receives, or sends, in this flow.
    fn note_forwarder(&mut self, flow: FlowId, receives: bool, slot: usize, netns: u32, time_ns: u64) {
        if self.directory.passes(flow, receives) {
            return;
        }
        let Some(stream) = self.streams.get_mut(slot) else { return };
        if stream.yield_end(flow, receives, netns) {
            self.directory.set_passes(flow, receives);
            self.directory.note_passed_on(time_ns, flow, receives);
        }
    }

    /// Records an event of a node that passes the packet on.
    pub(super) fn forward(&mut self, event: &Event, slot: usize, done: &mut Vec<Journey>) {
        self.state.counters.forwarded += 1;
        let is_off_path = event.hop == Hop::DevDone || event.flags.contains(EventFlags::GROUP);
        if !is_off_path && !self.copies_to_group(event, slot) {
            self.pass(event, slot, false, done);
        }
    }

    /// True if a node sends on one of the copies of a datagram to a group. Its arrival there is noted.
    fn copies_to_group(&mut self, event: &Event, slot: usize) -> bool {
        if event.proto == Proto::TCP || event.hop.direction() != Direction::Tx {
            return false;
        }
        let directory = &self.directory;
        let Some(flow) = directory.get(event.flow) else { return false };
        let is_here = |of: FlowId| directory.get(of).is_some_and(|of| of.netns == flow.netns);
        let mut is_group = match flow.remote.ip() {
            IpAddr::V4(ip) => ip.is_multicast() || ip.is_broadcast(),
            IpAddr::V6(ip) => ip.is_multicast(),
        };
        let Some(stream) = self.streams.get_mut(slot) else { return is_group };
        stream.last_ns = event.time_ns.min(FREE_NS - 1);
        for one in segments(event) {
            is_group |= stream.note_copier(&one, flow.netns, is_here, &mut self.state);
        }
        is_group
    }

    /// Records an event of a packet between its ends on its bytes, in the stream `slot`. `is_outer`: of the packet of a
    /// tunnel that it is inside of.
    pub(super) fn pass(&mut self, event: &Event, slot: usize, is_outer: bool, done: &mut Vec<Journey>) {
        if event.len == 0 && event.proto == Proto::TCP {
            return;
        }
        let Some(netns) = self.directory.get(event.flow).map(|flow| flow.netns) else { return };
        let (Some(stream), state) = (self.streams.get_mut(slot), &mut self.state) else { return };
        stream.last_ns = event.time_ns.min(FREE_NS - 1);
        let mark = Self::mark(event);
        if event.proto == Proto::TCP {
            stream.forward_range(&Passing { event, mark: &mark, netns, is_outer }, state, done);
        } else {
            for one in segments(event) {
                stream.forward_datagram(&Passing { event: &one, mark: &mark, netns, is_outer }, state);
            }
        }
        stream.tidy();
    }
}

impl Stream {
    /// The flow is no end, but a forwarder's. Returns false if it certainly is an end.
    fn yield_end(&mut self, flow: FlowId, receives: bool, netns: u32) -> bool {
        let (half, side) = if receives { (&mut self.ends.rx, RX) } else { (&mut self.ends.tx, TX) };
        if half.flow != flow {
            return true;
        }
        if half.sure {
            return false;
        }
        *half = super::state::Half::default();
        for piece in self.pieces.iter_mut().filter(|piece| !piece.is_gone()) {
            piece.yield_side(side, netns, flow);
        }
        true
    }

    /// The end's own node translates the addresses of its packets: both flows are this end's.
    fn note_translated_end(&mut self, before: FlowId, after: FlowId, receives: bool) {
        let half = if receives { &mut self.ends.rx } else { &mut self.ends.tx };
        if half.flow == before {
            half.set_also(after);
        } else if half.flow == after {
            half.set_also(before);
        }
    }

    /// True if a forwarder may be the first to show a packet: its sender is not in the capture.
    const fn begins_at(&self, event: &Event) -> bool {
        !self.ends.tx.sure && matches!(event.hop.direction(), Direction::Rx)
    }

    /// Records a forwarder's event on its bytes.
    fn forward_range(&mut self, passing: &Passing<'_>, state: &mut CorrelatorState, done: &mut Vec<Journey>) {
        let Passing { event, mark, is_outer, .. } = *passing;
        let begins = !is_outer && self.begins_at(event);
        let from =
            if begins { Some(self.move_to(event.seq(), state, done)) } else { self.position_of(event.seq()) };
        let Some(from) = from else { return };
        let to = from.saturating_add(u64::from(event.len));
        let mut index = self.pieces.first_ending_after(from);
        index += usize::from(self.cut(index, from, state));
        let mut at = from;
        while at < to {
            match self.pieces.get(index) {
                Some(piece) if piece.start <= at => {
                    at = piece.end.min(to);
                    if !piece.is_gone() {
                        self.cut(index, to, state);
                        self.pass_forwarder(index, passing, state);
                    }
                    index += 1;
                }
                next => {
                    let end = next.map_or(to, |piece| piece.start.min(to));
                    let start = at.max(self.floor);
                    at = end;
                    if begins && start < end {
                        self.add(index, Piece::new(start, end, mark.time_ns), state);
                        self.pass_forwarder(index, passing, state);
                        index += 1;
                    }
                }
            }
        }
    }

    /// Records a forwarder's event on its datagram.
    fn forward_datagram(&mut self, passing: &Passing<'_>, state: &mut CorrelatorState) {
        let found = if passing.is_outer {
            self.datagram_inside(passing.event)
        } else {
            self.passing_datagram(passing.event, state)
        };
        let index = match found {
            Some(index) => index,
            None if !passing.is_outer && self.begins_at(passing.event) => {
                self.new_datagram(passing.event, state)
            }
            None => return,
        };
        self.pass_forwarder(index, passing, state);
    }

    fn pass_forwarder(&mut self, index: usize, passing: &Passing<'_>, state: &mut CorrelatorState) {
        let Some(piece) = self.pieces.get_mut(index) else { return };
        let place = (passing.netns, passing.is_outer);
        let has_room = piece.pass_forwarder(place, passing.event, passing.mark);
        state.counters.forwarders_left_out += u64::from(!has_room);
        // Without a known receiver, half a journey ends some time after its last event.
        let is_half = !self.ends.rx.sure && !piece.shared && piece.rx_flow.is_none();
        if is_half && piece.drop.is_none() && !piece.is_only_promised() {
            let due_ns = state.await_half(&self.ends, piece, passing.mark.time_ns);
            if piece.state == State::Open {
                self.age_at = self.age_at.min(due_ns);
            }
            self.want_visit(due_ns, state);
        }
    }
}

//! Connections with equal addresses in several pairs of network namespaces.
//!
//! A sender and a receiver in two namespaces form one stream because their addresses mirror each other. Networks
//! of containers with equal address plans have several such pairs at once. Then the addresses prove nothing, and
//! the halves are paired by their traffic: the first byte of a SYN, bytes that one half has sent and no other,
//! a datagram's identification and buffer. Without such a proof, or with two, the halves stay apart.

use super::correlator::Correlator;
use super::journey::Journey;
use super::piece::{Piece, RX, TX};
use super::rules::is_certain_end;
use super::rungs::bits;
use super::state::{CloseReason, CorrelatorState, Half};
use super::stream::Stream;
use crate::event::Event;
use crate::flow::Proto;
use crate::hop::{Direction, Hop};

/// Number of the newest namesakes that are searched.
const MOST: usize = 64;

impl Correlator {
    /// The stream of an event whose addresses belong to several connections; `None` for a forwarder's event.
    pub(super) fn among_namesakes(
        &mut self,
        event: &Event,
        slot: usize,
        done: &mut Vec<Journey>,
    ) -> Option<usize> {
        let direction = event.hop.direction();
        let slots = self.directory.all_streams(event.flow, direction);
        for slot in [slot].iter().chain(&slots) {
            if let Some(stream) = self.streams.get_mut(*slot) {
                stream.gains_namesake(&mut self.state, done);
            }
        }
        let is_end = is_certain_end(event.hop);
        let mut own = None;
        let (mut best, mut found) = (0, None);
        for slot in slots.iter().rev().take(MOST) {
            let Some(stream) = self.streams.get_mut(*slot) else { continue };
            let (half, other) = stream.halves(direction);
            if half.flow == event.flow {
                if !other.flow.is_none() {
                    self.directory.assign(event.flow, direction, *slot);
                    return Some(*slot);
                }
                own = Some(*slot);
            } else if !half.sure && !other.flow.is_none() {
                // Of two streams with equal proof, one whose half no other flow may have comes first.
                let proof = match stream.proof(event) {
                    0 => 0,
                    proof => 2 * proof + u32::from(half.flow.is_none()),
                };
                if proof > best {
                    (best, found) = (proof, Some(*slot));
                } else if proof == best {
                    found = None;
                }
            }
        }
        if let Some(slot) = found {
            self.streams.get_mut(slot)?.take_half(event, is_end);
            if let Some(own) = own.and_then(|own| self.streams.get_mut(own)) {
                own.loses_half(direction, &mut self.state, done);
            }
            if is_end {
                self.directory.assign(event.flow, direction, slot);
            }
            return Some(slot);
        }
        if own.is_some() || !is_end {
            return own;
        }
        let slot = self.directory.further_stream(event.flow, direction, &mut self.streams)?;
        let stream = self.streams.get_mut(slot)?;
        stream.has_namesakes = true;
        stream.take_half(event, true);
        self.directory.assign(event.flow, direction, slot);
        Some(slot)
    }
}

impl Stream {
    /// The half of a direction, and the other one.
    fn halves(&self, direction: Direction) -> (Half, Half) {
        let (tx, rx) = (self.ends.tx, self.ends.rx);
        if direction == Direction::Rx { (rx, tx) } else { (tx, rx) }
    }

    /// Another connection has the same addresses. Two halves that only their addresses had joined are separated.
    fn gains_namesake(&mut self, state: &mut CorrelatorState, done: &mut Vec<Journey>) {
        if std::mem::replace(&mut self.has_namesakes, true) || self.proven {
            return;
        }
        if !self.ends.tx.flow.is_none() && !self.ends.rx.flow.is_none() {
            self.close_where(|piece| !piece.any(TX), CloseReason::Finished, state, done);
            self.ends.rx = Half::default();
        }
    }

    /// The flow of this half belongs to another stream from now on. The other side of the bytes that are open here may
    /// be there, so they are half a journey, and not lost.
    fn loses_half(&mut self, direction: Direction, state: &mut CorrelatorState, done: &mut Vec<Journey>) {
        self.close_where(|piece| !piece.is_only_promised(), CloseReason::Finished, state, done);
        let half = if direction == Direction::Rx { &mut self.ends.rx } else { &mut self.ends.tx };
        *half = Half::default();
    }

    /// How strongly the stream's other half proves that an event belongs here; 0: not at all.
    fn proof(&mut self, event: &Event) -> u32 {
        let other = if event.hop.direction() == Direction::Rx { TX } else { RX };
        if event.proto != Proto::TCP {
            return self.proof_of_datagram(event, other);
        }
        let is_packet = event.hop >= Hop::TcpXmit && event.hop <= Hop::IpIn;
        if is_packet && event.tcp_flags & 2 != 0 {
            return u32::from(self.ends.first_seq == Some(event.seq()));
        }
        if event.len == 0 {
            return 0;
        }
        let Some(from) = self.position_of(event.seq()) else { return 0 };
        let index = self.pieces.first_ending_after(from);
        let has_them = |piece: &&Piece| piece.start <= from && !piece.is_gone() && piece.any(other);
        // Bytes that a packet has had are more likely to arrive than those of a send alone.
        let is_sent = |piece: &Piece| piece.any(other & !bits(Hop::AppSend, Hop::UdpSend));
        self.pieces.get(index).filter(has_them).map_or(0, |piece| 1 + u32::from(is_sent(piece)))
    }
}

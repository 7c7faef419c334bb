//! UDP: events are datagrams.
//!
//! A datagram is known by its IP identification and length, and by its buffer while that is hot. Where there is neither
//! (IPv6 over a wire) the order within the flow and the length decide, and the journey says that it is ambiguous.

use super::desk::Desk;
use super::journey::Journey;
use super::piece::{Mark, Piece, RX, TX};
use super::rungs::bit;
use super::stream::Stream;
use crate::event::Event;
use crate::hop::{Direction, Hop};

/// How far a receiver's datagram is looked for in the order of the sender's.
const ORDER_WINDOW: usize = 64;
/// Super-packets kept in mind until their segments were seen.
const MAX_SUPERS: usize = 32;
/// Key kinds of [`super::stream::Datagrams::by_key`].
const BY_ID: u8 = 0;
const BY_SKB: u8 = 1;

fn id_key(event: &Event) -> Option<(u8, u64)> {
    (event.ip_id != 0).then(|| (BY_ID, u64::from(event.ip_id) << 32 | u64::from(event.len)))
}

fn skb_key(event: &Event) -> Option<(u8, u64)> {
    (event.skb != 0).then(|| (BY_SKB, u64::from(event.skb) << 32 | u64::from(event.len)))
}

impl Stream {
    /// Writes an event of a packet hop down on its datagram, which is made if it is new. Returns where the datagram
    /// starts.
    pub fn datagram(&mut self, event: &Event, mark: &Mark, desk: &mut Desk, done: &mut Vec<Journey>) -> u64 {
        let known = self.known(event, desk).or_else(|| self.segment_of(event, desk));
        let (index, by_order) = match known {
            Some(index) => (index, false),
            None => match self.next_in_order(event) {
                Some(found) => found,
                None => (self.new_datagram(event, desk), false),
            },
        };
        let Some(piece) = self.pieces.get_mut(index) else { return 0 };
        let start = piece.start;
        if by_order {
            piece.ambiguous = true;
            desk.counters.ambiguous_datagrams += 1;
        }
        if event.skb != 0 && event.skb != piece.skb {
            // Over a wire the receiver has a buffer of its own.
            piece.skb = event.skb;
            if let Some(key) = skb_key(event) {
                self.udp.by_key.insert(key, start);
            }
        }
        self.touch(index, mark, desk, done);
        start
    }

    /// Whether an event can belong to this datagram: it is open and has not come as far in this direction.
    fn can_take(piece: &Piece, event: &Event) -> bool {
        let side = if event.hop.direction() == Direction::Rx { RX } else { TX };
        let passed = piece.rungs.present() & side & !bit(Hop::AppSend);
        let back = event.hop.direction() == Direction::Tx && piece.any(RX) && event.hop != Hop::DevDone;
        !piece.is_gone() && bit(event.hop) > passed && !back && piece.end - piece.start == u64::from(event.len)
    }

    fn known(&self, event: &Event, desk: &Desk) -> Option<usize> {
        let by = |key: Option<(u8, u64)>| {
            let start = self.udp.by_key.get(&key?)?;
            let index = self.pieces.starting_at(*start)?;
            let piece = self.pieces.get(index)?;
            let fresh = event.time_ns.saturating_sub(piece.last_ns) < desk.limits.max_age_ns;
            (fresh && Self::can_take(piece, event)).then_some(index)
        };
        by(id_key(event)).or_else(|| {
            let index = by(skb_key(event))?;
            // A buffer is used again at once; the identification tells.
            let id = self.pieces.get(index)?.ip_id;
            (id == event.ip_id || id == 0 || event.ip_id == 0).then_some(index)
        })
    }

    /// The oldest datagram of the sender that has not arrived and has the same length, where nothing but order is
    /// left to go by.
    fn next_in_order(&self, event: &Event) -> Option<(usize, bool)> {
        if event.ip_id != 0 || event.hop.direction() != Direction::Rx || !self.ends.tx.sure {
            return None;
        }
        let waiting = |p: &Piece| p.any(TX) && !p.any(RX) && !p.is_gone();
        // Bounded, because what has arrived and waits to be read stands in between.
        let near = 0..self.pieces.len().min(16 * ORDER_WINDOW);
        let mut at = near.filter(|i| self.pieces.get(*i).is_some_and(waiting)).take(ORDER_WINDOW);
        let found = at.find(|i| self.pieces.get(*i).is_some_and(|p| Self::can_take(p, event)))?;
        Some((found, true))
    }

    fn new_datagram(&mut self, event: &Event, desk: &mut Desk) -> usize {
        let start = self.udp.next << 32;
        self.udp.next += 1;
        let mut piece = Piece::new(start, start + u64::from(event.len), event.time_ns);
        piece.skb = event.skb;
        piece.ip_id = event.ip_id;
        piece.segs = event.segs;
        if event.segs > 1 {
            if self.udp.supers.len() >= MAX_SUPERS {
                self.udp.supers.pop_front();
            }
            self.udp.supers.push_back((start, event.len));
        }
        self.append(piece, event, desk)
    }

    fn append(&mut self, piece: Piece, event: &Event, desk: &mut Desk) -> usize {
        for key in [id_key(event), skb_key(event)].into_iter().flatten() {
            self.udp.by_key.insert(key, piece.start);
        }
        let index = self.pieces.len();
        self.add(index, piece, desk);
        if self.udp.by_key.len() > 4 * self.pieces.open() + 64 {
            let pieces = &self.pieces;
            self.udp.by_key.retain(|_, start| pieces.starting_at(*start).is_some());
        }
        index
    }

    /// A segment that was cut from a super-packet: a datagram of its own that has passed all that the super-packet has.
    fn segment_of(&mut self, event: &Event, desk: &mut Desk) -> Option<usize> {
        if event.segs > 1 || self.udp.supers.is_empty() {
            return None;
        }
        let fits = |piece: &Piece, left: u32| {
            let nth = event.ip_id.wrapping_sub(piece.ip_id);
            let in_run = event.ip_id == 0 && piece.ip_id == 0 || event.ip_id != 0 && nth < piece.segs;
            in_run
                && event.len <= left
                && !piece.is_gone()
                && bit(event.hop) > piece.rungs.present() & !bit(Hop::AppSend)
        };
        let (at, start, left) = self.udp.supers.iter().enumerate().find_map(|(at, (start, left))| {
            let piece = self.pieces.get(self.pieces.starting_at(*start)?)?;
            fits(piece, *left).then_some((at, *start, *left))
        })?;
        let whole = self.pieces.starting_at(start)?;
        let mut piece = self.pieces.get(whole)?.clone();
        let rest = left.saturating_sub(event.len);
        if rest == 0 {
            self.udp.supers.remove(at);
            // All of it lives on in its segments, so it is no journey of its own.
            let super_packet = self.pieces.get_mut(whole)?;
            super_packet.state = super::piece::State::Gone;
            self.pieces.count_gone();
            desk.open = desk.open.saturating_sub(1);
        } else if let Some(entry) = self.udp.supers.get_mut(at) {
            entry.1 = rest;
        }
        piece.start = self.udp.next << 32;
        self.udp.next += 1;
        piece.end = piece.start + u64::from(event.len);
        piece.state = super::piece::State::Open;
        (piece.segs, piece.ip_id, piece.skb) = (1, event.ip_id, event.skb);
        Some(self.append(piece, event, desk))
    }

    /// The open datagram that a drop is about.
    pub fn dropped_datagram(&self, event: &Event) -> Option<usize> {
        let by = |key: Option<(u8, u64)>| {
            let index = self.pieces.starting_at(*self.udp.by_key.get(&key?)?)?;
            let piece = self.pieces.get(index)?;
            let open = !piece.is_gone() && !piece.has(Hop::AppRecv);
            (open && piece.end - piece.start == u64::from(event.len)).then_some(index)
        };
        by(id_key(event)).or_else(|| by(skb_key(event)))
    }
}

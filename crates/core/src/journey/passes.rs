//! The copies of an open piece that was sent more than once: assigns events to packets.

use super::copies::{CopyDrop, Resend, SentCopy};
use super::drops::DropPlace;
use super::ip_ids::IpIds;
use super::piece::{Mark, RX, RX_PACKET, TX_PACKET};
use super::rungs::{Rungs, bit, bits};
use crate::hop::Hop;

/// Maximum number of copies of a journey; further ones are counted.
pub const MAX_COPIES: usize = 9;

#[derive(Clone, Debug, Default)]
struct Pass {
    copy: SentCopy,
    /// True if its drop may be that of a copy which a bridge or a mirror made.
    may_arrive: bool,
}

impl Pass {
    const fn seen(&self) -> u32 {
        self.copy.rungs.present()
    }

    const fn is_dropped(&self) -> bool {
        self.copy.dropped.is_some() && !self.may_arrive
    }
}

/// All copies, the first included.
#[derive(Clone, Debug, Default)]
pub(super) struct Passes {
    /// At least one.
    list: Vec<Pass>,
    /// The copy of the packet that arrived last.
    arriving: Option<usize>,
    /// Last hop of that packet: it continues upwards.
    last_in: Option<Hop>,
    /// True after a driver's return of an unknown copy.
    mixed: bool,
    /// True if a copy outside the list may be on its way: one from before a capture that did not see the bytes
    /// enter the socket, or one that was removed.
    has_others: bool,
}

impl Passes {
    /// Number of retransmissions.
    pub fn count(&self) -> u32 {
        self.list.last().map_or(0, |last| last.copy.number.saturating_sub(1))
    }

    /// True if the kernel dropped the newest copy.
    pub fn is_last_dropped(&self) -> bool {
        self.list.last().is_some_and(Pass::is_dropped)
    }

    /// The stored copies. `number` is the copy of a journey with the hops `seen`: possibly no hop has shown
    /// which of several it was.
    pub fn copies(&self, number: u32, seen: u32) -> Vec<SentCopy> {
        let (_, others) = self.in_flight();
        let unshown =
            |copy: &SentCopy| copy.number == number && copy.rungs.present() & RX == 0 && seen & RX != 0;
        let copy = |pass: &Pass| SentCopy {
            ambiguous: pass.copy.ambiguous || unshown(&pass.copy) && (others || self.misses_one()),
            ..pass.copy
        };
        self.list.iter().map(copy).collect()
    }

    /// The hops of a journey with these copies, and the number of their copy. `all` has the first time at each
    /// hop, for any copy.
    pub fn through(&self, all: &Rungs) -> (Rungs, u32) {
        let packet = TX_PACKET | RX_PACKET;
        let furthest = |pass: &&Pass| {
            let last = pass.copy.rungs.last();
            let at_ns = last.and_then(|hop| pass.copy.rungs.time_ns(hop)).unwrap_or(0);
            let received = pass.seen() & RX_PACKET != 0;
            // The first received copy, or the last sent.
            let order = if received { u64::MAX - at_ns } else { u64::from(pass.copy.number) };
            (pass.seen() & !bit(Hop::DevDone)).checked_ilog2().map(|hop| (hop, order))
        };
        let Some(through) = self.list.iter().max_by_key(furthest) else { return (*all, 0) };
        // A packet other than these copies, as one from before the capture, stays.
        let of_a_copy = |hop: &Hop| {
            self.list.iter().any(|pass| pass.copy.rungs.time_ns(*hop) == all.time_ns(*hop))
                || bit(*hop) & TX_PACKET != 0
        };
        let theirs = all.hops().filter(of_a_copy).fold(0, |hops, hop| hops | bit(hop));
        let mut rungs = *all;
        rungs.clear(packet & theirs);
        rungs.take(&through.copy.rungs, packet);
        if rungs.is_empty() {
            return (*all, through.copy.number); // a driver's return, of any copy
        }
        (rungs, through.copy.number)
    }

    /// True if an event at a packet hop of the sender, after a copy with the hops `seen`, belongs to another
    /// copy.
    pub fn begins(seen: u32, hop: Hop, counted_at: Hop) -> bool {
        hop == counted_at && seen & bits(counted_at, Hop::DevDone) != 0
    }

    /// The copies of a piece that was sent once, according to `first`. `dropped`: its drop, and whether that may be of a
    /// copy which a bridge or a mirror made.
    pub fn after(first: &Rungs, ids: IpIds, dropped: Option<(CopyDrop, bool)>) -> Self {
        let (dropped, may_arrive) = dropped.map_or((None, false), |(drop, may)| (Some(drop), may));
        let mut rungs = *first;
        rungs.clear(!(TX_PACKET | RX_PACKET));
        // A driver returns after it received the packet: an earlier return belongs to a copy before the capture
        // began. So may a later one if the capture did not see the bytes enter the socket.
        let given = rungs.hops().filter(|hop| bit(*hop) & TX_PACKET != 0 && *hop != Hop::DevDone);
        let given_ns = given.filter_map(|hop| rungs.time_ns(hop)).max();
        let is_from_start = first.present() & bits(Hop::AppSend, Hop::TcpSend) != 0;
        if rungs.time_ns(Hop::DevDone) < given_ns || !is_from_start {
            rungs.clear(bit(Hop::DevDone));
        }
        let seen = rungs.present() & RX_PACKET;
        let last_in = seen.checked_ilog2().and_then(|index| Hop::path().get(index as usize)).copied();
        let copy = SentCopy { number: 1, rungs, ids, dropped, ..SentCopy::default() };
        Passes {
            list: vec![Pass { copy, may_arrive }],
            arriving: last_in.map(|_| 0),
            last_in,
            mixed: false,
            has_others: !is_from_start,
        }
    }

    pub fn begin(&mut self) {
        let number = self.count() + 2;
        if self.list.len() >= MAX_COPIES {
            // The newest is removed unless it has arrived: the journey may be of it.
            let gone = self.list.iter().skip(1).rposition(|pass| pass.seen() & RX == 0);
            let gone = gone.map_or(self.list.len() - 1, |n| n + 1);
            // Its driver may still return, and then the return may be another copy's.
            self.mixed |= Self::awaits_return(self.list[gone].seen());
            self.has_others |= !self.list[gone].is_dropped();
            self.list.remove(gone);
            self.arriving = self.arriving.filter(|n| *n != gone).map(|n| n - usize::from(n > gone));
        }
        // One more is typical, and a vector would begin with room for four.
        self.list.reserve_exact(1);
        let copy = SentCopy { number, ..SentCopy::default() };
        self.list.push(Pass { copy, may_arrive: false });
    }

    /// A packet passed a hop of the sender.
    pub fn go_out(&mut self, mark: &Mark, counted_at: Hop) {
        if mark.hop == Hop::DevDone {
            return self.driver_returned(mark);
        }
        if let Some(last) = self.list.last() {
            // Above the queueing discipline `tcp.retransmit` follows the packet, so this packet is a different
            // one.
            let reported_alone = last.seen() == 0 && last.copy.retransmit_ns.is_some();
            let reported_alone = reported_alone && counted_at <= Hop::DevQueue && mark.hop == counted_at;
            if Self::begins(last.seen(), mark.hop, counted_at) || reported_alone {
                self.begin();
            }
        }
        // A copy may leave the queueing discipline after the next one has reached it.
        let of = if mark.hop == counted_at { None } else { self.with_ids(mark.ids) };
        let newest = self.list.len().saturating_sub(1);
        if let Some(pass) = self.list.get_mut(of.unwrap_or(newest)) {
            pass.copy.rungs.set_first(mark.hop, mark.time_ns, mark.cpu);
            if mark.ids.is_present() && of.is_none() {
                pass.copy.ids = mark.ids;
            }
        }
    }

    /// True if a driver received a copy with the hops `seen` and has not returned.
    const fn awaits_return(seen: u32) -> bool {
        seen & (bit(Hop::DevXmit) | bit(Hop::DevDone)) == bit(Hop::DevXmit)
    }

    /// A driver may return late, after the bytes were sent again.
    fn driver_returned(&mut self, mark: &Mark) {
        let is_waiting = |pass: &Pass| Self::awaits_return(pass.seen());
        let one = self.list.iter().position(is_waiting);
        let others = self.list.iter().filter(|pass| is_waiting(pass)).count() > 1;
        let of = self.with_ids(mark.ids);
        // An unknown return makes the next one unknown, too.
        self.mixed |= (others || self.misses_one()) && of.is_none();
        let of = of.or(one.filter(|_| !self.mixed));
        if let Some(pass) = of.and_then(|n| self.list.get_mut(n)) {
            pass.copy.rungs.set_first(mark.hop, mark.time_ns, mark.cpu);
        }
    }

    /// Records `tcp.retransmit` of the newest copy, or of an unseen one.
    pub fn mark_retransmitted(&mut self, kind: Resend, time_ns: u64) {
        if !self.is_unconfirmed() {
            self.begin();
        }
        if let Some(last) = self.list.last_mut() {
            last.copy.kind = kind;
            last.copy.retransmit_ns = Some(time_ns);
        }
    }

    /// True if the newest copy left without its `tcp.retransmit` so far.
    pub fn is_unconfirmed(&self) -> bool {
        self.list.last().is_some_and(|last| last.copy.number > 1 && last.copy.retransmit_ns.is_none())
    }

    /// The kernel dropped a packet.
    pub fn mark_dropped(&mut self, drop: CopyDrop, ids: IpIds, place: DropPlace) {
        let newest = || self.list.iter().rposition(|pass| pass.seen() & RX == 0 && pass.copy.dropped.is_none());
        let of = self.with_ids(ids).or_else(|| match place {
            DropPlace { may_be_of_copy: true, .. } => None, // nothing shows of which one
            DropPlace { is_before_receiver: true, .. } => newest(),
            DropPlace { .. } => self.arriving,
        });
        // What arrived was not dropped before: a bridge or a mirror has copied the packet.
        let is_it = |pass: &&mut Pass| !place.is_before_receiver || pass.seen() & RX == 0;
        if let Some(pass) = of.and_then(|n| self.list.get_mut(n)).filter(is_it) {
            pass.may_arrive = pass.copy.dropped.is_none() && place.may_be_of_copy;
            pass.copy.dropped.get_or_insert(drop);
        }
    }

    /// A packet passed a hop of the receiver. `seen` are the hops of the journey itself.
    pub fn come_in(&mut self, mark: &Mark, seen: u32) {
        let mut doubtful = false;
        if let Some(n) = self.with_ids(mark.ids) {
            self.arriving = Some(n);
        } else if self.last_in.is_none_or(|last| mark.hop <= last) {
            // Another packet. One that does not start at the lowest hop began before the second copy: a
            // duplicate.
            let is_new = seen & RX & (bit(mark.hop) - 1) == 0;
            let (newest, others) = self.in_flight();
            self.arriving = newest.filter(|_| is_new);
            // After the first arrival, it may be a duplicate of an earlier one.
            let came = self.list.iter().any(|pass| pass.seen() & RX != 0);
            doubtful = others || came || self.misses_one();
        }
        self.last_in = Some(mark.hop);
        if let Some(pass) = self.arriving.and_then(|n| self.list.get_mut(n)) {
            if pass.seen() & RX == 0 {
                pass.copy.dropped = None; // of another copy of the packet, as a bridge makes them
            }
            pass.copy.rungs.set_first(mark.hop, mark.time_ns, mark.cpu);
            pass.copy.ambiguous |= doubtful;
        }
    }

    /// True if a copy's departure was not seen, of a reported one or before the capture: its packet may be
    /// anywhere.
    fn misses_one(&self) -> bool {
        self.has_others || self.list.iter().skip(1).any(|pass| pass.seen() & TX_PACKET == 0)
    }

    /// The newest copy that left, was not dropped and has not arrived, and whether there are others. Only
    /// copies on the wire count, if any certainly is.
    fn in_flight(&self) -> (Option<usize>, bool) {
        let device = bits(Hop::DevXmit, Hop::DevDone);
        let wired = self.list.iter().any(|pass| pass.seen() & device != 0);
        let went = if wired { device } else { TX_PACKET };
        let waits = |pass: &Pass| pass.seen() & RX == 0 && pass.seen() & went != 0 && !pass.is_dropped();
        let newest = self.list.iter().rposition(waits);
        (newest, self.list.iter().filter(|pass| waits(pass)).count() > 1)
    }

    /// The copy whose packet has one of these identifications.
    fn with_ids(&self, ids: IpIds) -> Option<usize> {
        self.list.iter().position(|pass| pass.copy.ids.meets(ids))
    }

    /// The assumed end was a forwarder: its events belong to no copy.
    pub fn clear(&mut self, hops: u32) {
        for pass in &mut self.list {
            pass.copy.rungs.clear(hops);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_stays_small() {
        assert!(size_of::<Pass>() <= 288);
    }
}

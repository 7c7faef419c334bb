//! The passes of a piece after its first, while it is open: which event belongs to which packet.

use super::branch::{Branch, Resend};
use super::piece::{Mark, RX, TX_PACKET};
use super::rungs::{Rungs, bit, bits};
use crate::hop::Hop;

/// Branches kept of a journey; those beyond are counted.
pub(super) const MAX_BRANCHES: usize = 8;

/// IPv4 identifications that a packet takes up: one a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ids {
    /// The first; 0 if there is none.
    pub first: u16,
    pub count: u16,
}

impl Ids {
    const fn is_known(self) -> bool {
        self.first != 0
    }

    /// Whether a packet with these has come out of one with those of `other`, by segmentation or merging.
    const fn meets(self, other: Self) -> bool {
        let (ahead, behind) = (self.first.wrapping_sub(other.first), other.first.wrapping_sub(self.first));
        self.is_known() && other.is_known() && (ahead < other.count || behind < self.count || ahead == 0)
    }
}

#[derive(Clone, Debug, Default)]
struct Pass {
    branch: Branch,
    ids: Ids,
}

/// Every pass but the first.
#[derive(Clone, Debug, Default)]
pub(super) struct Passes {
    /// The one behind [`MAX_BRANCHES`] is the newest of those that are not kept.
    list: Vec<Pass>,
    /// Passes that are not in the list any more.
    beyond: u32,
    /// The pass of the packet that came in last, 0 for the first one.
    arriving: Option<usize>,
    /// Where that packet was last: it goes up from there.
    last_in: Option<Hop>,
    /// A driver has returned of which it is not known what it had.
    mixed: bool,
}

impl Passes {
    /// How many.
    pub fn count(&self) -> u32 {
        (self.list.len() as u32).saturating_add(self.beyond)
    }

    /// The branches that are kept.
    pub fn branches(&self) -> Vec<Branch> {
        self.list.iter().take(MAX_BRANCHES).map(|pass| pass.branch).collect()
    }

    /// Whether an event at a packet hop of the sender, after one pass with the rungs `seen`, is of another pass.
    pub fn begins(seen: u32, hop: Hop, counted_at: Hop) -> bool {
        hop == counted_at && seen & bits(counted_at, Hop::DevDone) != 0
    }

    /// The passes of a piece of which one pass was seen, so far as `first` says.
    pub fn after(first: &Rungs) -> Self {
        let seen = first.present() & bits(Hop::DevRecv, Hop::TcpRecv);
        let last_in = seen.checked_ilog2().and_then(|index| Hop::path().get(index as usize)).copied();
        Passes { arriving: last_in.map(|_| 0), last_in, ..Passes::default() }
    }

    pub fn begin(&mut self) {
        if self.list.len() > MAX_BRANCHES {
            self.list.pop();
            self.beyond = self.beyond.saturating_add(1);
        }
        // One more is the rule, and a vector would begin with room for four.
        self.list.reserve_exact(1);
        self.list.push(Pass::default());
    }

    /// A packet went by at a hop of the sender. `first` is what the journey itself has, `ids` those of its first packet.
    pub fn go_out(&mut self, mark: &Mark, counted_at: Hop, first: &Rungs, ids: Ids) {
        if mark.hop == Hop::DevDone {
            return self.driver_returned(mark, first, ids);
        }
        if let Some(last) = self.list.last() {
            let seen = last.branch.rungs.present();
            // Above the queueing discipline `tcp.retransmit` comes after the packet, so this is none of its.
            let told_alone = seen == 0 && last.branch.told_ns.is_some();
            let told_alone = told_alone && counted_at <= Hop::DevQueue && mark.hop == counted_at;
            if Self::begins(seen, mark.hop, counted_at) || told_alone {
                self.begin();
            }
        }
        if let Some(pass) = self.list.last_mut() {
            pass.branch.rungs.set_first(mark.hop, mark.time_ns, mark.cpu);
            if mark.ids.is_known() {
                pass.ids = mark.ids;
            }
        }
    }

    /// A driver may return late, when the bytes have gone out again.
    fn driver_returned(&mut self, mark: &Mark, first: &Rungs, ids: Ids) {
        let returns = bit(Hop::DevXmit) | bit(Hop::DevDone);
        let waits = |n: &usize| self.rungs(*n, first) & returns == bit(Hop::DevXmit);
        let mut waiting = (0..=self.list.len()).filter(waits);
        let (one, others) = (waiting.next(), waiting.next().is_some());
        let of = self.with_ids(mark.ids, ids);
        // Once it is not known whose return it was, it is not known of the next one either.
        self.mixed |= (others || self.misses_one()) && of.is_none();
        let of = of.or(one.filter(|_| !self.mixed));
        if let Some(pass) = of.and_then(|n| self.pass_mut(n)) {
            pass.branch.rungs.set_first(mark.hop, mark.time_ns, mark.cpu);
        }
    }

    /// `tcp.retransmit` told of the newest pass, or of one that was not seen.
    pub fn tell(&mut self, kind: Resend, time_ns: u64) {
        if self.list.last().is_none_or(|last| last.branch.told_ns.is_some()) {
            self.begin();
        }
        if let Some(last) = self.list.last_mut() {
            last.branch.kind = kind;
            last.branch.told_ns = Some(time_ns);
        }
    }

    /// Whether the newest pass was seen, and not told of.
    pub fn is_untold(&self) -> bool {
        self.list.last().is_some_and(|last| last.branch.told_ns.is_none())
    }

    /// A packet went by at a hop of the receiver.
    pub fn come_in(&mut self, mark: &Mark, first: &Rungs, ids: Ids) {
        let mut doubtful = false;
        if let Some(n) = self.with_ids(mark.ids, ids) {
            self.arriving = Some(n);
        } else if self.last_in.is_none_or(|last| mark.hop <= last) {
            // Another packet. One that does not come from the lowest hop began before the second pass: a copy.
            let is_new = first.present() & RX & (bit(mark.hop) - 1) == 0;
            let (newest, others) = self.on_their_way(first);
            self.arriving = newest.filter(|_| is_new);
            // After the first that came, it may be a copy of one that came before.
            let came = (0..=self.list.len()).any(|n| self.rungs(n, first) & RX != 0);
            doubtful = others || came || self.misses_one();
        }
        self.last_in = Some(mark.hop);
        if let Some(pass) = self.arriving.and_then(|n| self.pass_mut(n)) {
            pass.branch.rungs.set_first(mark.hop, mark.time_ns, mark.cpu);
            pass.branch.ambiguous |= doubtful;
        }
    }

    /// Whether a pass was told of and not seen going out: its packet may be anywhere.
    fn misses_one(&self) -> bool {
        self.list.iter().any(|pass| pass.branch.rungs.present() & TX_PACKET == 0)
    }

    /// The newest pass that went out and has not come in, and whether there are others: of those that reached the wire,
    /// if any is known to have.
    fn on_their_way(&self, first: &Rungs) -> (Option<usize>, bool) {
        let device = bits(Hop::DevXmit, Hop::DevDone);
        let wired = (0..=self.list.len()).any(|n| self.rungs(n, first) & device != 0);
        let went = if wired { device } else { TX_PACKET };
        let waits = |n: &usize| self.rungs(*n, first) & RX == 0 && self.rungs(*n, first) & went != 0;
        let mut waiting = (0..=self.list.len()).rev().filter(waits);
        (waiting.next(), waiting.next().is_some())
    }

    /// The pass whose packet has one of these identifications, 0 for the first one, which has `first`.
    fn with_ids(&self, ids: Ids, first: Ids) -> Option<usize> {
        if first.meets(ids) {
            return Some(0);
        }
        self.list.iter().position(|pass| pass.ids.meets(ids)).map(|n| n + 1)
    }

    /// A pass other than the first.
    fn pass_mut(&mut self, n: usize) -> Option<&mut Pass> {
        n.checked_sub(1).and_then(|n| self.list.get_mut(n))
    }

    /// The hops of one pass; those of the first are the journey's own that no other pass was first at.
    fn rungs(&self, pass: usize, first: &Rungs) -> u32 {
        if let Some(n) = pass.checked_sub(1) {
            return self.list.get(n).map_or(0, |pass| pass.branch.rungs.present());
        }
        let others = self.list.iter().map(|pass| pass.branch.rungs.shared_with(first));
        first.present() & !others.fold(0, |all, shared| all | shared)
    }

    /// What was taken for one end was a node that forwards: its rungs are nobody's.
    pub fn clear(&mut self, hops: u32) {
        for pass in &mut self.list {
            pass.branch.rungs.clear(hops);
        }
    }
}

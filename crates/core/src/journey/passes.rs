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
    /// The pass of the packet that is on its way up the receiver, 0 for the first.
    arriving: usize,
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

    pub fn begin(&mut self) {
        if self.list.len() > MAX_BRANCHES {
            self.list.pop();
            self.beyond = self.beyond.saturating_add(1);
        }
        self.list.push(Pass::default());
    }

    /// A packet went by at a hop of the sender.
    pub fn go_out(&mut self, mark: &Mark, counted_at: Hop) {
        if let Some(last) = self.list.last() {
            let seen = last.branch.rungs.present();
            // Above the queueing discipline `tcp.retransmit` comes after the packet, so this is none of its.
            let told_alone = seen == 0 && last.branch.told_ns.is_some();
            let told_alone = told_alone && counted_at <= Hop::DevQueue && mark.hop == counted_at;
            if Self::begins(seen, mark.hop, counted_at) || told_alone {
                self.begin();
            }
        }
        // A driver may return late, when the bytes have gone out again.
        let misses_return =
            |pass: &Pass| pass.branch.rungs.has(Hop::DevXmit) && !pass.branch.rungs.has(Hop::DevDone);
        let pass = match mark.hop {
            Hop::DevDone => self.list.iter_mut().rev().find(|pass| misses_return(pass)),
            _ => self.list.last_mut(),
        };
        if let Some(pass) = pass {
            pass.branch.rungs.set_first(mark.hop, mark.time_ns, mark.cpu);
            if mark.ids.is_known() {
                pass.ids = mark.ids;
            }
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

    /// A packet went by at a hop of the receiver. `first` is what the journey itself has, `ids` those of its first
    /// packet.
    pub fn come_in(&mut self, mark: &Mark, first: &Rungs, ids: Ids) {
        let sent = |n: usize| if n == 0 { ids } else { self.list.get(n - 1).map_or(Ids::default(), |p| p.ids) };
        let all = 0..=self.list.len();
        let (arrives, doubtful) = if let Some(n) = all.clone().find(|n| sent(*n).meets(mark.ids)) {
            (Some(n), false)
        } else if self.goes_on(mark.hop, first) {
            (Some(self.arriving), false)
        } else {
            // Those that went out and have not come in; all that reached the wire, if any is known to have.
            let out = |n: &usize| self.rungs(*n, first) & TX_PACKET != 0;
            let wired = |n: &usize| self.rungs(*n, first) & bit(Hop::DevXmit) != 0;
            let any_wired = all.clone().any(|n| wired(&n));
            let waits =
                |n: &usize| self.rungs(*n, first) & RX == 0 && if any_wired { wired(n) } else { out(n) };
            let mut waiting = all.rev().filter(waits);
            (waiting.next(), waiting.next().is_some())
        };
        let Some(arrives) = arrives else { return };
        self.arriving = arrives;
        if let Some(pass) = arrives.checked_sub(1).and_then(|n| self.list.get_mut(n)) {
            pass.branch.rungs.set_first(mark.hop, mark.time_ns, mark.cpu);
            pass.branch.ambiguous |= doubtful;
        }
    }

    /// Whether the packet that came in last may be the one at `hop` now.
    fn goes_on(&self, hop: Hop, first: &Rungs) -> bool {
        let seen = self.rungs(self.arriving, first) & RX;
        seen & bits(Hop::DevRecv, hop) != 0 && seen & bits(hop, Hop::TcpRecv) == 0
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

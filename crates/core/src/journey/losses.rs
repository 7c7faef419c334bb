//! Stretches of time with lost records.

use crate::batch::Loss;
use std::collections::VecDeque;

/// Maximum number of separate losses; beyond it the two oldest are merged, which errs on the side of "broken".
const MAX_LOSSES: usize = 512;

/// The losses, ordered by their end.
#[derive(Debug, Default)]
pub(super) struct Losses {
    list: VecDeque<Loss>,
}

impl Losses {
    pub fn push(&mut self, loss: &Loss) {
        let (from_ns, to_ns) = (loss.from_ns.min(loss.to_ns), loss.from_ns.max(loss.to_ns));
        let behind = self.list.iter().rev().take_while(|l| l.to_ns > to_ns).count();
        self.list.insert(self.list.len() - behind, Loss { from_ns, to_ns, ..*loss });
        if self.list.len() > MAX_LOSSES
            && let (Some(oldest), Some(next)) = (self.list.pop_front(), self.list.front_mut())
        {
            next.from_ns = next.from_ns.min(oldest.from_ns);
            next.count = next.count.saturating_add(oldest.count);
            if next.cpu != oldest.cpu {
                next.cpu = u16::MAX;
            }
        }
    }

    /// The first loss that overlaps `[from, to]`.
    pub fn within(&self, from_ns: u64, to_ns: u64) -> Option<Loss> {
        // Most queries concern the newest.
        let late_enough = self.list.iter().rev().take_while(|l| l.to_ns >= from_ns);
        late_enough.filter(|l| l.from_ns <= to_ns).last().copied()
    }

    /// True if any record was lost in `[from, to]`.
    pub fn overlap(&self, from_ns: u64, to_ns: u64) -> bool {
        self.list.iter().rev().take_while(|l| l.to_ns >= from_ns).any(|l| l.from_ns <= to_ns)
    }

    /// End of the last one.
    pub fn end_ns(&self) -> u64 {
        self.list.back().map_or(0, |l| l.to_ns)
    }

    /// Discards losses that ended before `ns`.
    pub fn forget_before(&mut self, ns: u64) {
        while self.list.front().is_some_and(|l| l.to_ns < ns) {
            self.list.pop_front();
        }
    }
}

//! Stretches of time in which records were lost.

use crate::batch::Loss;
use std::collections::VecDeque;

/// Spans kept apart; beyond that the two oldest become one, which errs on the side of "broken".
const MAX_SPANS: usize = 512;

/// Lost stretches, in order of their end, as a union without overlap.
#[derive(Debug, Default)]
pub(super) struct Losses {
    spans: VecDeque<(u64, u64)>,
}

impl Losses {
    pub fn push(&mut self, loss: &Loss) {
        let (mut from, mut to) = (loss.from_ns.min(loss.to_ns), loss.from_ns.max(loss.to_ns));
        while let Some(&(last_from, last_to)) = self.spans.back() {
            if last_to < from {
                break;
            }
            from = from.min(last_from);
            to = to.max(last_to);
            self.spans.pop_back();
        }
        self.spans.push_back((from, to));
        if self.spans.len() > MAX_SPANS
            && let (Some(a), Some(b)) = (self.spans.pop_front(), self.spans.front_mut())
        {
            b.0 = a.0.min(b.0);
        }
    }

    /// Whether anything was lost in `[from, to]`.
    pub fn overlap(&self, from_ns: u64, to_ns: u64) -> bool {
        // The newest are asked about most; spans are disjoint and in order.
        self.spans.iter().rev().take_while(|s| s.1 >= from_ns).any(|s| s.0 <= to_ns)
    }

    /// End of the last one.
    pub fn end_ns(&self) -> u64 {
        self.spans.back().map_or(0, |s| s.1)
    }

    /// Forgets what ended before `ns`.
    pub fn forget_before(&mut self, ns: u64) {
        while self.spans.front().is_some_and(|s| s.1 < ns) {
            self.spans.pop_front();
        }
    }
}

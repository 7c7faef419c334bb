//! Event losses, by recording: bytes that moved meanwhile may have left no event at all.
//!
//! Bytes that are missing between two others show as a gap of their stream. The last bytes of a request or of a
//! response have nothing behind them, so nothing but the loss shows that they may be missing.
//!
//! A run that the kernel refused hides one hop of some bytes. Their other hops show them.

use crate::batch::{Loss, LossCause};
use crate::hash::Map;
use std::collections::VecDeque;

/// Maximum number of stored intervals of a recording.
const MOST: usize = 1 << 10;

/// The latest losses of every recording: intervals in nanoseconds of the time line, roughly in their order.
#[derive(Debug, Default)]
pub(super) struct Losses(Map<u16, VecDeque<(u64, u64)>>);

impl Losses {
    /// Takes the losses of a recording's batch. Of too many, the oldest ones become one.
    pub fn take(&mut self, node: u16, losses: &[Loss]) {
        for loss in losses.iter().filter(|loss| loss.cause != LossCause::Refused) {
            let intervals = self.0.entry(node).or_default();
            match intervals.back_mut() {
                // The CPUs lose at the same time.
                Some((from, to)) if loss.from_ns <= *to && *from <= loss.to_ns => {
                    (*from, *to) = (loss.from_ns.min(*from), loss.to_ns.max(*to));
                }
                _ => intervals.push_back((loss.from_ns, loss.to_ns)),
            }
            if intervals.len() > MOST
                && let (Some(first), Some(second)) = (intervals.pop_front(), intervals.front_mut())
            {
                *second = (first.0.min(second.0), first.1.max(second.1));
            }
        }
    }

    /// True if a recording lost events between two instants, both included.
    pub fn any(&self, node: u16, from_ns: u64, to_ns: u64) -> bool {
        self.0.get(&node).into_iter().flatten().any(|(from, to)| *from <= to_ns && from_ns <= *to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_found_however_many_there_are() {
        let mut losses = Losses::default();
        for n in 0..3 * MOST as u64 {
            let loss = |cpu, from_ns, to_ns| Loss { cpu, from_ns, to_ns, count: 1, cause: LossCause::RingFull };
            losses.take(1, &[loss(0, 100 * n, 100 * n + 10), loss(1, 100 * n + 5, 100 * n + 20)]);
        }
        assert!(losses.0[&1].len() <= MOST);
        let last = 100 * (3 * MOST as u64 - 1);
        for at in [0, 20, 100, 12_345, last, last + 20] {
            assert!(losses.any(1, at, at), "{at}");
        }
        assert!(!losses.any(1, last - 79, last - 1) && losses.any(1, last - 80, last - 1));
        let refused = Loss { cpu: 0, from_ns: 0, to_ns: u64::MAX, count: 9, cause: LossCause::Refused };
        losses.take(0, &[refused]);
        losses.take(1, &[refused]);
        assert!(!losses.any(1, last + 21, u64::MAX) && !losses.any(0, 0, u64::MAX));
    }
}

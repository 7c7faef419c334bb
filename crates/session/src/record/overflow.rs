//! Losses of the recorder's queue that are not yet recorded.

use magscope_core::workload::Names;
use magscope_core::{Batch, Change, Loss, LossCause};

/// Pending losses, one entry per CPU and cause, so the size is bounded.
#[derive(Default)]
pub(super) struct Overflow {
    waiting: Vec<Loss>,
    /// Pending setting changes: few in practice; beyond [`MOST_CHANGES`] the oldest are dropped.
    changes: Vec<Change>,
    /// Pending names, likewise.
    names: Vec<Names>,
}

const MOST_CHANGES: usize = 1_000;

impl Overflow {
    /// Counts the records of a dropped batch and stores its losses.
    pub(super) fn drop_batch(&mut self, batch: &Batch) -> u64 {
        let dropped = batch.numbered();
        let times = batch.events.iter().map(|e| e.time_ns).chain(batch.tcp.iter().map(|t| t.time_ns));
        let asked = batch.hits.iter().map(|h| h.time_ns).chain(batch.heads.iter().map(|h| h.time_ns));
        let times = times.chain(asked);
        let range = times.fold(None, |range: Option<(u64, u64)>, t| {
            Some(range.map_or((t, t), |(from, to)| (from.min(t), to.max(t))))
        });
        if let Some((from_ns, to_ns)) = range {
            let cause = LossCause::RecorderQueue;
            self.add(Loss { cpu: u16::MAX, from_ns, to_ns, count: dropped, cause });
        }
        for loss in &batch.losses {
            self.add(*loss);
        }
        self.changes.extend_from_slice(&batch.changes);
        self.changes.drain(..self.changes.len().saturating_sub(MOST_CHANGES));
        self.names.extend_from_slice(&batch.names);
        self.names.drain(..self.names.len().saturating_sub(MOST_CHANGES));
        dropped
    }

    fn add(&mut self, loss: Loss) {
        match self.waiting.iter_mut().find(|w| w.cpu == loss.cpu && w.cause == loss.cause) {
            Some(waiting) => {
                waiting.from_ns = waiting.from_ns.min(loss.from_ns);
                waiting.to_ns = waiting.to_ns.max(loss.to_ns);
                waiting.count = waiting.count.saturating_add(loss.count);
            }
            None => self.waiting.push(loss),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.changes.is_empty() && self.names.is_empty()
    }

    /// Inserts the pending losses before those of a batch.
    pub(super) fn move_into(&mut self, batch: &mut Batch) {
        batch.changes.splice(0..0, self.changes.drain(..));
        batch.names.splice(0..0, self.names.drain(..));
        if !self.waiting.is_empty() {
            self.waiting.sort_unstable_by_key(|l| l.to_ns);
            batch.losses.splice(0..0, self.waiting.drain(..));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::{Event, Hop};

    #[test]
    fn drops_are_merged_and_reported_once() {
        let mut overflow = Overflow::default();
        let ring = Loss { cpu: 3, from_ns: 1, to_ns: 2, count: 5, cause: LossCause::RingFull };
        for time_ns in [30, 10, 20] {
            let events = vec![Event::at(Hop::AppSend, time_ns)];
            overflow.drop_batch(&Batch { events, losses: vec![ring], ..Batch::default() });
        }
        let mut batch = Batch { losses: vec![Loss { to_ns: 99, ..ring }], ..Batch::default() };
        overflow.move_into(&mut batch);
        assert!(overflow.is_empty());
        assert_eq!(batch.losses[0], Loss { count: 15, ..ring });
        let queue = LossCause::RecorderQueue;
        assert_eq!(batch.losses[1], Loss { cpu: u16::MAX, from_ns: 10, to_ns: 30, count: 3, cause: queue });
        assert_eq!(batch.losses[2].to_ns, 99);
    }
}

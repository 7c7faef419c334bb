//! Sums of lost records. Stretches overlap, because each CPU's ring and each kind of loss has its own.

use super::{CauseRow, Losses};
use magscope_core::batch::{Batch, Loss, LossCause};
use std::collections::BTreeMap;

/// Maximum number of stretches that later ones can extend. Losses come almost in the order of their ends.
const MAX_OPEN: usize = 1024;

/// Sums of lost records, and the time in which they were lost. Bounded memory.
#[derive(Default)]
pub(super) struct LossSums {
    records: u64,
    late_events: u64,
    causes: BTreeMap<u8, u64>,
    /// Start and end of stretches, disjoint, nanoseconds.
    open: BTreeMap<u64, u64>,
    /// Number and length of earlier stretches.
    before: (u64, u64),
}

impl LossSums {
    /// Adds the losses of a batch.
    pub(super) fn batch(&mut self, batch: &Batch) {
        self.late_events = self.late_events.saturating_add(batch.late);
        for loss in &batch.losses {
            self.loss(loss);
        }
    }

    fn loss(&mut self, loss: &Loss) {
        self.records = self.records.saturating_add(loss.count);
        let of_cause = self.causes.entry(loss.cause as u8).or_default();
        *of_cause = of_cause.saturating_add(loss.count);
        let (mut from, mut to) = (loss.from_ns, loss.to_ns.max(loss.from_ns));
        while let Some((&start, &end)) = self.open.range(..=to).next_back().filter(|&(_, &end)| end >= from) {
            self.open.remove(&start);
            (from, to) = (from.min(start), to.max(end));
        }
        self.open.insert(from, to);
        if self.open.len() > MAX_OPEN
            && let Some((start, end)) = self.open.pop_first()
        {
            let (stretches, span_ns) = self.before;
            self.before = (stretches + 1, span_ns.saturating_add(end - start));
        }
    }

    /// The sums, with causes in their order.
    pub(super) fn finish(&self) -> Losses {
        let (stretches, span_ns) = self.before;
        let open_ns = self.open.iter().map(|(start, end)| end - start);
        let records_of = |cause: LossCause| {
            self.causes.get(&(cause as u8)).map(|records| CauseRow { cause, records: *records })
        };
        Losses {
            records: self.records,
            stretches: stretches + self.open.len() as u64,
            span_ns: open_ns.fold(span_ns, u64::saturating_add),
            causes: LossCause::ALL.into_iter().filter_map(records_of).collect(),
            late_events: self.late_events,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(losses: &[(u64, u64)]) -> Losses {
        let mut sums = LossSums::default();
        let loss = |&(from_ns, to_ns)| Loss { cpu: 0, from_ns, to_ns, count: 2, cause: LossCause::RingFull };
        sums.batch(&Batch { losses: losses.iter().map(loss).collect(), late: 3, ..Batch::default() });
        sums.finish()
    }

    #[test]
    fn stretches_that_overlap_are_one() {
        let of = |losses: &[(u64, u64)]| {
            let sums = sums(losses);
            (sums.stretches, sums.span_ns)
        };
        assert_eq!(of(&[]), (0, 0));
        assert_eq!(of(&[(10, 20), (30, 40)]), (2, 20));
        assert_eq!(of(&[(10, 20), (30, 40), (5, 35)]), (1, 35), "the later one fills the gap");
        assert_eq!(of(&[(10, 20), (20, 30)]), (1, 20), "the end is a part of it");
        assert_eq!(of(&[(10, 40), (20, 30), (12, 13)]), (1, 30));
        assert_eq!(of(&[(10, 10), (10, 10)]), (1, 0), "an instant");
        assert_eq!(of(&[(30, 10)]), (1, 0), "the end of a damaged record is before its start");
    }

    #[test]
    fn every_record_counts() {
        let sums = sums(&[(10, 20), (15, 30)]);
        assert_eq!((sums.records, sums.late_events), (4, 3));
        assert_eq!(sums.causes, [CauseRow { cause: LossCause::RingFull, records: 4 }]);
    }

    #[test]
    fn many_stretches_are_added_up_in_bounded_memory() {
        let losses: Vec<_> = (0..5 * MAX_OPEN as u64).map(|at| (at * 10, at * 10 + 3)).collect();
        let sums = sums(&losses);
        assert_eq!((sums.stretches, sums.span_ns), (losses.len() as u64, 3 * losses.len() as u64));
    }
}

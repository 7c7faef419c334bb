//! Counts since the start, and recent ones: events, journeys by verdict, losses by cause.

use crate::window::{BUCKET_NS, BUCKETS};
use magscope_core::journey::Journey;
use magscope_core::{Batch, Hop, Loss, LossCause, Verdict};

/// Counts since the start or the last clear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Events.
    pub events: u64,
    /// Hits of custom probes.
    pub hits: u64,
    /// Events too late for sorting.
    pub late: u64,
    /// Journeys of any verdict.
    pub journeys: u64,
    /// Journeys by [`Verdict::kind`].
    pub verdicts: [u64; Verdict::KINDS],
    /// Packets that a kernel dropped for any reason except clean-up, also those without a journey.
    pub kernel_drops: u64,
    /// Journeys that were sent more than once.
    pub retransmitted: u64,
    /// Segments that TCP sent again, from the kernel's sums without events.
    pub summed_resent: u64,
    /// Events lost, by cause in the order of [`LossCause::ALL`].
    pub lost: [u64; LossCause::ALL.len()],
}

impl Totals {
    /// Lost events of any cause.
    pub fn lost_events(&self) -> u64 {
        self.lost.iter().fold(0, |all, n| all.saturating_add(*n))
    }

    /// The cause of most lost events.
    pub fn main_cause(&self) -> Option<LossCause> {
        LossCause::ALL.into_iter().filter(|c| self.lost[*c as usize] > 0).max_by_key(|c| self.lost[*c as usize])
    }

    /// Counts a batch, but for its journeys.
    pub(crate) fn batch(&mut self, batch: &Batch) {
        self.events += batch.events.len() as u64;
        self.hits += batch.hits.len() as u64;
        self.late = self.late.saturating_add(batch.late);
        for loss in &batch.losses {
            let count = &mut self.lost[loss.cause as usize];
            *count = count.saturating_add(loss.count);
        }
    }

    /// Counts a journey.
    pub(crate) fn journey(&mut self, journey: &Journey) {
        self.journeys += 1;
        self.retransmitted += u64::from(journey.retransmits() > 0);
        self.verdicts[journey.verdict.kind()] += 1;
    }

    /// Journeys with a seen end.
    pub fn whole(&self) -> u64 {
        Verdict::whole_of(&self.verdicts)
    }

    /// Journeys the kernel dropped.
    pub const fn dropped(&self) -> u64 {
        self.verdicts[Verdict::Dropped { hop: Hop::AppSend, reason: 0 }.kind()]
    }

    /// Journeys that lack events because the instrument lost them: their ending is unknown.
    pub const fn broken(&self) -> u64 {
        let gap = Loss { cpu: 0, from_ns: 0, to_ns: 0, count: 0, cause: LossCause::Gap };
        self.verdicts[Verdict::BrokenByEventLoss { gap }.kind()]
    }

    /// Journeys not seen again after some hop, although no record is missing.
    pub const fn vanished(&self) -> u64 {
        self.verdicts[Verdict::LostAfter { hop: Hop::AppSend }.kind()]
    }
}

/// Counts within the window: the totals at each of its bucket edges.
#[derive(Clone, Debug, Default)]
pub(crate) struct WindowTotals {
    edges: std::collections::VecDeque<Totals>,
}

impl WindowTotals {
    /// A bucket edge was crossed with these totals.
    pub(crate) fn edge(&mut self, totals: Totals, edges: u64) {
        for _ in 0..edges.min(BUCKETS as u64 + 1) {
            if self.edges.len() > BUCKETS {
                self.edges.pop_front();
            }
            self.edges.push_back(totals);
        }
    }

    /// Journeys per second over the window.
    pub(crate) fn journeys_per_s(&self) -> Option<f64> {
        let (first, last) = (self.edges.front()?, self.edges.back()?);
        let buckets = self.edges.len() - 1;
        let secs = (buckets as u64 * BUCKET_NS) as f64 / 1e9;
        (buckets > 0).then(|| (last.journeys - first.journeys) as f64 / secs)
    }

    /// Events lost since the window began.
    pub(crate) fn lost_events(&self, now: &Totals) -> u64 {
        self.edges
            .front()
            .map_or_else(|| now.lost_events(), |first| now.lost_events().saturating_sub(first.lost_events()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifeline::tests::lifeline;

    #[test]
    fn losses_are_counted_by_cause_and_forgotten_by_the_window() {
        let mut totals = Totals::default();
        let mut lately = WindowTotals::default();
        lately.edge(totals, 1);
        let loss = |cause, count| Loss { cpu: 0, from_ns: 0, to_ns: 1, count, cause };
        let losses = vec![loss(LossCause::RingFull, 7), loss(LossCause::Gap, 2)];
        totals.batch(&Batch { losses, ..Batch::default() });
        assert_eq!((totals.lost_events(), totals.main_cause()), (9, Some(LossCause::RingFull)));
        assert_eq!(lately.lost_events(&totals), 9);
        lately.edge(totals, 1000);
        assert_eq!((lately.lost_events(&totals), totals.lost_events()), (0, 9));
    }

    #[test]
    fn journeys_a_second_are_over_whole_buckets() {
        let mut totals = Totals::default();
        let mut lately = WindowTotals::default();
        let journey = lifeline(1, &[(Hop::AppSend, 1), (Hop::AppRecv, 2)]).journey;
        assert_eq!(lately.journeys_per_s(), None);
        for _ in 0..4 {
            lately.edge(totals, 1);
            for _ in 0..50 {
                totals.journey(&journey);
            }
        }
        assert_eq!(lately.journeys_per_s(), Some(100.0));
    }
}

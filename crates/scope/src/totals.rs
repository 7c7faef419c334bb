//! Counts since the start, and recent ones: events, journeys by verdict, missed events by cause. What each word
//! counts is defined in [`magscope_core::outcomes`].

use crate::window::{BUCKET_NS, BUCKETS};
use magscope_core::journey::Journey;
use magscope_core::{Batch, Counts, LossCause, Outcomes};

/// Counts since the start or the last clear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Events.
    pub events: u64,
    /// Hits of custom probes.
    pub hits: u64,
    /// Events too late for sorting.
    pub late: u64,
    /// Journeys that ended.
    pub outcomes: Outcomes,
    /// Those of protocols without ports, of which a sampler of flows leaves none out.
    pub never_sampled: u64,
    /// Packets that a kernel dropped for any reason except clean-up, also those without a journey.
    pub dropped: u64,
    /// Times that TCP sent again, from the kernel's sums without events.
    pub summed_retransmits: u64,
    /// Missed events, by cause in the order of [`LossCause::ALL`].
    pub missed: [u64; LossCause::ALL.len()],
}

impl Totals {
    /// Missed events of any cause.
    pub fn missed_events(&self) -> u64 {
        self.missed.iter().fold(0, |all, n| all.saturating_add(*n))
    }

    /// The cause of most missed events.
    pub fn main_cause(&self) -> Option<LossCause> {
        let causes = LossCause::ALL.into_iter().filter(|c| self.missed[*c as usize] > 0);
        causes.max_by_key(|c| self.missed[*c as usize])
    }

    /// The counts of every surface, with the number of journeys that have not ended.
    pub fn counts(&self, not_ended: u64) -> Counts {
        Counts::of(&self.outcomes, self.dropped, self.missed_events(), not_ended)
    }

    /// Counts a batch, but for its journeys.
    pub(crate) fn batch(&mut self, batch: &Batch) {
        self.events += batch.events.len() as u64;
        self.hits += batch.hits.len() as u64;
        self.late = self.late.saturating_add(batch.late);
        for loss in &batch.losses {
            let count = &mut self.missed[loss.cause as usize];
            *count = count.saturating_add(loss.count);
        }
    }

    /// Counts a journey.
    pub(crate) fn journey(&mut self, journey: &Journey) {
        self.outcomes.journey(journey);
        self.never_sampled += u64::from(!journey.proto.has_ports());
    }

    /// All journeys, if each recorded one that a sampler of flows may leave out counts `weight`.
    pub(crate) fn all_journeys(&self, weight: f64) -> f64 {
        let chosen = self.outcomes.journeys().saturating_sub(self.never_sampled);
        chosen as f64 * weight + self.never_sampled as f64
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

    /// Journeys per second over the window, if each recorded one counts `weight`.
    pub(crate) fn journeys_per_s(&self, weight: f64) -> Option<f64> {
        let (first, last) = (self.edges.front()?, self.edges.back()?);
        let buckets = self.edges.len() - 1;
        let secs = (buckets as u64 * BUCKET_NS) as f64 / 1e9;
        (buckets > 0).then(|| (last.all_journeys(weight) - first.all_journeys(weight)) / secs)
    }

    /// Events missed since the window began.
    pub(crate) fn missed_events(&self, now: &Totals) -> u64 {
        let before = self.edges.front().map_or(0, Totals::missed_events);
        now.missed_events().saturating_sub(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifeline::tests::lifeline;
    use magscope_core::{Hop, Loss, Proto};

    #[test]
    fn missed_events_are_counted_by_cause_and_forgotten_by_the_window() {
        let mut totals = Totals::default();
        let mut lately = WindowTotals::default();
        lately.edge(totals, 1);
        let loss = |cause, count| Loss { cpu: 0, from_ns: 0, to_ns: 1, count, cause };
        let losses = vec![loss(LossCause::RingFull, 7), loss(LossCause::Gap, 2)];
        totals.batch(&Batch { losses, ..Batch::default() });
        assert_eq!((totals.missed_events(), totals.main_cause()), (9, Some(LossCause::RingFull)));
        assert_eq!(lately.missed_events(&totals), 9);
        lately.edge(totals, 1000);
        assert_eq!((lately.missed_events(&totals), totals.missed_events()), (0, 9));
    }

    #[test]
    fn journeys_a_second_are_over_whole_buckets() {
        let mut totals = Totals::default();
        let mut lately = WindowTotals::default();
        let journey = lifeline(1, &[(Hop::AppSend, 1), (Hop::AppRecv, 2)]).journey;
        assert_eq!(lately.journeys_per_s(1.0), None);
        for _ in 0..4 {
            lately.edge(totals, 1);
            for _ in 0..50 {
                totals.journey(&journey);
            }
        }
        assert_eq!((lately.journeys_per_s(1.0), lately.journeys_per_s(4.0)), (Some(100.0), Some(400.0)));
        // A sampler of flows leaves out no ping.
        let ping = Journey { proto: Proto::ICMP, ..journey };
        lately = WindowTotals::default();
        for _ in 0..3 {
            lately.edge(totals, 1);
            (0..50).for_each(|_| totals.journey(&ping));
        }
        assert_eq!(lately.journeys_per_s(4.0), Some(100.0));
    }
}

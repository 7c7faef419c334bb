//! The counts of a capture, each with one definition for every screen, report, metric and format.
//!
//! | word | definition |
//! |---|---|
//! | dropped | packets that the kernel discarded for a reason it gives; packets freed in a [clean-up](crate::drop_reason) are none |
//! | lost | journeys that were not seen again after a hop, although no record is missing ([`Verdict::LostAfter`]) |
//! | resent | journeys with more than one copy; each counts once |
//! | broken | journeys that may lack an event, because records are missing ([`Verdict::BrokenByEventLoss`]) |
//! | in flight | journeys that have begun and not ended: now, or at the end of a capture ([`Verdict::InFlight`]) |
//! | missed events | records that did not reach user space, for any [cause](crate::LossCause); a loss of the instrument |
//!
//! A journey whose packet was dropped, and was not seen again, has the verdict *dropped*. Their number differs from that of
//! dropped packets: a packet without payload has no journey, and the next copy of a dropped one may arrive.

use crate::journey::{Journey, Verdict};
use serde::Serialize;

/// Journeys by their verdict, and those that were sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// By [`Verdict::kind`].
    pub verdicts: [u64; Verdict::KINDS],
    /// Journeys with more than one copy.
    pub resent: u64,
    /// Copies beyond the first of each.
    pub retransmits: u64,
}

impl Outcomes {
    /// Counts a journey.
    pub fn journey(&mut self, journey: &Journey) {
        self.verdicts[journey.verdict.kind()] += 1;
        self.resent += u64::from(journey.retransmits() > 0);
        self.retransmits = self.retransmits.saturating_add(u64::from(journey.retransmits()));
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.verdicts.iter_mut().zip(other.verdicts).for_each(|(sum, n)| *sum = sum.saturating_add(n));
        self.resent = self.resent.saturating_add(other.resent);
        self.retransmits = self.retransmits.saturating_add(other.retransmits);
    }

    /// Journeys of any verdict.
    pub fn journeys(&self) -> u64 {
        self.verdicts.iter().fold(0, |all, n| all.saturating_add(*n))
    }

    /// Journeys with a seen end.
    pub const fn whole(&self) -> u64 {
        Verdict::whole_of(&self.verdicts)
    }

    /// Journeys with the verdict lost.
    pub const fn lost(&self) -> u64 {
        self.verdicts[Verdict::LOST]
    }

    /// Journeys with the verdict dropped.
    pub const fn dropped_journeys(&self) -> u64 {
        self.verdicts[Verdict::DROPPED]
    }

    /// Journeys with the verdict broken.
    pub const fn broken(&self) -> u64 {
        self.verdicts[Verdict::BROKEN]
    }

    /// Journeys that a filter or sampler cut.
    pub const fn filtered(&self) -> u64 {
        self.verdicts[Verdict::FILTERED]
    }

    /// Journeys with the verdict in flight.
    pub const fn in_flight(&self) -> u64 {
        self.verdicts[Verdict::IN_FLIGHT]
    }
}

/// The counts of a capture; see the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Journeys of any verdict.
    pub journeys: u64,
    /// Packets.
    pub dropped: u64,
    /// Journeys.
    pub lost: u64,
    /// Journeys.
    pub resent: u64,
    /// Journeys.
    pub broken: u64,
    /// Journeys.
    pub in_flight: u64,
    /// Records.
    pub missed_events: u64,
}

impl Counts {
    /// From the journeys that ended, dropped packets, missed events, and journeys that have not ended.
    pub fn of(outcomes: &Outcomes, dropped: u64, missed_events: u64, not_ended: u64) -> Self {
        Counts {
            journeys: outcomes.journeys(),
            dropped,
            lost: outcomes.lost(),
            resent: outcomes.resent,
            broken: outcomes.broken(),
            in_flight: outcomes.in_flight().saturating_add(not_ended),
            missed_events,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hop;

    #[test]
    fn each_verdict_counts_under_one_word() {
        let mut sums = Outcomes::default();
        let verdicts = [
            Verdict::Complete,
            Verdict::LostAfter { hop: Hop::DevXmit },
            Verdict::Dropped { hop: Hop::DevRecv, reason: 2 },
            Verdict::Dropped { hop: Hop::DevRecv, reason: 3 },
            Verdict::InFlight,
        ];
        for verdict in verdicts {
            sums.verdicts[verdict.kind()] += 1;
        }
        let mut twice = sums;
        twice.merge(&sums);
        let counts = Counts::of(&twice, 7, 9, 1);
        assert_eq!((counts.journeys, counts.lost, counts.in_flight, counts.broken), (10, 2, 3, 0));
        assert_eq!((counts.dropped, counts.missed_events, twice.dropped_journeys()), (7, 9, 4));
    }
}

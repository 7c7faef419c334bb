//! What is looked at live is narrowed, or no longer: see [`crate::counts`].

use super::Scope;
use crate::counts::Counts;
use crate::journal::{Entry, NodeHit};
use crate::pyramid::Keep;

/// The counts of all there is, while those of less are looked at.
pub struct Unfiltered {
    pub counts: Counts,
    /// Counts of what is chosen lack some of what was before this.
    chosen_from_ns: u64,
}

impl Scope {
    /// The counts that are looked at, and those of all there is.
    pub(super) fn all_counts(&mut self) -> impl Iterator<Item = &mut Counts> {
        let unfiltered = self.unfiltered.iter_mut().map(|unfiltered| &mut unfiltered.counts);
        std::iter::once(&mut self.counts).chain(unfiltered)
    }

    /// Forgets what was counted, whatever is looked at.
    pub(super) fn forget_journeys(&mut self) {
        let probes = self.probes.all().len();
        let keep = if self.is_recorded() { Keep::All } else { Keep::Newest };
        self.all_counts().for_each(|counts| *counts = Counts::new(keep, probes));
        if let Some(unfiltered) = &mut self.unfiltered {
            unfiltered.chosen_from_ns = 0;
        }
    }

    /// Other journeys are looked at. Those of all there is are counted already; of others those that are kept are counted now.
    pub(super) fn recount_live(&mut self) {
        let before = self.unfiltered.take();
        if !self.controls.is_narrowed() {
            if let Some(Unfiltered { mut counts, .. }) = before {
                counts.take_not_narrowed(&mut self.counts);
                self.counts = counts;
            }
            return;
        }
        let fresh = Counts::new(Keep::Newest, self.probes.all().len());
        let mut shown = std::mem::replace(&mut self.counts, fresh);
        self.counts.take_not_narrowed(&mut shown);
        let all = before.map_or(shown, |unfiltered| unfiltered.counts);
        self.recount_journeys();
        let mut chosen_from_ns = self.memory.complete_from_ns();
        if !self.controls.chooses_journeys() {
            self.recount_payload();
            chosen_from_ns = chosen_from_ns.max(self.journal.entries_from_ns());
        }
        if !self.probes.all().is_empty() {
            self.recount_hits();
            chosen_from_ns = chosen_from_ns.max(self.journal.hits_from_ns());
        }
        self.unfiltered = Some(Unfiltered { counts: all, chosen_from_ns });
        self.all_counts().for_each(|counts| counts.pyramid.settle());
    }

    /// Since when the counts of what is chosen lack nothing; 0 from the start.
    pub(super) fn chosen_from_ns(&self) -> u64 {
        self.unfiltered.as_ref().map_or(0, |unfiltered| unfiltered.chosen_from_ns)
    }

    /// How long ago the counts of what is chosen begin, nanoseconds, where there was something before that is not in them.
    pub(super) fn chosen_for_ns(&self) -> Option<u64> {
        let from_ns = self.unfiltered.as_ref()?.chosen_from_ns;
        (from_ns > self.begin_ns?).then(|| self.now_ns.saturating_sub(from_ns))
    }

    fn recount_journeys(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        let mut recent: Vec<_> = memory.recent().collect();
        recent.reverse();
        for line in recent {
            if self.controls.accepts(line, &self.names) {
                self.count(line);
            }
        }
        self.memory = memory;
    }

    fn recount_payload(&mut self) {
        let journal = std::mem::take(&mut self.journal);
        for (node, entry) in journal.entries(0, journal.len()) {
            let Entry::Event(event) = entry else { continue };
            let netns_key = self.netns_key_of(*node, event);
            if event.hop.rank().is_some() && self.looks_at(event, netns_key) {
                self.counts.payload(event);
            }
        }
        self.journal = journal;
    }

    fn recount_hits(&mut self) {
        let hits: Vec<NodeHit> = self.journal.hits(0, u64::MAX).copied().collect();
        for hit in &hits {
            let accepted = self.looks_at_hit(hit);
            if let Some(probe) = self.probes.get(hit.probe).filter(|_| accepted) {
                self.counts.hit(hit, probe);
            }
        }
    }
}

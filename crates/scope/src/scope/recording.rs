//! Requests of a scope to its recording: see [`crate::recorded`].

use super::Scope;
use crate::controls::Align;
use crate::counts::Counts;
use crate::journal::{Entry, Journal, NodeHit};
use crate::memory::Memory;
use crate::probe_matches::ProbeMatches;
use crate::pyramid::{Keep, Lane};
use crate::recorded::{
    Filled, MOST_EVENTS, MOST_HEADS, MOST_HITS, MOST_JOURNEYS, MOST_SCANNED, Stretch, Window,
};
use crate::requests::Requests;
use crate::scan::Scan;
use crate::signals::Signals;
use crate::stats::Stats;
use crate::sums::Sums;
use crate::totals::{Totals, WindowTotals};
use magscope_core::Event;
use magscope_core::custom::ProbeHit;
use magscope_core::head::PayloadHead;

impl Scope {
    /// Number of the required survey: the complete recording through [`Scope::ingest_batch`] and
    /// [`Scope::ingest_journey`], and then [`Scope::end`]. A larger number restarts the survey, after a change
    /// of filter.
    pub fn survey(&self) -> u64 {
        self.recorded.as_ref().map_or(0, |recorded| recorded.survey)
    }

    /// The stretch of the recording whose journeys are to be shown but not in memory, if any. The caller reads
    /// it and passes it to [`Scope::fill`].
    pub fn wants(&self) -> Option<Window> {
        let recorded = self.recorded.as_ref().filter(|_| self.controls.align == Align::Time)?;
        let all = recorded.all;
        let (from_ns, to_ns) = (self.horizon.begin_ns(), self.horizon.end_ns());
        let (from_ns, to_ns) = (from_ns.max(all.from_ns), to_ns.min(all.to_ns));
        // A truncated stretch is incomplete: after a zoom it is read again, each time at most a third of the
        // previous length.
        let has = |filled: &Filled| {
            let (seen, read) = (to_ns.saturating_sub(from_ns), filled.window.to_ns - filled.window.from_ns);
            filled.window.holds(from_ns, to_ns) && (!filled.truncated || seen > read / 3)
        };
        if from_ns > to_ns || recorded.filled.as_ref().is_some_and(has) {
            return None;
        }
        // Time with only the kernel's sums needs no read.
        let seen = (from_ns, to_ns.saturating_add(1));
        if to_ns <= recorded.read_ns
            && self.sums.any_alone(seen)
            && self.counts.pyramid.total(Lane::Events, seen.0, seen.1).count == 0
            && self.probes.all().is_empty()
        {
            return None;
        }
        // Where the survey has been, what is too much is known without reading it.
        if self.counts.pyramid.total(Lane::Journeys, from_ns, to_ns.min(recorded.read_ns)).count
            > MOST_SCANNED as u64
        {
            return None;
        }
        let margin = (to_ns - from_ns) / 2;
        let wide =
            (from_ns.saturating_sub(margin).max(all.from_ns), to_ns.saturating_add(margin).min(all.to_ns));
        let journeys = |from_ns, to_ns: u64| {
            self.counts.pyramid.total(Lane::Journeys, from_ns, to_ns.min(recorded.read_ns)).count
        };
        // Lines stay lines; a scan has room for more journeys.
        let lines = journeys(from_ns, to_ns) <= MOST_JOURNEYS as u64;
        // Journeys in flight at its beginning add to the counted ones.
        let room = if lines { MOST_JOURNEYS / 2 } else { MOST_SCANNED / 4 * 3 };
        let fits = journeys(wide.0, wide.1) <= room as u64 && wide.1 <= recorded.read_ns;
        // A margin around the picture, so that small moves need no read.
        let (from_ns, to_ns) = if fits { wide } else { (from_ns, to_ns) };
        Some(Window { from_ns, to_ns })
    }

    /// Processes a stretch. The flows and tasks of its batches must be [stored](Scope::learn) before.
    pub fn fill(&mut self, stretch: Stretch) {
        let mut lines: Vec<_> = stretch.journeys.into_iter().map(|journey| self.lifeline(journey)).collect();
        // A stretch restarts the numbering: journeys in memory keep their numbers.
        let numbers: std::collections::HashMap<u64, u64> =
            self.memory.all().map(|line| (line.key(), line.id())).collect();
        for line in &mut lines {
            line.journey.id = numbers.get(&line.key()).copied().unwrap_or(0);
        }
        let mut truncated = stretch.truncated;
        let is_chosen = self.controls.is_narrowed();
        if is_chosen {
            lines.retain(|line| self.controls.accepts(line, &self.names));
        }
        let mut scan = None;
        if lines.len() > MOST_JOURNEYS {
            scan = (!truncated).then(|| Scan::new(&lines));
            lines.sort_by_cached_key(|line| (std::cmp::Reverse(line.total_ns()), line.key()));
            lines.truncate(MOST_JOURNEYS);
            truncated = true;
        }
        lines.sort_by_cached_key(|line| (line.start_ns(), line.key()));
        // A truncated list is incomplete.
        let has_events = !stretch.truncated && stretch.events.len() < MOST_EVENTS;
        let has_hits = !stretch.truncated && stretch.hits.len() < MOST_HITS;
        let has_heads = !stretch.truncated && stretch.heads.len() < MOST_HEADS;
        self.fill_journal(&stretch.events, &stretch.hits, &stretch.heads);
        if let Some(recorded) = &mut self.recorded {
            let window = stretch.window;
            recorded.filled =
                Some(Filled { window, lines, truncated, is_chosen, scan, has_events, has_hits, has_heads });
        }
        let anchor = self.sweep.anchor.and_then(|key| self.find(key));
        if let Some(selected) = anchor.filter(|line| self.controls.journey == Some(line.key())) {
            self.selected = Some(selected);
        }
        self.redraw();
        self.relist();
        self.measure();
        self.revision += 1;
    }

    fn fill_journal(
        &mut self,
        events: &[(u16, Event)],
        hits: &[(u16, ProbeHit)],
        heads: &[(u16, PayloadHead)],
    ) {
        self.journal.clear_stretch();
        let mut entries: Vec<(u16, Entry)> =
            events.iter().map(|(node, event)| (*node, Entry::Event(*event))).collect();
        for (node, hit) in hits {
            let Some(probe) = self.probes.of(*node, hit) else { continue };
            entries.push((*node, Entry::Hit(probe, *hit)));
            self.journal.hit(NodeHit { node: *node, probe, hit: *hit });
        }
        entries.sort_by_key(|(_, entry)| entry.time_ns());
        for (node, entry) in entries {
            self.journal.entry(node, entry);
        }
        for (node, head) in heads {
            self.journal.head(*node, head);
        }
    }

    /// Counts again, after a change of what is looked at: a recording is surveyed again.
    pub(super) fn recount(&mut self) {
        let Some(recorded) = &mut self.recorded else { return self.recount_live() };
        recorded.survey += 1;
        recorded.read_ns = recorded.all.from_ns;
        // It has all journeys of its stretch, or it is read again.
        recorded.filled.take_if(|filled| filled.truncated || filled.is_chosen);
        self.counts = Counts::new(Keep::All, self.probes.all().len());
        self.memory = Memory::default();
        self.forget_counts();
    }

    /// Forgets every count since the start.
    pub(super) fn forget_counts(&mut self) {
        let keep = if self.is_recorded() { Keep::All } else { Keep::Newest };
        self.stats = Stats::default();
        self.requests = Requests::default();
        self.requests.filter_by(self.controls.request_filter().cloned(), &self.names);
        self.findings = magscope_report::Findings::default();
        self.controls.request = None;
        self.totals = Totals::default();
        self.lately = WindowTotals::default();
        self.signals = Signals::new(keep);
        if self.is_recorded() {
            self.clocks.clear();
        }
        self.hop_events = [0; super::HOP_IDS];
        self.sums = Sums::new(keep);
        self.hop_sums = [0; super::HOP_IDS];
        self.last_event_ns.fill(None);
        self.drops.clear();
        self.probes.clear();
        self.ties = ProbeMatches::default();
        if self.is_recorded() {
            // The data of a stretch stay valid.
            self.journal.clear_marks();
        } else {
            self.journal = Journal::default();
        }
        for row in &mut self.losses {
            (row.count, row.last_ns) = (0, None);
        }
        self.watch.clear();
        self.fired = None;
        self.rate_bucket = None;
        self.shown = None;
    }
}

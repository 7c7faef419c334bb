//! Composing the picture: the lifelines on the screen, and the list below it.

use super::{LISTED, Scope};
use crate::controls::{Align, List};
use crate::frame::Detail;
use crate::lifeline::Lifeline;
use crate::persistence::{Overlay, Persistence};
use crate::pyramid::Lane;
use crate::roll::Roll;
use crate::sweep::place_around;
use crate::timebase::Timebase;
use std::collections::HashSet;

/// Columns of the search for the slowest in a recording.
const LISTED_COLUMNS: usize = LISTED;
/// Timebase for a picture of sums alone: fifty of them fit.
const SUMS_DIVISION_NS: u64 = 5_000_000_000;
/// Time without the end of a journey until the picture follows the time, and the width of that picture: no journey
/// leaves it.
const QUIET_NS: u64 = 10_000_000_000;
/// Part of the picture beside what a trigger fired on.
const EDGE: f64 = 0.02;

impl Scope {
    /// All lifelines in memory; some occur twice.
    fn lines(&self) -> impl Iterator<Item = &Lifeline> {
        let filled = self.recorded.as_ref().and_then(|recorded| recorded.filled.as_ref());
        let filled = filled.into_iter().flat_map(|filled| &filled.lines);
        filled.chain(self.selected.as_ref()).chain(self.shown_lines()).chain(self.memory.all())
    }

    /// The lifeline of a key, if it is still in memory.
    pub(super) fn find(&self, key: u64) -> Option<Lifeline> {
        let found = self.lines().chain(&self.sweep.lifelines).find(|line| line.key() == key);
        found.cloned()
    }

    /// Takes a new picture: the trigger's, or the slowest journey's since the last one.
    pub(super) fn retake(&mut self) {
        if self.rolls() {
            self.scale_without_journeys();
            self.horizon.go(self.now_ns, 1.0);
            self.redraw();
        } else if let Some((at_ns, key)) = self.fired {
            // The picture of a single shot is taken again when its window is complete, and then stays.
            if !self.watch.is_stopped() || self.watch.is_complete() {
                self.fired = None;
            }
            self.take_fired(at_ns, key);
        } else if !self.waits_for_trigger() {
            self.take_slowest();
        }
        self.swept_ns = self.now_ns;
        self.held_edges = 0;
        self.relist();
        self.overlay_again();
        self.revision += 1;
    }

    /// The trigger's picture: the pre-trigger sets the position of the instant.
    pub(super) fn take_fired(&mut self, at_ns: u64, key: Option<u64>) {
        let line = key.and_then(|key| self.find(key));
        self.sweep.anchor = line.as_ref().map(Lifeline::key);
        let mut x = (f64::from(self.watch.settings().pre_per_cent) / 100.0).clamp(EDGE, 1.0 - EDGE);
        if let Some(line) = line.filter(|_| !self.controls.timebase_fixed) {
            place_around(&mut self.horizon, false, self.controls.align, &line);
            // All of the journey is in the picture, its end first.
            let span_ns = self.horizon.timebase().span_ns() as f64;
            let before = at_ns.saturating_sub(line.start_ns()) as f64 / span_ns;
            let after = line.end_ns().saturating_sub(at_ns) as f64 / span_ns;
            x = x.max(before + EDGE).min(1.0 - EDGE - after);
        }
        self.horizon.go(at_ns, x);
        self.redraw();
        if self.watch.is_complete() {
            self.controls.paused = true;
        }
    }

    /// Takes the picture for the selected journey; otherwise for the slowest since the last picture, otherwise
    /// for the previous one.
    fn take_slowest(&mut self) {
        let fresh = || {
            let ended = |line: &&Lifeline| line.end_ns() >= self.swept_ns;
            let new = self
                .memory
                .recent()
                .take_while(|line| line.end_ns().saturating_add(2_000_000_000) >= self.swept_ns);
            let new = new.filter(ended).filter(|line| self.controls.accepts(line, &self.names));
            new.max_by_key(|line| (line.journey.verdict.is_whole(), line.total_ns())).map(Lifeline::key)
        };
        let key = self.controls.journey.or_else(fresh).or(self.sweep.anchor);
        let Some(line) = key.and_then(|key| self.find(key)) else { return self.redraw() };
        self.take_for(&line);
    }

    /// Takes the picture for a journey.
    pub(super) fn take_for(&mut self, line: &Lifeline) {
        place_around(&mut self.horizon, self.controls.timebase_fixed, self.controls.align, line);
        self.sweep.anchor = Some(line.key());
        self.redraw();
    }

    /// Collects the lifelines of the horizon again at its current place.
    pub(super) fn redraw(&mut self) {
        let mut sweep = std::mem::take(&mut self.sweep);
        let before = std::mem::take(&mut sweep.lifelines);
        let recent_first = self.controls.align == Align::Start && !self.is_recorded();
        let anchor = sweep.anchor.and_then(|key| self.lines().find(|line| line.key() == key));
        let accepts = |line: &Lifeline| self.controls.accepts(line, &self.names);
        if recent_first {
            let lines = anchor.into_iter().chain(self.memory.recent()).chain(&before);
            sweep.fill(&self.horizon, self.controls.align, self.most_lifelines, lines, accepts);
        } else {
            let lines = anchor.into_iter().chain(self.lines()).chain(&before);
            sweep.fill(&self.horizon, self.controls.align, self.most_lifelines, lines, accepts);
        }
        self.sweep = sweep;
        self.tie();
    }

    /// Shows this list in the table.
    pub(super) fn list(&mut self, list: List) {
        self.controls.list = list;
        self.relist();
    }

    /// Selects the rows of the table.
    pub(super) fn relist(&mut self) {
        let mut seen = HashSet::new();
        let accepted = |line: &&Lifeline| self.controls.accepts(line, &self.names) && seen.insert(line.key());
        let listed: Vec<Lifeline> = match self.controls.list {
            List::Slowest => self.memory.slowest().iter().filter(accepted).take(LISTED).cloned().collect(),
            List::Recent => match self.recorded.as_ref().and_then(|recorded| recorded.filled.as_ref()) {
                Some(filled) => filled.lines.iter().rev().filter(accepted).take(LISTED).cloned().collect(),
                None => self.memory.recent().filter(accepted).take(LISTED).cloned().collect(),
            },
            List::Bad => self.memory.bad().filter(accepted).take(LISTED).cloned().collect(),
        };
        self.listed = listed;
        if let Some(selected) = &self.selected
            && !self.listed.iter().any(|line| line.key() == selected.key())
        {
            self.listed.insert(0, selected.clone());
            self.listed.truncate(LISTED);
        }
    }

    /// True if the picture rolls.
    pub(super) fn rolls(&self) -> bool {
        self.controls.align == Align::Time
            && (self.controls.roll.is_on(self.horizon.timebase(), self.controls.timebase_fixed)
                || self.rolls_with_sums()
                || self.rolls_without_journeys())
    }

    /// True if no journey ended lately, so that none can set the place of the picture: it follows the time. A picture of
    /// journeys stays until something else happens.
    fn rolls_without_journeys(&self) -> bool {
        let waits = match &self.recorded {
            None => self.waits_for_trigger() || self.fired.is_some(),
            Some(recorded) => {
                self.watch.settings().condition.is_some() || recorded.read_ns < self.playhead.head_ns
            }
        };
        if self.controls.roll != Roll::Auto || self.controls.journey.is_some() || waits {
            return false;
        }
        let to_ns = if self.is_recorded() { self.playhead.head_ns } else { self.now_ns };
        let (from_ns, to_ns) = (to_ns.saturating_sub(QUIET_NS), to_ns.saturating_add(1));
        let has = |lane| self.counts.pyramid.total(lane, from_ns, to_ns).count > 0;
        let happens = || has(Lane::Events) || self.probes.all().iter().any(|probe| has(Lane::Hits(probe.id)));
        !has(Lane::Ended) && (self.sweep.lifelines.is_empty() || happens())
    }

    /// The timebase for a picture without journeys, unless the user chose one.
    pub(super) fn scale_without_journeys(&mut self) {
        if self.controls.timebase_fixed {
            return;
        }
        if self.rolls_with_sums() {
            self.horizon.scale(Timebase::nearest(SUMS_DIVISION_NS));
        } else if self.rolls_without_journeys() {
            self.horizon.scale(Timebase::of_span(QUIET_NS));
        }
    }

    /// How to draw the lanes.
    pub(crate) fn detail(&self) -> Detail {
        if self.sweep.left_out > 0 {
            return Detail::Density;
        }
        if self.controls.align == Align::Start {
            return Detail::Lifelines;
        }
        let (from_ns, to_ns) = (self.horizon.begin_ns(), self.horizon.end_ns());
        // The kernel's sums have no lifelines.
        if self.sums.any_alone((from_ns, to_ns)) && self.wants().is_none() {
            return Detail::Density;
        }
        if let Some(recorded) = &self.recorded {
            let (from_ns, to_ns) = (from_ns.max(recorded.all.from_ns), to_ns.min(recorded.all.to_ns));
            return match &recorded.filled {
                Some(filled) if filled.window.holds(from_ns, to_ns) && !filled.truncated => Detail::Lifelines,
                _ if self.wants().is_some() => Detail::Reading,
                _ => Detail::Density,
            };
        }
        match self.memory.reaches_back_to() {
            _ if self.is_all_of_shown(from_ns, to_ns) => Detail::Lifelines,
            _ if self.memory.has_gap(from_ns, to_ns) => Detail::Density,
            Some(oldest_ns) if from_ns < oldest_ns => {
                let older = self.counts.pyramid.total(Lane::Ended, from_ns, oldest_ns.min(to_ns)).count;
                if older > 0 { Detail::Density } else { Detail::Lifelines }
            }
            _ => Detail::Lifelines,
        }
    }

    /// The overlay is rebuilt after a change of persistence or scale.
    pub(super) fn overlay_again(&mut self) {
        let wanted = (self.controls.persistence, self.horizon.timebase().span_ns());
        if wanted.0 == Persistence::Off {
            self.overlay = None;
            return;
        }
        if self.overlay.as_ref().is_some_and(|overlay| overlay.is_for() == wanted) {
            return;
        }
        let mut overlay = Overlay::new(wanted.0, wanted.1);
        let mut lines: Vec<&Lifeline> =
            self.lines().filter(|l| self.controls.accepts(l, &self.names)).collect();
        lines.sort_by_key(|line| (line.end_ns(), line.key()));
        lines.dedup_by_key(|line| line.key());
        for line in lines {
            overlay.draw(line);
        }
        self.overlay = Some(overlay);
    }

    /// The slowest journeys since the last picture of a played recording: the slowest between two instants.
    pub(super) fn slowest_between(&self, from_ns: u64, to_ns: u64) -> Option<(u64, u64, u64)> {
        let slowest = self.counts.pyramid.slowest(from_ns, to_ns.max(from_ns + 1), LISTED_COLUMNS);
        let slowest = slowest.into_iter().max_by_key(|e| (e.total_ns, std::cmp::Reverse(e.start_ns)))?;
        Some((slowest.key, slowest.start_ns, slowest.total_ns))
    }
}

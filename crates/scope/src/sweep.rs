//! The sweep: the lifelines on the screen and the stretch of time they stand on.
//!
//! A live network has more journeys a second than an eye can follow, so the picture does not run with them. Like an
//! oscilloscope in auto mode it waits for something to look at (the slowest journey since the last sweep), shows that
//! with what happened around it, and holds the picture for a second.

use crate::lifeline::Lifeline;
use crate::memory::Memory;
use crate::timebase::Timebase;
use crate::view::{Align, View};
use std::collections::HashSet;

/// Lifelines a sweep has at most.
pub const MAX_LIFELINES: usize = 512;

/// The lifelines on the screen and the stretch of time they stand on.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// Time at the left edge, `CLOCK_MONOTONIC`; 0 if lifelines stand at their start.
    pub origin_ns: u64,
    /// Time a division.
    pub timebase: Timebase,
    /// Where lifelines stand.
    pub align: Align,
    /// The journey it was taken for.
    pub anchor: Option<u64>,
    /// The anchor, then the newest first.
    pub lifelines: Vec<Lifeline>,
    /// Journeys that were in the stretch, and not taken because there were too many.
    pub left_out: usize,
    /// Where the anchor stood before any pan, so that a pan is by whole divisions.
    start_ns: u64,
}

impl Sweep {
    /// Position of a time on the screen, 0.0 the left edge, 1.0 the right one; beyond both it goes on.
    pub fn x(&self, line: &Lifeline, time_ns: u64) -> f64 {
        let zero = match self.align {
            Align::Time => self.origin_ns,
            Align::Start => line.start_ns(),
        };
        let since = i128::from(time_ns) - i128::from(zero);
        since as f64 / self.timebase.span_ns() as f64
    }

    /// A sweep with nothing on it.
    pub fn empty(view: &View) -> Self {
        Sweep { timebase: view.timebase, align: view.align, ..Sweep::default() }
    }

    /// Takes the picture again: for the selected journey, else for the slowest that ended after `since_ns`, else for
    /// the one it was taken for before.
    pub fn take(&mut self, memory: &Memory, view: &mut View, since_ns: u64) {
        let selected = view.journey.and_then(|id| memory.get(id));
        let fresh = || {
            let new = memory.recent().filter(|line| view.accepts(line) && line.end_ns() >= since_ns);
            new.max_by_key(|line| (line.journey.verdict.is_whole(), line.total_ns()))
        };
        let before = std::mem::take(&mut self.lifelines);
        let held = || {
            let id = view.journey.or(self.anchor)?;
            memory.get(id).or_else(|| before.iter().find(|line| line.id() == id))
        };
        let Some(anchor) = selected.or_else(fresh).or_else(held) else {
            *self = Sweep::empty(view);
            return;
        };
        let total = anchor.total_ns();
        if !view.timebase_fixed {
            view.timebase = auto_timebase(view.timebase, total, view.align);
        }
        self.timebase = view.timebase;
        self.align = view.align;
        self.anchor = Some(anchor.id());
        let span = self.timebase.span_ns();
        let ahead = (span.saturating_sub(total) / 2).max(span / 10);
        self.start_ns = anchor.start_ns().saturating_sub(ahead);
        self.origin_ns = self.panned(view.pan);
        self.fill(memory, view, &before);
    }

    fn panned(&self, divisions: i64) -> u64 {
        let by = i128::from(divisions) * i128::from(self.timebase.per_division_ns());
        let origin = i128::from(self.start_ns) + by;
        u64::try_from(origin.max(0)).unwrap_or(u64::MAX)
    }

    /// Gathers what lies in the stretch: from memory, and from the picture before, which memory may have let go of.
    fn fill(&mut self, memory: &Memory, view: &View, before: &[Lifeline]) {
        self.left_out = 0;
        let (from, to) = (self.origin_ns, self.origin_ns.saturating_add(self.timebase.span_ns()));
        let is_anchor = |line: &Lifeline| Some(line.id()) == self.anchor;
        let inside = |line: &&Lifeline| {
            (self.align == Align::Start || line.overlaps(from, to)) && (view.accepts(line) || is_anchor(line))
        };
        let mut ids = HashSet::new();
        // The anchor comes first, so that it is in whatever else is not.
        let anchor = self.anchor.and_then(|id| memory.get(id));
        for line in anchor.into_iter().chain(memory.recent()).chain(before).filter(inside) {
            if self.lifelines.len() >= MAX_LIFELINES {
                if self.align == Align::Start {
                    break; // the picture of the last so many: nothing is left out of it
                }
                self.left_out += usize::from(!ids.contains(&line.id()));
            } else if ids.insert(line.id()) {
                self.lifelines.push(line.clone());
            }
        }
    }
}

/// A timebase on which `total_ns` takes a good part of the screen. Keeps the one there is while that is good enough,
/// so that the scale does not jump with every sweep.
fn auto_timebase(now: Timebase, total_ns: u64, align: Align) -> Timebase {
    let share = total_ns as f64 / now.span_ns() as f64;
    let (least, most) = match align {
        Align::Time => (0.15, 0.8),
        Align::Start => (0.25, 1.0),
    };
    if (least..=most).contains(&share) {
        return now;
    }
    match align {
        Align::Time => Timebase::holding(total_ns.saturating_mul(5) / 3),
        Align::Start => Timebase::holding(total_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifeline::tests::lifeline;
    use magscope_core::Hop;

    const MS: u64 = 1_000_000;

    fn memory() -> Memory {
        let mut memory = Memory::default();
        for id in 1..=50 {
            let ns = if id == 25 { 4 * MS } else { MS / 20 };
            memory.push(lifeline(id, &[(Hop::AppSend, id * MS), (Hop::AppRecv, id * MS + ns)]), true);
        }
        memory
    }

    #[test]
    fn the_slowest_is_in_the_middle_with_its_neighbours() {
        let mut view = View::default();
        let mut sweep = Sweep::default();
        sweep.take(&memory(), &mut view, 0);
        assert_eq!(sweep.anchor, Some(25));
        assert_eq!(sweep.timebase.per_division_ns(), MS);
        assert_eq!(sweep.origin_ns, 22 * MS);
        let mut ids: Vec<_> = sweep.lifelines.iter().map(Lifeline::id).collect();
        ids.sort_unstable();
        assert_eq!(ids, (22..=32).collect::<Vec<_>>());
        let line = sweep.lifelines.iter().find(|l| l.id() == 25).unwrap();
        assert!((sweep.x(line, line.start_ns()) - 0.3).abs() < 1e-9);
        assert!((sweep.x(line, line.end_ns()) - 0.7).abs() < 1e-9);
    }

    #[test]
    fn without_anything_new_the_picture_is_held() {
        let mut view = View::default();
        let mut sweep = Sweep::default();
        let memory = memory();
        sweep.take(&memory, &mut view, 0);
        sweep.take(&memory, &mut view, 1_000 * MS);
        assert_eq!(sweep.anchor, Some(25));
        view.journey = Some(40);
        sweep.take(&memory, &mut view, 1_000 * MS);
        assert_eq!(sweep.anchor, Some(40));
    }

    #[test]
    fn a_pan_moves_by_divisions_and_stops_at_zero() {
        let mut view = View { pan: 2, timebase_fixed: true, ..View::default() };
        let mut sweep = Sweep::default();
        sweep.take(&memory(), &mut view, 0);
        assert_eq!(sweep.origin_ns, 24 * MS);
        view.pan = -1_000_000;
        sweep.take(&memory(), &mut view, 0);
        assert_eq!(sweep.origin_ns, 0);
    }

    #[test]
    fn the_timebase_does_not_jump_for_little() {
        let now = Timebase::holding(10 * MS);
        assert_eq!(auto_timebase(now, 2 * MS, Align::Time), now);
        assert_eq!(auto_timebase(now, 8 * MS, Align::Time), now);
        assert_eq!(auto_timebase(now, MS, Align::Time).span_ns(), 2 * MS);
        assert_eq!(auto_timebase(now, 9 * MS, Align::Time).span_ns(), 20 * MS);
    }
}

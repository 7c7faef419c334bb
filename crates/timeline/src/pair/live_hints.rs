//! The hints of a pair as packets arrive, in constant memory.
//!
//! The evidence is that of recordings, judged by the same code ([`super::hint`]), and is forgotten after an hour. Two
//! differences follow from bounds that only past packets narrow:
//!
//! * Widths are those of the bounds at each packet that is used. After a step below a round trip the bounds are too
//!   narrow until the drift has opened them again, some seconds at most.
//! * A collapse near a detected step is no hint: until the detection, packets from both sides of it narrow the bounds.

use super::constraint::{Constraint, Kind};
use super::hint::{Contradictions, Evidence, Hint, WINDOWS, collapse_of};
use super::level0::{Level0, Outcome};
use super::model::Model;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem::take;

/// Length of a window at first: a minute, halved ten times.
const SHORTEST_NS: u64 = LONGEST_NS >> 10;
/// Maximum length of a window.
const LONGEST_NS: u64 = 60_000_000_000;
/// Evidence older than this is forgotten.
const SPAN_NS: u64 = LONGEST_NS * WINDOWS as u64;
/// Maximum numbers of stored steps, bends and collapses; the oldest are forgotten first.
const MOST_STEPS: usize = 1024;
const MOST_BENDS: usize = 64;
const MOST_COLLAPSES: usize = 8;

/// The smallest width of the bounds in each of up to 64 windows of equal length. As time passes they become longer,
/// then the oldest are forgotten.
#[derive(Clone, Debug)]
struct Widths {
    window_ns: u64,
    /// By number of the window: width and instant.
    least: BTreeMap<u64, (u64, u64)>,
    /// The window of the newest packet, and its smallest width.
    newest: Option<(u64, u64)>,
}

impl Default for Widths {
    fn default() -> Self {
        Widths { window_ns: SHORTEST_NS, least: BTreeMap::new(), newest: None }
    }
}

impl Widths {
    /// Adds a width. True if a collapse may have begun or ended.
    fn add(&mut self, at_ns: u64, width_ns: u64) -> bool {
        let number = at_ns / self.window_ns;
        if self.newest.is_some_and(|(newest, least_ns)| newest == number && least_ns <= width_ns) {
            return false;
        }
        let here = (width_ns, at_ns);
        let before = self.least.get(&number).copied();
        let least_of_all = self.least.values().min().copied();
        let least = before.map_or(here, |before| before.min(here));
        self.least.insert(number, least);
        self.newest = Some((number, least.0));
        while let (Some((first, _)), Some((last, _))) =
            (self.least.first_key_value(), self.least.last_key_value())
            && last - first >= WINDOWS as u64
        {
            if self.window_ns < LONGEST_NS {
                self.lengthen();
            } else {
                self.least.pop_first();
            }
        }
        before.is_none() || least_of_all.is_none_or(|least| here < least)
    }

    /// Makes windows of two neighbours.
    fn lengthen(&mut self) {
        self.window_ns *= 2;
        self.newest = None;
        for (number, here) in take(&mut self.least) {
            let least = self.least.entry(number / 2).or_insert(here);
            *least = (*least).min(here);
        }
    }

    fn collapse(&self) -> Option<Hint> {
        collapse_of(self.least.values().copied().collect())
    }
}

/// A step of the clocks.
#[derive(Clone, Copy, Debug)]
struct Step {
    from_ns: u64,
    to_ns: u64,
    /// B's clock went ahead; `None` for a reported step.
    is_ahead: Option<bool>,
}

/// Collects the evidence.
#[derive(Clone, Debug)]
pub(super) struct LiveHints {
    model: Model,
    /// Of the current epoch.
    widths: Widths,
    /// Instants of the constraints in quarantine.
    aside: Vec<u64>,
    contradictions: Contradictions,
    bends: BTreeSet<u64>,
    steps: VecDeque<Step>,
    /// Of earlier epochs.
    collapses: VecDeque<Hint>,
    newest_ns: u64,
    found: Vec<Hint>,
}

impl LiveHints {
    pub(super) fn new(model: Model) -> Self {
        LiveHints {
            model,
            widths: Widths::default(),
            aside: Vec::new(),
            contradictions: Contradictions::default(),
            bends: BTreeSet::new(),
            steps: VecDeque::new(),
            collapses: VecDeque::new(),
            newest_ns: 0,
            found: Vec::new(),
        }
    }

    /// The current hints.
    pub(super) fn found(&self) -> &[Hint] {
        &self.found
    }

    /// Adds a constraint that `level0` has judged, and the instants at which no line was left with it.
    pub(super) fn push(
        &mut self,
        constraint: &Constraint,
        outcome: Outcome,
        level0: &Level0,
        bends: BTreeSet<u64>,
    ) {
        let at_ns = constraint.at_ns;
        self.newest_ns = self.newest_ns.max(at_ns);
        let mut changed = !bends.is_empty();
        self.bends.extend(bends);
        let quarantined = level0.counts().quarantined as usize;
        match outcome {
            Outcome::Used => {
                if quarantined == 0 {
                    changed |= self.reject_aside();
                    let width_ns = level0.newest_width_ns();
                    changed |= width_ns.is_some_and(|width_ns| self.widths.add(at_ns, width_ns));
                }
            }
            Outcome::Quarantined => {
                // With the first of a new candidate, the old one is rejected.
                if quarantined <= self.aside.len() {
                    self.reject_aside();
                }
                self.aside.push(at_ns);
                changed = true;
            }
            Outcome::Rejected => {
                self.contradictions.add(at_ns);
                changed = true;
            }
            Outcome::NewEpoch => {
                let from_ns = self.aside.iter().copied().min().unwrap_or(at_ns);
                self.begin(Step { from_ns, to_ns: at_ns, is_ahead: Some(constraint.kind == Kind::Lower) });
                changed = true;
            }
            Outcome::BeforeStep => {}
        }
        if changed {
            self.judge();
        }
    }

    /// A step was reported after this instant.
    pub(super) fn step(&mut self, newest_ns: u64) {
        self.begin(Step { from_ns: newest_ns, to_ns: newest_ns, is_ahead: None });
        self.judge();
    }

    fn reject_aside(&mut self) -> bool {
        let aside = take(&mut self.aside);
        for at_ns in &aside {
            self.contradictions.add(*at_ns);
        }
        !aside.is_empty()
    }

    fn begin(&mut self, step: Step) {
        self.aside.clear();
        self.collapses.extend(take(&mut self.widths).collapse());
        self.steps.push_back(step);
    }

    fn forget(&mut self) {
        let oldest_ns = self.newest_ns.saturating_sub(SPAN_NS);
        self.contradictions.forget_before(oldest_ns);
        self.bends = self.bends.split_off(&oldest_ns);
        self.collapses.retain(|hint| hint.at_ns().is_none_or(|at_ns| at_ns >= oldest_ns));
        self.steps.retain(|step| step.to_ns >= oldest_ns);
        while self.bends.len() > MOST_BENDS {
            self.bends.pop_first();
        }
        while self.steps.len() > MOST_STEPS {
            self.steps.pop_front();
        }
        while self.collapses.len() > MOST_COLLAPSES {
            self.collapses.pop_front();
        }
    }

    fn judge(&mut self) {
        self.forget();
        let steps = self.steps.iter().map(|step| (step.from_ns, step.to_ns));
        // A candidate is a step, too, until it is rejected.
        let doubt = self.aside.iter().copied().min().map(|from_ns| (from_ns, self.newest_ns.max(from_ns)));
        let boundaries: Vec<(u64, u64)> = steps.chain(doubt).collect();
        let of_sign =
            |is_ahead: bool| self.steps.iter().filter(|step| step.is_ahead == Some(is_ahead)).count() as u64;
        let evidence = Evidence {
            collapses: self.collapses.iter().copied().chain(self.widths.collapse()).collect(),
            boundaries: &boundaries,
            contradictions: &self.contradictions,
            bends: self.bends.iter().copied().collect(),
            steps: [of_sign(true), of_sign(false)],
            model: self.model,
        };
        self.found = evidence.without_explained_collapses().hints();
    }
}

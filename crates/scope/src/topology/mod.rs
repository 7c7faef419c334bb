//! The topology as journeys drew it: the paths from each sender, leg by leg, with what was counted on each leg.
//!
//! **The choice.** Paths that begin alike share their first legs, so the paths of a sender are a tree. Each leg has
//! the counts of the journeys that passed it on this path. One graph of all legs would be smaller, but a path could not
//! be read from it: the answers of a bridge's hosts return over the legs of the requests.
//!
//! A journey that failed counts at the place where it ended. One that left a node and was not seen again counts on the
//! leg of the other packets of its flow there, and without such packets on a leg to nowhere.
//!
//! **Known limits.** A leg that comes when [`MOST_LEGS`] are there has no row; its journeys are counted as left out.
//! Interfaces are those of forwarders: a journey has none of its ends.

mod panel;
mod path;
mod pick;
#[cfg(test)]
mod tests;
mod translation;
mod words;

pub(crate) use panel::TopologyQuery;
pub use panel::{LegColumn, LegRow, TopologyPanel};
pub use path::{PathLeg, PathPlace};
pub use pick::PathPick;

use crate::pyramid::Tile;
use magscope_core::context::Context;
use magscope_core::hash::Map;
use magscope_core::{FlowId, Hop, Journey, Verdict};
use path::{LegTime, Passage, dropped_at, walk};
use translation::Translation;

/// Maximum number of legs, of all paths together.
const MOST_LEGS: usize = 1024;
/// Maximum number of flows whose next leg is remembered.
const MOST_FLOWS: usize = 4096;
/// Maximum number of distinct reasons of a leg; the others are counted together.
const MOST_REASONS: usize = 8;

/// What was counted of the journeys that passed a leg.
#[derive(Clone, Debug, Default)]
struct Counted {
    journeys: u64,
    bytes: u64,
    /// Times of the leg.
    times: Tile,
    half_width_ns: u64,
    /// The widest pair of hops that its times are between.
    hops: Option<(Hop, Hop)>,
    /// Journeys without a time on it, because the clocks of its ends are unrelated.
    apart: u64,
    /// Times in the forwarder that it leads to.
    inside: Tile,
    /// Times of the whole journeys that are complete and end there.
    whole: Tile,
    /// Journeys that failed there or on the leg.
    failed: u64,
    /// Of these, journeys that left the place before it and were not seen again.
    unseen: u64,
    /// Packets of journeys that the kernel dropped there: of these, and copies that were sent again.
    dropped: u64,
    reasons: Vec<(String, u64)>,
    other_reasons: u64,
    changed_before: Translation,
    changed_inside: Translation,
}

impl Counted {
    fn reason(&mut self, words: String) {
        if let Some((_, n)) = self.reasons.iter_mut().find(|(other, _)| *other == words) {
            *n += 1;
        } else if self.reasons.len() < MOST_REASONS {
            self.reasons.push((words, 1));
        } else {
            self.other_reasons += 1;
        }
    }

    fn passage(&mut self, journey: &Journey, passage: &Passage) {
        self.journeys += 1;
        self.bytes = self.bytes.saturating_add(journey.bytes());
        match passage.time {
            LegTime::Unseen => {}
            LegTime::Apart => self.apart += 1,
            LegTime::Measured { ns, half_width_ns, hops } => {
                self.times.add(ns, true);
                self.half_width_ns = self.half_width_ns.max(half_width_ns);
                let (from, to) = self.hops.unwrap_or(hops);
                self.hops = Some((from.min(hops.0), to.max(hops.1)));
            }
        }
        if let Some(ns) = passage.inside_ns {
            self.inside.add(ns, true);
        }
        passage.changed_before.into_iter().for_each(|change| self.changed_before.add(change));
        passage.changed_inside.into_iter().for_each(|change| self.changed_inside.add(change));
    }
}

/// A leg, and the one before it on the path.
#[derive(Clone, Debug)]
struct Entry {
    leg: PathLeg,
    before: Option<u32>,
    counted: Counted,
}

/// The legs of all paths.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    legs: Vec<Entry>,
    /// The number of a leg by the one before it.
    numbers: Map<(Option<u32>, PathLeg), u32>,
    /// The leg that a flow took from the place at the end of another.
    next: Map<(u32, FlowId), u32>,
    journeys: u64,
    left_out: u64,
    begin_ns: Option<u64>,
    newest_ns: u64,
    /// The path of the journey that is counted, and the numbers of its legs.
    path: Vec<Passage>,
    path_numbers: Vec<u32>,
}

impl Topology {
    /// Counts a journey.
    pub fn journey(&mut self, journey: &Journey, context: &dyn Context) {
        let (mut path, mut numbers) = (std::mem::take(&mut self.path), std::mem::take(&mut self.path_numbers));
        walk(journey, context, &mut path);
        self.journeys += 1;
        if let Some((from_ns, to_ns)) = journey.span_ns() {
            self.begin_ns = Some(self.begin_ns.map_or(from_ns, |begin_ns| begin_ns.min(from_ns)));
            self.newest_ns = self.newest_ns.max(to_ns);
        }
        self.enter(journey, &path, &mut numbers);
        if numbers.len() < path.len() {
            self.left_out += 1;
        }
        self.end(journey, context, &path, &numbers);
        (self.path, self.path_numbers) = (path, numbers);
    }

    /// Counts the passages of a path, and fills `numbers` with those of its legs, as far as there is room.
    fn enter(&mut self, journey: &Journey, path: &[Passage], numbers: &mut Vec<u32>) {
        numbers.clear();
        let mut before: Option<(u32, FlowId)> = None;
        for passage in path {
            let Some(number) = self.number(before, passage.leg) else { break };
            self.legs[number as usize].counted.passage(journey, passage);
            numbers.push(number);
            before = Some((number, passage.exit));
        }
    }

    /// The number of a leg; `None` without room for it.
    fn number(&mut self, before: Option<(u32, FlowId)>, leg: PathLeg) -> Option<u32> {
        if leg.to == PathPlace::Unseen
            && let Some(number) = before.and_then(|before| self.next.get(&before))
        {
            return Some(*number);
        }
        let before_number = before.map(|(number, _)| number);
        let key = (before_number, leg);
        let number = match self.numbers.get(&key) {
            Some(number) => *number,
            None if self.legs.len() >= MOST_LEGS => return None,
            None => {
                let number = self.legs.len() as u32;
                self.legs.push(Entry { leg, before: before_number, counted: Counted::default() });
                self.numbers.insert(key, number);
                number
            }
        };
        if let Some(before) = before.filter(|(_, exit)| !exit.is_none() && leg.to != PathPlace::Unseen) {
            if self.next.len() >= MOST_FLOWS && !self.next.contains_key(&before) {
                self.next.clear();
            }
            self.next.insert(before, number);
        }
        Some(number)
    }

    /// Counts how a journey ended, and the copies of it that were dropped.
    fn end(&mut self, journey: &Journey, context: &dyn Context, path: &[Passage], numbers: &[u32]) {
        let last = path.len().saturating_sub(1);
        let place_of = |flow| dropped_at(path, journey, flow, context);
        if journey.verdict.is_lost() {
            let at = place_of(journey.drop_flow).unwrap_or(last);
            if let Some(counted) = self.counted(numbers, at) {
                counted.failed += 1;
                counted.dropped += u64::from(matches!(journey.verdict, Verdict::Dropped { .. }));
                counted.unseen += u64::from(path.get(at).is_some_and(|p| p.leg.to == PathPlace::Unseen));
                counted.reason(context.verdict(journey));
            }
        }
        for copy in &journey.copies {
            let is_last = copy.number == journey.copy && journey.verdict.is_lost();
            let Some(drop) = copy.dropped.filter(|_| !is_last) else { continue };
            if let Some(counted) = self.counted(numbers, place_of(drop.flow).unwrap_or(0)) {
                counted.dropped += 1;
                counted.reason(context.copy_drop(journey, copy, &drop));
            }
        }
        // The time of a half is not that of the path.
        let is_seen = path.first().is_some_and(|passage| passage.leg.to != PathPlace::Outside);
        let has_arrived =
            path.last().is_some_and(Passage::is_receivers) && journey.verdict.is_whole() && is_seen;
        if let Some(ns) = journey.total_ns().filter(|_| has_arrived)
            && let Some(counted) = self.counted(numbers, last)
        {
            counted.whole.add(ns, true);
        }
    }

    fn counted(&mut self, numbers: &[u32], at: usize) -> Option<&mut Counted> {
        let number = *numbers.get(at)?;
        self.legs.get_mut(number as usize).map(|leg| &mut leg.counted)
    }
}

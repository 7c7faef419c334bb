//! The view of the topology: the legs as rows of a tree, the same for every front end.

use super::path::{PathLeg, PathPlace};
use super::pick::PathPick;
use super::words::{device, failure_words, leg_words, path_words, place_name, place_words, times_words};
use super::{Counted, Entry, Topology};
use crate::format::{amount, bytes, count, duration, estimate, rate, short_duration};
use crate::look::Percentiles;
use crate::names::Names;
use magscope_core::hash::Map;
use std::cmp::Reverse;

/// Shortest time that a rate is given for.
const LEAST_NS: u64 = 1_000_000_000;

/// A column of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LegColumn {
    /// The place, behind the guides of the tree.
    Path,
    /// Journeys per second.
    Rate,
    /// Median time of the leg.
    P50,
    /// Its 99th percentile.
    P99,
    /// Error bound of these times.
    Bound,
    /// 99th percentile of the time in the forwarder.
    Inside,
    /// 99th percentile of the whole journeys that end there.
    Whole,
    /// Journeys that failed there or on the leg.
    Failed,
    /// Packets that the kernel dropped there.
    Dropped,
    /// Journeys.
    Journeys,
    /// Payload.
    Bytes,
    /// Translation of addresses.
    Translation,
    /// The most frequent reason of a failure.
    Reason,
}

impl LegColumn {
    /// All.
    pub const ALL: [Self; 13] = [
        Self::Path,
        Self::Rate,
        Self::P50,
        Self::P99,
        Self::Bound,
        Self::Inside,
        Self::Whole,
        Self::Failed,
        Self::Dropped,
        Self::Journeys,
        Self::Bytes,
        Self::Translation,
        Self::Reason,
    ];

    /// The same, those first that a narrow screen has.
    pub const BY_NEED: [Self; 13] = [
        Self::Path,
        Self::P99,
        Self::Rate,
        Self::Failed,
        Self::Dropped,
        Self::P50,
        Self::Bound,
        Self::Inside,
        Self::Whole,
        Self::Reason,
        Self::Translation,
        Self::Journeys,
        Self::Bytes,
    ];

    /// Its title.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Rate => "per second",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Bound => "± clock",
            Self::Inside => "p99 inside",
            Self::Whole => "p99 in all",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
            Self::Journeys => "journeys",
            Self::Bytes => "bytes",
            Self::Translation => "translation",
            Self::Reason => "main reason",
        }
    }
}

/// A leg as a row of the tree.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LegRow {
    /// The legs from the sender to this one: its identity.
    pub path: Vec<PathLeg>,
    /// The guides of the tree, with the interface by which packets left the forwarder before it: `├─br0─▶ `.
    pub guides: String,
    /// The place that it leads to: `web (container)`.
    pub place: String,
    /// Journeys that passed it.
    pub journeys: u64,
    /// The same per second, by the weight of sampled ones; `None` if that is unknown, and for less than a second.
    pub per_s: Option<f64>,
    /// True for a rate by the weight of sampled journeys.
    pub is_estimate: bool,
    /// Payload bytes.
    pub bytes: u64,
    /// Times of the leg.
    pub times: Percentiles,
    /// Largest error bound of these, nanoseconds; `None` for ends whose clocks are unrelated.
    pub half_width_ns: Option<u64>,
    /// Times in the forwarder, from the first event to the last.
    pub inside: Percentiles,
    /// Times of the whole journeys that are complete and end there.
    pub whole: Percentiles,
    /// Journeys that were dropped or lost there.
    pub failed: u64,
    /// Their packets that the kernel dropped there, copies too that were sent again.
    pub dropped: u64,
    /// Translation of addresses there; empty without one.
    pub translation: String,
    /// The most frequent reason of a drop or loss, in words; empty without one.
    pub reason: String,
    /// The selected row.
    pub selected: bool,
}

impl LegRow {
    /// The text of a cell; empty where there is nothing to show.
    pub fn cell(&self, column: LegColumn) -> String {
        let p99 = |of: &Percentiles| if of.n > 0 { duration(of.p99_ns) } else { String::new() };
        let some = |n: u64| if n > 0 { amount(n) } else { String::new() };
        match column {
            LegColumn::Path => format!("{}{}", self.guides, self.place),
            LegColumn::Rate => match self.per_s.map(rate) {
                Some(rate) if self.is_estimate => estimate(&rate),
                Some(rate) => rate,
                None => "·".to_owned(),
            },
            LegColumn::P50 | LegColumn::P99 if self.times.n == 0 => "·".to_owned(),
            LegColumn::P50 => duration(self.times.p50_ns),
            LegColumn::P99 => duration(self.times.p99_ns),
            LegColumn::Bound => match self.half_width_ns {
                None => "no clock".to_owned(),
                Some(ns) if ns > 0 => format!("±{}", duration(ns).trim()),
                Some(_) => String::new(),
            },
            LegColumn::Inside => p99(&self.inside),
            LegColumn::Whole => p99(&self.whole),
            LegColumn::Failed => amount(self.failed),
            LegColumn::Dropped => some(self.dropped),
            LegColumn::Journeys => amount(self.journeys),
            LegColumn::Bytes => bytes(self.bytes),
            LegColumn::Translation => self.translation.clone(),
            LegColumn::Reason => self.reason.clone(),
        }
    }
}

/// The view of the topology.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopologyPanel {
    /// What is shown, or why there is nothing.
    pub title: String,
    /// The requested number of rows, with the selected one among them.
    pub rows: Vec<LegRow>,
    /// Place of the first row among all.
    pub first: usize,
    /// Total number of rows.
    pub total: usize,
    /// The selected leg, in sentences.
    pub details: Vec<String>,
}

impl TopologyPanel {
    /// The columns that have anything in a row.
    pub fn columns(&self) -> impl Iterator<Item = LegColumn> + '_ {
        let has = |column: &LegColumn| self.rows.iter().any(|row| !row.cell(*column).is_empty());
        LegColumn::ALL.into_iter().filter(has)
    }
}

/// What the rows of a tree depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopologyQuery<'a> {
    pub names: &'a Names,
    /// The path of the selected row.
    pub selected: &'a [PathLeg],
    /// The newest instant on the time line.
    pub now_ns: u64,
    /// The time of a recording that was counted, nanoseconds.
    pub counted_ns: Option<u64>,
    /// Journeys per recorded one, if it is known.
    pub weight: Option<f64>,
    /// True with the kernel's sums, which have no paths.
    pub has_sums: bool,
}

/// A leg in the order of the tree, with its guides.
struct Placed {
    number: u32,
    guides: String,
}

impl Topology {
    /// The view with at most this many rows.
    pub(crate) fn panel(&self, query: &TopologyQuery<'_>, most: usize) -> TopologyPanel {
        let placed = self.placed(query.names);
        let at = self.position(&placed, query.selected);
        let first = (at + 1).saturating_sub(most.max(1));
        let row = |(n, placed): (usize, &Placed)| self.row(query, placed, n == at);
        TopologyPanel {
            title: self.title(query),
            rows: placed.iter().enumerate().skip(first).take(most).filter_map(row).collect(),
            first,
            total: placed.len(),
            details: placed.get(at).map_or_else(Vec::new, |placed| self.details(query, placed.number)),
        }
    }

    /// The path in the row at this distance from the selected one, within the rows.
    pub(crate) fn path_at(&self, query: &TopologyQuery<'_>, by: i32) -> Option<Vec<PathLeg>> {
        let placed = self.placed(query.names);
        let at = self.position(&placed, query.selected).saturating_add_signed(by as isize);
        let row = placed.get(at.min(placed.len().checked_sub(1)?))?;
        Some(self.path_of(row.number))
    }

    /// The choice of the journeys of the selected row.
    pub(crate) fn pick(&self, query: &TopologyQuery<'_>) -> Option<PathPick> {
        let legs = self.path_at(query, 0)?;
        let number = self.number_of(&legs)?;
        let with_unseen = legs.last().is_some_and(|leg| leg.to != PathPlace::Unseen)
            && self.counted_of(number).is_some_and(|counted| counted.unseen > 0);
        Some(PathPick { words: path_words(&legs, query.names), legs, with_unseen })
    }

    /// The place of a path among the rows, the first without it.
    fn position(&self, placed: &[Placed], path: &[PathLeg]) -> usize {
        let number = self.number_of(path);
        placed.iter().position(|placed| Some(placed.number) == number).unwrap_or(0)
    }

    fn number_of(&self, path: &[PathLeg]) -> Option<u32> {
        let mut before = None;
        for leg in path {
            before = Some(*self.numbers.get(&(before, *leg))?);
        }
        before
    }

    fn path_of(&self, number: u32) -> Vec<PathLeg> {
        let mut path = Vec::new();
        let mut next = Some(number);
        while let Some(leg) = next.and_then(|number| self.legs.get(number as usize)) {
            path.push(leg.leg);
            next = leg.before;
        }
        path.reverse();
        path
    }

    fn counted_of(&self, number: u32) -> Option<&Counted> {
        self.legs.get(number as usize).map(|leg| &leg.counted)
    }

    /// All legs in the order of the tree: those with many journeys first. By powers of two, so that live rows stay.
    fn placed(&self, names: &Names) -> Vec<Placed> {
        let mut behind: Map<Option<u32>, Vec<u32>> = Map::default();
        for (leg, number) in self.legs.iter().zip(0..) {
            behind.entry(leg.before).or_default().push(number);
        }
        for legs in behind.values_mut() {
            let journeys = |number: &u32| self.counted_of(*number).map_or(0, |counted| counted.journeys);
            legs.sort_by_key(|number| (Reverse(journeys(number).checked_ilog2()), *number));
        }
        let mut placed = Vec::with_capacity(self.legs.len());
        for number in behind.get(&None).into_iter().flatten() {
            placed.push(Placed { number: *number, guides: String::new() });
            self.place_behind(*number, "", &behind, names, &mut placed);
        }
        placed
    }

    /// Appends the legs behind one. The depth is that of a path, ten at most.
    fn place_behind(
        &self,
        number: u32,
        indent: &str,
        behind: &Map<Option<u32>, Vec<u32>>,
        names: &Names,
        placed: &mut Vec<Placed>,
    ) {
        let legs = behind.get(&Some(number)).map_or(&[][..], Vec::as_slice);
        for (n, next) in legs.iter().enumerate() {
            let is_last = n + 1 == legs.len();
            let device = self.device_to(*next, names).map_or_else(String::new, |name| format!("{name}─"));
            let corner = if is_last { "└─" } else { "├─" };
            placed.push(Placed { number: *next, guides: format!("{indent}{corner}{device}▶ ") });
            let deeper = format!("{indent}{}", if is_last { "   " } else { "│  " });
            self.place_behind(*next, &deeper, behind, names, placed);
        }
    }

    /// The interface by which packets left the forwarder before a leg.
    fn device_to(&self, number: u32, names: &Names) -> Option<String> {
        let leg = self.legs.get(number as usize)?;
        let before = self.legs.get(leg.before? as usize)?;
        device(before.leg.to, leg.leg.left_by, names)
    }

    fn row(&self, query: &TopologyQuery<'_>, placed: &Placed, selected: bool) -> Option<LegRow> {
        let Entry { leg, counted, .. } = self.legs.get(placed.number as usize)?;
        let reason = counted.reasons.iter().max_by_key(|(_, n)| *n);
        let is_unrelated = counted.apart > 0 && counted.times.count == 0;
        Some(LegRow {
            path: self.path_of(placed.number),
            guides: placed.guides.clone(),
            place: place_words(*leg, query.names),
            journeys: counted.journeys,
            per_s: self.per_s(query, counted.journeys),
            is_estimate: query.weight.is_some_and(|weight| weight > 1.0),
            bytes: counted.bytes,
            times: counted.times.percentiles(),
            half_width_ns: (!is_unrelated).then_some(counted.half_width_ns),
            inside: counted.inside.percentiles(),
            whole: counted.whole.percentiles(),
            failed: counted.failed,
            dropped: counted.dropped,
            translation: counted
                .changed_inside
                .words()
                .or_else(|| counted.changed_before.words())
                .unwrap_or_default(),
            reason: reason.map_or_else(String::new, |(words, _)| words.clone()),
            selected,
        })
    }

    /// The time over which journeys were counted.
    fn span_ns(&self, query: &TopologyQuery<'_>) -> u64 {
        let end_ns = self.newest_ns.max(query.now_ns);
        let since_first_ns = || self.begin_ns.map_or(0, |begin_ns| end_ns.saturating_sub(begin_ns));
        query.counted_ns.unwrap_or_else(since_first_ns)
    }

    fn per_s(&self, query: &TopologyQuery<'_>, journeys: u64) -> Option<f64> {
        let span_ns = self.span_ns(query);
        let weight = query.weight.filter(|_| span_ns >= LEAST_NS)?;
        Some(journeys as f64 * weight / (span_ns as f64 / 1e9))
    }

    fn title(&self, query: &TopologyQuery<'_>) -> String {
        let sums = "the kernel's sums have no path";
        match (self.journeys, query.has_sums) {
            (0, true) => return format!("no path: {sums}, and there are no journeys"),
            (0, false) => return "no path yet: the first journey draws one".to_owned(),
            _ => {}
        }
        let span = short_duration(self.span_ns(query));
        let mut title =
            format!("paths of {} in {span}", crate::format::counted(self.journeys, "journey", "journeys"));
        if self.left_out > 0 {
            title =
                format!("{title}; {} left out, {} legs are the most", count(self.left_out), self.legs.len());
        }
        if query.has_sums { format!("{title}; {sums}") } else { title }
    }

    fn details(&self, query: &TopologyQuery<'_>, number: u32) -> Vec<String> {
        let Some(Entry { leg, counted, .. }) = self.legs.get(number as usize) else { return Vec::new() };
        let legs = self.path_of(number);
        let place = place_name(leg.to, query.names);
        let mut lines = vec![format!(
            "{}: {}, {}",
            path_words(&legs, query.names),
            crate::format::counted(counted.journeys, "journey", "journeys"),
            bytes(counted.bytes).trim()
        )];
        lines.extend(leg_words(counted, legs.len() == 1));
        lines.extend(times_words(&counted.inside).map(|times| format!("inside {place}: {times}")));
        lines.extend(counted.changed_inside.words().map(|words| format!("{place} translates the {words}")));
        let before = counted.changed_before.words();
        lines.extend(before.map(|words| format!("an end of this leg translates the {words}")));
        lines.extend(times_words(&counted.whole).map(|times| format!("whole journeys to {place}: {times}")));
        lines.extend(failure_words(counted));
        if counted.unseen > 0 && leg.to != PathPlace::Unseen {
            let before = legs.len().checked_sub(2).and_then(|at| legs.get(at));
            let before = before.map_or_else(String::new, |leg| place_name(leg.to, query.names));
            lines.push(format!("with its flows: all journeys that left {before} and were not seen again"));
        }
        lines
    }
}

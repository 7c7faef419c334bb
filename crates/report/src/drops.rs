//! Packets that the kernel freed undelivered, by its reasons: drops, and clean-up separately.

mod deciders;

use super::figures::{SHOWN, count, listed, plural, wrap};
use magscope_core::batch::Batch;
use magscope_core::drop_reason::{CleanUp, Freed, clean_up_words};
use magscope_core::flow::{Flow, FlowId};
use magscope_core::hash::Map;
use magscope_core::hop::Hop;
use magscope_core::node::NodeInfo;
use magscope_core::omissions::DropRecords;
use magscope_core::synthesis::{Sum, Synthesis};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Maximum number of distinct reasons over all recordings; a kernel has about a hundred.
const MOST_REASONS: usize = 4_096;

/// Packets freed for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReasonRow {
    /// The kernel's name of the reason.
    pub reason: String,
    /// Number of packets.
    pub packets: u64,
}

/// Journeys, and packets without one, that a program or rule dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeciderRow {
    /// The program or rule, or the candidates.
    pub dropped_by: String,
    /// Number of journeys.
    pub journeys: u64,
    /// Number of segments of TCP without data, such as those that open a connection. They have no journeys.
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub segments_without_data: u64,
}

/// Records of freed packets (`skb.drop`) that were left out on purpose. Their reasons are unknown, so some may be of a clean-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UnrecordedDrops {
    /// By the filter.
    pub filtered: u64,
    /// By the filter, because it uses a field that is unknown at this hop.
    pub undecided: u64,
    /// By a sampler.
    pub sampled: u64,
}

impl UnrecordedDrops {
    /// True without any.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Packets that the kernel freed undelivered. All numbers are of recorded ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Drops {
    /// Packets dropped: all reasons but clean-up. A lower bound if records were left out.
    pub dropped: u64,
    /// Packets freed in a clean-up ([`magscope_core::drop_reason::CLEAN_UP`]), which lost nothing.
    pub cleaned_up: u64,
    /// Records that were left out, of either kind.
    #[serde(skip_serializing_if = "UnrecordedDrops::is_empty")]
    pub left_out: UnrecordedDrops,
    /// The drops by reason, the most frequent first.
    pub reasons: Vec<ReasonRow>,
    /// The clean-up by reason, the most frequent first.
    pub clean_up_reasons: Vec<ReasonRow>,
    /// Dropped journeys, and segments without data, by the program or rule that dropped them, the most frequent first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deciders: Vec<DeciderRow>,
}

/// Adds up drops: from events, and from the kernel's sums of intervals without events.
#[derive(Default)]
pub struct DropSums {
    packets: BTreeMap<(u16, Option<Freed>), u64>,
    /// Journeys and segments without data, by what dropped them.
    deciders: BTreeMap<String, [u64; 2]>,
    /// Instant of each node's first change of rules that drop packets.
    rules_changed_ns: BTreeMap<u16, u64>,
    /// Time of the last event of each node.
    last_event_ns: BTreeMap<u16, u64>,
}

impl DropSums {
    /// Counts the drops of a batch of a recording. `infos` are of all recordings, `flows` those that were announced.
    pub fn batch(&mut self, node: u16, batch: &Batch, infos: &[NodeInfo], flows: &Map<(u16, FlowId), Flow>) {
        let before_ns = self.last_event_ns.get(&node).copied();
        for row in &batch.synthesis {
            let first = batch.events.partition_point(|event| event.time_ns < row.from_ns);
            let has_events = before_ns.is_some_and(|at_ns| at_ns >= row.from_ns)
                || batch.events.get(first).is_some_and(|event| event.time_ns <= row.to_ns);
            if !has_events {
                self.row(node, row);
            }
        }
        for event in batch.events.iter().filter(|event| event.hop == Hop::SkbDrop) {
            self.add(node, Some(Freed::of(event)), 1);
        }
        self.without_journeys(node, batch, infos.get(usize::from(node)), flows);
        if let Some(event) = batch.events.last() {
            self.last_event_ns.insert(node, event.time_ns);
        }
    }

    /// Counts by program and rule the dropped packets of a batch that no journey has.
    fn without_journeys(
        &mut self,
        node: u16,
        batch: &Batch,
        info: Option<&NodeInfo>,
        flows: &Map<(u16, FlowId), Flow>,
    ) {
        for change in batch.changes.iter().filter(|change| change.is_of_rules()) {
            let since_ns = self.rules_changed_ns.entry(node).or_insert(u64::MAX);
            *since_ns = change.from_ns.min(*since_ns);
        }
        let changed_ns = self.rules_changed_ns.get(&node).copied().unwrap_or(u64::MAX);
        let drops = batch.events.iter().enumerate().filter(|(_, event)| deciders::has_no_journey(event));
        for (at, event) in drops {
            let (Some(flow), Some(info)) = (flows.get(&(node, event.flow)), info) else { continue };
            let before = batch.events.get(..at).unwrap_or_default();
            let dropped_by = deciders::dropped_by(before, event, flow, info, event.time_ns >= changed_ns);
            self.decided(dropped_by, [0, 1]);
        }
    }

    /// Counts a dropped journey.
    pub fn journey(&mut self, dropped_by: Option<String>) {
        self.decided(dropped_by, [1, 0]);
    }

    /// Counts journeys and segments without data. Beyond the maximum, further programs and rules are not counted.
    fn decided(&mut self, dropped_by: Option<String>, more: [u64; 2]) {
        let Some(dropped_by) = dropped_by else { return };
        if self.deciders.len() < MOST_REASONS || self.deciders.contains_key(&dropped_by) {
            let sums = self.deciders.entry(dropped_by).or_default();
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
    }

    fn row(&mut self, node: u16, row: &Synthesis) {
        match row.of {
            Sum::Reason(reason) if row.hop == Hop::SkbDrop => {
                self.add(node, Some(Freed::summed(reason)), row.n);
            }
            Sum::Rest if row.hop == Hop::SkbDrop => self.add(node, None, row.n),
            _ => {}
        }
    }

    fn add(&mut self, node: u16, freed: Option<Freed>, n: u64) {
        let has_room = self.packets.len() < MOST_REASONS || self.packets.contains_key(&(node, freed));
        let sum = self.packets.entry((node, freed.filter(|_| has_room))).or_default();
        *sum = sum.saturating_add(n);
    }

    /// The drops, with what became of their records.
    pub fn finish(self, infos: &[NodeInfo], records: DropRecords) -> Drops {
        let clean_up: Vec<CleanUp> = infos.iter().map(CleanUp::of).collect();
        let (mut drops, mut cleaned) = (BTreeMap::<String, u64>::new(), BTreeMap::<String, u64>::new());
        for ((node, freed), n) in self.packets {
            let node = usize::from(node);
            let of = clean_up.get(node);
            let is_clean_up = freed.is_some_and(|freed| of.is_some_and(|of| of.has(freed)));
            let words = match (freed, infos.get(node).zip(of)) {
                (Some(freed), Some((info, of))) => of.name(freed, info.drop_reason(freed.reason)),
                (Some(freed), None) => format!("reason {}", freed.reason),
                (None, _) => "other reasons".to_owned(),
            };
            let sum = if is_clean_up { &mut cleaned } else { &mut drops }.entry(words).or_default();
            *sum = sum.saturating_add(n);
        }
        let all = |of: &BTreeMap<String, u64>| of.values().fold(0_u64, |all, n| all.saturating_add(*n));
        Drops {
            dropped: all(&drops),
            cleaned_up: all(&cleaned),
            left_out: UnrecordedDrops {
                filtered: records.filtered,
                undecided: records.undecided,
                sampled: records.sampled,
            },
            reasons: rows(drops),
            clean_up_reasons: rows(cleaned),
            deciders: decider_rows(self.deciders),
        }
    }
}

/// What left drop records out, `7 undecided, 50 sampled out`; empty if nothing did.
pub fn left_out_words(records: DropRecords) -> String {
    let parts =
        [(records.filtered, "filtered"), (records.undecided, "undecided"), (records.sampled, "sampled out")];
    let parts = parts.iter().filter(|(n, _)| *n > 0).map(|(n, by)| format!("{} {by}", count(*n).trim()));
    parts.collect::<Vec<_>>().join(", ")
}

fn rows(packets: BTreeMap<String, u64>) -> Vec<ReasonRow> {
    let mut rows: Vec<_> = packets.into_iter().map(|(reason, packets)| ReasonRow { reason, packets }).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.packets));
    rows
}

fn decider_rows(sums: BTreeMap<String, [u64; 2]>) -> Vec<DeciderRow> {
    let row = |(dropped_by, [journeys, segments_without_data]): (String, [u64; 2])| DeciderRow {
        dropped_by,
        journeys,
        segments_without_data,
    };
    let mut rows: Vec<_> = sums.into_iter().map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.journeys.saturating_add(row.segments_without_data)));
    rows
}

pub fn write(out: &mut String, drops: &Drops, width: usize) -> fmt::Result {
    let listed = |rows: &[ReasonRow]| listed(rows.iter().map(|row| (row.packets, row.reason.as_str())));
    let UnrecordedDrops { filtered, undecided, sampled } = drops.left_out;
    let left_out = DropRecords { passed: 0, filtered, undecided, sampled };
    // The filter leaves out what nobody wants.
    let least = if left_out.unknown() > 0 { "at least " } else { "" };
    let is_empty = drops.dropped == 0 && drops.deciders.is_empty() && drops.cleaned_up == 0;
    if !is_empty || left_out.left_out() > 0 {
        out.push('\n');
    }
    if drops.dropped > 0 {
        let packets = plural(drops.dropped, "packet", "packets");
        let words = format!("The kernel dropped {least}{packets}: {}.", listed(&drops.reasons));
        wrap(out, &words, width, "  ")?;
    }
    for row in drops.deciders.iter().take(SHOWN) {
        let journeys = plural(row.journeys, "journey", "journeys");
        let segments = plural(row.segments_without_data, "segment without data", "segments without data");
        let what = match (row.journeys, row.segments_without_data) {
            (_, 0) => journeys,
            (0, _) => segments,
            _ => format!("{journeys} and {segments}"),
        };
        wrap(out, &format!("Dropped {least}{what}: {}.", row.dropped_by), width, "  ")?;
    }
    for row in drops.clean_up_reasons.iter().take(SHOWN) {
        let (packets, what) = (plural(row.packets, "packet", "packets"), clean_up_words(&row.reason));
        let words = format!("The kernel freed {least}{packets} {what}, which is no drop: {}.", row.reason);
        wrap(out, &words, width, "  ")?;
    }
    if left_out.left_out() > 0 {
        let records = plural(left_out.left_out(), "record", "records");
        let words = format!(
            "Left out: {records} of freed packets ({}); their reasons are not known.",
            left_out_words(left_out)
        );
        wrap(out, &words, width, "  ")?;
    }
    Ok(())
}

//! Which captured events a log has lines of: a line belongs to a journey, and what no journey has is left out and counted.

use crate::mark::{Mark, MarkKind};
use magscope_core::hash::Set;
use magscope_core::hop::Role;
use magscope_core::{Batch, Hop};
use std::collections::BTreeMap;

/// Hops that a log can have lines of.
pub fn hops_of_lines() -> impl Iterator<Item = Hop> {
    Hop::ALL.iter().copied().filter(|hop| has_lines(*hop))
}

/// Whether a log can have lines of this hop: its events are in journeys, or they are samples.
pub fn has_lines(hop: Hop) -> bool {
    !matches!(hop.role(), Role::Overflow | Role::Task)
}

/// Counts events and those of them that have a line.
#[derive(Default)]
pub struct EventCount {
    events: BTreeMap<Hop, u64>,
    with_lines: BTreeMap<Hop, u64>,
    /// Events of the instant of the last mark: one event has a line for each of its journeys.
    instant: (i64, Set<(Hop, u16, u16, u32)>),
}

impl EventCount {
    /// Takes what was captured.
    pub fn batch(&mut self, batch: &Batch) {
        for event in &batch.events {
            *self.events.entry(event.hop).or_default() += 1;
        }
    }

    /// Takes a mark that becomes a line.
    pub fn mark(&mut self, mark: &Mark) {
        let event = match &mark.what {
            MarkKind::Hit(hit) => (hit.hop, mark.node, hit.cpu, hit.tid),
            MarkKind::Ended { reason: Some(_), about, .. } => (Hop::SkbDrop, mark.node, about.ip_id, about.seq),
            _ => return,
        };
        if self.instant.0 != mark.ns {
            self.instant.0 = mark.ns;
            self.instant.1.clear();
        }
        if self.instant.1.insert(event) {
            *self.with_lines.entry(event.0).or_default() += 1;
        }
    }

    /// Events without a line, and in words at which hops they were; `None` if every event has one.
    pub fn left_out(&self) -> Option<(u64, String)> {
        let without = |(hop, n): (&Hop, &u64)| {
            let n = n.saturating_sub(self.with_lines.get(hop).copied().unwrap_or(0));
            (n > 0).then_some((*hop, n))
        };
        let left: Vec<(Hop, u64)> = self.events.iter().filter_map(without).collect();
        let all = left.iter().map(|(_, n)| n).sum();
        let hops: Vec<String> = left.iter().map(|(hop, n)| format!("{hop} {n}")).collect();
        (all > 0).then(|| (all, format!("events belong to no journey and have no line: {}", hops.join(", "))))
    }
}

//! The blame table: the parts of the time, by protocol.

use super::figures::{count, plural, time};
use super::{Report, as_text};
use crate::stats::{HopPairStats, Quantiles};
use magscope_core::blame::{Blame, Part};
use magscope_core::flow::Proto;
use serde::Serialize;
use std::fmt::{self, Write};

/// The parts of the time of one protocol's journeys with a seen end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BlameRow {
    /// TCP or UDP.
    #[serde(serialize_with = "as_text")]
    pub proto: Proto,
    /// Journeys that were split.
    pub journeys: u64,
    /// Sum of their times, nanoseconds.
    pub total_ns: u64,
    /// The parts in any of them, in path order.
    pub parts: Vec<BlamePart>,
}

/// The time of one part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BlamePart {
    /// The part.
    pub part: Part,
    /// Its share of the total time, 0 to 1.
    pub share: f64,
    /// Total time, nanoseconds.
    pub total_ns: u64,
    /// Journeys in which it took longest.
    pub largest: u64,
    /// Its time per journey. The denominator is the journeys with a span of it.
    pub time: Option<Quantiles>,
}

/// Adds up the blame of one protocol.
#[derive(Default)]
pub(super) struct BlameSum {
    journeys: u64,
    total_ns: u64,
    parts: [PartSum; Part::COUNT],
}

#[derive(Default)]
struct PartSum {
    total_ns: u64,
    largest: u64,
    times: Option<HopPairStats>,
}

impl BlameSum {
    pub fn count(&mut self, blame: &Blame) {
        self.journeys += 1;
        self.total_ns = self.total_ns.saturating_add(blame.total_ns());
        for (part, ns) in blame.parts() {
            let sum = &mut self.parts[part as usize];
            sum.total_ns = sum.total_ns.saturating_add(ns);
            sum.times.get_or_insert_with(HopPairStats::new).record(ns);
        }
        if let Some(part) = blame.largest() {
            self.parts[part as usize].largest += 1;
        }
    }

    pub fn row(&self, proto: Proto) -> BlameRow {
        let part = |part: Part| {
            let sum = &self.parts[part as usize];
            let time = sum.times.as_ref()?.quantiles();
            let share = if self.total_ns == 0 { 0.0 } else { sum.total_ns as f64 / self.total_ns as f64 };
            Some(BlamePart { part, share, total_ns: sum.total_ns, largest: sum.largest, time })
        };
        let parts = Part::ALL.into_iter().filter_map(part).collect();
        BlameRow { proto, journeys: self.journeys, total_ns: self.total_ns, parts }
    }
}

/// The table as text.
pub(super) fn write(out: &mut String, report: &Report) -> fmt::Result {
    for row in &report.blame {
        let of = format!("{}: time of {}", row.proto, plural(row.journeys, "journey", "journeys"));
        writeln!(out, "\n{of:<31} {:>7}  {:>8} {:>8} {:>11}", "share", "p50", "p99", "n")?;
        for part in &row.parts {
            let q = part.time.unwrap_or_default();
            writeln!(
                out,
                "  {:<29} {:>5.1} %  {:>8} {:>8} {:>11}",
                part.part.words(),
                part.share * 100.0,
                time(q.p50_ns),
                time(q.p99_ns),
                count(q.n)
            )?;
        }
    }
    Ok(())
}

//! A comparison of two recordings for display: statistics, and full distributions to overlay.

use magscope_core::{Hop, Journey, Proto};
use magscope_report::compare::Comparison;
use std::collections::BTreeMap;

/// Classes per octave.
const AN_OCTAVE: f64 = 8.0;
/// Number of classes: 64 octaves cover every number of nanoseconds.
pub const CLASSES: usize = 512;

/// A comparison.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The figures.
    pub comparison: Comparison,
    /// Names of both sides: before, after.
    pub names: (String, String),
    /// The distributions of both.
    pub spreads: (Spreads, Spreads),
    /// Notes for the user: damaged parts that were skipped.
    pub notes: Vec<String>,
}

/// A protocol and a pair of hops; `None` for the whole journey.
type Key = (Proto, Option<(Hop, Hop)>);

/// Distributions of times, by protocol and pair of hops.
#[derive(Clone, Debug, Default)]
pub struct Spreads(BTreeMap<Key, Vec<u64>>);

impl Spreads {
    /// Adds a complete journey.
    pub fn add(&mut self, journey: &Journey) {
        if !journey.verdict.is_whole() {
            return;
        }
        let whole =
            journey.start_ns().zip(journey.end_ns()).map(|(start, end)| (None, end.saturating_sub(start)));
        let steps = journey.latencies().map(|step| (Some((step.from, step.to)), step.ns));
        for (pair, ns) in whole.into_iter().chain(steps) {
            let classes = self.0.entry((journey.proto, pair)).or_insert_with(|| vec![0; CLASSES]);
            if let Some(class) = classes.get_mut(class_of(ns)) {
                *class += 1;
            }
        }
    }

    /// Counts by class for a pair; `None` without data.
    pub fn of(&self, proto: Proto, pair: Option<(Hop, Hop)>) -> Option<&[u64]> {
        self.0.get(&(proto, pair)).map(Vec::as_slice)
    }
}

/// The class of a time.
fn class_of(ns: u64) -> usize {
    (((ns.max(1) as f64).log2() * AN_OCTAVE) as usize).min(CLASSES - 1)
}

/// The least time of a class, nanoseconds.
pub fn edge_ns(class: usize) -> f64 {
    (class as f64 / AN_OCTAVE).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_has_a_class_and_lies_in_it() {
        for ns in [0, 1, 2, 999, 41_234, 5_310_000, u64::MAX / 2, u64::MAX] {
            let class = class_of(ns);
            assert!(edge_ns(class) <= ns.max(1) as f64 * (1.0 + 1e-9), "{ns}");
            assert!(class + 1 == CLASSES || edge_ns(class + 1) * (1.0 + 1e-9) > ns as f64, "{ns}");
        }
    }
}

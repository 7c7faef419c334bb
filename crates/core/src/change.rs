//! Changes of a running capture, and the kernel's counts of each hop. They define which part of the events a
//! partial recording contains.

use crate::hop::Hop;
use serde::{Deserialize, Serialize};

/// A change of the capture while it ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Before this instant the change had no effect, `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// After this instant the change is complete.
    pub to_ns: u64,
    /// In the syntax of the command line: `disable dev.queue`, `filter port = 443`.
    pub what: String,
}

/// Text of a change of rules, before the number of the network namespace.
const RULES: &str = "rules changed in network namespace ";

impl Change {
    /// Rules of netfilter or classifiers of a network namespace changed, not by the capture.
    pub fn of_rules(from_ns: u64, to_ns: u64, netns: u32) -> Self {
        Change { from_ns, to_ns, what: format!("{RULES}{netns}") }
    }

    /// True if rules that drop packets may have changed.
    pub fn is_of_rules(&self) -> bool {
        self.what.starts_with(RULES)
    }
}

/// The kernel's counts of one hop since the capture began. Every hit of an enabled hop is in one of the five.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopCount {
    /// Instant of the reading, `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// The hop.
    pub hop: Hop,
    /// Became records, or were lost as such (see [`crate::Loss`]).
    pub kept: u64,
    /// Left out by the filter.
    pub filtered: u64,
    /// Left out because the filter uses an unavailable field.
    pub undecided: u64,
    /// Left out by a sampler.
    pub sampled: u64,
    /// Added up in the kernel without a record.
    pub synthesised: u64,
}

impl HopCount {
    /// Hits of the hop.
    pub const fn seen(&self) -> u64 {
        self.kept
            .saturating_add(self.filtered)
            .saturating_add(self.undecided)
            .saturating_add(self.sampled)
            .saturating_add(self.synthesised)
    }

    /// Hits that passed filter and sampler: recorded, or added up.
    pub const fn passed(&self) -> u64 {
        self.kept.saturating_add(self.synthesised)
    }

    /// Number of events per event that passed: 1 without sampling.
    pub fn weight(&self) -> f64 {
        let passed = self.passed();
        if self.sampled == 0 || passed == 0 {
            return 1.0;
        }
        passed.saturating_add(self.sampled) as f64 / passed as f64
    }
}

//! What was changed while a capture ran, and what the kernel counted of each hop: what makes a recording of a part of the
//! events still say what it is a part of.

use crate::hop::Hop;
use serde::{Deserialize, Serialize};

/// A change of what is captured, made while it ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Before this everything was as before, `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// From this on everything is as it says.
    pub to_ns: u64,
    /// In the words of the command line: `disable dev.queue`, `filter port = 443`.
    pub what: String,
}

/// What the kernel counted at one hop since the capture began. Every hit while the hop is on is in one of the five.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopCount {
    /// When it was read, `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// Where.
    pub hop: Hop,
    /// Became records, or should have (see [`crate::Loss`]).
    pub kept: u64,
    /// Left out by the filter.
    pub filtered: u64,
    /// Left out because the filter asks for something that could not be known.
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

    /// How many events each kept one stands for: 1 where nothing was sampled out.
    pub fn weight(&self) -> f64 {
        if self.sampled == 0 || self.kept == 0 {
            return 1.0;
        }
        self.kept.saturating_add(self.sampled) as f64 / self.kept as f64
    }
}

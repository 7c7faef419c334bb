//! Captures that are kept to a budget: how much of what happens becomes records, a ladder from everything to nothing but a look now and
//! then, and how a capture says that it stepped.

use crate::change::Change;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// As it was asked for.
    Full,
    /// Events, and nothing beside them.
    Compact,
    /// Events of one in so many flows, beside any sampling that was asked for.
    Flows(u32),
    /// No records: the kernel adds up.
    Histograms,
    /// The same at the few hops where packets are added up (see [`crate::synthesis::outermost`]) and nowhere else.
    Packets,
    /// Nothing is attached, but for a look now and then whether the load has fallen.
    Rest,
}

impl Level {
    /// All of them, downwards.
    pub const LADDER: [Self; 8] = [
        Self::Full,
        Self::Compact,
        Self::Flows(4),
        Self::Flows(16),
        Self::Flows(64),
        Self::Histograms,
        Self::Packets,
        Self::Rest,
    ];

    /// How far down it is.
    pub fn depth(self) -> usize {
        Self::LADDER.iter().position(|level| *level == self).unwrap_or(0)
    }

    /// What part of the flows that pass what was asked for becomes records.
    pub fn kept(self) -> f64 {
        match self {
            Self::Full | Self::Compact => 1.0,
            Self::Flows(one_in) => 1.0 / f64::from(one_in.max(1)),
            Self::Histograms | Self::Packets | Self::Rest => 0.0,
        }
    }
}

impl Level {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "everything asked for",
            Self::Compact => "events alone",
            Self::Flows(4) => "1/4 of the flows",
            Self::Flows(16) => "1/16 of the flows",
            Self::Flows(_) => "1/64 of the flows",
            Self::Histograms => "histograms in the kernel only",
            Self::Packets => "packets and drops in the kernel only",
            Self::Rest => "nothing, but for a look now and then",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What such a change begins with.
const GOVERNOR: &str = "governor: ";

impl Level {
    /// What it means for figures of the time in which it held; nothing where everything came.
    pub fn means(self) -> Option<&'static str> {
        match self {
            Self::Full => None,
            Self::Compact => {
                Some("TCP's state and first bytes of payload are not there; events and journeys are")
            }
            Self::Flows(_) => Some(
                "counts and rates are estimates from a part of the flows, and times are of that part's journeys; TCP's state and first bytes \
                 of payload are not there",
            ),
            Self::Histograms => Some(
                "there are no events and no journeys, but the kernel's own sums: packets and bytes of flows, and times from hop to hop to \
                 within a sixteenth",
            ),
            Self::Packets => Some(
                "there are no events, no journeys and no times, but the kernel's own sums: packets and bytes of flows, drops and retransmissions",
            ),
            Self::Rest => Some("nothing is known, but for a quarter of a second now and then"),
        }
    }

    /// A change that says that a capture stepped there: it took `used` of `budget` before, both as parts of the machine.
    pub fn told(self, from_ns: u64, to_ns: u64, used: f64, budget: f64) -> Change {
        let what = format!("{GOVERNOR}{self} ({:.1} % of {:.1} %)", used * 100.0, budget * 100.0);
        Change { from_ns, to_ns, what }
    }

    /// Where a change says that a capture stepped to.
    pub fn of(change: &Change) -> Option<Self> {
        let words = change.what.strip_prefix(GOVERNOR)?;
        Self::LADDER
            .into_iter()
            .find(|level| words.strip_prefix(level.name()).is_some_and(|rest| rest.starts_with(" (")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_told_in_words_that_are_read_again() {
        for level in Level::LADDER {
            let change = level.told(1, 2, 0.031, 0.02);
            assert!(change.what.ends_with(" (3.1 % of 2.0 %)"), "{}", change.what);
            assert_eq!(Level::of(&change), Some(level));
            assert_eq!(level.means().is_none(), level == Level::Full);
        }
        for what in ["governor: ", "governor: everything", "detail compact", ""] {
            assert_eq!(Level::of(&Change { from_ns: 0, to_ns: 0, what: what.to_owned() }), None, "{what}");
        }
    }
}

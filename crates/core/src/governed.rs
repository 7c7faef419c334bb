//! Captures with a budget: the levels of recorded detail, from everything to nothing but occasional load
//! checks, and the announcement of level changes.

use crate::change::Change;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A level of detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// As requested.
    Full,
    /// Events only.
    Compact,
    /// Events of one in this number of flows, in addition to any requested sampling.
    Flows(u32),
    /// No records: the kernel adds up.
    Histograms,
    /// Sums at only the few hops that count packets (see [`crate::synthesis::outermost`]).
    Packets,
    /// Nothing is attached, except for occasional checks of the load.
    Rest,
}

impl Level {
    /// All levels, by decreasing detail.
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

    /// Index of the level.
    pub fn depth(self) -> usize {
        Self::LADDER.iter().position(|level| *level == self).unwrap_or(0)
    }

    /// Fraction of the requested flows that become records.
    pub fn passed_share(self) -> f64 {
        match self {
            Self::Full | Self::Compact => 1.0,
            Self::Flows(one_in) => 1.0 / f64::from(one_in.max(1)),
            Self::Histograms | Self::Packets | Self::Rest => 0.0,
        }
    }
}

impl Level {
    /// Display name.
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

/// Prefix of such a change.
const GOVERNOR: &str = "governor: ";

impl Level {
    /// Its effect on figures of its time; `None` at full detail.
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

    /// The change record of a new level; the previous overhead was `used` of `budget`, both as fractions of the
    /// machine.
    pub fn change(self, from_ns: u64, to_ns: u64, used: f64, budget: f64) -> Change {
        let what = format!("{GOVERNOR}{self} ({:.1} % of {:.1} %)", used * 100.0, budget * 100.0);
        Change { from_ns, to_ns, what }
    }

    /// The level of a change record.
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
    fn every_step_has_words_that_can_be_parsed() {
        for level in Level::LADDER {
            let change = level.change(1, 2, 0.031, 0.02);
            assert!(change.what.ends_with(" (3.1 % of 2.0 %)"), "{}", change.what);
            assert_eq!(Level::of(&change), Some(level));
            assert_eq!(level.means().is_none(), level == Level::Full);
        }
        for what in ["governor: ", "governor: everything", "detail compact", ""] {
            assert_eq!(Level::of(&Change { from_ns: 0, to_ns: 0, what: what.to_owned() }), None, "{what}");
        }
    }
}

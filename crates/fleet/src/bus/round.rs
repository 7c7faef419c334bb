//! The end of a round: the position of every part of a host.
//!
//! A host publishes in rounds: one or more messages for each part with data, then the common part with the
//! positions of all parts. A reader of that message can list the other messages of the round and its own
//! losses.

use super::subject::{PARTS, Part};
use magscope_session::Place;
use serde::{Deserialize, Serialize};

/// Header of each message: id of the agent's run.
pub const RUN: &str = "Magnet-Run";
/// The header of a round's last message.
pub const ROUND: &str = "Magnet-Round";
/// Maximum size of a header, bytes.
const LONGEST: usize = 16 << 10;

/// Position of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartProgress {
    /// Number of the next message, and of the records before it.
    pub next: Place,
    /// The bus's sequence number of the last message.
    pub sequence: u64,
}

/// Positions of all parts of a host at the end of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// By [`Part::index`].
    pub positions: [PartProgress; PARTS],
    /// The agent has ended.
    pub is_last: bool,
}

impl Default for Round {
    fn default() -> Self {
        Round { positions: [PartProgress::default(); PARTS], is_last: false }
    }
}

#[derive(Deserialize, Serialize)]
struct Written {
    /// Part, next number, records, sequence.
    parts: Vec<(u8, u64, u64, u64)>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    last: bool,
}

impl Round {
    /// The header's text.
    pub fn write(&self) -> String {
        let positions =
            (0..).zip(&self.positions).filter(|(_, position)| **position != PartProgress::default());
        let parts = positions
            .map(|(part, position)| (part, position.next.number, position.next.records, position.sequence));
        let written = Written { parts: parts.collect(), last: self.is_last };
        // Serialisation of numbers cannot fail.
        serde_json::to_string(&written).unwrap_or_default()
    }

    /// Parses a header from an untrusted sender.
    pub fn read(header: &str) -> Option<Self> {
        if header.len() > LONGEST {
            return None;
        }
        let written: Written = serde_json::from_str(header).ok()?;
        let mut round = Round { is_last: written.last, ..Round::default() };
        for (part, number, records, sequence) in written.parts {
            let position = &mut round.positions[Part::numbered(part)?.index()];
            *position = PartProgress { next: Place { number, records }, sequence };
        }
        Some(round)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rounds_come_back(positions in prop::collection::btree_map(0..PARTS, any::<(u64, u64, u64)>(), 0..PARTS), is_last in any::<bool>()) {
            let mut round = Round { is_last, ..Round::default() };
            for (part, (number, records, sequence)) in positions {
                round.positions[part] = PartProgress { next: Place { number, records }, sequence };
            }
            let written = round.write();
            prop_assert!(written.len() < LONGEST);
            prop_assert_eq!(Round::read(&written), Some(round));
        }

        #[test]
        fn text_of_any_kind_is_a_round_or_none(text in "\\PC{0,200}") {
            let _ = Round::read(&text);
        }
    }

    #[test]
    fn what_is_no_round_is_refused() {
        for text in ["", "{}", r#"{"parts":[[65,1,1,1]]}"#, r#"{"parts":[[1,-1,1,1]]}"#, &"[".repeat(100_000)] {
            assert_eq!(Round::read(text), None);
        }
    }
}

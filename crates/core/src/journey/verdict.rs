//! Verdicts: how a journey ended, as far as the capture can tell.

use crate::hop::Hop;
use serde::Serialize;
use std::fmt;

/// How a journey ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// Both ends are in the capture, and the receiver's top served hop was reached.
    Complete,
    /// Only one end is in the capture, and that half is whole.
    HalfComplete,
    /// Nothing was seen of it after this hop, and no record is missing that could tell.
    LostAfter {
        /// The last hop that it passed.
        hop: Hop,
    },
    /// The kernel dropped it and said why, and it was not seen again.
    Dropped {
        /// The last hop that it passed.
        hop: Hop,
        /// Number of the kernel's `enum skb_drop_reason`.
        reason: u32,
    },
    /// Records are missing from its span, so nothing can be concluded from what was not seen.
    BrokenByEventLoss,
    /// Still under way: at the end of the capture, or it has been waiting in a send or receive queue for longer than the
    /// correlator waits.
    InFlight,
    /// Later bytes were read, so these were too, but no event says when (`splice`, or a hop switched on in between).
    ReadUnseen,
    /// Given up on, because too many were in flight.
    Evicted,
}

impl Verdict {
    /// How many kinds there are.
    pub const KINDS: usize = 8;

    /// Names of the kinds, in the order of [`Verdict::kind`].
    pub const NAMES: [&'static str; Self::KINDS] =
        ["complete", "half", "lost", "dropped", "broken", "in-flight", "read-unseen", "evicted"];

    /// Number of the kind, below [`Verdict::KINDS`].
    pub const fn kind(self) -> usize {
        match self {
            Self::Complete => 0,
            Self::HalfComplete => 1,
            Self::LostAfter { .. } => 2,
            Self::Dropped { .. } => 3,
            Self::BrokenByEventLoss => 4,
            Self::InFlight => 5,
            Self::ReadUnseen => 6,
            Self::Evicted => 7,
        }
    }

    /// Name of the kind.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self.kind()]
    }

    /// Whether the journey was seen to its end, so that its latency from one end to the other means something.
    pub const fn is_whole(self) -> bool {
        matches!(self, Self::Complete | Self::HalfComplete)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LostAfter { hop } => write!(f, "lost after {hop}"),
            Self::Dropped { hop, reason } => write!(f, "dropped after {hop}, reason {reason}"),
            other => f.pad(other.name()),
        }
    }
}

//! Verdicts: how a journey ended, as far as the capture can tell.

use crate::batch::Loss;
use crate::hop::Hop;
use serde::Serialize;
use std::fmt;

/// How a journey ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// Both ends are in the capture, and it came to its end: it was read, or where its protocol has no reader here, it was
    /// received.
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
    BrokenByEventLoss {
        /// What is missing; the first where there are several. Times are those of the recording that lost it.
        gap: Loss,
    },
    /// It came as far as the served hops show; what came after, none of them does: no hop of the reader is served, or it
    /// waits for its reader or was lost and the hop between, that would tell, is not served.
    NotProbed {
        /// The last hop that it passed.
        beyond: Hop,
    },
    /// Nothing was seen of it after this hop, and it may just have been left out: the capture has a filter or a sampler that keeps
    /// some events of a journey and not others, or a hop was switched off.
    Filtered {
        /// The last hop that it passed.
        beyond: Hop,
    },
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
    pub const KINDS: usize = 10;

    /// Names of the kinds, in the order of [`Verdict::kind`].
    pub const NAMES: [&'static str; Self::KINDS] = [
        "complete",
        "half",
        "lost",
        "dropped",
        "broken",
        "in-flight",
        "read-unseen",
        "evicted",
        "not-probed",
        "filtered",
    ];

    /// Number of the kind, below [`Verdict::KINDS`].
    pub const fn kind(self) -> usize {
        match self {
            Self::Complete => 0,
            Self::HalfComplete => 1,
            Self::LostAfter { .. } => 2,
            Self::Dropped { .. } => 3,
            Self::BrokenByEventLoss { .. } => 4,
            Self::InFlight => 5,
            Self::ReadUnseen => 6,
            Self::Evicted => 7,
            Self::NotProbed { .. } => 8,
            Self::Filtered { .. } => 9,
        }
    }

    /// Whether journeys of the kind with this number are [whole](Self::is_whole).
    pub const fn is_whole_kind(kind: usize) -> bool {
        matches!(kind, 0 | 1 | 8)
    }

    /// How many of so many journeys of each kind are [whole](Self::is_whole).
    pub const fn whole_of(kinds: &[u64; Self::KINDS]) -> u64 {
        kinds[0] + kinds[1] + kinds[8]
    }

    /// Name of the kind.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self.kind()]
    }

    /// Whether the journey was seen as far as the capture could show it, so that its latency from its first hop to its
    /// last means something.
    pub const fn is_whole(self) -> bool {
        Self::is_whole_kind(self.kind())
    }

    /// Whether the network lost it: the kernel dropped it, or it was not seen again although no record is missing. What is
    /// broken by lost events is a loss of the instrument and not of the network.
    pub const fn is_lost(self) -> bool {
        matches!(self, Self::Dropped { .. } | Self::LostAfter { .. })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LostAfter { hop } => write!(f, "lost after {hop}"),
            Self::Dropped { hop, reason } => write!(f, "dropped after {hop}, reason {reason}"),
            Self::NotProbed { beyond } => write!(f, "not probed beyond {beyond}"),
            Self::Filtered { beyond } => write!(f, "left out by the filter or sampler beyond {beyond}"),
            Self::BrokenByEventLoss { gap } => {
                write!(f, "broken: {} event{} lost", gap.count, if gap.count == 1 { "" } else { "s" })?;
                if gap.cpu != u16::MAX {
                    write!(f, " on CPU {}", gap.cpu)?;
                }
                write!(f, " between {} and {} ns ({})", gap.from_ns, gap.to_ns, gap.cause)
            }
            other => f.pad(other.name()),
        }
    }
}

//! Verdicts: how a journey ended, according to the capture.

use super::consumer::Consumer;
use crate::batch::Loss;
use crate::hop::Hop;
use serde::Serialize;
use std::fmt;

/// How a journey ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// Both ends are in the capture, and it reached its end: it was read, or without a reader in its protocol,
    /// it was received.
    Complete,
    /// Only one end is in the capture, and that half is complete; or it was under way when the capture began.
    HalfComplete,
    /// It has no event after this hop, and no relevant record is missing.
    LostAfter {
        /// The last hop passed.
        hop: Hop,
    },
    /// The kernel dropped it for this reason, and it was not seen again.
    Dropped {
        /// The last hop passed.
        hop: Hop,
        /// Number of the kernel's `enum skb_drop_reason`.
        reason: u32,
    },
    /// Its socket discarded it: the reader's was closed with these bytes unread, the sender's with these bytes
    /// unsent, reads passed over an urgent byte, or a read had
    /// no room for a datagram behind others in its buffer.
    Discarded {
        /// The last hop passed.
        hop: Hop,
    },
    /// The kernel took it from the socket itself, where it is not followed: no process reads it there.
    Delivered {
        /// What took it.
        to: Consumer,
    },
    /// Records are missing from its span, so missing events prove nothing.
    BrokenByEventLoss {
        /// The missing records; of several, the first. Times are those of the recording that lost them.
        gap: Loss,
    },
    /// It reached the last served hop. It may be waiting for its reader, have been read, or be lost: no hop
    /// that would distinguish these is served.
    NotProbed {
        /// The last hop passed.
        beyond: Hop,
    },
    /// It has no event after this hop, but events may just have been left out. The capture has a filter or a
    /// sampler that keeps only some events of a journey, or a hop was disabled.
    Filtered {
        /// The last hop passed.
        beyond: Hop,
    },
    /// In flight at the end of the capture, or in a send or receive queue for longer than the correlator waits.
    InFlight,
    /// Its socket's reader is past it, but without an event (`splice`, or a hop enabled in between).
    ReadUnseen,
    /// Evicted, because too many were in flight.
    Evicted,
}

impl Verdict {
    /// Number of kinds.
    pub const KINDS: usize = 12;

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
        "discarded",
        "delivered",
    ];

    /// Number of the kind [`Verdict::LostAfter`].
    pub const LOST: usize = 2;
    /// Number of the kind [`Verdict::Dropped`].
    pub const DROPPED: usize = 3;
    /// Number of the kind [`Verdict::BrokenByEventLoss`].
    pub const BROKEN: usize = 4;
    /// Number of the kind [`Verdict::InFlight`].
    pub const IN_FLIGHT: usize = 5;
    /// Number of the kind [`Verdict::Filtered`].
    pub const FILTERED: usize = 9;

    /// Number of the kind, below [`Verdict::KINDS`].
    pub const fn kind(self) -> usize {
        match self {
            Self::Complete => 0,
            Self::HalfComplete => 1,
            Self::LostAfter { .. } => Self::LOST,
            Self::Dropped { .. } => Self::DROPPED,
            Self::BrokenByEventLoss { .. } => Self::BROKEN,
            Self::InFlight => Self::IN_FLIGHT,
            Self::ReadUnseen => 6,
            Self::Evicted => 7,
            Self::NotProbed { .. } => 8,
            Self::Filtered { .. } => Self::FILTERED,
            Self::Discarded { .. } => 10,
            Self::Delivered { .. } => 11,
        }
    }

    /// True if journeys of the kind with this number are [complete](Self::is_whole).
    pub const fn is_whole_kind(kind: usize) -> bool {
        matches!(kind, 0 | 1 | 8 | 11)
    }

    /// Number of [complete](Self::is_whole) journeys among these counts of each kind.
    pub const fn whole_of(kinds: &[u64; Self::KINDS]) -> u64 {
        kinds[0] + kinds[1] + kinds[8] + kinds[11]
    }

    /// Name of the kind.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self.kind()]
    }

    /// True if the journey has all events that the capture could show, so that its latency from its first hop
    /// to its last is meaningful.
    pub const fn is_whole(self) -> bool {
        Self::is_whole_kind(self.kind())
    }

    /// True if the network lost it: the kernel dropped it, or it was not seen again although no record is
    /// missing. A journey broken by lost events is a loss of the instrument and not of the network.
    pub const fn is_lost(self) -> bool {
        matches!(self, Self::Dropped { .. } | Self::LostAfter { .. })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LostAfter { hop } => write!(f, "lost after {hop}"),
            Self::Dropped { hop, reason } => write!(f, "dropped after {hop}, reason {reason}"),
            Self::Delivered { to } => write!(f, "delivered to {to}, not followed"),
            Self::Discarded { hop } => write!(f, "discarded in its socket after {hop}"),
            Self::NotProbed { beyond } => write!(f, "not probed beyond {beyond}"),
            Self::Filtered { beyond } => write!(f, "left out by the filter or sampler beyond {beyond}"),
            Self::BrokenByEventLoss { gap } => {
                write!(f, "broken: {} event{} missed", gap.count, if gap.count == 1 { "" } else { "s" })?;
                if gap.cpu != u16::MAX {
                    write!(f, " on CPU {}", gap.cpu)?;
                }
                write!(f, " between {} and {} ns ({})", gap.from_ns, gap.to_ns, gap.cause)
            }
            other => f.pad(other.name()),
        }
    }
}

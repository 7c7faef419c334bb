//! Branches: what happened to bytes that were sent again.

use super::rungs::Rungs;
use serde::Serialize;
use std::fmt;

/// Why the kernel sent bytes again, as `tcp.retransmit` tells it in [`crate::Event::detail`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Resend {
    /// Not told: `tcp.retransmit` is not served or its record was lost, an older recording, or a reason that is none of
    /// the others.
    #[default]
    Unknown = 0,
    /// Acknowledgements showed the loss (`TCP_CA_Recovery`: SACK, RACK, three duplicates).
    Fast = 1,
    /// The retransmission timer ran out, or the slow start after that (`TCP_CA_Loss`).
    Timeout = 2,
    /// The last segment, sent again early to find out whether it was lost (RFC 8985, section 7).
    TailLossProbe = 3,
}

impl Resend {
    /// The kind with this number in a record; numbers of a later version are unknown.
    pub const fn from_detail(detail: u32) -> Self {
        match detail {
            1 => Self::Fast,
            2 => Self::Timeout,
            3 => Self::TailLossProbe,
            _ => Self::Unknown,
        }
    }

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Fast => "fast",
            Self::Timeout => "timeout",
            Self::TailLossProbe => "tail loss probe",
        }
    }
}

impl fmt::Display for Resend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One pass of a journey's bytes through the sender's packet hops after the first, and the receiver's packet hops that
/// this packet passed.
///
/// A copy that the network made is no pass of the sender and has no branch. Which packet arrived is told by the IPv4
/// identification; without one (IPv6, `tcp.recv` alone) by order, and where that leaves more than one possible,
/// [`Branch::ambiguous`] says so. A rung whose time is also that of the journey's own [`super::Journey::rungs`] is the pass
/// that got there first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Branch {
    /// Why it was sent again.
    pub kind: Resend,
    /// When `tcp.retransmit` told of it; `None` if that was not seen. It fires after the packet has gone out.
    pub told_ns: Option<u64>,
    /// When this pass was at which packet hop; empty if only `tcp.retransmit` told of it.
    pub rungs: Rungs,
    /// More than one pass was on its way and nothing told them apart: the receiver's rungs may be another's.
    pub ambiguous: bool,
}

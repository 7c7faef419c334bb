//! Copies: the passages of bytes that were sent more than once.

use super::ip_ids::IpIds;
use super::rungs::Rungs;
use crate::deciders::SocketFilter;
use crate::flow::FlowId;
use serde::Serialize;
use std::fmt;

/// The kernel's reason for a retransmission, from [`crate::Detail::ResendReason`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Resend {
    /// Unknown: `tcp.retransmit` is not served or its record was lost, or a reason that is none of the
    /// others.
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
    /// All kinds.
    pub const ALL: [Resend; 4] = [Self::Unknown, Self::Fast, Self::Timeout, Self::TailLossProbe];

    /// The kind of this number in a record; numbers of a later version are unknown.
    pub const fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Fast,
            2 => Self::Timeout,
            3 => Self::TailLossProbe,
            _ => Self::Unknown,
        }
    }

    /// Display name.
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

/// One passage of a journey's bytes down the sender's stack, and up the receiver's as far as its packet
/// arrived.
///
/// A copy that the network made is none of the sender's and has no entry. The IPv4 identification shows which
/// copy arrived. Without one (IPv6, `tcp.recv` alone) the order decides, and [`SentCopy::ambiguous`] is set if
/// several are possible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentCopy {
    /// Its number among the copies of the journey, from 1.
    pub number: u32,
    /// The reason why it was sent; [`Resend::Unknown`] for the first.
    pub kind: Resend,
    /// Instant of its `tcp.retransmit`; `None` without one. The event follows the packet's departure.
    pub retransmit_ns: Option<u64>,
    /// The IPv4 identifications of its packet, if it was seen.
    pub ids: IpIds,
    /// Instants at the packet hops; empty if only `tcp.retransmit` reported it.
    pub rungs: Rungs,
    /// The hop at which the kernel dropped it.
    pub dropped: Option<CopyDrop>,
    /// Several copies were in flight and nothing distinguished them: the receiver's events may belong to
    /// another, so no time from sender to receiver is measured.
    pub ambiguous: bool,
}

/// The kernel's drop of one copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyDrop {
    /// Instant, nanoseconds of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// Number of the kernel's `enum skb_drop_reason`.
    pub reason: u32,
    /// The flow of the dropped packet, which has its network namespace; [`FlowId::NONE`] if unknown.
    pub flow: FlowId,
    /// Interface that the packet was at, within the network namespace of that flow; 0 where it was at none.
    pub ifindex: u32,
    /// Rules that drop packets may have changed since the capture listed them.
    pub rules_changed: bool,
    /// The filter of the socket that it was for, of a drop by a filter.
    pub filter: SocketFilter,
}

impl SentCopy {
    /// The copy and the reason of its sending: `copy 2 (fast)`.
    pub fn words(&self) -> String {
        match self.kind {
            Resend::Unknown => format!("copy {}", self.number),
            kind => format!("copy {} ({kind})", self.number),
        }
    }
}

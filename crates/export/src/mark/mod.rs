//! Single marks: a hit of a journey, a drop, a loss, a sample. For event formats, as opposed to tables.

mod arrows;
mod marks;
mod spans;

pub use marks::Marks;
pub use spans::{RequestSpan, SpanSide};

use magscope_core::batch::Loss;
use magscope_core::custom::{CustomProbe, ProbeHit};
use magscope_core::journey::Resend;
use magscope_core::node::DropReason;
use magscope_core::{Direction, Hop, Proto, TcpSample, Verdict};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

/// A mark: time, place, content.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Nanoseconds, as [`crate::TimeLine::ns`].
    pub ns: i64,
    /// Node number, in the order of the recordings.
    pub node: u16,
    /// Name of the host.
    pub host: Arc<str>,
    /// Name of the network namespace; empty if unknown.
    pub place: Arc<str>,
    /// Content.
    pub what: MarkKind,
}

/// Content of a mark.
#[derive(Clone, Debug)]
pub enum MarkKind {
    /// A journey passed a hop.
    Hit(Hit),
    /// A journey ended early, or the kernel dropped one of its copies.
    Ended(Ended),
    /// Records are missing.
    Loss {
        /// End of the loss.
        to_ns: i64,
        /// The loss, with times of the recording.
        loss: Loss,
    },
    /// A sample of a TCP connection.
    Sample {
        /// The sample.
        sample: Box<TcpSample>,
        /// Local and remote address, if known.
        ends: Option<(SocketAddr, SocketAddr)>,
    },
    /// A custom probe was passed.
    Probe(Box<Probed>),
    /// A request, or its answer, began.
    Request(Box<RequestSpan>),
    /// A sampler or a filter rejected events of a hop since the previous mark.
    LeftOut {
        /// The hop.
        hop: Hop,
        /// The cause.
        by: LeftOutBy,
        /// Number of rejected events.
        count: u64,
        /// Number of accepted events in the same time.
        recorded: u64,
    },
}

/// The early end of a journey or of one of its copies: dropped, or not seen again.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The journey.
    pub about: Arc<About>,
    /// The last hop that it, or the copy, passed.
    pub after: Hop,
    /// The kernel's drop reason, if any.
    pub reason: Option<DropReason>,
    /// Name of the interface that a dropped packet was at; empty if it was at none.
    pub interface: Box<str>,
    /// Copy number: 0 for the first transmission.
    pub again: u32,
    /// The journey ended here. Otherwise the kernel dropped a copy, and the bytes were sent again.
    pub is_end: bool,
}

impl Ended {
    /// Name for display.
    pub fn name(&self) -> &'static str {
        if self.is_end { self.about.verdict.name() } else { "dropped copy" }
    }

    /// The number of the kernel's drop reason, if any.
    pub fn reason(&self) -> Option<u32> {
        self.reason.as_ref().map(|reason| reason.number)
    }
}

/// Cause of rejection before recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOutBy {
    /// A sampler: accepted events represent the others, so counts are estimates.
    Sampler,
    /// A filter: the events are unwanted.
    Filter,
}

impl LeftOutBy {
    /// Event name in exports.
    pub const fn event(self) -> &'static str {
        match self {
            Self::Sampler => "events.sampled",
            Self::Filter => "events.filtered",
        }
    }
}

/// A hit of a custom probe with its context.
#[derive(Clone, Debug)]
pub struct Probed {
    /// The hit; its time is that of the recording.
    pub hit: ProbeHit,
    /// The probe.
    pub probe: CustomProbe,
    /// Local and remote address, if known.
    pub ends: Option<(SocketAddr, SocketAddr)>,
    /// The thread's name, empty if unknown.
    pub comm: Box<str>,
}

/// A time between two hops.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// Nanoseconds.
    pub ns: u64,
    /// Its error, nanoseconds: 0 within one clock.
    pub half_width_ns: u64,
    /// The interval that holds the true time, nanoseconds.
    pub bounds_ns: (u64, u64),
}

/// A journey at a hop.
#[derive(Clone, Debug)]
pub struct Hit {
    /// The journey.
    pub about: Arc<About>,
    /// The hop.
    pub hop: Hop,
    /// The CPU.
    pub cpu: u16,
    /// Process, 0 if unknown.
    pub tgid: u32,
    /// Thread, 0 if unknown.
    pub tid: u32,
    /// The previous hop of the same copy, and the time since then.
    pub latency: Option<(Hop, Took)>,
    /// For the first hit of a later copy: time since the last hit of the previous copy, nanoseconds.
    pub waited_ns: Option<u64>,
    /// Recorded at the return of the call.
    pub at_return: bool,
    /// The hit may be of another datagram, or of another copy of the same bytes.
    pub ambiguous: bool,
    /// Copy number: 0 for the first transmission.
    pub again: u32,
    /// At a retransmission report, the kernel's reason.
    pub resend: Resend,
    /// A hit of a copy after the one that ended the journey, or a retransmission report.
    pub is_after: bool,
    /// True for the first hit, and for the last, of its journey in path order.
    pub ends: (bool, bool),
    /// Network namespace of the forwarder that it is at; 0 at an end.
    pub forwarder_netns: u32,
    /// Its place on the arrow of the journey; `None` off the order of time.
    pub arrow: Option<Arrow>,
}

/// A place on the arrow that viewers draw through the hits of a journey, in the order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrow {
    /// The only hit.
    Only,
    /// The first of several.
    First,
    /// Between the first and the last.
    Inner,
    /// The last of several.
    Last,
}

/// Common data of all marks of a journey.
#[derive(Debug)]
pub struct About {
    /// Its number.
    pub id: u64,
    /// Protocol.
    pub proto: Proto,
    /// Addresses of sender and receiver, if known.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// Payload, bytes.
    pub bytes: u64,
    /// First byte on the wire: a sequence number; 0 for datagrams.
    pub seq: u32,
    /// Identification of a datagram; 0: none.
    pub ip_id: u16,
    /// The verdict.
    pub verdict: Verdict,
    /// Time from first hop to last.
    pub total: Option<Took>,
    /// The sending thread's name, empty if unknown.
    pub sender: Box<str>,
    /// The reading thread's name.
    pub reader: Box<str>,
    /// The polling thread that was present when the data arrived; 0: none.
    pub poller: u32,
    /// Network namespaces of the two ends.
    pub netns: (u32, u32),
    /// Number of copies that have no mark.
    pub copies_left_out: u32,
    /// True if its bytes waited for the peer's receive window.
    pub waited_for_window: bool,
    /// Encoded form, cached by a format.
    pub written: OnceLock<Vec<u8>>,
}

impl About {
    /// The name of the active thread at a hop.
    pub fn comm(&self, hop: Hop) -> &str {
        if hop.direction() == Direction::Tx { &self.sender } else { &self.reader }
    }
}

//! What is drawn, one mark at a time: a hit of a journey, a drop, a loss, a sample. For the formats that know events and not tables.

mod marks;

pub use marks::Marks;

use magscope_core::batch::Loss;
use magscope_core::custom::{CustomProbe, ProbeHit};
use magscope_core::{Direction, Hop, Proto, TcpSample, Verdict};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

/// A mark: when, where, what.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Nanoseconds, as [`crate::TimeLine::ns`].
    pub ns: i64,
    /// Which node: its number in the order of the recordings.
    pub node: u16,
    /// Name of the host.
    pub host: Arc<str>,
    /// Name of the network namespace; empty if it is not known.
    pub place: Arc<str>,
    /// What it is.
    pub what: What,
}

/// What a mark is.
#[derive(Clone, Debug)]
pub enum What {
    /// A journey passed a hop.
    Hit(Hit),
    /// A journey ended where it should not: dropped, or not seen again.
    Ended {
        /// Which journey.
        about: Arc<About>,
        /// The last hop it passed.
        after: Hop,
        /// The kernel's reason, where it dropped it.
        reason: Option<u32>,
    },
    /// Records are missing.
    Loss {
        /// Nothing was lost after this.
        to_ns: i64,
        /// What is missing; its times are those of the recording.
        loss: Loss,
    },
    /// A sample of a TCP connection.
    Sample {
        /// The sample.
        sample: Box<TcpSample>,
        /// This end and the other, if they are known.
        ends: Option<(SocketAddr, SocketAddr)>,
    },
    /// A custom probe was passed.
    Probe(Box<Probed>),
    /// A sampler or a filter left events of a hop out since the mark before.
    LeftOut {
        /// Which hop.
        hop: Hop,
        /// What left them out.
        by: LeftOutBy,
        /// How many.
        count: u64,
        /// How many were kept in the same time.
        kept: u64,
    },
}

/// What leaves events out before they are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOutBy {
    /// Chance: what was kept stands for them, so counts of what was kept are estimates.
    Sampler,
    /// A condition: nobody wanted them.
    Filter,
}

impl LeftOutBy {
    /// As events are called that tell of it.
    pub const fn event(self) -> &'static str {
        match self {
            Self::Sampler => "events.sampled",
            Self::Filter => "events.filtered",
        }
    }
}

/// A hit of a custom probe, and what is known of it.
#[derive(Clone, Debug)]
pub struct Probed {
    /// The hit; its time is that of the recording.
    pub hit: ProbeHit,
    /// What was asked for.
    pub probe: CustomProbe,
    /// This end and the other, if they are known.
    pub ends: Option<(SocketAddr, SocketAddr)>,
    /// The name of the thread, empty if it is not known.
    pub comm: Box<str>,
}

/// A journey at a hop.
#[derive(Clone, Debug)]
pub struct Hit {
    /// Which journey.
    pub about: Arc<About>,
    /// Which hop.
    pub hop: Hop,
    /// On which CPU.
    pub cpu: u16,
    /// Process, 0 where it is not known.
    pub tgid: u32,
    /// Thread, 0 where it is not known.
    pub tid: u32,
    /// The hop before in the same copy, how long it took from there and how wrong that may be, nanoseconds.
    pub latency: Option<(Hop, u64, u64)>,
    /// The first hit of a later copy: how long the sender waited for the retransmission since the copy before was seen last.
    pub waited_ns: Option<u64>,
    /// Taken when the call returned.
    pub at_return: bool,
    /// 0 the first time it was sent, then 1 and so on.
    pub again: u32,
    /// Of a copy that was sent after the one that ended the journey, or a report of a retransmission.
    pub is_after: bool,
    /// Whether it is the first hit, or the last, of its journey in the order of the path.
    pub ends: (bool, bool),
}

/// What all marks of a journey say of it.
#[derive(Debug)]
pub struct About {
    /// Its number.
    pub id: u64,
    /// Protocol.
    pub proto: Proto,
    /// Sender's and receiver's address, if they are known.
    pub way: Option<(SocketAddr, SocketAddr)>,
    /// Payload, bytes.
    pub bytes: u64,
    /// First byte on the wire: a sequence number; 0 for datagrams.
    pub seq: u32,
    /// Identification of a datagram; 0: none.
    pub ip_id: u16,
    /// How it ended.
    pub verdict: Verdict,
    /// From first hop to last, nanoseconds, and how wrong that may be.
    pub total_ns: Option<(u64, u64)>,
    /// The sending thread's name, empty if it is not known.
    pub sender: Box<str>,
    /// The reading thread's name.
    pub reader: Box<str>,
    /// The thread that polled and was there when the data came; 0: none.
    pub poller: u32,
    /// Network namespaces of the two ends.
    pub netns: (u32, u32),
    /// What a format wrote about it once and needs again.
    pub written: OnceLock<Vec<u8>>,
}

impl About {
    /// The name of the thread that is busy at a hop.
    pub fn comm(&self, hop: Hop) -> &str {
        if hop.direction() == Direction::Tx { &self.sender } else { &self.reader }
    }
}

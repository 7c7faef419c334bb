//! One hit of a custom probe.

use super::MOST_VALUES;
use crate::flow::{FlowId, Proto};
use serde::{Deserialize, Serialize};

/// Interpretation of a value's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueKind {
    /// A number with a sign.
    Signed,
    /// An unsigned number; beyond 63 bits it is shown as its two's complement.
    #[default]
    Unsigned,
    /// An address, excluded from computations.
    Address,
}

impl ValueKind {
    /// As digits.
    pub fn show(self, number: i64) -> String {
        match self {
            Self::Signed => number.to_string(),
            Self::Unsigned => (number as u64).to_string(),
            Self::Address => format!("{:#x}", number as u64),
        }
    }

    /// As a number for computations.
    pub fn number(self, number: i64) -> f64 {
        if self == Self::Signed { number as f64 } else { number as u64 as f64 }
    }
}

/// One hit of a custom probe. Fields that the probe's packet or socket would supply are 0 without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeHit {
    /// Instant, nanoseconds of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// The socket's cookie.
    pub socket: u64,
    /// The flow from the side of the end that the packet leaves or enters.
    pub flow: FlowId,
    /// TCP sequence number of the packet's first byte, as in [`crate::Event::seq`]; 0 for another protocol.
    pub seq: u32,
    /// Payload bytes of the packet.
    pub len: u32,
    /// The running process. At a probe in the kernel it may be an interrupted one.
    pub tgid: u32,
    /// Its thread.
    pub tid: u32,
    /// Number in this CPU's stream of records, modulo 2³².
    pub record: u32,
    /// The CPU of the hit.
    pub cpu: u16,
    /// IPv4 identification of the packet.
    pub ip_id: u16,
    /// The probe: its place in [`crate::node::NodeInfo::probes`].
    pub probe: u8,
    /// Protocol of the packet or socket.
    pub proto: Proto,
    /// One bit per value: set if it could be read.
    pub known: u8,
    /// The values, in the probe's order.
    pub values: [i64; MOST_VALUES],
}

impl ProbeHit {
    /// One of its values, if it could be read.
    pub fn value(&self, index: usize) -> Option<i64> {
        let is_read = index < MOST_VALUES && self.known >> index & 1 != 0;
        is_read.then(|| self.values[index])
    }
}

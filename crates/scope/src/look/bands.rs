//! The highlighted journey in the bands: what it did in a forwarder, and the legs between.

use crate::format::short_duration;
use magscope_core::Hop;

/// The passage of the highlighted journey through a forwarder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forwarding {
    /// From its first event there to its last, nanoseconds; `None` with fewer than two.
    pub ns: Option<u64>,
    /// Interface at which the packet came in; empty if unknown.
    pub rx_interface: String,
    /// Interface at which it left; empty if unknown or if it did not leave.
    pub tx_interface: String,
    /// What the forwarder did to its addresses, in words: `DNAT 172.17.0.2:80 ← 192.0.2.7:8080`; `None` for nothing.
    pub translation: Option<String>,
    /// The time to each of the forwarder's hops from the event before it, nanoseconds.
    pub steps: Vec<(Hop, u64)>,
}

/// A leg: from one node over a wire to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leg {
    /// Name of the node that sends, with its interface if that is a forwarder's.
    pub from: String,
    /// Name of the node that receives, likewise.
    pub to: String,
    /// The time over the wire of the highlighted journey, nanoseconds.
    pub ns: Option<u64>,
    /// Error bound of that time: 0 within one clock.
    pub half_width_ns: u64,
    /// True if the two nodes may be of different clocks.
    pub is_between_clocks: bool,
}

impl Leg {
    /// In words: the time of the highlighted journey, then the two nodes.
    pub fn words(&self) -> String {
        let mut words = self.ns.map(short_duration).unwrap_or_default();
        if self.half_width_ns > 0 {
            words = format!("{words} ±{}", short_duration(self.half_width_ns));
        }
        let nodes = format!("{} → {}", self.from, self.to);
        if words.is_empty() { nodes } else { format!("{words}  {nodes}") }
    }
}

impl Forwarding {
    /// The step to one of its hops, in words.
    pub fn step_words(&self, hop: Hop) -> Option<String> {
        let (_, ns) = self.steps.iter().find(|(other, _)| *other == hop)?;
        Some(format!("Δ {}", short_duration(*ns)))
    }
}

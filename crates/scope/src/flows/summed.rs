//! The kernel's sums of a flow at one hop.

use crate::look::SummedFlow;
use magscope_core::synthesis::Synthesis;
use magscope_core::{Endpoint, Proto};
use magscope_report::stats::heaviest::Weighed;

/// The kernel's sums of a flow at one hop, as an entry of its own.
#[derive(Clone, Debug, Default)]
pub struct Summed {
    pub proto: Proto,
    /// Sender and receiver.
    pub ends: Option<(Endpoint, Endpoint)>,
    pub netns_name: String,
    pub packets: u64,
    pub bytes: u64,
    lately: Interval,
}

/// Counts of one interval.
#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    from_ns: u64,
    to_ns: u64,
    packets: u64,
    bytes: u64,
}

/// Maximum age of a current interval.
const LATELY_NS: u64 = 3_000_000_000;

impl Summed {
    /// Adds the sums of an interval.
    pub fn add(&mut self, row: &Synthesis) {
        self.packets = self.packets.saturating_add(row.n);
        self.bytes = self.bytes.saturating_add(row.sum);
        if row.to_ns >= self.lately.to_ns {
            self.lately = Interval { from_ns: row.from_ns, to_ns: row.to_ns, packets: row.n, bytes: row.sum };
        }
    }

    /// Adds those of another flow, those of the newest interval to each other.
    pub fn add_flow(&mut self, other: &Self) {
        self.merge(other);
        let (mine, theirs) = (&mut self.lately, &other.lately);
        if theirs.to_ns > mine.to_ns {
            *mine = *theirs;
        } else if theirs.to_ns == mine.to_ns {
            mine.packets = mine.packets.saturating_add(theirs.packets);
            mine.bytes = mine.bytes.saturating_add(theirs.bytes);
        }
    }

    pub fn shown(&self, newest_ns: u64) -> SummedFlow {
        let last = &self.lately;
        let s = last.to_ns.saturating_sub(last.from_ns).max(1_000_000) as f64 / 1e9;
        let is_of_lately = last.to_ns.saturating_add(LATELY_NS) >= newest_ns;
        let rate = |n: u64| if is_of_lately { n as f64 / s } else { 0.0 };
        SummedFlow {
            packets: self.packets,
            bytes: self.bytes,
            packets_per_s: rate(last.packets),
            bytes_per_s: rate(last.bytes),
        }
    }
}

impl Weighed for Summed {
    fn weight(&self) -> u64 {
        self.bytes.saturating_add(self.packets)
    }

    fn merge(&mut self, other: &Self) {
        self.packets = self.packets.saturating_add(other.packets);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

//! One reading of a node's clocks.

use serde::{Deserialize, Serialize};

/// One reading of a node's clocks at the same instant, to within `width_ns`.
///
/// Events carry `CLOCK_MONOTONIC`, which NTP slews; geometry between hosts needs `CLOCK_MONOTONIC_RAW`; people
/// read UTC. A session carries samples of the map between the three, never a single offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockSample {
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub monotonic_ns: u64,
    /// `CLOCK_MONOTONIC_RAW`, nanoseconds.
    pub raw_ns: u64,
    /// `CLOCK_REALTIME`, nanoseconds since 1970-01-01 UTC.
    pub realtime_ns: i64,
    /// The three were read within this many nanoseconds: the sample's error is at most half of it.
    pub width_ns: u32,
}

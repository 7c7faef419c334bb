//! The panel of clocks, and that of losses and overhead.

use crate::overhead::Overhead;
use crate::probes::Probe;
use crate::switches::HopState;
use crate::totals::Totals;
use magscope_core::clock::ClockSample;
use magscope_core::{Hop, LossCause};
use magscope_timeline::pair::State;

/// The wire between sender and receiver: the bound of the time across it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wire {
    /// Basis of the bound; `None` if both ends share one clock.
    pub state: Option<State>,
    /// Error bound of a time across the wire, nanoseconds: half the height of the drawn band. 0 for one clock;
    /// `None` without an estimate, and lifelines are then not joined.
    pub half_width_ns: Option<u64>,
}

/// A node's own clock.
#[derive(Clone, Debug, PartialEq)]
pub struct ClockRow {
    /// Host.
    pub host: String,
    /// The newest reading of its clocks; `None` before the first.
    pub last: Option<ClockSample>,
    /// Number of readings.
    pub samples: u64,
    /// Drift of its UTC against its monotonic clock over the observed time, parts per million.
    pub drift_ppm: Option<f64>,
}

/// The offset between two nodes' clocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClockPair {
    /// Hosts.
    pub hosts: (String, String),
    /// Basis of the bound; `None` for one clock.
    pub state: Option<State>,
    /// The second's clock minus the first's in the middle of the picture, nanoseconds.
    pub offset_ns: Option<i64>,
    /// Error bound of the offset, nanoseconds.
    pub half_width_ns: Option<u64>,
    /// Drift between them, and its error, parts per million.
    pub drift_ppm: Option<(f64, f64)>,
    /// Shortest round trip, nanoseconds.
    pub min_round_trip_ns: Option<u64>,
    /// Packets that bound it.
    pub packets_used: u64,
    /// The newest step of one of the two that packets showed: instant on the time line, and its size, nanoseconds.
    pub last_step_ns: Option<(u64, i64)>,
    /// A step of a clock below this would not be seen, nanoseconds.
    pub smallest_visible_step_ns: Option<u64>,
    /// Hints at steps that packets cannot prove, as sentences. With one the pair is SUSPECT.
    pub hints: Vec<String>,
    /// The bound over time: instant and half width, nanoseconds; at most 256 points, evenly over the time line.
    pub bound: Vec<(u64, u64)>,
}

/// The clocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clock {
    /// The nodes, in the order of the recordings.
    pub nodes: Vec<ClockRow>,
    /// Pairs of them that have packets in common.
    pub pairs: Vec<ClockPair>,
    /// The wire, as drawn.
    pub wire: Wire,
}

/// Losses of one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossRow {
    /// Cause of the loss.
    pub cause: LossCause,
    /// Count since the start.
    pub count: u64,
    /// When last, where any.
    pub last_ns: Option<u64>,
}

/// The state of a hop, and its counts.
#[derive(Clone, Debug, PartialEq)]
pub struct HopRow {
    /// The hop.
    pub hop: Hop,
    /// The state.
    pub state: HopState,
    /// Events of it since the start.
    pub events: u64,
    /// Hits from the kernel's sums, where no events arrived.
    pub summed: u64,
}

/// Losses and overhead.
#[derive(Clone, Debug, PartialEq)]
pub struct LossPanel<'a> {
    /// Since the start or the last clear.
    pub totals: Totals,
    /// One row per cause, including zero counts.
    pub losses: Vec<LossRow>,
    /// The kernels' drops by their reasons, the most frequent first: the kernel's name of the reason, and the
    /// count.
    pub drops: Vec<(String, u64)>,
    /// Records of freed packets that the captures left out, so that the drops are a lower bound: the cause, and the count.
    pub drops_left_out: Vec<(&'static str, u64)>,
    /// Packets that they freed in a clean-up, which is no drop, by the same key.
    pub cleaned_up: Vec<(String, u64)>,
    /// The instrument's overhead; `None` before the first measurement.
    pub overhead: Option<Overhead>,
    /// CPU share of the instrument over time, oldest first; one value per measurement.
    pub own_cpu: Vec<f64>,
    /// Fill level of the fullest ring buffer, in the same order.
    pub ring_fill: Vec<f64>,
    /// The hops of the capture.
    pub hops: Vec<HopRow>,
    /// Custom probes, with their hits and read errors. The number of hits among lost records is unknown.
    pub probes: &'a [Probe],
    /// Hits of a probe number that its recording does not have: the recording is damaged.
    pub strangers: u64,
}

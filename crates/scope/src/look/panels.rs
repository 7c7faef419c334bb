//! The clock's panel, and that of losses and overhead.

use crate::overhead::Overhead;
use crate::probes::Probe;
use crate::totals::Totals;
use magscope_core::clock::ClockSample;
use magscope_core::clock::pair::State;
use magscope_core::node::Service;
use magscope_core::{Hop, LossCause};

/// The wire between sender and receiver: how sure the time across it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wire {
    /// What the bound rests on; `None` where both ends share one clock.
    pub state: Option<State>,
    /// How far a time across the wire can be from the truth, nanoseconds: half the height of the band that is drawn. 0 for one
    /// clock; `None` where nothing is known, and lifelines are not joined.
    pub half_width_ns: Option<u64>,
}

/// A node's own clock.
#[derive(Clone, Debug, PartialEq)]
pub struct ClockRow {
    /// Host.
    pub host: String,
    /// The newest reading of its clocks; `None` before the first.
    pub last: Option<ClockSample>,
    /// Readings taken.
    pub samples: u64,
    /// By how much its UTC ran against its monotonic clock, parts per million, over what was seen.
    pub drift_ppm: Option<f64>,
}

/// How two nodes' clocks stand to each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClockPair {
    /// Hosts.
    pub hosts: (String, String),
    /// What the bound rests on; `None` for one clock.
    pub state: Option<State>,
    /// The second's clock less the first's, nanoseconds, in the middle of the picture.
    pub offset_ns: Option<i64>,
    /// How far from the truth that can be, nanoseconds.
    pub half_width_ns: Option<u64>,
    /// Parts per million that they drift apart, and how far from the truth that can be.
    pub drift_ppm: Option<(f64, f64)>,
    /// Shortest time there and back, nanoseconds.
    pub min_round_trip_ns: Option<u64>,
    /// Packets that bound it.
    pub packets_used: u64,
    /// The bound over time: instant and half width, nanoseconds; evenly over all there is, at most 256.
    pub bound: Vec<(u64, u64)>,
}

/// The clocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clock {
    /// The nodes, in the order of the recordings.
    pub nodes: Vec<ClockRow>,
    /// Pairs of them that have packets in common.
    pub pairs: Vec<ClockPair>,
    /// What is drawn at the wire.
    pub wire: Wire,
}

/// Losses of one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossRow {
    /// Where they were lost.
    pub cause: LossCause,
    /// How many since the start.
    pub count: u64,
    /// When last, where any.
    pub last_ns: Option<u64>,
}

/// How a hop is served, and what it brought.
#[derive(Clone, Debug, PartialEq)]
pub struct Served<'a> {
    /// Which.
    pub hop: Hop,
    /// How.
    pub service: &'a Service,
    /// Events of it since the start.
    pub events: u64,
    /// Hits that the kernel added up, where no events came.
    pub summed: u64,
}

/// Losses and overhead.
#[derive(Clone, Debug, PartialEq)]
pub struct LossPanel<'a> {
    /// Since the start or the last clear.
    pub totals: Totals,
    /// A row a cause, those without any as well.
    pub losses: Vec<LossRow>,
    /// The kernels' drops by their reasons, the most first: the reason in a kernel's own words, and how many.
    pub drops: Vec<(String, u64)>,
    /// What they freed in a clean-up, which is no drop, likewise.
    pub cleaned_up: Vec<(String, u64)>,
    /// What the instrument costs; `None` until it was measured.
    pub overhead: Option<Overhead>,
    /// Its CPU share over time, oldest first; one measurement each.
    pub own_cpu: Vec<f64>,
    /// How full the fullest ring was, likewise.
    pub ring_fill: Vec<f64>,
    /// The hops of the capture.
    pub hops: Vec<Served<'a>>,
    /// Custom probes, with their hits and what could not be read. Which of the lost records were hits nobody knows.
    pub probes: &'a [Probe],
    /// Hits that name no probe of their recording: it is damaged.
    pub strangers: u64,
}

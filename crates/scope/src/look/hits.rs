//! Custom probes: hits on the lanes, and captured payload.

use crate::channel::Channel;
use crate::lane::Place;
use crate::probes::{Probe, ProbeId};
use magscope_core::Hop;
use magscope_core::custom::ProbeHit;
use magscope_core::head::PayloadHead;

/// The hits of a custom probe over the time of the picture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HitRow {
    /// Hits per column, from the left.
    pub cells: Vec<u64>,
    /// Width of the source tiles, nanoseconds: the uncertainty of a hit's position. 0 for exact columns.
    pub tile_ns: u64,
}

/// One hit, where few enough exist to draw each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HitPoint {
    /// The probe.
    pub probe: ProbeId,
    /// Index of the recording.
    pub node: u16,
    /// The hit.
    pub hit: ProbeHit,
    /// Position on the picture: 0 the left edge, 1 the right edge.
    pub x: f64,
    /// The [key](crate::Lifeline::key) of a lifeline of the picture whose bytes it saw.
    pub journey: Option<u64>,
}

/// The hits of custom probes over the time of the picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hits {
    /// One row per probe, in the order of [`crate::Frame::probes`].
    pub rows: Vec<HitRow>,
    /// Each hit, in order of time. Empty with more than [`super::MOST_POINTS`] hits, or if single hits are not
    /// available.
    pub points: Vec<HitPoint>,
    /// The largest of all cells, at least 1.
    pub max_count: u64,
}

/// One hit of a custom probe that saw the bytes of a journey.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pass {
    /// The probe.
    pub probe: ProbeId,
    /// Index of the recording.
    pub node: u16,
    /// The hit.
    pub hit: ProbeHit,
}

/// A place of a lifeline, with its instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// A hop, a custom probe or a forwarder. A folded forwarder occurs twice, for its first event and for its last.
    pub place: Place,
    /// Instant of the first event or hit there.
    pub time_ns: u64,
    /// It is on the sender's clock, false for the receiver's. They may be one.
    pub on_sender_clock: bool,
}

/// A custom probe in the ladder of a journey.
#[derive(Clone, Debug, PartialEq)]
pub struct PassRow<'a> {
    /// The probe.
    pub probe: &'a Probe,
    /// The hit.
    pub hit: ProbeHit,
    /// Since the journey's first event, nanoseconds.
    pub since_start_ns: i64,
    /// Its values with their names.
    pub text: String,
}

impl PassRow<'_> {
    /// The hop directly before it.
    pub const fn after(&self) -> Option<Hop> {
        self.probe.asked.after
    }
}

/// The payload of a journey.
#[derive(Clone, Debug, PartialEq)]
pub enum Payload<'a> {
    /// The capture has no payload.
    NotAsked,
    /// Its heads, in order of time.
    Heads(Vec<&'a PayloadHead>),
    /// Payload was captured, but that of this journey is not in memory: the reason, and where to find it.
    Elsewhere(String),
}

/// A custom probe in the heat map: its number of hits over time.
#[derive(Clone, Debug, PartialEq)]
pub struct HitHeat<'a> {
    /// The probe.
    pub probe: &'a Probe,
    /// Hits a column.
    pub cells: Vec<u64>,
    /// Hits over the picture.
    pub hits: u64,
}

/// A signal over the measured stretch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChannelReading {
    /// The channel.
    pub channel: Channel,
    /// Number of samples; for rates, of columns.
    pub n: u64,
    /// The least.
    pub min: f64,
    /// Mean value.
    pub mean: f64,
    /// The largest.
    pub max: f64,
    /// The newest.
    pub last: f64,
}

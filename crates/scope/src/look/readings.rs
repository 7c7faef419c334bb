//! Numbers: measurements, cursors, the trigger.

use super::hits::ChannelReading;
use crate::cursor::CursorId;
use crate::family::Family;
use crate::measure::Over;
use crate::trigger::{Capture, Settings, Standing};
use magscope_core::{Hop, Layer};

/// Percentiles of some times, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Percentiles {
    /// How many times.
    pub n: u64,
    /// The shortest.
    pub min_ns: u64,
    /// Half of them are at most this.
    pub p50_ns: u64,
    /// Ninety per cent.
    pub p90_ns: u64,
    /// Ninety-nine per cent.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Percentiles are exact; else they are from classes an eighth of an octave wide, so off by at most 6.25 %.
    pub exact: bool,
}

/// The time from one hop to the next one that is served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairReading {
    /// Of journeys of these protocols; `None` for the whole journey and for what the kernel added up.
    pub family: Option<Family>,
    /// From here; `None` for the whole journey.
    pub pair: Option<(Hop, Hop)>,
    /// How long it took.
    pub times: Percentiles,
    /// How many a second; `None` where the stretch is too short for that.
    pub per_s: Option<f64>,
    /// Mean difference between one and the next, nanoseconds (RFC 3550 without its smoothing); `None` with fewer than two, or
    /// where single times are no longer kept.
    pub jitter_ns: Option<f64>,
}

impl PairReading {
    /// Which step it is, in words: `dev.xmit→dev.recv`, with the family of protocols where it has one.
    pub fn words(&self, arrow: &str) -> String {
        step_words(self.family, self.pair, arrow)
    }
}

/// A step in words.
pub(crate) fn step_words(family: Option<Family>, pair: Option<(Hop, Hop)>, arrow: &str) -> String {
    match (pair, family) {
        (None, _) => "whole journey".to_owned(),
        (Some((from, to)), None) => format!("{from}{arrow}{to}"),
        (Some((from, to)), Some(family)) => format!("{family} {from}{arrow}{to}"),
    }
}

/// The time from a hop to a custom probe that stands behind it, of the lifelines that are drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct PassReading {
    /// From here.
    pub from: Hop,
    /// To the hit of this probe that saw the same bytes: its name.
    pub probe: String,
    /// How long it took; exact.
    pub times: Percentiles,
    /// How many a second; `None` where the stretch is too short for that.
    pub per_s: Option<f64>,
}

/// Payload through a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerRate {
    /// Which.
    pub layer: Layer,
    /// At which hop of it: the first on the path that saw any.
    pub hop: Hop,
    /// Payload bytes a second; `None` where the stretch is too short for that.
    pub bytes_per_s: Option<f64>,
    /// Events a second, likewise.
    pub per_s: Option<f64>,
    /// A sampler left some out: what came, times what each stands for.
    pub estimated: bool,
    /// The kernel added it up: no events came.
    pub summed: bool,
}

/// What is measured over a stretch of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurements {
    /// What was asked for.
    pub over: Over,
    /// First instant.
    pub from_ns: u64,
    /// Last instant.
    pub to_ns: u64,
    /// The whole journey, then every pair of hops that was seen, in path order.
    pub pairs: Vec<PairReading>,
    /// The pairs of hops that the kernel added up itself, in path order; of all of an interval that reaches into the stretch.
    pub sums: Vec<PairReading>,
    /// From a hop to a custom probe behind it, where every lifeline of the stretch is drawn by itself; else empty.
    pub passes: Vec<PassReading>,
    /// Payload by layer, sender's and receiver's hops apart, in path order.
    pub layers: Vec<LayerRate>,
    /// Journeys that ended.
    pub journeys: u64,
    /// Packets the kernel dropped.
    pub drops: u64,
    /// Byte ranges sent again.
    pub retransmits: u64,
    /// Events that the instrument lost.
    pub lost_events: u64,
    /// Dropped and lost journeys over all of them, 0 to 1; `None` where there were none.
    pub loss_ratio: Option<f64>,
    /// The loadlines that are shown, those that have a sample there.
    pub channels: Vec<ChannelReading>,
}

/// Cursors as they are read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CursorReading {
    /// Where the first is on the picture: 0 the left edge, 1 the right one, beyond both it goes on.
    pub a: f64,
    /// The second.
    pub b: f64,
    /// First, on the time line.
    pub a_ns: u64,
    /// Second.
    pub b_ns: u64,
    /// From the first to the second, nanoseconds.
    pub delta_ns: i64,
    /// Its inverse, a second.
    pub per_s: Option<f64>,
    /// How far the difference can be from the truth where the two stand on events of two clocks, nanoseconds; 0 within one.
    pub half_width_ns: u64,
    /// The one that moves.
    pub chosen: CursorId,
}

/// The trigger as it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct TriggerStatus<'a> {
    /// How it is set.
    pub settings: &'a Settings,
    /// The condition as text, empty where there is none; reads back as the same.
    pub text: String,
    /// Where it stands.
    pub standing: Standing,
    /// How often the condition held.
    pub matches: u64,
    /// How often it fired.
    pub fired: u64,
    /// The windows kept, oldest first.
    pub captures: Vec<&'a Capture>,
    /// The one shown: index into `captures`.
    pub shown: Option<usize>,
    /// Where the shown or the last trigger is on the picture, 0 the left edge and 1 the right one, if that is on it.
    pub at: Option<f64>,
}

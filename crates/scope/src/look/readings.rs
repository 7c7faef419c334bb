//! Numbers: measurements, cursors, the trigger.

use super::hits::ChannelReading;
use crate::cursor::CursorId;
use crate::measure::MeasureSpan;
use crate::trigger::{Capture, Settings, TriggerState};
use magscope_core::blame::Part;
use magscope_core::{Hop, Layer, Proto};

/// Percentiles of some times, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Percentiles {
    /// Count.
    pub n: u64,
    /// The shortest.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// Ninety per cent.
    pub p90_ns: u64,
    /// Ninety-nine per cent.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// True for exact percentiles. Otherwise they are from classes an eighth of an octave wide, with an error
    /// of at most 6.25 %.
    pub exact: bool,
}

/// A time of a journey that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// From its first event to its last.
    Whole,
    /// From one hop to the next one that is served, within one copy.
    Step(Hop, Hop),
    /// From several hops to this one, where single times are no longer available.
    Into(Hop),
    /// In the forwarder of this number on the path, from 1.
    Forwarder(u8),
    /// Between two copies: waiting for retransmission.
    Wait,
}

impl Span {
    /// The hops of a step.
    pub const fn hops(self) -> Option<(Hop, Hop)> {
        match self {
            Self::Step(from, to) => Some((from, to)),
            Self::Whole | Self::Into(_) | Self::Forwarder(_) | Self::Wait => None,
        }
    }

    /// The hop that a step leads to.
    pub fn to(self) -> Option<Hop> {
        match self {
            Self::Step(_, to) | Self::Into(to) => Some(to),
            Self::Whole | Self::Forwarder(_) | Self::Wait => None,
        }
    }
}

/// The times of one span of journeys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairReading {
    /// Protocol of the journeys; `None` for complete journeys if all are of one, and for the kernel's sums.
    pub proto: Option<Proto>,
    /// Of which time.
    pub span: Span,
    /// How long it took.
    pub times: Percentiles,
    /// Rate per second; `None` if the stretch is too short for one.
    pub per_s: Option<f64>,
    /// Mean difference between successive times, nanoseconds (RFC 3550 without its smoothing). `None` with
    /// fewer than two times, or if single times are no longer available.
    pub jitter_ns: Option<f64>,
}

impl PairReading {
    /// Which span it is, in words: `dev.xmit→dev.recv`, with the protocol where it has one.
    pub fn words(&self, arrow: &str) -> String {
        span_words(self.proto, self.span, arrow)
    }
}

/// The name of the hops that times of [`Span::Into`] are from.
pub(crate) const SEVERAL: &str = "several";

/// A span in words.
pub(crate) fn span_words(proto: Option<Proto>, span: Span, arrow: &str) -> String {
    let words = match span {
        Span::Whole => "whole journey".to_owned(),
        Span::Step(from, to) => format!("{from}{arrow}{to}"),
        Span::Into(to) => format!("{SEVERAL}{arrow}{to}"),
        Span::Forwarder(number) => format!("forwarder {number}"),
        // TCP alone sends again.
        Span::Wait => return Part::Retransmission.words().to_owned(),
    };
    proto.map_or_else(|| words.clone(), |proto| format!("{proto} {words}"))
}

/// The time from a hop to a custom probe behind it, over the drawn lifelines.
#[derive(Clone, Debug, PartialEq)]
pub struct PassReading {
    /// The hop.
    pub from: Hop,
    /// Name of the probe whose hit saw the same bytes.
    pub probe: String,
    /// Durations; exact.
    pub times: Percentiles,
    /// Rate per second; `None` if the stretch is too short for one.
    pub per_s: Option<f64>,
}

/// Payload through a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerRate {
    /// The layer.
    pub layer: Layer,
    /// The hop of the payload: the first on the path with any.
    pub hop: Hop,
    /// Payload bytes per second; `None` where the stretch is too short for that.
    pub bytes_per_s: Option<f64>,
    /// Events per second, likewise.
    pub per_s: Option<f64>,
    /// True for an estimate after sampling: the count, times the weight of each event.
    pub estimated: bool,
    /// True for a value from the kernel's sums: no events arrived.
    pub summed: bool,
}

/// Measurements over a stretch of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurements {
    /// The chosen stretch.
    pub over: MeasureSpan,
    /// First instant.
    pub from_ns: u64,
    /// Last instant.
    pub to_ns: u64,
    /// The complete journeys by protocol, then every observed pair of hops in path order.
    pub pairs: Vec<PairReading>,
    /// The pairs of hops from the kernel's sums, in path order. An interval that overlaps the stretch counts
    /// completely.
    pub sums: Vec<PairReading>,
    /// From a hop to a custom probe behind it, if every lifeline of the stretch is drawn singly; else empty.
    pub passes: Vec<PassReading>,
    /// Payload by layer, sender's and receiver's hops separately, in path order.
    pub layers: Vec<LayerRate>,
    /// Journeys that ended.
    pub journeys: u64,
    /// Of these, journeys of protocols beyond the first [`MAX_PROTOCOLS`](crate::MAX_PROTOCOLS), which have no times.
    pub untimed: u64,
    /// True if a filter or a pick chooses among the journeys, but not among the three counts below.
    pub is_narrowed: bool,
    /// Packets the kernel dropped.
    pub drops: u64,
    /// Times that TCP sent again.
    pub retransmits: u64,
    /// Events that the instrument missed.
    pub missed_events: u64,
    /// Fraction of dropped and lost journeys, 0 to 1; `None` without journeys.
    pub loss_ratio: Option<f64>,
    /// The shown loadlines with a sample there.
    pub channels: Vec<ChannelReading>,
}

impl Measurements {
    /// The label of a count that no filter narrows.
    pub fn label_of_all(&self, label: &str) -> String {
        if self.is_narrowed { format!("{label} (all traffic)") } else { label.to_owned() }
    }
}

/// The readings of the cursors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CursorReading {
    /// Position of the first cursor: 0 the left edge, 1 the right edge, linear beyond both.
    pub a: f64,
    /// The second.
    pub b: f64,
    /// First, on the time line.
    pub a_ns: u64,
    /// Second.
    pub b_ns: u64,
    /// Time from the first to the second cursor, nanoseconds.
    pub delta_ns: i64,
    /// Its inverse, per second.
    pub per_s: Option<f64>,
    /// Error bound of the difference if the cursors are on events of two clocks, nanoseconds; 0 within one
    /// clock.
    pub half_width_ns: u64,
    /// The active cursor.
    pub chosen: CursorId,
}

/// State of the trigger.
#[derive(Clone, Debug, PartialEq)]
pub struct TriggerStatus<'a> {
    /// Its settings.
    pub settings: &'a Settings,
    /// The condition as text, empty without one; parsing it gives the same condition.
    pub text: String,
    /// Its phase.
    pub state: TriggerState,
    /// Number of matches of the condition.
    pub matches: u64,
    /// Number of times it fired.
    pub fired: u64,
    /// The captured windows, oldest first.
    pub captures: Vec<&'a Capture>,
    /// The one shown: index into `captures`.
    pub shown: Option<usize>,
    /// Position of the shown or the last trigger on the picture: 0 the left edge, 1 the right edge. `None` off
    /// the picture.
    pub at: Option<f64>,
}

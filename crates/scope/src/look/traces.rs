//! Traces: loadlines, math, XY, persistence.

use crate::channel::{Channel, Unit, Vertical};
use crate::lane::Place;
use crate::math::Math;

/// Range of a signal in one column of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
    /// Last value.
    pub last: f64,
}

/// A signal over the time of the picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Loadline {
    /// The channel.
    pub channel: Channel,
    /// Subject of the signal, in words: `10.0.0.7:41022→10.0.0.9:5432`; empty for all traffic.
    pub of: String,
    /// Unit.
    pub unit: Unit,
    /// One column each, from the left; `None` without a sample. A signal holds its value until the next sample.
    pub columns: Vec<Option<Column>>,
    /// The newest value on the picture.
    pub last: Option<f64>,
    /// Value at the foot of the axis.
    pub foot: f64,
    /// Value at its top, above `foot`.
    pub top: f64,
    /// The user's axis setting.
    pub vertical: Vertical,
    /// The vertical controls move this one.
    pub chosen: bool,
}

impl Loadline {
    /// Position of a value on the axis: 0 the bottom, 1 the top, clamped.
    pub fn y(&self, value: f64) -> f64 {
        let (value, foot, top) = if self.vertical.log {
            let log = |v: f64| v.max(f64::MIN_POSITIVE).ln();
            (log(value), log(self.foot.max(self.top / 1e6)), log(self.top))
        } else {
            (value, self.foot, self.top)
        };
        let y = (value - foot) / (top - foot);
        if y.is_finite() { y.clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// A computed channel over the time of the picture.
#[derive(Clone, Debug, PartialEq)]
pub struct MathTrace {
    /// The computation.
    pub math: Math,
    /// Unit.
    pub unit: Unit,
    /// A column each.
    pub columns: Vec<Option<Column>>,
    /// The newest value on the picture.
    pub last: Option<f64>,
    /// Minimum on the picture.
    pub foot: f64,
    /// Maximum, above `foot`.
    pub top: f64,
}

/// A point of an XY picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct XyPoint {
    /// Value of the first channel.
    pub x: f64,
    /// Value of the second.
    pub y: f64,
    /// Instant.
    pub time_ns: u64,
}

/// One signal against another over the time of the picture.
#[derive(Clone, Debug, PartialEq)]
pub struct XyTrace {
    /// Horizontal channel.
    pub x: Channel,
    /// Up.
    pub y: Channel,
    /// Points in order of time, at most [`XyTrace::MOST`]; more are thinned evenly.
    pub points: Vec<XyPoint>,
    /// Least and largest of the first channel.
    pub x_range: (f64, f64),
    /// Least and largest of the second.
    pub y_range: (f64, f64),
}

impl XyTrace {
    /// Points at most.
    pub const MOST: usize = 2048;
}

/// A lane of the persistence picture.
#[derive(Clone, Debug, PartialEq)]
pub struct PersistenceRow {
    /// The lane.
    pub place: Place,
    /// Number of lifelines at the hop in this column, each with its faded weight.
    pub weights: Vec<f32>,
}

/// Lifelines over each other, each from its start, as a density.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PersistenceMap {
    /// Time at the right edge since the start of each lifeline; the left edge is 0.
    pub span_ns: u64,
    /// The lanes, top first, as in [`crate::Frame::lanes`].
    pub rows: Vec<PersistenceRow>,
    /// The largest weight, for the scale of shades; 0 without any line.
    pub max_weight: f32,
    /// Lifelines that were overlaid.
    pub lifelines: u64,
}

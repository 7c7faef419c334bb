//! The types that a front end reads: one file per view or panel. Everything here is computed on demand from the
//! scope's data. The cost depends on the size of the picture and not on the length of the recording.

mod bands;
mod density;
mod details;
mod facts;
mod frame;
mod hits;
mod panels;
pub(crate) mod readings;
mod tables;
mod traces;

pub use crate::requests::{
    Filtered, MOST_SLOWEST, RequestPanel, RequestPart, SlowRequest, more_services, part_note, slowest_parts,
};
pub use crate::topology::{LegColumn, LegRow, TopologyPanel};
pub use bands::{Forwarding, Leg};
pub use density::{
    Cell, Density, Exemplar, HeatMap, HeatRow, LaneRow, Minimap, MinimapColumn, Point, PointKind, SumMap,
};
pub use facts::{Fact, Tone, facts};
pub use hits::{ChannelReading, HitHeat, HitPoint, HitRow, Hits, Pass, PassRow, Payload, Stop};
pub use magscope_report::{RequestRow, RequestTable};
pub use panels::{Clock, ClockPair, ClockRow, HopRow, LossPanel, LossRow, Wire};
pub use readings::{
    CursorReading, LayerRate, Measurements, PairReading, PassReading, Percentiles, Span, TriggerStatus,
};
pub use tables::{
    EventRow, EventRowKind, EventTable, FlowGroup, FlowOrder, FlowRow, FlowTable, GroupId, JourneyTable,
    SummedFlow,
};
pub use traces::{Column, Loadline, MathTrace, PersistenceMap, PersistenceRow, XyPoint, XyTrace};

/// Maximum number of points of a frame.
pub const MOST_POINTS: usize = 4096;

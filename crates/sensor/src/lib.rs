//! A capture as a sensor for other programs: monitors, schedulers, dashboards.
//!
//! A [`Sensor`] is fed what a [`Walker`](magscope_core::together::Walker) finds, as a report is, and keeps counters and histograms in
//! bounded memory: since its start, and of the last minute by the events' own time. [`Sensed`] is a snapshot of it, plain data, and what
//! other programs read is a pure function of that: a format a file.
//!
//! No number stands alone: what was lost, what a sampler or a filter left out and which hops nothing serves travel with every
//! snapshot and are in every format.
//!
//! # Modules
//!
//! - `sensor`: fed like a report. `sums`: what is added up, since the start and in `ring`, the last minute. `histogram`: log-linear, exact at
//!   the bounds that monitors ask for.
//! - `sensed`: a snapshot. `exposition` (`openmetrics`, `protobuf`), `otlp`, `health`, `supermon`: pure functions of a snapshot.
//! - `sexp`: reads s-expressions from peers, without recursion.
//! - `averages/`: sliding windows of what a client watches, and of nothing else.

pub mod averages;
pub mod exposition;
mod figures;
pub mod health;
mod histogram;
pub mod openmetrics;
pub mod otlp;
pub mod protobuf;
mod ring;
mod sensed;
mod sensor;
mod sexp;
mod sums;
pub mod supermon;

pub use histogram::{LE_NS, Times};
pub use sensed::{
    Began, CauseCount, DropCount, HopState, HopTally, HostSensed, JourneyCount, KernelHop, KernelTally,
    LeftOut, Own, PairTimes, Sensed, Tally, cause_name,
};
pub use sensor::Sensor;
pub use sexp::{BadSexp, Sexp};

//! A capture as a sensor for other programs: monitors, schedulers, dashboards.
//!
//! A [`Sensor`] receives the output of a [`Walker`](magscope_timeline::merged_reader::Walker), as a report does. It
//! stores counters and histograms in bounded memory: since its start, and of the last minute by the events' own
//! time. [`Snapshot`] is a snapshot as plain data, and every format is a pure function of it, in its own file.
//!
//! Every snapshot and format includes losses, samplers, filters and unserved hops, so that each number has its
//! context.
//!
//! # Modules
//!
//! - `sensor`: fed like a report. `sums`: the sums, since the start and in `ring`, the last minute.
//!   `histogram`: log-linear, exact at the exported bounds. `clocks`: relations of several hosts' clocks. `services`: requests.
//! - `in_force`: hops and settings after changes of a capture. `capture_state`: the same of a host, and the gaps of its last minute.
//! - `snapshot`: plain data. `latest`: the newest one, for concurrent readers. `exposition` (`openmetrics`, `protobuf`), `otlp`, `health`, `supermon`: pure
//!   functions of a snapshot.
//! - `sexp`: reads s-expressions from peers, without recursion.
//! - `averages/`: sliding windows of the traffic that clients watch, shared between a capture and its clients.

pub mod averages;
mod capture_state;
mod clocks;
pub mod exposition;
mod figures;
pub mod health;
mod histogram;
mod in_force;
mod latest;
pub mod openmetrics;
pub mod otlp;
pub mod protobuf;
mod ring;
mod sensor;
mod services;
mod sexp;
mod snapshot;
mod sums;
pub mod supermon;

pub use clocks::{ClockHint, ClockRelation};
pub use histogram::{LE_NS, Times};
pub use latest::{LatestSnapshot, Publisher};
pub use sensor::Sensor;
pub use sexp::{BadSexp, Sexp};
pub use snapshot::{
    Began, BreakCount, CauseCount, DropCount, GradeCount, HopState, HopTally, HostSnapshot, JourneyCount,
    KernelHop, KernelTally, LeftOut, PairTimes, SelfUsage, ServiceTally, Snapshot, Tally, cause_name,
};

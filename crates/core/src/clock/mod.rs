//! Clocks: the relations between the clocks of one node, and between those of two.
//!
//! The problem: *the interval of the true time difference of two nodes at any instant, and the assumption
//! behind it.* No estimate is given without that interval.
//!
//! * On a node, events carry `CLOCK_MONOTONIC`, which NTP slews. [`NodeClock`] converts it to **R**, the
//!   unslewed `CLOCK_MONOTONIC_RAW`, and to UTC, with an error bound ([`UtcMap`] is the same for display only,
//!   without bounds).
//! * Between two nodes, [`pair`] computes bounds of `D(a) = R_B − R_A` at the instant `R_A = a` from packets.
//! * Between many nodes, [`graph`] combines the bounds of all pairs into one consistent time line.
//!
//! Instants on a node are `u64` nanoseconds, differences `i64`; arithmetic between them is checked or in
//! `i128`, so that nothing wraps. The method is described in `docs/clock.md`.

pub mod graph;
mod node;
pub mod pair;
mod sample;
mod utc;

pub use node::{NodeClock, Reading};
pub use sample::{Break, ClockSample, Clocksource};
pub use utc::UtcMap;

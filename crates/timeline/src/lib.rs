//! Several hosts on one time line.
//!
//! The problem: *the interval of the true time difference of two nodes at any instant, and the assumption
//! behind it.* No estimate is given without that interval.
//!
//! * On a node, events carry `CLOCK_MONOTONIC`, which NTP slews. [`NodeClock`] converts it to **R**, the
//!   unslewed `CLOCK_MONOTONIC_RAW`, and to UTC, with an error bound ([`UtcMap`] is the same for display only,
//!   without bounds).
//! * Between two nodes, [`pair`] computes bounds of `D(a) = R_B − R_A` at the instant `R_A = a` from packets.
//! * Between many nodes, [`graph`] combines the bounds of all pairs into one consistent time line.
//! * [`align`] does all that for recordings, and [`align::Online`] while packets arrive.
//! * [`join`] joins the halves of journeys of several recordings by wire key.
//! * [`merged_reader`] reads several recordings, closed or growing, through all of it.
//!
//! Instants on a node are `u64` nanoseconds, differences `i64`; arithmetic between them is checked or in
//! `i128`, so that nothing wraps. The method is described in `docs/clock.md`.

pub mod align;
pub mod graph;
pub mod join;
pub mod merged_reader;
mod node;
pub mod pair;
mod utc;

pub use node::{NodeClock, Reading};
pub use utc::UtcMap;

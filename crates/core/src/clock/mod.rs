//! Clocks: how those of one node stand to each other, and those of two.
//!
//! One question is answered here: *what is the interval in which the true time difference of two nodes lies, at any
//! instant, and which assumption does that rest on?* An estimate without that interval is not given.
//!
//! * On a node, events carry `CLOCK_MONOTONIC`, which NTP slews. [`NodeClock`] turns it into **R**, the unslewed
//!   `CLOCK_MONOTONIC_RAW`, and into UTC, with an error bound ([`UtcMap`] is the same for reading only, without bounds).
//! * Between two nodes, [`pair`] turns packets into bounds of `D(a) = R_B − R_A` at the instant `R_A = a`.
//! * Between many nodes, [`graph`] makes one consistent time line of the bounds of all pairs.
//!
//! Instants on a node are `u64` nanoseconds, differences `i64`; arithmetic between them is checked or done in `i128`, so
//! that nothing wraps. The method is described in `docs/clock.md`.

pub mod graph;
mod node;
pub mod pair;
mod sample;
mod utc;

pub use node::{NodeClock, Reading};
pub use sample::{Break, ClockSample, Clocksource};
pub use utc::UtcMap;

//! Two clocks: what packets say about their difference `D(a) = R_B − R_A` at the instant `R_A = a`.
//!
//! A packet gives a [`Constraint`]. **Level 0** makes bounds of them with one assumption, that the clocks drift apart by no more
//! than ρ ([`Drift`]): [`Level0`] as packets come, in constant memory; [`Level0Recorded`] with hindsight, forward and
//! backward.

mod cones;
mod constraint;
mod drift;
mod envelope;
mod judge;
mod level0;
mod recorded;
mod seen;

pub use constraint::{Bounds, Constraint, Counts, Kind, State};
pub use drift::Drift;
pub use level0::{Level0, Outcome};
pub use recorded::{Level0Builder, Level0Recorded};

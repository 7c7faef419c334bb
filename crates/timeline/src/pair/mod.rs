//! Two clocks: bounds of their difference `D(a) = R_B − R_A` at the instant `R_A = a`, from packets.
//!
//! A packet gives a [`Constraint`]. **Level 0** computes bounds with one assumption, that the clocks drift
//! apart by no more than ρ ([`Drift`]). **Level 1** assumes that over some seconds the difference is a straight
//! line to within ε ([`Model`]). **Level 2** adds the nodes' own claims about UTC ([`SourcedBounds::with_external`]).
//!
//! [`Live`] has the first two as packets arrive, in constant memory; [`Recorded`] uses the complete data,
//! forward and backward. [`Level0`] is the first alone.

mod boundary;
mod builder;
mod cones;
mod constraint;
mod difference;
mod drift;
mod envelope;
mod epoch;
mod epoch_detector;
mod external;
mod hint;
mod level0;
mod live;
mod live_hints;
mod model;
mod recorded;
mod seen;
mod trips;

pub use builder::Builder;
pub use constraint::{Bounds, Constraint, Counts, Kind, State};
pub use difference::{Difference, Estimate, Inverse, difference_over};
pub use drift::Drift;
pub use external::{SourcedBounds, UtcReading};
pub use hint::{Hint, smallest_visible_step_ns};
pub use level0::{ClockStep, Level0, Outcome};
pub use live::Live;
pub use model::Model;
pub use recorded::Recorded;

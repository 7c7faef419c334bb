//! Exported journeys against programs that noted each of their own calls.
//!
//! The checker knows addresses, calls and numbered bytes, and nothing of the correlator. Every byte that a program
//! sent is in one journey, every hop is inside its call, and no flow exists that no program had.

mod checker;
mod programs;
mod rows;

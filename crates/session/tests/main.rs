//! Every test of this crate that needs no more than what is public: one program, which is linked once.

mod common;
mod comparison;
mod damage;
mod kill;
mod limits;
mod round_trip;
mod verify;

//! All tests of this crate that use only its public interface: one program, linked once.

mod architectures;
mod changes;
mod common;
mod comparison;
mod damage;
mod kill;
mod limits;
mod round_trip;
mod verify;

//! All tests of this crate that use only its public interface: one program, linked once.

mod bands;
mod cells;
mod custom;
mod made_up;
mod random_keys;
mod screens;
mod sums;
mod views;
mod wild;
mod worlds;

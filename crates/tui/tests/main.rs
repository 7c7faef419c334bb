//! Every test of this crate that needs no more than what is public: one program, which is linked once.

mod cells;
mod custom;
mod made_up;
mod random_keys;
mod rooms;
mod screens;
mod sums;
mod wild;

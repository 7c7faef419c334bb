//! Every test of this crate that needs no more than what is public: one program, which is linked once.

mod app;
mod behaviour;
mod common;
mod pictures;
mod wild;

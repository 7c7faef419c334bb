//! Every test of this crate that needs no more than what is public: one program, which is linked once.

mod dashboard;
mod openmetrics;

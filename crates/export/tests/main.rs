//! Every test of this crate that needs no more than what is public: one program, which is linked once.

mod common;
mod lines_come_back;
mod packets_are_whole;
mod sums_are_exact;
mod tables_come_back;

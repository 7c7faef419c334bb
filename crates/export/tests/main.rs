//! All tests of this crate that use only its public interface: one program, linked once.

mod common;
mod exchanges_add_up;
mod lines_come_back;
mod packets_are_whole;
mod sums_are_exact;
mod tables_come_back;

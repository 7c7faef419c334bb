//! All tests of this crate that use only its public interface: one program, linked once.

mod clean_up;
#[path = "../../core/tests/common/mod.rs"]
mod common;
mod compare;
mod generated;
mod headline;
mod left_out;
mod report_text;
mod stats;

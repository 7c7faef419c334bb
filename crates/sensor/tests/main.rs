//! All tests of this crate that use only its public interface: one program, linked once.

mod dashboard;
mod openmetrics;

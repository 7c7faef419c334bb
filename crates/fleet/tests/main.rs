//! All tests of this crate that use only its public interface: one program, linked once.

mod bus;
mod common;
mod grants;
mod joining;
mod reading;
mod revocation;
mod strangers;

//! All tests of this crate that use only its public interface: one program, linked once.

mod app;
mod bands;
mod behaviour;
mod common;
mod fits;
mod layout;
mod leads;
mod menus;
mod pictures;
mod wild;

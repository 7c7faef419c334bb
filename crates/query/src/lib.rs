//! SQL over recordings: the flat tables of [`magscope_export`], and functions that belong here.
//!
//! A table is read when a query scans it: a thread walks the recordings once and hands rows over a bounded channel, so memory does not
//! grow with the recordings, only with what the query itself must keep, and that has a limit.
//!
//! Without the feature `engine` there is nothing in it.
//!
//! # Modules
//!
//! - `engine`: registers tables and functions, and runs a query. `feed`: turns a pass over recordings into a stream of rows.
//! - `percentile`, `duration`, `between`: functions of our own.
#![cfg(feature = "engine")]

mod between;
mod duration;
mod engine;
mod error;
mod feed;
mod percentile;

pub use engine::{Ended, Engine};
pub use error::QueryError;
pub use feed::{Feed, Out, Want};

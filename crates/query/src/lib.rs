//! SQL over recordings: the flat tables of [`magscope_export`], and additional functions.
//!
//! A scan reads its table on demand: a thread passes over the recordings once and sends rows through a bounded
//! channel. Memory therefore does not grow with the recordings, only with the state of the query, which is
//! limited.
//!
//! Without the feature `engine` the crate is empty.
//!
//! # Modules
//!
//! - `engine`: registers tables and functions, and runs a query. `feed`: turns a pass over recordings into a stream of rows.
//! - `spill`: files for what exceeds the memory of a query.
//! - `percentile`, `duration`, `between`: functions of our own.
#![cfg(feature = "engine")]

mod between;
mod duration;
mod engine;
mod error;
mod feed;
mod percentile;
mod spill;

pub use engine::{Ended, Engine};
pub use error::QueryError;
pub use feed::{Feed, Out, Want};

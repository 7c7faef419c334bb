//! Formats of `MAGNeT` itself: the tab-delimited text of `magnet-parse`, and the two binary layouts in its
//! papers.

mod dump;
mod read;

pub use dump::Dump;
pub use read::{Layout, NotMagnet, Record, Trace, WordSize};

//! What `MAGNeT` itself wrote: the tab-delimited text of `magnet-parse`, and the two binary layouts that its papers print.

mod dump;
mod read;

pub use dump::Dump;
pub use read::{Layout, NotMagnet, Record, Trace, WordSize};

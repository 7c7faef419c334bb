//! Recording: batches to disk.
//!
//! [`Recorder::append`] copies a batch into a queue and returns; a thread of its own, `magscope-record`, makes
//! columns of it, compresses and writes. The queue is bounded in bytes. While it is more than half full, batches go
//! uncompressed if that is faster on this disk; when it is full they are dropped, counted, and the loss is written
//! at its place as soon as there is room. The caller never waits for the disk.

mod known;
mod options;
mod overflow;
mod pace;
mod recorder;
mod segment;
mod shipped;
mod writer;

pub use known::Announcer;
pub use options::{MAX_BATCH_ROWS, OnFullDisk, RecordOptions};
pub use recorder::{Recorder, RecorderStatus, is_being_recorded};
pub(crate) use segment::SegmentTotals;
pub use shipped::Shipped;

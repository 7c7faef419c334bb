//! Recording of batches to disk.
//!
//! [`Recorder::append`] copies a batch into a queue. The thread `magscope-record` converts it into columns,
//! compresses and writes. The queue is bounded in bytes. Above half full, batches stay uncompressed if that is
//! faster on this disk. When full, batches are dropped and counted, and the loss is recorded at its time. The
//! caller never waits for the disk.

mod announced;
mod options;
mod overflow;
mod pace;
mod prefix;
mod recorder;
mod segment;
mod shipped;
mod writer;

pub use announced::Announcer;
pub use options::{MAX_BATCH_ROWS, OnFullDisk, RecordOptions};
pub use prefix::Prefix;
pub use recorder::{Recorder, RecorderStatus, RecorderWatch, is_being_recorded};
pub(crate) use segment::SegmentTotals;
pub use shipped::Shipped;

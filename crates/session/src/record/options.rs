//! How to record.

use super::Shipped;
use crate::error::SessionError;
use crate::meta::Retention;
use magscope_core::Event;
use std::time::Duration;

/// Most rows of a batch of events on disk.
pub const MAX_BATCH_ROWS: usize = 64 << 10;

/// The least size limit: eight segments of a few small batches.
const LEAST_SIZE_LIMIT: u64 = 1 << 20;

/// The least age.
const LEAST_AGE: Duration = Duration::from_secs(1);

/// How to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordOptions {
    /// Most bytes the directory may take; the oldest segments are deleted to stay below. At least 1 MiB.
    pub size_limit_bytes: Option<u64>,
    /// Most segments kept, the one being written included; the oldest are deleted. At least 1.
    pub keep_segments: Option<u32>,
    /// A segment is ended when it has this many bytes; an eighth of the size limit if that is less.
    pub segment_bytes: u64,
    /// A segment is ended when its time is longer than this as well; an eighth of the age if that is less.
    pub segment_time: Option<Duration>,
    /// Segments that ended so long ago are deleted. At least 1 s.
    pub keep_for: Option<Duration>,
    /// Most bytes of events that wait for the disk; what does not fit is dropped and counted. At least 64 KiB.
    pub queue_bytes: usize,
    /// Longest time an event waits for its batch to become full.
    pub flush_interval: Duration,
    /// How far closed segments are kept elsewhere, where they are to be: only those are deleted for their number or age. The size
    /// limit deletes others too, and counts them.
    pub shipped: Option<Shipped>,
    /// What to do when the disk is full.
    pub on_full_disk: OnFullDisk,
}

/// What a recorder does when the disk has no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFullDisk {
    /// The recording ends with an error.
    #[default]
    Fail,
    /// With a size limit the recorder deletes its oldest closed segment. Without one it waits for room. Records that the queue has
    /// no room for meanwhile are lost and counted.
    Wait,
}

impl Default for RecordOptions {
    /// No limits, segments of 256 MiB, a queue of 64 MiB, four batches a second when little happens.
    fn default() -> Self {
        RecordOptions {
            size_limit_bytes: None,
            keep_segments: None,
            segment_bytes: 256 << 20,
            segment_time: None,
            keep_for: None,
            queue_bytes: 64 << 20,
            flush_interval: Duration::from_millis(250),
            shipped: None,
            on_full_disk: OnFullDisk::Fail,
        }
    }
}

impl RecordOptions {
    /// Checks them and fits the parts to each other.
    pub(super) fn fitted(mut self) -> Result<Self, SessionError> {
        if let Some(limit) = self.size_limit_bytes {
            if limit < LEAST_SIZE_LIMIT {
                return Err(SessionError::Options {
                    option: format!("a size limit of {limit} bytes"),
                    because: format!("the least that leaves room for segments is {LEAST_SIZE_LIMIT} bytes"),
                });
            }
            self.segment_bytes = self.segment_bytes.min(limit / 8);
        }
        if self.keep_segments == Some(0) {
            return Err(SessionError::Options {
                option: "no segments kept".into(),
                because: "at least the one being written has to stay: use 1 or more".into(),
            });
        }
        if let Some(keep_for) = self.keep_for {
            if keep_for < LEAST_AGE {
                return Err(SessionError::Options {
                    option: format!("segments kept for {keep_for:?}"),
                    because: format!("the least that leaves something to look at is {LEAST_AGE:?}"),
                });
            }
            self.segment_time = Some(self.segment_time.unwrap_or(Duration::MAX).min(keep_for / 8));
        }
        // One byte less than a file of 2 GiB keeps offsets small for any reader.
        self.segment_bytes = self.segment_bytes.clamp(64 << 10, (2 << 30) - 1);
        self.queue_bytes = self.queue_bytes.max(64 << 10);
        Ok(self)
    }

    pub(super) fn retention(&self) -> Retention {
        Retention {
            size_limit_bytes: self.size_limit_bytes,
            keep_segments: self.keep_segments,
            keep_for_s: self.keep_for.map(|age| age.as_secs()),
        }
    }

    /// Rows after which a batch is written: fewer in small segments, so that several batches make one.
    pub(super) fn batch_rows(&self) -> usize {
        (self.segment_bytes as usize / 2 / size_of::<Event>()).clamp(256, MAX_BATCH_ROWS)
    }

    /// Bytes of rows of the small tables that wait for a flush; more make one.
    pub(super) fn side_bytes(&self) -> usize {
        (self.segment_bytes as usize / 2).min(4 << 20)
    }

    /// Most events that are queued as one piece: the queue has room for several.
    pub(super) fn piece_events(&self) -> usize {
        (self.queue_bytes / 8 / size_of::<Event>()).clamp(64, MAX_BATCH_ROWS)
    }
}

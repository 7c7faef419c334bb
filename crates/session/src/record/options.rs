//! Options of a recording.

use super::Shipped;
use crate::error::SessionError;
use crate::meta::Retention;
use magscope_core::Event;
use std::time::Duration;

/// Maximum number of rows in a batch of events on disk.
pub const MAX_BATCH_ROWS: usize = 64 << 10;

/// Minimum size limit: eight segments of a few small batches.
const LEAST_SIZE_LIMIT: u64 = 1 << 20;

/// The least size of a segment.
const LEAST_SEGMENT: u64 = 64 << 10;

/// The least age.
const LEAST_AGE: Duration = Duration::from_secs(1);

/// Options of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordOptions {
    /// Maximum size of the directory, bytes, at least 1 MiB; the oldest segments are deleted.
    pub size_limit_bytes: Option<u64>,
    /// Maximum number of segments, including the current one, at least 1; the oldest are deleted.
    pub keep_segments: Option<u32>,
    /// Maximum size of a segment, bytes, at most an eighth of the size limit.
    pub segment_bytes: u64,
    /// Maximum duration of a segment, at most an eighth of the age limit.
    pub segment_time: Option<Duration>,
    /// Maximum age of segments after their end, at least 1 s.
    pub keep_for: Option<Duration>,
    /// Maximum size of queued events, bytes, at least 64 KiB; the excess is dropped and counted.
    pub queue_bytes: usize,
    /// Maximum time that an event waits for its batch to fill.
    pub flush_interval: Duration,
    /// Upload progress, if segments are uploaded. The number and age limits then delete only uploaded segments.
    /// The size limit deletes others too, and counts them.
    pub shipped: Option<Shipped>,
    /// Behaviour on a full disk.
    pub on_full_disk: OnFullDisk,
}

/// Behaviour on a full disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFullDisk {
    /// The recording ends with an error.
    #[default]
    Fail,
    /// With a size limit the recorder deletes its oldest closed segment; without one it waits for space.
    /// Records beyond the queue's capacity are lost and counted.
    Wait,
}

impl Default for RecordOptions {
    /// No limits, segments of 256 MiB, a queue of 64 MiB, four batches per second at low load.
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
    /// Validates the options and adjusts dependent ones.
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
        self.segment_bytes = self.segment_bytes.clamp(LEAST_SEGMENT, (2 << 30) - 1);
        self.queue_bytes = self.queue_bytes.max(64 << 10);
        Ok(self)
    }

    /// On a disk that is smaller than the size limit, segments are small enough for several to fit: a full disk gets room by the
    /// oldest one.
    pub(super) fn on_disk_with(mut self, free_bytes: Option<u64>) -> Self {
        if let (OnFullDisk::Wait, Some(_), Some(free)) = (self.on_full_disk, self.size_limit_bytes, free_bytes)
        {
            self.segment_bytes = self.segment_bytes.min(free / 8).max(LEAST_SEGMENT);
        }
        self
    }

    pub(super) fn retention(&self) -> Retention {
        Retention {
            size_limit_bytes: self.size_limit_bytes,
            keep_segments: self.keep_segments,
            keep_for_s: self.keep_for.map(|age| age.as_secs()),
        }
    }

    /// Rows per batch: fewer in small segments, so that a segment has several batches.
    pub(super) fn batch_rows(&self) -> usize {
        (self.segment_bytes as usize / 2 / size_of::<Event>()).clamp(256, MAX_BATCH_ROWS)
    }

    /// Maximum size of pending rows of the small tables, bytes.
    pub(super) fn side_bytes(&self) -> usize {
        (self.segment_bytes as usize / 2).min(4 << 20)
    }

    /// Maximum number of events per queue entry: the queue has room for several.
    pub(super) fn piece_events(&self) -> usize {
        (self.queue_bytes / 8 / size_of::<Event>()).clamp(64, MAX_BATCH_ROWS)
    }
}

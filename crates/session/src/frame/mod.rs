//! Arrow IPC messages, framed by ourselves.
//!
//! A file is a schema message and then record batch messages, each `FF FF FF FF`, length of the metadata (`i32`),
//! metadata (a flatbuffer), body. Arrow's stream reader trusts the lengths it finds and stops at the first damage;
//! here each message is found, checked and read on its own, so that a damaged one costs only itself.

mod check;
mod lz4;
mod read;
mod write;

pub(crate) use read::{Bad, Kind, Reader};
pub(crate) use write::{Codec, Encoder};

/// What every message begins with.
pub(crate) const CONTINUATION: [u8; 4] = [0xff; 4];

/// Bytes before the metadata: the continuation marker and the length.
pub(crate) const PREFIX: u64 = 8;

/// A message of no metadata: the end of the stream.
pub(crate) const END_OF_STREAM: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Longest metadata that is read. Ours are below 4 KiB.
const MAX_METADATA: u64 = 64 << 10;

/// Longest body that is read. A full batch of ours, uncompressed, is below 5 MiB.
const MAX_BODY: u64 = 64 << 20;

/// Most rows of a batch that are read. Ours have at most [`crate::MAX_BATCH_ROWS`].
const MAX_ROWS: u64 = 1 << 20;

/// Most bytes of text in one column of a batch.
const MAX_TEXT: u64 = 16 << 20;

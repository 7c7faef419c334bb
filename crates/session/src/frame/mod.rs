//! Arrow IPC messages, framed by ourselves.
//!
//! A file is a schema message and then record batch messages, each `FF FF FF FF`, length of the metadata (`i32`),
//! metadata (a flatbuffer), body. Arrow's stream reader trusts the lengths it finds and stops at the first damage;
//! here each message is found, checked and read on its own, so that a damaged one costs only itself.

mod check;
mod read;
mod write;

pub(crate) use read::{Bad, Kind, Reader, decode, decode_parts};
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Table;
    use crate::table::{EventColumns, Row, schema};
    use arrow::array::RecordBatch;
    use magscope_core::{Event, Hop};
    use std::fs::File;

    #[test]
    fn every_codec_comes_back() {
        let events: Vec<Event> =
            (0..70_000).map(|i| Event { seq: i, ..Event::at(Hop::IpOut, u64::from(i) * 7) }).collect();
        let mut encoder = Encoder::new().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let mut sizes = Vec::new();
        for codec in [Codec::Zstd, Codec::Plain] {
            let mut columns = EventColumns::default();
            columns.extend(&events);
            let batch = RecordBatch::try_new(schema(Table::Events), columns.take()).unwrap();
            let bytes = encoder.batch(&batch, codec).unwrap();
            assert_eq!(bytes.len() % 8, 0);
            let path = dir.path().join(format!("{codec:?}"));
            std::fs::write(&path, &bytes).unwrap();
            let reader = Reader::new(File::open(&path).unwrap(), Table::Events).unwrap();
            let length = reader.head(0).unwrap().length;
            assert_eq!(length, bytes.len() as u64);
            let mut decoded = Vec::new();
            let batch = reader.batch(0, length, Some(crc32fast::hash(&bytes)), None).unwrap();
            assert_eq!(Event::decode(&batch, &mut decoded), Some(0));
            assert!(decoded == events, "{codec:?}");
            // The same bytes are no batch of another table.
            let other = Reader::new(File::open(&path).unwrap(), Table::Flows).unwrap();
            assert!(matches!(other.head(0), Err(Bad::Refused(_))));
            sizes.push(bytes.len());
        }
        assert!(sizes.is_sorted(), "{sizes:?}");
    }
}

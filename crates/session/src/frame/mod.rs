//! Framing of Arrow IPC messages.
//!
//! A file is a schema message followed by record batch messages. Each has `FF FF FF FF`, the length of the
//! metadata (`i32`), the metadata (a flatbuffer) and the body. Arrow's stream reader trusts the stored lengths
//! and stops at the first damage. This reader finds, checks and decodes each message separately, so that damage
//! affects a single message.

mod check;
mod read;
mod write;

pub(crate) use read::{FrameError, Kind, Reader, decode, decode_parts};
pub(crate) use write::{Codec, Encoder};

/// First bytes of every message.
pub(crate) const CONTINUATION: [u8; 4] = [0xff; 4];

/// Bytes before the metadata: the continuation marker and the length.
pub(crate) const PREFIX: u64 = 8;

/// A message of no metadata: the end of the stream.
pub(crate) const END_OF_STREAM: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Maximum length of metadata. Valid files have less than 4 KiB.
const MAX_METADATA: u64 = 64 << 10;

/// Maximum length of a body. A full uncompressed batch has less than 5 MiB.
const MAX_BODY: u64 = 64 << 20;

/// Maximum number of rows in a batch. Valid batches have at most [`crate::MAX_BATCH_ROWS`].
const MAX_ROWS: u64 = 1 << 20;

/// Maximum size of text in one column of a batch, bytes.
const MAX_TEXT: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Table;
    use crate::table::{EventColumns, Row, schema};
    use arrow::array::RecordBatch;
    use magscope_core::{Event, ExtentKind, Hop};
    use std::fs::File;

    #[test]
    fn every_codec_comes_back() {
        let events: Vec<Event> = (0..70_000)
            .map(|i| Event { extent: ExtentKind::Stream.of(i), ..Event::at(Hop::IpOut, u64::from(i) * 7) })
            .collect();
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
            assert!(matches!(other.head(0), Err(FrameError::Refused(_))));
            sizes.push(bytes.len());
        }
        assert!(sizes.is_sorted(), "{sizes:?}");
    }
}

//! Rebuilds the index from the batches.

use super::segment::SegmentMap;
use super::session::Session;
use crate::error::SessionError;
use crate::frame::{Codec, END_OF_STREAM, Encoder, FrameError};
use crate::layout::Table;
use crate::table::{IndexRow, Row, file_schema, schema};
use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use std::fs::{self, File};
use std::io::Write;

/// Index rows per message.
const ROWS: usize = 4_096;

impl Session {
    /// Rewrites the index of every segment from the readable batches and returns their number. Batches without
    /// a checksum get that of their current bytes. Not for a running recording.
    pub fn rebuild_index(&self) -> Result<u64, SessionError> {
        let inner = self.inner();
        let mut batches = 0;
        for (number, segment) in inner.numbers.iter().zip(&inner.segments) {
            let path = Table::Index.path(&inner.dir, *number);
            let rows = rows(segment);
            batches += rows.len() as u64;
            let bytes = encode(&rows, &inner.meta.session)
                .map_err(|e| SessionError::Encode { path: path.clone(), because: e.to_string() })?;
            let fresh = path.with_extension("arrows.tmp");
            let written =
                File::create(&fresh).and_then(|mut f| f.write_all(&bytes).and_then(|()| f.sync_all()));
            written.map_err(SessionError::io("write", &fresh))?;
            fs::rename(&fresh, &path).map_err(SessionError::io("replace", &path))?;
            super::reseal::reseal_segment(&inner.dir, *number)?;
        }
        Ok(batches)
    }
}

fn rows(segment: &SegmentMap) -> Vec<IndexRow> {
    let mut rows = Vec::new();
    for (table, file) in Table::ALL.into_iter().zip(&segment.tables) {
        let Ok(reader) = file.reader(table) else {
            continue; // Reported at the opening.
        };
        for entry in file.entries() {
            let crc = match entry.crc {
                Some(crc) => Ok(crc),
                None => reader
                    .batch(entry.offset, entry.length, None, None)
                    .and_then(|_| Ok::<_, FrameError>(reader.checksum(entry.offset, entry.length)?)),
            };
            // Undecodable batches are left out: the next reader finds and reports them.
            if let Ok(crc) = crc {
                rows.push(IndexRow {
                    table,
                    offset: entry.offset,
                    length: entry.length,
                    rows: entry.rows,
                    min_ns: entry.min_ns,
                    max_ns: entry.max_ns,
                    hops: entry.hops,
                    crc,
                });
            }
        }
    }
    rows
}

fn encode(rows: &[IndexRow], session: &str) -> Result<Vec<u8>, ArrowError> {
    let mut encoder = Encoder::new()?;
    let mut bytes = encoder.schema(&file_schema(Table::Index, session))?;
    for some in rows.chunks(ROWS) {
        let batch = RecordBatch::try_new(schema(Table::Index), IndexRow::columns(some))?;
        bytes.extend(encoder.batch(&batch, Codec::Plain)?);
    }
    bytes.extend(END_OF_STREAM);
    Ok(bytes)
}

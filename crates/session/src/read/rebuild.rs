//! Writing the index again from what is there.

use super::segment::SegmentMap;
use super::session::Session;
use crate::error::SessionError;
use crate::frame::{Bad, Codec, END_OF_STREAM, Encoder};
use crate::layout::Table;
use crate::table::{IndexRow, Row, file_schema, schema};
use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use std::fs::{self, File};
use std::io::Write;

/// Rows of the index in one message.
const ROWS: usize = 4_096;

impl Session {
    /// Writes the index of every segment anew, from the batches that can be read, and returns how many batches it
    /// now holds. Batches that had no checksum get that of the bytes as they are now. Not for a session that is
    /// being recorded.
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
            continue; // Said when the session was opened.
        };
        for entry in file.entries() {
            let crc = match entry.crc {
                Some(crc) => Ok(crc),
                None => reader
                    .batch(entry.offset, entry.length, None, None)
                    .and_then(|_| Ok::<_, Bad>(reader.checksum(entry.offset, entry.length)?)),
            };
            // One that cannot be decoded is left out: the next reader finds it by searching, and says why.
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

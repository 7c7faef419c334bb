//! The files of the segment that is being written.

use crate::error::SessionError;
use crate::frame::{Codec, END_OF_STREAM, Encoder};
use crate::layout::Table;
use crate::seal::{Seal, Sealed};
use crate::table::{IndexRow, Row, file_schema, schema};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::error::ArrowError;
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A message ready to be written, and what the index will say of it.
pub(super) struct Encoded {
    bytes: Vec<u8>,
    row: IndexRow,
}

impl Encoded {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Time range and hops of the rows.
    pub(super) fn new(
        encoder: &mut Encoder,
        table: Table,
        columns: Vec<ArrayRef>,
        (min_ns, max_ns): (u64, u64),
        hops: u64,
        codec: Codec,
    ) -> Result<Self, ArrowError> {
        let batch = RecordBatch::try_new(schema(table), columns)?;
        let bytes = encoder.batch(&batch, codec)?;
        let row = IndexRow {
            table,
            offset: 0,
            length: bytes.len() as u64,
            rows: batch.num_rows() as u32,
            min_ns,
            max_ns,
            hops,
            crc: crc32fast::hash(&bytes),
        };
        Ok(Encoded { bytes, row })
    }
}

/// One file: opened with its first batch.
struct Stream {
    file: File,
    path: PathBuf,
    length: u64,
    /// Of all bytes.
    checksum: crc32fast::Hasher,
    /// Whether the end of the stream is written.
    has_ended: bool,
}

impl Stream {
    fn create(path: PathBuf, head: &[u8]) -> Result<Self, SessionError> {
        let file = OpenOptions::new().append(true).create_new(true).open(&path);
        let file = file.map_err(SessionError::io("create", &path))?;
        let mut stream = Stream { file, path, length: 0, checksum: crc32fast::Hasher::new(), has_ended: false };
        // A file without a head would be in the way of the next attempt.
        stream.append(head).inspect_err(|_| drop(fs::remove_file(&stream.path)))?;
        Ok(stream)
    }

    /// Writes a whole message with one call, so that it survives the death of the process from then on. When only a
    /// part went in (a full disk), the part is cut off again: the file ends with its last good batch.
    fn append(&mut self, bytes: &[u8]) -> Result<(), SessionError> {
        if let Err(source) = self.file.write_all(bytes) {
            // Should even this fail, the reader finds the partial batch and says so.
            let _ = self.file.set_len(self.length);
            return Err(SessionError::Io { operation: "write", path: self.path.clone(), source });
        }
        self.length += bytes.len() as u64;
        self.checksum.update(bytes);
        Ok(())
    }

    /// An error if the file has no name any more: what is written to it disappears.
    fn check_present(&self) -> Result<(), SessionError> {
        let found = self.file.metadata().map_err(SessionError::io("look at", &self.path))?;
        if found.nlink() == 0 { Err(SessionError::Deleted { path: self.path.clone() }) } else { Ok(()) }
    }
}

/// What a segment has come to; kept for retention and totals.
#[derive(Clone, Debug, Default)]
pub(crate) struct SegmentTotals {
    pub(crate) number: u32,
    pub(crate) bytes: u64,
    pub(crate) events: u64,
    /// Rows of the tables that a loss would count: see [`magscope_core::Batch::numbered`].
    pub(crate) records: u64,
    pub(crate) batches: u64,
    pub(crate) range_ns: Option<(u64, u64)>,
    pub(crate) losses: crate::meta::LossTotals,
}

/// The segment being written.
pub(super) struct Segment {
    dir: PathBuf,
    session: String,
    streams: [Option<Stream>; Table::ALL.len()],
    /// Rows of the index that are not written yet.
    unindexed: Vec<IndexRow>,
    pub(super) totals: SegmentTotals,
}

impl Segment {
    pub(super) fn new(dir: &Path, session: &str, number: u32) -> Self {
        Segment {
            dir: dir.to_path_buf(),
            session: session.to_owned(),
            streams: [const { None }; Table::ALL.len()],
            unindexed: Vec::new(),
            totals: SegmentTotals { number, ..SegmentTotals::default() },
        }
    }

    /// Writes messages in their order, then a message of the index that points at them. A message leaves the queue when it is
    /// written, so that a call after an error goes on where the error was.
    pub(super) fn write(
        &mut self,
        encoder: &mut Encoder,
        messages: &mut VecDeque<Encoded>,
    ) -> Result<(), SessionError> {
        while let Some(Encoded { bytes, row }) = messages.front() {
            let row = *row;
            let offset = self.append(encoder, row.table, bytes)?;
            messages.pop_front();
            if row.table.is_numbered() {
                self.totals.records += u64::from(row.rows);
            }
            if row.table == Table::Events {
                self.totals.events += u64::from(row.rows);
                self.totals.batches += 1;
                let (from, to) = self.totals.range_ns.unwrap_or((row.min_ns, row.max_ns));
                self.totals.range_ns = Some((from.min(row.min_ns), to.max(row.max_ns)));
            }
            self.unindexed.push(IndexRow { offset, ..row });
        }
        if self.unindexed.is_empty() {
            return Ok(());
        }
        let path = Table::Index.path(&self.dir, self.totals.number);
        let batch = RecordBatch::try_new(schema(Table::Index), IndexRow::columns(&self.unindexed));
        let bytes = batch.and_then(|b| encoder.batch(&b, Codec::Plain)).map_err(encode_error(&path))?;
        self.append(encoder, Table::Index, &bytes)?;
        self.unindexed.clear();
        self.check_present()
    }

    /// An error if a file of this segment was deleted.
    pub(super) fn check_present(&self) -> Result<(), SessionError> {
        self.streams.iter().flatten().try_for_each(Stream::check_present)
    }

    /// Appends to one file and returns where.
    fn append(&mut self, encoder: &Encoder, table: Table, bytes: &[u8]) -> Result<u64, SessionError> {
        let slot = &mut self.streams[table.place()];
        let stream = if let Some(stream) = slot {
            stream
        } else {
            let path = table.path(&self.dir, self.totals.number);
            let head = encoder.schema(&file_schema(table, &self.session)).map_err(encode_error(&path))?;
            let stream = Stream::create(path, &head)?;
            self.totals.bytes += head.len() as u64;
            slot.insert(stream)
        };
        let offset = stream.length;
        stream.append(bytes)?;
        self.totals.bytes += bytes.len() as u64;
        Ok(offset)
    }

    /// Ends every stream as Arrow wants it, and seals the segment. A call after an error goes on where the error was.
    pub(super) fn finish(&mut self) -> Result<(), SessionError> {
        for stream in self.streams.iter_mut().flatten().filter(|stream| !stream.has_ended) {
            stream.append(&END_OF_STREAM)?;
            stream.has_ended = true;
            self.totals.bytes += END_OF_STREAM.len() as u64;
        }
        let streams = Table::ALL.into_iter().zip(&self.streams);
        let files = streams.filter_map(|(table, stream)| {
            let stream = stream.as_ref()?;
            Some(Sealed { table, bytes: stream.length, crc: stream.checksum.clone().finalize() })
        });
        let seal = Seal { files: files.collect() }.text();
        if let Some(index) = &mut self.streams[Table::Index.place()] {
            index.append(seal.as_bytes())?;
            self.totals.bytes += seal.len() as u64;
        }
        Ok(())
    }

    /// Waits until the files are on the disk.
    pub(super) fn sync(&self) -> Result<(), SessionError> {
        for stream in self.streams.iter().flatten() {
            stream.file.sync_data().map_err(SessionError::io("sync", &stream.path))?;
        }
        Ok(())
    }
}

pub(super) fn encode_error(path: &Path) -> impl FnOnce(ArrowError) -> SessionError {
    let path = path.to_path_buf();
    move |e| SessionError::Encode { path, because: e.to_string() }
}

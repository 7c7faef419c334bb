//! The files of the current segment.

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

/// An encoded message with its index entry.
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

/// One file, created with its first batch.
struct Stream {
    file: File,
    path: PathBuf,
    length: u64,
    /// Checksum of all bytes.
    checksum: crc32fast::Hasher,
    /// True if the end marker is written.
    has_ended: bool,
}

impl Stream {
    fn create(path: PathBuf, head: &[u8]) -> Result<Self, SessionError> {
        let file = OpenOptions::new().append(true).create_new(true).open(&path);
        let file = file.map_err(SessionError::io("create", &path))?;
        let mut stream = Stream { file, path, length: 0, checksum: crc32fast::Hasher::new(), has_ended: false };
        // A file without a schema would block the next attempt.
        stream.append(head).inspect_err(|_| drop(fs::remove_file(&stream.path)))?;
        Ok(stream)
    }

    /// Writes a message with one call, so that it survives a crash of the process. A partial write (full disk)
    /// is truncated, so that the file ends with a complete batch.
    fn append(&mut self, bytes: &[u8]) -> Result<(), SessionError> {
        if let Err(source) = self.file.write_all(bytes) {
            // If this fails too, the reader finds and reports the partial batch.
            let _ = self.file.set_len(self.length);
            return Err(SessionError::Io { operation: "write", path: self.path.clone(), source });
        }
        self.length += bytes.len() as u64;
        self.checksum.update(bytes);
        Ok(())
    }

    /// An error if the file was unlinked: written data would be lost.
    fn check_present(&self) -> Result<(), SessionError> {
        let found = self.file.metadata().map_err(SessionError::io("look at", &self.path))?;
        if found.nlink() == 0 { Err(SessionError::Deleted { path: self.path.clone() }) } else { Ok(()) }
    }
}

/// Totals of a segment, for retention and the summary.
#[derive(Clone, Debug, Default)]
pub(crate) struct SegmentTotals {
    pub(crate) number: u32,
    pub(crate) bytes: u64,
    pub(crate) events: u64,
    /// Rows of the tables that a loss counts: see [`magscope_core::Batch::numbered`].
    pub(crate) records: u64,
    pub(crate) batches: u64,
    pub(crate) range_ns: Option<(u64, u64)>,
    pub(crate) losses: crate::meta::LossTotals,
}

/// The current segment.
pub(super) struct Segment {
    dir: PathBuf,
    session: String,
    streams: [Option<Stream>; Table::ALL.len()],
    /// Index rows that are not yet written.
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

    /// Writes messages in order, then an index message for them. Written messages leave the queue, so that a
    /// call after an error resumes.
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

    /// Appends to one file and returns the offset.
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

    /// Writes Arrow's end marker to every stream and seals the segment. A call after an error resumes.
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

    /// Waits until the files are durable.
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

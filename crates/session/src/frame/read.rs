//! Decodes messages into rows.

use super::{CONTINUATION, MAX_BODY, MAX_METADATA, PREFIX, check};
use crate::layout::Table;
use crate::table;
use arrow::array::RecordBatch;
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::read_record_batch;
use arrow::ipc::{Message, MessageHeader, MetadataVersion, root_as_message};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Reason for an invalid message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The message is longer than the rest of the file; `rows` is set if the metadata is intact.
    #[error("the batch is cut off")]
    CutOff { rows: Option<u64> },
    #[error("there is no Arrow message")]
    NoMessage,
    #[error("the checksum differs")]
    Checksum,
    #[error("{0}")]
    Refused(&'static str),
    #[error("Arrow could not decode it: {0}")]
    Decode(String),
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// Type of a message.
pub(crate) enum Kind {
    Schema(Vec<u8>),
    Batch { rows: u64 },
    Other,
    End,
}

/// A message's head.
pub(crate) struct Head {
    pub(crate) kind: Kind,
    /// Bytes of the whole message.
    pub(crate) length: u64,
}

/// Which columns to decode; all with `None`.
pub(crate) type Projection<'a> = Option<&'a [usize]>;

/// Reader of a file's messages. The length is read once; later appends are ignored.
pub(crate) struct Reader {
    file: File,
    length: u64,
    table: Table,
}

impl Reader {
    pub(crate) fn new(file: File, table: Table) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Reader { file, length, table })
    }

    /// Restricts the reader to the first bytes of a file.
    pub(crate) fn limited(self, length: u64) -> Self {
        Reader { length: self.length.min(length), ..self }
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    pub(crate) fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, at)
    }

    /// The checksum of a message.
    pub(crate) fn checksum(&self, at: u64, length: u64) -> io::Result<u32> {
        let mut bytes = vec![0; length.min(self.length) as usize];
        self.read_at(&mut bytes, at)?;
        Ok(crc32fast::hash(&bytes))
    }

    /// Reads the head of the message at `at` without its body.
    pub(crate) fn head(&self, at: u64) -> Result<Head, FrameError> {
        let left = self.length.saturating_sub(at);
        if left < PREFIX {
            return Err(FrameError::CutOff { rows: None });
        }
        let mut prefix = [0; PREFIX as usize];
        self.read_at(&mut prefix, at)?;
        let metadata_length = metadata_length(prefix)?;
        if metadata_length == 0 {
            return Ok(Head { kind: Kind::End, length: PREFIX });
        }
        if metadata_length > left - PREFIX {
            return Err(FrameError::CutOff { rows: None });
        }
        let mut metadata = vec![0; metadata_length as usize];
        self.read_at(&mut metadata, at + PREFIX)?;
        let message = parse(&metadata)?;
        let body = body_length(&message)?;
        let batch = message.header_as_record_batch();
        let checked = batch.map(|b| check::metadata(&b, &table::schema(self.table)));
        let rows = checked.transpose().map_err(FrameError::Refused)?;
        let length = PREFIX + metadata_length + body;
        if length > left {
            return Err(FrameError::CutOff { rows });
        }
        let kind = match (message.header_type(), rows) {
            (MessageHeader::Schema, _) => Kind::Schema(metadata),
            (_, Some(rows)) => Kind::Batch { rows },
            _ => Kind::Other,
        };
        Ok(Head { kind, length })
    }

    /// True if the numbers of the file have this machine's byte order, as its schema says; `None` without a schema.
    pub(crate) fn has_own_byte_order(&self) -> Option<bool> {
        let Kind::Schema(metadata) = self.head(0).ok()?.kind else { return None };
        Some(parse(&metadata).ok()?.header_as_schema()?.endianness().equals_to_target_endianness())
    }

    /// Decodes the batch of `length` bytes at `at`, after a check of its checksum if available.
    pub(crate) fn batch(
        &self,
        at: u64,
        length: u64,
        crc: Option<u32>,
        only: Projection<'_>,
    ) -> Result<RecordBatch, FrameError> {
        let end = at
            .checked_add(length)
            .filter(|end| *end <= self.length)
            .ok_or(FrameError::CutOff { rows: None })?;
        if !(PREFIX..=PREFIX + MAX_METADATA + MAX_BODY).contains(&length) || end % 8 != at % 8 {
            return Err(FrameError::NoMessage);
        }
        let mut bytes = MutableBuffer::from_len_zeroed(length as usize);
        self.read_at(&mut bytes, at)?;
        if crc.is_some_and(|crc| crc != crc32fast::hash(&bytes)) {
            return Err(FrameError::Checksum);
        }
        decode(&bytes.into(), self.table, only)
    }
}

/// Decodes one whole message.
pub(crate) fn decode(bytes: &Buffer, of: Table, only: Projection<'_>) -> Result<RecordBatch, FrameError> {
    let prefix = bytes.first_chunk::<8>().ok_or(FrameError::NoMessage)?;
    let metadata_end = (PREFIX + metadata_length(*prefix)?) as usize;
    let metadata = bytes.get(PREFIX as usize..metadata_end).ok_or(FrameError::NoMessage)?;
    decode_parts(metadata, &bytes.slice(metadata_end), table::schema(of), only)
}

/// Decodes a message with separate metadata and body, with the expected columns.
pub(crate) fn decode_parts(
    metadata: &[u8],
    body: &Buffer,
    schema: SchemaRef,
    only: Projection<'_>,
) -> Result<RecordBatch, FrameError> {
    if metadata.len() as u64 > MAX_METADATA {
        return Err(FrameError::NoMessage);
    }
    let message = parse(metadata)?;
    let batch = message.header_as_record_batch().ok_or(FrameError::Refused("it is not a record batch"))?;
    if body_length(&message)? != body.len() as u64 {
        return Err(FrameError::Refused("its length differs from what it says"));
    }
    // Network buffers may be misaligned.
    let moved = (!(body.as_ptr() as usize).is_multiple_of(8)).then(|| Buffer::from(body.as_slice()));
    let body = moved.as_ref().unwrap_or(body);
    let rows = check::metadata(&batch, &schema).map_err(FrameError::Refused)?;
    check::body(&batch, &schema, rows, body).map_err(FrameError::Refused)?;
    // The checks above rule out every known panic of the decoder. As a last defence, a new one must cost a
    // batch, not the program.
    let decoded = catch_unwind(AssertUnwindSafe(|| {
        read_record_batch(body, batch, schema, &HashMap::new(), only, &MetadataVersion::V5)
    }));
    match decoded {
        Ok(Ok(batch)) => Ok(batch),
        Ok(Err(e)) => Err(FrameError::Decode(e.to_string().chars().take(120).collect())),
        Err(_) => Err(FrameError::Decode("the decoder gave up".into())),
    }
}

fn metadata_length(prefix: [u8; 8]) -> Result<u64, FrameError> {
    let [a, b, c, d, length @ ..] = prefix;
    let length = u64::try_from(i32::from_le_bytes(length)).map_err(|_| FrameError::NoMessage)?;
    if [a, b, c, d] != CONTINUATION || length > MAX_METADATA || length % 8 != 0 {
        return Err(FrameError::NoMessage);
    }
    Ok(length)
}

fn parse(metadata: &[u8]) -> Result<Message<'_>, FrameError> {
    let message = root_as_message(metadata).map_err(|_| FrameError::NoMessage)?;
    if message.version() != MetadataVersion::V5 {
        return Err(FrameError::Refused("it has another version of Arrow's metadata"));
    }
    Ok(message)
}

fn body_length(message: &Message<'_>) -> Result<u64, FrameError> {
    let length = u64::try_from(message.bodyLength()).ok().filter(|n| *n <= MAX_BODY && n % 8 == 0);
    length.ok_or(FrameError::Refused("its length is absurd"))
}

//! A batch as one Arrow message, for transfer between hosts and for an agent's memory.
//!
//! A packet is a record batch with one row per table of the batch. The column `message` holds that table's rows
//! as the Arrow message of a recording. One stream therefore carries all tables in order, any Arrow library can
//! read it, and data from the network passes the same checks as files.

use crate::frame::{self, Codec, Encoder, FrameError};
use crate::layout::Table;
use crate::table::{self, Announced, EventColumns, Row};
use arrow::array::{ArrayRef, AsArray, BinaryArray, RecordBatch, StringArray, UInt64Array};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use arrow::error::ArrowError;
use magscope_core::{Batch, Flow, Task};
use std::sync::{Arc, LazyLock};

/// Minimum number of rows for compression.
const WORTH_COMPRESSING: usize = 64;

/// The columns of a packet.
static PACKET: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new("number", DataType::UInt64, false),
        Field::new("records", DataType::UInt64, false),
        Field::new("watermark_ns", DataType::UInt64, false),
        Field::new("late", DataType::UInt64, false),
        Field::new("table", DataType::Utf8, false),
        Field::new("message", DataType::Binary, false),
    ]))
});

/// Position of a packet in its stream, for a later resume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Sequence number.
    pub number: u64,
    /// Number of records up to the packet's end, including those reported as lost.
    pub records: u64,
}

/// Reason for an invalid packet.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadPacket(String);

impl From<FrameError> for BadPacket {
    fn from(bad: FrameError) -> Self {
        BadPacket(bad.to_string())
    }
}

/// Encodes batches as messages; reuses the compressor's memory.
///
/// Every message is complete, as in a file: a prefix of eight bytes that ends with the length of the metadata,
/// then the metadata, then the body.
pub struct Packer {
    encoder: Encoder,
    events: EventColumns,
}

impl Packer {
    /// A packer with compression for larger messages.
    ///
    /// # Errors
    /// Arrow lacks the compression of sessions.
    pub fn new() -> Result<Self, ArrowError> {
        Ok(Packer { encoder: Encoder::new()?, events: EventColumns::default() })
    }

    /// The first message of a stream of packets, or of one table's rows.
    ///
    /// # Errors
    /// Arrow's error.
    pub fn schema(&self, of: Option<Table>) -> Result<Vec<u8>, ArrowError> {
        self.encoder.schema(&of.map_or_else(|| PACKET.clone(), table::schema))
    }

    /// The first message of a stream of rows with other columns.
    ///
    /// # Errors
    /// Arrow's error.
    pub fn schema_of(&self, schema: &Schema) -> Result<Vec<u8>, ArrowError> {
        self.encoder.schema(schema)
    }

    /// Rows of such a stream, uncompressed. Dictionary columns are not supported.
    ///
    /// # Errors
    /// Arrow's error.
    pub fn message_of(&mut self, rows: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
        self.encoder.batch(rows, Codec::Plain)
    }

    /// Encodes a batch as a packet.
    ///
    /// # Errors
    /// Arrow's error.
    pub fn packet(&mut self, place: Place, batch: &Batch) -> Result<Vec<u8>, ArrowError> {
        let mut messages: Vec<(Table, Vec<u8>)> = Vec::new();
        // Announcements precede the events that refer to them, as in a session.
        for table in Table::ALL.into_iter().filter(|table| *table != Table::Events).chain([Table::Events]) {
            if let Some(message) = self.rows(table, batch)? {
                messages.push((table, message));
            }
        }
        // A batch without rows still carries its watermark.
        if messages.is_empty() {
            messages.push((Table::Index, Vec::new()));
        }
        let all = |value: u64| Arc::new(UInt64Array::from_value(value, messages.len())) as ArrayRef;
        let columns: Vec<ArrayRef> = vec![
            all(place.number),
            all(place.records),
            all(batch.watermark_ns),
            all(batch.late),
            Arc::new(StringArray::from_iter_values(messages.iter().map(|(table, _)| table.name()))),
            Arc::new(BinaryArray::from_iter_values(messages.iter().map(|(_, message)| message))),
        ];
        let batch = RecordBatch::try_new(PACKET.clone(), columns)?;
        self.encoder.batch(&batch, Codec::Plain)
    }

    /// A table's rows of a batch; `None` if empty.
    ///
    /// # Errors
    /// Arrow's error.
    pub fn rows(&mut self, of: Table, batch: &Batch) -> Result<Option<Vec<u8>>, ArrowError> {
        let ts_ns = batch.events.first().map_or(batch.watermark_ns, |event| event.time_ns);
        match of {
            Table::Events if batch.events.is_empty() => Ok(None),
            Table::Events => {
                self.events.extend(&batch.events);
                let columns = self.events.take();
                self.message(of, columns, batch.events.len()).map(Some)
            }
            Table::Flows => self.side(&announced(&batch.flows, ts_ns)),
            Table::Tasks => self.side(&announced(&batch.tasks, ts_ns)),
            Table::Tcp => self.side(&batch.tcp),
            Table::Losses => self.side(&batch.losses),
            Table::Clock => self.side(&batch.clock),
            Table::Changes => self.side(&batch.changes),
            Table::Counts => self.side(&batch.counts),
            Table::Hits => self.side(&batch.hits),
            Table::Heads => self.side(&batch.heads),
            Table::Synthesis => self.side(&batch.synthesis),
            Table::Names => self.side(&batch.names),
            Table::Index => Ok(None),
        }
    }

    fn side<R: Row>(&mut self, rows: &[R]) -> Result<Option<Vec<u8>>, ArrowError> {
        if rows.is_empty() {
            return Ok(None);
        }
        self.message(R::TABLE, R::columns(rows), rows.len()).map(Some)
    }

    fn message(&mut self, of: Table, columns: Vec<ArrayRef>, rows: usize) -> Result<Vec<u8>, ArrowError> {
        let batch = RecordBatch::try_new(table::schema(of), columns)?;
        let codec = if rows > WORTH_COMPRESSING { Codec::Zstd } else { Codec::Plain };
        self.encoder.batch(&batch, codec)
    }
}

fn announced<T: Clone>(all: &[T], ts_ns: u64) -> Vec<Announced<T>> {
    all.iter().map(|what| Announced { ts_ns, what: what.clone() }).collect()
}

/// Clears `batch`, fills it from a packet's metadata and body, and returns the packet's position. The input is
/// untrusted.
///
/// # Errors
/// [`BadPacket`] with the reason; the batch is then empty.
pub fn unpack(metadata: &[u8], body: &Buffer, batch: &mut Batch) -> Result<Place, BadPacket> {
    batch.clear();
    let unpacked = unpack_rows(metadata, body, batch);
    if unpacked.is_err() {
        batch.clear();
    }
    unpacked
}

fn unpack_rows(metadata: &[u8], body: &Buffer, batch: &mut Batch) -> Result<Place, BadPacket> {
    let rows = frame::decode_parts(metadata, body, PACKET.clone(), None)?;
    let refused = || BadPacket("it has no rows, or other columns than a packet".to_owned());
    let numbers = |column: usize| rows.column(column).as_primitive_opt::<UInt64Type>();
    let first = |column: usize| numbers(column).and_then(|numbers| numbers.values().first().copied());
    let place = Place { number: first(0).ok_or_else(refused)?, records: first(1).ok_or_else(refused)? };
    batch.watermark_ns = first(2).ok_or_else(refused)?;
    batch.late = first(3).ok_or_else(refused)?;
    let tables = rows.column(4).as_string_opt::<i32>().ok_or_else(refused)?;
    let messages = rows.column(5).as_binary_opt::<i32>().ok_or_else(refused)?;
    for (table, message) in tables.iter().zip(messages.iter()) {
        let (table, message) = (table.unwrap_or_default(), message.unwrap_or_default());
        let found = Table::ALL.into_iter().find(|found| found.name() == table);
        // An unknown table comes from a newer agent.
        let Some(table) = found.filter(|table| *table != Table::Index) else { continue };
        let rows = frame::decode(&Buffer::from(message), table, None)?;
        append(table, &rows, batch)?;
    }
    Ok(place)
}

fn append(table: Table, rows: &RecordBatch, batch: &mut Batch) -> Result<(), BadPacket> {
    fn read<R: Row>(rows: &RecordBatch, out: &mut Vec<R>) -> Result<(), BadPacket> {
        match R::decode(rows, out) {
            Some(0) => Ok(()),
            Some(unknown) => {
                Err(BadPacket(format!("{unknown} rows of {} are of an unknown kind", R::TABLE.name())))
            }
            None => Err(BadPacket(format!("its {} have other columns", R::TABLE.name()))),
        }
    }
    match table {
        Table::Events => read(rows, &mut batch.events),
        Table::Flows => {
            let mut flows: Vec<Announced<Flow>> = Vec::new();
            read(rows, &mut flows)?;
            batch.flows.extend(flows.into_iter().map(|flow| flow.what));
            Ok(())
        }
        Table::Tasks => {
            let mut tasks: Vec<Announced<Task>> = Vec::new();
            read(rows, &mut tasks)?;
            batch.tasks.extend(tasks.into_iter().map(|task| task.what));
            Ok(())
        }
        Table::Tcp => read(rows, &mut batch.tcp),
        Table::Losses => read(rows, &mut batch.losses),
        Table::Clock => read(rows, &mut batch.clock),
        Table::Changes => read(rows, &mut batch.changes),
        Table::Counts => read(rows, &mut batch.counts),
        Table::Hits => read(rows, &mut batch.hits),
        Table::Heads => read(rows, &mut batch.heads),
        Table::Synthesis => read(rows, &mut batch.synthesis),
        Table::Names => read(rows, &mut batch.names),
        Table::Index => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::synthesis::{Sum, Synthesis};
    use magscope_core::{Event, ExtentKind, FlowId, Hop, Loss, LossCause, TcpSample};

    /// Metadata and body of a message.
    fn parts(message: &[u8]) -> (&[u8], Buffer) {
        let length = u32::from_le_bytes(message[4..8].try_into().unwrap()) as usize;
        (&message[8..8 + length], Buffer::from(&message[8 + length..]))
    }

    fn place(number: u64) -> Place {
        Place { number, records: number * 5_000 }
    }

    fn batch() -> Batch {
        let event = |i: u32| Event {
            extent: ExtentKind::Stream.of(i),
            flow: FlowId(7),
            record: i,
            ..Event::at(Hop::IpOut, u64::from(i) * 7)
        };
        Batch {
            events: (0..5_000).map(event).collect(),
            tasks: vec![Task { tgid: 1, tid: 2, uid: 3, cgroup: 4, comm: "iperf3".into() }],
            tcp: vec![TcpSample { cwnd: 10, time_ns: 5, ..TcpSample::default() }],
            synthesis: vec![Synthesis {
                from_ns: 1,
                to_ns: 2,
                hop: Hop::IpOut,
                of: Sum::Flow(FlowId(7)),
                n: 3,
                sum: 4,
                buckets: vec![(5, 6)],
            }],
            losses: vec![Loss { cpu: 1, from_ns: 2, to_ns: 3, count: 4, cause: LossCause::RingFull }],
            watermark_ns: 35_000,
            late: 2,
            ..Batch::default()
        }
    }

    #[test]
    fn a_batch_comes_back_as_it_was() {
        let mut packer = Packer::new().unwrap();
        let sent = batch();
        let message = packer.packet(place(42), &sent).unwrap();
        assert!(message.len() < 5_000 * 30, "{} bytes", message.len());
        let (metadata, body) = parts(&message);
        let mut got = Batch { late: 99, ..Batch::default() };
        assert_eq!(unpack(metadata, &body, &mut got).unwrap(), place(42));
        assert_eq!(format!("{got:?}"), format!("{sent:?}"));
        // An empty batch still carries its watermark.
        let message = packer.packet(place(43), &Batch { watermark_ns: 9, ..Batch::default() }).unwrap();
        let (metadata, body) = parts(&message);
        assert_eq!(unpack(metadata, &body, &mut got).unwrap(), place(43));
        assert!(got.is_empty() && got.watermark_ns == 9);
    }

    #[test]
    fn bytes_that_were_changed_are_refused_or_read_and_nothing_else() {
        let sent = Batch { events: batch().events[..50].to_vec(), ..batch() };
        let message = Packer::new().unwrap().packet(place(1), &sent).unwrap();
        let (mut got, mut refused) = (Batch::default(), 0);
        for at in 8..message.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bad = message.clone();
                bad[at] ^= flip;
                let (metadata, body) = parts(&bad);
                if unpack(metadata, &body, &mut got).is_err() {
                    assert!(got.is_empty());
                    refused += 1;
                }
            }
        }
        assert!(refused > message.len() / 4, "{refused} of {} bytes", message.len());
        for cut in 0..message.len() / 8 {
            let (metadata, body) = parts(&message);
            // The end of the metadata can be padding.
            let _ = unpack(&metadata[..metadata.len().min(cut)], &body, &mut got);
            assert!(unpack(metadata, &body.slice_with_length(0, cut), &mut got).is_err());
        }
    }
}

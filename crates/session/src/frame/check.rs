//! Checks a record batch message before Arrow decodes it.
//!
//! Arrow's decoder slices by the stored offsets and allocates by the stored lengths (a compressed buffer
//! contains its decompressed size in eight bytes). All of them come from an untrusted file. Each is therefore
//! checked against the maximum for the table's columns and the stated number of rows.

use super::{MAX_ROWS, MAX_TEXT};
use arrow::datatypes::{DataType, Schema};
use arrow::ipc::{Buffer, CompressionType, RecordBatch};

/// Room for padding to 8 or 64 bytes.
const PADDING: u64 = 64;

/// Why a batch is not handed to the decoder.
type Refusal = &'static str;

/// Rows of the batch, if its metadata fit the columns.
pub(super) fn metadata(batch: &RecordBatch<'_>, schema: &Schema) -> Result<u64, Refusal> {
    let rows =
        u64::try_from(batch.length()).ok().filter(|n| *n <= MAX_ROWS).ok_or("its row count is absurd")?;
    let nodes = batch.nodes().ok_or("it has no columns")?;
    if nodes.len() != schema.fields().len() {
        return Err("it has other columns than its table");
    }
    if nodes.iter().any(|n| n.length() != batch.length() || n.null_count() != 0) {
        return Err("its columns differ in length");
    }
    let expected: usize = schema.fields().iter().map(|f| buffers_of(f.data_type())).sum();
    if batch.buffers().is_none_or(|b| b.len() != expected) {
        return Err("it has other buffers than its table");
    }
    if batch.variadicBufferCounts().is_some_and(|v| !v.is_empty()) {
        return Err("it has buffers its table has no use for");
    }
    Ok(rows)
}

/// Checks every buffer against the body and the maximum of its column.
pub(super) fn body(batch: &RecordBatch<'_>, schema: &Schema, rows: u64, body: &[u8]) -> Result<(), Refusal> {
    let codec = batch.compression().map(|c| c.codec());
    // LZ4 is rejected too: its decoder continues to the end of the frame, whatever the stated length.
    if codec.is_some_and(|c| c != CompressionType::ZSTD) {
        return Err("its compression is none that a recorder uses");
    }
    let buffers = batch.buffers().ok_or("it has no buffers")?;
    let mut buffers = buffers.iter();
    let mut used = 0;
    for field in schema.fields() {
        let kind = field.data_type();
        let mut lengths = [rows.div_ceil(8), 0, 0];
        if is_text(kind) {
            lengths[1] = (rows + 1) * 4;
            lengths[2] = MAX_TEXT;
        } else {
            lengths[1] =
                rows * kind.primitive_width().ok_or("its table has a column this reader cannot read")? as u64;
        }
        for (at, most) in lengths[..buffers_of(kind)].iter().enumerate() {
            let next = buffers.next().ok_or("it lacks a buffer")?;
            // The decoder reads the offsets of texts as 4-byte integers and panics on another length.
            let unit = if is_text(kind) && at == 1 { 4 } else { 1 };
            used = used.max(buffer(next, codec.is_some(), most + PADDING, unit, body)?);
        }
    }
    // A damaged length must not include the following messages.
    if body.len() as u64 > used + PADDING {
        return Err("its body is longer than its buffers");
    }
    Ok(())
}

fn buffers_of(kind: &DataType) -> usize {
    if is_text(kind) { 3 } else { 2 }
}

/// True for variable-length values, which have an offset buffer.
fn is_text(kind: &DataType) -> bool {
    matches!(kind, DataType::Utf8 | DataType::Binary)
}

/// Checks one buffer and returns its end in the body.
fn buffer(buffer: &Buffer, compressed: bool, most: u64, unit: u64, body: &[u8]) -> Result<u64, Refusal> {
    let outside = "a buffer reaches beyond its body";
    let offset = usize::try_from(buffer.offset()).map_err(|_| outside)?;
    // The decoder reads numbers in place and panics on misalignment.
    if offset % 8 != 0 {
        return Err("a buffer does not begin at a multiple of eight bytes");
    }
    let length = usize::try_from(buffer.length()).map_err(|_| outside)?;
    let end = offset.checked_add(length).ok_or(outside)?;
    let bytes = body.get(offset..end).ok_or(outside)?;
    let end = end as u64;
    let fits = |length: u64| match length {
        _ if length > most => Err("a buffer is longer than its column"),
        _ if !length.is_multiple_of(unit) => Err("a buffer ends amid a number"),
        _ => Ok(end),
    };
    if !compressed || bytes.is_empty() {
        return fits(bytes.len() as u64);
    }
    let (prefix, compressed) = bytes.split_first_chunk::<8>().ok_or("a compressed buffer has no length")?;
    match i64::from_le_bytes(*prefix) {
        -1 => fits(compressed.len() as u64), // stored uncompressed
        length @ 0.. => fits(length as u64),
        _ => Err("a compressed buffer has a length below zero"),
    }
}

//! The index: one row per batch of the other tables.

use super::{Row, column, field, values};
use crate::layout::Table;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, UInt8Type, UInt32Type, UInt64Type};

/// Position and content of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexRow {
    pub(crate) table: Table,
    /// Offset of the message in the file.
    pub(crate) offset: u64,
    /// Size of the message including its prefix, bytes.
    pub(crate) length: u64,
    pub(crate) rows: u32,
    /// Earliest and latest time of its rows.
    pub(crate) min_ns: u64,
    pub(crate) max_ns: u64,
    /// One bit per hop number; 0 for other tables than events.
    pub(crate) hops: u64,
    /// CRC-32 (IEEE) of the whole message.
    pub(crate) crc: u32,
}

impl IndexRow {
    /// CRC-32 of the row itself: a damaged index must not make valid batches look damaged.
    fn own_crc(&self) -> u32 {
        let mut crc = crc32fast::Hasher::new();
        crc.update(&[self.table as u8]);
        for long in [self.offset, self.length, u64::from(self.rows), self.min_ns, self.max_ns, self.hops] {
            crc.update(&long.to_le_bytes());
        }
        crc.update(&self.crc.to_le_bytes());
        crc.finalize()
    }
}

impl Row for IndexRow {
    const TABLE: Table = Table::Index;

    fn fields() -> Vec<Field> {
        use DataType::{Int64, UInt8, UInt32, UInt64};
        vec![
            field("table", UInt8),
            field("offset", UInt64),
            field("length", UInt64),
            field("rows", UInt32),
            field("min_ns", Int64),
            field("max_ns", Int64),
            field("hops", UInt64),
            field("crc32", UInt32),
            field("row_crc32", UInt32),
        ]
    }

    fn columns(rows: &[Self]) -> Vec<ArrayRef> {
        vec![
            column::<UInt8Type>(rows.iter().map(|r| r.table as u8)),
            column::<UInt64Type>(rows.iter().map(|r| r.offset)),
            column::<UInt64Type>(rows.iter().map(|r| r.length)),
            column::<UInt32Type>(rows.iter().map(|r| r.rows)),
            column::<Int64Type>(rows.iter().map(|r| r.min_ns as i64)),
            column::<Int64Type>(rows.iter().map(|r| r.max_ns as i64)),
            column::<UInt64Type>(rows.iter().map(|r| r.hops)),
            column::<UInt32Type>(rows.iter().map(|r| r.crc)),
            column::<UInt32Type>(rows.iter().map(Self::own_crc)),
        ]
    }

    fn decode(batch: &RecordBatch, out: &mut Vec<Self>) -> Option<u64> {
        let table = values::<UInt8Type>(batch, 0)?;
        let offset = values::<UInt64Type>(batch, 1)?;
        let length = values::<UInt64Type>(batch, 2)?;
        let rows = values::<UInt32Type>(batch, 3)?;
        let min_ns = values::<Int64Type>(batch, 4)?;
        let max_ns = values::<Int64Type>(batch, 5)?;
        let hops = values::<UInt64Type>(batch, 6)?;
        let crc = values::<UInt32Type>(batch, 7)?;
        let own = values::<UInt32Type>(batch, 8)?;
        let mut wrong = 0;
        for i in 0..batch.num_rows() {
            let row = Table::from_id(table[i]).map(|table| IndexRow {
                table,
                offset: offset[i],
                length: length[i],
                rows: rows[i],
                min_ns: min_ns[i] as u64,
                max_ns: max_ns[i] as u64,
                hops: hops[i],
                crc: crc[i],
            });
            match row {
                Some(row) if row.own_crc() == own[i] => out.push(row),
                _ => wrong += 1,
            }
        }
        Some(wrong)
    }

    fn time_ns(&self) -> u64 {
        self.min_ns
    }
}

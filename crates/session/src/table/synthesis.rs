//! The table of the kernel's sums.

use super::custom::binary;
use super::{Row, column, field, values};
use crate::layout::Table;
use arrow::array::{ArrayRef, BinaryArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, UInt8Type, UInt64Type};
use magscope_core::Hop;
use magscope_core::synthesis::{Sum, Synthesis};
use std::sync::Arc;

/// Size of a bucket: its number and its count.
const BUCKET_BYTES: usize = 6;

fn packed(buckets: &[(u16, u32)]) -> Vec<u8> {
    buckets.iter().flat_map(|(bucket, n)| bucket.to_le_bytes().into_iter().chain(n.to_le_bytes())).collect()
}

/// `None` for invalid data.
fn unpacked(bytes: &[u8]) -> Option<Vec<(u16, u32)>> {
    let (buckets, rest) = bytes.as_chunks::<BUCKET_BYTES>();
    let bucket = |[a, b, c, d, e, f]: &[u8; BUCKET_BYTES]| {
        (u16::from_le_bytes([*a, *b]), u32::from_le_bytes([*c, *d, *e, *f]))
    };
    rest.is_empty().then(|| buckets.iter().map(bucket).collect())
}

impl Row for Synthesis {
    const TABLE: Table = Table::Synthesis;

    fn fields() -> Vec<Field> {
        use DataType::{Binary, Int64, UInt8, UInt64};
        vec![
            field("from_ns", Int64),
            field("to_ns", Int64),
            field("hop", UInt8),
            field("kind", UInt8),
            field("id", UInt64),
            field("n", UInt64),
            field("sum", UInt64),
            field("buckets", Binary),
        ]
    }

    fn columns(rows: &[Self]) -> Vec<ArrayRef> {
        vec![
            column::<Int64Type>(rows.iter().map(|r| r.from_ns as i64)),
            column::<Int64Type>(rows.iter().map(|r| r.to_ns as i64)),
            column::<UInt8Type>(rows.iter().map(|r| r.hop.id())),
            column::<UInt8Type>(rows.iter().map(|r| r.of.numbers().0)),
            column::<UInt64Type>(rows.iter().map(|r| r.of.numbers().1)),
            column::<UInt64Type>(rows.iter().map(|r| r.n)),
            column::<UInt64Type>(rows.iter().map(|r| r.sum)),
            Arc::new(BinaryArray::from_iter_values(rows.iter().map(|r| packed(&r.buckets)))),
        ]
    }

    fn decode(batch: &RecordBatch, out: &mut Vec<Self>) -> Option<u64> {
        let from_ns = values::<Int64Type>(batch, 0)?;
        let to_ns = values::<Int64Type>(batch, 1)?;
        let hop = values::<UInt8Type>(batch, 2)?;
        let kind = values::<UInt8Type>(batch, 3)?;
        let id = values::<UInt64Type>(batch, 4)?;
        let n = values::<UInt64Type>(batch, 5)?;
        let sum = values::<UInt64Type>(batch, 6)?;
        let buckets = binary(batch, 7)?;
        let mut wrong = 0;
        for i in 0..batch.num_rows() {
            let (hop, of) = (Hop::from_id(hop[i]), Sum::from_numbers(kind[i], id[i]));
            let (Some(hop), Some(of), Some(buckets)) = (hop, of, unpacked(buckets.value(i))) else {
                wrong += 1;
                continue;
            };
            let (from_ns, to_ns) = (from_ns[i] as u64, to_ns[i] as u64);
            out.push(Synthesis { from_ns, to_ns, hop, of, n: n[i], sum: sum[i], buckets });
        }
        Some(wrong)
    }

    fn time_ns(&self) -> u64 {
        self.to_ns
    }
}

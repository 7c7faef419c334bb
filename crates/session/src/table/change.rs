//! The tables of setting changes and of the kernel's hop counters.

use super::side::{strings, text};
use super::{Row, column, field, values};
use crate::layout::Table;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, UInt8Type, UInt64Type};
use magscope_core::foreign;
use magscope_core::{Change, Hop, HopCount};

impl Row for Change {
    const TABLE: Table = Table::Changes;

    fn fields() -> Vec<Field> {
        use DataType::{Int64, Utf8};
        vec![field("from_ns", Int64), field("to_ns", Int64), field("what", Utf8)]
    }

    fn columns(rows: &[Self]) -> Vec<ArrayRef> {
        vec![
            column::<Int64Type>(rows.iter().map(|r| r.from_ns as i64)),
            column::<Int64Type>(rows.iter().map(|r| r.to_ns as i64)),
            text(rows.iter().map(|r| r.what.as_str())),
        ]
    }

    fn decode(batch: &RecordBatch, out: &mut Vec<Self>) -> Option<u64> {
        let from_ns = values::<Int64Type>(batch, 0)?;
        let to_ns = values::<Int64Type>(batch, 1)?;
        let what = strings(batch, 2)?;
        for i in 0..batch.num_rows() {
            let what = foreign::clean(what.value(i)).into_owned();
            out.push(Change { from_ns: from_ns[i] as u64, to_ns: to_ns[i] as u64, what });
        }
        Some(0)
    }

    /// Its beginning: a reader needs the change before the events that it may concern.
    fn time_ns(&self) -> u64 {
        self.from_ns
    }
}

impl Row for HopCount {
    const TABLE: Table = Table::Counts;

    fn fields() -> Vec<Field> {
        use DataType::{Int64, UInt8, UInt64};
        vec![
            field("ts_ns", Int64),
            field("hop", UInt8),
            field("kept", UInt64),
            field("filtered", UInt64),
            field("undecided", UInt64),
            field("sampled", UInt64),
            field("synthesised", UInt64),
        ]
    }

    fn columns(rows: &[Self]) -> Vec<ArrayRef> {
        vec![
            column::<Int64Type>(rows.iter().map(|r| r.time_ns as i64)),
            column::<UInt8Type>(rows.iter().map(|r| r.hop.id())),
            column::<UInt64Type>(rows.iter().map(|r| r.kept)),
            column::<UInt64Type>(rows.iter().map(|r| r.filtered)),
            column::<UInt64Type>(rows.iter().map(|r| r.undecided)),
            column::<UInt64Type>(rows.iter().map(|r| r.sampled)),
            column::<UInt64Type>(rows.iter().map(|r| r.synthesised)),
        ]
    }

    fn decode(batch: &RecordBatch, out: &mut Vec<Self>) -> Option<u64> {
        let ts_ns = values::<Int64Type>(batch, 0)?;
        let hop = values::<UInt8Type>(batch, 1)?;
        let recorded = values::<UInt64Type>(batch, 2)?;
        let filtered = values::<UInt64Type>(batch, 3)?;
        let undecided = values::<UInt64Type>(batch, 4)?;
        let sampled = values::<UInt64Type>(batch, 5)?;
        let synthesised = values::<UInt64Type>(batch, 6)?;
        let mut wrong = 0;
        for i in 0..batch.num_rows() {
            let Some(hop) = Hop::from_id(hop[i]) else {
                wrong += 1;
                continue;
            };
            out.push(HopCount {
                time_ns: ts_ns[i] as u64,
                hop,
                kept: recorded[i],
                filtered: filtered[i],
                undecided: undecided[i],
                sampled: sampled[i],
                synthesised: synthesised[i],
            });
        }
        Some(wrong)
    }

    fn time_ns(&self) -> u64 {
        self.time_ns
    }
}

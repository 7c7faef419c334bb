//! The table of names that a node learned during a recording.
//!
//! A row is a time and a text in the form of the node's description in `meta.toml`. Such rows are few.

use super::side::{strings, text};
use super::{Row, column, field, values};
use crate::layout::Table;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type};
use magscope_core::workload::Names;

/// Longest text of a row, bytes.
const LONGEST: usize = 4 << 20;

impl Row for Names {
    const TABLE: Table = Table::Names;

    fn fields() -> Vec<Field> {
        vec![field("ts_ns", DataType::Int64), field("names", DataType::Utf8)]
    }

    fn columns(rows: &[Self]) -> Vec<ArrayRef> {
        // A name that TOML cannot express is left out rather than the recording.
        let texts: Vec<String> = rows.iter().map(|row| toml::to_string(row).unwrap_or_default()).collect();
        vec![
            column::<Int64Type>(rows.iter().map(|row| row.time_ns as i64)),
            text(texts.iter().map(String::as_str)),
        ]
    }

    fn decode(batch: &RecordBatch, out: &mut Vec<Self>) -> Option<u64> {
        let ts_ns = values::<Int64Type>(batch, 0)?;
        let names = strings(batch, 1)?;
        let mut wrong = 0;
        for (i, ts_ns) in ts_ns.iter().enumerate() {
            let text = names.value(i);
            match toml::from_str::<Names>(text) {
                Ok(names) if text.len() <= LONGEST => out.push(Names { time_ns: *ts_ns as u64, ..names }),
                _ => wrong += 1,
            }
        }
        Some(wrong)
    }

    fn time_ns(&self) -> u64 {
        self.time_ns
    }
}

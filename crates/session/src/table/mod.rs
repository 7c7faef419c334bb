//! Columns of the tables, and conversion of rows.
//!
//! Every column is non-nullable and of a plain type that any Arrow engine reads. A file's own schema serves
//! other programs. This library uses the columns of its own format version, so that a damaged schema costs
//! nothing.

mod change;
mod custom;
pub(crate) mod event;
mod index;
mod names;
mod side;
mod synthesis;

pub(crate) use event::EventColumns;
pub(crate) use index::IndexRow;
pub(crate) use side::Announced;

use crate::layout::Table;
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// A row of a table.
pub(crate) trait Row: Sized {
    /// The table.
    const TABLE: Table;

    /// Names and types of the columns, in order.
    fn fields() -> Vec<Field>;

    /// The columns of some rows.
    fn columns(rows: &[Self]) -> Vec<ArrayRef>;

    /// Appends the rows of a batch and returns the number of invalid ones. `None` if the columns do not match
    /// this table.
    fn decode(batch: &RecordBatch, out: &mut Vec<Self>) -> Option<u64>;

    /// The time that orders the row, `CLOCK_MONOTONIC` nanoseconds.
    fn time_ns(&self) -> u64;
}

/// A non-nullable column.
fn field(name: &str, kind: DataType) -> Field {
    Field::new(name, kind, false)
}

/// The values of a column, if of this type.
fn values<T: ArrowPrimitiveType>(batch: &RecordBatch, column: usize) -> Option<&[T::Native]> {
    let array = batch.columns().get(column)?.as_primitive_opt::<T>()?;
    (array.null_count() == 0).then(|| &array.values()[..])
}

/// A column from an iterator of its values.
fn column<T: ArrowPrimitiveType>(values: impl Iterator<Item = T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_iter_values(values))
}

/// The columns of a table.
pub(crate) fn schema(table: Table) -> SchemaRef {
    static SCHEMAS: LazyLock<Vec<SchemaRef>> = LazyLock::new(|| {
        let fields = |table: &Table| match table {
            Table::Events => magscope_core::Event::fields(),
            Table::Flows => Announced::<magscope_core::Flow>::fields(),
            Table::Tasks => Announced::<magscope_core::Task>::fields(),
            Table::Tcp => magscope_core::TcpSample::fields(),
            Table::Losses => magscope_core::Loss::fields(),
            Table::Clock => magscope_core::clock::ClockSample::fields(),
            Table::Changes => magscope_core::Change::fields(),
            Table::Counts => magscope_core::HopCount::fields(),
            Table::Hits => magscope_core::ProbeHit::fields(),
            Table::Heads => magscope_core::PayloadHead::fields(),
            Table::Synthesis => magscope_core::Synthesis::fields(),
            Table::Names => magscope_core::workload::Names::fields(),
            Table::Index => IndexRow::fields(),
        };
        Table::ALL.iter().map(|t| Arc::new(Schema::new(fields(t)))).collect()
    });
    SCHEMAS[table.place()].clone()
}

/// The schema at the start of a file, with the session id in its metadata.
pub(crate) fn file_schema(table: Table, session: &str) -> Schema {
    let about = HashMap::from([
        ("magscope.format".to_owned(), crate::meta::FORMAT.to_string()),
        ("magscope.session".to_owned(), session.to_owned()),
        ("magscope.table".to_owned(), table.name().to_owned()),
    ]);
    schema(table).as_ref().clone().with_metadata(about)
}

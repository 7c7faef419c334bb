//! Mapping of rows to files.

use super::escaped;
use crate::table::Table;
use crate::wire::BUCKETS;
use arrow::array::{AsArray, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{Int32Type, Int64Type, Schema, SchemaRef};
use arrow::error::ArrowError;
use std::sync::Arc;

const DAY_NS: i64 = 86_400_000_000_000;
/// Column for the division of rows.
const BUCKET: &str = "wire_bucket";

/// Directory layout of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// `table.parquet`, including empty tables.
    #[default]
    Flat,
    /// `table/date=…/host=…/part-0.parquet`, without empty files.
    ByHost,
    /// `table/wire_bucket=…/part-0.parquet` for tables with wire keys, including empty files, so that two
    /// exports match; other tables flat.
    ByBucket,
}

/// A part of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// The whole table.
    Whole,
    /// One node and day since 1970.
    Day(u16, i64),
    /// One bucket, or the rows without a key.
    Bucket(Option<i32>),
}

impl Layout {
    /// The parts that exist even without rows.
    pub(super) fn parts(self, table: Table) -> Vec<Part> {
        match self {
            Layout::ByHost => Vec::new(),
            Layout::ByBucket if has_bucket(&table.schema()) => {
                let buckets = (0..BUCKETS as i32).map(Some).chain([None]);
                buckets.map(Part::Bucket).collect()
            }
            Layout::Flat | Layout::ByBucket => vec![Part::Whole],
        }
    }

    /// Divides rows into parts, with the columns of each.
    pub(super) fn split(self, node: u16, batch: &RecordBatch) -> Result<Vec<(Part, RecordBatch)>, ArrowError> {
        let parts = match self {
            Layout::Flat => vec![(Part::Whole, batch.clone())],
            Layout::ByHost => by_day(node, batch),
            Layout::ByBucket => by_bucket(batch)?,
        };
        let narrowed = |(part, batch): (Part, RecordBatch)| {
            let schema = part.schema(&batch.schema());
            let columns: Result<Vec<usize>, _> =
                schema.fields().iter().map(|field| batch.schema().index_of(field.name())).collect();
            Ok((part, batch.project(&columns?)?))
        };
        parts.into_iter().map(narrowed).collect()
    }
}

/// Divides rows into runs of one day.
fn by_day(node: u16, batch: &RecordBatch) -> Vec<(Part, RecordBatch)> {
    let Some(times) = batch.column(0).as_primitive_opt::<Int64Type>() else { return Vec::new() };
    let (mut from, values, mut parts) = (0, times.values(), Vec::new());
    while let Some(first) = values.get(from) {
        let day = first.div_euclid(DAY_NS);
        let rows = values[from..].iter().take_while(|ns| ns.div_euclid(DAY_NS) == day).count();
        parts.push((Part::Day(node, day), batch.slice(from, rows)));
        from += rows;
    }
    parts
}

fn by_bucket(batch: &RecordBatch) -> Result<Vec<(Part, RecordBatch)>, ArrowError> {
    let buckets = batch.column_by_name(BUCKET).and_then(|column| column.as_primitive_opt::<Int32Type>());
    let Some(buckets) = buckets else { return Ok(vec![(Part::Whole, batch.clone())]) };
    let mut rows: Vec<Vec<u32>> = vec![Vec::new(); BUCKETS as usize + 1];
    for (row, bucket) in buckets.iter().enumerate() {
        let at = bucket.and_then(|bucket| usize::try_from(bucket).ok()).unwrap_or(BUCKETS as usize);
        if let Some(rows) = rows.get_mut(at) {
            rows.push(row as u32);
        }
    }
    let filled = rows.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty());
    let taken = filled.map(|(bucket, rows)| {
        let bucket = Some(bucket as i32).filter(|bucket| i64::from(*bucket) < BUCKETS);
        Ok((Part::Bucket(bucket), take_record_batch(batch, &UInt32Array::from(rows))?))
    });
    taken.collect()
}

fn has_bucket(schema: &Schema) -> bool {
    schema.field_with_name(BUCKET).is_ok()
}

impl Part {
    /// The columns of its file, without those in its path, because engines reject duplicates.
    pub(super) fn schema(self, schema: &SchemaRef) -> SchemaRef {
        let omitted = match self {
            Part::Whole => return schema.clone(),
            Part::Day(..) => "host",
            Part::Bucket(_) => BUCKET,
        };
        let fields: Vec<_> = schema.fields().iter().filter(|field| field.name() != omitted).cloned().collect();
        Arc::new(Schema::new(fields))
    }

    /// Its file.
    pub(super) fn path(self, table: Table, hosts: &[Arc<str>]) -> String {
        match self {
            Part::Whole => format!("{table}.parquet"),
            Part::Day(node, day) => {
                let host = hosts.get(usize::from(node)).map_or("", |host| host);
                format!("{table}/date={}/host={}/part-0.parquet", super::date(day), escaped(host))
            }
            Part::Bucket(Some(bucket)) => format!("{table}/{BUCKET}={bucket}/part-0.parquet"),
            Part::Bucket(None) => format!("{table}/{BUCKET}=__HIVE_DEFAULT_PARTITION__/part-0.parquet"),
        }
    }
}

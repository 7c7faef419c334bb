//! Parquet: one file per table, or many in directories. Rows are sorted by time within row groups.

mod layout;

pub use layout::Layout;

use super::tables::TableWriter;
use crate::error::ExportError;
use crate::names;
use crate::output::{Create, Output};
use crate::table::{ID, Table};
use crate::timeline::TimeLine;
use crate::wire;
use arrow::array::{AsArray, RecordBatch};
use arrow::compute::interleave_record_batch;
use arrow::datatypes::{DataType, Int64Type};
use layout::Part;
use magscope_core::node::NodeInfo;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::schema::types::ColumnPath;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// Version of the tables, in every file's metadata.
pub const SCHEMA_VERSION: &str = "1";
/// Rows per row group for one file per table; proportionally fewer for several files, so that memory is
/// constant.
const ROW_GROUP: usize = 256 << 10;
/// Number of rows gathered at a time.
const STRETCH: usize = 8 << 10;
/// Minimum.
const LEAST_ROW_GROUP: usize = 8 << 10;

/// A file with the pending rows of its row group.
struct File {
    writer: ArrowWriter<Box<dyn Output>>,
    waiting: Vec<RecordBatch>,
    rows: usize,
}

/// Writes Parquet files.
pub struct Parquet<'c> {
    create: Create<'c>,
    wanted: Vec<Table>,
    hosts: Vec<Arc<str>>,
    layout: Layout,
    row_group: usize,
    about: Vec<KeyValue>,
    files: BTreeMap<(Table, Part), File>,
}

impl<'c> Parquet<'c> {
    /// Files of these tables. `about` is stored in the metadata of each file.
    pub fn new(
        create: Create<'c>,
        wanted: &[Table],
        infos: &[NodeInfo],
        line: TimeLine,
        layout: Layout,
        about: &[(String, String)],
    ) -> Self {
        let mut all: Vec<KeyValue> =
            about.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone())).collect();
        all.extend(described(infos, line));
        let files = if layout == Layout::ByBucket { wire::BUCKETS as usize } else { infos.len().max(1) };
        Parquet {
            create,
            wanted: wanted.to_vec(),
            hosts: names::hosts(infos),
            layout,
            row_group: (ROW_GROUP / files).max(LEAST_ROW_GROUP),
            about: all,
            files: BTreeMap::new(),
        }
    }

    fn file(&mut self, table: Table, part: Part) -> Result<&mut File, ExportError> {
        use std::collections::btree_map::Entry;
        Ok(match self.files.entry((table, part)) {
            Entry::Occupied(existing) => existing.into_mut(),
            Entry::Vacant(new) => {
                let file = (self.create)(&part.path(table, &self.hosts))?;
                // Without Arrow's own schema, which other engines do not read.
                let options = ArrowWriterOptions::new()
                    .with_properties(properties(table, self.row_group, &self.about))
                    .with_skip_arrow_metadata(true);
                let writer = ArrowWriter::try_new_with_options(file, part.schema(&table.schema()), options)?;
                new.insert(File { writer, waiting: Vec::new(), rows: 0 })
            }
        })
    }
}

impl File {
    /// Writes the pending rows in time order as a row group.
    fn row_group(&mut self) -> Result<(), ExportError> {
        if self.rows == 0 {
            return Ok(());
        }
        self.rows = 0;
        let waiting = std::mem::take(&mut self.waiting);
        if in_order(&waiting) {
            waiting.iter().try_for_each(|batch| self.writer.write(batch))?;
        } else {
            let batches: Vec<&RecordBatch> = waiting.iter().collect();
            // In chunks, which reuse their memory.
            for rows in in_time(&waiting).chunks(STRETCH) {
                self.writer.write(&interleave_record_batch(&batches, rows)?)?;
            }
        }
        Ok(self.writer.flush()?)
    }
}

/// Batch and row index of each row, in time order.
fn in_time(batches: &[RecordBatch]) -> Vec<(usize, usize)> {
    let mut order: Vec<(i64, (usize, usize))> = Vec::new();
    for (at, batch) in batches.iter().enumerate() {
        order.extend(times(batch).iter().enumerate().map(|(row, ns)| (*ns, (at, row))));
    }
    // The sort is fast on nearly sorted input.
    order.sort_by_key(|(ns, _)| *ns);
    order.into_iter().map(|(_, place)| place).collect()
}

fn times(batch: &RecordBatch) -> &[i64] {
    batch.column(0).as_primitive_opt::<Int64Type>().map_or(&[], |times| times.values())
}

/// True if rows are in time order.
fn in_order(batches: &[RecordBatch]) -> bool {
    let mut latest = i64::MIN;
    batches.iter().all(|batch| {
        let times = times(batch);
        let follows = times.first().is_none_or(|first| *first >= latest) && times.is_sorted();
        latest = times.last().copied().unwrap_or(latest);
        follows
    })
}

impl TableWriter for Parquet<'_> {
    fn rows(&mut self, table: Table, node: u16, batch: &RecordBatch) -> Result<(), ExportError> {
        let most = self.row_group;
        for (part, batch) in self.layout.split(node, batch)? {
            let file = self.file(table, part)?;
            file.rows += batch.num_rows();
            file.waiting.push(batch);
            if file.rows >= most {
                file.row_group()?;
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        for table in self.wanted.clone() {
            for part in self.layout.parts(table) {
                self.file(table, part)?;
            }
        }
        for (_, mut file) in std::mem::take(&mut self.files) {
            file.row_group()?;
            file.writer.into_inner()?.close()?;
        }
        Ok(())
    }
}

/// Storage of a table's columns: measured on real recordings, see `docs/performance.md`.
pub fn properties(table: Table, row_group: usize, about: &[KeyValue]) -> WriterProperties {
    let mut about = about.to_vec();
    about.push(KeyValue::new("magscope.table".to_owned(), table.name().to_owned()));
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_created_by(concat!("magnet-scope ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(ZstdLevel::try_new(3).map_or(Compression::UNCOMPRESSED, Compression::ZSTD))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_max_row_group_row_count(Some(1 << 20))
        .set_sorting_columns(Some(vec![SortingColumn { column_idx: 0, descending: false, nulls_first: false }]))
        .set_coerce_types(true)
        .set_key_value_metadata(Some(about));
    for field in table.schema().fields() {
        let path = ColumnPath::from(field.name().as_str());
        let plain = |properties: WriterPropertiesBuilder, encoding| {
            properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path.clone(), encoding)
        };
        match (field.data_type(), field.name().as_str()) {
            // A hash has no order, so delta encoding is useless.
            (_, "wire_key") => properties = plain(properties, Encoding::PLAIN),
            (DataType::Int64 | DataType::Timestamp(..), _) => {
                properties = plain(properties, Encoding::DELTA_BINARY_PACKED);
            }
            // Few distinct numbers: zstd compresses them better than a dictionary.
            (DataType::Int32, name) if table == Table::Journeys && name != "wire_bucket" => {
                properties = plain(properties, Encoding::PLAIN);
            }
            // Rows are in time order, so the extreme names of each page are those of all pages.
            (DataType::Dictionary(..), _) => {
                properties = properties.set_column_statistics_enabled(path.clone(), EnabledStatistics::None);
            }
            _ => {}
        }
        // Journey numbers are nearly in time order, so page statistics suffice.
        let sought = match field.name().as_str() {
            "wire_key" => true,
            "journey" => table != Table::Journeys,
            _ => false,
        };
        if sought && field.metadata().contains_key(ID) {
            // Sized for a full row group.
            properties = properties
                .set_column_bloom_filter_enabled(path.clone(), true)
                .set_column_bloom_filter_max_ndv(path, row_group as u64);
        }
    }
    properties.build()
}

/// Metadata of every file about the origin of its rows.
fn described(infos: &[NodeInfo], line: TimeLine) -> Vec<KeyValue> {
    let mut all = vec![KeyValue::new("magscope.schema".to_owned(), SCHEMA_VERSION.to_owned())];
    let utc = line.to_utc_ns.map_or_else(|| "unknown".to_owned(), |ns| ns.to_string());
    all.push(KeyValue::new("magscope.utc_less_monotonic_ns".to_owned(), utc));
    for (info, host) in infos.iter().zip(names::hosts(infos)) {
        let mut say = |what: &str, value: String| {
            all.push(KeyValue::new(format!("magscope.host.{host}.{what}"), value));
        };
        say("boot_id", info.boot_id.clone());
        say("kernel", info.kernel.clone());
        say("clock", info.clock.clone());
        let coverage = info.coverage.hops.iter().filter_map(|row| serde_json::to_string(row).ok());
        say("coverage", format!("[{}]", coverage.collect::<Vec<_>>().join(",")));
    }
    all
}

/// A day since 1970 as `2026-01-31` in the civil calendar (Howard Hinnant, *chrono-compatible low-level date
/// algorithms*).
pub fn date(day: i64) -> String {
    let (year, month, day) = crate::calendar::civil(day);
    format!("{year:04}-{month:02}-{day:02}")
}

/// A name in a hive path: characters other than letters, digits, `.`, `_` and `-` as `%XX`.
fn escaped(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"_-".contains(&byte) || (byte == b'.' && !out.is_empty()) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

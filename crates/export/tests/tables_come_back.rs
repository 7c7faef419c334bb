//! Parquet, CSV and JSON lines: reading returns the written data, for any process names.

use crate::common;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::compute::{cast, concat_batches, sort_to_indices, take_record_batch};
use arrow::datatypes::{DataType, Field, Schema};
use common::{Files, Recording, recordings, sums};
use magscope_export::format::csv::Csv;
use magscope_export::format::json::JsonLines;
use magscope_export::format::parquet::{Layout, Parquet};
use magscope_export::format::tables::{TableWriter, Tables};
use magscope_export::table::ID;
use magscope_export::{Chosen, ExportError, Table, TimeLine};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

const LINE: TimeLine = TimeLine { to_utc_ns: Some(1_767_323_045_000_000_000) };

/// Stores the rows unchanged.
#[derive(Default)]
struct Written(BTreeMap<Table, Vec<RecordBatch>>);

impl TableWriter for &mut Written {
    fn rows(&mut self, table: Table, _: u16, batch: &RecordBatch) -> Result<(), ExportError> {
        self.0.entry(table).or_default().push(batch.clone());
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        Ok(())
    }
}

/// Columns as plain text and numbers, without dictionaries.
fn plain(batch: &RecordBatch) -> RecordBatch {
    let fields = batch.schema().fields().iter().map(|field| plain_field(field)).collect::<Vec<_>>();
    let columns = batch
        .columns()
        .iter()
        .zip(&fields)
        .map(|(column, field)| cast(column, field.data_type()).expect("a dictionary of text is text"));
    RecordBatch::try_new(Arc::new(Schema::new(fields.clone())), columns.collect()).expect("the same rows")
}

fn plain_field(field: &Field) -> Field {
    let kind = match field.data_type() {
        DataType::Dictionary(_, value) => value.as_ref().clone(),
        kind => kind.clone(),
    };
    Field::new(field.name(), kind, true)
}

fn plain_schema(table: Table) -> Arc<Schema> {
    Arc::new(Schema::new(table.schema().fields().iter().map(|field| plain_field(field)).collect::<Vec<_>>()))
}

/// Text in CSV form: an apostrophe precedes text that a spreadsheet would evaluate.
fn as_cells(batch: &RecordBatch) -> RecordBatch {
    let cell = |text: &str| {
        let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
        if is_formula { format!("'{text}") } else { text.to_owned() }
    };
    let column = |column: &ArrayRef| -> ArrayRef {
        match column.as_string_opt::<i32>() {
            Some(texts) => Arc::new(texts.iter().map(|text| text.map(cell)).collect::<StringArray>()),
            None => Arc::clone(column),
        }
    };
    let columns = batch.columns().iter().map(column).collect();
    RecordBatch::try_new(batch.schema(), columns).expect("the same rows")
}

fn in_order(batch: &RecordBatch) -> RecordBatch {
    // Neither sort is stable, so rows of equal time are compared completely.
    let order = sort_to_indices(&StringArray::from(text(batch)), None, None).expect("text has an order");
    take_record_batch(batch, &order).expect("the same rows")
}

fn text(batch: &RecordBatch) -> Vec<String> {
    let options = arrow::util::display::FormatOptions::default().with_null("∅");
    // Arrow supports named zones, including UTC, only with an optional feature.
    let instants = |column: &ArrayRef| match column.data_type() {
        DataType::Timestamp(unit, Some(_)) => {
            cast(column, &DataType::Timestamp(*unit, None)).expect("the same instants")
        }
        _ => Arc::clone(column),
    };
    let all: Vec<ArrayRef> = batch.columns().iter().map(instants).collect();
    let columns: Vec<_> = all
        .iter()
        .map(|column| arrow::util::display::ArrayFormatter::try_new(column, &options).expect("it has a text"))
        .collect();
    let row =
        |row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("\u{1f}");
    (0..batch.num_rows()).map(row).collect()
}

fn parquet(bytes: Vec<u8>) -> RecordBatch {
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes)).expect("a Parquet file");
    let schema = builder.schema().clone();
    let batches: Vec<RecordBatch> =
        builder.build().expect("a reader").map(|batch| batch.expect("rows")).collect();
    plain(&concat_batches(&schema, &batches).expect("one schema"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn every_row_comes_back((options, names) in recordings(), sums in sums()) {
        let mut recording = Recording::generated(options, &names);
        if let Some(batch) = recording.batches.first_mut() {
            batch.synthesis = sums;
        }
        let infos = std::slice::from_ref(&recording.info);
        let mut written = Written::default();
        recording.export(&mut Tables::new(infos, LINE, Chosen::default(), &mut written));
        let (as_parquet, as_csv, as_json) = (Files::default(), Files::default(), Files::default());
        let wanted = Table::RECORDED;
        let create = |files: &Files| { let files = files.clone(); Box::new(move |name: &str| Ok(files.create(name))) };
        let writer = Parquet::new(create(&as_parquet), wanted, infos, LINE, Layout::Flat, &[]);
        recording.export(&mut Tables::new(infos, LINE, Chosen::default(), writer));
        let writer = Csv::new(create(&as_csv), wanted);
        recording.export(&mut Tables::new(infos, LINE, Chosen::default(), writer));
        let writer = JsonLines::new(as_json.create("lines"));
        recording.export(&mut Tables::new(infos, LINE, Chosen::default(), writer));
        let lines = String::from_utf8(as_json.bytes("lines")).expect("text");

        for table in wanted {
            let batches = written.0.remove(table).unwrap_or_default();
            let all = plain(&concat_batches(&table.schema(), &batches).expect("one schema"));
            prop_assert_eq!(text(&in_order(&parquet(as_parquet.bytes(&format!("{table}.parquet"))))), text(&in_order(&all)));

            let bytes = as_csv.bytes(&format!("{table}.csv"));
            let reader = arrow::csv::ReaderBuilder::new(plain_schema(*table)).with_header(true);
            let rows: Result<Vec<RecordBatch>, _> = reader.build(bytes.as_slice()).expect("a reader").collect();
            let rows = concat_batches(&plain_schema(*table), &rows.expect("rows")).expect("one schema");
            prop_assert_eq!(text(&rows), text(&as_cells(&all)), "{} as CSV", table);

            let label = format!("{{\"table\":\"{table}\",");
            let mine: Vec<&str> = lines.lines().filter(|line| line.starts_with(&label)).collect();
            let mine = mine.join("\n");
            let named = |field: &Field| {
                let is_id = table.schema().field_with_name(field.name()).is_ok_and(|f| f.metadata().contains_key(ID));
                if is_id { Field::new(field.name(), DataType::Utf8, true) } else { field.clone() }
            };
            let schema = Schema::new(plain_schema(*table).fields().iter().map(|field| named(field)).collect::<Vec<_>>());
            let schema = Arc::new(schema);
            let reader = arrow::json::ReaderBuilder::new(schema.clone()).build(mine.as_bytes()).expect("a reader");
            let rows: Result<Vec<RecordBatch>, _> = reader.collect();
            let rows = concat_batches(&schema, &rows.expect("rows")).expect("one schema");
            prop_assert_eq!(text(&rows), text(&all), "{} as JSON lines", table);
        }
    }
}

//! Comma-separated values (RFC 4180): one file per table, with a header line.

use super::tables::TableWriter;
use crate::error::ExportError;
use crate::output::{Create, Output};
use crate::table::{Table, plain};
use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::csv::WriterBuilder;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

/// Rows as text, optionally with a header line.
pub fn lines(batch: &RecordBatch, header: bool, out: &mut dyn Write) -> Result<(), ExportError> {
    // Into memory first: the writer would wrap the error of a closed pipe.
    let mut text = Vec::new();
    WriterBuilder::new().with_header(header).build(&mut text).write(&without_formulas(batch)?)?;
    Ok(out.write_all(&text)?)
}

/// A spreadsheet evaluates a cell that starts like a formula: a leading apostrophe makes it text.
fn without_formulas(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let is_formula = |text: &str| text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let is_text = match field.data_type() {
            DataType::Dictionary(_, values) => **values == DataType::Utf8,
            kind => *kind == DataType::Utf8,
        };
        if !is_text {
            fields.push(field.clone());
            columns.push(column.clone());
            continue;
        }
        let texts = plain(column)?;
        let cells = texts.as_string::<i32>().iter();
        let cells = cells
            .map(|cell| cell.map(|text| if is_formula(text) { format!("'{text}") } else { text.to_owned() }));
        fields.push(Arc::new(Field::new(field.name(), DataType::Utf8, true)));
        columns.push(Arc::new(cells.collect::<StringArray>()) as ArrayRef);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

/// Writes one file per table: `journeys.csv`.
pub struct Csv<'c> {
    create: Create<'c>,
    wanted: Vec<Table>,
    files: BTreeMap<Table, Box<dyn Output>>,
}

impl<'c> Csv<'c> {
    /// Files of these tables, including empty ones.
    pub fn new(create: Create<'c>, wanted: &[Table]) -> Self {
        Csv { create, wanted: wanted.to_vec(), files: BTreeMap::new() }
    }
}

impl TableWriter for Csv<'_> {
    fn rows(&mut self, table: Table, _: u16, batch: &RecordBatch) -> Result<(), ExportError> {
        use std::collections::btree_map::Entry;
        match self.files.entry(table) {
            Entry::Occupied(mut existing) => lines(batch, false, existing.get_mut()),
            Entry::Vacant(new) => {
                let file = new.insert((self.create)(&format!("{table}.csv"))?);
                lines(batch, true, file)
            }
        }
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        for table in self.wanted.clone() {
            if !self.files.contains_key(&table) {
                // An empty table still has a header.
                self.rows(table, 0, &RecordBatch::new_empty(table.schema()))?;
            }
        }
        for (_, file) in std::mem::take(&mut self.files) {
            file.close()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::compute::cast;

    #[test]
    fn no_cell_begins_like_a_formula() {
        let names = ["=1+1", "+1", "-1", "@x", "web-1", ""];
        let column: ArrayRef = Arc::new(names.iter().map(|name| Some(*name)).collect::<StringArray>());
        let coded = cast(&column, &DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)));
        let batch = RecordBatch::try_from_iter([("plain", column), ("coded", coded.expect("it can be coded"))]);
        let mut text = Vec::new();
        lines(&batch.expect("two columns"), false, &mut text).expect("it is written");
        let text = String::from_utf8(text).expect("it is text");
        assert_eq!(text.lines().next(), Some("'=1+1,'=1+1"), "{text}");
        assert!(!text.split([',', '\n']).any(|cell| cell.starts_with(['=', '+', '-', '@'])), "{text}");
        assert!(text.contains("web-1,web-1"), "{text}");
    }
}

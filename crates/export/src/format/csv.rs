//! Comma-separated values (RFC 4180): a file a table, names in the first line.

use super::tables::TableWriter;
use crate::error::ExportError;
use crate::output::{Create, Output};
use crate::table::Table;
use arrow::array::RecordBatch;
use arrow::csv::WriterBuilder;
use std::collections::BTreeMap;
use std::io::Write;

/// Rows as text, with or without the names of the columns before them.
pub fn lines(batch: &RecordBatch, header: bool, out: &mut dyn Write) -> Result<(), ExportError> {
    // Into memory first: the writer hides a closed pipe inside its own error.
    let mut text = Vec::new();
    WriterBuilder::new().with_header(header).build(&mut text).write(batch)?;
    Ok(out.write_all(&text)?)
}

/// Writes a file a table: `journeys.csv`.
pub struct Csv<'c> {
    create: Create<'c>,
    wanted: Vec<Table>,
    files: BTreeMap<Table, Box<dyn Output>>,
}

impl<'c> Csv<'c> {
    /// Files of these tables, those without rows too.
    pub fn new(create: Create<'c>, wanted: &[Table]) -> Self {
        Csv { create, wanted: wanted.to_vec(), files: BTreeMap::new() }
    }
}

impl TableWriter for Csv<'_> {
    fn rows(&mut self, table: Table, _: u16, batch: &RecordBatch) -> Result<(), ExportError> {
        use std::collections::btree_map::Entry;
        match self.files.entry(table) {
            Entry::Occupied(mut known) => lines(batch, false, known.get_mut()),
            Entry::Vacant(new) => {
                let file = new.insert((self.create)(&format!("{table}.csv"))?);
                lines(batch, true, file)
            }
        }
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        for table in self.wanted.clone() {
            if !self.files.contains_key(&table) {
                // A table without rows still says its columns.
                self.rows(table, 0, &RecordBatch::new_empty(table.schema()))?;
            }
        }
        for (_, file) in std::mem::take(&mut self.files) {
            file.close()?;
        }
        Ok(())
    }
}

//! JSON lines: one object per row, with its table as `table`. Identifiers are text, because many readers round
//! 64-bit numbers.

use super::tables::TableWriter;
use crate::error::ExportError;
use crate::output::Output;
use crate::table::{ID, Table};
use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use arrow::json::LineDelimitedWriter;
use std::io::Write;
use std::sync::Arc;

/// Writes all tables into one stream of lines.
pub struct JsonLines {
    file: Option<Box<dyn Output>>,
}

impl JsonLines {
    /// Into this file.
    pub fn new(file: Box<dyn Output>) -> Self {
        JsonLines { file: Some(file) }
    }
}

/// A batch as lines.
pub fn lines(batch: &RecordBatch, out: &mut impl Write) -> Result<(), ExportError> {
    Ok(LineDelimitedWriter::new(out).write(batch)?)
}

/// Rows with the table's name, and identifiers as text.
fn labelled(table: Table, batch: &RecordBatch) -> Result<RecordBatch, ExportError> {
    let name = Arc::new(StringArray::from(vec![table.name()]));
    let label = DictionaryArray::try_new(Int32Array::from(vec![0; batch.num_rows()]), name)?;
    let mut fields = vec![Field::new("table", label.data_type().clone(), false)];
    let mut columns: Vec<ArrayRef> = vec![Arc::new(label)];
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        if field.metadata().contains_key(ID) {
            fields.push(Field::new(field.name(), DataType::Utf8, field.is_nullable()));
            let numbers = column.as_primitive::<Int64Type>().iter();
            columns.push(Arc::new(numbers.map(|n| n.map(|n| n.to_string())).collect::<StringArray>()));
        } else {
            fields.push(field.as_ref().clone());
            columns.push(column.clone());
        }
    }
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

impl TableWriter for JsonLines {
    fn rows(&mut self, table: Table, _: u16, batch: &RecordBatch) -> Result<(), ExportError> {
        let Some(file) = &mut self.file else { return Ok(()) };
        lines(&labelled(table, batch)?, file)
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        if let Some(file) = &mut self.file {
            file.flush()?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        if let Some(file) = self.file.take() {
            file.close()?;
        }
        Ok(())
    }
}

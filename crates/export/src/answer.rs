//! Query results with arbitrary columns: aligned text, CSV, JSON lines or Parquet.

use crate::error::ExportError;
use crate::format::{csv, json};
use crate::output::Output;
use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::io::Write;

/// Maximum number of rows of aligned text, which stay in memory until the column widths are final.
pub const TEXT_ROWS: usize = 10_000;

/// Output form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Aligned columns.
    Text,
    /// Comma-separated values.
    Csv,
    /// A JSON object per row.
    JsonLines,
    /// A Parquet file.
    Parquet,
}

/// A result being written. The first batch defines the columns, even without rows.
pub enum Answer {
    /// Names and cells, and the number of omitted rows.
    Text {
        /// One row per line, the names first.
        lines: Vec<Vec<String>>,
        /// True for number columns, which are right-aligned.
        numbers: Vec<bool>,
        /// Rows beyond [`TEXT_ROWS`].
        more: u64,
        /// Output file.
        file: Box<dyn Output>,
    },
    /// Streamed; true after the header is written.
    Csv(Box<dyn Output>, bool),
    /// Streamed.
    JsonLines(Box<dyn Output>),
    /// Holds the file until the columns are defined.
    Parquet(Option<Box<dyn Output>>, Option<Box<ArrowWriter<Box<dyn Output>>>>),
}

impl Answer {
    /// Into this file.
    pub fn new(form: Form, file: Box<dyn Output>) -> Self {
        match form {
            Form::Text => Answer::Text { lines: Vec::new(), numbers: Vec::new(), more: 0, file },
            Form::Csv => Answer::Csv(file, false),
            Form::JsonLines => Answer::JsonLines(file),
            Form::Parquet => Answer::Parquet(Some(file), None),
        }
    }

    /// Adds rows.
    pub fn rows(&mut self, batch: &RecordBatch) -> Result<(), ExportError> {
        match self {
            Answer::Text { lines, numbers, more, .. } => text(batch, lines, numbers, more),
            Answer::Csv(file, named) => {
                let header = !std::mem::replace(named, true);
                csv::lines(batch, header, file)
            }
            Answer::JsonLines(file) => json::lines(batch, file),
            Answer::Parquet(file, writer) => {
                if let Some(file) = file.take() {
                    let zstd = ZstdLevel::try_new(3).map_or(Compression::UNCOMPRESSED, Compression::ZSTD);
                    let properties =
                        WriterProperties::builder().set_compression(zstd).set_coerce_types(true).build();
                    let options =
                        ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
                    let new = ArrowWriter::try_new_with_options(file, batch.schema(), options)?;
                    *writer = Some(Box::new(new));
                }
                match writer {
                    Some(writer) => Ok(writer.write(batch)?),
                    None => Ok(()),
                }
            }
        }
    }

    /// Finishes the output. Returns the number of omitted rows.
    pub fn finish(self) -> Result<u64, ExportError> {
        match self {
            Answer::Text { lines, numbers, more, mut file } => {
                aligned(&lines, &numbers, &mut file)?;
                file.close()?;
                return Ok(more);
            }
            Answer::Csv(file, _) | Answer::JsonLines(file) => file.close()?,
            Answer::Parquet(_, Some(writer)) => writer.into_inner()?.close()?,
            Answer::Parquet(..) => {}
        }
        Ok(0)
    }
}

fn text(
    batch: &RecordBatch,
    lines: &mut Vec<Vec<String>>,
    numbers: &mut Vec<bool>,
    more: &mut u64,
) -> Result<(), ExportError> {
    if lines.is_empty() {
        lines.push(batch.schema().fields().iter().map(|field| field.name().clone()).collect());
        numbers.extend(batch.schema().fields().iter().map(|field| field.data_type().is_numeric()));
    }
    let options = FormatOptions::default();
    let columns: Result<Vec<_>, _> =
        batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options)).collect();
    let columns = columns?;
    for row in 0..batch.num_rows() {
        if lines.len() > TEXT_ROWS {
            *more += (batch.num_rows() - row) as u64;
            break;
        }
        // A name may contain anything; control characters must not reach a terminal.
        let cell = |column: &ArrayFormatter<'_>| column.value(row).to_string().replace(char::is_control, "?");
        lines.push(columns.iter().map(cell).collect());
    }
    Ok(())
}

fn aligned(lines: &[Vec<String>], numbers: &[bool], file: &mut dyn Write) -> std::io::Result<()> {
    let mut widths = vec![0; numbers.len()];
    for line in lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for line in lines {
        let mut text = String::new();
        for ((cell, width), number) in line.iter().zip(&widths).zip(numbers) {
            let gap = if text.is_empty() { "" } else { "  " };
            let fill = " ".repeat(width - cell.chars().count());
            let (first, second) =
                if *number { (fill.as_str(), cell.as_str()) } else { (cell.as_str(), fill.as_str()) };
            text.extend([gap, first, second]);
        }
        writeln!(file, "{}", text.trim_end())?;
    }
    Ok(())
}

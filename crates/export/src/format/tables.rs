//! Formats of tables: rows are made once and passed to a writer.

use crate::error::ExportError;
use crate::output::{Export, Written};
use crate::table::{Chosen, Rows, Table};
use crate::timeline::TimeLine;
use arrow::array::RecordBatch;
use magscope_core::node::NodeInfo;
use magscope_timeline::merged_reader::Piece;

/// Consumer of the rows of all tables.
pub trait TableWriter {
    /// Writes rows of a table and node.
    fn rows(&mut self, table: Table, node: u16, batch: &RecordBatch) -> Result<(), ExportError>;

    /// Writes buffered output.
    fn flush(&mut self) -> Result<(), ExportError> {
        Ok(())
    }

    /// Ends all files.
    fn finish(&mut self) -> Result<(), ExportError>;
}

/// An export of tables.
pub struct Tables<W> {
    rows: Rows,
    writer: W,
    counts: [u64; Table::ALL.len()],
}

impl<W: TableWriter> Tables<W> {
    /// An export of these nodes.
    pub fn new(infos: &[NodeInfo], line: TimeLine, chosen: Chosen, writer: W) -> Self {
        Tables { rows: Rows::new(infos, line, chosen), writer, counts: Default::default() }
    }

    fn each(
        &mut self,
        give: impl FnOnce(&mut Rows, &mut crate::table::Out<'_>) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        let Tables { rows, writer, counts } = self;
        give(rows, &mut |table, node, batch| {
            counts[table as usize] += batch.num_rows() as u64;
            writer.rows(table, node, &batch)
        })
    }
}

impl<W: TableWriter> Export for Tables<W> {
    fn piece(&mut self, piece: &Piece<'_>) -> Result<(), ExportError> {
        self.each(|rows, out| rows.piece(piece, out))
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        self.each(|rows, out| rows.flush(out))?;
        self.writer.flush()
    }

    fn finish(&mut self) -> Result<Written, ExportError> {
        self.each(|rows, out| rows.finish(out))?;
        self.writer.finish()?;
        let rows = Table::ALL.iter().map(|table| (table.name(), self.counts[*table as usize]));
        Ok(Written {
            rows: rows.filter(|(_, n)| *n > 0).collect(),
            left_out: self.rows.left_out().into_iter().collect(),
        })
    }
}

//! Formats of time-ordered marks.

use crate::error::ExportError;
use crate::mark::{Mark, Marks};
use crate::order::Order;
use crate::output::{Export, Written};
use magscope_core::Batch;
use magscope_timeline::merged_reader::Piece;

/// Consumer of marks in approximate time order.
pub trait MarkWriter {
    /// Announces that a filter chooses journeys: the others have no marks.
    fn filtered(&mut self) {}

    /// Takes what was captured, before the marks that are made of it.
    fn batch(&mut self, _: &Batch) {}

    /// Writes one.
    fn mark(&mut self, mark: &Mark) -> Result<(), ExportError>;

    /// Writes buffered output.
    fn flush(&mut self) -> Result<(), ExportError>;

    /// Ends the file; returns the numbers of written and omitted items.
    fn finish(&mut self) -> Result<Written, ExportError>;
}

/// An export of marks.
pub struct Marked<W> {
    marks: Marks,
    order: Order,
    writer: W,
}

impl<W: MarkWriter> Marked<W> {
    /// With this writer.
    pub fn new(marks: Marks, mut writer: W) -> Self {
        if marks.is_filtered() {
            writer.filtered();
        }
        Marked { marks, order: Order::default(), writer }
    }

    fn drain(&mut self, all: bool) -> Result<(), ExportError> {
        let Marked { order, writer, .. } = self;
        order.drain(all, |mark| writer.mark(&mark))
    }
}

impl<W: MarkWriter> Export for Marked<W> {
    fn piece(&mut self, piece: &Piece<'_>) -> Result<(), ExportError> {
        let Marked { marks, order, writer } = self;
        if let Piece::Batch(_, batch) = piece {
            writer.batch(batch);
        }
        marks.piece(piece, |mark| order.push(mark));
        if self.order.is_full() { self.drain(false) } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        self.drain(true)?;
        self.writer.flush()
    }

    fn finish(&mut self) -> Result<Written, ExportError> {
        let Marked { marks, order, .. } = self;
        marks.finish(|mark| order.push(mark));
        self.drain(true)?;
        let mut written = self.writer.finish()?;
        if self.order.late() > 0 {
            written.left_out.push(("marks stand behind later ones".into(), self.order.late()));
        }
        written.left_out.extend(self.marks.left_out());
        Ok(written)
    }
}

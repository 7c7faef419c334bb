//! What formats write to, and how an export is fed.

use crate::error::ExportError;
use magscope_core::together::Piece;
use std::io::{self, Write};

/// A file being written: closed when it is whole, so that the end of a compressed stream or a full disk is noticed.
pub trait Output: Write + Send {
    /// Ends it.
    fn close(self: Box<Self>) -> io::Result<()>;
}

impl Output for Vec<u8> {
    fn close(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

impl Output for io::Stdout {
    fn close(mut self: Box<Self>) -> io::Result<()> {
        self.flush()
    }
}

/// Makes the files of an export, by their path within it: `journeys.csv`.
pub type Create<'c> = Box<dyn FnMut(&str) -> io::Result<Box<dyn Output>> + 'c>;

/// A format, fed piece by piece.
pub trait Export {
    /// Takes the next piece.
    fn piece(&mut self, piece: &Piece<'_>) -> Result<(), ExportError>;

    /// Writes what is held back only to write more at a time; whoever follows a stream wants it now.
    fn flush(&mut self) -> Result<(), ExportError> {
        Ok(())
    }

    /// Writes what is left, and ends the files.
    fn finish(&mut self) -> Result<Written, ExportError>;
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Rows, lines, packets or slices, by what they are.
    pub rows: Vec<(&'static str, u64)>,
    /// What the format could not take, in words, and how many.
    pub left_out: Vec<(&'static str, u64)>,
}

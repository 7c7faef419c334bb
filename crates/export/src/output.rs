//! Outputs of formats, and the interface of exports.

use crate::error::ExportError;
use magscope_timeline::merged_reader::Piece;
use std::borrow::Cow;
use std::io::{self, Write};

/// An output file. `close` reports errors of the last write, such as a full disk.
pub trait Output: Write + Send {
    /// Closes the file.
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

/// Creates the files of an export, by relative path: `journeys.csv`.
pub type Create<'c> = Box<dyn FnMut(&str) -> io::Result<Box<dyn Output>> + 'c>;

/// A format that receives pieces.
pub trait Export {
    /// Processes the next piece.
    fn piece(&mut self, piece: &Piece<'_>) -> Result<(), ExportError>;

    /// Writes output that is buffered only for efficiency, for readers of a live stream.
    fn flush(&mut self) -> Result<(), ExportError> {
        Ok(())
    }

    /// Writes what is left, and ends the files.
    fn finish(&mut self) -> Result<Written, ExportError>;
}

/// Result of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Numbers of rows, lines, packets or slices, by kind.
    pub rows: Vec<(&'static str, u64)>,
    /// What the format could not take, in words, and how many.
    pub left_out: Vec<(Cow<'static, str>, u64)>,
}

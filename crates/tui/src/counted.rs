//! A writer that counts bytes and write time, which determine the frame rate.

use std::cell::Cell;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Output statistics of the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Bytes.
    pub bytes: u64,
    /// Time spent in writes: long only if the line is slower than the frames.
    pub took: Duration,
}

/// Counting writer.
pub struct Counted<W> {
    inner: W,
    line: Rc<Cell<Line>>,
}

impl<W> Counted<W> {
    /// Counts the writes to `inner` in `line`.
    pub const fn new(inner: W, line: Rc<Cell<Line>>) -> Self {
        Counted { inner, line }
    }
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let began = Instant::now();
        let count = self.inner.write(bytes)?;
        let line = self.line.get();
        self.line.set(Line { bytes: line.bytes + count as u64, took: line.took + began.elapsed() });
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted() {
        let line = Rc::default();
        let mut writer = Counted::new(Vec::new(), Rc::clone(&line));
        writer.write_all(b"12345").unwrap();
        writer.write_all(b"678").unwrap();
        assert_eq!(line.get().bytes, 8);
        assert_eq!(writer.inner, b"12345678");
    }
}

//! Compressed output.

use clap::ValueEnum;
use magscope_export::Output;
use std::io::{self, Write};

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Compression {
    /// Small and fast; duckdb, polars, Wireshark 4 and `zstd -d` read it
    Zstd,
    /// What everything reads
    Gzip,
}

impl Compression {
    /// File name extension.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Zstd => "zst",
            Self::Gzip => "gz",
        }
    }

    /// Wraps `file` with compression.
    pub fn wrap(self, file: Box<dyn Output>) -> io::Result<Box<dyn Output>> {
        Ok(match self {
            Self::Zstd => Box::new(Zstd(zstd::Encoder::new(file, 3)?)),
            Self::Gzip => Box::new(Gzip(flate2::write::GzEncoder::new(file, flate2::Compression::default()))),
        })
    }
}

struct Zstd(zstd::Encoder<'static, Box<dyn Output>>);

struct Gzip(flate2::write::GzEncoder<Box<dyn Output>>);

impl Write for Zstd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Output for Zstd {
    fn close(self: Box<Self>) -> io::Result<()> {
        self.0.finish()?.close()
    }
}

impl Write for Gzip {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Output for Gzip {
    fn close(self: Box<Self>) -> io::Result<()> {
        self.0.finish()?.close()
    }
}

//! Stores: destinations of files.

#[cfg(feature = "s3")]
mod bucket;
mod folder;

#[cfg(feature = "s3")]
pub(crate) use bucket::Bucket;
pub(crate) use folder::Folder;

use crate::error::ShipError;
use std::fs::File;
use std::io::{self, Read, Seek};

/// Block size for reads, bytes.
const BLOCK: usize = 1 << 20;

/// A file to upload.
pub struct Upload<'a> {
    /// Its content.
    pub content: Content<'a>,
    /// Size in bytes.
    pub bytes: u64,
    /// CRC-32.
    pub crc: u32,
}

/// Content of an upload.
#[derive(Clone, Copy)]
pub enum Content<'a> {
    /// A file, from its start.
    File(&'a File),
    /// A small buffer in memory.
    Bytes(&'a [u8]),
}

impl<'a> Upload<'a> {
    /// A complete file, which does not grow.
    pub fn file(file: &'a File) -> io::Result<Self> {
        let (bytes, crc) = checksum(&mut rewound(file)?)?;
        Ok(Upload { content: Content::File(file), bytes, crc })
    }

    /// A buffer.
    pub fn bytes(bytes: &'a [u8]) -> Self {
        Upload { content: Content::Bytes(bytes), bytes: bytes.len() as u64, crc: crc32fast::hash(bytes) }
    }

    /// A reader from the start of the content.
    pub fn reader(&self) -> io::Result<Box<dyn Read + 'a>> {
        Ok(match self.content {
            Content::File(file) => Box::new(rewound(file)?),
            Content::Bytes(bytes) => Box::new(bytes),
        })
    }
}

fn rewound(mut file: &File) -> io::Result<&File> {
    file.rewind()?;
    Ok(file)
}

/// Number of bytes to the end, and their CRC-32.
fn checksum(from: &mut impl Read) -> io::Result<(u64, u32)> {
    let mut hasher = crc32fast::Hasher::new();
    let mut block = vec![0; BLOCK];
    let mut bytes = 0;
    loop {
        match from.read(&mut block) {
            Ok(0) => return Ok((bytes, hasher.finalize())),
            Ok(read) => {
                hasher.update(&block[..read]);
                bytes += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The store's information about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Size in bytes.
    pub bytes: u64,
    /// CRC-32, if the store has it.
    pub crc: Option<u32>,
}

/// A store of files by key, `host/recording/file`. Readers see an object completely or not at all.
pub trait Store: Send {
    /// Stores an object, replaces an earlier one, and verifies that it is complete.
    fn put(&self, key: &str, upload: &Upload<'_>) -> Result<(), ShipError>;

    /// Information about an object; `None` if it does not exist.
    fn stat(&self, key: &str) -> Result<Option<Stat>, ShipError>;

    /// A small object, at most `most` bytes; `None` if it does not exist.
    fn get(&self, key: &str, most: u64) -> Result<Option<Vec<u8>>, ShipError>;
}

//! Stores: what files are put into.

#[cfg(feature = "s3")]
mod bucket;
mod folder;

#[cfg(feature = "s3")]
pub(crate) use bucket::Bucket;
pub(crate) use folder::Folder;

use crate::error::ShipError;
use std::fs::File;
use std::io::{self, Read, Seek};

/// Bytes that are read at a time.
const BLOCK: usize = 1 << 20;

/// What is put.
pub struct Parcel<'a> {
    /// What is in it.
    pub content: Content<'a>,
    /// How many bytes.
    pub bytes: u64,
    /// Their CRC-32.
    pub crc: u32,
}

/// What a parcel holds.
#[derive(Clone, Copy)]
pub enum Content<'a> {
    /// A file, from its beginning on.
    File(&'a File),
    /// Bytes in memory: few.
    Bytes(&'a [u8]),
}

impl<'a> Parcel<'a> {
    /// A whole file, which does not grow.
    pub fn file(file: &'a File) -> io::Result<Self> {
        let (bytes, crc) = checksum(&mut rewound(file)?)?;
        Ok(Parcel { content: Content::File(file), bytes, crc })
    }

    /// Bytes.
    pub fn bytes(bytes: &'a [u8]) -> Self {
        Parcel { content: Content::Bytes(bytes), bytes: bytes.len() as u64, crc: crc32fast::hash(bytes) }
    }

    /// Its content, from the beginning on.
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

/// How many bytes there are to the end, and their CRC-32.
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

/// What a store says of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its size.
    pub bytes: u64,
    /// Its CRC-32, where the store can tell.
    pub crc: Option<u32>,
}

/// A place that takes files by keys, `host/recording/file`. Whoever reads there sees an object whole or not at all.
pub trait Store: Send {
    /// Puts an object there, in the place of one that was there before, and makes sure that it has arrived whole.
    fn put(&self, key: &str, parcel: &Parcel<'_>) -> Result<(), ShipError>;

    /// What is there. `None`: nothing.
    fn stat(&self, key: &str) -> Result<Option<Stat>, ShipError>;

    /// A small object, at most `most` bytes of it. `None`: nothing is there.
    fn get(&self, key: &str, most: u64) -> Result<Option<Vec<u8>>, ShipError>;
}

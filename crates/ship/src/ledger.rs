//! The ledger of uploaded files, in the recording's directory: one line per file and destination.
//!
//! The format is `CRC32 BYTES NAME PLACE`. A line is written after the upload is confirmed, and is durable
//! before any deletion depends on it. After a crash between the two, the uploader recognises the stored file by
//! size and checksum and adds the line.

use crate::error::ShipError;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// File name.
pub const LEDGER: &str = "shipped.log";

/// Maximum size, bytes: a segment has some 600 bytes of lines, so this allows a hundred thousand segments.
const LONGEST: u64 = 64 << 20;

/// Files that were uploaded to one destination.
pub struct Ledger {
    path: PathBuf,
    place: String,
    entries: HashMap<String, (u64, u32)>,
    /// Opened with the first new line.
    file: Option<File>,
    /// End of the last complete line, if a torn line follows. The torn line is truncated before the next write;
    /// completed by a newline, it could match a shorter destination.
    torn_at: Option<u64>,
}

impl Ledger {
    /// Reads the ledger of the recording in `dir`; a missing one is empty.
    pub fn read(dir: &Path, place: &str) -> Result<Self, ShipError> {
        let path = dir.join(LEDGER);
        let mut bytes = Vec::new();
        match File::open(&path) {
            Ok(file) => {
                if file.metadata().is_ok_and(|found| found.len() > LONGEST) {
                    let source = std::io::Error::other("it is too long for one that was written here");
                    return Err(ShipError::Local { operation: "read", path, source });
                }
                file.take(LONGEST).read_to_end(&mut bytes).map_err(ShipError::local("read", &path))?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(ShipError::Local { operation: "open", path, source }),
        }
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let torn_at = (whole < bytes.len()).then_some(whole as u64);
        let text = String::from_utf8_lossy(&bytes[..whole]);
        let mut entries = HashMap::new();
        for (crc, size, name) in text.lines().filter_map(|line| entry(line, place)) {
            entries.insert(name.to_owned(), (size, crc));
        }
        Ok(Ledger { path, place: place.to_owned(), entries, file: None, torn_at })
    }

    /// Size and checksum of an uploaded file.
    pub fn arrived(&self, name: &str) -> Option<(u64, u32)> {
        self.entries.get(name).copied()
    }

    /// True if no file was uploaded.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds an uploaded file durably.
    pub fn add(&mut self, name: &str, bytes: u64, crc: u32) -> Result<(), ShipError> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let mut options = OpenOptions::new();
                options.append(true).create(true);
                // It may be a link that somebody prepared.
                let opened = if self.path.is_symlink() {
                    Err(io::Error::other("it is a symbolic link, and nothing is written through one"))
                } else {
                    options.open(&self.path)
                };
                none.insert(opened.map_err(ShipError::local("open", &self.path))?)
            }
        };
        let line = format!("{crc:08x} {bytes} {name} {}\n", self.place);
        let mut write = || {
            if let Some(whole) = self.torn_at {
                file.set_len(whole)?;
            }
            // Until the line is complete.
            self.torn_at = Some(file.metadata()?.len());
            file.write_all(line.as_bytes())?;
            self.torn_at = None;
            file.sync_data()
        };
        write().map_err(ShipError::local("write", &self.path))?;
        self.entries.insert(name.to_owned(), (bytes, crc));
        Ok(())
    }

    /// True if the recording still exists: its directory may be deleted at any time.
    pub(crate) fn is_there(&self) -> bool {
        self.path.parent().is_some_and(|dir| fs::metadata(dir).is_ok())
    }
}

fn entry<'a>(line: &'a str, place: &str) -> Option<(u32, u64, &'a str)> {
    let mut parts = line.splitn(4, ' ');
    let crc = u32::from_str_radix(parts.next()?, 16).ok()?;
    let size = parts.next()?.parse().ok()?;
    let name = parts.next()?;
    (parts.next()? == place).then_some((crc, size, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_cut_off_is_none_and_hurts_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::read(dir.path(), "/srv/a b").unwrap();
        assert!(ledger.is_empty());
        ledger.add("events-0000.arrows", 10, 0xab).unwrap();
        ledger.add("index-0000.arrows", 20, 7).unwrap();
        let path = dir.path().join(LEDGER);
        let whole = fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let mut ledger = Ledger::read(dir.path(), "/srv/a b").unwrap();
            let lines = String::from_utf8_lossy(&whole[..cut]).matches('\n').count();
            assert_eq!(ledger.entries.len(), lines, "cut at {cut}");
            ledger.add("flows-0001.arrows", 30, 9).unwrap();
            let again = Ledger::read(dir.path(), "/srv/a b").unwrap();
            assert_eq!(again.arrived("flows-0001.arrows"), Some((30, 9)), "cut at {cut}");
            assert_eq!(again.entries.len(), lines + 1, "cut at {cut}");
            assert!(Ledger::read(dir.path(), "/srv/a").unwrap().is_empty(), "another place has another ledger");
        }
    }

    #[test]
    fn nonsense_is_no_line() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(LEDGER), b"\xff\xfe\n\n1 2\nxyz 1 a p\n1 -1 a p\n0 1 a p\n").unwrap();
        let ledger = Ledger::read(dir.path(), "p").unwrap();
        assert_eq!((ledger.entries.len(), ledger.arrived("a")), (1, Some((1, 0))));
    }
}

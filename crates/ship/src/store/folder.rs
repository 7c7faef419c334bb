//! A directory as a store.
//!
//! It has to be there already: one that is not may be the place where a file system is mounted sometimes, and what was put there
//! then would be on the wrong disk. Below it nothing is written through a symbolic link: others may write there too.

use super::{BLOCK, Stat, Store, Upload, checksum};
use crate::error::ShipError;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Files below a directory.
pub(crate) struct Folder {
    root: PathBuf,
}

impl Folder {
    pub(crate) fn new(root: &Path) -> Self {
        Folder { root: root.to_path_buf() }
    }

    fn put_at(&self, path: &Path, upload: &Upload<'_>) -> io::Result<()> {
        if !fs::metadata(&self.root)?.is_dir() {
            return Err(io::Error::from(io::ErrorKind::NotADirectory));
        }
        let no_name = || io::Error::from(io::ErrorKind::InvalidInput);
        let (dir, name) = (path.parent().ok_or_else(no_name)?, path.file_name().ok_or_else(no_name)?);
        self.make(dir)?;
        let mut unfinished = std::ffi::OsString::from(".");
        unfinished.push(name);
        unfinished.push(".part");
        let unfinished = dir.join(unfinished);
        let written = write(&unfinished, upload).and_then(|()| fs::rename(&unfinished, path));
        if written.is_err() {
            // Free the space on a full disk. If this fails, the next attempt overwrites the file.
            let _ = fs::remove_file(&unfinished);
        }
        written.and_then(|()| sync(dir))
    }

    /// Creates a directory below the root, durably.
    fn make(&self, dir: &Path) -> io::Result<()> {
        if dir == self.root || fs::symlink_metadata(dir).is_ok_and(|found| found.is_dir()) {
            return Ok(());
        }
        if dir.is_symlink() {
            let because = format!("{} is a symbolic link, and nothing is written through one", dir.display());
            return Err(io::Error::other(because));
        }
        if let Some(parent) = dir.parent().filter(|parent| parent.starts_with(&self.root)) {
            self.make(parent)?;
            match fs::create_dir(dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => sync(parent)?,
            }
        }
        Ok(())
    }
}

/// Writes a new file and verifies it by reading.
fn write(path: &Path, upload: &Upload<'_>) -> io::Result<()> {
    // Of a try before, or a link that somebody prepared.
    found(fs::remove_file(path))?;
    let mut file = File::create_new(path)?;
    let mut from = upload.reader()?;
    let mut block = vec![0; BLOCK];
    loop {
        match from.read(&mut block) {
            Ok(0) => break,
            Ok(read) => file.write_all(&block[..read])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    file.sync_all()?;
    drop(file);
    if checksum(&mut File::open(path)?)? == (upload.bytes, upload.crc) {
        Ok(())
    } else {
        Err(io::Error::other("what arrived is not what was sent"))
    }
}

fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// `None` if the object does not exist.
fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl Store for Folder {
    fn put(&self, key: &str, upload: &Upload<'_>) -> Result<(), ShipError> {
        let path = self.root.join(key);
        self.put_at(&path, upload).map_err(|error| {
            if self.root.is_dir() {
                return ShipError::store("write", path.display(), error);
            }
            let because = "it is not there (it is not made, since it may be a file system that is not mounted)";
            ShipError::store("ship to", self.root.display(), because)
        })
    }

    fn stat(&self, key: &str) -> Result<Option<Stat>, ShipError> {
        let path = self.root.join(key);
        let stat =
            found(File::open(&path)).and_then(|file| file.map(|mut file| checksum(&mut file)).transpose());
        let stat = stat.map_err(|error| ShipError::store("read", path.display(), error))?;
        Ok(stat.map(|(bytes, crc)| Stat { bytes, crc: Some(crc) }))
    }

    fn get(&self, key: &str, most: u64) -> Result<Option<Vec<u8>>, ShipError> {
        let path = self.root.join(key);
        let read = |file: File| {
            let mut bytes = Vec::new();
            file.take(most).read_to_end(&mut bytes).map(|_| bytes)
        };
        let bytes = found(File::open(&path)).and_then(|file| file.map(read).transpose());
        bytes.map_err(|error| ShipError::store("read", path.display(), error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_there_and_a_root_that_is_not_is_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path());
        assert_eq!(folder.stat("h/r/a").unwrap(), None);
        for bytes in [&b"first"[..], b"", b"another"] {
            folder.put("h/r/a", &Upload::bytes(bytes)).unwrap();
            assert_eq!(folder.get("h/r/a", 3).unwrap().unwrap(), bytes[..bytes.len().min(3)]);
            let crc = Some(crc32fast::hash(bytes));
            assert_eq!(folder.stat("h/r/a").unwrap(), Some(Stat { bytes: bytes.len() as u64, crc }));
        }
        assert_eq!(fs::read_dir(dir.path().join("h/r")).unwrap().count(), 1, "nothing unfinished is left");

        let away = Folder::new(&dir.path().join("away"));
        let error = away.put("h/r/a", &Upload::bytes(b"x")).unwrap_err();
        assert!(error.to_string().contains("not mounted"), "{error}");
        assert!(!dir.path().join("away").exists());
    }

    #[test]
    fn nothing_is_written_through_a_link_below_the_root() {
        use std::os::unix::fs::symlink;
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folder = Folder::new(dir.path());
        symlink(other.path(), dir.path().join("h")).unwrap();
        let error = folder.put("h/r/a", &Upload::bytes(b"x")).unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{error}");
        let precious = other.path().join("precious");
        fs::write(&precious, "mine").unwrap();
        fs::create_dir(dir.path().join("i")).unwrap();
        for name in [".a.part", "a"] {
            symlink(&precious, dir.path().join("i").join(name)).unwrap();
        }
        folder.put("i/a", &Upload::bytes(b"x")).unwrap();
        assert_eq!(fs::read(&precious).unwrap(), b"mine");
        assert_eq!(folder.get("i/a", 9).unwrap().unwrap(), b"x");
        assert!(!dir.path().join("i/a").is_symlink());
        assert_eq!(fs::read_dir(other.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_parcel_that_is_not_what_it_says_does_not_arrive() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path());
        let upload = Upload { crc: 1, ..Upload::bytes(b"bytes") };
        assert!(folder.put("h/a", &upload).unwrap_err().to_string().contains("not what was sent"));
        assert_eq!(fs::read_dir(dir.path().join("h")).unwrap().count(), 0);
    }
}

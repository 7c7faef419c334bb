//! Output files of an export, under a temporary name until complete.

use super::compress::Compression;
use crate::failure::{Hint, Usage};
use crate::files;
use anyhow::{Context, Result};
use magscope_export::{ExportError, Output};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Write buffer, bytes.
const BUFFER: usize = 256 << 10;

/// A file or directory in progress.
#[derive(Debug)]
pub struct Target {
    /// `None`: stdout.
    place: Option<Place>,
    compression: Option<Compression>,
}

#[derive(Debug)]
struct Place {
    path: PathBuf,
    /// In the same directory, so that the rename is atomic.
    partial: PathBuf,
    is_dir: bool,
    done: bool,
}

impl Target {
    /// Stdout.
    pub fn stdout(compression: Option<Compression>) -> Self {
        Target { place: None, compression }
    }

    /// A file for concurrent readers, with its final name from the start.
    pub fn growing(mut self) -> Self {
        if let Some(place) = &mut self.place {
            place.partial = place.path.clone();
            place.done = true;
        }
        self
    }

    /// A file or directory of this name. It must not exist unless replacement is permitted.
    pub fn at(path: &Path, is_dir: bool, replace: bool, compression: Option<Compression>) -> Result<Self> {
        let Some(name) = path.file_name() else {
            return Err(Usage(format!("`{}` names no file; give it a name", path.display())).into());
        };
        files::refuse_link(path)?;
        if let Ok(found) = fs::symlink_metadata(path) {
            if !replace {
                let text = format!("{} exists already; give another name, or --replace", path.display());
                return Err(Usage(text).into());
            }
            // Only an earlier export may be replaced, not a directory with other content.
            if found.is_dir() != is_dir || is_dir && !is_ours(path) {
                let text =
                    format!("{} is not what an export of this format makes; give another name", path.display());
                return Err(Usage(text).into());
            }
        }
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".part-{}", std::process::id()));
        let place =
            Place { path: path.to_path_buf(), partial: path.with_file_name(hidden), is_dir, done: false };
        if is_dir {
            fs::create_dir(&place.partial).with_context(|| cannot(path))?;
        }
        Ok(Target { place: Some(place), compression })
    }

    /// A file of the export, by its name within it.
    pub fn create(&self, name: &str) -> io::Result<Box<dyn Output>> {
        let Some(place) = &self.place else {
            return self.compressed(Plain(BufWriter::with_capacity(BUFFER, Sink::Stdout(io::stdout()))));
        };
        let path = if place.is_dir {
            let name = self.compression.map_or_else(|| name.to_owned(), |c| format!("{name}.{}", c.suffix()));
            let path = place.partial.join(name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            path
        } else {
            place.partial.clone()
        };
        self.compressed(Plain(BufWriter::with_capacity(BUFFER, Sink::File(files::create(&path)?))))
    }

    fn compressed(&self, plain: Plain) -> io::Result<Box<dyn Output>> {
        match self.compression {
            Some(compression) => compression.wrap(Box::new(plain)),
            None => Ok(Box::new(plain)),
        }
    }

    /// Renames the output to its final name. Returns its size in bytes, unless it is a stream.
    pub fn commit(mut self) -> Result<Option<u64>> {
        let Some(place) = &mut self.place else { return Ok(None) };
        if place.done {
            return Ok(Some(size(&place.path)));
        }
        let bytes = size(&place.partial);
        let old = place
            .path
            .with_file_name(format!("{}.old", place.partial.file_name().unwrap_or_default().to_string_lossy()));
        // A rename cannot replace a directory that is not empty.
        let replaced = place.is_dir && place.path.exists();
        if replaced {
            fs::rename(&place.path, &old).with_context(|| cannot(&place.path))?;
        }
        fs::rename(&place.partial, &place.path).with_context(|| cannot(&place.path))?;
        place.done = true;
        if replaced {
            fs::remove_dir_all(&old).with_context(|| cannot(&old))?;
        }
        Ok(Some(bytes))
    }
}

impl Drop for Place {
    /// Removes an incomplete output.
    fn drop(&mut self) {
        if !self.done {
            // The original error is more useful than one of the removal.
            let _ =
                if self.is_dir { fs::remove_dir_all(&self.partial) } else { fs::remove_file(&self.partial) };
        }
    }
}

/// True if a directory contains only files with export extensions.
fn is_ours(dir: &Path) -> bool {
    let ours = |entry: &fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let table = name.split('.').next().unwrap_or_default();
        table.parse::<magscope_export::Table>().is_ok() || name == "metadata" || name.starts_with("stream_")
    };
    fs::read_dir(dir).is_ok_and(|entries| entries.flatten().all(|entry| ours(&entry)))
}

/// Size of a file or of all files in a directory, bytes.
fn size(path: &Path) -> u64 {
    match fs::read_dir(path) {
        Ok(entries) => entries.flatten().map(|entry| size(&entry.path())).sum(),
        Err(_) => fs::metadata(path).map_or(0, |found| found.len()),
    }
}

/// Error for a failed write.
pub fn cannot(path: &Path) -> Hint {
    Hint::new(
        format!("cannot write {}", path.display()),
        "the disk is full, or the directory does not exist or may not be written to",
        "give another place with --output; nothing is left under that name",
    )
}

/// Error of an export: only a failed write has the likely causes of one.
pub fn failed(path: &Path, error: ExportError) -> anyhow::Error {
    let hint = match &error {
        ExportError::Io(_) => cannot(path),
        _ => Hint::new(format!("cannot write {}", path.display()), "", ""),
    };
    anyhow::Error::new(error).context(hint)
}

enum Sink {
    File(File),
    Stdout(io::Stdout),
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::File(file) => file.write(bytes),
            Sink::Stdout(stdout) => stdout.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::File(file) => file.flush(),
            Sink::Stdout(stdout) => stdout.flush(),
        }
    }
}

/// An uncompressed file.
struct Plain(BufWriter<Sink>);

impl Write for Plain {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Output for Plain {
    fn close(mut self: Box<Self>) -> io::Result<()> {
        self.0.flush()?;
        match self.0.get_mut() {
            // Write errors must be detected before the rename.
            Sink::File(file) => file.sync_all(),
            Sink::Stdout(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::parts;

    #[test]
    fn only_a_failed_write_blames_the_disk() {
        let likely = |error| parts(&failed(Path::new("a.pcapng"), error)).1;
        let full = likely(ExportError::Io(io::Error::from(io::ErrorKind::StorageFull)));
        assert!(full.contains("the disk is full"), "{full}");
        let other = likely(ExportError::Format("no packets pass at the chosen hops".to_owned()));
        assert_eq!(other, "no packets pass at the chosen hops");
    }
}

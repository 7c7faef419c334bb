//! Local recordings and their pending files.

use crate::error::ShipError;
use crate::ledger::Ledger;
use magscope_session::{META, Table};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Location of recordings.
#[derive(Clone, Debug)]
pub enum LocalStore {
    /// A single recording in this directory.
    One(PathBuf),
    /// All recordings directly below a directory whose names match.
    Below {
        /// The directory.
        dir: PathBuf,
        /// Predicate for names of recordings. Recordings are uploaded in name order.
        ours: fn(&str) -> bool,
    },
}

/// A recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Directory.
    pub dir: PathBuf,
    /// Name: the last path component.
    pub name: String,
}

impl LocalStore {
    /// The recordings, oldest first. Links and directories without `meta.toml` are ignored.
    pub fn recordings(&self) -> Result<Vec<Recording>, ShipError> {
        let (dir, ours) = match self {
            Self::One(dir) => {
                // Canonical path. A recording that has not started is skipped.
                let dir = match fs::canonicalize(dir) {
                    Ok(dir) => dir,
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
                    Err(source) => {
                        return Err(ShipError::Local { operation: "find", path: dir.clone(), source });
                    }
                };
                let name = dir.file_name().map_or_else(|| "recording".into(), |name| name.to_string_lossy());
                let name = name.into_owned();
                let is_recording = dir.join(META).is_file();
                return Ok(is_recording.then_some(Recording { dir, name }).into_iter().collect());
            }
            Self::Below { dir, ours } => (dir, ours),
        };
        let mut found = Vec::new();
        for entry in fs::read_dir(dir).map_err(ShipError::local("list", dir))? {
            let entry = entry.map_err(ShipError::local("list", dir))?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let is_recording =
                || entry.file_type().is_ok_and(|kind| kind.is_dir()) && entry.path().join(META).is_file();
            if ours(&name) && is_recording() {
                found.push(Recording { dir: entry.path(), name });
            }
        }
        found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }
}

impl Recording {
    /// Its segments with their tables, in upload order. The index is last, so that its targets are present.
    pub fn segments(&self) -> Result<BTreeMap<u32, Vec<Table>>, ShipError> {
        let mut segments = BTreeMap::<u32, Vec<Table>>::new();
        for entry in fs::read_dir(&self.dir).map_err(ShipError::local("list", &self.dir))? {
            let entry = entry.map_err(ShipError::local("list", &self.dir))?;
            if let Some((table, segment)) = entry.file_name().to_str().and_then(Table::parse) {
                segments.entry(segment).or_default().push(table);
            }
        }
        let order = |table: &Table| Table::ALL.iter().position(|other| other == table);
        for tables in segments.values_mut() {
            tables.sort_unstable_by_key(order);
        }
        Ok(segments)
    }
}

/// True if a segment is completely uploaded.
pub(crate) fn has_arrived(ledger: &Ledger, segment: u32, tables: &[Table]) -> bool {
    tables.iter().all(|table| ledger.arrived(&table.file_name(segment)).is_some())
}

/// Number of segments of a recording that are not yet uploaded to `place`.
pub fn unshipped(dir: &Path, place: &str) -> Result<u64, ShipError> {
    let recording = Recording { dir: dir.to_path_buf(), name: String::new() };
    let ledger = Ledger::read(dir, place)?;
    Ok(recording.segments()?.iter().filter(|(number, tables)| !has_arrived(&ledger, **number, tables)).count()
        as u64)
}

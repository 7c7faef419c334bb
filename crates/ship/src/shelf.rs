//! The recordings that lie here, and what of them there is to ship.

use crate::error::ShipError;
use crate::ledger::Ledger;
use magscope_session::{META, Table};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Where recordings lie.
#[derive(Clone, Debug)]
pub enum Shelf {
    /// One, in this directory.
    One(PathBuf),
    /// All that lie directly below a directory and have such a name.
    Below {
        /// The directory.
        dir: PathBuf,
        /// Whether a name is one of ours. By their order the recordings are shipped.
        ours: fn(&str) -> bool,
    },
}

/// A recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lot {
    /// Its directory.
    pub dir: PathBuf,
    /// Its name: the last part.
    pub name: String,
}

impl Shelf {
    /// The recordings, oldest first. A link is none, nor is a directory without `meta.toml`.
    pub fn lots(&self) -> Result<Vec<Lot>, ShipError> {
        let (dir, ours) = match self {
            Self::One(dir) => {
                // By its real name, whichever way it was written. One that has not begun yet is none.
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
                return Ok(is_recording.then_some(Lot { dir, name }).into_iter().collect());
            }
            Self::Below { dir, ours } => (dir, ours),
        };
        let mut lots = Vec::new();
        for entry in fs::read_dir(dir).map_err(ShipError::local("list", dir))? {
            let entry = entry.map_err(ShipError::local("list", dir))?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let is_recording =
                || entry.file_type().is_ok_and(|kind| kind.is_dir()) && entry.path().join(META).is_file();
            if ours(&name) && is_recording() {
                lots.push(Lot { dir: entry.path(), name });
            }
        }
        lots.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(lots)
    }
}

impl Lot {
    /// Its segments and which tables each has, in the order in which they are shipped: the index last, so that what it points at is
    /// there before.
    pub fn segments(&self) -> Result<BTreeMap<u32, Vec<Table>>, ShipError> {
        let mut segments = BTreeMap::<u32, Vec<Table>>::new();
        for entry in fs::read_dir(&self.dir).map_err(ShipError::local("list", &self.dir))? {
            let entry = entry.map_err(ShipError::local("list", &self.dir))?;
            if let Some((table, segment)) = entry.file_name().to_str().and_then(Table::parse) {
                segments.entry(segment).or_default().push(table);
            }
        }
        let order = |table: &Table| Table::ALL.iter().position(|known| known == table);
        for tables in segments.values_mut() {
            tables.sort_unstable_by_key(order);
        }
        Ok(segments)
    }
}

/// Whether all of a segment has arrived.
pub(crate) fn has_arrived(ledger: &Ledger, segment: u32, tables: &[Table]) -> bool {
    tables.iter().all(|table| ledger.arrived(&table.file_name(segment)).is_some())
}

/// How many of a recording's segments are nowhere else, where recordings are shipped to `place`.
pub fn unshipped(dir: &Path, place: &str) -> Result<u64, ShipError> {
    let lot = Lot { dir: dir.to_path_buf(), name: String::new() };
    let ledger = Ledger::read(dir, place)?;
    Ok(lot.segments()?.iter().filter(|(number, tables)| !has_arrived(&ledger, **number, tables)).count() as u64)
}

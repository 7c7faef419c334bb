//! One pass over the recordings: uploads in order all files that have not been uploaded.

use crate::error::ShipError;
use crate::ledger::Ledger;
use crate::local_store::{LocalStore, Recording, has_arrived};
use crate::store::{Store, Upload};
use magscope_session::{META, Meta, Shipped, Table, is_being_recorded};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Maximum size of a `meta.toml` read from the store, bytes.
const LONGEST_META: u64 = 4 << 20;

/// A recording that is being recorded.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) dir: PathBuf,
    /// Segments below this number are closed.
    pub(crate) segment: u32,
    /// Receives the uploaded files.
    pub(crate) shipped: Shipped,
}

/// Progress counters for other threads.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) segments: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) waiting: AtomicU64,
    /// Recordings that cannot be uploaded at all. They do not wait.
    pub(crate) refused: AtomicU64,
    /// Why the first of them cannot.
    pub(crate) refused_because: Mutex<Option<String>>,
}

/// State of an incompletely uploaded recording.
struct Parted {
    ledger: Ledger,
    /// `None` until the first answer of the store.
    greeted: Option<RemoteState>,
    /// Modification time and size of `meta.toml` at the last comparison with the stored copy.
    meta_of: Option<(SystemTime, u64)>,
}

/// The store's state of a recording.
struct RemoteState {
    /// `host/recording`
    key: String,
    /// An unrecorded stored file may be our own: the process may have been killed before the ledger entry.
    may_be_there: bool,
}

/// Uploads to one store.
pub(crate) struct Uploader {
    store: Box<dyn Store>,
    place: String,
    local: LocalStore,
    parted: HashMap<PathBuf, Parted>,
    /// Completely uploaded recordings.
    done: HashSet<PathBuf>,
    /// Recordings that cannot be uploaded at all, and why.
    refused: BTreeMap<PathBuf, String>,
}

impl Uploader {
    pub(crate) fn new(store: Box<dyn Store>, place: String, local: LocalStore) -> Self {
        let (parted, done, refused) = Default::default();
        Uploader { store, place, local, parted, done, refused }
    }

    /// Uploads all closed segments. The first error ends the pass; the next pass resumes there. `may_go_on` is
    /// called before each file.
    pub(crate) fn walk(
        &mut self,
        running: &dyn Fn() -> Vec<Running>,
        counts: &Counts,
        may_go_on: &dyn Fn() -> bool,
    ) -> Result<(), ShipError> {
        for recording in self.open_recordings()? {
            // Queried for each recording, because it may have been closed meanwhile.
            let its = running().into_iter().find(|running| running.dir == recording.dir);
            match self.upload_recording(&recording, its.as_ref(), counts, may_go_on) {
                Ok(()) => {}
                Err(error) if error.is_gone() && !recording.dir.join(META).exists() => {
                    self.parted.remove(&recording.dir);
                }
                Err(error) => {
                    if error.is_for_good() {
                        self.refused.insert(recording.dir, error.to_string());
                    }
                    return Err(error);
                }
            }
            if !may_go_on() {
                break;
            }
        }
        Ok(())
    }

    /// Counts the closed segments that have not arrived, and the recordings that are refused.
    pub(crate) fn count(&mut self, running: &[Running], counts: &Counts) -> Result<(), ShipError> {
        let mut waiting = 0;
        for recording in self.open_recordings()? {
            let its = running.iter().find(|running| running.dir == recording.dir);
            // The pass reports unreadable recordings.
            let (Ok(segments), Ok(parted)) = (recording.segments(), self.parted(&recording)) else { continue };
            let ledger = &parted.ledger;
            let closed = segments.iter().filter(|(number, _)| its.is_none_or(|its| **number < its.segment));
            waiting += closed.filter(|(number, tables)| !has_arrived(ledger, **number, tables)).count();
        }
        counts.waiting.store(waiting as u64, Relaxed);
        counts.refused.store(self.refused.len() as u64, Relaxed);
        let because = self.refused.values().next().cloned();
        *counts.refused_because.lock().unwrap_or_else(PoisonError::into_inner) = because;
        Ok(())
    }

    /// Recordings that are not completely uploaded. State of deleted recordings is removed.
    fn open_recordings(&mut self) -> Result<Vec<Recording>, ShipError> {
        let mut pending = self.local.recordings()?;
        let there: HashSet<&PathBuf> = pending.iter().map(|recording| &recording.dir).collect();
        self.done.retain(|dir| there.contains(dir));
        self.refused.retain(|dir, _| there.contains(dir));
        self.parted.retain(|dir, _| there.contains(dir));
        pending.retain(|recording| {
            !self.done.contains(&recording.dir) && !self.refused.contains_key(&recording.dir)
        });
        Ok(pending)
    }

    fn parted(&mut self, recording: &Recording) -> Result<&mut Parted, ShipError> {
        Ok(match self.parted.entry(recording.dir.clone()) {
            Entry::Occupied(existing) => existing.into_mut(),
            Entry::Vacant(unknown) => {
                let ledger = Ledger::read(&recording.dir, &self.place)?;
                unknown.insert(Parted { ledger, greeted: None, meta_of: None })
            }
        })
    }

    /// Uploads the closed part of one recording.
    fn upload_recording(
        &mut self,
        recording: &Recording,
        running: Option<&Running>,
        counts: &Counts,
        may_go_on: &dyn Fn() -> bool,
    ) -> Result<(), ShipError> {
        if running.is_none() && is_being_recorded(&recording.dir) {
            let because = "it is being recorded; it can be shipped when that has ended".to_owned();
            return Err(refused(recording, because));
        }
        self.parted(recording)?;
        let Some(mut parted) = self.parted.remove(&recording.dir) else { return Ok(()) };
        let result = self.whole(recording, &mut parted, running, counts, may_go_on);
        if matches!(result, Ok(true)) && running.is_none() {
            self.done.insert(recording.dir.clone());
        } else {
            self.parted.insert(recording.dir.clone(), parted);
        }
        result.map(|_| ())
    }

    fn whole(
        &self,
        recording: &Recording,
        parted: &mut Parted,
        running: Option<&Running>,
        counts: &Counts,
        may_go_on: &dyn Fn() -> bool,
    ) -> Result<bool, ShipError> {
        if parted.greeted.is_none() {
            parted.greeted = Some(self.greet(recording)?);
        }
        self.rest(recording, parted, running, counts, may_go_on)
    }

    /// Compares a recording with the store for the first time.
    fn greet(&self, recording: &Recording) -> Result<RemoteState, ShipError> {
        let meta = meta_of(recording)?;
        let key = format!("{}/{}", plain(&meta.node.host), plain(&recording.name));
        let there = self.store.get(&format!("{key}/{META}"), LONGEST_META)?;
        if let Some(there) = &there {
            let session = Meta::session_of(&String::from_utf8_lossy(there));
            if session.is_some_and(|session| session != meta.session) {
                let place = format!("{}/{key}", self.place);
                return Err(ShipError::Taken { place, dir: recording.dir.clone() });
            }
        }
        Ok(RemoteState { may_be_there: there.is_some(), key })
    }

    /// Uploads the rest; returns true if complete.
    fn rest(
        &self,
        recording: &Recording,
        parted: &mut Parted,
        running: Option<&Running>,
        counts: &Counts,
        may_go_on: &dyn Fn() -> bool,
    ) -> Result<bool, ShipError> {
        // The metadata comes first, so that a partial recording is readable.
        if parted.ledger.arrived(META).is_none() {
            self.meta(recording, parted)?;
        }
        let segments: BTreeMap<u32, Vec<Table>> = recording.segments()?;
        let closed = segments.into_iter().filter(|(number, _)| running.is_none_or(|its| *number < its.segment));
        for (number, tables) in closed {
            if !has_arrived(&parted.ledger, number, &tables) {
                match self.segment(recording, parted, (number, &tables), counts, may_go_on) {
                    Ok(true) => {
                        counts.segments.fetch_add(1, Relaxed);
                        // An estimate between two recounts.
                        let _ = counts.waiting.fetch_update(Relaxed, Relaxed, |waiting| waiting.checked_sub(1));
                    }
                    Ok(false) => return Ok(false),
                    // Retention deleted the segment first, and has counted it.
                    Err(error) if error.is_gone() && parted.ledger.is_there() => continue,
                    Err(error) => return Err(error),
                }
            }
            if let Some(running) = running {
                running.shipped.set_below(number + 1);
            }
        }
        if running.is_none() {
            // At the end the file is read regardless of its modification time.
            parted.meta_of = None;
        }
        self.meta(recording, parted)?;
        Ok(true)
    }

    /// Uploads one segment; returns true if complete.
    fn segment(
        &self,
        recording: &Recording,
        parted: &mut Parted,
        (number, tables): (u32, &[Table]),
        counts: &Counts,
        may_go_on: &dyn Fn() -> bool,
    ) -> Result<bool, ShipError> {
        for table in tables {
            let name = table.file_name(number);
            if parted.ledger.arrived(&name).is_some() {
                continue;
            }
            if !may_go_on() {
                return Ok(false);
            }
            let path = recording.dir.join(&name);
            let file = File::open(&path).map_err(ShipError::local("open", &path))?;
            let upload = Upload::file(&file).map_err(ShipError::local("read", &path))?;
            self.carry(parted, &name, &upload)?;
            counts.bytes.fetch_add(upload.bytes, Relaxed);
        }
        Ok(true)
    }

    /// Uploads `meta.toml` if it differs from the stored copy.
    fn meta(&self, recording: &Recording, parted: &mut Parted) -> Result<(), ShipError> {
        let path = recording.dir.join(META);
        let found = fs::metadata(&path).map_err(ShipError::local("look at", &path))?;
        // The file is replaced atomically, so time and size identify it.
        let written = found.modified().ok().map(|at| (at, found.len()));
        if written.is_some() && parted.meta_of == written {
            return Ok(());
        }
        let text = meta_of(recording)?.of_copy().map_err(|error| refused(recording, error.to_string()))?;
        let upload = Upload::bytes(text.as_bytes());
        if parted.ledger.arrived(META) != Some((upload.bytes, upload.crc)) {
            self.carry(parted, META, &upload)?;
        }
        parted.meta_of = written;
        Ok(())
    }

    fn carry(&self, parted: &mut Parted, name: &str, upload: &Upload<'_>) -> Result<(), ShipError> {
        let Some(RemoteState { key, may_be_there }) = &parted.greeted else { return Ok(()) };
        let key = format!("{key}/{name}");
        let is_there = *may_be_there
            && self
                .store
                .stat(&key)?
                .is_some_and(|stat| stat.bytes == upload.bytes && stat.crc == Some(upload.crc));
        if !is_there {
            self.store.put(&key, upload)?;
        }
        parted.ledger.add(name, upload.bytes, upload.crc)
    }
}

/// Metadata of a recording.
fn meta_of(recording: &Recording) -> Result<Meta, ShipError> {
    match Meta::load(&recording.dir) {
        Ok(Some(meta)) => Ok(meta),
        Ok(None) | Err(_) if !recording.dir.join(META).exists() => {
            let (path, source) = (recording.dir.join(META), std::io::ErrorKind::NotFound.into());
            Err(ShipError::Local { operation: "read", path, source })
        }
        Ok(None) => Err(refused(recording, "its meta.toml cannot be read".to_owned())),
        Err(error) => Err(refused(recording, error.to_string())),
    }
}

fn refused(recording: &Recording, because: String) -> ShipError {
    ShipError::NoRecording { dir: recording.dir.clone(), because }
}

/// A name as part of a key, without characters that are special in paths or URLs.
fn plain(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' })
        .take(200)
        .collect();
    if plain.chars().all(|c| c == '.') { "_".repeat(plain.len().max(1)) } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parts_of_keys() {
        for (name, expected) in [
            ("web-1", "web-1"),
            ("a b/c", "a_b_c"),
            ("..", "__"),
            ("", "_"),
            ("2026-11-22T12-00-00Z", "2026-11-22T12-00-00Z"),
        ] {
            assert_eq!(plain(name), expected);
        }
    }
}

//! Limits over all recordings below a directory: the oldest are deleted first, in a separate thread, because
//! deletion is slow.

use super::names;
use crate::output;
use anyhow::{Context, Result};
use magscope_scope::format::counted;
use magscope_session::{META, Table, is_being_recorded};
use magscope_ship::{LEDGER, LocalStore, Recording, unshipped};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

/// Interval of checks.
const LOOK: Duration = Duration::from_secs(1);

/// The limits.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The directory.
    pub dir: PathBuf,
    /// Total size of all recordings, bytes.
    pub total: Option<u64>,
    /// Maximum age of a recording after its end.
    pub keep_for: Option<Duration>,
    /// Upload destination: recordings are not deleted before their upload, unless the size limit requires it.
    pub shipped_to: Option<String>,
}

/// Deletion counters.
#[derive(Debug, Default)]
pub struct Deleted {
    /// Segments.
    pub segments: AtomicU64,
    /// Segments deleted before their upload.
    pub unshipped: AtomicU64,
}

/// The thread.
pub struct Retention {
    deleted: Arc<Deleted>,
    /// Recordings registered as running, independent of file locks.
    running: Arc<Mutex<Vec<PathBuf>>>,
    is_disk_full: Arc<AtomicBool>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Retention {
    /// Starts with an immediate check. The recording in `first` is running.
    pub fn start(limits: Limits, first: &Path) -> Result<Self> {
        let deleted = Arc::new(Deleted::default());
        let running = Arc::new(Mutex::new(vec![first.to_path_buf()]));
        let is_disk_full = Arc::new(AtomicBool::new(false));
        let mut pruner = Pruner {
            limits,
            deleted: Arc::clone(&deleted),
            running: Arc::clone(&running),
            is_disk_full: Arc::clone(&is_disk_full),
            ended: HashMap::new(),
            reported: None,
        };
        let (stop, stopped) = channel();
        let work = move || loop {
            pruner.look();
            if stopped.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
                break;
            }
        };
        let thread = std::thread::Builder::new().name("magscope-keep".into()).spawn(work);
        let thread = thread.context("cannot start the thread that holds recordings to their limits")?;
        Ok(Retention { deleted, running, is_disk_full, stop: Some(stop), thread: Some(thread) })
    }

    /// Protects a recording until [`Retention::ended`].
    pub fn began(&self, dir: &Path) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).push(dir.to_path_buf());
    }

    /// Marks a recording as closed.
    pub fn ended(&self, dir: &Path) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).retain(|running| running != dir);
    }

    /// On a full disk with a size limit, each check deletes the oldest recording.
    pub fn set_disk_full(&self, is_full: bool) {
        self.is_disk_full.store(is_full, Relaxed);
    }

    /// Deletion counters so far.
    pub fn deleted(&self) -> &Deleted {
        &self.deleted
    }
}

impl Drop for Retention {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A closed recording.
#[derive(Clone, Copy)]
struct Ended {
    bytes: u64,
    at: SystemTime,
}

struct Pruner {
    limits: Limits,
    deleted: Arc<Deleted>,
    running: Arc<Mutex<Vec<PathBuf>>>,
    is_disk_full: Arc<AtomicBool>,
    /// Measured once: only the ledger still changes.
    ended: HashMap<PathBuf, Ended>,
    /// The last error, which is reported once.
    reported: Option<String>,
}

impl Pruner {
    fn look(&mut self) {
        let error = match self.tidy() {
            Ok(()) => None,
            Err(error) => Some(format!("{error:#}")),
        };
        if let Some(because) = error.as_ref().filter(|_| error != self.reported) {
            output::note(&format!("the limits on recordings cannot be kept to: {because}"));
        }
        self.reported = error;
    }

    fn tidy(&mut self) -> Result<()> {
        let store = LocalStore::Below { dir: self.limits.dir.clone(), ours: names::is_ours };
        let recordings = store.recordings()?;
        // Read after the listing starts: earlier recordings are included, and later ones are not in the list.
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.ended.retain(|dir, _| recordings.iter().any(|recording| recording.dir == *dir));
        let (mut total, mut ended) = (0, Vec::new());
        for recording in recordings {
            if running.contains(&recording.dir) || is_being_recorded(&recording.dir) {
                total += measure(&recording.dir)?.bytes;
                continue;
            }
            let measured = match self.ended.get(&recording.dir) {
                Some(measured) => *measured,
                None => measure(&recording.dir)?,
            };
            self.ended.insert(recording.dir.clone(), measured);
            total += measured.bytes;
            ended.push((recording, measured));
        }
        for (recording, measured) in ended {
            // One per check: the writer then reports the free space.
            let is_for_room = self.limits.total.is_some() && self.is_disk_full.swap(false, Relaxed);
            let is_too_much = self.limits.total.is_some_and(|limit| total > limit) || is_for_room;
            let age = SystemTime::now().duration_since(measured.at).unwrap_or_default();
            let is_too_old = self.limits.keep_for.is_some_and(|longest| age > longest);
            if !is_too_much && !is_too_old {
                continue;
            }
            let missing =
                self.limits.shipped_to.as_deref().map_or(Ok(0), |place| unshipped(&recording.dir, place))?;
            if !is_too_much && missing > 0 {
                continue;
            }
            let by = match (is_for_room, is_too_much) {
                (true, _) => "--total-limit, because the disk is full",
                (_, true) => "--total-limit",
                _ => "--keep-for",
            };
            self.delete(&recording, missing, by)?;
            total -= measured.bytes;
        }
        Ok(())
    }

    fn delete(&mut self, recording: &Recording, unshipped: u64, by: &str) -> Result<()> {
        let segments = recording.segments()?;
        let remove = |name: &str| match fs::remove_file(recording.dir.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot delete {}", recording.dir.join(name).display()))
            }
            _ => Ok(()),
        };
        for (number, tables) in &segments {
            tables.iter().try_for_each(|table: &Table| remove(&table.file_name(*number)))?;
        }
        remove(LEDGER)?;
        remove("meta.toml.tmp")?;
        // Deleted last: while present, the directory counts as a recording and a later run can delete it.
        remove(META)?;
        self.ended.remove(&recording.dir);
        self.deleted.segments.fetch_add(segments.len() as u64, Relaxed);
        self.deleted.unshipped.fetch_add(unshipped, Relaxed);
        let what = counted(segments.len() as u64, "segment", "segments");
        let lost = if unshipped > 0 { format!(", {unshipped} OF THEM UNSHIPPED") } else { String::new() };
        output::note(&format!("{} deleted, by {by}: {what}{lost}", recording.dir.display()));
        if let Err(error) = fs::remove_dir(&recording.dir) {
            output::note(&format!(
                "{} stays, with what is no part of a recording: {error}",
                recording.dir.display()
            ));
        }
        Ok(())
    }
}

/// Size and end of a recording, from its files.
fn measure(dir: &Path) -> Result<Ended> {
    let mut ended = Ended { bytes: 0, at: SystemTime::UNIX_EPOCH };
    let listed = || format!("cannot list {}", dir.display());
    for entry in fs::read_dir(dir).with_context(listed)? {
        // A file may disappear meanwhile, because the recorder applies its own limits.
        let Ok(found) = entry.with_context(listed)?.metadata() else { continue };
        ended.bytes += found.len();
        // Last modification time; reading or ledger writes change it little.
        ended.at = found.modified().map_or(ended.at, |at| at.max(ended.at));
    }
    Ok(ended)
}

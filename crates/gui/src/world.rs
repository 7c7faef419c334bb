//! Interface to the surrounding program: files, captures, formats.

use crate::compare::Compared;
use crate::shared::Shared;
use magscope_scope::Scope;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// An error for a dialog: failure, cause and remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The failure and its object, as title.
    pub what: String,
    /// The causes, one per line.
    pub why: String,
    /// The remedy; empty if unknown.
    pub next: String,
}

/// A long job: its progress and its cancel flag.
#[derive(Clone, Debug, Default)]
pub struct Job(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// Progress in parts of 10 000.
    done: AtomicU32,
    cancelled: AtomicBool,
}

impl Job {
    /// Sets the progress, 0 to 1.
    pub fn at(&self, part: f64) {
        self.0.done.store((part.clamp(0.0, 1.0) * 10_000.0) as u32, Ordering::Relaxed);
    }

    /// Progress, 0 to 1.
    pub fn part(&self) -> f32 {
        self.0.done.load(Ordering::Relaxed) as f32 / 10_000.0
    }

    /// Cancels the job.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Relaxed);
    }

    /// True if cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Relaxed)
    }
}

/// Feeds events to a scope in a separate thread until [`Shared::is_ended`].
pub trait Feed: Send {
    /// Runs until its end is requested or no more data can arrive. The window shows the error.
    fn run(self: Box<Self>, scope: &Shared) -> Result<(), Trouble>;
}

/// An opened session.
pub struct Opened {
    /// Window title.
    pub title: String,
    /// The empty scope.
    pub scope: Scope,
    /// The feed.
    pub feed: Box<dyn Feed>,
    /// Notes for the user: damaged parts that were skipped.
    pub notes: Vec<String>,
    /// The recordings; empty for a live capture.
    pub dirs: Vec<PathBuf>,
}

/// A format that a selection can be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Name on the command line.
    pub name: &'static str,
    /// Description.
    pub words: &'static str,
    /// File name extension.
    pub ending: &'static str,
}

/// The part of recordings to export.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The recordings.
    pub dirs: Vec<PathBuf>,
    /// First instant, on the common time line.
    pub from_ns: u64,
    /// Last instant.
    pub to_ns: u64,
    /// Journey filter; empty for all.
    pub filter: String,
}

/// Interface to the surrounding program. Long calls run in separate threads.
pub trait World: Send + Sync {
    /// True if a directory is a recording.
    fn is_recording(&self, path: &Path) -> bool;

    /// Opens recordings.
    fn open(&self, dirs: &[PathBuf], job: &Job) -> Result<Opened, Trouble>;

    /// Compares two sets of recordings.
    fn compare(&self, before: &[PathBuf], after: &[PathBuf], job: &Job) -> Result<Compared, Trouble>;

    /// The formats that [`World::export`] can write.
    fn formats(&self) -> &'static [Format];

    /// Exports a part of recordings. Returns a message.
    fn export(&self, part: &Part, format: Format, to: &Path, job: &Job) -> Result<String, Trouble>;

    /// Writes a new file; an existing one is an error.
    fn write(&self, to: &Path, bytes: &[u8]) -> Result<(), Trouble>;

    /// The saved settings as text; empty if there are none.
    fn settings(&self) -> String;

    /// Saves the settings.
    fn keep(&self, settings: &str);

    /// Initial directory of a file picker.
    fn home(&self) -> PathBuf;
}

//! What only the program around the window can do: files, captures, formats.

use crate::compare::Compared;
use crate::shared::Shared;
use magscope_scope::Scope;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// What went wrong, for a dialog: what failed, why, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What failed, on what, as the title.
    pub what: String,
    /// Why, a line a cause.
    pub why: String,
    /// What to do next; empty where nobody knows.
    pub next: String,
}

/// A long job: how far it is, and whether it is still wanted.
#[derive(Clone, Debug, Default)]
pub struct Job(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// Parts of 10 000.
    done: AtomicU32,
    cancelled: AtomicBool,
}

impl Job {
    /// So much of it is done, 0 to 1.
    pub fn at(&self, part: f64) {
        self.0.done.store((part.clamp(0.0, 1.0) * 10_000.0) as u32, Ordering::Relaxed);
    }

    /// How much of it is done, 0 to 1.
    pub fn part(&self) -> f32 {
        self.0.done.load(Ordering::Relaxed) as f32 / 10_000.0
    }

    /// It is no longer wanted.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether it is no longer wanted.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Relaxed)
    }
}

/// What brings events to a scope, in a thread of its own, until [`Shared::is_ended`].
pub trait Feed: Send {
    /// Runs until it is asked to end or nothing more can come. The error is shown.
    fn run(self: Box<Self>, scope: &Shared) -> Result<(), Trouble>;
}

/// Something to look at.
pub struct Opened {
    /// What the window is called.
    pub title: String,
    /// The scope, empty still.
    pub scope: Scope,
    /// What fills it.
    pub feed: Box<dyn Feed>,
    /// What is to be said of it: what was damaged and left out.
    pub notes: Vec<String>,
    /// The recordings, empty where it is live.
    pub dirs: Vec<PathBuf>,
}

/// A format that a selection can be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is, in words.
    pub words: &'static str,
    /// How names of such files end.
    pub ending: &'static str,
}

/// What of the recordings is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The recordings.
    pub dirs: Vec<PathBuf>,
    /// First instant, on the common time line.
    pub from_ns: u64,
    /// Last instant.
    pub to_ns: u64,
    /// Only journeys for which this holds; empty lets all through.
    pub filter: String,
}

/// What only the program around the window can do. Everything that takes long is called in a thread of its own.
pub trait World: Send + Sync {
    /// Whether a directory is a recording.
    fn is_recording(&self, path: &Path) -> bool;

    /// Opens recordings.
    fn open(&self, dirs: &[PathBuf], job: &Job) -> Result<Opened, Trouble>;

    /// Compares what was before with what is after.
    fn compare(&self, before: &[PathBuf], after: &[PathBuf], job: &Job) -> Result<Compared, Trouble>;

    /// The formats that [`World::export`] can write.
    fn formats(&self) -> &'static [Format];

    /// Writes a part of recordings. Returns what was written, in words.
    fn export(&self, part: &Part, format: Format, to: &Path, job: &Job) -> Result<String, Trouble>;

    /// Writes a file that must not be there yet.
    fn write(&self, to: &Path, bytes: &[u8]) -> Result<(), Trouble>;

    /// The settings that were kept, as text; empty where there are none.
    fn settings(&self) -> String;

    /// Keeps the settings.
    fn keep(&self, settings: &str);

    /// Where a file picker begins.
    fn home(&self) -> PathBuf;
}

//! Queries the UTC sources periodically in a separate thread.

use super::{UtcBound, chrony, clockbound};
use crate::children;
use crate::clock::monotonic_ns;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Query interval, and its maximum without answers.
const EVERY: Duration = Duration::from_secs(4);
const SELDOM: Duration = Duration::from_secs(64);
/// Timeout for chronyc; its own timeout is longer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval at which the thread checks for its end.
const LOOK: Duration = Duration::from_millis(50);
/// Maximum length of an answer, which is one line.
const LONGEST_ANSWER: u64 = 4096;

/// The sources to query.
#[derive(Clone, Debug)]
pub struct UtcSources {
    /// The program that queries chronyd; `None` disables it.
    pub chronyc: Option<PathBuf>,
    /// Possible paths of `ClockBound`'s segment.
    pub clockbound: Vec<PathBuf>,
}

impl Default for UtcSources {
    fn default() -> Self {
        UtcSources {
            chronyc: Some(PathBuf::from("chronyc")),
            clockbound: clockbound::PATHS.map(PathBuf::from).to_vec(),
        }
    }
}

#[derive(Debug, Default)]
struct Shared {
    bound: Mutex<Option<UtcBound>>,
    /// Number of clock settings; an answer from before the last setting is invalid.
    settings: AtomicU64,
    over: AtomicBool,
}

/// The newest bound. The thread ends when this value is dropped.
#[derive(Debug)]
pub struct UtcWatch {
    shared: Arc<Shared>,
}

impl Drop for UtcWatch {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
    }
}

impl UtcWatch {
    /// Starts the queries. If no thread can be created, there is no bound.
    pub fn start(sources: UtcSources) -> Self {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        // A failed spawn costs the UTC bound and nothing else.
        let _ = thread::Builder::new().name("utc-watch".to_owned()).spawn(move || watch(&theirs, &sources));
        UtcWatch { shared }
    }

    /// Maximum error of `CLOCK_REALTIME` at an instant of `CLOCK_MONOTONIC`.
    pub fn error_at(&self, monotonic_ns: u64) -> Option<u64> {
        let bound = *self.shared.bound.lock().unwrap_or_else(PoisonError::into_inner);
        bound?.error_at(monotonic_ns)
    }

    /// Invalidates earlier bounds after the clock was set.
    pub fn clock_was_set(&self) {
        self.shared.settings.fetch_add(1, Ordering::SeqCst);
        *self.shared.bound.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn watch(shared: &Shared, sources: &UtcSources) {
    let mut pause = EVERY;
    while !shared.over.load(Ordering::Relaxed) {
        let settings = shared.settings.load(Ordering::SeqCst);
        let answer = ask(sources, shared);
        pause = if answer.is_some() { EVERY } else { (pause * 2).min(SELDOM) };
        {
            let mut bound = shared.bound.lock().unwrap_or_else(PoisonError::into_inner);
            if shared.settings.load(Ordering::SeqCst) == settings && answer.is_some() {
                *bound = answer;
            }
        }
        let until = Instant::now() + pause;
        while Instant::now() < until && !shared.over.load(Ordering::Relaxed) {
            thread::sleep(LOOK);
        }
    }
}

/// The smaller of the two bounds.
fn ask(sources: &UtcSources, shared: &Shared) -> Option<UtcBound> {
    let segment = sources.clockbound.iter().find_map(|path| read_clockbound(path));
    let daemon = sources.chronyc.as_ref().and_then(|chronyc| ask_chrony(chronyc, shared));
    let now = monotonic_ns();
    let worth = |bound: &UtcBound| bound.error_at(now);
    [segment, daemon].into_iter().flatten().filter(|b| worth(b).is_some()).min_by_key(worth)
}

/// A consistent copy: the generation did not change during the copy.
fn read_clockbound(path: &Path) -> Option<UtcBound> {
    let copy = || {
        let mut bytes = Vec::new();
        File::open(path).ok()?.take(clockbound::MOST_BYTES as u64).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    };
    let first = copy()?;
    (first == copy()?).then(|| clockbound::parse(&first).ok())?
}

fn ask_chrony(chronyc: &Path, shared: &Shared) -> Option<UtcBound> {
    // The answer refers to an instant from here on, and its bound grows: the earliest instant is the safe one.
    let asked_ns = monotonic_ns();
    let mut command = Command::new(chronyc);
    command.args(["-n", "-c", "tracking"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = {
        let _no_link_is_closed = children::alone();
        command.spawn().ok()?
    };
    let text = finished(&mut child, shared).then(|| {
        let mut text = String::new();
        child.stdout.take()?.take(LONGEST_ANSWER).read_to_string(&mut text).ok()?;
        Some(text)
    })??;
    chrony::parse(&text, asked_ns).ok()
}

/// Waits for a program, up to a timeout; returns true on success.
fn finished(child: &mut Child, shared: &Shared) -> bool {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end && !shared.over.load(Ordering::Relaxed) {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) => thread::sleep(LOOK / 10),
            Err(_) => break,
        }
    }
    // The child has ended or ends now; `wait` reaps it in both cases.
    let _ = child.kill();
    let _ = child.wait();
    false
}

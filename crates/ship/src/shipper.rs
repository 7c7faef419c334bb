//! The thread that uploads next to a recorder.

use crate::destination::Destination;
use crate::error::ShipError;
use crate::local_store::LocalStore;
use crate::uploader::{Counts, Running, Uploader};
use magscope_session::Shipped;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Retry delay: initial value, and maximum.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_mins(1));

/// Interval of unprompted passes and recounts.
const LOOK: Duration = Duration::from_secs(1);

/// Attempts of [`ship`].
const TRIES: u32 = 5;

/// State of the uploads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Segments uploaded since the start.
    pub segments: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Closed segments that are pending, as last counted.
    pub waiting: u64,
    /// Recordings that cannot be shipped, as last counted. Their segments do not wait.
    pub refused: u64,
    /// The current problem, if any; otherwise why recordings are refused.
    pub trouble: Option<String>,
}

#[derive(Default)]
struct State {
    running: Vec<Running>,
    /// No more segments follow: upload the rest while the store accepts it.
    finishing: bool,
    /// Stop at once.
    ending: bool,
    trouble: Option<String>,
    /// A segment was closed.
    news: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    counts: Counts,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn status(&self) -> Status {
        let trouble = self.state().trouble.clone();
        Status {
            segments: self.counts.segments.load(Relaxed),
            bytes: self.counts.bytes.load(Relaxed),
            waiting: self.counts.waiting.load(Relaxed),
            refused: self.counts.refused.load(Relaxed),
            trouble: trouble.or_else(|| self.refusal()),
        }
    }

    /// How many recordings are refused, and why the first one is.
    fn refusal(&self) -> Option<String> {
        let because = self.counts.refused_because.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        Some(match self.counts.refused.load(Relaxed) {
            0 | 1 => format!("a recording is refused: {because}"),
            many => format!("{many} recordings are refused; the first: {because}"),
        })
    }
}

/// Uploads the recordings on a shelf, and the closed segments of running ones.
pub struct Shipper {
    shared: Arc<Shared>,
    /// Disconnected when the thread has ended.
    end: Mutex<Receiver<()>>,
}

impl Shipper {
    /// Starts the thread, beginning with earlier recordings. `report` receives a line when uploads fail and when
    /// they resume.
    ///
    /// # Errors
    /// An invalid destination; an unreachable one is no error.
    pub fn start(
        destination: &Destination,
        source: LocalStore,
        report: impl Fn(&str) + Send + 'static,
    ) -> Result<Self, ShipError> {
        let worker = Uploader::new(destination.open()?, destination.to_string(), source);
        let shared = Arc::new(Shared::default());
        let (ended, end) = channel();
        let work = Work { uploader: worker, shared: shared.clone(), report: Box::new(report), _ended: ended };
        let started = std::thread::Builder::new().name("magscope-ship".into()).spawn(move || work.run());
        started
            .map_err(ShipError::local("start the thread that ships to", Path::new(&destination.to_string())))?;
        Ok(Shipper { shared, end: Mutex::new(end) })
    }

    /// Registers a new recording in `dir`, before its first segment.
    pub fn began(&self, dir: &Path, shipped: Shipped) {
        self.shared.state().running.push(Running { dir: dir.to_path_buf(), segment: 0, shipped });
    }

    /// Marks the segments below this number as closed.
    pub fn closed_below(&self, dir: &Path, segment: u32) {
        let mut state = self.shared.state();
        if let Some(running) = state.running.iter_mut().find(|running| running.dir == dir)
            && running.segment < segment
        {
            running.segment = segment;
            state.news = true;
            self.shared.wake.notify_all();
        }
    }

    /// Marks the recording as closed.
    pub fn ended(&self, dir: &Path) {
        let mut state = self.shared.state();
        state.running.retain(|running| running.dir != dir);
        state.news = true;
        self.shared.wake.notify_all();
    }

    /// Current state.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// Uploads the rest while the store accepts it, for at most `at_most`, and ends.
    pub fn finish(&self, at_most: Duration) -> Status {
        self.shared.state().finishing = true;
        self.shared.wake.notify_all();
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        if end.recv_timeout(at_most) == Err(RecvTimeoutError::Timeout) {
            // The thread stops between two files. The end of the process interrupts a file, which stays
            // invisible in the store.
            self.shared.state().ending = true;
            self.shared.wake.notify_all();
        }
        self.shared.status()
    }
}

impl Drop for Shipper {
    fn drop(&mut self) {
        self.shared.state().ending = true;
        self.shared.wake.notify_all();
    }
}

struct Work {
    uploader: Uploader,
    shared: Arc<Shared>,
    report: Box<dyn Fn(&str) + Send>,
    _ended: Sender<()>,
}

impl Work {
    fn run(mut self) {
        let mut pause = PAUSES.0;
        loop {
            self.count();
            self.shared.state().news = false;
            let shared = &self.shared;
            let running = || shared.state().running.clone();
            let may_go_on = || !shared.state().ending;
            let finishing = self.shared.state().finishing;
            match self.uploader.walk(&running, &self.shared.counts, &may_go_on) {
                Ok(()) => {
                    pause = PAUSES.0;
                    if self.shared.state().trouble.take().is_some() {
                        (self.report)("shipping goes on");
                    }
                    if finishing || self.shared.state().ending {
                        break;
                    }
                    self.wait(LOOK, |state| state.news || state.finishing || state.ending);
                }
                Err(error) if error.is_for_good() => {
                    // The other recordings can still be uploaded.
                    (self.report)(&error.to_string());
                }
                Err(error) => {
                    let because = error.to_string();
                    let reported = self.shared.state().trouble.replace(because.clone());
                    if reported.as_ref() != Some(&because) {
                        (self.report)(&format!("shipping waits and tries again: {because}"));
                    }
                    if self.shared.state().ending {
                        break;
                    }
                    let until = Instant::now() + if finishing { pause.min(LOOK) } else { pause };
                    while Instant::now() < until {
                        let left = until.saturating_duration_since(Instant::now());
                        self.wait(left.min(LOOK), |state| state.ending || (state.finishing && !finishing));
                        self.count();
                        let state = self.shared.state();
                        if state.ending || (state.finishing && !finishing) {
                            break;
                        }
                    }
                    pause = (pause * 2).min(PAUSES.1);
                }
            }
        }
        self.count();
    }

    fn count(&mut self) {
        let running = self.shared.state().running.clone();
        // The pass reports an unreadable shelf.
        let _ = self.uploader.count(&running, &self.shared.counts);
    }

    fn wait(&self, at_most: Duration, is_over: impl Fn(&State) -> bool) {
        let state = self.shared.state();
        // The caller's loop checks the state after any wake-up.
        drop(self.shared.wake.wait_timeout_while(state, at_most, |state| !is_over(state)));
    }
}

/// Uploads finished recordings once. Files uploaded before are skipped.
///
/// # Errors
/// The first persistent error.
pub fn ship(destination: &Destination, source: LocalStore, report: impl Fn(&str)) -> Result<Status, ShipError> {
    let mut worker = Uploader::new(destination.open()?, destination.to_string(), source);
    let counts = Counts::default();
    let (mut pause, mut tries) = (PAUSES.0, 0);
    let mut refused = None;
    loop {
        worker.count(&[], &counts)?;
        let before = counts.segments.load(Relaxed);
        match worker.walk(&Vec::new, &counts, &|| true) {
            Ok(()) => break,
            Err(error) if error.is_for_good() => {
                if let Some(earlier) = refused.replace(error) {
                    report(&earlier.to_string());
                }
            }
            Err(error) => {
                tries = if counts.segments.load(Relaxed) > before { 1 } else { tries + 1 };
                if tries >= TRIES {
                    return Err(error);
                }
                report(&format!("{error}; trying again in {pause:?}"));
                std::thread::sleep(pause);
                pause *= 2;
            }
        }
    }
    if let Some(error) = refused {
        return Err(error);
    }
    Ok(Status {
        segments: counts.segments.load(Relaxed),
        bytes: counts.bytes.load(Relaxed),
        ..Status::default()
    })
}

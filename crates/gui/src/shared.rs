//! The scope shared by the feeding thread and the window.

use crate::world::Trouble;
use egui::Context;
use magscope_scope::Scope;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

/// Delay before new data is drawn: thirty frames a second suffice.
const SOON: Duration = Duration::from_millis(33);
/// The same of a picture that the user has stopped: only counts beside it change.
const STOPPED: Duration = Duration::from_millis(250);
/// Pause of a feed for a waiting window.
const STEP_BACK: Duration = Duration::from_micros(100);

/// A scope that one thread feeds and another draws. The window has priority.
pub struct Shared {
    scope: Mutex<Scope>,
    /// Number of waiting windows.
    waiting: AtomicUsize,
    /// The window to notify.
    window: OnceLock<Context>,
    /// The revision of the last notification.
    window_notified: AtomicU64,
    ended: AtomicBool,
    idle: AtomicBool,
    failed: Mutex<Option<Trouble>>,
}

impl Shared {
    /// A scope without feed and window.
    pub fn new(scope: Scope) -> Self {
        Shared {
            scope: Mutex::new(scope),
            waiting: AtomicUsize::new(0),
            window: OnceLock::new(),
            window_notified: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            idle: AtomicBool::new(false),
            failed: Mutex::new(None),
        }
    }

    /// For the feed: locks the scope briefly, at most a few milliseconds.
    pub fn hold<R>(&self, with: impl FnOnce(&mut Scope) -> R) -> R {
        while self.waiting.load(Ordering::Acquire) > 0 {
            thread::sleep(STEP_BACK);
        }
        with(&mut self.lock())
    }

    /// For the feed: notifies the window of new data. Called periodically, not with every event.
    pub fn news(&self) {
        let (revision, is_stopped) = self.hold(|scope| (scope.revision(), scope.is_stopped()));
        if self.window_notified.swap(revision, Ordering::AcqRel) != revision
            && let Some(window) = self.window.get()
        {
            window.request_repaint_after(if is_stopped { STOPPED } else { SOON });
        }
    }

    /// For the window: waits for at most one [`Shared::hold`].
    pub fn look<R>(&self, with: impl FnOnce(&mut Scope) -> R) -> R {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let mut scope = self.lock();
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        with(&mut scope)
    }

    /// Sets the window to notify.
    pub fn set_window(&self, window: Context) {
        let _ = self.window.set(window); // called once
    }

    /// Requests the end of the feed.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// True if the feed is to end.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Pauses or resumes reading the rest of a recording.
    pub fn set_idle(&self, idle: bool) {
        self.idle.store(idle, Ordering::Release);
    }

    /// True if only the visible part is to be read.
    pub fn is_idle(&self) -> bool {
        self.idle.load(Ordering::Acquire)
    }

    /// Reports a failure of the feed to the window.
    pub fn fail(&self, trouble: Trouble) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(trouble);
        if let Some(window) = self.window.get() {
            window.request_repaint();
        }
    }

    /// The failure of the feed, once.
    pub fn take_failure(&self) -> Option<Trouble> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    // After a panic of the other thread the scope may be inconsistent but is memory-safe; that thread's end is
    // reported separately.
    fn lock(&self) -> MutexGuard<'_, Scope> {
        self.scope.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! The scope between two threads: one feeds it, the window draws it.

use crate::world::Trouble;
use egui::Context;
use magscope_scope::Scope;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

/// How soon what is new is drawn: thirty pictures a second are enough for numbers.
const SOON: Duration = Duration::from_millis(33);
/// How long a feed steps back for a window that waits.
const STEP_BACK: Duration = Duration::from_micros(100);

/// A scope that is fed in one thread and drawn in another. The window goes before the feed.
pub struct Shared {
    scope: Mutex<Scope>,
    /// Windows that wait for it.
    waiting: AtomicUsize,
    /// Whom to tell of news.
    window: OnceLock<Context>,
    /// The revision it was told of.
    told: AtomicU64,
    ended: AtomicBool,
    idle: AtomicBool,
    failed: Mutex<Option<Trouble>>,
}

impl Shared {
    /// Nobody feeds or draws it yet.
    pub fn new(scope: Scope) -> Self {
        Shared {
            scope: Mutex::new(scope),
            waiting: AtomicUsize::new(0),
            window: OnceLock::new(),
            told: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            idle: AtomicBool::new(false),
            failed: Mutex::new(None),
        }
    }

    /// For the feed: holds the scope for a moment, at most a few milliseconds.
    pub fn hold<R>(&self, with: impl FnOnce(&mut Scope) -> R) -> R {
        while self.waiting.load(Ordering::Acquire) > 0 {
            thread::sleep(STEP_BACK);
        }
        with(&mut self.lock())
    }

    /// For the feed: tells the window where there is something new. To be called now and then, and not with every event.
    pub fn news(&self) {
        let revision = self.hold(|scope| scope.revision());
        if self.told.swap(revision, Ordering::AcqRel) != revision
            && let Some(window) = self.window.get()
        {
            window.request_repaint_after(SOON);
        }
    }

    /// For the window: it need not wait for more than one [`Shared::hold`].
    pub fn look<R>(&self, with: impl FnOnce(&mut Scope) -> R) -> R {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let mut scope = self.lock();
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        with(&mut scope)
    }

    /// The window that is told of news.
    pub fn tell(&self, window: Context) {
        let _ = self.window.set(window); // a second one never comes
    }

    /// Asks the feed to end.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Whether the feed is to end.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Asks the feed to read no further than it has, or to go on.
    pub fn set_idle(&self, idle: bool) {
        self.idle.store(idle, Ordering::Release);
    }

    /// Whether the feed is to read no further: what is looked at is still read.
    pub fn is_idle(&self) -> bool {
        self.idle.load(Ordering::Acquire)
    }

    /// The feed has failed: the window says why.
    pub fn fail(&self, trouble: Trouble) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(trouble);
        if let Some(window) = self.window.get() {
            window.request_repaint();
        }
    }

    /// Why the feed has failed, once.
    pub fn take_failure(&self) -> Option<Trouble> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    // A panic of the other thread leaves a scope that may be odd and is never unsound; that thread's end is told apart.
    fn lock(&self) -> MutexGuard<'_, Scope> {
        self.scope.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

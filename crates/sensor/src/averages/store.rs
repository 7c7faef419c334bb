//! Shared state of watches: the correlating thread writes, clients read.

use super::{Averages, Subject, TooMany};
use magscope_client::wire::{self, Window};
use magscope_core::node::NodeInfo;
use magscope_timeline::merged_reader::Piece;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All averages, for concurrent clients.
pub struct AverageStore {
    averages: Mutex<Averages>,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    now_ns: fn() -> u64,
    /// True if any watch exists, so that events are needed.
    watched: Arc<AtomicBool>,
}

impl AverageStore {
    /// A store without watches. `now_ns` reads `CLOCK_MONOTONIC`.
    pub fn new(info: &NodeInfo, now_ns: fn() -> u64) -> Self {
        AverageStore { averages: Mutex::new(Averages::new(info)), now_ns, watched: Arc::default() }
    }

    /// True if any watch exists.
    pub const fn watched(&self) -> &Arc<AtomicBool> {
        &self.watched
    }

    fn averages(&self) -> MutexGuard<'_, Averages> {
        // A panic elsewhere leaves figures wrong by one event at most.
        self.averages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Processes a piece of a walk.
    pub fn add(&self, piece: &Piece<'_>) {
        self.averages().add(piece);
    }

    /// Starts a watch. Returns its id and start time.
    pub fn watch(&self, subject: Subject, window: Window) -> Result<(u64, u64), TooMany> {
        let mut averages = self.averages();
        // The flag is set before the instant is read: later events are captured after both and are passed on.
        self.watched.store(true, Ordering::SeqCst);
        let begun = averages.watch(subject, window, (self.now_ns)());
        if averages.is_idle() {
            self.watched.store(false, Ordering::SeqCst);
        }
        begun
    }

    /// Ends a watch.
    pub fn end(&self, id: u64) {
        let mut averages = self.averages();
        averages.end(id);
        if averages.is_idle() {
            self.watched.store(false, Ordering::SeqCst);
        }
    }

    /// Averages of a watch, under the client's number for it.
    pub fn of(&self, id: u64, client_id: u32) -> Option<wire::Averages> {
        self.averages().of(id, client_id, (self.now_ns)())
    }
}

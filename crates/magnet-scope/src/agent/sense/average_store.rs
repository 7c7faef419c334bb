//! Shared state of watches: the correlating thread writes, clients read.

use magscope_client::wire::{self, Window};
use magscope_core::node::NodeInfo;
use magscope_sensor::averages::{Averages, Subject, TooMany};
use magscope_timeline::merged_reader::Piece;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All averages.
pub struct AverageStore {
    averages: Mutex<Averages>,
    /// True if any watch exists, so that events are needed.
    watched: Arc<AtomicBool>,
}

impl AverageStore {
    pub fn new(info: &NodeInfo) -> Self {
        AverageStore { averages: Mutex::new(Averages::new(info)), watched: Arc::default() }
    }

    pub fn watched(&self) -> &Arc<AtomicBool> {
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
        let begun = averages.watch(subject, window, now_ns());
        if averages.is_idle() {
            self.watched.store(false, Ordering::SeqCst);
        }
        begun
    }

    pub fn end(&self, id: u64) {
        let mut averages = self.averages();
        averages.end(id);
        if averages.is_idle() {
            self.watched.store(false, Ordering::SeqCst);
        }
    }

    /// Averages of a watch, under the client's number for it.
    pub fn of(&self, id: u64, told: u32) -> Option<wire::Averages> {
        self.averages().of(id, told, now_ns())
    }
}

/// `CLOCK_MONOTONIC`.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

//! The newest snapshot of a sensor. The capturing thread publishes it periodically and never waits for readers.

use crate::{SelfUsage, Sensor, Snapshot};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval between two snapshots.
const PAUSE: Duration = Duration::from_millis(500);

/// The newest snapshot. Readers hold the lock only to copy a pointer.
#[derive(Debug, Default)]
pub struct LatestSnapshot(Mutex<Arc<Snapshot>>);

impl LatestSnapshot {
    /// The newest snapshot.
    pub fn newest(&self) -> Arc<Snapshot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn put(&self, snapshot: Snapshot) {
        let new = Arc::new(snapshot);
        // The old snapshot is dropped after the lock is released.
        let old = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), new);
        drop(old);
    }
}

/// Publishes snapshots.
pub struct Publisher<'b> {
    board: &'b LatestSnapshot,
    own: fn() -> SelfUsage,
    put: Option<Instant>,
}

impl<'b> Publisher<'b> {
    /// Publishes to `board`; `own` measures this program.
    pub const fn new(board: &'b LatestSnapshot, own: fn() -> SelfUsage) -> Self {
        Publisher { board, own, put: None }
    }

    /// True if a snapshot is due.
    pub fn is_due(&self) -> bool {
        self.put.is_none_or(|put| put.elapsed() >= PAUSE)
    }

    /// Publishes a snapshot if due.
    pub fn offer(&mut self, sensor: &Sensor) {
        if self.is_due() {
            self.put(sensor);
        }
    }

    /// Publishes a snapshot.
    pub fn put(&mut self, sensor: &Sensor) {
        self.board.put(sensor.snapshot((self.own)()));
        self.put = Some(Instant::now());
    }
}

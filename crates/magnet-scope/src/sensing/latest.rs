//! The newest snapshot of a sensor. The capturing thread updates it periodically and never waits for readers.

use magscope_sensor::{SelfUsage, Sensed, Sensor};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval between two snapshots.
const PAUSE: Duration = Duration::from_millis(500);

/// The newest snapshot. Readers hold the lock only to copy a pointer.
#[derive(Debug, Default)]
pub struct LatestSnapshot(Mutex<Arc<Sensed>>);

impl LatestSnapshot {
    /// The newest snapshot.
    pub fn newest(&self) -> Arc<Sensed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn put(&self, sensed: Sensed) {
        let new = Arc::new(sensed);
        // The old snapshot is dropped after the lock is released.
        let old = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), new);
        drop(old);
    }
}

/// Puts snapshots there.
pub struct Publisher<'b> {
    board: &'b LatestSnapshot,
    put: Option<Instant>,
}

impl<'b> Publisher<'b> {
    /// A publisher for this board.
    pub const fn new(board: &'b LatestSnapshot) -> Self {
        Publisher { board, put: None }
    }

    /// Publishes a snapshot if due.
    pub fn offer(&mut self, sensor: &Sensor) {
        if self.put.is_none_or(|put| put.elapsed() >= PAUSE) {
            self.put(sensor);
        }
    }

    /// Publishes a snapshot.
    pub fn put(&mut self, sensor: &Sensor) {
        self.board.put(sensor.sensed(own()));
        self.put = Some(Instant::now());
    }
}

/// This program and its processor time.
pub fn own() -> SelfUsage {
    let cpu_ns = u64::try_from(crate::screen::cpu_time().as_nanos()).unwrap_or(u64::MAX);
    SelfUsage { version: env!("CARGO_PKG_VERSION").to_owned(), cpu_ns }
}

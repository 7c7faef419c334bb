//! The newest snapshot of a sensor. Who captures puts it there now and then, and never waits for who reads.

use magscope_sensor::{Own, Sensed, Sensor};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two snapshots.
const PAUSE: Duration = Duration::from_millis(500);

/// Where the newest snapshot is. Whoever reads holds the lock for as long as it takes to copy a pointer.
#[derive(Debug, Default)]
pub struct Board(Mutex<Arc<Sensed>>);

impl Board {
    /// The newest there is.
    pub fn newest(&self) -> Arc<Sensed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn put(&self, sensed: Sensed) {
        let new = Arc::new(sensed);
        // What was there goes when the lock has been given back.
        let old = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), new);
        drop(old);
    }
}

/// Puts snapshots there.
pub struct Publisher<'b> {
    board: &'b Board,
    put: Option<Instant>,
}

impl<'b> Publisher<'b> {
    /// On this board.
    pub const fn new(board: &'b Board) -> Self {
        Publisher { board, put: None }
    }

    /// Puts one there where it is time.
    pub fn offer(&mut self, sensor: &Sensor) {
        if self.put.is_none_or(|put| put.elapsed() >= PAUSE) {
            self.put(sensor);
        }
    }

    /// Puts one there.
    pub fn put(&mut self, sensor: &Sensor) {
        self.board.put(sensor.sensed(own()));
        self.put = Some(Instant::now());
    }
}

/// This program, and what it took until now.
pub fn own() -> Own {
    let cpu_ns = u64::try_from(crate::screen::cpu_time().as_nanos()).unwrap_or(u64::MAX);
    Own { version: env!("CARGO_PKG_VERSION").to_owned(), cpu_ns }
}

//! What every health line has: how much comes in a second, and what that takes of a CPU.

use crate::screen::cpu_time;
use std::time::{Duration, Instant};

/// When the next line is due, and what it is reckoned from.
pub struct Pulse {
    every: Duration,
    said: Instant,
    records: u64,
    cpu: Duration,
}

/// Since the line before.
pub struct Beat {
    /// Records a second.
    pub rate: f64,
    /// Per cent of a CPU, all threads together.
    pub busy: f64,
}

impl Pulse {
    /// Begins now.
    pub fn new(every: Duration) -> Self {
        Pulse { every, said: Instant::now(), records: 0, cpu: cpu_time() }
    }

    /// Whether it is time.
    pub fn is_due(&self) -> bool {
        self.said.elapsed() >= self.every
    }

    /// What came since, where so many records have come in all.
    pub fn beat(&mut self, records: u64) -> Beat {
        let (secs, cpu) = (self.said.elapsed().as_secs_f64().max(1e-9), cpu_time());
        let rate = records.saturating_sub(self.records) as f64 / secs;
        let busy = cpu.saturating_sub(self.cpu).as_secs_f64() / secs * 100.0;
        (self.said, self.records, self.cpu) = (Instant::now(), records, cpu);
        Beat { rate, busy }
    }
}

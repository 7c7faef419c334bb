//! Common part of all health lines: record rate and processor time.

use crate::meters::cpu_time;
use std::time::{Duration, Instant};

/// Schedule of the lines, and the last counters.
pub struct Pulse {
    every: Duration,
    reported_at: Instant,
    records: u64,
    cpu: Duration,
}

/// Rates since the previous line.
pub struct HealthInterval {
    /// Records a second.
    pub rate: f64,
    /// Per cent of a CPU, all threads.
    pub busy: f64,
}

impl Pulse {
    /// Starts now.
    pub fn new(every: Duration) -> Self {
        Pulse { every, reported_at: Instant::now(), records: 0, cpu: cpu_time() }
    }

    /// True if a line is due.
    pub fn is_due(&self) -> bool {
        self.reported_at.elapsed() >= self.every
    }

    /// Rates since the last call, from the total number of records.
    pub fn beat(&mut self, records: u64) -> HealthInterval {
        let (secs, cpu) = (self.reported_at.elapsed().as_secs_f64().max(1e-9), cpu_time());
        let rate = records.saturating_sub(self.records) as f64 / secs;
        let busy = cpu.saturating_sub(self.cpu).as_secs_f64() / secs * 100.0;
        (self.reported_at, self.records, self.cpu) = (Instant::now(), records, cpu);
        HealthInterval { rate, busy }
    }
}

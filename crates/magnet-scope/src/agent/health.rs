//! The health line: what came, what was lost, what it costs.

use crate::joint::counted;
use crate::output;
use magscope_fleet::Memory;
use std::time::{Duration, Instant};

/// Says now and then how the agent stands.
pub struct Health<'a> {
    memory: &'a Memory,
    every: Duration,
    said: Instant,
    records: u64,
    cpu: Duration,
}

impl<'a> Health<'a> {
    /// Begins now.
    pub fn new(memory: &'a Memory, every: Duration) -> Self {
        Health { memory, every, said: Instant::now(), records: 0, cpu: crate::screen::cpu_time() }
    }

    /// Says it where it is time.
    pub fn tell(&mut self) {
        let passed = self.said.elapsed();
        if passed < self.every {
            return;
        }
        let (holds, cpu) = (self.memory.holds(), crate::screen::cpu_time());
        let rate = (holds.came_records - self.records) as f64 / passed.as_secs_f64();
        let busy = cpu.saturating_sub(self.cpu).as_secs_f64() / passed.as_secs_f64() * 100.0;
        output::note(&format!(
            "health: {} records ({rate:.0}/s), {} lost, {:.1} MiB kept, {}, {busy:.1} % of a CPU",
            holds.came_records,
            holds.came_lost,
            holds.bytes as f64 / f64::from(1 << 20),
            counted(self.memory.readers() as u64, "reader", "readers"),
        ));
        (self.said, self.records, self.cpu) = (Instant::now(), holds.came_records, cpu);
    }

    /// What it came to.
    pub fn last(&self) {
        let holds = self.memory.holds();
        output::note(&format!("ended: {} records, {} lost", holds.came_records, holds.came_lost));
    }
}

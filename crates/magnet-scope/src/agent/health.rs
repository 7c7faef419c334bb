//! The health line: what came, what was lost, what it costs.

use crate::joint::counted;
use crate::output;
use magscope_fleet::{BusStatus, Memory};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Says now and then how the agent stands.
pub struct Health<'a> {
    memory: &'a Memory,
    bus: Option<Arc<BusStatus>>,
    every: Duration,
    said: Instant,
    records: u64,
    cpu: Duration,
}

impl<'a> Health<'a> {
    /// Begins now. With a bus, where it publishes on one.
    pub fn new(memory: &'a Memory, bus: Option<Arc<BusStatus>>, every: Duration) -> Self {
        Health { memory, bus, every, said: Instant::now(), records: 0, cpu: crate::screen::cpu_time() }
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
            "health: {} records ({rate:.0}/s), {} lost, {:.1} MiB kept, {}, {busy:.1} % of a CPU{}",
            holds.came_records,
            holds.came_lost,
            holds.bytes as f64 / f64::from(1 << 20),
            counted(self.memory.readers() as u64, "reader", "readers"),
            self.bus(),
        ));
        (self.said, self.records, self.cpu) = (Instant::now(), holds.came_records, cpu);
    }

    /// What it came to.
    pub fn last(&self) {
        let holds = self.memory.holds();
        output::note(&format!("ended: {} records, {} lost{}", holds.came_records, holds.came_lost, self.bus()));
    }

    /// How the bus stands.
    fn bus(&self) -> String {
        let Some(bus) = &self.bus else { return String::new() };
        let trouble = bus.trouble().map_or_else(String::new, |trouble| format!(" ({trouble})"));
        format!("; bus: {} sent, {} waiting, {} missed{trouble}", bus.sent(), bus.waiting(), bus.missed())
    }
}

//! The health line: what came, what was lost, what it costs.

use crate::health::Pulse;
use crate::joint::counted;
use crate::output;
use magscope_fleet::{BusStatus, Memory};
use std::sync::Arc;
use std::time::Duration;

/// Says now and then how the agent stands.
pub struct Health<'a> {
    memory: &'a Memory,
    bus: Option<Arc<BusStatus>>,
    pulse: Pulse,
}

impl<'a> Health<'a> {
    /// Begins now. With a bus, where it publishes on one.
    pub fn new(memory: &'a Memory, bus: Option<Arc<BusStatus>>, every: Duration) -> Self {
        Health { memory, bus, pulse: Pulse::new(every) }
    }

    /// Says it where it is time.
    pub fn tell(&mut self) {
        if !self.pulse.is_due() {
            return;
        }
        let holds = self.memory.holds();
        let beat = self.pulse.beat(holds.came_records);
        output::note(&format!(
            "health: {} records ({:.0}/s), {} lost, {:.1} MiB kept, {}, {:.1} % of a CPU{}",
            holds.came_records,
            beat.rate,
            holds.came_lost,
            holds.bytes as f64 / f64::from(1 << 20),
            counted(self.memory.readers() as u64, "reader", "readers"),
            beat.busy,
            self.bus(),
        ));
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

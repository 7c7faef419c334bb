//! The periodic health line: records, losses, cost.

use crate::health::Pulse;
use crate::output;
use magscope_fleet::{BusStatus, Memory};
use magscope_scope::format::counted;
use std::sync::Arc;
use std::time::Duration;

/// Prints the agent's state periodically.
pub struct Health<'a> {
    memory: &'a Memory,
    bus: Option<Arc<BusStatus>>,
    pulse: Pulse,
}

impl<'a> Health<'a> {
    /// A health line; with the bus state if the agent publishes.
    pub fn new(memory: &'a Memory, bus: Option<Arc<BusStatus>>, every: Duration) -> Self {
        Health { memory, bus, pulse: Pulse::new(every) }
    }

    /// Prints the line if due.
    pub fn report(&mut self) {
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

    /// Prints the final totals.
    pub fn last(&self) {
        let holds = self.memory.holds();
        output::note(&format!("ended: {} records, {} lost{}", holds.came_records, holds.came_lost, self.bus()));
    }

    /// State of the bus.
    fn bus(&self) -> String {
        let Some(bus) = &self.bus else { return String::new() };
        let trouble = bus.trouble().map_or_else(String::new, |trouble| format!(" ({trouble})"));
        format!("; bus: {} sent, {} waiting, {} missed{trouble}", bus.sent(), bus.waiting(), bus.missed())
    }
}

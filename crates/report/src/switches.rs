//! Duration of context switches, per CPU and over time.
//!
//! Based on Gardner et al., *MAGNET: a tool for debugging, analyzing and adapting computing systems* (2003),
//! figures 2 and 3: the time between the events "this task leaves the CPU" and "that task has it", averaged
//! over short windows.

use crate::stats::HopPairStats;
use magscope_core::{Event, Hop};
use serde::Serialize;
use std::collections::BTreeMap;

/// Switches of one CPU, within one window or over all of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Begin of the window, nanoseconds from the first one's; 0 for the total.
    pub from_ns: u64,
    /// The CPU.
    pub cpu: u16,
    /// Number of switches.
    pub switches: u64,
    /// Mean duration, nanoseconds; the others have the same unit.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

#[derive(Clone, Debug, Default)]
struct Times {
    stats: HopPairStats,
    sum_ns: u64,
}

impl Times {
    fn record(&mut self, ns: u64) {
        self.stats.record(ns);
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    fn row(&self, from_ns: u64, cpu: u16) -> Row {
        let quantiles = self.stats.quantiles().unwrap_or_default();
        Row {
            from_ns,
            cpu,
            switches: quantiles.n,
            mean_ns: self.sum_ns as f64 / quantiles.n.max(1) as f64,
            p50_ns: quantiles.p50_ns,
            p99_ns: quantiles.p99_ns,
            max_ns: quantiles.max_ns,
        }
    }
}

/// Adds up events in order of time. It holds one distribution per CPU and one small row per window and CPU.
#[derive(Clone, Debug)]
pub struct Switches {
    from_ns: u64,
    window_ns: u64,
    window: u64,
    open: BTreeMap<u16, Times>,
    all: BTreeMap<u16, Times>,
    rows: Vec<Row>,
    /// Tasks that were made.
    pub forks: u64,
    /// Tasks that ended.
    pub exits: u64,
}

impl Switches {
    /// An empty sum. Windows of `window_ns` (1 at least) begin at `from_ns`.
    pub fn new(from_ns: u64, window_ns: u64) -> Self {
        Switches {
            from_ns,
            window_ns: window_ns.max(1),
            window: 0,
            open: BTreeMap::new(),
            all: BTreeMap::new(),
            rows: Vec::new(),
            forks: 0,
            exits: 0,
        }
    }

    /// Counts an event of the scheduler and ignores others. A late event, after its window was closed, counts
    /// in the open window.
    pub fn push(&mut self, event: &Event) {
        if event.hop == Hop::SchedFork {
            self.forks += 1;
        } else if event.hop == Hop::SchedExit {
            self.exits += 1;
        } else if event.hop == Hop::SchedSwitched {
            let window = event.time_ns.saturating_sub(self.from_ns) / self.window_ns;
            if window > self.window {
                self.close();
                self.window = window;
            }
            let ns = u64::from(event.extent.switch_ns());
            self.open.entry(event.cpu).or_default().record(ns);
            self.all.entry(event.cpu).or_default().record(ns);
        }
    }

    fn close(&mut self) {
        let from_ns = self.window * self.window_ns;
        let open = std::mem::take(&mut self.open);
        self.rows.extend(open.iter().map(|(cpu, times)| times.row(from_ns, *cpu)));
    }

    /// Ends the last window; returns one row per window and CPU with a switch, in order of time.
    pub fn windows(&mut self) -> &[Row] {
        self.close();
        &self.rows
    }

    /// One row per CPU over the complete time.
    pub fn by_cpu(&self) -> Vec<Row> {
        self.all.iter().map(|(cpu, times)| times.row(0, *cpu)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::ExtentKind;

    fn switched(time_ns: u64, cpu: u16, took_ns: u32) -> Event {
        Event { cpu, extent: ExtentKind::Switch.of(took_ns), ..Event::at(Hop::SchedSwitched, time_ns) }
    }

    #[test]
    fn each_window_of_each_cpu_has_a_row() {
        let mut switches = Switches::new(1_000, 100);
        for event in [
            switched(1_010, 0, 10),
            switched(1_020, 1, 50),
            switched(1_099, 0, 30),
            Event::at(Hop::SchedFork, 1_200),
            switched(1_350, 0, 40),
            switched(1_340, 0, 20), // late by a hair
            Event::at(Hop::SchedExit, 1_200),
            Event::at(Hop::DevXmit, 1_200),
        ] {
            switches.push(&event);
        }
        let row = |from_ns, cpu, switches, mean_ns, max_ns| (from_ns, cpu, switches, mean_ns, max_ns);
        let seen: Vec<_> =
            switches.windows().iter().map(|r| row(r.from_ns, r.cpu, r.switches, r.mean_ns, r.max_ns)).collect();
        assert_eq!(seen, [row(0, 0, 2, 20.0, 30), row(0, 1, 1, 50.0, 50), row(300, 0, 2, 30.0, 40)]);
        let all: Vec<_> = switches.by_cpu().iter().map(|r| (r.cpu, r.switches, r.mean_ns)).collect();
        assert_eq!(all, [(0, 4, 25.0), (1, 1, 50.0)]);
        assert_eq!((switches.forks, switches.exits), (1, 1));
    }
}

//! What the instrument costs, and how busy its host is: measured beside a live source, for its scope.

mod host_cpu;

use crate::screen::Feed;
use host_cpu::HostCpu;
use magscope_probe::governor::Reader;
use magscope_scope::{Overhead, Scope};
use std::time::{Duration, Instant};

/// Time between two measurements.
const EVERY: Duration = Duration::from_millis(500);

/// The meters beside a source.
pub struct Meters {
    cost: Meter,
    host_cpu: HostCpu,
}

impl Meters {
    /// They measure from now on.
    pub fn start() -> Self {
        Meters { cost: Meter::start(), host_cpu: HostCpu::default() }
    }

    /// Passes a measurement to the scope twice a second; true if it did.
    pub fn read(&mut self, feed: &mut impl Feed, scope: &mut Scope) -> bool {
        let is_due = self.cost.is_due();
        if is_due {
            let hits = feed.hits();
            let overhead = self.cost.read(hits.unwrap_or(0), feed.hit_ns());
            // A recording is of another time, and perhaps of another host.
            if hits.is_some() {
                let (ring_fill_ratio, budget) = (feed.ring_fill_ratio(), feed.budget());
                scope.set_overhead(Overhead { ring_fill_ratio, budget, ..overhead });
                if let Some(busy) = self.host_cpu.read() {
                    scope.set_host_cpu(busy);
                }
            }
        }
        is_due
    }
}

/// The cost of this process and its probes.
struct Meter {
    since: Instant,
    cpu: Duration,
    hits: u64,
}

impl Meter {
    fn start() -> Self {
        Meter { since: Instant::now(), cpu: cpu_time(), hits: 0 }
    }

    fn is_due(&self) -> bool {
        self.since.elapsed() >= EVERY
    }

    /// The cost since the last time.
    fn read(&mut self, hits: u64, hit_ns: Option<f64>) -> Overhead {
        let (wall, cpu) = (self.since.elapsed(), cpu_time());
        let fresh = hits.saturating_sub(self.hits) as f64;
        let overhead = Overhead {
            reader_cpu_ratio: cpu.saturating_sub(self.cpu).as_secs_f64() / wall.as_secs_f64(),
            kernel_ns_per_hit: hit_ns,
            kernel_cpu_ratio_estimate: hit_ns.map(|each| each * fresh / wall.as_nanos() as f64),
            hits,
            ..Overhead::default()
        };
        *self = Meter { since: Instant::now(), cpu, hits };
        overhead
    }
}

/// Processor time of this process so far.
pub fn cpu_time() -> Duration {
    Reader::Process.cpu_time()
}

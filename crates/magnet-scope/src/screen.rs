//! The screen: feeds a scope from a source and measures what that costs.

use anyhow::Result;
use magscope_core::Batch;
use magscope_core::source::{Progress, Source, SourceError};
use magscope_scope::{Options, Overhead, Recording, Scope, State};
use magscope_tui::{Pump, TuiError};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// A source that can say how it is doing.
pub trait Feed: Source {
    /// Hits of all probes so far, where there are probes.
    fn hits(&self) -> Option<u64> {
        None
    }

    /// The recording that runs beside it, if one does.
    fn recording(&self) -> Option<Recording> {
        None
    }
}

/// Shows what `feed` gives until it is quit.
pub fn show(feed: &mut impl Feed, state: State) -> Result<()> {
    let mut scope = Scope::new(feed.info().clone(), Options { state });
    let mut pump = Feeder { feed, batch: Batch::default(), meter: Meter::start() };
    match magscope_tui::run(&mut pump, &mut scope) {
        Ok(_) => Ok(()),
        // "The source failed" says nothing that the source's own error does not say better.
        Err(TuiError::Source(error)) => Err(anyhow::Error::from_boxed(error)),
        Err(error) => Err(error.into()),
    }
}

struct Feeder<'a, F> {
    feed: &'a mut F,
    batch: Batch,
    meter: Meter,
}

impl<F: Feed> Pump for Feeder<'_, F> {
    fn pump(&mut self, scope: &mut Scope, timeout: Duration) -> Result<Progress, SourceError> {
        let progress = self.feed.next(&mut self.batch, timeout)?;
        scope.ingest(&self.batch);
        if let Some(reader_cpu_ratio) = self.meter.read() {
            if let Some(hits) = self.feed.hits() {
                scope.set_overhead(Overhead { reader_cpu_ratio, hits, ..Overhead::default() });
            }
            scope.set_recording(self.feed.recording());
        }
        Ok(progress)
    }
}

/// CPU time of this process over wall time, twice a second.
struct Meter {
    since: Instant,
    cpu: Duration,
}

impl Meter {
    const EVERY: Duration = Duration::from_millis(500);

    fn start() -> Self {
        Meter { since: Instant::now(), cpu: cpu_time() }
    }

    /// The ratio since the last time, if that is long enough ago.
    fn read(&mut self) -> Option<f64> {
        let wall = self.since.elapsed();
        if wall < Self::EVERY {
            return None;
        }
        let cpu = cpu_time();
        let ratio = cpu.saturating_sub(self.cpu).as_secs_f64() / wall.as_secs_f64();
        *self = Meter { since: Instant::now(), cpu };
        Some(ratio)
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

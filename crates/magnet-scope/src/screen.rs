//! The screen: feeds a scope from a source and measures what that costs.

mod options;
mod player;
mod save;

pub use options::ScreenArgs;

use anyhow::Result;
use magscope_core::Batch;
use magscope_core::journey::Limits;
use magscope_core::source::{Progress, Source, SourceError};
use magscope_scope::recorded::Window;
use magscope_scope::{Options, Overhead, Recording, Scope, State};
use magscope_session::Session;
use magscope_tui::{Pump, TuiError};
use player::Player;
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::time::{Duration, Instant};

/// A source that can say how it is doing.
pub trait Feed: Source {
    /// Hits of all probes so far, where there are probes.
    fn hits(&self) -> Option<u64> {
        None
    }

    /// How full the fullest ring was when it was last read, 0 to 1.
    fn ring_fill_ratio(&self) -> f64 {
        0.0
    }

    /// What one of them was measured to cost in the kernel, nanoseconds.
    fn hit_ns(&self) -> Option<f64> {
        None
    }

    /// The recording that runs beside it, if one does.
    fn recording(&self) -> Option<Recording> {
        None
    }
}

/// Shows what `feed` gives until it is quit.
pub fn show(feed: &mut impl Feed, state: State, limits: Limits, args: &ScreenArgs) -> Result<()> {
    let options = args.options()?;
    let mut scope = Scope::new(feed.info().clone(), Options { state, limits, ..Options::default() });
    let mut pump = Feeder { feed, batch: Batch::default(), meter: Meter::start(), ticked: Instant::now() };
    run(&mut pump, &mut scope, options)
}

/// Shows a part of a recording until it is quit.
pub fn show_recorded(
    session: &Session,
    part: (Option<u64>, Option<u64>),
    speed: f64,
    limits: Limits,
    args: &ScreenArgs,
) -> Result<()> {
    let options = args.options()?;
    let summary = session.summary();
    let (from, to) = (part.0.max(summary.from_ns), part.1.into_iter().chain(summary.to_ns).min());
    let from_ns = from.unwrap_or(0);
    let all = Window { from_ns, to_ns: to.unwrap_or(from_ns).max(from_ns) };
    let state = State::Replay;
    let mut scope = Scope::new(session.info().clone(), Options { state, limits, recorded: Some(all), speed });
    run(&mut Player::new(session, all, limits), &mut scope, options)
}

fn run(pump: &mut impl Pump, scope: &mut Scope, options: magscope_tui::Options) -> Result<()> {
    match magscope_tui::run(pump, scope, options) {
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
    ticked: Instant,
}

impl<F: Feed> Pump for Feeder<'_, F> {
    fn pump(&mut self, scope: &mut Scope, timeout: Duration) -> Result<Progress, SourceError> {
        let progress = self.feed.next(&mut self.batch, timeout)?;
        scope.ingest(&self.batch);
        // What is played again of the past moves with the wall.
        let elapsed = std::mem::replace(&mut self.ticked, Instant::now()).elapsed();
        scope.tick(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
        if self.meter.is_due() {
            if let Some(hits) = self.feed.hits() {
                let overhead = self.meter.read(hits, self.feed.hit_ns());
                scope.set_overhead(Overhead { ring_fill_ratio: self.feed.ring_fill_ratio(), ..overhead });
            }
            scope.set_recording(self.feed.recording());
        }
        Ok(progress)
    }

    fn save(&mut self, ending: &str, contents: &str) -> Result<String, String> {
        save::save(Path::new("."), ending, contents)
    }
}

/// What the instrument costs, twice a second.
struct Meter {
    since: Instant,
    cpu: Duration,
    hits: u64,
}

impl Meter {
    const EVERY: Duration = Duration::from_millis(500);

    fn start() -> Self {
        Meter { since: Instant::now(), cpu: cpu_time(), hits: 0 }
    }

    fn is_due(&self) -> bool {
        self.since.elapsed() >= Self::EVERY
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

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

//! Cost of drawing a large recording: time to the first frame, time per frame during and after the survey, and
//! memory. The figures cover layout, meshes and triangles, without the work of a graphics driver.
//!
//! `EVENTS=100000000 cargo bench -p magscope-gui --bench window`. `SESSION=DIR` stores the recording there, or
//! reuses an existing one, for comparison with other programs. `FLOWS=1000000` makes a recording of that many
//! flows with a datagram each.
//!
//! The bench also reports the processor time of the drawing thread, which is comparable on a shared machine.

#[path = "../../tui/tests/made_up/mod.rs"]
mod made_up;

use egui::{Context, Pos2, RawInput, Rect, Vec2};
use magscope_core::journey::Limits;
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Generator, GeneratorOptions};
use magscope_gui::{Chosen, Compared, Format, Front, Job, KeyMap, Opened, Part, Trouble, World, dress};
use magscope_scope::recorded::{MOST_JOURNEYS, MOST_SCANNED, Stretch, Window};
use magscope_scope::{Action, Options, Scope, State, View};
use magscope_session::{RecordOptions, Recorder, Session};
use magscope_timeline::align::Aligner;
use magscope_timeline::merged_reader::{Piece, Walker};
use rustix::time::{ClockId, clock_gettime};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const SIZE: Vec2 = Vec2::new(1920.0, 1080.0);

fn main() {
    let events = std::env::var("EVENTS").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000_000);
    let dir = tempfile::tempdir().expect("room");
    let existing = std::env::var_os("SESSION").map(PathBuf::from);
    let path = existing.unwrap_or_else(|| dir.path().join("large.session"));
    let flows: Option<u64> = std::env::var("FLOWS").ok().and_then(|n| n.parse().ok());
    let events = flows.map_or(events, |flows| flows * made_up::storm::EVENTS);
    if !path.exists() {
        match flows {
            Some(flows) => write_flows(&path, flows),
            None => write(&path, events),
        }
    }
    let mut bench = Bench::open(&path);
    println!("{events} events on disk, a window of {} × {}", SIZE.x, SIZE.y);
    println!("first picture          {:>9.1} ms", ms(bench.opened.elapsed()));
    let survey = bench.survey();
    println!(
        "all of it read in      {:>9.1} s, of which {:.1} ns an event",
        survey.as_secs_f64(),
        survey.as_nanos() as f64 / events as f64
    );
    bench.report("a picture meanwhile");
    for (name, tab, height) in [
        ("journeys", View::Journeys, 230.0),
        ("heat map", View::Hops, 230.0),
        ("heat map, every pair in sight", View::Hops, 820.0),
        ("distributions", View::Distributions, 230.0),
        ("flows", View::Flows, 230.0),
    ] {
        bench.front.chosen.tab = tab;
        bench.front.chosen.below_height = height;
        bench.scope.apply(Action::Fit);
        bench.frames(3);
        bench.taken.clear();
        // Every frame differs, so that no cache helps.
        for n in 0..40 {
            bench.scope.apply(Action::PanBy(if n % 2 == 0 { 1e-3 } else { -1e-3 }));
            bench.frames(1);
        }
        bench.report(&format!("all of it, {name}"));
    }
    bench.front.chosen.tab = View::Journeys;
    bench.front.chosen.below_height = 230.0;
    for (name, ns) in
        [("1 s", 1_000_000_000_u64), ("30 ms", 30_000_000), ("1 ms", 1_000_000), ("10 µs", 10_000)]
    {
        let from_ns = bench.all.from_ns + (bench.all.to_ns - bench.all.from_ns) / 2;
        bench.scope.apply(Action::ZoomTo { from_ns, to_ns: from_ns + ns });
        bench.fill();
        bench.frames(3);
        bench.taken.clear();
        for n in 0..40 {
            bench.scope.apply(Action::PanBy(if n % 2 == 0 { 0.01 } else { -0.01 }));
            bench.frames(1);
        }
        let lines = bench.scope.frame().sweep.lifelines.len();
        bench.report(&format!("{name} of it, {lines} lifelines"));
    }
    bench.taken.clear();
    bench.frames(60);
    bench.report("nothing new");
    println!("memory                 {:>9.0} MB", resident_bytes() as f64 / 1e6);
}

fn write(path: &Path, events: u64) {
    let mut generator =
        Generator::new(GeneratorOptions { events, lose_every: 5_000, ..GeneratorOptions::default() });
    let info = generator.info().clone();
    let mut recorder = Recorder::create(path, &info, RecordOptions::default()).expect("a directory");
    let mut batch = Batch::default();
    let mut written = 0_u64;
    while generator.next(&mut batch, Duration::ZERO).expect("a generator never fails") == Progress::More {
        written += batch.events.len() as u64;
        recorder.append(&batch).expect("room");
        // The queue is bounded and drops; a generator is faster than any disk.
        while recorder.status().events + 200_000 < written {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    recorder.append(&batch).expect("room");
    recorder.close().expect("room");
}

fn write_flows(path: &Path, flows: u64) {
    let roomy = RecordOptions { queue_bytes: 4 << 30, ..RecordOptions::default() };
    let mut recorder = Recorder::create(path, &made_up::info(), roomy).expect("a directory");
    for first in (0..flows).step_by(1000) {
        recorder.append(&made_up::storm::flows(first..(first + 1000).min(flows))).expect("room");
    }
    recorder.close().expect("room");
}

struct Bench {
    ctx: Context,
    front: Front,
    scope: Scope,
    session: Session,
    opened: Instant,
    all: Window,
    /// Wall time and processor time of each picture.
    taken: Vec<(Duration, Duration)>,
}

impl Bench {
    fn open(path: &Path) -> Self {
        let opened = Instant::now();
        let session = Session::open(path).expect("it was just written");
        let summary = session.summary();
        let all = Window { from_ns: summary.from_ns.unwrap_or(0), to_ns: summary.to_ns.unwrap_or(0) };
        let options = Options {
            state: State::Replay,
            recorded: Some(all),
            most_lifelines: MOST_JOURNEYS,
            ..Options::default()
        };
        let scope = Scope::of_several(vec![session.info().clone()], options);
        let ctx = Context::default();
        dress(&ctx);
        let front = Front::new(Chosen::default(), KeyMap::of_window());
        let mut bench = Bench { ctx, front, scope, session, opened, all, taken: Vec::new() };
        bench.fill();
        bench.frames(1);
        bench
    }

    fn walker(&self, stretch: Option<Window>) -> Walker<'static> {
        let aligner: &'static _ = Box::leak(Box::new(Aligner::new(&[self.session.info().clone()]).finish()));
        let (from, to) = stretch.map_or((None, None), |w| (Some(w.from_ns), Some(w.to_ns)));
        let replay = Box::new(self.session.replay(from, to)) as Box<dyn Source>;
        Walker::new(vec![replay], aligner, Limits::default(), Duration::ZERO)
    }

    /// Reads all of it, ten milliseconds between two pictures.
    fn survey(&mut self) -> Duration {
        let (began, mut walker, mut slice) = (Instant::now(), self.walker(None), Instant::now());
        self.taken.clear();
        let mut drawn = Duration::ZERO;
        loop {
            let scope = &mut self.scope;
            let progress = walker.step(&mut |piece| match piece {
                Piece::Batch(node, batch) => scope.ingest_batch(node, batch),
                Piece::Journey(journey, ..) => scope.ingest_journey(journey.clone()),
            });
            if progress.expect("it reads") == Progress::End {
                self.scope.end();
                return began.elapsed().saturating_sub(drawn);
            }
            if slice.elapsed() > Duration::from_millis(100) {
                let before = Instant::now();
                self.frames(1);
                drawn += before.elapsed();
                slice = Instant::now();
            }
        }
    }

    /// Reads the requested window.
    fn fill(&mut self) {
        let Some(window) = self.scope.wants() else { return };
        let wide = Window {
            from_ns: window.from_ns.saturating_sub(10_000_000),
            to_ns: window.to_ns.saturating_add(10_000_000),
        };
        let mut walker = self.walker(Some(wide));
        let mut stretch = Stretch { window, ..Stretch::default() };
        let mut read = 0;
        while read < 1_500_000 && stretch.journeys.len() < MOST_SCANNED {
            let scope = &mut self.scope;
            let progress = walker.step(&mut |piece| match piece {
                Piece::Batch(node, batch) => {
                    scope.learn(node, batch);
                    read += batch.events.len();
                }
                Piece::Journey(journey, ..) => {
                    let inside = journey.start_ns().is_some_and(|ns| ns <= window.to_ns)
                        && journey.end_ns().is_some_and(|ns| ns >= window.from_ns);
                    if inside && stretch.journeys.len() < MOST_SCANNED {
                        stretch.journeys.push(journey.clone());
                    }
                }
            });
            if progress.expect("it reads") == Progress::End {
                break;
            }
        }
        stretch.truncated = read >= 1_500_000 || stretch.journeys.len() >= MOST_SCANNED;
        self.scope.fill(stretch);
    }

    fn frames(&mut self, n: usize) {
        for _ in 0..n {
            let (began, busy) = (Instant::now(), thread_time());
            let input =
                RawInput { screen_rect: Some(Rect::from_min_size(Pos2::ZERO, SIZE)), ..RawInput::default() };
            let (front, scope) = (&mut self.front, &mut self.scope);
            let mut output = self.ctx.run_ui(input, |ui| {
                front.ui(ui, scope, &Nowhere);
            });
            let triangles = self.ctx.tessellate(std::mem::take(&mut output.shapes), output.pixels_per_point);
            std::hint::black_box(triangles);
            output.textures_delta.clear();
            self.taken.push((began.elapsed(), thread_time().saturating_sub(busy)));
        }
    }

    fn report(&mut self, name: &str) {
        let (mut wall, mut busy): (Vec<_>, Vec<_>) = self.taken.iter().copied().unzip();
        let reported = |taken: &mut Vec<Duration>| {
            taken.sort();
            let at = |part: f64| taken.get((taken.len() as f64 * part) as usize).map_or(0.0, |d| ms(*d));
            format!("{:>6.2} {:>6.2} {:>6.2}", at(0.5), at(0.95), taken.last().map_or(0.0, |d| ms(*d)))
        };
        println!(
            "{name:<32} ms, p50 p95 worst: wall {}   processor {}   n {}",
            reported(&mut wall),
            reported(&mut busy),
            self.taken.len()
        );
        self.taken.clear();
    }
}

/// Processor time of this thread.
fn thread_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

/// A world without files.
struct Nowhere;

fn nothing() -> Trouble {
    Trouble { what: String::new(), why: String::new(), next: String::new() }
}

impl World for Nowhere {
    fn is_recording(&self, _: &Path) -> bool {
        false
    }
    fn open(&self, _: &[PathBuf], _: &Job) -> Result<Opened, Trouble> {
        Err(nothing())
    }
    fn compare(&self, _: &[PathBuf], _: &[PathBuf], _: &Job) -> Result<Compared, Trouble> {
        Err(nothing())
    }
    fn formats(&self) -> &'static [Format] {
        &[]
    }
    fn export(&self, _: &Part, _: Format, _: &Path, _: &Job) -> Result<String, Trouble> {
        Err(nothing())
    }
    fn write(&self, _: &Path, _: &[u8]) -> Result<(), Trouble> {
        Ok(())
    }
    fn settings(&self) -> String {
        String::new()
    }
    fn keep(&self, _: &str) {}
    fn home(&self) -> PathBuf {
        PathBuf::from("/")
    }
}

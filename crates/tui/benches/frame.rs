//! Cost of a frame: the target is at most 5 ms at 200 × 60.

#[path = "../tests/made_up/mod.rs"]
mod made_up;

use criterion::{Criterion, criterion_group, criterion_main};
use magscope_scope::{Action, Options, Scope, View};
use magscope_tui::Front;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{TerminalOptions, Viewport};
use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::hint::black_box;
use std::io::{self, Write};

const AREA: Rect = Rect::new(0, 0, 200, 60);

/// Events of the large scope.
const EVENTS: u64 = 10_000_000;

/// A scope with this many events.
fn with_events(events: u64, requests_per_s: f64) -> Scope {
    let mut scope = Scope::new(made_up::info(), Options::default());
    let mut world = made_up::World::new(requests_per_s);
    let mut hundredth = 0;
    while world.hits() < events {
        hundredth += 1;
        world.run_until(hundredth * 10_000_000, &mut scope);
    }
    scope
}

/// A scope with this many flows of a datagram each.
fn with_flows(flows: u64) -> Scope {
    let mut scope = Scope::new(made_up::info(), Options::default());
    (0..flows).step_by(1000).for_each(|first| scope.ingest(&made_up::storm::flows(first..first + 1000)));
    scope
}

/// A scope with events and three custom probes: one hit per packet, 2,500 hits a second with a value, and some
/// without a hop.
fn with_probes(events: u64, requests_per_s: f64) -> Scope {
    let mut scope = Scope::new(made_up::probed(), Options::default());
    let mut world = made_up::World::probed(requests_per_s);
    let mut hundredth = 0;
    while world.hits() < events {
        hundredth += 1;
        world.run_until(hundredth * 10_000_000, &mut scope);
    }
    scope
}

/// Every view, including the conversion of every cell to bytes.
fn frame(c: &mut Criterion) {
    let views: &[(&str, &[Action])] = &[
        ("scope, near", &[Action::SetTimebase(1_000_000)]),
        ("scope, crowded", &[Action::SetTimebase(20_000_000)]),
        ("scope, from afar", &[Action::Fit]),
        ("overlay of 512", &[Action::ToggleAlign]),
        ("flows", &[Action::ToggleAlign, Action::Show(View::Flows)]),
        ("hops", &[Action::Show(View::Hops), Action::Fit]),
        ("journeys", &[Action::Show(View::Journeys)]),
        ("events", &[Action::Show(View::Events)]),
        ("clock", &[Action::Show(View::Clock)]),
        ("losses", &[Action::Show(View::Losses)]),
    ];
    measure(c, "frame 200x60", with_events(EVENTS, 4_000.0), views);
    let views: &[(&str, &[Action])] = &[
        ("scope, near", &[Action::SetTimebase(1_000_000)]),
        ("scope, crowded", &[Action::SetTimebase(20_000_000)]),
        ("scope, from afar", &[Action::Fit]),
        ("a journey opened", &[Action::SelectJourney(1), Action::ToggleInspector]),
        ("hops", &[Action::Back, Action::Show(View::Hops), Action::Fit]),
        ("events", &[Action::Show(View::Events)]),
    ];
    measure(c, "frame 200x60 with custom probes", with_probes(EVENTS / 10, 4_000.0), views);
    let views: &[(&str, &[Action])] = &[
        ("scope, near", &[Action::SetTimebase(1_000_000)]),
        ("scope, from afar", &[Action::Fit]),
        ("flows", &[Action::Show(View::Flows)]),
        ("hops", &[Action::Show(View::Hops), Action::Fit]),
    ];
    measure(c, "frame 200x60 with a million flows", with_flows(1_000_000), views);
}

fn measure(c: &mut Criterion, name: &str, mut scope: Scope, views: &[(&str, &[Action])]) {
    let front = Front::new(magscope_tui::Options::default());
    let mut group = c.benchmark_group(name);
    group.sample_size(30);
    for (name, actions) in views {
        for action in *actions {
            scope.apply(action.clone());
        }
        let bytes = Cell::new(0_u64);
        let options = TerminalOptions { viewport: Viewport::Fixed(AREA) };
        let Ok(mut terminal) = Terminal::with_options(CrosstermBackend::new(Counted(&bytes)), options) else {
            continue;
        };
        group.bench_function(*name, |b| {
            b.iter(|| {
                // An empty frame in between makes every cell differ, so that all bytes are generated. The
                // result is the worst case of a frame plus an empty one.
                let full = terminal.draw(|f| front.draw(black_box(&scope), f.buffer_mut(), AREA)).is_ok();
                black_box(full && terminal.draw(|_| ()).is_ok())
            });
        });
        let mut busy: Vec<_> = (0..41)
            .map(|_| {
                let began = thread_ns();
                black_box(terminal.draw(|f| front.draw(black_box(&scope), f.buffer_mut(), AREA)).is_ok());
                let taken = thread_ns() - began;
                black_box(terminal.draw(|_| ()).is_ok());
                taken
            })
            .collect();
        busy.sort_unstable();
        let ms = |at: usize| busy[at] as f64 / 1e6;
        println!(
            "{name}: processor time without the empty frame: {:.2} ms ({:.2} to {:.2})",
            ms(20),
            ms(10),
            ms(30)
        );
        let before = bytes.get();
        let drawn = terminal.draw(|f| front.draw(&scope, f.buffer_mut(), AREA)).is_ok();
        println!("{name}: {} bytes from an empty screen ({drawn})", bytes.get() - before);
    }
    group.finish();
}

/// Processor time of this thread, nanoseconds.
fn thread_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Counts and discards bytes.
struct Counted<'a>(&'a Cell<u64>);

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.set(self.0.get() + bytes.len() as u64);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn ingest(c: &mut Criterion) {
    let mut world = made_up::World::new(4_000.0);
    let batch = world.batch_until(100_000_000).clone();
    let mut group = c.benchmark_group("ingest");
    group.throughput(criterion::Throughput::Elements(batch.events.len() as u64));
    group.bench_function("events", |b| {
        b.iter_batched_ref(
            || Scope::new(made_up::info(), Options::default()),
            |scope| scope.ingest(black_box(&batch)),
            criterion::BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(benches, frame, ingest);
criterion_main!(benches);

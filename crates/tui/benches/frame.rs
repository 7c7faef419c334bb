//! What a frame costs: the promise is at most 5 ms at 200 × 60.

#[path = "../tests/made_up/mod.rs"]
mod made_up;

use criterion::{Criterion, criterion_group, criterion_main};
use magscope_scope::{Action, Options, Scope};
use magscope_tui::Front;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{TerminalOptions, Viewport};
use std::hint::black_box;

const AREA: Rect = Rect::new(0, 0, 200, 60);

fn busy(requests_per_s: f64) -> Scope {
    let mut scope = Scope::new(made_up::info(), Options::default());
    let mut world = made_up::World::new(requests_per_s);
    for hundredth in 1..=200 {
        world.run_until(hundredth * 10_000_000, &mut scope);
    }
    scope
}

fn frame(c: &mut Criterion) {
    let front = Front::new(magscope_tui::Options::default());
    let mut group = c.benchmark_group("frame 200x60");
    let calm = busy(400.0);
    // The most a picture can hold: every kept lifeline, from its start.
    let mut crowded = busy(4_000.0);
    crowded.apply(Action::ToggleAlign);
    for (name, scope) in [("calm", &calm), ("512 lifelines", &crowded)] {
        let options = TerminalOptions { viewport: Viewport::Fixed(AREA) };
        let Ok(mut terminal) = Terminal::with_options(CrosstermBackend::new(std::io::sink()), options) else {
            continue;
        };
        group.bench_function(name, |b| {
            b.iter(|| {
                // The empty frame between makes every cell differ, so that all bytes are made as well: what is
                // measured is the worst a frame can cost, and the empty one on top.
                let full = terminal.draw(|f| front.draw(black_box(scope), f.buffer_mut(), AREA));
                let full = full.is_ok();
                black_box(full && terminal.draw(|_| ()).is_ok())
            });
        });
    }
    group.finish();
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

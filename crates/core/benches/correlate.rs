//! Events a second through the correlator. The promise is five million a core.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use magscope_core::journey::{Correlator, Limits};
use magscope_core::node::{Backend, Coverage};
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Generator, GeneratorOptions};
use std::hint::black_box;
use std::time::Duration;

fn traffic(options: GeneratorOptions) -> Vec<Batch> {
    let mut generator = Generator::new(options);
    let mut batches = Vec::new();
    loop {
        let mut batch = Batch::default();
        let progress = generator.next(&mut batch, Duration::ZERO);
        batches.push(batch);
        if !matches!(progress, Ok(Progress::More)) {
            return batches;
        }
    }
}

fn correlate(c: &mut Criterion) {
    let served = Coverage::full(Backend::Generator).served();
    let mut group = c.benchmark_group("correlate");
    group.sample_size(20);
    for (name, flows, lose_every) in
        [("1_flow", 1, 0), ("64_flows", 64, 0), ("4096_flows", 4096, 0), ("64_flows_lossy", 64, 50)]
    {
        let batches = traffic(GeneratorOptions { flows, lose_every, ..GeneratorOptions::default() });
        let events: usize = batches.iter().map(|b| b.events.len()).sum();
        group.throughput(Throughput::Elements(events as u64));
        group.bench_function(name, |b| {
            b.iter_batched(
                || (Correlator::new(served, Limits::default()), Vec::new()),
                |(mut correlator, mut done)| {
                    for batch in &batches {
                        correlator.push(batch, &mut done);
                        black_box(&done);
                        done.clear();
                    }
                    correlator.in_flight()
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, correlate);
criterion_main!(benches);

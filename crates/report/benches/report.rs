//! Cost of a report in addition to the correlator: events and journeys in memory, added up.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use magscope_core::context::NodeContext;
use magscope_core::journey::{Correlator, Limits};
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Generator, GeneratorOptions};
use magscope_report::GroupBy;
use magscope_report::ReportBuilder;
use magscope_report::stats::running::Window;
use std::hint::black_box;
use std::time::Duration;

const EVENTS: u64 = 1_000_000;

/// Selects the contents of a report.
type Ask = fn(ReportBuilder) -> ReportBuilder;

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("report");
    group.throughput(Throughput::Elements(EVENTS)).sample_size(10);
    let mut source = Generator::new(GeneratorOptions { events: EVENTS, ..GeneratorOptions::default() });
    let (mut batches, mut batch) = (Vec::new(), Batch::default());
    while source.next(&mut batch, Duration::ZERO).is_ok_and(|progress| progress == Progress::More) {
        batches.push(batch.clone());
    }
    batches.push(batch);
    let node = source.info().clone();
    let asked: [(&str, Ask); 5] = [
        ("plain", |report| report),
        ("by process", |report| report.by(GroupBy::Process)),
        ("requests", ReportBuilder::requests),
        ("throughput", ReportBuilder::throughput),
        ("window", |report| report.window(Window::Receives(1000))),
    ];
    for (name, ask) in asked {
        group.bench_function(name, |bencher| {
            let new =
                || (ask(ReportBuilder::new(&node)), Correlator::new(node.coverage.served(), Limits::default()));
            bencher.iter_batched(
                new,
                |(mut report, mut correlator)| {
                    let mut done = Vec::new();
                    for batch in &batches {
                        report.batch(batch);
                        correlator.push(batch, &mut done);
                        for journey in done.drain(..) {
                            report.journey(&journey, &NodeContext { correlator: &correlator, node: &node });
                        }
                    }
                    black_box(report.finish())
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(report, benches);
criterion_main!(report);

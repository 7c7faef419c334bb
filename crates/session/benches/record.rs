//! Throughput and size of recording and replay: events per second and bytes per event.
//!
//! The recorder is measured to the end of `close`, which includes compression and all writes. Its queue is
//! large enough that nothing is lost, so the bench measures the writer.
#![allow(missing_docs)]

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Traffic, node};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use magscope_core::Batch;
use magscope_core::source::{Progress, Source};
use magscope_session::{RecordOptions, Recorder, Session, Summary};
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

const EVENTS: usize = 4 << 20;
const BATCH: usize = 32 << 10;

fn traffic(cpus: usize, connections: usize) -> Vec<Batch> {
    let mut traffic = Traffic::new(cpus, connections);
    let batch = |_| {
        let mut batch = Batch::default();
        traffic.fill(&mut batch, BATCH);
        batch
    };
    (0..EVENTS / BATCH).map(batch).collect()
}

fn record(dir: &Path, batches: &[Batch], options: &RecordOptions) -> Summary {
    let mut recorder = Recorder::create(dir, &node(), options.clone()).expect("the directory is new");
    for batch in batches {
        recorder.append(batch).expect("there is room on the disk");
    }
    recorder.close().expect("there is room on the disk")
}

fn replay(session: &Session) -> u64 {
    let (mut replay, mut batch, mut events) = (session.replay(None, None), Batch::default(), 0);
    while replay.next(&mut batch, Duration::ZERO).is_ok_and(|p| p == Progress::More) {
        events += black_box(&batch).events.len() as u64;
    }
    events
}

fn bench(c: &mut Criterion) {
    let roomy = RecordOptions { queue_bytes: 4 << 30, ..RecordOptions::default() };
    for (name, cpus, connections) in [("4 cpus, 16 flows", 4, 16), ("8 cpus, 2000 flows", 8, 2_000)] {
        let batches = traffic(cpus, connections);
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Elements(EVENTS as u64)).sample_size(10);
        let mut recording = None;
        group.bench_function("record", |b| {
            b.iter_with_large_drop(|| {
                let parent = tempfile::tempdir().expect("a temporary directory");
                recording = Some(record(&parent.path().join("session"), &batches, &roomy));
                parent
            });
        });
        if let Some(recording) = recording {
            println!("{name}: {:.2} bytes/event", recording.bytes as f64 / recording.events as f64);
        }
        let parent = tempfile::tempdir().expect("a temporary directory");
        let dir = parent.path().join("session");
        record(&dir, &batches, &roomy);
        let session = Session::open(&dir).expect("a session");
        assert_eq!(replay(&session), EVENTS as u64);
        group.bench_function("replay", |b| b.iter(|| replay(&session)));
        group.bench_function("open", |b| b.iter(|| Session::open(&dir).map(|s| s.summary().events)));
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(8));
    targets = bench
}
criterion_main!(benches);

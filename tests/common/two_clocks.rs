//! Two recordings of one host, of which the second is rewritten with a skewed clock, so that the true offset is
//! known.

#![allow(dead_code)] // each test file uses a part

use super::{eventually, run, stderr};
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Event};
use magscope_session::{RecordOptions, Recorder, Session};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// All journeys of combined recordings, and the messages.
pub fn journeys(dirs: &[&str]) -> (Vec<Value>, String) {
    let mut arguments = vec!["journeys", "--json", "--slowest", "100000"];
    arguments.extend(dirs);
    let output = run(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let rows: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    (rows.as_array().expect("one array").clone(), stderr(&output))
}

/// A key that identifies a journey in both readings.
pub fn name_of(row: &Value) -> String {
    format!(
        "{} {} {} {} {}",
        row["proto"], row["from"], row["range"]["start"], row["bytes"], row["rungs"][0]["time_ns"]
    )
}

/// The time on the wire and its error.
pub fn wire(row: &Value) -> Option<(i64, i64)> {
    let steps = row["latencies"].as_array()?;
    let step = steps.iter().find(|step| step["to"] == "dev.recv" && step["from"] == "dev.xmit")?;
    Some((step["ns"].as_i64()?, step["half_width_ns"].as_i64().unwrap_or(0)))
}

/// Skew of the second recording: more than an hour ahead, 40 parts per million fast.
pub fn skewed(ns: u64) -> u64 {
    ns + ns / 25_000 + 3_600_123_456_789
}

/// Rewrites a recording with a skewed clock.
pub fn with_a_clock_of_its_own(from: &str, to: &str) {
    let session = Session::open(Path::new(from)).expect("a recording");
    let mut info = session.info().clone();
    "another".clone_into(&mut info.boot_id);
    "elsewhere".clone_into(&mut info.host);
    let mut recorder = Recorder::create(Path::new(to), &info, RecordOptions::default()).expect("a place");
    let (mut replay, mut batch) = (session.replay(None, None), Batch::default());
    while replay.next(&mut batch, Duration::ZERO).expect("a replay never fails") != Progress::End {
        batch.events.iter_mut().for_each(|event: &mut Event| event.time_ns = skewed(event.time_ns));
        batch.tcp.iter_mut().for_each(|sample| sample.time_ns = skewed(sample.time_ns));
        for sample in &mut batch.clock {
            (sample.monotonic_ns, sample.raw_ns) = (skewed(sample.monotonic_ns), skewed(sample.raw_ns));
            sample.realtime_ns += 5_000_000_000; // its wall clock is wrong as well
        }
        batch.watermark_ns = skewed(batch.watermark_ns);
        recorder.append(&batch).expect("room");
    }
    recorder.close().expect("it is written");
}

/// Waits until a running recording has `more` further clock samples.
pub fn clocks_are_sampled(dir: &str, more: usize) {
    let count = || {
        let session = Session::open(Path::new(dir)).expect("a recording");
        let (mut replay, mut batch, mut count) = (session.replay(None, None), Batch::default(), 0);
        while replay.next(&mut batch, Duration::ZERO).expect("a replay never fails") != Progress::End {
            count += batch.clock.len();
        }
        count
    };
    let before = count();
    assert!(
        eventually(|| count() >= before + more),
        "{before} samples of the clocks of {dir}, then {}",
        count()
    );
}

/// Rewrites a recording at its original speed.
pub fn play(from: &str, to: &str) {
    let session = Session::open(Path::new(from)).expect("a recording");
    let mut recorder =
        Recorder::create(Path::new(to), session.info(), RecordOptions::default()).expect("a place");
    let (mut replay, mut batch) = (session.replay(None, None), Batch::default());
    let mut before_ns = None;
    while replay.next(&mut batch, Duration::ZERO).expect("a replay never fails") != Progress::End {
        recorder.append(&batch).expect("room");
        let now_ns = batch.events.last().map(|event| event.time_ns);
        let passed_ns = now_ns.zip(before_ns).map_or(0, |(now, before): (u64, u64)| now.saturating_sub(before));
        before_ns = now_ns.or(before_ns);
        std::thread::sleep(Duration::from_nanos(passed_ns).min(Duration::from_secs(1)));
    }
    recorder.close().expect("it is written");
}

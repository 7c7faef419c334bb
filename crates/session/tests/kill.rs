//! A killed recorder loses at most the last second.
//!
//! The test starts itself as the recorder and kills that process.

use crate::common;

use common::{Traffic, drain, node};
use magscope_core::Batch;
use magscope_session::{RecordOptions, Recorder, Session};
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const DIR: &str = "MAGSCOPE_TEST_RECORD_INTO";

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// No test by itself: the process to be killed.
#[test]
fn recorder_to_be_killed() {
    let Some(dir) = std::env::var_os(DIR) else {
        return;
    };
    let mut recorder = Recorder::create(Path::new(&dir), &node(), RecordOptions::default()).unwrap();
    let (mut traffic, mut batch) = (Traffic::new(4, 64), Batch::default());
    loop {
        traffic.fill(&mut batch, 500);
        let now_ns = monotonic_ns();
        for (i, event) in batch.events.iter_mut().enumerate() {
            event.time_ns = now_ns + i as u64;
        }
        recorder.append(&batch).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The time for which the threads of a process were ready to run and had no CPU: the machine's delay, not the
/// recorder's.
fn waited_for_cpu(pid: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok());
    let waits = texts.filter_map(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    Duration::from_nanos(waits.sum())
}

#[test]
fn kill_9_costs_at_most_a_second() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("session");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::recorder_to_be_killed"])
        .env(DIR, &dir)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // After some flushes, at a time unrelated to them.
    let begun = || fs::metadata(dir.join("events-0000.arrows")).is_ok_and(|file| file.len() > 100_000);
    while !begun() {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(1_300));
    let waited = waited_for_cpu(child.id());
    let killed_ns = monotonic_ns();
    child.kill().unwrap(); // SIGKILL
    child.wait().unwrap();

    let session = Session::open(&dir).unwrap();
    assert!(!session.summary().closed);
    let damage: Vec<String> = session.damage().iter().map(ToString::to_string).collect();
    assert!(damage[0].starts_with("unfinished"), "{damage:?}");
    let (replayed, _) = drain(&mut session.replay(None, None));
    let last_ns = replayed.events.last().unwrap().time_ns;
    let missing = Duration::from_nanos(killed_ns.saturating_sub(last_ns));
    println!("{} events, the last {missing:?} before the kill", replayed.events.len());
    assert!(missing < Duration::from_secs(1) + waited, "{missing:?} are missing, {waited:?} without a CPU");
    // No earlier loss: the generator's numbers have no gap.
    let mut next = [None; 4];
    for event in &replayed.events {
        let next = &mut next[usize::from(event.cpu)];
        assert!(next.is_none_or(|n| n == event.record));
        *next = Some(event.record + 1);
    }
}

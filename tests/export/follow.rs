//! A running recording.

use crate::common::{self, run};
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Generator, GeneratorOptions};
use magscope_session::{RecordOptions, Recorder};
use std::fs;
use std::time::Duration;
use tempfile::TempDir;

#[test]
fn a_recording_that_runs_is_followed_to_its_end() {
    let dir = TempDir::new().expect("a directory");
    let session = dir.path().join("session");
    let mut source =
        Generator::new(GeneratorOptions { events: 40_000, flows: 8, ..GeneratorOptions::default() });
    let options = RecordOptions { flush_interval: Duration::ZERO, ..RecordOptions::default() };
    let mut recorder = Recorder::create(&session, source.info(), options).expect("an empty directory");
    let (mut batch, mut batches) = (Batch::default(), Vec::new());
    while source.next(&mut batch, Duration::ZERO).expect("a generator never fails") == Progress::More {
        batches.push(batch.clone());
    }
    let (first, rest) = batches.split_at(batches.len() / 2);
    assert!(!first.is_empty() && !rest.is_empty());
    for batch in first {
        recorder.append(batch).expect("room");
    }
    let (session, out) = (session.to_string_lossy().into_owned(), dir.path().join("log"));
    let place = out.to_string_lossy().into_owned();
    let mut follow = common::magnet_scope(&["export", &session, "--format", "ulm", "--follow", "-o", &place])
        .spawn()
        .expect("the binary starts");
    let lines = || fs::read_to_string(&out).map_or(0, |text| text.lines().count());
    assert!(common::eventually(|| lines() > 1_000), "{} lines while it runs", lines());
    let before = lines();
    for batch in rest {
        recorder.append(batch).expect("room");
    }
    assert!(common::eventually(|| lines() > before), "no more lines than {before}");
    recorder.close().expect("room");
    assert!(follow.wait().expect("it ends").success());
    let whole = dir.path().join("whole").to_string_lossy().into_owned();
    assert!(run(&["export", &session, "--format", "ulm", "-o", &whole]).status.success());
    let sorted = |text: String| {
        // A journey is numbered at its end, whose order may differ at the seam.
        let mut lines: Vec<String> = text
            .lines()
            .map(|l| l.split(' ').filter(|f| !f.starts_with("ID=")).collect::<Vec<_>>().join(" "))
            .collect();
        lines.sort();
        lines
    };
    let (followed, at_once) =
        (fs::read_to_string(&out).expect("text"), fs::read_to_string(&whole).expect("text"));
    let (followed, at_once) = (sorted(followed), sorted(at_once));
    let other = followed.iter().zip(&at_once).find(|(a, b)| a != b);
    assert!(followed == at_once, "{} lines for {}, first {other:#?}", followed.len(), at_once.len());
}

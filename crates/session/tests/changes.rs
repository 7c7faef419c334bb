//! Changes of settings hold on in later segments, and are read once.

use crate::common;

use common::{Traffic, change, drain, node};
use magscope_core::{Batch, Change, Event};
use magscope_session::{RecordOptions, Recorder, Session, Table};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Options for several segments.
fn small_segments() -> RecordOptions {
    RecordOptions { segment_bytes: 100_000, ..RecordOptions::default() }
}

/// Records forty batches, the first `changed` of them with a change. Returns the changes and all events.
fn record(dir: &Path, options: RecordOptions, changed: usize) -> (Vec<Change>, Vec<Event>) {
    let mut recorder = Recorder::create(dir, &node(), options).unwrap();
    let (mut traffic, mut batch) = (Traffic::new(4, 32), Batch::default());
    let (mut changes, mut events) = (Vec::new(), Vec::new());
    for number in 0..40 {
        traffic.fill(&mut batch, 1_500);
        if number < changed {
            batch.changes.push(change(batch.watermark_ns));
        }
        recorder.append(&batch).unwrap();
        changes.extend_from_slice(&batch.changes);
        events.extend_from_slice(&batch.events);
    }
    recorder.close().unwrap();
    (changes, events)
}

fn replayed(session: &Session, from_ns: Option<u64>, to_ns: Option<u64>) -> Vec<Change> {
    drain(&mut session.replay(from_ns, to_ns)).0.changes
}

#[test]
fn a_change_survives_the_deletion_of_its_segment() {
    let dir = tempfile::tempdir().unwrap();
    let options = RecordOptions { keep_segments: Some(2), ..small_segments() };
    let (changes, _) = record(dir.path(), options, 1);
    let session = Session::open(dir.path()).unwrap();
    assert!(session.summary().dropped.as_ref().unwrap().segments > 2, "{:?}", session.summary());
    assert_eq!(session.changes().0, changes);
    assert_eq!(replayed(&session, None, None), changes);
    assert_eq!(session.verify(), []);
}

#[test]
fn a_whole_replay_has_each_change_once() {
    let dir = tempfile::tempdir().unwrap();
    let (changes, events) = record(dir.path(), small_segments(), 40);
    let session = Session::open(dir.path()).unwrap();
    assert!(session.summary().segments > 2, "{:?}", session.summary());
    assert_eq!(session.changes().0, changes);
    let (all, _) = drain(&mut session.replay(None, None));
    assert_eq!((all.changes, all.events), (changes, events));
    assert_eq!(session.verify(), []);
}

#[test]
fn a_replay_from_a_later_time_has_the_changes_before_it_once() {
    let dir = tempfile::tempdir().unwrap();
    let (changes, events) = record(dir.path(), small_segments(), 1);
    let session = Session::open(dir.path()).unwrap();
    let segments = session.summary().segments;
    assert!(segments > 2, "{:?}", session.summary());
    let (middle_ns, last_ns) = (events[30_000].time_ns, events[events.len() - 1].time_ns);
    let windows = [(middle_ns, None), (middle_ns, Some(middle_ns)), (last_ns, None), (last_ns + 1, None)];
    for (from_ns, to_ns) in windows {
        assert_eq!(replayed(&session, Some(from_ns), to_ns), changes, "{from_ns} to {to_ns:?}");
    }
    // A recorder of an older version repeats none in later segments.
    for segment in 1..segments {
        fs::remove_file(dir.path().join(Table::Changes.file_name(segment))).unwrap();
    }
    let session = Session::open(dir.path()).unwrap();
    for (from_ns, to_ns) in windows {
        assert_eq!(replayed(&session, Some(from_ns), to_ns), changes, "{from_ns} to {to_ns:?}");
    }
}

#[test]
fn earlier_changes_alone_begin_no_segment() {
    let dir = tempfile::tempdir().unwrap();
    // A batch is one flush, so that nothing waits behind the end of a segment.
    let options = RecordOptions { flush_interval: Duration::ZERO, ..small_segments() };
    let mut recorder = Recorder::create(dir.path(), &node(), options).unwrap();
    let (mut traffic, mut batch) = (Traffic::new(4, 32), Batch::default());
    while recorder.status().segment == 0 {
        traffic.fill(&mut batch, 200);
        batch.changes.push(change(batch.watermark_ns));
        recorder.append(&batch).unwrap();
        // Time for the end of the segment.
        std::thread::sleep(Duration::from_millis(20));
    }
    recorder.close().unwrap();
    let has = |table: Table, segment| dir.path().join(table.file_name(segment)).exists();
    assert!(has(Table::Changes, 0));
    for segment in 0..3 {
        assert_eq!(has(Table::Changes, segment), has(Table::Events, segment), "segment {segment}");
    }
}

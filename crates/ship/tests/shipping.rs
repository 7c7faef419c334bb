//! Uploads to a directory: content, order, and recovery from errors.

use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Event, ExtentKind, Hop};
use magscope_session::{META, RecordOptions, Recorder, Session, Shipped};
use magscope_ship::{Destination, LEDGER, LocalStore, ShipError, Shipper, ship, unshipped};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Events a batch.
const EVENTS: u64 = 1_500;

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_mins(1);
    while !holds() {
        assert!(Instant::now() < end, "{what}: not in a minute");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn node() -> NodeInfo {
    NodeInfo { host: "web 1".to_owned(), ..NodeInfo::default() }
}

/// Fields that differ between events, so that they do not compress.
fn fill(batch: &mut Batch, from: u64) {
    batch.clear();
    batch.events.extend((from..from + EVENTS).map(|n| {
        let socket = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Event {
            socket,
            extent: ExtentKind::Stream.of((socket >> 32) as u32),
            ..Event::at(Hop::DevXmit, 1_000_000 * (n + 1))
        }
    }));
}

/// A recorder with small segments that waits for its writer.
struct Recording {
    recorder: Recorder,
    events: u64,
}

impl Recording {
    fn begin(dir: &Path, options: RecordOptions) -> Self {
        let options = RecordOptions { segment_bytes: 64 << 10, flush_interval: Duration::ZERO, ..options };
        Recording { recorder: Recorder::create(dir, &node(), options).unwrap(), events: 0 }
    }

    fn write(&mut self, batches: u64) {
        let mut batch = Batch::default();
        for _ in 0..batches {
            fill(&mut batch, self.events);
            self.recorder.append(&batch).unwrap();
            self.events += EVENTS;
            while self.recorder.status().queue_bytes > 0 {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }
}

fn recorded(dir: &Path, batches: u64) -> u64 {
    let mut recording = Recording::begin(dir, RecordOptions::default());
    recording.write(batches);
    let summary = recording.recorder.close().unwrap();
    assert!(summary.segments > 3, "{} segments", summary.segments);
    summary.events
}

fn folder(path: &Path) -> Destination {
    Destination::Folder(path.to_path_buf())
}

fn quiet(_: &str) {}

/// All files of a copy with their inodes: a rewritten file has a new inode.
fn files(dir: &Path) -> BTreeMap<String, (Vec<u8>, u64)> {
    let listed = fs::read_dir(dir).into_iter().flatten().map(Result::unwrap);
    let file = |path: PathBuf| (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().ino());
    listed.map(|entry| (entry.file_name().into_string().unwrap(), file(entry.path()))).collect()
}

fn assert_same(original: &Path, copy: &Path) {
    let mut originals = files(original);
    originals.remove(LEDGER);
    let (originals, copies) = (originals, files(copy));
    assert!(originals.keys().eq(copies.keys()), "{:?} {:?}", originals.keys(), copies.keys());
    for (name, (bytes, _)) in &originals {
        assert!(copies[name].0 == *bytes, "{name} differs");
    }
}

fn events_of(session: &Session) -> Vec<Event> {
    let (mut replay, mut batch, mut all) = (session.replay(None, None), Batch::default(), Vec::new());
    while replay.next(&mut batch, Duration::ZERO).unwrap() == Progress::More {
        all.extend_from_slice(&batch.events);
    }
    all.extend_from_slice(&batch.events);
    all
}

#[test]
fn a_copy_is_the_recording_and_nothing_is_shipped_twice() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = here.path().join("slow");
    let events = recorded(&dir, 20);
    let status = ship(&folder(there.path()), LocalStore::One(dir.clone()), quiet).unwrap();
    let copy = there.path().join("web_1/slow");
    assert_same(&dir, &copy);
    let session = Session::open(&copy).unwrap();
    assert_eq!((session.damage(), session.summary().events), (&[][..], events));
    assert_eq!(status.segments, u64::from(session.summary().segments));
    assert_eq!(events_of(&session), events_of(&Session::open(&dir).unwrap()));

    let before = files(&copy);
    assert_eq!(ship(&folder(there.path()), LocalStore::One(dir.clone()), quiet).unwrap().segments, 0);
    assert_eq!(files(&copy), before, "not one file was written anew");
    // Without the ledger, as after a kill before every line, the stored files are recognised.
    fs::remove_file(dir.join(LEDGER)).unwrap();
    ship(&folder(there.path()), LocalStore::One(dir.clone()), quiet).unwrap();
    assert_eq!(files(&copy), before, "not one file was written anew");
    // A damaged stored file is not recognised as equal.
    fs::remove_file(dir.join(LEDGER)).unwrap();
    fs::write(copy.join("events-0001.arrows"), vec![0; before["events-0001.arrows"].0.len()]).unwrap();
    ship(&folder(there.path()), LocalStore::One(dir.clone()), quiet).unwrap();
    assert_same(&dir, &copy);
    // Another destination has no files yet.
    let other = tempfile::tempdir().unwrap();
    ship(&folder(other.path()), LocalStore::One(dir.clone()), quiet).unwrap();
    assert_same(&dir, &other.path().join("web_1/slow"));
}

#[test]
fn closed_segments_arrive_while_it_records_and_make_a_recording() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = here.path().join("now");
    let shipper = Shipper::start(&folder(there.path()), LocalStore::One(dir.clone()), quiet).unwrap();
    let shipped = Shipped::default();
    shipper.began(&dir, shipped.clone());
    let mut recording =
        Recording::begin(&dir, RecordOptions { shipped: Some(shipped.clone()), ..RecordOptions::default() });
    recording.write(20);
    let closed = recording.recorder.status().segment;
    assert!(closed > 3);
    shipper.closed_below(&dir, closed);
    eventually("closed segments arrive", || shipped.below() == closed);
    let copy = there.path().join("web_1/now");
    assert!(!copy.join(format!("events-{closed:04}.arrows")).exists(), "it is being written");
    let part = Session::open(&copy).unwrap();
    assert_eq!((part.summary().segments, part.summary().closed), (closed, false));
    let all = events_of(&Session::open(&dir).unwrap());
    let copied = events_of(&part);
    assert!(!copied.is_empty() && all.starts_with(&copied), "what has arrived is the beginning");

    recording.write(5);
    recording.recorder.close().unwrap();
    shipper.ended(&dir);
    let status = shipper.finish(Duration::from_mins(1));
    assert_eq!((status.waiting, status.trouble), (0, None));
    assert_same(&dir, &copy);
    assert_eq!(Session::open(&copy).unwrap().damage(), []);
}

#[test]
fn a_store_that_is_away_is_waited_for_and_meanwhile_nothing_is_deleted_for_its_number() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (dir, root) = (here.path().join("kept"), there.path().join("mounted later"));
    let news = Arc::new(Mutex::new(Vec::new()));
    let reported = news.clone();
    let report = move |line: &str| reported.lock().unwrap().push(line.to_owned());
    let shipper = Shipper::start(&folder(&root), LocalStore::One(dir.clone()), report).unwrap();
    let shipped = Shipped::default();
    shipper.began(&dir, shipped.clone());
    let options =
        RecordOptions { keep_segments: Some(2), shipped: Some(shipped.clone()), ..RecordOptions::default() };
    let mut recording = Recording::begin(&dir, options);
    recording.write(20);
    let closed = recording.recorder.status().segment;
    shipper.closed_below(&dir, closed);
    eventually("it says what it waits for", || shipper.status().trouble.is_some());
    eventually("it counts what waits", || shipper.status().waiting == u64::from(closed));
    assert_eq!(recording.recorder.status().deleted, 0, "nothing has been shipped");
    assert!(!root.exists());

    fs::create_dir(&root).unwrap();
    eventually("it goes on", || shipped.below() == closed);
    recording.write(5);
    let status = recording.recorder.status();
    assert!(status.deleted >= closed - 1 && status.deleted_unshipped == 0, "{status:?}");
    let events = recording.events;
    let summary = recording.recorder.close().unwrap();
    shipper.ended(&dir);
    let status = shipper.finish(Duration::from_mins(1));
    assert_eq!((status.waiting, status.trouble), (0, None));
    let news = news.lock().unwrap();
    assert!(news[0].contains("mounted") && news.last().unwrap() == "shipping goes on", "{news:?}");

    // The local recording holds the last segments, the copy all of them, and both report their state.
    let original = Session::open(&dir).unwrap();
    assert_eq!((original.damage(), original.summary().dropped.as_ref()), (&[][..], None));
    assert_eq!(original.meta().shipped.as_ref().unwrap().events + summary.events, events);
    let copy = Session::open(&there.path().join("mounted later/web_1/kept")).unwrap();
    assert_eq!((copy.damage(), copy.summary().events), (&[][..], events));
    assert_eq!(copy.meta().closed.as_ref().unwrap().events, events);
}

#[test]
fn the_size_limit_deletes_what_was_not_shipped_and_says_so_here_and_there() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (dir, root) = (here.path().join("forced"), there.path().join("away"));
    let shipped = Shipped::default();
    let limit = 1 << 20;
    let options =
        RecordOptions { size_limit_bytes: Some(limit), shipped: Some(shipped), ..RecordOptions::default() };
    let mut recording = Recording::begin(&dir, options);
    recording.write(60);
    let status = recording.recorder.status();
    assert!(status.deleted > 0 && status.deleted_unshipped == status.deleted, "{status:?}");
    let (events, summary) = (recording.events, recording.recorder.close().unwrap());
    let dropped = summary.dropped.unwrap();
    assert_eq!(dropped.events + summary.events, events);
    assert!(
        dropped.describe().ends_with("dropped by the size limit before they were shipped"),
        "{}",
        dropped.describe()
    );
    assert_eq!(unshipped(&dir, &root.display().to_string()).unwrap(), u64::from(summary.segments));

    fs::create_dir(&root).unwrap();
    ship(&folder(&root), LocalStore::One(dir.clone()), quiet).unwrap();
    assert_eq!(unshipped(&dir, &root.display().to_string()).unwrap(), 0);
    let copy = Session::open(&root.join("web_1/forced")).unwrap();
    assert_eq!((copy.damage(), copy.summary().events), (&[][..], summary.events));
    assert_eq!(copy.summary().dropped.as_ref().unwrap().unshipped, dropped.unshipped);
}

#[test]
fn another_recording_of_the_same_name_is_not_written_over() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (place, expected) in [("a", true), ("b", false)] {
        let dir = here.path().join(place).join("same");
        recorded(&dir, 20);
        let result = ship(&folder(there.path()), LocalStore::One(dir.clone()), quiet);
        assert_eq!(result.is_ok(), expected, "{result:?}");
        if let Err(error) = result {
            assert!(matches!(error, ShipError::Taken { .. }), "{error}");
        }
    }
    assert_same(&here.path().join("a/same"), &there.path().join("web_1/same"));
}

#[test]
fn a_refused_recording_is_counted_with_its_cause() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for place in ["a", "b"] {
        recorded(&here.path().join(place).join("same"), 20);
    }
    ship(&folder(there.path()), LocalStore::One(here.path().join("a/same")), quiet).unwrap();
    let local_store = LocalStore::Below { dir: here.path().join("b"), ours: |_| true };
    let shipper = Shipper::start(&folder(there.path()), local_store, quiet).unwrap();
    eventually("it is refused", || shipper.status().refused == 1);
    let status = shipper.finish(Duration::from_mins(1));
    assert_eq!((status.refused, status.waiting, status.segments), (1, 0, 0));
    let trouble = status.trouble.expect("it has a cause");
    assert!(trouble.contains("refused") && trouble.contains("holds another recording"), "{trouble}");
}

#[test]
fn recordings_below_a_directory_go_in_their_order_and_nothing_else_does() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for name in ["2", "1", "3"] {
        recorded(&here.path().join(name), 20);
    }
    fs::create_dir(here.path().join("no recording")).unwrap();
    fs::write(here.path().join("a file"), "x").unwrap();
    std::os::unix::fs::symlink("1", here.path().join("link")).unwrap();
    // The recording is running, but this process does not have it registered.
    let running = Recording::begin(&here.path().join("0"), RecordOptions::default());
    let local_store = LocalStore::Below { dir: here.path().to_path_buf(), ours: |_| true };
    let error = ship(&folder(there.path()), local_store.clone(), quiet).unwrap_err();
    assert!(error.to_string().contains("being recorded"), "{error}");
    let copies: Vec<_> = files_below(&there.path().join("web_1"));
    assert_eq!(copies, ["1", "2", "3"]);
    let times = ["1", "2", "3"].map(|name| {
        let meta = fs::metadata(there.path().join("web_1").join(name).join(META)).unwrap();
        (meta.mtime(), meta.mtime_nsec())
    });
    assert!(times.is_sorted(), "{times:?}");
    running.recorder.close().unwrap();
    ship(&folder(there.path()), local_store, quiet).unwrap();
    assert_eq!(files_below(&there.path().join("web_1")), ["0", "1", "2", "3"]);
}

fn files_below(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

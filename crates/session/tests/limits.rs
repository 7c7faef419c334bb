//! Limits: sizes, segments, the queue, the disk.

use crate::common;

use common::{Traffic, drain, loss, node};
use magscope_core::{Batch, LossCause};
use magscope_session::{OnFullDisk, RecordOptions, Recorder, Session, SessionError};
use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

fn directory_bytes(dir: &Path) -> u64 {
    fs::read_dir(dir).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum()
}

/// Waits until the writer's queue is empty, so that nothing is dropped.
fn settle(recorder: &Recorder) {
    while recorder.status().queue_bytes > 0 {
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn a_size_limit_is_kept_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let limit = 1 << 20;
    let options = RecordOptions { size_limit_bytes: Some(limit), ..RecordOptions::default() };
    let mut recorder = Recorder::create(dir.path(), &node(), options).unwrap();
    let (mut traffic, mut batch) = (Traffic::new(4, 64), Batch::default());
    let mut appended = 0;
    for _ in 0..200 {
        traffic.fill(&mut batch, 1_500);
        batch.losses.push(loss(batch.watermark_ns, 1));
        recorder.append(&batch).unwrap();
        appended += batch.events.len() as u64;
        settle(&recorder);
        assert!(directory_bytes(dir.path()) <= limit, "{} bytes", directory_bytes(dir.path()));
    }
    let summary = recorder.close().unwrap();
    assert!(directory_bytes(dir.path()) <= limit);
    let session = Session::open(dir.path()).unwrap();
    assert_eq!(session.damage(), [], "retention is no damage");
    assert_eq!(*session.summary(), summary);
    let dropped = summary.dropped.unwrap();
    assert_eq!(dropped.events + summary.events, appended);
    assert_eq!(dropped.lost + summary.losses.ring_full, 200);
    assert!(dropped.describe().ends_with("dropped by the size limit"), "{}", dropped.describe());
    // The rest is self-contained.
    let (replayed, _) = drain(&mut session.replay(None, None));
    assert_eq!(replayed.events.len() as u64, summary.events);
    let flows: HashSet<_> = replayed.flows.iter().map(|f| f.id).collect();
    assert!(replayed.events.iter().all(|e| flows.contains(&e.flow)));
    let tids: HashSet<_> = replayed.tasks.iter().map(|t| t.tid).collect();
    assert!(replayed.events.iter().all(|e| e.tid == 0 || tids.contains(&e.tid)));
    assert_eq!(replayed.losses.iter().filter(|l| l.cause != LossCause::RingFull).count(), 0);
}

#[test]
fn segments_kept_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let options = RecordOptions { keep_segments: Some(2), segment_bytes: 100_000, ..RecordOptions::default() };
    let mut recorder = Recorder::create(dir.path(), &node(), options).unwrap();
    let (mut traffic, mut batch) = (Traffic::new(4, 64), Batch::default());
    for _ in 0..40 {
        traffic.fill(&mut batch, 1_500);
        recorder.append(&batch).unwrap();
        settle(&recorder);
    }
    let summary = recorder.close().unwrap();
    assert!(summary.segments <= 2);
    let dropped = summary.dropped.unwrap();
    assert!(dropped.segments > 2);
    assert_eq!(dropped.events + summary.events, 60_000);
    assert!(dropped.describe().contains("limit on segments kept"));
    assert_eq!(Session::open(dir.path()).unwrap().damage(), []);
}

/// Ages use the event clock: times of `Traffic` count, not the speed of writing.
#[test]
fn segments_end_and_go_by_age() {
    let dir = tempfile::tempdir().unwrap();
    let (mut traffic, mut batch) = (Traffic::new(4, 64), Batch::default());
    traffic.fill(&mut batch, 1_500);
    let span_ns = |batch: &Batch| batch.events.last().unwrap().time_ns - batch.events[0].time_ns;
    let every_ns = span_ns(&batch);
    // a hundred batches span the age limit
    let stretch = 100_000_000_u64.div_ceil(every_ns);
    let keep_for = Duration::from_nanos(100 * every_ns * stretch).max(Duration::from_secs(1));
    let options =
        RecordOptions { keep_for: Some(keep_for), flush_interval: Duration::ZERO, ..RecordOptions::default() };
    let mut recorder = Recorder::create(dir.path(), &node(), options).unwrap();
    let (mut appended, mut newest_ns) = (0, 0);
    for _ in 0..400 {
        traffic.fill(&mut batch, 1_500);
        batch.events.iter_mut().for_each(|event| event.time_ns *= stretch);
        newest_ns = batch.events.last().unwrap().time_ns;
        recorder.append(&batch).unwrap();
        appended += batch.events.len() as u64;
        settle(&recorder);
    }
    let summary = recorder.close().unwrap();
    let dropped = summary.dropped.clone().unwrap();
    assert_eq!(dropped.events + summary.events, appended);
    assert!(dropped.describe().ends_with("dropped by the limit on their age"), "{}", dropped.describe());
    let session = Session::open(dir.path()).unwrap();
    assert_eq!(session.damage(), [], "retention is no damage");
    // All young data is present, and nothing older by more than a segment.
    let oldest_ns = summary.from_ns.unwrap();
    let age_ns = keep_for.as_nanos() as u64;
    assert!(
        newest_ns - oldest_ns >= age_ns && newest_ns - oldest_ns <= age_ns * 5 / 4,
        "{}",
        newest_ns - oldest_ns
    );
    assert!((8..=11).contains(&summary.segments), "{} segments", summary.segments);
}

#[test]
fn a_segment_that_vanishes_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let options = RecordOptions { segment_bytes: 100_000, ..RecordOptions::default() };
    let mut recorder = Recorder::create(dir.path(), &node(), options).unwrap();
    let (mut traffic, mut batch) = (Traffic::new(4, 64), Batch::default());
    for _ in 0..40 {
        traffic.fill(&mut batch, 1_500);
        recorder.append(&batch).unwrap();
    }
    recorder.close().unwrap();
    for file in fs::read_dir(dir.path()).unwrap() {
        let path = file.unwrap().path();
        if path.to_string_lossy().contains("-0001.") {
            fs::remove_file(path).unwrap();
        }
    }
    let damage: Vec<String> =
        Session::open(dir.path()).unwrap().damage().iter().map(ToString::to_string).collect();
    assert!(damage[0].starts_with("segment 1 is missing"), "{damage:?}");
    assert!(damage[1].contains("events when it was closed"), "{damage:?}");
}

#[test]
fn what_does_not_fit_the_queue_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let options = RecordOptions { queue_bytes: 1, ..RecordOptions::default() };
    let mut recorder = Recorder::create(dir.path(), &node(), options).unwrap();
    let (mut traffic, mut batch) = (Traffic::new(4, 64), Batch::default());
    let mut appended = 0;
    let mut most_queued = 0;
    for _ in 0..50 {
        traffic.fill(&mut batch, 20_000);
        batch.losses.push(loss(batch.watermark_ns, 2));
        recorder.append(&batch).unwrap();
        appended += batch.events.len() as u64;
        most_queued = most_queued.max(recorder.status().queue_bytes);
    }
    let lost = recorder.status().lost;
    assert!(lost > 0, "the queue of 64 KiB was enough for {appended} events at once");
    assert!(most_queued <= 64 << 10, "{most_queued} bytes were queued");
    let summary = recorder.close().unwrap();
    assert_eq!(summary.events + lost, appended);
    assert_eq!(summary.losses.recorder_queue, lost);
    assert_eq!(summary.losses.ring_full, 100, "losses themselves are not lost");
    let session = Session::open(dir.path()).unwrap();
    let (replayed, _) = drain(&mut session.replay(None, None));
    assert_eq!(replayed.events.len() as u64 + lost, appended);
    let reported = replayed.losses.iter().filter(|l| l.cause == LossCause::RecorderQueue);
    assert_eq!(reported.map(|l| l.count).sum::<u64>(), lost);
    assert!(replayed.losses.is_sorted_by_key(|l| l.to_ns));
    assert_eq!(replayed.flows.len(), 64);
}

#[test]
fn directories_that_will_not_do_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |path: &Path| match Recorder::create(path, &node(), RecordOptions::default()) {
        Ok(_) => panic!("{} was taken", path.display()),
        Err(e) => e.to_string(),
    };
    fs::write(dir.path().join("file"), "text").unwrap();
    assert!(refused(dir.path()).contains("it is not empty"));
    assert!(refused(&dir.path().join("file")).contains("it is a file"));
    assert!(refused(&dir.path().join("file/below")).contains("a part of the path is a file"));
    let session = dir.path().join("session");
    Recorder::create(&session, &node(), RecordOptions::default()).unwrap().close().unwrap();
    assert!(refused(&session).contains("already holds a session"));
    assert!(refused(Path::new("/proc/magscope")).contains("/proc/magscope"));
    for options in [
        RecordOptions { size_limit_bytes: Some(10), ..RecordOptions::default() },
        RecordOptions { keep_segments: Some(0), ..RecordOptions::default() },
        RecordOptions { keep_for: Some(Duration::from_millis(999)), ..RecordOptions::default() },
    ] {
        let fresh = dir.path().join("fresh");
        let refused = Recorder::create(&fresh, &node(), options);
        assert!(matches!(refused, Err(SessionError::Options { .. })));
        assert!(!fresh.exists());
    }
}

#[test]
fn what_is_no_session_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |path: &Path| match Session::open(path) {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(e) => e.to_string(),
    };
    assert!(refused(dir.path()).contains("is not a session: it has no meta.toml"));
    assert!(refused(&dir.path().join("none")).contains("check the path"));
    let meta = dir.path().join("meta.toml");
    fs::write(&meta, "colour = 'blue'").unwrap();
    assert!(refused(dir.path()).contains("no `format`"));
    assert!(refused(&meta).contains("it is a file"));
    fs::write(&meta, "format = 7\ntool = 'magnet-scope 9.0.0'\n[whatever]\nx = 1").unwrap();
    let newer = refused(dir.path());
    assert!(newer.contains("session format 7") && newer.contains("magnet-scope 9.0.0"), "{newer}");
}

/// A file system of one mebibyte, unmounted on drop.
struct TinyDisk(tempfile::TempDir);

impl TinyDisk {
    fn new() -> Option<Self> {
        use rustix::mount::{MountFlags, mount};
        let dir = tempfile::tempdir().unwrap();
        match mount("tmpfs", dir.path(), "tmpfs", MountFlags::empty(), Some(c"size=1m")) {
            Ok(()) => Some(TinyDisk(dir)),
            Err(because) => {
                println!("skipped, because a tmpfs cannot be mounted here: {because}");
                None
            }
        }
    }
}

impl Drop for TinyDisk {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0.path(), rustix::mount::UnmountFlags::empty());
    }
}

#[test]
fn a_full_disk_ends_the_recording_and_keeps_it() {
    let Some(disk) = TinyDisk::new() else { return };
    let dir = disk.0.path().join("session");
    let mut recorder = Recorder::create(&dir, &node(), RecordOptions::default()).unwrap();
    let (mut traffic, mut batch, mut appended) = (Traffic::new(4, 64), Batch::default(), Vec::new());
    let mut given = 0;
    let error = loop {
        traffic.fill(&mut batch, 10_000);
        appended.extend_from_slice(&batch.events);
        given += batch.numbered();
        match recorder.append(&batch) {
            Ok(()) => settle_or_stopped(&recorder),
            Err(e) => break e,
        }
    };
    let message = error.to_string();
    assert!(
        message.contains("cannot write") && message.contains("session/") && message.contains("make room"),
        "{message}"
    );
    assert!(matches!(recorder.append(&batch), Err(SessionError::Stopped { .. })));
    given += batch.numbered();
    let (result, status) = recorder.finish();
    assert!(matches!(result, Err(SessionError::Stopped { .. })));
    let session = Session::open(&dir).unwrap();
    assert_eq!(records(&session) + status.lost, given, "what is not on the disk is lost");
    assert!(!session.summary().closed);
    assert_eq!(session.verify().len(), 1, "{:?}", session.verify());
    let (replayed, _) = drain(&mut session.replay(None, None));
    assert!(replayed.events.len() > 10_000);
    assert_eq!(replayed.events, appended[..replayed.events.len()]);
}

/// A failed writer leaves its queue unchanged.
fn settle_or_stopped(recorder: &Recorder) {
    for _ in 0..1_000 {
        if recorder.status().queue_bytes == 0 {
            return;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Rows of a recording that a loss would count.
fn records(session: &Session) -> u64 {
    let (replayed, _) = drain(&mut session.replay(None, None));
    replayed.numbered()
}

fn eventually(mut holds: impl FnMut() -> bool) {
    while !holds() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn an_unattended_recorder_waits_for_room_and_loses_nothing_that_fits_the_queue() {
    let Some(disk) = TinyDisk::new() else { return };
    let ballast = disk.0.path().join("ballast");
    fs::write(&ballast, vec![0; 700 << 10]).unwrap();
    let dir = disk.0.path().join("session");
    let options = RecordOptions { on_full_disk: OnFullDisk::Wait, ..RecordOptions::default() };
    let mut recorder = Recorder::create(&dir, &node(), options).unwrap();
    let (mut traffic, mut batch, mut given) = (Traffic::new(4, 64), Batch::default(), 0);
    while !recorder.status().is_disk_full {
        traffic.fill(&mut batch, 2_000);
        given += batch.numbered();
        recorder.append(&batch).unwrap();
        let queued = |recorder: &Recorder| recorder.status().queue_bytes > 0;
        eventually(|| recorder.status().is_disk_full || !queued(&recorder));
    }
    fs::remove_file(&ballast).unwrap();
    eventually(|| !recorder.status().is_disk_full);
    let (result, status) = recorder.finish();
    result.unwrap();
    assert_eq!(status.lost, 0);
    let session = Session::open(&dir).unwrap();
    assert_eq!(session.verify(), []);
    assert_eq!(records(&session), given);
}

#[test]
fn an_unattended_recorder_deletes_its_oldest_segment_where_it_has_a_limit() {
    let Some(disk) = TinyDisk::new() else { return };
    let dir = disk.0.path().join("session");
    // A limit above the disk size.
    let options = RecordOptions {
        on_full_disk: OnFullDisk::Wait,
        size_limit_bytes: Some(16 << 20),
        segment_bytes: 100 << 10,
        ..RecordOptions::default()
    };
    let mut recorder = Recorder::create(&dir, &node(), options).unwrap();
    let (mut traffic, mut batch, mut given) = (Traffic::new(4, 64), Batch::default(), 0);
    while recorder.status().deleted < 5 {
        traffic.fill(&mut batch, 2_000);
        given += batch.events.len() as u64;
        recorder.append(&batch).unwrap();
        settle(&recorder);
    }
    let (result, status) = recorder.finish();
    let summary = result.unwrap();
    assert_eq!(status.lost, 0, "what a limit deletes is no loss");
    let dropped = summary.dropped.unwrap();
    assert_eq!(dropped.events + summary.events, given);
    assert!(dropped.describe().contains("the disk was full"), "{}", dropped.describe());
    assert_eq!(Session::open(&dir).unwrap().verify(), []);
}

#[test]
fn a_recorder_that_ends_on_a_full_disk_deletes_its_oldest_segment() {
    let Some(disk) = TinyDisk::new() else { return };
    let dir = disk.0.path().join("session");
    let options = RecordOptions {
        on_full_disk: OnFullDisk::Wait,
        size_limit_bytes: Some(16 << 20),
        segment_bytes: 100 << 10,
        // Pending rows are written at the end.
        flush_interval: Duration::from_hours(1),
        ..RecordOptions::default()
    };
    let mut recorder = Recorder::create(&dir, &node(), options).unwrap();
    let (mut traffic, mut batch, mut given) = (Traffic::new(4, 64), Batch::default(), 0);
    while recorder.status().segment < 3 {
        traffic.fill(&mut batch, 2_000);
        given += batch.events.len() as u64;
        recorder.append(&batch).unwrap();
        settle(&recorder);
    }
    assert_eq!(recorder.status().deleted, 0, "the disk has room until here");
    traffic.fill(&mut batch, 100);
    given += batch.events.len() as u64;
    recorder.append(&batch).unwrap();
    settle(&recorder);
    let _full = fs::write(disk.0.path().join("ballast"), vec![0; 4 << 20]);
    let (result, status) = recorder.finish();
    let summary = result.unwrap();
    assert_eq!(status.lost, 0);
    assert!(status.deleted_for_room > 0, "{status:?}");
    let session = Session::open(&dir).unwrap();
    assert_eq!(summary.dropped.unwrap().events + records(&session), given);
    assert!(session.summary().closed);
    assert_eq!(session.verify(), []);
}

/// A recorder that waits on a full disk, what it was given, and what else fills the disk.
fn full(disk: &TinyDisk) -> (Recorder, u64, std::path::PathBuf) {
    let ballast = disk.0.path().join("ballast");
    fs::write(&ballast, vec![0; 700 << 10]).unwrap();
    let options = RecordOptions { on_full_disk: OnFullDisk::Wait, ..RecordOptions::default() };
    let mut recorder = Recorder::create(&disk.0.path().join("session"), &node(), options).unwrap();
    let (mut traffic, mut batch, mut given) = (Traffic::new(4, 64), Batch::default(), 0);
    while !recorder.status().is_disk_full {
        traffic.fill(&mut batch, 2_000);
        given += batch.numbered();
        recorder.append(&batch).unwrap();
        eventually(|| recorder.status().is_disk_full || recorder.status().queue_bytes == 0);
    }
    (recorder, given, ballast)
}

#[test]
fn a_recorder_that_ends_on_a_full_disk_waits_for_room_until_it_is_to_give_up() {
    for gives_up in [false, true] {
        let Some(disk) = TinyDisk::new() else { return };
        let (recorder, given, ballast) = full(&disk);
        let watch = recorder.watch();
        let ending = std::thread::spawn(move || recorder.finish_with_room());
        for _ in 0..5 {
            // Each attempt finds the disk full once more.
            eventually(|| watch.is_disk_full());
            std::thread::sleep(Duration::from_millis(50));
            assert!(!ending.is_finished(), "it waits");
        }
        if gives_up {
            watch.give_up_waiting();
        } else {
            fs::remove_file(&ballast).unwrap();
        }
        let (result, status) = ending.join().unwrap();
        assert_eq!((result.is_err(), status.lost > 0), (gives_up, gives_up), "{result:?}");
        let session = Session::open(&disk.0.path().join("session")).unwrap();
        assert_eq!(records(&session) + status.lost, given);
        assert_eq!(session.summary().closed, !gives_up);
    }
}

#[test]
fn a_disk_smaller_than_a_segment_gets_room_too() {
    let Some(disk) = TinyDisk::new() else { return };
    let dir = disk.0.path().join("session");
    let options = RecordOptions {
        on_full_disk: OnFullDisk::Wait,
        size_limit_bytes: Some(1 << 30),
        ..RecordOptions::default()
    };
    let mut recorder = Recorder::create(&dir, &node(), options).unwrap();
    let (mut traffic, mut batch, mut given) = (Traffic::new(4, 64), Batch::default(), 0);
    // Five times what the disk has room for.
    for _ in 0..200 {
        traffic.fill(&mut batch, 2_000);
        given += batch.events.len() as u64;
        recorder.append(&batch).unwrap();
        let end = std::time::Instant::now() + Duration::from_secs(30);
        eventually(|| recorder.status().queue_bytes == 0 || std::time::Instant::now() > end);
        assert_eq!(recorder.status().queue_bytes, 0, "it does not wait for others to make room");
    }
    let (result, status) = recorder.finish();
    let summary = result.unwrap();
    assert!(status.deleted > 0 && status.lost == 0, "{status:?}");
    assert_eq!(summary.dropped.unwrap().events + summary.events, given);
}

#[test]
fn a_deleted_directory_is_an_error_and_its_records_are_lost() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("session");
    let mut recorder = Recorder::create(&dir, &node(), RecordOptions::default()).unwrap();
    let (mut traffic, mut batch, mut given) = (Traffic::new(4, 64), Batch::default(), 0);
    while recorder.status().events == 0 {
        traffic.fill(&mut batch, 2_000);
        given += batch.numbered();
        recorder.append(&batch).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    fs::remove_dir_all(&dir).unwrap();
    let error = loop {
        traffic.fill(&mut batch, 2_000);
        given += batch.numbered();
        if let Err(error) = recorder.append(&batch) {
            break error;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    assert!(error.to_string().contains("was deleted while it was being recorded"), "{error}");
    let (result, status) = recorder.finish();
    assert!(result.is_err());
    assert_eq!(status.lost, given);
}

//! A recorder whose disk is full or whose directory is deleted: what is not written is lost and counted, and the exit code says so.

use crate::common::{eventually, is_root, skipped};
use crate::unattended::scene::{Place, UnattendedRecorder, info, recordings};
use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// A small file system, unmounted with the value.
struct Disk(TempDir);

impl Disk {
    fn new(test: &str, size: &str) -> Option<Self> {
        let dir = TempDir::new().expect("a directory");
        let size = format!("size={size}");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(dir.path()).status();
        if !mount.is_ok_and(|status| status.success()) {
            skipped(test, "a tmpfs cannot be mounted here");
            return None;
        }
        Some(Disk(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// The number in front of a word of the last line: `9 records, 2 lost`.
fn number(messages: &str, word: &str) -> u64 {
    let last = messages.lines().find(|line| line.contains("ended: ")).expect("a last line");
    let before = last.split(&format!(" {word}")).next().expect("a part");
    before
        .rsplit([' ', ','])
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or_else(|| panic!("{word}: {messages}"))
}

#[test]
fn a_full_disk_costs_records_that_are_counted_and_the_exit_code_says_so() {
    if !is_root("a recorder on a full disk") {
        return;
    }
    let (Some(disk), Some(place)) = (Disk::new("a full disk", "200k"), Place::new("full")) else { return };
    let dir = disk.path().join("all");
    let recorder = UnattendedRecorder::start(&place, &dir, &["--health", "1s"], &[]);
    assert!(eventually(|| {
        place.exchange(500);
        recorder.messages().contains("the disk is full")
    }));
    place.exchange(500);
    let (code, messages) = recorder.end_with_code();
    assert_ne!(code, Some(0), "{messages}");
    let (records, lost) = (number(&messages, "records"), number(&messages, "lost"));
    assert!(lost > 0, "{messages}");
    assert_eq!(records, lost + info(&dir)["events"].as_u64().expect("a number"), "{messages}");
}

#[test]
fn a_full_disk_gets_room_from_the_oldest_recordings_within_the_limit() {
    if !is_root("a recorder that makes room") {
        return;
    }
    let (Some(disk), Some(place)) = (Disk::new("room", "1m"), Place::new("room")) else { return };
    let options = ["--rotate", "1s", "--total-limit", "64M", "--health", "1s"];
    let recorder = UnattendedRecorder::start(&place, disk.path(), &options, &[]);
    let sent = Cell::new(0);
    let records_until = |holds: &dyn Fn(&str) -> bool| {
        eventually(|| {
            sent.set(sent.get() + place.exchange(100));
            holds(&recorder.messages())
        })
    };
    let three_recordings = |_: &str| recordings(disk.path()).len() >= 3;
    assert!(records_until(&three_recordings), "{}", recorder.messages());
    // Somebody else takes the room that is left.
    let ballast = disk.path().join("ballast");
    let _full = fs::write(&ballast, vec![0; 1 << 20]);
    let first = recordings(disk.path())[0].clone();
    let makes_room = |messages: &str| messages.contains("deleted, by --total-limit, because the disk is full");
    assert!(records_until(&makes_room), "{}", recorder.messages());
    assert!(!recordings(disk.path()).contains(&first), "the oldest goes first: {}", recorder.messages());
    assert!(records_until(&|messages| messages.contains("the disk has room again")), "{}", recorder.messages());
    fs::remove_file(&ballast).expect("it is there");
    let last = recordings(disk.path()).last().cloned();
    let goes_on = |_: &str| recordings(disk.path()).last().cloned() > last;
    assert!(records_until(&goes_on), "recordings follow each other again: {}", recorder.messages());
    let (code, messages) = recorder.end_with_code();
    assert_eq!(code, Some(0), "{messages}");
    assert!(messages.contains("the disk is full"), "{messages}");
    assert_eq!((number(&messages, "records"), number(&messages, "lost")), (sent.get(), 0), "{messages}");
}

#[test]
fn a_disk_that_one_recording_fills_gets_room_from_its_oldest_segments() {
    if !is_root("a recorder on a small disk") {
        return;
    }
    let (Some(disk), Some(place)) = (Disk::new("a small disk", "600k"), Place::new("small")) else { return };
    let options = ["--rotate", "1h", "--total-limit", "64M", "--health", "1s"];
    let recorder = UnattendedRecorder::start(&place, disk.path(), &options, &[]);
    let mut sent = 0;
    assert!(eventually(|| {
        sent += place.exchange(2_000);
        recorder.messages().contains("the disk has room again")
    }));
    let (code, messages) = recorder.end_with_code();
    // The disk may be full again at the end: the recorder then deletes another segment.
    assert_eq!(
        (code, number(&messages, "records"), number(&messages, "lost")),
        (Some(0), sent, 0),
        "{messages}"
    );
    assert!(number(&messages, "deleted") > 0, "{messages}");
}

#[test]
fn records_of_a_deleted_directory_are_lost() {
    if !is_root("a recorder whose directory is deleted") {
        return;
    }
    let Some(place) = Place::new("gone") else { return };
    for options in [&["--health", "1s"][..], &["--rotate", "1h", "--health", "1s"]] {
        let parent = TempDir::new().expect("a directory");
        let dir = parent.path().join("all");
        let recorder = UnattendedRecorder::start(&place, &dir, options, &[]);
        place.exchange(100);
        // A flush may create a file in the directory while it is being emptied.
        assert!(eventually(|| fs::remove_dir_all(&dir).is_ok() || !dir.exists()));
        place.exchange(100);
        let (code, messages) = recorder.end_with_code();
        assert_ne!(code, Some(0), "{messages}");
        assert_eq!(number(&messages, "records"), number(&messages, "lost"), "{messages}");
    }
}

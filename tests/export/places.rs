//! Failing outputs: a full disk, a closed pipe, a missing directory.

use crate::common;
use crate::common::exports::{FORMATS, golden};
use crate::common::{run, skipped, stderr, stdout};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

#[test]
fn a_full_disk_and_an_unwritable_place_are_said_and_leave_nothing() {
    let dir = TempDir::new().expect("a directory");
    let session = golden("demo");
    let full = Path::new("/dev/full");
    if full.exists() {
        let mut command = common::magnet_scope(&["export", &session, "--format", "ulm", "-o", "-"]);
        let stdout = fs::OpenOptions::new().write(true).open(full).expect("/dev/full opens");
        let output = command.stdout(stdout).output().expect("the binary starts");
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("the disk is full"), "{}", stderr(&output));
    }
    let nowhere = dir.path().join("no/such/place").to_string_lossy().into_owned();
    for format in FORMATS {
        let output = run(&["export", &session, "--format", format, "-o", &nowhere]);
        assert_eq!(output.status.code(), Some(1), "{format}");
        assert!(stderr(&output).contains("next step:"), "{format}: {}", stderr(&output));
    }
    let taken = dir.path().join("taken");
    fs::write(&taken, "mine").expect("room");
    let place = taken.to_string_lossy().into_owned();
    let output = run(&["export", &session, "--format", "ulm", "-o", &place]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(fs::read_to_string(&taken).expect("still there"), "mine");
    let output = run(&["export", &session, "--format", "ulm", "-o", &place, "--replace"]);
    assert!(output.status.success(), "{}", stderr(&output));
    // A directory with other content is never replaced.
    let output =
        run(&["export", &session, "--format", "csv", "-o", &dir.path().to_string_lossy(), "--replace"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(taken.exists());
    assert_eq!(fs::read_dir(dir.path()).expect("the directory").count(), 1);
}

#[test]
fn a_small_file_system_that_fills_up_leaves_nothing() {
    let test = "a_small_file_system_that_fills_up_leaves_nothing";
    if !common::is_root(test) {
        return;
    }
    let dir = TempDir::new().expect("a directory");
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(dir.path()).status();
    if !mount.is_ok_and(|status| status.success()) {
        return skipped(test, "a tmpfs cannot be mounted here");
    }
    let results: Vec<Output> = ["parquet", "ulm", "ctf", "pcapng", "jsonl"]
        .iter()
        .map(|format| {
            let out = dir.path().join(format).to_string_lossy().into_owned();
            run(&["export", &golden("demo"), "--format", format, "-o", &out])
        })
        .collect();
    let left = fs::read_dir(dir.path()).map(Iterator::count);
    let _ = Command::new("umount").arg(dir.path()).status();
    for output in &results {
        assert_eq!(output.status.code(), Some(1), "{}", stderr(output));
        assert!(stderr(output).contains("the disk is full"), "{}", stderr(output));
    }
    assert_eq!(left.expect("the directory"), 0);
}

#[test]
fn a_closed_pipe_is_no_failure() {
    for format in ["jsonl", "csv --tables hops", "parquet --tables hops", "ulm", "pcapng", "chrome"] {
        let command = format!(
            "'{}' export '{}' --format {format} -o - | head -c 40 >/dev/null; echo ${{PIPESTATUS[0]}}",
            env!("CARGO_BIN_EXE_magnet-scope"),
            golden("lost")
        );
        let output = Command::new("bash").args(["-c", &command]).output().expect("bash runs");
        assert_eq!(stdout(&output), "0\n", "{format}: {}", stderr(&output));
    }
}

#[test]
fn an_import_that_finds_no_room_leaves_nothing() {
    let test = "an_import_that_finds_no_room_leaves_nothing";
    let dir = TempDir::new().expect("a directory");
    let log = dir.path().join("log").to_string_lossy().into_owned();
    assert!(run(&["export", &golden("lost"), "--format", "ulm", "-o", &log]).status.success());
    // Existing files stay.
    let occupied = dir.path().join("occupied");
    fs::create_dir(&occupied).expect("room");
    fs::write(occupied.join("mine"), "mine").expect("room");
    let refused = run(&["import", &log, "-o", &occupied.to_string_lossy()]);
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    assert_eq!(fs::read_to_string(occupied.join("mine")).expect("still there"), "mine");
    // No directory can be created below a file.
    let below = dir.path().join("log/session").to_string_lossy().into_owned();
    let refused = run(&["import", &log, "-o", &below]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("next step:"), "{}", stderr(&refused));
    if !common::is_root(test) {
        return;
    }
    let small = dir.path().join("small");
    fs::create_dir(&small).expect("room");
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(&small).status();
    if !mount.is_ok_and(|status| status.success()) {
        return skipped(test, "a tmpfs cannot be mounted here");
    }
    let full = run(&["import", &log, "-o", &small.join("session").to_string_lossy()]);
    let left = fs::read_dir(&small).map(Iterator::count);
    let _ = Command::new("umount").arg(&small).status();
    assert_eq!(full.status.code(), Some(1), "{}", stderr(&full));
    assert!(stderr(&full).contains("the disk is full"), "{}", stderr(&full));
    assert_eq!(left.expect("the directory"), 0);
}

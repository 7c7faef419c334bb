//! Output files are private to their owner for any umask; no output goes through a symbolic link.

use crate::common::exports::{FORMATS, golden};
use crate::common::terminal::Terminal;
use crate::common::{eventually, is_root, magnet_scope, skipped, stderr};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Runs the binary under the usual umask.
fn run_022(arguments: &[&str]) -> Output {
    let binary = magnet_scope(&[]).get_program().to_owned();
    let script = "umask 022; exec \"$@\"";
    Command::new("sh").args(["-c", script, "sh"]).arg(binary).args(arguments).output().expect("sh runs")
}

/// Every file and directory below a path, including itself.
fn all_below(path: &Path, found: &mut Vec<PathBuf>) {
    found.push(path.to_owned());
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        all_below(&entry.path(), found);
    }
}

fn assert_modes(path: &Path, file: u32, dir: u32) {
    let mut found = Vec::new();
    all_below(path, &mut found);
    for path in found {
        let meta = fs::symlink_metadata(&path).expect("it is there");
        let expected = if meta.is_dir() { dir } else { file };
        let mode = meta.permissions().mode() & 0o777;
        assert_eq!(mode, expected, "{} has mode {mode:o}", path.display());
    }
}

/// Commands that write to `OUT`, without a capture. Plots need clocks that no golden recording has.
fn writers(log: &str) -> Vec<(String, Vec<String>)> {
    let demo = golden("demo");
    let words = |line: &[&str]| line.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let mut all: Vec<_> = FORMATS
        .iter()
        .map(|format| (format!("export-{format}"), words(&["export", &demo, "--format", format, "-o", "OUT"])))
        .collect();
    all.push(("import".to_owned(), words(&["import", log, "-o", "OUT"])));
    all
}

fn run_writer(line: &[String], out: &str, more: &[&str]) -> Output {
    let mut arguments: Vec<&str> = line.iter().map(|word| if word == "OUT" { out } else { word }).collect();
    arguments.extend(more);
    run_022(&arguments)
}

/// An importable log.
fn log(dir: &TempDir) -> String {
    let log = dir.path().join("log.ulm").display().to_string();
    let output = run_022(&["export", &golden("demo"), "--format", "ulm", "-o", &log]);
    assert!(output.status.success(), "{}", stderr(&output));
    log
}

#[test]
fn every_writer_makes_files_for_their_owner_alone() {
    let dir = TempDir::new().expect("a directory");
    for (name, line) in writers(&log(&dir)) {
        let out = dir.path().join(&name);
        let output = run_writer(&line, &out.display().to_string(), &[]);
        assert!(output.status.success(), "{name}: {}", stderr(&output));
        assert!(out.exists(), "{name}");
        assert_modes(&out, 0o600, 0o700);
    }
    let copy = dir.path().join("copy");
    fs::create_dir(&copy).expect("a directory");
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o700)).expect("own directory");
    let session = dir.path().join("import").display().to_string();
    let output = run_022(&["ship", &session, &copy.display().to_string()]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(fs::read_dir(&copy).expect("it is there").count() > 0);
    assert_modes(&copy, 0o600, 0o700);
}

#[test]
fn a_mode_is_for_every_writer() {
    let dir = TempDir::new().expect("a directory");
    for (name, line) in writers(&log(&dir)) {
        let out = dir.path().join(&name);
        let output = run_writer(&line, &out.display().to_string(), &["--mode", "640"]);
        assert!(output.status.success(), "{name}: {}", stderr(&output));
        assert_modes(&out, 0o640, 0o750);
    }
}

#[test]
fn no_writer_follows_a_link() {
    let dir = TempDir::new().expect("a directory");
    let target = dir.path().join("target");
    for (name, line) in writers(&log(&dir)) {
        let link = dir.path().join(&name);
        symlink(&target, &link).expect("a link");
        let output = run_writer(&line, &link.display().to_string(), &[]);
        assert!(
            !output.status.success() && stderr(&output).contains("symbolic link"),
            "{name}: {}",
            stderr(&output)
        );
        assert!(!target.exists(), "{name}");
    }
}

#[test]
fn nothing_is_shipped_through_a_link() {
    let dir = TempDir::new().expect("a directory");
    let path = |name: &str| dir.path().join(name);
    let made =
        run_writer(&writers(&log(&dir)).pop().expect("one").1, &path("session").display().to_string(), &[]);
    assert!(made.status.success(), "{}", stderr(&made));
    let (precious, copy) = (path("precious"), path("copy"));
    fs::create_dir(&precious).expect("a directory");
    fs::create_dir(&copy).expect("a directory");
    let ship = || run_022(&["ship", &path("session").display().to_string(), &copy.display().to_string()]);
    // The place of a host, as it would be made.
    assert!(ship().status.success());
    let host = fs::read_dir(&copy).expect("it is there").next().expect("a host").expect("an entry").path();
    fs::remove_dir_all(&host).expect("it goes");
    fs::remove_file(path("session").join("shipped.log")).expect("the ledger");
    symlink(&precious, &host).expect("a link");
    let output = ship();
    assert!(!output.status.success() && stderr(&output).contains("symbolic link"), "{}", stderr(&output));
    fs::remove_file(&host).expect("the link");
    symlink(precious.join("log"), path("session").join("shipped.log")).expect("a link");
    let output = ship();
    assert!(!output.status.success() && stderr(&output).contains("symbolic link"), "{}", stderr(&output));
    assert_eq!(fs::read_dir(&precious).expect("it is there").count(), 0);
}

#[test]
fn plots_and_tables_are_for_their_owner_alone() {
    if !is_root("plots under a umask") {
        return;
    }
    let dir = TempDir::new().expect("a directory");
    let target = dir.path().join("target");
    for (option, name) in [("--plot", "plot.svg"), ("--plot", "plot.png"), ("--csv", "table.csv")] {
        let out = dir.path().join(name);
        let draw = |more: &[&str]| {
            let out = out.display().to_string();
            run_022(&[&["sched", "--duration", "300ms", "--window", "100ms", option, &out], more].concat())
        };
        let output = draw(&[]);
        if stderr(&output).contains("no switch can be measured here") {
            skipped("plots under a umask", "this kernel has neither its tracepoints nor kprobes");
            return;
        }
        assert!(output.status.success(), "{}", stderr(&output));
        assert_modes(&out, 0o600, 0o700);
        let output = draw(&["--mode", "640"]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_modes(&out, 0o640, 0o750);
        fs::remove_file(&out).expect("it is there");
        symlink(&target, &out).expect("a link");
        let output = draw(&[]);
        assert!(!output.status.success() && stderr(&output).contains("symbolic link"), "{}", stderr(&output));
        assert!(!target.exists(), "{name}");
    }
}

#[test]
fn a_picture_of_the_screen_is_for_its_owner_alone() {
    let dir = TempDir::new().expect("a directory");
    let mut terminal = Terminal::start(&["replay", &golden("demo")], dir.path(), 100, 30);
    terminal.shows("app.recv");
    for (command, ending) in [("screenshot", "svg"), ("screenshot-text", "txt")] {
        terminal.keys(&format!(":{command}\r"));
        let is_there = |path: &PathBuf| path.extension().is_some_and(|found| found == ending);
        let mut found = None;
        assert!(eventually(|| {
            let listed = fs::read_dir(dir.path()).expect("it is there").flatten();
            found = listed.map(|entry| entry.path()).find(is_there);
            found.is_some()
        }));
        assert_modes(&found.expect("it was found"), 0o600, 0o700);
    }
}

#[test]
fn captures_are_for_their_owner_alone() {
    if !is_root("recording under a umask") {
        return;
    }
    let dir = TempDir::new().expect("a directory");
    for (name, line) in [
        ("recorded", &["record", "--duration", "1s"][..]),
        ("rotated", &["record", "--duration", "1s", "--rotate", "1h"]),
        ("demo", &["demo", "--duration", "1s"]),
    ] {
        let out = dir.path().join(name);
        let place = out.display().to_string();
        let output = run_022(&[line, &["-o", &place]].concat());
        assert!(output.status.success(), "{name}: {}", stderr(&output));
        assert_modes(&out, 0o600, 0o700);
        let link = dir.path().join(format!("{name}-link"));
        symlink(dir.path().join("target"), &link).expect("a link");
        let output = run_022(&[line, &["-o", &link.display().to_string()]].concat());
        assert!(!output.status.success() && stderr(&output).contains("symbolic link"), "{}", stderr(&output));
    }
}

//! Shared helpers of the end-to-end tests.
#![allow(dead_code)] // each test file uses a part

pub mod agents;
pub mod everything;
pub mod exports;
pub mod foreign;
pub mod hosts;
pub mod load;
pub mod made_agent;
pub mod service;
pub mod talk;
pub mod terminal;
pub mod two_clocks;
pub mod web;
pub mod wire;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// User and group id of nobody.
pub const NOBODY: u32 = 65534;

/// The binary under test, without a terminal.
pub fn magnet_scope(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_magnet-scope"));
    // The caller's own configuration has no effect.
    command.env("MAGNET_SCOPE_CONFIG", "");
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the binary to its end.
pub fn run(arguments: &[&str]) -> Output {
    magnet_scope(arguments).output().expect("the binary starts")
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A copy of the binary accessible to an ordinary user, and a command that runs it as one.
pub fn as_nobody(dir: &TempDir, arguments: &[&str]) -> Command {
    let copy = dir.path().join("magnet-scope");
    if !copy.exists() {
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("own directory");
        fs::copy(env!("CARGO_BIN_EXE_magnet-scope"), &copy).expect("room for a copy");
    }
    let mut command = Command::new(copy);
    // The caller's own configuration has no effect.
    command.env("MAGNET_SCOPE_CONFIG", "");
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.uid(NOBODY).gid(NOBODY);
    command
}

/// True if tracepoints can be looked up by name.
#[allow(dead_code)] // each test file uses a part
pub fn has_tracefs(test: &str) -> bool {
    let there = ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"];
    let found = there.iter().any(|events| Path::new(events).is_dir());
    if !found {
        skipped(test, "tracefs is not mounted: `mount -t tracefs none /sys/kernel/tracing`");
    }
    found
}

/// True for root. Otherwise prints the skipped test past the harness's capture; in CI, which runs as root, this
/// is a failure.
pub fn is_root(test: &str) -> bool {
    let status = fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let effective = field(&status, "CapEff").and_then(|bits| u64::from_str_radix(bits, 16).ok()).unwrap_or(0);
    let (net_admin, sys_admin) = (1 << 12, 1 << 21);
    let root = effective & net_admin != 0 && effective & sys_admin != 0;
    if !root {
        assert!(std::env::var_os("CI").is_none(), "{test}: it needs root, which CI must give");
        skipped(test, "it needs root");
    } else if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        skipped(test, "this kernel has no BTF");
        return false;
    }
    root
}

pub fn skipped(test: &str, because: &str) {
    // Not `eprintln!`: the harness would hide it for a test that passes.
    let _ = writeln!(std::io::stderr(), "{test}: skipped, because {because}");
}

/// A field of `/proc/<pid>/status`.
pub fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Repeats a call that a signal has interrupted. A child's end interrupts timed waits of any thread while another
/// one starts, although nothing handles that signal.
pub fn uninterrupted<T>(mut call: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Limit of a wait for a condition that has to come. It only ends a test that hangs: a busy machine with as many
/// programs as CPUs has needed more than two minutes until an agent had loaded its programs.
pub const PATIENCE: Duration = Duration::from_mins(10);

/// Waits until `holds` returns true, at most [`PATIENCE`]; returns its result.
pub fn eventually(holds: impl FnMut() -> bool) -> bool {
    within(PATIENCE, holds)
}

/// Waits until `holds` returns true, at most this long; returns its result.
pub fn within(time: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + time;
    while Instant::now() < end {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    holds()
}

/// Children of a process, from `/proc`.
pub fn children(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").expect("/proc is mounted").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok());
    pids.filter(|pid| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        field(&status, "PPid") == Some(parent.to_string().as_str())
    })
    .collect()
}

/// The time for which the threads of a process were ready to run and had no CPU: the machine's delay, not the
/// program's.
pub fn waited_for_cpu(pid: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok());
    let waits = texts.filter_map(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    Duration::from_nanos(waits.sum())
}

/// True if a process exists and is no zombie.
pub fn is_alive(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    field(&status, "State").is_some_and(|state| !state.starts_with('Z'))
}

/// A copy of a recording as `name` in `dir`, with a session id of its own. Its reader notes that its files have the other
/// id.
pub fn copy_with_own_session(dir: &std::path::Path, recording: &str, name: &str) -> String {
    let copy = dir.join(name);
    std::fs::create_dir(&copy).expect("a new directory");
    for file in std::fs::read_dir(recording).expect("a recording").map(|file| file.expect("an entry").path()) {
        std::fs::copy(&file, copy.join(file.file_name().expect("a name"))).expect("a copy");
    }
    let meta = copy.join("meta.toml");
    let text = std::fs::read_to_string(&meta).expect("meta.toml");
    let lines = text.lines().map(|line| match line.strip_prefix("session = ") {
        Some(_) => format!("session = {name:?}\n"),
        None => format!("{line}\n"),
    });
    std::fs::write(&meta, lines.collect::<String>()).expect("meta.toml is written");
    copy.display().to_string()
}

//! The screen of the real binary on a pseudo-terminal: keys, mouse, resize, suspension, exit; with a recording
//! and with the demo's live capture.

use crate::common::{self, terminal};

use common::{children, eventually, is_alive, is_root};
use std::fs;
use std::process::{Command, Stdio};
use tempfile::TempDir;
use terminal::Terminal;

const ENTER: &str = "\r";
const ESC: &str = "\x1b";
const CTRL_C: &str = "\x03";
const CTRL_Z: &str = "\x1a";

/// A recorded session on the screen, played immediately.
fn replay(arguments: &[&str], columns: u16, rows: u16) -> (Terminal, TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/demo/session");
    let mut all = vec!["replay", golden, "--speed", "100"];
    all.extend(arguments);
    let terminal = Terminal::start(&all, dir.path(), columns, rows);
    terminal.shows("■ ended");
    (terminal, dir)
}

#[test]
fn every_view_can_be_reached_by_its_key_and_q_ends_it() {
    let (mut terminal, _dir) = replay(&[], 120, 40);
    terminal.shows("app.recv");
    for (key, words) in [
        ("2", "most of its time"),
        ("3", "latency ↑ by time"),
        ("4", "its time"),
        ("5", " in memory "),
        ("6", "the clocks"),
        ("7", "overhead of the capture"),
        ("1", "app.recv"),
    ] {
        terminal.keys(key);
        terminal.shows(words);
    }
    terminal.keys("q");
    assert!(terminal.ends());
    assert!(terminal.is_given_back());
}

#[test]
fn keys_change_what_is_seen() {
    let (mut terminal, dir) = replay(&[], 120, 40);
    terminal.keys("?");
    terminal.shows("every command, by typing");
    terminal.keys(ESC);
    terminal.hides("every command, by typing");
    terminal.keys("j");
    terminal.shows("▸ #");
    terminal.keys("Y");
    terminal.shows("copied, where the terminal allows it: #");
    terminal.was_sent("\x1b]52;c;");
    terminal.keys(ENTER);
    terminal.shows(" journey #");
    terminal.keys(ESC);
    terminal.hides(" journey #");
    terminal.keys(":measure");
    terminal.shows("wide screens have them always");
    terminal.keys(ESC);
    // escape followed by a key at once would be Alt and the key
    terminal.hides("wide screens have them always");
    // An invalid filter is reported and can be corrected.
    terminal.keys("/total > > 1");
    terminal.keys(ENTER);
    terminal.shows("total > > 1");
    terminal.keys("\x15proto = tcp");
    terminal.keys(ENTER);
    terminal.shows("/ proto = tcp");
    terminal.keys("c");
    terminal.shows("1/Δ");
    terminal.keys(":screenshot-text");
    terminal.keys(ENTER);
    terminal.shows("written: magnet-scope-");
    let names: Vec<_> = fs::read_dir(dir.path()).expect("ours").flatten().map(|entry| entry.path()).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    let picture = fs::read_to_string(&names[0]).expect("a text");
    assert!(picture.contains("app.recv") && picture.contains("/ proto = tcp"), "{picture}");
    terminal.keys("q");
    assert!(terminal.ends());
}

#[test]
fn the_mouse_points_and_can_be_given_back() {
    let (mut terminal, _dir) = replay(&[], 120, 40);
    assert_ne!(terminal.screen().mouse_protocol_mode(), vt100::MouseProtocolMode::None);
    // A press and a release in columns and rows from 1: on the third view's name.
    terminal.keys("\x1b[<0;20;3M\x1b[<0;20;3m");
    terminal.shows("latency ↑ by time");
    terminal.keys("1");
    terminal.shows("app.recv");
    let before = header(&terminal);
    // Dragged over a quarter of the picture.
    terminal.keys("\x1b[<0;20;10M\x1b[<32;32;10M\x1b[<0;32;10m");
    assert!(eventually(|| header(&terminal) != before), "the drag zoomed nothing: {before}");
    let zoomed = header(&terminal);
    terminal.keys("\x1b[<65;30;10M\x1b[<65;30;10M");
    assert!(eventually(|| header(&terminal) != zoomed), "the wheel scaled nothing: {zoomed}");
    terminal.keys("M");
    terminal.shows("the mouse is the terminal's");
    assert!(eventually(|| terminal.screen().mouse_protocol_mode() == vt100::MouseProtocolMode::None));
    terminal.keys("q");
    assert!(terminal.ends());
}

fn header(terminal: &Terminal) -> String {
    terminal.text().lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_terminal_of_another_size_is_filled() {
    let (mut terminal, _dir) = replay(&["--no-mouse"], 80, 24);
    assert_eq!(terminal.screen().mouse_protocol_mode(), vt100::MouseProtocolMode::None);
    terminal.resize(200, 60);
    terminal.shows("q end");
    assert!(eventually(|| terminal.text().lines().count() == 60), "{}", terminal.text());
    terminal.resize(30, 6);
    terminal.shows("needs 40 × 10");
    terminal.resize(80, 24);
    terminal.shows("app.recv");
    terminal.keys("q");
    assert!(terminal.ends());
}

#[test]
fn ctrl_z_gives_the_terminal_back_until_it_is_resumed() {
    let dir = tempfile::tempdir().expect("a directory");
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/demo/session");
    // A shell with job control, which gets the terminal when its child stops.
    let mut terminal = Terminal::run("bash", &["--norc", "--noprofile", "-i"], dir.path(), 120, 40);
    terminal.keys(&format!("{} replay {golden} --speed 100\r", env!("CARGO_BIN_EXE_magnet-scope")));
    terminal.shows("■ ended");
    terminal.keys(CTRL_Z);
    assert!(terminal.is_given_back(), "{}", terminal.text());
    terminal.shows("Stopped");
    terminal.keys("echo still $((6*7)) here\r");
    terminal.shows("still 42 here");
    terminal.keys("fg\r");
    terminal.shows("■ ended");
    assert!(terminal.screen().alternate_screen());
    terminal.keys("q");
    assert!(terminal.is_given_back());
    terminal.keys("exit\r");
    terminal.ends();
}

#[test]
fn ctrl_c_ends_it_and_so_does_a_signal() {
    let (mut terminal, _dir) = replay(&[], 80, 24);
    terminal.keys(CTRL_C);
    assert!(terminal.ends());
    assert!(terminal.is_given_back());

    let (mut terminal, _dir) = replay(&[], 80, 24);
    let pid = terminal.child.process_id().and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed()));
    rustix::process::kill_process(pid.expect("it runs"), rustix::process::Signal::TERM).expect("it is ours");
    terminal.ends();
    assert!(terminal.is_given_back());
}

#[test]
fn without_colours_and_without_more_than_ascii() {
    let (mut terminal, _dir) = replay_ended(&["--ascii"]);
    assert!(terminal.text().is_ascii(), "{}", terminal.text());
    terminal.keys("q");
    assert!(terminal.ends());
}

/// A replay with ASCII output of its state.
fn replay_ended(arguments: &[&str]) -> (Terminal, TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/demo/session");
    let mut all = vec!["replay", golden, "--speed", "100"];
    all.extend(arguments);
    let terminal = Terminal::start(&all, dir.path(), 80, 24);
    terminal.shows("# ended");
    (terminal, dir)
}

#[test]
fn a_users_keys_and_mistakes_in_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join(".config/magnet-scope");
    fs::create_dir_all(&config).expect("ours");
    fs::write(config.join("keys.toml"), "Z = \"quit\"\n").expect("ours");
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/demo/session");
    let mut terminal = Terminal::start(&["replay", golden, "--speed", "100"], dir.path(), 120, 40);
    terminal.shows("Z end");
    terminal.keys("Z");
    assert!(terminal.ends());

    fs::write(config.join("keys.toml"), "# mine\nZ = \"qiut\"\n").expect("ours");
    let mut terminal = Terminal::start(&["replay", golden], dir.path(), 120, 40);
    assert!(!terminal.ends());
    for words in ["keys.toml", "line 2", "nearest is `quit`"] {
        terminal.shows(words);
    }
}

#[test]
fn nothing_new_is_not_drawn() {
    let (mut terminal, _dir) = replay(&[], 120, 40);
    let pid = terminal.child.process_id().expect("it runs");
    // Wait until all drawing is finished.
    let rested = eventually(|| {
        let before = terminal.bytes();
        std::thread::sleep(std::time::Duration::from_secs(1));
        terminal.bytes() == before
    });
    assert!(rested, "it never stops drawing");
    let (bytes, ticks) = (terminal.bytes(), cpu_ticks(pid));
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(terminal.bytes(), bytes, "bytes of a picture that did not change");
    let spent = cpu_ticks(pid) - ticks;
    // The cost is measured, not asserted: see docs/performance.md.
    eprintln!("idle for 3 s: {spent} ticks of 10 ms");
    terminal.keys("q");
    assert!(terminal.ends());
}

/// CPU time of a process so far, in clock ticks.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let fields: Vec<_> = stat.rsplit(')').next().expect("a name in brackets").split_whitespace().collect();
    [11, 12].iter().map(|at| fields[*at].parse::<u64>().expect("a number")).sum()
}

#[test]
fn what_the_kernel_adds_up_is_drawn_live_and_from_a_recording() {
    if !is_root("the screen of sums") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let mut terminal = Terminal::start(&["demo", "--detail", "histograms", "-o", "sums"], dir.path(), 120, 40);
    terminal.shows("Σ the kernel adds up: no events");
    terminal.keys("3");
    terminal.shows("Σ added up by the kernel");
    terminal.shows("dev.xmit→dev.recv");
    terminal.keys("2");
    terminal.shows("Σ bytes");
    terminal.shows("10.77.0.1:");
    terminal.keys("q");
    assert!(terminal.ends());
    assert!(terminal.is_given_back());

    let mut info = Command::new(env!("CARGO_BIN_EXE_magnet-scope"));
    info.args(["info", "sums", "--json"]).current_dir(dir.path());
    let info: serde_json::Value =
        serde_json::from_slice(&info.output().expect("info runs").stdout).expect("JSON");
    assert_eq!(info["events"], 0);
    assert!(info["duration_ns"].as_u64().is_some_and(|ns| ns > 500_000_000), "sums have times as well: {info}");

    let mut terminal = Terminal::start(&["replay", "sums", "--speed", "100"], dir.path(), 120, 40);
    terminal.shows("■ ended");
    terminal.keys("3");
    terminal.shows("Σ added up by the kernel");
    terminal.shows("dev.xmit→dev.recv");
    terminal.keys("q");
    assert!(terminal.ends());
}

#[test]
fn the_demo_is_drawn_live() {
    if !is_root("the screen") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let mut terminal = Terminal::start(&["demo"], dir.path(), 120, 40);
    terminal.shows("▶ live");
    terminal.shows("slow-read");
    for (key, words) in
        [("2", "most of its time"), ("3", "whole journey"), ("5", " in memory "), ("1", "app.recv")]
    {
        terminal.keys(key);
        terminal.shows(words);
    }
    terminal.keys(" ");
    terminal.shows("❚❚ stopped");
    terminal.keys(CTRL_C);
    assert!(terminal.ends());
    assert!(terminal.is_given_back());
}

#[test]
fn a_hop_that_ctl_switches_off_is_off_on_the_screen() {
    if !is_root("changes on the screen") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let mut terminal = Terminal::start(&["demo"], dir.path(), 120, 40);
    terminal.shows("▶ live");
    let pid = terminal.child.process_id().expect("a number").to_string();
    let ctl = |words: &[&str]| {
        let output = common::run(&[&["ctl", "--pid", &pid], words].concat());
        assert!(output.status.success(), "{}", common::stderr(&output));
    };
    ctl(&["disable", "dev.recv"]);
    terminal.shows("switched off");
    terminal.keys("7");
    terminal.shows("switched off");
    ctl(&["enable", "dev.recv,dev.done"]);
    terminal.hides("switched off");
    // It was off at the start.
    terminal.shows("switched on");
    terminal.keys("q");
    assert!(terminal.ends());
}

#[test]
fn a_terminal_that_goes_away_takes_everything_along() {
    if !is_root("the end of the terminal") {
        return;
    }
    // `script` is the terminal here, because it can be killed like a closed window.
    let command = format!("stty cols 120 rows 40; exec {} demo", env!("CARGO_BIN_EXE_magnet-scope"));
    let mut script = Command::new("script");
    script.args(["-qfec", &command, "/dev/null"]).env("TERM", "xterm-256color");
    let Ok(mut script) = script.stdin(Stdio::piped()).stdout(Stdio::null()).spawn() else {
        common::skipped("the end of the terminal", "`script` is not installed");
        return;
    };
    let mut hosts = Vec::new();
    let mut scopes = Vec::new();
    let there = eventually(|| {
        scopes = children(script.id());
        hosts = scopes.first().map(|scope| children(*scope)).unwrap_or_default();
        hosts.len() == 2
    });
    script.kill().expect("it is there");
    script.wait().expect("it ends");
    assert!(there, "{scopes:?} {hosts:?}");
    let gone = eventually(|| scopes.iter().chain(&hosts).all(|pid| !is_alive(*pid)));
    assert!(gone, "outlived their terminal: {scopes:?} {hosts:?}");
}

//! The screen and recordings: several on one time line, one started by a key, and those saved by a trigger.

use crate::common::{self, hosts as wired, terminal, two_clocks};

use common::exports::golden;
use common::{eventually, is_root, run, stderr, stdout, uninterrupted};
use serde_json::Value;
use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::time::Duration;
use terminal::Terminal;
use two_clocks::{clocks_are_sampled, play, with_a_clock_of_its_own};
use wired::{CLIENT, Hosts, RecorderChild, SERVER, in_namespace};

const DATAGRAMS: usize = 40;

/// Datagrams from the client to the server; each is read after a delay and answered.
fn slowly_read(hosts: &Hosts, wait: Duration) {
    let [client, _, server] = &hosts.names;
    let receiver = in_namespace(server, || UdpSocket::bind((SERVER, 7001)).expect("a port"));
    receiver.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
    let sender = in_namespace(client, || UdpSocket::bind((CLIENT, 0)).expect("a port"));
    sender.connect((SERVER, 7001)).expect("a peer");
    sender.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
    for _ in 0..DATAGRAMS {
        sender.send(&[5; 300]).expect("sent");
        std::thread::sleep(wait);
        let (_, from) = uninterrupted(|| receiver.recv_from(&mut [0; 400])).expect("read");
        receiver.send_to(&[6; 10], from).expect("answered");
        uninterrupted(|| sender.recv(&mut [0; 400])).expect("an answer");
    }
}

/// The JSON output of `info` for a recording.
fn info(dir: &Path) -> Value {
    let output = run(&["info", "--json", &dir.display().to_string()]);
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn directories(within: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(within).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.join("meta.toml").exists()).collect()
}

#[test]
fn two_recordings_are_played_with_the_sender_below_and_the_wire_between() {
    if !is_root("two hosts") {
        return;
    }
    let Some(hosts) = Hosts::new("screen") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let paths = ["client", "server"].map(|name| dir.path().join(name).display().to_string());
    let recorders =
        [RecorderChild::start(&hosts.names[0], &paths[0]), RecorderChild::start(&hosts.names[2], &paths[1])];
    slowly_read(&hosts, Duration::from_millis(3));
    recorders.into_iter().for_each(RecorderChild::end);

    let mut terminal =
        Terminal::start(&["replay", &paths[0], &paths[1], "--speed", "100"], dir.path(), 120, 40);
    terminal.shows("■ ended");
    let row = |words: &str| terminal.text().lines().position(|line| line.contains(words));
    let (above, wire, below) = (row("app.recv"), row(" wire "), row("app.send"));
    assert!(above.is_some() && above < wire && wire < below, "{}", terminal.text());
    let header = terminal.text().lines().next().unwrap_or_default().to_owned();
    assert!(header.contains("one clock"), "both were recorded by one kernel: {header}");
    terminal.keys("4");
    terminal.shows("its time");
    terminal.shows(&format!("{SERVER}:7001"));
    terminal.keys("6");
    terminal.shows("the clocks");
    terminal.keys("8");
    terminal.shows(&format!("turns: {DATAGRAMS} of {DATAGRAMS} exchanges"));
    terminal.shows("until answered");
    terminal.keys("q");
    assert!(terminal.ends());
}

#[test]
fn hosts_that_are_being_recorded_are_followed_on_one_time_line() {
    if !is_root("two hosts") {
        return;
    }
    let Some(hosts) = Hosts::new("follow") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (client, server) = (path("client"), path("server"));
    let recorders =
        [RecorderChild::start(&hosts.names[0], &client), RecorderChild::start(&hosts.names[2], &server)];
    // Wide enough for the state of the clocks beside the age of the picture.
    let mut terminal = Terminal::start(&["replay", "--follow", &client, &server], dir.path(), 160, 40);
    terminal.shows("▶ live");
    // A bound needs clock samples before and after it.
    let are_sampled = |more| [&client, &server].into_iter().for_each(|dir| clocks_are_sampled(dir, more));
    are_sampled(2);
    slowly_read(&hosts, Duration::from_millis(3));
    are_sampled(3);
    terminal.keys("4");
    terminal.shows("its time");
    terminal.shows(&format!("{SERVER}:7001")); // during the recording
    let header = terminal.text().lines().next().unwrap_or_default().to_owned();
    assert!(header.contains("one clock"), "both are recorded by one kernel: {header}");
    recorders.into_iter().for_each(RecorderChild::end);
    terminal.shows("■ ended");
    terminal.keys("q");
    assert!(terminal.ends());

    // The same, with a separate clock for the second.
    let (another, run_client, run_server) = (path("another"), path("run-client"), path("run-server"));
    with_a_clock_of_its_own(&server, &another);
    std::thread::scope(|scope| {
        scope.spawn(|| play(&client, &run_client));
        scope.spawn(|| play(&another, &run_server));
        assert!(eventually(|| [&run_client, &run_server]
            .iter()
            .all(|run| Path::new(run).join("meta.toml").exists())));
        let mut terminal =
            Terminal::start(&["replay", "--follow", &run_client, &run_server], dir.path(), 120, 40);
        terminal.shows("■ ended");
        terminal.shows("CERTIFIED");
        terminal.keys("4");
        terminal.shows(&format!("{SERVER}:7001"));
        terminal.shows("±"); // the time between the hosts is an interval
        terminal.keys("6");
        terminal.shows("it rests on");
        terminal.keys("q");
        assert!(terminal.ends());
    });
}

#[test]
fn a_live_view_records_between_two_keys() {
    if !is_root("a live view") {
        return;
    }
    let Some(hosts) = Hosts::new("keep") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let mut terminal =
        Terminal::start(&["live", "--netns", &hosts.names[2], "--hops", "all"], dir.path(), 120, 40);
    terminal.shows("▶ live");
    slowly_read(&hosts, Duration::from_millis(1));
    terminal.keys("r");
    assert!(eventually(|| directories(dir.path()).len() == 1), "{}", terminal.text());
    slowly_read(&hosts, Duration::from_millis(1));
    let recording = directories(dir.path()).remove(0);
    let mine = || -> usize {
        let output = run(&["journeys", "--json", "--slowest", "1000", &recording.display().to_string()]);
        let rows: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        rows.as_array().into_iter().flatten().filter(|row| row["bytes"] == 300).count()
    };
    // The screen draws, and records, what has come to it.
    let _came = eventually(|| mine() >= DATAGRAMS);
    terminal.keys("r");
    assert!(eventually(|| info(&recording)["closed"] == true), "{}", terminal.text());
    slowly_read(&hosts, Duration::from_millis(1));
    terminal.keys("q");
    assert!(terminal.ends());
    assert_eq!(mine(), DATAGRAMS, "what came between the two keys, and nothing else: {}", info(&recording));
}

#[test]
fn what_lies_around_a_trigger_is_saved_from_the_screen() {
    if !is_root("a trigger") {
        return;
    }
    let Some(hosts) = Hosts::new("trigger") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let saved = dir.path().join("kept");
    let saved_name = saved.display().to_string();
    let mut arguments = vec!["live", "--netns", &hosts.names[2], "--hops", "all"];
    arguments.extend(["--trigger", "hop(dev.recv,app.recv) > 40ms", "--single", "--trigger-window", "300ms"]);
    arguments.extend(["--save-on-trigger", &saved_name]);
    let mut terminal = Terminal::start(&arguments, dir.path(), 120, 40);
    terminal.shows("armed");
    slowly_read(&hosts, Duration::from_millis(60));
    assert!(eventually(|| directories(&saved).len() == 1), "{}", terminal.text());
    let recording = directories(&saved).remove(0);
    let journeys = || run(&["journeys", "--json", "--slowest", "1000", &recording.display().to_string()]);
    let long = || -> usize {
        let rows = serde_json::from_slice::<Value>(&journeys().stdout).unwrap_or_default();
        let rows = rows.as_array().cloned().unwrap_or_default();
        rows.iter().filter(|row| row["bytes"] == 300 && row["verdict"] != "in-flight").count()
    };
    assert!(eventually(|| long() > 0), "{}", stderr(&journeys()));
    terminal.keys("q");
    assert!(terminal.ends());
    let span_ns = info(&recording)["duration_ns"].as_u64();
    assert!(span_ns.is_some_and(|ns| ns <= 310_000_000), "only what was asked for: {span_ns:?}");
}

/// Two hosts that exchanged no packet.
#[test]
fn hosts_without_a_packet_in_common_have_no_common_clock() {
    let [a, b] = ["demo", "web-server"].map(golden);
    for size in ["80x24", "120x40"] {
        let output = run(&["replay", &a, &b, "--picture", size, "--press", "6"]);
        let picture = stdout(&output);
        assert!(picture.contains("UNSYNCHRONISED") && !picture.contains("one clock"), "{picture}");
    }
}

//! A reader that does not read closes its receive window. The wait at the sender is the reader's.

use crate::common::hosts::{Hosts, RecorderChild, SERVER, in_namespace};
use crate::common::{eventually, is_root, run, stderr};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use tempfile::TempDir;

const PORT: u16 = 7000;
/// More than a receiver accepts before its reader reads.
const BYTES: usize = 64 << 20;

/// True if a socket of this host probes a zero window, and has had an answer. Columns of `/proc/net/tcp`.
fn has_probed_zero_window() -> bool {
    let sockets = fs::read_to_string("/proc/thread-self/net/tcp").expect("sockets");
    sockets.lines().skip(1).any(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        columns[5].starts_with("04:") && columns[8] != "0"
    })
}

/// Writes until the reader's window is closed, then reads.
fn fill_window(hosts: &Hosts) {
    let [client, _, server] = &hosts.names;
    let listener = in_namespace(server, || TcpListener::bind((SERVER, PORT)).expect("a port"));
    let mut sender = in_namespace(client, || TcpStream::connect((SERVER, PORT)).expect("a connection"));
    let mut reader = listener.accept().expect("a client").0;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            sender.write_all(&vec![7; BYTES]).expect("room, at the end");
            sender.shutdown(Shutdown::Write).expect("a connection");
        });
        in_namespace(client, || assert!(eventually(has_probed_zero_window), "the window closes"));
        let mut all = Vec::new();
        reader.read_to_end(&mut all).expect("all bytes");
        assert_eq!(all.len(), BYTES);
    });
}

fn json(arguments: &[&str]) -> Value {
    let output = run(arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Total time of a part in the report, nanoseconds.
fn part_ns(report: &Value, part: &str) -> u64 {
    let rows = report["blame"].as_array().expect("blame");
    let parts = rows.iter().filter_map(|row| row["parts"].as_array()).flatten();
    parts.filter(|row| row["part"] == part).filter_map(|row| row["total_ns"].as_u64()).sum()
}

#[test]
fn a_reader_that_does_not_read_is_the_receive_window() {
    if !is_root("a closed receive window") {
        return;
    }
    let Some(hosts) = Hosts::new("rw") else { return };
    let dir = TempDir::new().expect("a directory");
    let session = dir.path().join("session").display().to_string();
    let recorder = RecorderChild::start(&hosts.names[0], &session);
    fill_window(&hosts);
    recorder.end();
    let report = json(&["report", &session, "--json"]);
    let (window_ns, queue_ns) = (part_ns(&report, "receive-window"), part_ns(&report, "send-queue"));
    assert!(
        window_ns > queue_ns && queue_ns > 0,
        "{window_ns} of the window, {queue_ns} of the queue: {report}"
    );
    let journeys = json(&["journeys", &session, "--json", "--slowest", "1"]);
    let slowest = &journeys[0];
    let (closed_ns, total_ns) = (slowest["receive_window_ns"].as_u64(), slowest["total_ns"].as_u64());
    assert!(closed_ns > total_ns.map(|ns| ns / 2), "{slowest}");
}

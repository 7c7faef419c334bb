//! Traffic between two hosts, and journeys in recordings.
#![allow(dead_code)] // each test file uses a part

use super::hosts::{CLIENT, Hosts, SERVER, in_namespace};
use super::{run, stderr, uninterrupted};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default number of datagrams.
pub const DATAGRAMS: usize = 60;

/// Sends datagrams from the client to the server; each is read after a delay and answered.
pub fn traffic(hosts: &Hosts, wait: Duration) {
    Talk::new(hosts).exchange(DATAGRAMS, wait);
}

/// Two connected sockets. Their ports are bound once, because a child that is starting can hold a port until
/// `exec`.
pub struct Talk {
    sender: UdpSocket,
    receiver: UdpSocket,
}

impl Talk {
    pub fn new(hosts: &Hosts) -> Self {
        let [client, _, server] = &hosts.names;
        let receiver = in_namespace(server, || UdpSocket::bind((SERVER, 7001)).expect("a port"));
        let sender = in_namespace(client, || UdpSocket::bind((CLIENT, 7000)).expect("a port"));
        sender.connect((SERVER, 7001)).expect("a peer");
        for socket in [&sender, &receiver] {
            socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
        }
        Talk { sender, receiver }
    }

    pub fn exchange(&self, datagrams: usize, wait: Duration) {
        for _ in 0..datagrams {
            self.sender.send(&[5; 300]).expect("sent");
            std::thread::sleep(wait);
            let (_, from) = uninterrupted(|| self.receiver.recv_from(&mut [0; 400])).expect("read");
            self.receiver.send_to(&[6; 10], from).expect("answered");
            uninterrupted(|| self.sender.recv(&mut [0; 400])).expect("an answer");
        }
    }
}

/// Sends datagrams of `bytes` bytes within the server to a sleeping reader, so that each read is unambiguous.
pub fn locally(hosts: &Hosts, bytes: usize) {
    let server = &hosts.names[2];
    let (own, peer) = in_namespace(server, || {
        let bind = || UdpSocket::bind("127.0.0.1:0").expect("a port");
        (bind(), bind())
    });
    own.connect(peer.local_addr().expect("bound")).expect("a peer");
    let reader = std::thread::spawn(move || {
        (0..DATAGRAMS).for_each(|_| {
            peer.recv(&mut [0; 300]).expect("read");
        });
    });
    for _ in 0..DATAGRAMS {
        std::thread::sleep(Duration::from_millis(5));
        own.send(&vec![7; bytes]).expect("sent");
    }
    reader.join().expect("it reads them all");
}

/// Counts of journeys in combined recordings, by verdict, hops and hosts.
pub fn journeys(dirs: &[&Path]) -> BTreeMap<String, usize> {
    let dirs: Vec<String> = dirs.iter().map(|dir| dir.display().to_string()).collect();
    let mut arguments =
        vec!["journeys", "--json", "--slowest", "100000", "--where", "port = 7001 or port = 7002"];
    arguments.extend(dirs.iter().map(String::as_str));
    let output = run(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let rows: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut counts = BTreeMap::new();
    for row in rows.as_array().expect("rows") {
        let hops =
            row["rungs"].as_array().expect("rungs").iter().map(|rung| rung["hop"].as_str().unwrap_or("?"));
        let hops: Vec<_> = hops.collect();
        let what = format!("{} bytes, {}: {}", row["bytes"], row["verdict"], hops.join(" "));
        *counts.entry(what).or_default() += 1;
    }
    counts
}

/// True if the recordings together have this many journeys, each complete.
pub fn are_complete(dirs: &[PathBuf], count: usize) -> bool {
    let dirs: Vec<&Path> = dirs.iter().map(PathBuf::as_path).collect();
    let journeys = if dirs.is_empty() { BTreeMap::new() } else { journeys(&dirs) };
    journeys.values().sum::<usize>() == count && journeys.keys().all(|what| what.contains("\"complete\""))
}

/// The same journeys without the reader's wake-ups. Two captures of one packet have time stamps of
/// their own, so they may disagree whether its reader slept before it or went to sleep after it.
pub fn without_wake_ups(journeys: &BTreeMap<String, usize>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for (what, count) in journeys {
        let hops: Vec<_> = what.split(' ').filter(|word| !word.starts_with("task.")).collect();
        *counts.entry(hops.join(" ")).or_default() += count;
    }
    counts
}

/// The recordings below a directory, in the order of their names.
pub fn recordings(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut all: Vec<_> = entries.filter(|path| path.join("meta.toml").exists()).collect();
    all.sort();
    all
}

pub fn info(dir: &Path) -> Value {
    let output = run(&["info", "--json", &dir.display().to_string()]);
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Number of events in a running recording.
pub fn events(dir: &Path) -> u64 {
    if dir.join("meta.toml").exists() { info(dir)["events"].as_u64().unwrap_or(0) } else { 0 }
}

/// Number of journeys with this size that were sent, arrived and were read. Those soon after a loss count as broken if
/// their send returns late: its record might be among the lost ones.
pub fn read(dir: &Path, bytes: u64) -> usize {
    let has = |row: &Value, hop: &str| {
        row["rungs"].as_array().is_some_and(|rungs| rungs.iter().any(|rung| rung["hop"] == hop))
    };
    let all = ["dev.xmit", "dev.recv", "app.recv"];
    rows(dir, bytes).iter().filter(|row| all.iter().all(|hop| has(row, hop))).count()
}

/// Numbers of journeys with this size, by verdict.
pub fn verdicts(dir: &Path, bytes: u64) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for row in rows(dir, bytes) {
        *all.entry(row["verdict"].to_string()).or_default() += 1;
    }
    all
}

/// Number of complete journeys with this size.
pub fn came(dir: &Path, bytes: u64) -> usize {
    seen(dir, bytes).1
}

/// Number of journeys with this size, and of complete ones.
pub fn seen(dir: &Path, bytes: u64) -> (usize, usize) {
    let rows = rows(dir, bytes);
    (rows.len(), rows.iter().filter(|row| row["verdict"] == "complete").count())
}

/// Journeys of datagrams with this size. An agent's own connection, which is captured too, can have a write of it.
fn rows(dir: &Path, bytes: u64) -> Vec<Value> {
    let filter = format!("udp and bytes = {bytes}");
    let arguments =
        ["journeys", "--json", "--slowest", "100000", "--where", &filter, &dir.display().to_string()];
    let rows: Value = serde_json::from_slice(&run(&arguments).stdout).unwrap_or_default();
    rows.as_array().cloned().unwrap_or_default()
}

/// Opens `many` connections from the client to the server, each with a message and an answer.
pub fn connections(hosts: &Hosts, many: usize) {
    let [client, _, server] = &hosts.names;
    let listener = in_namespace(server, || TcpListener::bind((SERVER, 7002)).expect("a port"));
    let answers = std::thread::spawn(move || {
        for _ in 0..many {
            let (mut peer, _) = listener.accept().expect("it comes");
            peer.read_exact(&mut [0; 500]).expect("a message");
            peer.write_all(&[8; 50]).expect("an answer");
            // Until the other end has closed: the first to close keeps the port.
            let _ = peer.read(&mut [0; 1]);
        }
    });
    for _ in 0..many {
        let mut own = in_namespace(client, || TcpStream::connect((SERVER, 7002)).expect("it listens"));
        own.write_all(&[7; 500]).expect("sent");
        own.read_exact(&mut [0; 50]).expect("an answer");
    }
    answers.join().expect("it answers them all");
}

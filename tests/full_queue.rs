//! A queue that is full, in front of a device: what it throws away is sent again, and no time in the queue is of two copies.

use crate::common::hosts::{in_namespace, ip, namespace_name};
use crate::common::{eventually, is_root, magnet_scope, run, skipped, stderr};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const SENDER: &str = "10.77.9.1";
const RECEIVER: &str = "10.77.9.2";
const BYTES: usize = 4 << 20;

/// Two hosts on one wire: namespaces that go with this value.
struct Wire([String; 2]);

impl Wire {
    /// With a short queue in front of the sender's device.
    fn new() -> Option<Self> {
        let wire = Wire([namespace_name("left"), namespace_name("right")]);
        let [left, right] = &wire.0;
        if !wire.0.iter().all(|name| ip(&["netns", "add", name])) {
            skipped("a full queue", "`ip netns add` (iproute2) is not there or fails");
            return None;
        }
        assert!(ip(&[
            "link", "add", "eth0", "netns", left, "type", "veth", "peer", "name", "eth0", "netns", right
        ]));
        for (name, address) in [(left, SENDER), (right, RECEIVER)] {
            assert!(ip(&["-n", name, "addr", "add", &format!("{address}/24"), "dev", "eth0"]));
            assert!(ip(&["-n", name, "link", "set", "eth0", "up"]));
        }
        let bucket =
            ["qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "20mbit", "burst", "16kb", "limit", "64kb"];
        let tc = Command::new("tc").args(["-n", left]).args(bucket).output();
        if !tc.is_ok_and(|output| output.status.success()) {
            skipped("a full queue", "there is no tc, or this kernel has no tbf");
            return None;
        }
        Some(wire)
    }

    /// One sender that has more to send than the queue takes.
    fn talk(&self) {
        let [left, right] = &self.0;
        let listener = in_namespace(right, || TcpListener::bind((RECEIVER, 7100)).expect("a port"));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut peer = listener.accept().expect("a client").0;
                peer.read_exact(&mut vec![0; BYTES]).expect("all of it");
                peer.write_all(b"!").expect("the end");
            });
            in_namespace(left, || {
                let mut stream = TcpStream::connect((RECEIVER, 7100)).expect("a way");
                stream.write_all(&vec![7; BYTES]).expect("room");
                stream.read_exact(&mut [0]).expect("the end");
            });
        });
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for name in &self.0 {
            ip(&["netns", "del", name]);
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// When a copy of a journey passed a hop.
fn passed(journey: &Value, copy: &Value, hop: &str) -> Option<u64> {
    let mut rungs = list(&journey["rungs"]).iter();
    let own = rungs.find(|rung| rung["copy"] == *copy && rung["hop"] == hop);
    own.and_then(|rung| rung["time_ns"].as_u64())
}

#[test]
fn what_a_full_queue_throws_away_is_a_copy_of_its_own() {
    if !is_root("a full queue") {
        return;
    }
    let Some(wire) = Wire::new() else { return };
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("queue").display().to_string();
    let [left, right] = &wire.0;
    let arguments = ["record", "--netns", left, "--netns", right, "--hops", "+dev.queue", "-o", &path];
    let mut recorder = magnet_scope(&arguments).spawn().expect("the binary starts");
    assert!(eventually(|| Path::new(&path).join("meta.toml").exists()), "it records");
    wire.talk();
    kill_process(Pid::from_child(&recorder), Signal::INT).expect("it is there");
    assert!(recorder.wait().expect("it ends").success());

    let output = run(&["journeys", &path, "--json", "--slowest", "100000"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let journeys: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let again: Vec<&Value> = list(&journeys).iter().filter(|j| !list(&j["copies"]).is_empty()).collect();
    let (mut thrown_away, mut waits, mut measured) = (0, 0, 0);
    for journey in &again {
        let mut own = Vec::new();
        for copy in list(&journey["copies"]) {
            let times = ["dev.queue", "dev.xmit"].map(|hop| passed(journey, &copy["number"], hop));
            if let [Some(queued_ns), Some(sent_ns)] = times {
                own.push(sent_ns - queued_ns);
            }
            if copy["dropped_ns"].is_u64() && copy["last"] == "dev.queue" {
                assert_eq!(times[1], None, "what was thrown away was not sent: {journey}");
                assert_eq!(copy["drop_interface"], "eth0", "{journey}");
                thrown_away += 1;
            }
        }
        for step in list(&journey["latencies"]) {
            waits += u64::from(step["waited"] == true);
            if step["from"] == "dev.queue" && step["to"] == "dev.xmit" && step["waited"] != true {
                let ns = step["ns"].as_u64().expect("a time");
                assert!(own.contains(&ns), "{ns} ns are of no one copy: {journey}");
                measured += 1;
            }
        }
    }
    assert!(thrown_away > 0 && waits > 0 && measured > 0, "{} were sent again", again.len());
    let text = run(&["journeys", &path, "--slowest", "100000"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("dropped, qdisc_drop at eth0"), "a drop has its reason and its interface");
    let report = run(&["report", &path]);
    let report = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(report.contains("waiting for retransmission"), "{report}");
    println!(
        "{} journeys sent again: {thrown_away} copies thrown away, {measured} times in the queue",
        again.len()
    );
}

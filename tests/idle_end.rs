//! The recorded time reaches beyond the last event: for rates, for a datagram that is gone, and for bytes of one direction
//! alone.

use crate::common::agents::on;
use crate::common::hosts::{Hosts, SERVER, in_namespace, ip};
use crate::common::{eventually, is_root, run, stderr, within};
use serde_json::Value;
use std::net::UdpSocket;
use std::time::Duration;
use tempfile::TempDir;

const PORT: u16 = 7000;
/// Datagrams that arrive, without an answer.
const SENT: u64 = 20;
/// Idle time behind the last one: longer than a journey may be open.
const IDLE_NS: u64 = 12_000_000_000;

fn json(arguments: &[&str]) -> Value {
    let output = run(arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Sends datagrams that nobody answers, and one that the router discards without a record. The sockets stay open.
fn send(hosts: &Hosts) -> [UdpSocket; 2] {
    let [client, router, server] = &hosts.names;
    let reader = in_namespace(server, || UdpSocket::bind((SERVER, PORT)).expect("a port"));
    let sender = in_namespace(client, || UdpSocket::bind("0.0.0.0:0").expect("a port"));
    let mut read = [0; 64];
    for _ in 0..SENT {
        sender.send_to(&[7; 40], (SERVER, PORT)).expect("a route");
        assert_eq!(reader.recv(&mut read).expect("a datagram"), 40);
    }
    assert!(ip(&["-n", router, "route", "add", "blackhole", &format!("{SERVER}/32")]));
    sender.send_to(&[7; 41], (SERVER, PORT)).expect("a route");
    [sender, reader]
}

/// True if a recording reaches this far beyond its last event.
fn has_idle_end(session: &str) -> bool {
    let info = json(&["info", session, "--json"]);
    let ns = |key: &str| info[key].as_u64().unwrap_or(0);
    info["events"].as_u64() > Some(0) && ns("watched_ns") > ns("duration_ns") + IDLE_NS
}

#[test]
fn an_idle_end_is_recorded_time() {
    if !is_root("an idle end of a recording") {
        return;
    }
    let Some(hosts) = Hosts::new("ie") else { return };
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("session");
    let session = path.display().to_string();
    let [client, _, server] = &hosts.names;
    let recorder = on(client, &["record", "-o", &session, "--netns", client, "--netns", server]);
    assert!(eventually(|| path.join("meta.toml").exists()), "it records");
    let sockets = send(&hosts);
    assert!(within(Duration::from_mins(2), || has_idle_end(&session)), "its clocks are read");
    assert!(recorder.end().status.success());
    drop(sockets);
    let report = json(&["report", &session, "--json"]);
    let rows = report["verdicts"].as_array().expect("verdicts");
    let verdicts = rows.iter().find(|row| row["proto"] == "udp").expect("datagrams");
    let count = |of: &Value, key: &str| of[key].as_u64();
    assert_eq!((count(verdicts, "lost"), count(verdicts, "in_flight")), (Some(1), Some(0)), "{verdicts}");
    let duration_ns = report["duration_ns"].as_u64().expect("a time");
    assert!(duration_ns > IDLE_NS, "{duration_ns}");
    let hops = report["hops"].as_array().expect("hops");
    let row = hops.iter().find(|row| row["hop"] == "dev.xmit").expect("a hop");
    let expected = row["events"].as_f64().expect("events") * 1e9 / duration_ns as f64;
    let per_s = row["events_per_s"].as_f64().expect("a rate");
    assert!((per_s - expected).abs() < expected * 1e-6, "{per_s}, not {expected}");
    let requests = json(&["requests", &session, "--json"]);
    let grades = &requests["grades"];
    assert_eq!((count(grades, "unidirectional"), count(grades, "broken")), (Some(1), Some(0)), "{grades}");
}

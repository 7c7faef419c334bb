//! Acknowledgements that are lost: bytes that were read long ago are sent again, after the end of their journeys, and no
//! count hides that.

use crate::common::hosts::{Hosts, RecorderChild, SERVER, in_namespace};
use crate::common::{eventually, is_root, magnet_scope, run, skipped, stderr};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const PORT: u16 = 7200;
const BYTES: usize = 200;
/// Enough that the last ones follow the end of the journey.
const TIMES: u64 = 4;

/// Segments that a host has sent again, by its kernel.
fn retransmitted(namespace: &str) -> u64 {
    let text =
        in_namespace(namespace, || fs::read_to_string("/proc/thread-self/net/snmp").expect("its counters"));
    let mut rows = text.lines().filter(|line| line.starts_with("Tcp:")).map(|line| line.split(' '));
    let (names, values) = (rows.next().expect("names"), rows.next().expect("values"));
    let row = names.zip(values).find(|(name, _)| *name == "RetransSegs").expect("the counter");
    row.1.parse().expect("a number")
}

fn nft(namespace: &str, commands: &str) -> bool {
    let nft = in_namespace(namespace, || Command::new("nft").arg(commands).status());
    nft.is_ok_and(|status| status.success())
}

/// One message whose acknowledgements the router drops until it was sent again several times.
fn talk(hosts: &Hosts) -> bool {
    let [client, router, server] = &hosts.names;
    let listener = in_namespace(server, || TcpListener::bind((SERVER, PORT)).expect("a port"));
    let mut sender = in_namespace(client, || TcpStream::connect((SERVER, PORT)).expect("a way"));
    let mut reader = listener.accept().expect("a client").0;
    let drop =
        format!("table ip t {{ chain c {{ type filter hook forward priority 0; tcp sport {PORT} drop; }}; }}");
    if !nft(router, &drop) {
        skipped("late acknowledgements", "nft is not there or fails");
        return false;
    }
    sender.write_all(&[7; BYTES]).expect("room");
    reader.read_exact(&mut [0; BYTES]).expect("all of it");
    assert!(eventually(|| retransmitted(client) >= TIMES), "it is sent again");
    assert!(nft(router, "flush ruleset"));
    // Acknowledges all before it.
    reader.write_all(b"!").expect("room");
    sender.read_exact(&mut [0]).expect("the end");
    true
}

#[test]
fn what_is_sent_again_after_it_was_read_is_counted_beside_the_journeys() {
    if !is_root("late acknowledgements") {
        return;
    }
    let Some(hosts) = Hosts::new("acks") else { return };
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("acks").display().to_string();
    let [client, _, server] = &hosts.names;
    let child = magnet_scope(&["record", "--netns", client, "--netns", server, "-o", &path]).spawn();
    let recorder = RecorderChild::of(child.expect("the binary starts"));
    assert!(eventually(|| Path::new(&path).join("meta.toml").exists()), "it records");
    if !talk(&hosts) {
        return;
    }
    let bytes_again = retransmitted(client) * BYTES as u64;
    recorder.end();

    let output = run(&["report", &path, "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let late = report["correlator"]["resent_after_end_bytes"].as_u64().expect("a number");
    let note = format!("{late} bytes were sent again after the first copy had been read");
    assert!(late > 0 && stderr(&output).contains(&note), "{}", stderr(&output));
    let journeys = run(&["journeys", &path, "--json", "--slowest", "1000"]);
    let journeys: Value = serde_json::from_slice(&journeys.stdout).expect("JSON");
    let again = |journey: &Value| {
        let number = |key: &str| journey[key].as_u64().expect("a number");
        number("bytes") * number("retransmits")
    };
    let in_journeys: u64 = journeys.as_array().expect("journeys").iter().map(again).sum();
    assert_eq!(in_journeys + late, bytes_again, "of {in_journeys} in journeys and {late} after them");
}

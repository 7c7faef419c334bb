//! The rows: ways that bytes move, each with programs of its own.

mod consumers;
mod coverage;
mod deciders;
mod ends;
mod network;
mod networks;
mod packets;
mod pinned;
mod queues;
mod redirects;
mod rings;
mod scene;
mod streams;

use super::checker::{Talk, check};
use super::programs::{PORTS, Pair, export, record};
use crate::common::{run, skipped, stderr};
use magscope_core::Proto;
use std::process::Command;
use tempfile::TempDir;

/// Packet hops of both sides, and the copy to the reader.
const HOPS: &str = "default,ip.post,dev.queue,ip.pre,ip.in,app.copy";

/// Runs two programs with a recorder. `waits`: the server's program continues only after the client's has ended.
fn row(
    test: &str,
    proto: &'static str,
    on_server: &str,
    on_client: &str,
    waits: bool,
) -> Option<(Vec<Talk>, String, TempDir)> {
    let pair = Pair::new(test)?;
    let dir = TempDir::new().expect("a directory");
    let recording = dir.path().join("recording").display().to_string();
    let recorder = record(&[&pair], &recording, HOPS);
    let [mut server, client] = pair.start(on_server, on_client);
    let client = client.end();
    if waits {
        server.go_on();
    }
    let server = server.end();
    recorder.end();
    Some((pair.talks(proto, [server, client]), recording, dir))
}

/// No flow of the recording has a port that no program had.
fn flows_are_those_of_programs(recording: &str) {
    crate::common::foreign::read(recording.as_ref(), |batch| {
        for flow in batch.flows.iter().filter(|flow| matches!(flow.proto, Proto::TCP | Proto::UDP)) {
            let ports = [flow.local.port(), flow.remote.port()];
            assert!(ports.iter().all(|port| PORTS.contains(port)) && flow.netns != 0, "{flow:?}");
        }
    });
}

fn is_true(row: Option<(Vec<Talk>, String, TempDir)>, talks: usize) {
    let Some((found, recording, _dir)) = row else { return };
    assert_eq!(found.len(), talks);
    assert_eq!(check(&found, &export(&recording)), Ok(0));
    flows_are_those_of_programs(&recording);
}

#[test]
fn a_read_after_both_sides_have_closed_ends_its_journeys() {
    is_true(row("late reads", "tcp", "answers_and_closes", "half_closes_and_reads_late", false), 2);
}

#[test]
fn a_read_after_a_reset_ends_its_journeys() {
    is_true(row("reads after a reset", "tcp", "sends_and_resets", "is_reset_and_reads_late", false), 1);
}

#[test]
fn a_read_after_the_last_acknowledgement_ends_its_journeys() {
    let (server, client) = ("sends_and_half_closes", "half_closes_last_and_reads_late");
    is_true(row("reads after the last acknowledgement", "tcp", server, client, false), 1);
}

#[test]
fn the_error_queue_is_no_data() {
    is_true(row("the error queue", "udp", "echoes", "asks_and_reads_time_stamps", false), 2);
}

#[test]
fn a_failed_read_moves_no_later_datagram() {
    let row = row("failed reads", "udp", "fails_to_read_some", "sends_equal_datagrams", true);
    is_true(row.map(|row| without_every(3, row)), 1);
}

#[test]
fn a_bad_checksum_moves_no_later_datagram() {
    let row = row("bad checksums", "udp", "reads_good_ones", "sends_bad_checksums", true);
    is_true(row.map(|row| without_every(4, row)), 1);
}

/// The kernel discards every n-th datagram, beginning with the second.
fn without_every(
    n: u64,
    (mut talks, recording, dir): (Vec<Talk>, String, TempDir),
) -> (Vec<Talk>, String, TempDir) {
    for talk in &mut talks {
        talk.dropped = talk.sends.iter().map(|call| call.from).filter(|number| number % n == 1).collect();
    }
    (talks, recording, dir)
}

/// Two pairs of hosts have the same addresses and ports, as in networks of containers.
#[test]
fn two_pairs_with_equal_addresses_have_their_own_journeys() {
    for hops in ["default", HOPS] {
        let test = "equal addresses";
        let (Some(a), Some(b)) = (Pair::new(test), Pair::new(test)) else { return };
        let dir = TempDir::new().expect("a directory");
        let recording = dir.path().join("recording").display().to_string();
        let recorder = record(&[&a, &b], &recording, hops);
        let mut talks = Vec::new();
        for (proto, on_server, on_client) in
            [("udp", "echoes", "asks"), ("tcp", "answers_and_closes", "half_closes_and_reads_late")]
        {
            let programs = [&a, &b].map(|pair| (pair, pair.start(on_server, on_client)));
            for (pair, [server, client]) in programs {
                let client = client.end();
                talks.extend(pair.talks(proto, [server.end(), client]));
            }
        }
        recorder.end();
        assert_eq!(talks.len(), 8);
        assert_eq!(check(&talks, &export(&recording)), Ok(0), "{hops}");
        flows_are_those_of_programs(&recording);
    }
}

/// True if the kernel lists the sockets of vsock.
fn lists_vsock() -> bool {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/truth/programs.py");
    Command::new("python3").args(["-B", script, "lists_vsock"]).status().is_ok_and(|status| status.success())
}

/// One host has sockets of four kinds that are not followed, the other one has none.
#[test]
fn sockets_that_are_not_followed_are_counted() {
    let Some(pair) = Pair::new("other sockets") else { return };
    let dir = TempDir::new().expect("a directory");
    let recording = dir.path().join("recording").display().to_string();
    let programs = pair.start("reads_good_ones", "opens_other_sockets");
    record(&[&pair], &recording, "default").end();
    drop(programs);
    let output = run(&["report", &recording, "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = report["not_followed"].as_array().cloned().unwrap_or_default();
    let text = |row: &serde_json::Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let found: Vec<_> =
        rows.iter().map(|row| (text(row, "node"), text(row, "kind"), row["sockets"].as_u64())).collect();
    let vsock = u64::from(lists_vsock());
    let expected = [("packet", 1), ("raw", 1), ("unix", 3), ("vsock", vsock)];
    let client = &pair.names[0];
    let of = |(kind, sockets): (&str, u64)| (client.clone(), kind.to_owned(), Some(sockets));
    assert_eq!(found, expected.into_iter().filter(|(_, sockets)| *sockets > 0).map(of).collect::<Vec<_>>());
    if vsock == 0 {
        skipped("sockets of vsock", "this kernel does not list them (CONFIG_VSOCKETS_DIAG)");
    }
}

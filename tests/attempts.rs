//! Attempts to connect that nobody answers: the headline names the peer, although no byte was sent.

use crate::common::agents::on;
use crate::common::hosts::{Hosts, SERVER, in_namespace};
use crate::common::{eventually, is_root, run, stderr};
use serde_json::Value;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use tempfile::TempDir;

const REFUSED: usize = 5;
/// Nobody has this address.
const NOBODY: &str = "10.77.1.99:7014";

/// True if a socket of this thread's namespace waits for the answer to its SYN.
fn is_connecting() -> bool {
    let sockets = fs::read_to_string("/proc/thread-self/net/tcp").expect("the kernel's table");
    sockets.lines().any(|line| line.split_whitespace().nth(3) == Some("02"))
}

#[test]
fn a_peer_that_nobody_reaches_is_the_headline() {
    let test = "a_peer_that_nobody_reaches_is_the_headline";
    if !is_root(test) {
        return;
    }
    let Some(hosts) = Hosts::new("at") else { return };
    let dir = TempDir::new().expect("a directory");
    let session = dir.path().join("session");
    let path = session.display().to_string();
    let recorder = on(&hosts.names[0], &["record", "-o", &path]);
    assert!(eventually(|| session.join("meta.toml").exists()), "it records");
    let closed = format!("{SERVER}:7999");
    let errors = in_namespace(&hosts.names[0], || {
        let attempt = |to: &str| {
            let to: SocketAddr = to.parse().expect("an address");
            TcpStream::connect_timeout(&to, Duration::from_millis(200)).expect_err("nobody answers").kind()
        };
        let refused: Vec<_> = (0..REFUSED).map(|_| attempt(&closed)).collect();
        let nobody = attempt(NOBODY);
        // A child of another test has a copy of the socket until its `exec`, and the attempt ends with the last one.
        assert!(eventually(|| !is_connecting()), "the socket is closed");
        (refused, nobody)
    });
    let ended = recorder.end();
    assert!(ended.status.success(), "{}", stderr(&ended));
    assert!(errors.0.iter().all(|kind| *kind == std::io::ErrorKind::ConnectionRefused), "{errors:?}");
    assert_eq!(errors.1, std::io::ErrorKind::TimedOut);

    let report = run(&["report", &path, "--json"]);
    assert!(report.status.success(), "{}", stderr(&report));
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    assert_eq!(report["headline"]["kind"], "unreached", "{}", report["headline"]);
    let headline = report["headline"]["text"].as_str().unwrap_or_default();
    assert!(
        headline.contains(&format!("{REFUSED} of {REFUSED} attempts to connect to {closed}")),
        "{headline}"
    );
    let connections = &report["connections"];
    assert_eq!(
        (connections["failed"][0]["times"].as_u64(), connections["given_up"].as_u64()),
        (Some(5), Some(1))
    );
    let peers = connections["unanswered_peers"].as_array().expect("peers");
    let of = |to: &str| peers.iter().find(|peer| peer["to"] == to).unwrap_or_else(|| panic!("{to}: {peers:?}"));
    assert_eq!(of(&closed)["failed"][0]["times"], REFUSED);
    assert_eq!(of(NOBODY)["given_up"], 1);
}

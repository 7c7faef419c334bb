//! Bytes are counted once: later fragments of a datagram, and reads that only look, add none. Held against the bytes that
//! the program sent and read.

use crate::common::agents::on;
use crate::common::hosts::{in_namespace, ip, namespace_name};
use crate::common::{eventually, is_root, run, skipped, stderr, uninterrupted};
use serde_json::Value;
use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

const DATAGRAMS: usize = 8;
/// Seven packets of a loopback device with the MTU of Ethernet.
const BYTES: usize = 10_000;
const PORT: u16 = 7_000;

/// A network namespace whose loopback device fragments.
struct Host(String);

impl Host {
    fn new(test: &str) -> Option<Self> {
        if !is_root(test) {
            return None;
        }
        let host = Host(namespace_name("m"));
        if !ip(&["netns", "add", &host.0]) {
            skipped(test, "`ip netns add` (iproute2) is not there or fails");
            return None;
        }
        assert!(ip(&["-n", &host.0, "link", "set", "lo", "mtu", "1500", "up"]));
        Some(host)
    }

    /// Sends datagrams to itself. Each is looked at, and then read.
    fn talk(&self) {
        let [sender, reader] = ["127.0.0.1:0", "127.0.0.1:7000"]
            .map(|address| in_namespace(&self.0, || UdpSocket::bind(address).expect("a port")));
        reader.set_read_timeout(Some(Duration::from_mins(1))).expect("a limit");
        for _ in 0..DATAGRAMS {
            sender.send_to(&[7; BYTES], ("127.0.0.1", PORT)).expect("sent");
            let mut memory = [0; BYTES];
            let seen = uninterrupted(|| reader.peek(&mut memory)).expect("a datagram");
            let read = uninterrupted(|| reader.recv(&mut memory)).expect("a datagram");
            assert_eq!((seen, read), (BYTES, BYTES));
        }
    }

    fn recorded(&self, dir: &Path, detail: &str) {
        let path = dir.display().to_string();
        let arguments =
            ["record", "-o", &path, "--hops", "default,app.recv", "--detail", detail, "--netns", &self.0];
        let recorder = on(&self.0, &arguments);
        assert!(eventually(|| dir.join("meta.toml").exists()), "it records");
        self.talk();
        let ended = recorder.end();
        assert!(ended.status.success() && stderr(&ended).contains("nothing lost"), "{}", stderr(&ended));
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.0]);
    }
}

fn bytes_of<'r>(rows: &'r Value, hop: &str) -> &'r Value {
    let rows = rows.as_array().expect("rows of hops");
    &rows.iter().find(|row| row["hop"] == hop).unwrap_or_else(|| panic!("no {hop} in {rows:?}"))["bytes"]
}

#[test]
fn fragments_and_looks_add_no_bytes() {
    let Some(host) = Host::new("bytes that were moved") else { return };
    // The kernel's sums have bytes where packets leave and arrive, and at calls.
    let all = ["app.send", "ip.out", "dev.xmit", "dev.recv", "app.recv"];
    let summed = ["app.send", "dev.xmit", "dev.recv", "app.recv"];
    for (detail, place, hops) in [("full", "/hops", &all[..]), ("histograms", "/synthesis/hops", &summed)] {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path().join("session");
        host.recorded(&dir, detail);
        let output = run(&["report", &dir.display().to_string(), "--json"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let rows = report.pointer(place).expect("hops");
        for hop in hops {
            assert_eq!(*bytes_of(rows, hop), DATAGRAMS * BYTES, "{detail}: {hop} in {rows:#}");
        }
    }
}

//! A wire in user space between a client and its router: it delays frames and loses some, also where the kernel has no
//! netem.

use super::hosts::{Hosts, ip};
use super::skipped;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Delays towards the server and towards the client, milliseconds, and the share of frames that are lost, per cent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Impaired {
    pub to_server_ms: f64,
    pub to_client_ms: f64,
    pub loss_percent: f64,
}

/// The program that is the wire, ended on drop.
pub struct Wire(Child);

impl Wire {
    /// Replaces the wire between the client and the router; `None` where that is not possible, with the reason printed.
    pub fn between(hosts: &Hosts, test: &str, impaired: &Impaired) -> Option<Self> {
        let [client, router, _] = &hosts.names;
        if Command::new("python3").arg("--version").output().is_err() {
            skipped(test, "python3 is not installed");
            return None;
        }
        if !Path::new("/dev/net/tun").exists() {
            skipped(test, "the kernel has no TAP devices (/dev/net/tun)");
            return None;
        }
        // With its peer.
        assert!(ip(&["-n", client, "link", "del", "c0"]));
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/common/wire.py");
        let Impaired { to_server_ms, to_client_ms, loss_percent } = impaired;
        let numbers = [to_server_ms, to_client_ms, loss_percent].map(ToString::to_string);
        let child = Command::new("python3")
            .args(["-B", program, client, "c0", router, "r1"])
            .args(&numbers)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        let mut wire = Wire(child.expect("python3 starts"));
        let mut line = String::new();
        let stdout = wire.0.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("it prints");
        assert_eq!(line, "ready\n", "the wire starts");
        hosts.address_client();
        Some(wire)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

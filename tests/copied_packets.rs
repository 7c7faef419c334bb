//! Packets of which a bridge or a mirror gives copies to a host that they are not for. The host's kernel frees them.
//! Held against what the program on the receiving side has read.

use crate::common::agents::on;
use crate::common::hosts::{in_namespace, ip, namespace_name};
use crate::common::{eventually, is_root, run, skipped, stderr, uninterrupted};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Three hosts at a node.
struct Network {
    client: String,
    server: String,
    stranger: String,
    node: String,
}

/// Of the server.
const MAC: &str = "02:00:00:00:87:03";
const PACKETS: usize = 6;
const BYTES: usize = 100;

impl Network {
    fn new(test: &str) -> Option<Self> {
        if !is_root(test) {
            return None;
        }
        let [client, server, stranger, node] = ["c", "s", "x", "n"].map(namespace_name);
        let all = Network { client, server, stranger, node };
        for name in all.names() {
            if !ip(&["netns", "add", name]) {
                skipped(test, "`ip netns add` (iproute2) is not there or fails");
                return None;
            }
            // No datagram of theirs is among those of the test, and a bridge does not learn from them.
            in_namespace(name, || {
                for which in ["all", "default"] {
                    let path = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
                    let _ = std::fs::write(path, "1"); // a kernel without IPv6 has none
                }
            });
        }
        Some(all)
    }

    fn names(&self) -> [&str; 4] {
        [&self.client, &self.server, &self.stranger, &self.node]
    }

    fn link(&self, port: &str, host: &str, address: &str) {
        let node = self.node.as_str();
        assert!(ip(&[
            "link", "add", port, "netns", node, "type", "veth", "peer", "name", "eth0", "netns", host
        ]));
        assert!(ip(&["-n", host, "addr", "add", &format!("{address}/24"), "dev", "eth0"]));
        assert!(ip(&["-n", host, "link", "set", "eth0", "up"]));
        assert!(ip(&["-n", node, "link", "set", port, "up"]));
    }

    /// A bridge that does not know the server's port: the server never sends, and the client knows its address.
    fn flooding(test: &str) -> Option<Self> {
        let all = Self::new(test)?;
        let node = all.node.as_str();
        if !ip(&["-n", node, "link", "add", "br0", "type", "bridge"]) {
            skipped(test, "the kernel has no bridges");
            return None;
        }
        assert!(ip(&["-n", node, "link", "set", "br0", "up"]));
        let hosts = [
            ("p0", &all.stranger, "10.87.1.4"),
            ("p1", &all.client, "10.87.1.2"),
            ("p2", &all.server, "10.87.1.3"),
        ];
        for (port, host, address) in hosts {
            all.link(port, host, address);
            assert!(ip(&["-n", node, "link", "set", port, "master", "br0"]));
        }
        assert!(ip(&["-n", &all.server, "link", "set", "eth0", "address", MAC]));
        assert!(ip(&["-n", &all.client, "neigh", "add", "10.87.1.3", "lladdr", MAC, "dev", "eth0"]));
        Some(all)
    }

    /// A router that gives the stranger a copy of all that it sends to the server.
    fn mirroring(test: &str) -> Option<Self> {
        let all = Self::new(test)?;
        let node = all.node.as_str();
        let hosts = [("r0", &all.client, 1), ("r1", &all.server, 2), ("r2", &all.stranger, 3)];
        for (port, host, net) in hosts {
            all.link(port, host, &format!("10.87.{net}.2"));
            assert!(ip(&["-n", node, "addr", "add", &format!("10.87.{net}.1/24"), "dev", port]));
            assert!(ip(&["-n", host, "route", "add", "default", "via", &format!("10.87.{net}.1")]));
        }
        in_namespace(node, || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("a router"));
        let mirror =
            "filter add dev r1 egress protocol ip u32 match u32 0 0 action mirred egress mirror dev r2";
        let is_set = all.tc("qdisc add dev r1 clsact") && all.tc(mirror);
        if !is_set {
            skipped(test, "tc cannot mirror packets (cls_u32 and act_mirred)");
            return None;
        }
        Some(all)
    }

    fn tc(&self, arguments: &str) -> bool {
        let mut tc = Command::new("tc");
        tc.args(["-n", &self.node]).args(arguments.split(' '));
        tc.status().is_ok_and(|status| status.success())
    }

    /// Records all hosts while `work` runs.
    fn recorded(&self, dir: &Path, hops: &str, work: impl FnOnce()) {
        let path = dir.display().to_string();
        let mut arguments = vec!["record", "-o", &path, "--hops", hops];
        arguments.extend(self.names().iter().flat_map(|name| ["--netns", name]));
        let recorder = on(&self.node, &arguments);
        assert!(eventually(|| dir.join("meta.toml").exists()), "it records");
        work();
        let ended = recorder.end();
        assert!(ended.status.success() && stderr(&ended).contains("nothing lost"), "{}", stderr(&ended));
    }

    /// Datagrams of the client, each of which the server has read before the next.
    fn datagrams(&self, to: &str) {
        let server = in_namespace(&self.server, || UdpSocket::bind(("0.0.0.0", 9000)).expect("a port"));
        server.set_read_timeout(Some(Duration::from_mins(1))).expect("a limit");
        let client = in_namespace(&self.client, || UdpSocket::bind("0.0.0.0:0").expect("a port"));
        for _ in 0..PACKETS {
            client.send_to(&[1; BYTES], (to, 9000)).expect("sent");
            let read = uninterrupted(|| server.recv(&mut [0; 2 * BYTES])).expect("a datagram");
            assert_eq!(read, BYTES);
        }
    }

    fn stream(&self, to: &str) {
        let listener = in_namespace(&self.server, || TcpListener::bind(("0.0.0.0", 9000)).expect("a port"));
        let reader = std::thread::spawn(move || {
            let (mut stream, _) = uninterrupted(|| listener.accept()).expect("a client");
            for _ in 0..PACKETS {
                stream.read_exact(&mut [0; BYTES]).expect("sent");
                stream.write_all(&[2]).expect("answered");
            }
        });
        let mut stream = in_namespace(&self.client, || TcpStream::connect((to, 9000)).expect("a server"));
        for _ in 0..PACKETS {
            stream.write_all(&[1; BYTES]).expect("sent");
            stream.read_exact(&mut [0]).expect("an answer");
        }
        reader.join().expect("all were read");
    }

    /// Everything that the server has read came through the node alone.
    fn arrived(&self, dir: &Path, what: &str) {
        let path = dir.display().to_string();
        let output = run(&["journeys", &path, "--json", "--slowest", "1000", "--where", "port = 9000"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let rows: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
        let forth: Vec<&Value> = rows.iter().filter(|row| row["from_node"] == self.client.as_str()).collect();
        let bytes: u64 = forth.iter().filter_map(|row| row["bytes"].as_u64()).sum();
        assert_eq!(bytes as usize, PACKETS * BYTES, "{what}: {rows:#?}");
        for row in &rows {
            assert_eq!(row["verdict"], "complete", "{what}: {row:#}");
            let through = row["forwarders"].as_array().expect("a list");
            let names: Vec<&Value> = through.iter().map(|at| &at["node"]).collect();
            assert_eq!(names, [self.node.as_str()], "{what}: {row:#}");
        }
        for row in forth {
            assert_eq!(row["to_node"], self.server.as_str(), "{what}: {row:#}");
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in self.names() {
            ip(&["netns", "del", name]);
        }
    }
}

#[test]
fn what_a_bridge_floods_arrives_where_it_is_read() {
    let Some(network) = Network::flooding("a bridge that floods") else { return };
    for hops in ["default", "all"] {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path().join("session");
        network.recorded(&dir, hops, || network.datagrams("10.87.1.3"));
        network.arrived(&dir, hops);
    }
}

#[test]
fn what_a_router_mirrors_arrives_where_it_is_read() {
    let Some(network) = Network::mirroring("a router that mirrors") else { return };
    for hops in ["default", "all"] {
        for tcp in [false, true] {
            let dir = tempfile::tempdir().expect("a directory");
            let dir = dir.path().join("session");
            let to = "10.87.2.2";
            network.recorded(&dir, hops, || if tcp { network.stream(to) } else { network.datagrams(to) });
            network.arrived(&dir, &format!("{hops}, tcp: {tcp}"));
        }
    }
}

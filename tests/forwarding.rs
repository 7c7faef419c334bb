//! Journeys through a node as container engines set one up: a bridge, published ports, masquerade. Held against the
//! bytes and times that the programs on both sides noted.

use crate::common::agents::on;
use crate::common::hosts::{in_namespace, ip, namespace_name};
use crate::common::{eventually, is_root, run, skipped, stderr, uninterrupted};
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Two containers at a bridge of a node, and a host outside.
struct Network {
    first: String,
    second: String,
    node: String,
    outside: String,
}

const SECOND: &str = "10.88.0.3";
const PUBLISHED: &str = "192.0.2.1:8080";
const OUTSIDE: &str = "192.0.2.2";

/// Rules as of a container engine: what leaves gets the node's address, and port 8080 is the second container's 80,
/// also for the node itself and the first container.
const RULES: &str = "table ip nat {
 chain pre { type nat hook prerouting priority -100; fib daddr type local meta l4proto { tcp, udp } th dport 8080 dnat to 10.88.0.3:80; }
 chain out { type nat hook output priority -100; fib daddr type local meta l4proto { tcp, udp } th dport 8080 dnat to 10.88.0.3:80; }
 chain post { type nat hook postrouting priority 100; ip saddr 10.88.0.0/24 oifname \"wan\" masquerade; ip saddr 10.88.0.0/24 ip daddr 10.88.0.3 masquerade; }
}";

impl Network {
    fn new(test: &str) -> Option<Self> {
        if !is_root(test) {
            return None;
        }
        let [first, second, node, outside] = ["a", "b", "n", "o"].map(namespace_name);
        let all = Network { first, second, node, outside };
        for name in all.names() {
            if !ip(&["netns", "add", name]) {
                skipped(test, "`ip netns add` (iproute2) is not there or fails");
                return None;
            }
            assert!(ip(&["-n", name, "link", "set", "lo", "up"]));
        }
        let Network { first, second, node, outside } = &all;
        if !ip(&["-n", node, "link", "add", "br0", "type", "bridge"]) {
            skipped(test, "the kernel has no bridges");
            return None;
        }
        assert!(ip(&["-n", node, "addr", "add", "10.88.0.1/24", "dev", "br0"]));
        assert!(ip(&["-n", node, "link", "set", "br0", "up"]));
        for (host, port, address) in [(first, "p1", "10.88.0.2"), (second, "p2", SECOND)] {
            Self::link(node, port, host, address);
            assert!(ip(&["-n", node, "link", "set", port, "master", "br0", "up"]));
            assert!(ip(&["-n", host, "route", "add", "default", "via", "10.88.0.1"]));
        }
        Self::link(node, "wan", outside, OUTSIDE);
        assert!(ip(&["-n", node, "addr", "add", "192.0.2.1/24", "dev", "wan"]));
        assert!(ip(&["-n", node, "link", "set", "wan", "up"]));
        in_namespace(node, || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("a router"));
        if !all.rules(RULES) {
            skipped(test, "nft cannot translate addresses");
            return None;
        }
        Some(all)
    }

    fn link(node: &str, port: &str, host: &str, address: &str) {
        assert!(ip(&[
            "link", "add", port, "netns", node, "type", "veth", "peer", "name", "eth0", "netns", host
        ]));
        assert!(ip(&["-n", host, "addr", "add", &format!("{address}/24"), "dev", "eth0"]));
        assert!(ip(&["-n", host, "link", "set", "eth0", "up"]));
    }

    fn names(&self) -> [&str; 4] {
        [&self.first, &self.second, &self.node, &self.outside]
    }

    fn rules(&self, rules: &str) -> bool {
        let mut nft = Command::new("ip");
        nft.args(["netns", "exec", &self.node, "nft", "-f", "-"]).stdin(Stdio::piped());
        let Ok(mut nft) = nft.spawn() else { return false };
        let written = nft.stdin.take().is_some_and(|mut stdin| stdin.write_all(rules.as_bytes()).is_ok());
        nft.wait().is_ok_and(|status| status.success()) && written
    }

    /// Records all of them while `work` runs.
    fn recorded<T>(&self, dir: &Path, hops: &str, work: impl FnOnce() -> T) -> T {
        let path = dir.display().to_string();
        let mut arguments = vec!["record", "-o", &path, "--hops", hops];
        arguments.extend(self.names().iter().flat_map(|name| ["--netns", name]));
        let recorder = on(&self.node, &arguments);
        assert!(eventually(|| dir.join("meta.toml").exists()), "it records");
        let made = work();
        let ended = recorder.end();
        assert!(ended.status.success() && stderr(&ended).contains("nothing lost"), "{}", stderr(&ended));
        made
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in self.names() {
            ip(&["netns", "del", name]);
        }
    }
}

/// A call of a client, by its own clock: from before its send to after its read, nanoseconds.
type Call = (u64, u64);

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Questions of a client, each answered by a server. Both directions have as many bytes.
struct Exchange<'a> {
    client: &'a str,
    to: SocketAddr,
    server: &'a str,
    port: u16,
    bytes: usize,
}

const QUESTIONS: usize = 8;

impl Exchange<'_> {
    fn calls(&self, tcp: bool) -> Vec<Call> {
        if tcp { self.tcp() } else { self.udp() }
    }

    fn tcp(&self) -> Vec<Call> {
        self.connected(0).calls()
    }

    /// A connection on which some questions were asked already.
    fn connected(&self, asked: usize) -> Connected {
        let listener = in_namespace(self.server, || TcpListener::bind(("0.0.0.0", self.port)).expect("a port"));
        let bytes = self.bytes;
        let answers = std::thread::spawn(move || {
            let (mut stream, _) = uninterrupted(|| listener.accept()).expect("a client");
            for _ in 0..asked + QUESTIONS {
                let mut question = vec![0; bytes];
                stream.read_exact(&mut question).expect("a question");
                stream.write_all(&question).expect("answered");
            }
        });
        let stream = in_namespace(self.client, || TcpStream::connect(self.to).expect("a server"));
        let mut connected = Connected { stream, answers, bytes };
        for _ in 0..asked {
            connected.call();
        }
        connected
    }

    fn udp(&self) -> Vec<Call> {
        let server = in_namespace(self.server, || UdpSocket::bind(("0.0.0.0", self.port)).expect("a port"));
        let client = in_namespace(self.client, || UdpSocket::bind("0.0.0.0:0").expect("a port"));
        for socket in [&server, &client] {
            socket.set_read_timeout(Some(Duration::from_mins(1))).expect("a limit");
        }
        let bytes = self.bytes;
        let answers = std::thread::spawn(move || {
            for _ in 0..QUESTIONS {
                let mut question = vec![0; 2 * bytes];
                let (length, from) = uninterrupted(|| server.recv_from(&mut question)).expect("a question");
                server.send_to(&question[..length], from).expect("answered");
            }
        });
        let calls = (0..QUESTIONS).map(|_| {
            let begin_ns = now_ns();
            client.send_to(&vec![1; bytes], self.to).expect("asked");
            uninterrupted(|| client.recv_from(&mut vec![0; 2 * bytes])).expect("an answer");
            (begin_ns, now_ns())
        });
        let calls = calls.collect();
        answers.join().expect("all were answered");
        calls
    }
}

/// A connection of a client, and the server that answers on it.
struct Connected {
    stream: TcpStream,
    answers: std::thread::JoinHandle<()>,
    bytes: usize,
}

impl Connected {
    fn call(&mut self) -> Call {
        let begin_ns = now_ns();
        self.stream.write_all(&vec![1; self.bytes]).expect("asked");
        self.stream.read_exact(&mut vec![0; self.bytes]).expect("an answer");
        (begin_ns, now_ns())
    }

    /// Asks the last questions.
    fn calls(mut self) -> Vec<Call> {
        let calls = (0..QUESTIONS).map(|_| self.call()).collect();
        self.answers.join().expect("all were answered");
        calls
    }
}

/// The journeys of a recording.
fn journeys(dir: &Path, more: &[&str]) -> Vec<Value> {
    let path = dir.display().to_string();
    let output = run(&[&["journeys", &path, "--json", "--slowest", "100000"], more].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn number(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or_else(|| panic!("no {key} in {row}"))
}

/// Removes the steps to `dev.done`, which is off the path.
fn without_done(rows: &mut [Value]) {
    for row in rows {
        if let Some(steps) = row["latencies"].as_array_mut() {
            steps.retain(|step| step["to"] != "dev.done");
        }
    }
}

/// The nodes that it passed.
fn passed(row: &Value) -> Vec<&str> {
    let all = row["forwarders"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().map(|at| at["node"].as_str().expect("a name")).collect()
}

/// Every byte from one host to the other is in one complete journey through these nodes, within a call, and the
/// times of its steps are its total.
fn are_whole(what: &str, rows: &[Value], ends: [&str; 2], through: &[&str], calls: &[Call], bytes: usize) {
    let of_ends = |row: &&Value| row["from_node"] == ends[0] && row["to_node"] == ends[1];
    let rows: Vec<&Value> = rows.iter().filter(of_ends).collect();
    let sum: u64 = rows.iter().map(|row| number(row, "bytes")).sum();
    assert_eq!(sum as usize, QUESTIONS * bytes, "{what}: {ends:?}");
    for row in rows {
        assert_eq!(
            (row["verdict"].as_str(), &row["ambiguous"]),
            (Some("complete"), &Value::Bool(false)),
            "{row}"
        );
        assert_eq!(passed(row), through, "{what}: {row}");
        let (start_ns, total_ns) = (number(row, "start_ns"), number(row, "total_ns"));
        let is_within = |(begin, end): &Call| *begin <= start_ns && start_ns + total_ns <= *end;
        assert!(calls.iter().any(is_within), "{what}: {row}");
        let steps: u64 =
            row["latencies"].as_array().expect("steps").iter().map(|step| number(step, "ns")).sum();
        assert_eq!(steps, total_ns, "{what}: {row}");
    }
}

#[test]
fn every_byte_through_a_node_is_in_one_journey() {
    const TEST: &str = "journeys through a node";
    let Some(network) = Network::new(TEST) else { return };
    let Network { first, second, node, outside } = &network;
    let published: SocketAddr = PUBLISHED.parse().expect("an address");
    let beyond = SocketAddr::new(OUTSIDE.parse().expect("an address"), 80);
    let bridged = SocketAddr::new(SECOND.parse().expect("an address"), 80);
    let through = [node.as_str()];
    // Client, address, server, and the nodes between them.
    let cases: [(&str, &str, SocketAddr, &str, &[&str]); 5] = [
        ("masquerade", first, beyond, outside, &through),
        ("a published port", outside, published, second, &through),
        ("a published port from a container", first, published, second, &through),
        ("a published port from its own node", node, published, second, &[]),
        ("a bridge", first, bridged, second, &through),
    ];
    for hops in ["default", "all"] {
        for (case, client, to, server, through) in cases {
            for tcp in [true, false] {
                let what = format!("{case}, {}, hops {hops}", if tcp { "tcp" } else { "udp" });
                let dir = tempfile::tempdir().expect("a directory");
                let dir = dir.path().join("session");
                let exchange = Exchange { client, to, server, port: 80, bytes: 700 };
                let calls = network.recorded(&dir, hops, || exchange.calls(tcp));
                let mine = if tcp { "proto = tcp" } else { "proto = udp" };
                let mut rows = journeys(&dir, &["--where", mine]);
                without_done(&mut rows);
                are_whole(&what, &rows, [client, server], through, &calls, 700);
                are_whole(&what, &rows, [server, client], through, &calls, 700);
                let others: Vec<&Value> = rows.iter().filter(|row| row["verdict"] != "complete").collect();
                assert!(others.is_empty(), "{what}: {} others: {:?}", others.len(), others.first());
            }
        }
    }
}

/// Questions and answers acknowledge each other, so every segment has data, and the node copies each.
#[test]
fn a_capture_that_begins_amid_a_translated_connection_has_whole_journeys() {
    const TEST: &str = "a capture that begins amid a translated connection";
    let Some(network) = Network::new(TEST) else { return };
    let Network { first, second, node, outside } = &network;
    let cases = [
        ("masquerade", first, SocketAddr::new(OUTSIDE.parse().expect("an address"), 80), outside),
        ("a published port", outside, PUBLISHED.parse().expect("an address"), second),
        ("a published port from a container", first, PUBLISHED.parse().expect("an address"), second),
    ];
    for hops in ["default", "all"] {
        for (case, client, to, server) in cases {
            let what = format!("{case}, hops {hops}");
            let dir = tempfile::tempdir().expect("a directory");
            let dir = dir.path().join("session");
            let connected = Exchange { client, to, server, port: 80, bytes: 700 }.connected(3);
            let calls = network.recorded(&dir, hops, || connected.calls());
            let mut rows = journeys(&dir, &["--where", "proto = tcp"]);
            without_done(&mut rows);
            are_whole(&what, &rows, [client, server], &[node], &calls, 700);
            are_whole(&what, &rows, [server, client], &[node], &calls, 700);
        }
    }
}

#[test]
fn a_packet_that_a_node_drops_ends_at_that_node() {
    const TEST: &str = "drops at a node";
    let Some(network) = Network::new(TEST) else { return };
    // Datagrams of 90 bytes are dropped, and others of the same flow pass.
    let rules = "table ip filter {
 chain refuse { type filter hook forward priority 0; udp length 98 drop; }
}";
    assert!(network.rules(rules));
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().join("session");
    network.recorded(&dir, "default", || {
        let server = in_namespace(&network.outside, || UdpSocket::bind(("0.0.0.0", 9000)).expect("a port"));
        server.set_read_timeout(Some(Duration::from_mins(1))).expect("a limit");
        let client = in_namespace(&network.first, || UdpSocket::bind("0.0.0.0:0").expect("a port"));
        for bytes in [90, 50, 90, 90] {
            client.send_to(&vec![1; bytes], (OUTSIDE, 9000)).expect("sent");
        }
        uninterrupted(|| server.recv(&mut [0; 100])).expect("the one that passes");
    });
    let rows = journeys(&dir, &["--where", "port = 9000 and dropped"]);
    assert_eq!(rows.len(), 3, "{rows:?}");
    let node = network.node.as_str();
    assert!(rows.iter().filter(|row| !passed(row).is_empty()).count() >= 2, "{rows:?}");
    for row in rows {
        let text = row["verdict_text"].as_str().expect("words");
        assert!(text.contains("at br0") && text.contains("chain `refuse`"), "{text}");
        // Until a packet has passed, nothing shows that the node is not its destination. A drop waits for that, and
        // not for long.
        if passed(&row).is_empty() {
            assert_eq!(row["to_node"], node, "{row}");
        } else {
            assert_eq!(passed(&row), [node], "{row}");
            assert!(text.starts_with(&format!("dropped after dev.recv of {node}, ")), "{text}");
        }
    }
}

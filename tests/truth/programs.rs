//! Pairs of hosts, the programs on them, and their notes.

use super::checker::{Call, Talk};
use crate::common::hosts::{RecorderChild, in_namespace, ip, namespace_name};
use crate::common::{eventually, is_root, magnet_scope, run, skipped, stderr};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::JoinHandle;

pub const CLIENT: &str = "10.79.0.1";
pub const SERVER: &str = "10.79.0.2";
/// Ports of all programs: the server's, the client's.
pub const PORTS: [u16; 2] = [7100, 7101];

/// Two hosts on one wire, in namespaces that are removed on drop.
pub struct Pair {
    /// Names of client and server.
    pub names: [String; 2],
}

impl Pair {
    pub fn new(test: &str) -> Option<Self> {
        if !is_root(test) {
            return None;
        }
        if Command::new("python3").arg("--version").output().is_err() {
            skipped(test, "python3 is not installed");
            return None;
        }
        let pair = Pair { names: ["tc", "ts"].map(namespace_name) };
        for name in &pair.names {
            if !ip(&["netns", "add", name]) {
                skipped(test, "`ip netns add` (iproute2) is not there or fails");
                return None;
            }
        }
        let [client, server] = &pair.names;
        assert!(ip(&[
            "link", "add", "v0", "netns", client, "type", "veth", "peer", "name", "v0", "netns", server
        ]));
        for (name, address) in [(client, CLIENT), (server, SERVER)] {
            assert!(ip(&["-n", name, "addr", "add", &format!("{address}/24"), "dev", "v0"]));
            assert!(ip(&["-n", name, "link", "set", "v0", "up"]));
        }
        // A program that binds its port itself keeps it after the close.
        let range = format!("{0} {0}", PORTS[1]);
        in_namespace(client, || {
            std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", range).expect("ports");
        });
        Some(pair)
    }

    /// Starts a program on the server, then one on the client. Both are ready when this returns.
    pub fn start(&self, on_server: &str, on_client: &str) -> [Program; 2] {
        let server = Program::start(&self.names[1], on_server, [SERVER, CLIENT]);
        let client = Program::start(&self.names[0], on_client, [CLIENT, SERVER]);
        [server, client]
    }

    /// The talk of two programs that have ended, in both directions.
    pub fn talks(&self, proto: &'static str, [server, client]: [Vec<Call>; 2]) -> Vec<Talk> {
        let end = |n: usize| (format!("{}:{}", [SERVER, CLIENT][n], PORTS[n]), self.names[1 - n].clone());
        let talk = |from: usize, by: &[Call], to: &[Call]| {
            let calls = |calls: &[Call], what: &str| -> Vec<Call> {
                calls.iter().filter(|call| call.what == what).cloned().collect()
            };
            let ((from, from_node), (to_end, to_node)) = (end(from), end(1 - from));
            let (sends, reads) = (calls(by, "send"), calls(to, "read"));
            Talk { proto, from, to: to_end, from_node, to_node, sends, reads, dropped: Vec::new() }
        };
        let both = [talk(0, &server, &client), talk(1, &client, &server)];
        both.into_iter().filter(|talk| !talk.sends.is_empty()).collect()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&["netns", "del", name]);
        }
    }
}

/// A running program.
pub struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    notes: Option<JoinHandle<Vec<Call>>>,
}

impl Program {
    fn start(namespace: &str, role: &str, ends: [&str; 2]) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/truth/programs.py");
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace, "python3", "-B", script, role]).args(ends);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let tgid = child.id();
        let stdin = child.stdin.take();
        let mut program = Program { child, stdin, notes: None };
        assert_eq!(lines.next().and_then(Result::ok).as_deref(), Some("ready"), "{role}");
        let notes = std::thread::spawn(move || {
            let lines = lines.map_while(Result::ok);
            lines.map(|line| Call::of(&serde_json::from_str(&line).expect("a note"), tgid)).collect()
        });
        program.notes = Some(notes);
        program
    }

    /// Lets a waiting program continue.
    pub fn go_on(&mut self) {
        self.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("it waits");
    }

    /// Its notes, after it has ended.
    pub fn end(mut self) -> Vec<Call> {
        self.stdin = None;
        assert!(self.child.wait().expect("it ends").success());
        self.notes.take().expect("a thread").join().expect("notes")
    }
}

impl Drop for Program {
    /// A program must not outlive a test that fails.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A recorder of all hosts of these pairs.
pub fn record(pairs: &[&Pair], dir: &str, hops: &str) -> RecorderChild {
    let mut arguments = vec!["record", "--hops", hops, "-o", dir];
    for name in pairs.iter().flat_map(|pair| &pair.names) {
        arguments.extend(["--netns", name]);
    }
    let child = RecorderChild::of(magnet_scope(&arguments).spawn().expect("the binary starts"));
    assert!(eventually(|| Path::new(dir).join("meta.toml").exists()), "it records");
    child
}

/// All journeys of a recording.
pub fn export(dir: &str) -> Vec<Value> {
    let output = run(&["journeys", "--json", "--slowest", "100000", dir]);
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

//! Clients that ask and never read, or that write and read a byte at a time: at every socket that the program listens at they take
//! bounded memory, and another client is answered.

use crate::common::agents::Running;
use crate::common::hosts::in_namespace;
use crate::common::{eventually, field, is_root, magnet_scope, run, stderr, uninterrupted};
use crate::unattended::scene::Place;
use rustix::process::Signal;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Slow clients at a time. Half of them never read.
const CLIENTS: usize = 64;
/// Most bytes that one of them sends.
const MOST_SENT: usize = 1 << 20;
/// What all of them may cost: an agent's is its `--reader-memory`.
const BUDGET: u64 = 64 << 20;

/// Where the program listens, by source file. A file that is added has to have its servers below. An agent's Unix
/// socket and its loopback port have one identity each, which the slow clients fill; those that answer no ping of
/// HTTP/2 end.
const LISTENERS: [(&str, &[&str]); 6] = [
    ("crates/magnet-scope/src/control/server.rs", &["record"]),
    ("crates/magnet-scope/src/agent/socket.rs", &["agent, its own socket", "agent, socket for programs"]),
    ("crates/magnet-scope/src/agent/listen.rs", &["agent, loopback", "relay"]),
    ("crates/magnet-scope/src/metrics/bind.rs", &["metrics", "mon", "supermon"]),
    // The two ends of the demo and of a measurement talk to each other alone.
    ("crates/magnet-scope/src/hosts/traffic/server.rs", &[]),
    ("crates/probe/src/cost/traffic.rs", &[]),
];

/// HTTP/2: the preface and empty settings.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// A ping, which has to be answered.
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0abcdefgh";

#[derive(Clone)]
enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Address {
    fn connect(&self) -> std::io::Result<Stream> {
        match self {
            Address::Unix(path) => UnixStream::connect(path).map(Stream::Unix),
            Address::Tcp(at) => TcpStream::connect(at).map(Stream::Tcp),
        }
    }
}

impl Stream {
    fn never_blocks(&self) {
        let set = match self {
            Stream::Unix(stream) => stream.set_nonblocking(true),
            Stream::Tcp(stream) => stream.set_nonblocking(true),
        };
        set.expect("a socket");
    }

    fn waits_for(&self, time: Duration) {
        let set = match self {
            Stream::Unix(stream) => stream.set_read_timeout(Some(time)),
            Stream::Tcp(stream) => stream.set_read_timeout(Some(time)),
        };
        set.expect("a socket");
    }

    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Unix(stream) => uninterrupted(|| stream.read(bytes)),
            Stream::Tcp(stream) => uninterrupted(|| stream.read(bytes)),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tcp(stream) => stream.write(bytes),
        }
    }
}

/// A client that is slow.
struct Client {
    stream: Stream,
    reads: bool,
    opening: Vec<u8>,
    /// Repeated, so that a call sends many.
    question: Vec<u8>,
    sent: usize,
    /// The server has ended it, or takes nothing more of it.
    is_over: bool,
}

impl Client {
    /// What comes at this place of all that it sends.
    fn next(&self) -> &[u8] {
        if self.sent < self.opening.len() {
            &self.opening[self.sent..]
        } else {
            &self.question[(self.sent - self.opening.len()) % self.question.len()..]
        }
    }

    /// As much as the server takes, or a byte each way.
    fn turn(&mut self) {
        if self.reads {
            let byte = self.next()[..1].to_vec();
            self.sent += self.stream.write(&byte).unwrap_or(0);
            let _ = self.stream.read(&mut [0]);
            return;
        }
        while !self.is_over {
            let bytes = self.next().to_vec();
            match self.stream.write(&bytes) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.is_over = true,
            }
            self.is_over |= self.sent >= MOST_SENT;
        }
    }
}

/// How another client asks.
enum Asks {
    /// With the same words, at the same place.
    Raw,
    /// As a viewer.
    About(String),
}

struct Server {
    name: &'static str,
    arguments: Vec<String>,
    address: Address,
    opening: &'static [u8],
    question: &'static [u8],
    asks: Asks,
}

impl Server {
    fn is_answered(&self) -> bool {
        match &self.asks {
            Asks::About(address) => run(&["agent", "about", address]).status.success(),
            Asks::Raw => {
                let Ok(mut stream) = self.address.connect() else { return false };
                stream.waits_for(Duration::from_secs(10));
                let sent = [self.opening, self.question].concat();
                stream.write(&sent).is_ok_and(|all| all == sent.len())
                    && stream.read(&mut [0; 64]).is_ok_and(|read| read > 0)
            }
        }
    }
}

/// The most memory that a process had, bytes.
fn peak(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let kib = field(&status, "VmHWM").and_then(|text| text.trim_end_matches(" kB").trim().parse::<u64>().ok());
    kib.expect("a number") << 10
}

/// All of them. The last ones read those before.
fn servers(dir: &Path) -> Vec<Server> {
    let path = |name: &str| dir.join(name);
    let text = |name: &str| path(name).display().to_string();
    let tcp = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let words = |line: &[&str]| line.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let (agent, watch_socket) = (text("agent.sock"), text("watch.sock"));
    let budget = format!("{BUDGET}");
    let about = |port: u16| Asks::About(format!("insecure:{}", tcp(port)));
    let server = |name, arguments, address, question| Server {
        name,
        arguments,
        address,
        opening: b"",
        question,
        asks: Asks::Raw,
    };
    let fleet = |name, arguments, address, asks| Server {
        asks,
        opening: HTTP2,
        ..server(name, arguments, address, PING)
    };
    let agent_words = words(&[
        "agent",
        "--socket",
        &agent,
        "--watch-socket",
        &watch_socket,
        "--insecure-loopback",
        "127.0.0.1:6247",
        "--memory",
        "8MiB",
        "--reader-memory",
        &budget,
        "--max-overhead",
        "off",
        "--hops",
        "dev.recv",
    ]);
    let relay_words = words(&[
        "relay",
        "--connect",
        &format!("unix:{agent}"),
        "--insecure-loopback",
        "127.0.0.1:6248",
        "--socket",
        &text("relay.sock"),
        "--reader-memory",
        &budget,
        "--memory",
        "8MiB",
    ]);
    let metrics_words =
        words(&["metrics", "--connect", &format!("unix:{agent}"), "--listen", "127.0.0.1:9464"]);
    let get = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9464\r\n\r\n";
    vec![
        server(
            "record",
            words(&["record", "--hops", "dev.recv", "-o", &text("recording")]),
            // By the number of its process, once it runs.
            Address::Unix(PathBuf::new()),
            b"stats\n",
        ),
        fleet(
            "agent, its own socket",
            agent_words,
            Address::Unix(path("agent.sock")),
            Asks::About(format!("unix:{agent}")),
        ),
        // The same agent.
        fleet("agent, loopback", Vec::new(), Address::Tcp(tcp(6247)), about(6247)),
        server("agent, socket for programs", Vec::new(), Address::Unix(path("watch.sock")), b"{\"ask\":1}\n"),
        fleet("relay", relay_words, Address::Tcp(tcp(6248)), about(6248)),
        server("metrics", metrics_words, Address::Tcp(tcp(9464)), get),
        server(
            "mon",
            words(&["mon", "--no-capture", "--listen", "127.0.0.1:2709"]),
            Address::Tcp(tcp(2709)),
            b"#\n",
        ),
        server(
            "supermon",
            words(&["supermon", "127.0.0.1:2709", "--listen", "127.0.0.1:2710"]),
            Address::Tcp(tcp(2710)),
            b"#\n",
        ),
    ]
}

#[test]
fn a_slow_client_takes_bounded_memory_and_keeps_nobody_out() {
    if !is_root("slow clients") {
        return;
    }
    let Some(place) = Place::new("slow") else { return };
    let dir = TempDir::new().expect("a directory");
    let mut running: Vec<Running> = Vec::new();
    in_namespace(place.name(), || {
        for mut server in servers(dir.path()) {
            if !server.arguments.is_empty() {
                let arguments: Vec<&str> = server.arguments.iter().map(String::as_str).collect();
                running.push(Running::of(magnet_scope(&arguments)));
            }
            let pid = running.last().expect("one runs").pid();
            if server.name == "record" {
                server.address = Address::Unix(format!("/run/magnet-scope/{pid}.sock").into());
            }
            assert!(eventually(|| server.is_answered()), "{}: it answers", server.name);
            let before = peak(pid);
            let client = |number: usize| {
                let stream = server.address.connect().expect("it listens");
                stream.never_blocks();
                let opening = server.opening.to_vec();
                let question = server.question.repeat(4096 / server.question.len());
                Client { stream, reads: number % 2 == 1, opening, question, sent: 0, is_over: false }
            };
            let mut clients: Vec<Client> = (0..CLIENTS).map(client).collect();
            // Until the server takes nothing more of those that never read.
            let mut sent = 0;
            let is_stuck = eventually(|| {
                clients.iter_mut().for_each(Client::turn);
                place.exchange(10);
                let now: usize = clients.iter().filter(|client| !client.reads).map(|client| client.sent).sum();
                std::mem::replace(&mut sent, now) == now
            });
            assert!(is_stuck, "{}: {sent} bytes were taken", server.name);
            for _ in 0..3 {
                clients.iter_mut().for_each(Client::turn);
                assert!(eventually(|| server.is_answered()), "{}: another client is answered", server.name);
            }
            let grown = peak(pid).saturating_sub(before);
            println!("{}: {} kB more, {sent} bytes taken", server.name, grown >> 10);
            assert!(grown <= BUDGET, "{}: {grown} bytes more", server.name);
        }
    });
    // The others read those before, which are not to be missed.
    for process in running.into_iter().rev() {
        process.signal(Signal::INT);
        let ended = process.wait();
        assert!(ended.status.success(), "{}", stderr(&ended));
    }
}

#[test]
fn every_place_that_listens_is_in_the_list() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    let mut folders = vec![root.join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the sources").flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            if path.is_dir() && !["tests", "benches", "examples"].contains(&&*name.to_string_lossy()) {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = fs::read_to_string(&path).expect("a source");
                let code = text.split("#[cfg(test)]").next().unwrap_or_default();
                if code.contains("TcpListener::bind(") || code.contains("UnixListener::bind(") {
                    found.push(path.strip_prefix(&root).expect("below").display().to_string());
                }
            }
        }
    }
    found.sort_unstable();
    let mut listed: Vec<_> = LISTENERS.iter().map(|(file, _)| (*file).to_owned()).collect();
    listed.sort_unstable();
    assert_eq!(found, listed);
    let dir = TempDir::new().expect("a directory");
    let mut tested: Vec<&str> = servers(dir.path()).iter().map(|server| server.name).collect();
    let mut named: Vec<&str> = LISTENERS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    tested.sort_unstable();
    named.sort_unstable();
    assert_eq!(tested, named);
}

//! A capture compared with tcpdump's of the same traffic on the same device: equal packets at equal times.

use crate::common::exports::tool;
use crate::common::hosts::namespace_name;
use crate::common::{eventually, is_root, magnet_scope, run, skipped, stderr, stdout, uninterrupted};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

pub(super) const HERE: &str = "10.79.1.1";
pub(super) const THERE: &str = "10.79.1.2";
const BYTES: usize = 200_000;
const DATAGRAMS: usize = 100;

/// Two namespaces with a wire between them, which go with this value.
pub(super) struct Wire {
    pub names: [String; 2],
}

impl Wire {
    pub fn new() -> Option<Self> {
        let name = |role: &str| namespace_name(&format!("dump-{role}"));
        let wire = Wire { names: [name("a"), name("b")] };
        if !wire.names.iter().all(|namespace| ip(&["netns", "add", namespace])) {
            return None;
        }
        let [a, b] = &wire.names;
        assert!(ip(&["link", "add", "w0", "netns", a, "type", "veth", "peer", "name", "w1", "netns", b]));
        for (namespace, device, address) in [(a, "w0", HERE), (b, "w1", THERE)] {
            assert!(ip(&["-n", namespace, "addr", "add", &format!("{address}/24"), "dev", device]));
            assert!(ip(&["-n", namespace, "link", "set", device, "up"]));
        }
        Some(wire)
    }

    /// Runs `work` in one of them, in a thread that ends with it.
    pub fn inside<T: Send>(&self, which: usize, work: impl FnOnce() -> T + Send) -> T {
        let file = File::open(Path::new("/run/netns").join(&self.names[which])).expect("the namespace");
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("root may");
                work()
            });
            thread.join().expect("the work is done")
        })
    }

    /// TCP and UDP in both directions.
    fn talk(&self) {
        let limit = Some(Duration::from_secs(30));
        let (listener, there) = self.inside(1, || {
            let udp = UdpSocket::bind((THERE, 7001)).expect("a port");
            udp.set_read_timeout(limit).expect("a limit");
            (TcpListener::bind((THERE, 7000)).expect("a port"), udp)
        });
        let here = self.inside(0, || UdpSocket::bind((HERE, 7002)).expect("a port"));
        here.set_read_timeout(limit).expect("a limit");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("a client");
                let mut bytes = vec![0; BYTES];
                stream.read_exact(&mut bytes).expect("all of it");
                stream.write_all(&bytes[..BYTES / 2]).expect("an answer");
            });
            self.inside(0, || {
                let mut stream = TcpStream::connect((THERE, 7000)).expect("a way");
                stream.write_all(&vec![7; BYTES]).expect("room");
                stream.read_exact(&mut vec![0; BYTES / 2]).expect("an answer");
            });
        });
        let mut datagram = [0; 1_000];
        for n in 0..DATAGRAMS {
            here.send_to(&datagram[..n * 9], (THERE, 7001)).expect("room");
            let (len, from) = uninterrupted(|| there.recv_from(&mut datagram)).expect("a datagram");
            there.send_to(&datagram[..len / 2], from).expect("room");
            uninterrupted(|| here.recv_from(&mut datagram)).expect("an answer");
        }
    }
}

/// Payload of the last packet.
const LAST: &[u8] = b"the last packet that matters";

impl Wire {
    /// Sends the last packet, which somebody receives.
    fn say_last(&self) {
        let there = self.inside(1, || UdpSocket::bind((THERE, 7003)).expect("a port"));
        let here = self.inside(0, || UdpSocket::bind((HERE, 7004)).expect("a port"));
        here.send_to(LAST, (THERE, 7003)).expect("room");
        assert_eq!(there.recv(&mut [0; 100]).expect("it comes"), LAST.len());
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for namespace in &self.names {
            ip(&["netns", "del", namespace]);
        }
    }
}

pub(super) fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// A child that a Ctrl-C ends.
pub(super) fn end(mut child: Child) {
    kill_process(Pid::from_child(&child), Signal::INT).expect("it is there");
    assert!(child.wait().expect("it ends").success());
}

/// Fields that both captures have.
const FIELDS: [&str; 15] = [
    "ip.src",
    "ip.dst",
    "ip.proto",
    "ip.id",
    "ip.ttl",
    "ip.dsfield",
    "ip.flags.df",
    "ip.len",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.seq_raw",
    "tcp.ack_raw",
    "tcp.flags.str",
    "udp.srcport",
    "udp.length",
];

/// A packet: nanoseconds since 1970, and its fields.
type Packet = (i128, Vec<String>);

/// The packets of a file by sender, in file order. The length of a TCP packet is that of its payload: options
/// were not captured.
fn packets(file: &Path) -> BTreeMap<String, Vec<Packet>> {
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-o", "tcp.desegment_tcp_streams:false", "-r"]).arg(file);
    tshark.args(["-T", "fields", "-E", "separator=;", "-e", "frame.time_epoch", "-e", "tcp.len"]);
    for field in FIELDS {
        tshark.args(["-e", field]);
    }
    let output = tshark.output().expect("tshark runs");
    assert!(output.status.success(), "{}", stderr(&output));
    let mut all: BTreeMap<String, Vec<Packet>> = BTreeMap::new();
    for line in stdout(&output).lines() {
        let mut fields: Vec<String> = line.split(';').map(str::to_owned).collect();
        let ns: i128 = fields.remove(0).replace('.', "").parse().expect("nine digits");
        let tcp_len = fields.remove(0);
        if !tcp_len.is_empty() {
            fields[7] = tcp_len;
        }
        all.entry(fields[0].clone()).or_default().push((ns, fields));
    }
    all
}

#[test]
fn tcpdump_beside_it_sees_the_same_packets() {
    let test = "tcpdump_beside_it_sees_the_same_packets";
    if !is_root(test) || !tool(test, "tcpdump") || !tool(test, "tshark") {
        return;
    }
    let Some(wire) = Wire::new() else {
        return skipped(test, "`ip netns add` (iproute2) is not there or fails");
    };
    let dir = TempDir::new().expect("a directory");
    let path = |name: &str| dir.path().join(name);
    let (session, dumped, ours) = (path("session"), path("dumped.pcap"), path("ours.pcapng"));
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let recorder = magnet_scope(&["record", "--netns", &wire.names[0], "-o", &text(&session)]).spawn();
    let recorder = recorder.expect("the binary starts");
    assert!(eventually(|| session.join("meta.toml").exists()), "it records");
    let mut tcpdump = Command::new("ip");
    tcpdump.args(["netns", "exec", &wire.names[0], "tcpdump", "-i", "w0", "-n", "-s", "128", "-B", "32768"]);
    // Unbuffered output, so that a file with a header shows that tcpdump listens.
    tcpdump.args(["-U", "--time-stamp-precision=nano", "-Z", "root", "-w"]).arg(&dumped).arg("ip");
    let tcpdump = tcpdump.stderr(Stdio::null()).spawn().expect("tcpdump starts");
    assert!(eventually(|| dumped.metadata().is_ok_and(|file| file.len() >= 24)), "it listens");
    wire.talk();
    // tcpdump has written all that came before the last packet.
    wire.say_last();
    let is_last = |bytes: Vec<u8>| bytes.windows(LAST.len()).any(|window| window == LAST);
    assert!(eventually(|| fs::read(&dumped).is_ok_and(is_last)), "tcpdump has not seen the last packet");
    end(tcpdump);
    end(recorder);
    let output = run(&["export", &text(&session), "--format", "pcapng", "-o", &text(&ours)]);
    assert!(output.status.success(), "{}", stderr(&output));

    let (theirs, ours) = (packets(&dumped), packets(&ours));
    assert_eq!(theirs.keys().collect::<Vec<_>>(), [HERE, THERE]);
    let mut apart_ns: Vec<i128> = Vec::new();
    for (sender, theirs) in &theirs {
        let ours = &ours[sender];
        let (mut a, mut b): (Vec<_>, Vec<_>) = (theirs.iter().collect(), ours.iter().collect());
        assert!(a.len() > 2 * DATAGRAMS / 2, "{} packets from {sender}", a.len());
        // Two CPUs may pass packets concurrently, even of one TCP connection (an acknowledgement leaves where
        // the data was read), and each capture has its own order. All packets have distinct numbers. Datagrams
        // have a certain order, because each is sent after the answer to the previous one.
        let order = |packet: &&Packet| {
            let (tcp_port, udp_port) = (&packet.1[8], &packet.1[13]);
            (udp_port.clone(), if tcp_port.is_empty() { Vec::new() } else { packet.1.clone() })
        };
        a.sort_by_key(order);
        b.sort_by_key(order);
        let headers = |all: &[&Packet]| all.iter().map(|packet| packet.1.clone()).collect::<Vec<_>>();
        let (headers_a, headers_b) = (headers(&a), headers(&b));
        let other = headers_a.iter().zip(&headers_b).position(|(a, b)| a != b);
        assert!(
            headers_a == headers_b,
            "from {sender}: {} and {} packets; first other {:?} {:?}",
            a.len(),
            b.len(),
            other.map(|at| &headers_a[at]),
            other.map(|at| &headers_b[at])
        );
        apart_ns.extend(a.iter().zip(&b).map(|(a, b)| b.0 - a.0));
    }
    apart_ns.sort_unstable();
    let median = apart_ns[apart_ns.len() / 2];
    // Both time stamps lie within a few hundred instructions; a busy host can preempt between the two.
    assert!(median.abs() < 1_000_000, "{median} ns between the two at the median");
    println!(
        "{} packets; ours less tcpdump's: {} to {} ns, median {median} ns",
        apart_ns.len(),
        apart_ns[0],
        apart_ns[apart_ns.len() - 1]
    );
}

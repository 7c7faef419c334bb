//! Real packets of every kind, as tshark reads them: as many and as long as the programs sent, and nothing malformed.

use super::tcpdump::{HERE, THERE, Wire, end, ip};
use crate::common::exports::tool;
use crate::common::{eventually, is_root, magnet_scope, run, skipped, stderr, stdout, uninterrupted};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

const HERE_6: &str = "fd79::1";
const THERE_6: &str = "fd79::2";
const TCP_PORT: u16 = 7_100;
const UDP_PORT: u16 = 7_101;
/// Bytes of a connection there; half of them come back.
const STREAM_BYTES: usize = 400_000;
/// Datagrams of each size each way.
const DATAGRAMS: usize = 60;
/// Sizes of datagrams: without payload, one packet, and two that are cut for an MTU of 1500.
const SIZES: [usize; 4] = [0, 700, 1_473, 4_000];

/// What the programs sent from one address.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sent {
    stream_bytes: u64,
    datagrams: u64,
    datagram_bytes: u64,
}

/// A connection and datagrams, each answered before the next. Returns what each end sent.
fn talk(wire: &Wire, here: IpAddr, there: IpAddr) -> [Sent; 2] {
    let limit = Some(Duration::from_secs(30));
    let (listener, server) = wire.inside(1, || {
        let server = UdpSocket::bind((there, UDP_PORT)).expect("a port");
        server.set_read_timeout(limit).expect("a limit");
        (TcpListener::bind((there, TCP_PORT)).expect("a port"), server)
    });
    let [mut near, mut far] = [Sent::default(), Sent::default()];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut bytes = vec![0; STREAM_BYTES];
            stream.read_exact(&mut bytes).expect("all of it");
            stream.write_all(&bytes[..STREAM_BYTES / 2]).expect("an answer");
            far.stream_bytes += STREAM_BYTES as u64 / 2;
        });
        wire.inside(0, || {
            let mut stream = TcpStream::connect((there, TCP_PORT)).expect("a way");
            stream.write_all(&vec![7; STREAM_BYTES]).expect("room");
            near.stream_bytes += STREAM_BYTES as u64;
            stream.read_exact(&mut vec![0; STREAM_BYTES / 2]).expect("an answer");
        });
    });
    let client = wire.inside(0, || UdpSocket::bind(SocketAddr::new(here, 0)).expect("a port"));
    client.set_read_timeout(limit).expect("a limit");
    let mut bytes = vec![0; 8_192];
    for size in SIZES.repeat(DATAGRAMS) {
        client.send_to(&bytes[..size], (there, UDP_PORT)).expect("room");
        let (len, from) = uninterrupted(|| server.recv_from(&mut bytes)).expect("a datagram");
        server.send_to(&bytes[..len], from).expect("room");
        assert_eq!(uninterrupted(|| client.recv_from(&mut bytes)).expect("an answer").0, size);
        for sent in [&mut near, &mut far] {
            sent.datagrams += 1;
            sent.datagram_bytes += size as u64;
        }
    }
    [near, far]
}

/// What tshark is asked for.
const FIELDS: [&str; 15] = [
    "ip.src",
    "ip.dst",
    "ipv6.src",
    "ipv6.dst",
    "ip.frag_offset",
    "ip.flags.mf",
    "ip.len",
    "ipv6.plen",
    "ipv6.fraghdr.offset",
    "tcp.seq_raw",
    "tcp.len",
    "udp.length",
    "frame.protocols",
    "_ws.expert.message",
    "_ws.malformed",
];

/// A packet: its fields by name. A field that is not there is empty.
type Packet = BTreeMap<&'static str, String>;

fn packets(file: &Path) -> Vec<Packet> {
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-o", "tcp.desegment_tcp_streams:false", "-r"]).arg(file);
    // Tabs between fields: a comment has semicolons.
    tshark.args(["-T", "fields"]);
    for field in FIELDS {
        tshark.args(["-e", field]);
    }
    let output = tshark.output().expect("tshark runs");
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    let of = |line: &str| FIELDS.into_iter().zip(line.split('\t').map(str::to_owned)).collect();
    text.lines().map(of).collect()
}

fn number(packet: &Packet, field: &str) -> Option<u64> {
    let text = packet[field].as_str();
    let hex = text.strip_prefix("0x").map(|hex| u64::from_str_radix(hex, 16));
    hex.unwrap_or_else(|| text.parse()).ok()
}

/// What tshark saw from one address, by the words of the programs. A datagram that was cut is counted by its first part, and its bytes
/// by all parts.
fn seen(packets: &[Packet], from: &str) -> Sent {
    let mut seen = Sent::default();
    let (mut ranges, mut first) = (Vec::new(), None);
    for packet in packets.iter().filter(|packet| packet["ip.src"] == from || packet["ipv6.src"] == from) {
        if let (Some(seq), Some(len)) = (number(packet, "tcp.seq_raw"), number(packet, "tcp.len")) {
            // Relative to the SYN, which comes first of all; 200 kB do not wrap twice.
            let first = *first.get_or_insert(seq as u32);
            let at = u64::from((seq as u32).wrapping_sub(first));
            ranges.push((at, at + len));
            continue;
        }
        let v6_part = number(packet, "ipv6.fraghdr.offset");
        let v4_part = number(packet, "ip.frag_offset").filter(|at| *at > 0 || is_set(packet, "ip.flags.mf"));
        let udp = number(packet, "udp.length");
        let Some(offset) = v6_part.or(v4_part) else {
            if let Some(length) = udp {
                seen.datagrams += 1;
                seen.datagram_bytes += length - 8;
            }
            continue;
        };
        let carried = match (number(packet, "ip.len"), number(packet, "ipv6.plen")) {
            (Some(len), _) => len - 20,
            (None, len) => len.expect("a length") - 8,
        };
        seen.datagrams += u64::from(offset == 0);
        seen.datagram_bytes += carried - if offset == 0 { 8 } else { 0 };
    }
    // A range that was sent twice is one of the stream.
    ranges.sort_unstable();
    let mut end = 0;
    for (from, to) in ranges {
        seen.stream_bytes += to.saturating_sub(from.max(end));
        end = end.max(to);
    }
    seen
}

fn is_set(packet: &Packet, field: &str) -> bool {
    matches!(packet[field].as_str(), "1" | "True")
}

#[test]
fn tshark_sees_what_the_programs_sent_and_nothing_malformed() {
    let test = "tshark_sees_what_the_programs_sent_and_nothing_malformed";
    if !is_root(test) || !tool(test, "tshark") {
        return;
    }
    let Some(wire) = Wire::new() else {
        return skipped(test, "`ip netns add` (iproute2) is not there or fails");
    };
    let [a, b] = &wire.names;
    for (namespace, device, address) in [(a, "w0", HERE_6), (b, "w1", THERE_6)] {
        if !ip(&["-n", namespace, "addr", "add", &format!("{address}/64"), "dev", device, "nodad"]) {
            return skipped(test, "this kernel has no IPv6");
        }
    }
    let dir = TempDir::new().expect("a directory");
    let (session, out) = (dir.path().join("session"), dir.path().join("packets.pcapng"));
    let text = |path: &Path| path.to_string_lossy().into_owned();
    // View for all of it, also where the reader has no CPU for a while.
    let arguments = ["record", "--netns", a, "--ring-size", "16MiB", "-o", &text(&session)];
    let recorder = magnet_scope(&arguments).spawn().expect("the binary starts");
    assert!(eventually(|| session.join("meta.toml").exists()), "it records");
    let parse = |address: &str| address.parse::<IpAddr>().expect("an address");
    let noted = [(HERE, THERE), (HERE_6, THERE_6)].map(|(here, there)| {
        let [near, far] = talk(&wire, parse(here), parse(there));
        [(here, near), (there, far)]
    });
    end(recorder);
    let output = run(&["export", &text(&session), "--format", "pcapng", "-o", &text(&out)]);
    assert!(output.status.success(), "{}", stderr(&output));

    let packets = packets(&out);
    for packet in &packets {
        let expert_message = packet["_ws.expert.message"].to_lowercase();
        let protocols = &packet["frame.protocols"];
        assert!(packet["_ws.malformed"].is_empty() && !expert_message.contains("malformed"), "{packet:#?}");
        assert!(!protocols.contains("_ws.malformed"), "{packet:#?}");
        // No reader here stood still; the window was not captured.
        assert!(
            !expert_message.contains("zero window") && !expert_message.contains("zerowindow"),
            "{packet:#?}"
        );
    }
    for (address, sent) in noted.iter().flatten() {
        assert_eq!(seen(&packets, address), *sent, "from {address}; {}", stderr(&output));
    }
    let cut = packets.iter().filter(|packet| !packet["ipv6.fraghdr.offset"].is_empty()).count();
    assert_eq!(cut, DATAGRAMS * (2 + 3) * 2, "parts of IPv6 datagrams");
}

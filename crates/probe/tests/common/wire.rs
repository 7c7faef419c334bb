//! Packets that `tcpdump` saw of the same traffic.

use super::{Host, address};
use etherparse::{LaxNetSlice, LaxSlicedPacket, TransportSlice};
use pcap_parser::PcapCapture;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A packet with payload on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WirePacket {
    /// `CLOCK_REALTIME`, nanoseconds.
    pub realtime_ns: i64,
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub is_tcp: bool,
    /// TCP's sequence number; 0 for UDP.
    pub seq: u32,
    pub payload_bytes: u32,
    /// IPv4 identification; 0 for IPv6.
    pub ip_id: u16,
    /// Time to live or hop limit, type of service or traffic class.
    pub ttl_and_tos: (u8, u8),
    /// The DF bit of IPv4.
    pub whole: bool,
}

/// A running `tcpdump` on the device `v0` of a host.
pub struct Tcpdump {
    child: Child,
    file: PathBuf,
}

impl Tcpdump {
    /// Starts tcpdump and waits until it listens; prints the reason and returns `None` without it.
    pub fn start(host: &Host, name: &str) -> Option<Self> {
        Self::start_with(host, name, &[])
    }

    /// As [`Self::start`], with options and an expression.
    pub fn start_with(host: &Host, name: &str, more: &[&str]) -> Option<Self> {
        let file = std::env::temp_dir().join(format!("magnet-scope-{}-{name}.pcap", std::process::id()));
        let spawned = host.run(|| {
            Command::new("tcpdump")
                .args(["-i", "v0", "-s", "128", "-B", "16384", "--time-stamp-precision=nano", "-Z", "root"])
                .args(["--immediate-mode", "-U"])
                .arg("-w")
                .arg(&file)
                .args(more)
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
        });
        let Ok(mut child) = spawned else {
            println!("skipped, because there is no tcpdump");
            return None;
        };
        let mut line = String::new();
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        while !line.contains("listening on") {
            line.clear();
            assert!(stderr.read_line(&mut line).expect("a line") > 0, "tcpdump ended at once");
        }
        child.stderr = Some(stderr.into_inner());
        Some(Tcpdump { child, file })
    }

    /// Ends tcpdump after it has written a last packet from `from` to `to`. Returns the packets with payload in
    /// its order.
    pub fn stop(self, from: &Host, to: &str) -> Vec<WirePacket> {
        let bytes = self.end(from, to);
        let capture = PcapCapture::from_file(&bytes).expect("a whole pcap file");
        assert!(capture.header.is_nanosecond_precision(), "{:?}", capture.header);
        let packets = capture.blocks.iter().filter_map(|block| {
            let realtime_ns = i64::from(block.ts_sec) * 1_000_000_000 + i64::from(block.ts_usec);
            packet(block.data, realtime_ns)
        });
        packets.collect()
    }

    /// As [`Self::stop`]; returns the number of packets without the last one.
    pub fn count(self, from: &Host, to: &str) -> u64 {
        let bytes = self.end(from, to);
        PcapCapture::from_file(&bytes).expect("a whole pcap file").blocks.len() as u64 - 1
    }

    fn end(mut self, from: &Host, to: &str) -> Vec<u8> {
        const LAST: &[u8] = b"the last packet that matters";
        let socket = from.run(|| UdpSocket::bind(address(if to.contains(':') { "::" } else { "0.0.0.0" }, 0)));
        socket.expect("bind").send_to(LAST, address(to, 9)).expect("send");
        let end = Instant::now() + Duration::from_secs(30);
        while !fs::read(&self.file).is_ok_and(|bytes| bytes.windows(LAST.len()).any(|window| window == LAST)) {
            assert!(Instant::now() < end, "tcpdump has not seen the last packet");
            std::thread::sleep(Duration::from_millis(10));
        }
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
        let mut messages = String::new();
        let mut pipe = self.child.stderr.take().expect("a pipe");
        std::io::Read::read_to_string(&mut pipe, &mut messages).expect("text");
        assert!(self.child.wait().expect("it ends").success(), "{messages}");
        assert!(messages.contains("\n0 packets dropped by kernel"), "{messages}");
        let bytes = fs::read(&self.file).expect("a capture");
        fs::remove_file(&self.file).expect("our own file");
        bytes
    }
}

/// Lengths come from the headers, because tcpdump captured only the headers. A super-packet is below 64 KiB, so
/// its header holds its length.
fn packet(data: &[u8], realtime_ns: i64) -> Option<WirePacket> {
    let sliced = LaxSlicedPacket::from_ethernet(data).ok()?;
    let (from, to, ip_id, bytes, ttl_and_tos, whole) = match sliced.net.as_ref()? {
        LaxNetSlice::Ipv4(ip) => {
            let header = ip.header();
            let (from, to) = (IpAddr::V4(header.source_addr()), IpAddr::V4(header.destination_addr()));
            let bytes = u32::from(header.total_len()) - u32::from(header.ihl()) * 4;
            let ttl_and_tos = (header.ttl(), header.slice()[1]);
            (from, to, header.identification(), bytes, ttl_and_tos, header.dont_fragment())
        }
        LaxNetSlice::Ipv6(ip) => {
            let header = ip.header();
            let (from, to) = (IpAddr::V6(header.source_addr()), IpAddr::V6(header.destination_addr()));
            let ttl_and_tos = (header.hop_limit(), header.traffic_class());
            (from, to, 0, u32::from(header.payload_length()), ttl_and_tos, false)
        }
        LaxNetSlice::Arp(_) => return None,
    };
    let (ports, is_tcp, seq, header_bytes) = match sliced.transport.as_ref()? {
        TransportSlice::Tcp(tcp) => {
            let ports = (tcp.source_port(), tcp.destination_port());
            (ports, true, tcp.sequence_number(), u32::from(tcp.data_offset()) * 4)
        }
        TransportSlice::Udp(udp) => ((udp.source_port(), udp.destination_port()), false, 0, 8),
        _ => return None,
    };
    let packet = WirePacket {
        realtime_ns,
        from: SocketAddr::new(from, ports.0),
        to: SocketAddr::new(to, ports.1),
        is_tcp,
        seq,
        payload_bytes: bytes.checked_sub(header_bytes).expect("a length that holds its header"),
        ip_id,
        ttl_and_tos,
        whole,
    };
    (packet.payload_bytes > 0).then_some(packet)
}

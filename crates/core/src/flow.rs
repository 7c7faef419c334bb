//! Flows, tasks and TCP state: the rare records that plain events refer to.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// A flow from one end's side: a 64-bit hash, computed in the kernel, of protocol, network namespace, local and
/// remote address and port. The two ends of a connection are two flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FlowId(pub u64);

impl FlowId {
    /// No flow: the hop has no packet, or its socket has no peer.
    pub const NONE: FlowId = FlowId(0);

    /// True for [`FlowId::NONE`].
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// An IP protocol number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Proto(pub u8);

impl Proto {
    /// TCP (6).
    pub const TCP: Proto = Proto(6);
    /// UDP (17).
    pub const UDP: Proto = Proto(17);
    /// ICMP (1).
    pub const ICMP: Proto = Proto(1);
    /// IGMP (2).
    pub const IGMP: Proto = Proto(2);
    /// `ICMPv6` (58).
    pub const ICMPV6: Proto = Proto(58);

    /// The protocols that have a name, as filters, reports and logs write it.
    pub const NAMED: &'static [(&'static str, Proto)] = &[
        ("tcp", Proto::TCP),
        ("udp", Proto::UDP),
        ("icmp", Proto::ICMP),
        ("icmp6", Proto::ICMPV6),
        ("igmp", Proto::IGMP),
    ];

    /// The protocol of a name in any case; `None` if no protocol has it.
    pub fn of_name(name: &str) -> Option<Proto> {
        let (_, proto) = Self::NAMED.iter().find(|(other, _)| other.eq_ignore_ascii_case(name))?;
        Some(*proto)
    }

    /// The protocol of a name, of a number, or of `proto-47`, the text of a protocol without a name.
    pub fn of_word(word: &str) -> Option<Proto> {
        let number = || word.strip_prefix("proto-").unwrap_or(word).parse().ok().map(Proto);
        Self::of_name(word).or_else(number)
    }

    /// Its name; `None` if only its number denotes it.
    pub fn name(self) -> Option<&'static str> {
        let (name, _) = Self::NAMED.iter().find(|(_, proto)| *proto == self)?;
        Some(*name)
    }

    /// True if its flows have ports. The identifier of an ICMP echo is stored in their place and is none.
    pub const fn has_ports(self) -> bool {
        matches!(self, Proto::TCP | Proto::UDP)
    }
}

impl fmt::Display for Proto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "proto-{}", self.0),
        }
    }
}

/// Address and port. The ports of an ICMP echo are its identifier, those of protocols without ports 0.
pub type Endpoint = SocketAddr;

/// The flow of a [`FlowId`]. Announced before the first event that uses it and again every few seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Flow {
    /// The hash.
    pub id: FlowId,
    /// Network namespace, as the inode number of `/proc/<pid>/ns/net`.
    pub netns: u32,
    /// Protocol.
    pub proto: Proto,
    /// This end.
    pub local: Endpoint,
    /// The other end.
    pub remote: Endpoint,
}

impl Flow {
    /// True if `other` is the same packets from the other end's side (addresses swapped, in any namespace).
    pub fn mirrors(&self, other: &Flow) -> bool {
        self.proto == other.proto && self.local == other.remote && self.remote == other.local
    }

    /// Source and destination of the packets of this flow as `receiver`, the flow of their receiver, has them; `None` if
    /// they are the same at both ends, so that no address translation is between them.
    pub fn translated_to(&self, receiver: &Flow) -> Option<(Endpoint, Endpoint)> {
        let same = |a, b| canonical(a) == canonical(b);
        let is_same = same(self.local, receiver.remote) && same(self.remote, receiver.local);
        (!is_same).then_some((receiver.remote, receiver.local))
    }

    /// True if a program can have this flow: both of its ends have a port, if the protocol has ports. Later
    /// fragments have no ports at all.
    pub fn has_its_ports(&self) -> bool {
        let (local, remote) = (self.local.port(), self.remote.port());
        match self.proto {
            Proto::TCP => local != 0 && remote != 0,
            Proto::UDP => (local == 0) == (remote == 0),
            _ => true,
        }
    }

    /// True if both ends are on a loopback address.
    pub fn is_loopback(&self) -> bool {
        let on_loopback = |ip: IpAddr| ip.is_loopback();
        on_loopback(self.local.ip()) && on_loopback(self.remote.ip())
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}→{}", self.proto, self.local, self.remote)
    }
}

/// The end with an IPv4 address where that is mapped into IPv6: the same host.
pub fn canonical(end: Endpoint) -> Endpoint {
    Endpoint::new(end.ip().to_canonical(), end.port())
}

/// True if several hosts may send packets from this address. Without ports, every host without an address yet
/// sends the same ones (its `MLD` reports from `::`). So a packet sent somewhere cannot be matched with one
/// received elsewhere.
pub fn is_from_anybody(proto: Proto, from: Endpoint) -> bool {
    !matches!(proto, Proto::TCP | Proto::UDP) && from.ip().is_unspecified()
}

/// A thread. Announced on its first use of a socket, and occasionally afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Process.
    pub tgid: u32,
    /// Thread.
    pub tid: u32,
    /// Effective user of the process in the initial user namespace.
    pub uid: u32,
    /// Cgroup v2 id (the inode of its directory).
    pub cgroup: u64,
    /// Command name, at most 15 bytes.
    pub comm: String,
}

/// A sample of one TCP connection's state, what `MAGNeT` called the extended record. Source: `struct tcp_sock`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpSample {
    /// Instant, `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// Socket cookie.
    pub socket: u64,
    /// Flow from this end's side.
    pub flow: FlowId,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow-start threshold, segments.
    pub ssthresh: u32,
    /// Smoothed round-trip time, microseconds.
    pub srtt_us: u32,
    /// Round-trip time variation, microseconds.
    pub rttvar_us: u32,
    /// Retransmission time-out, microseconds; 0 if the length of the kernel's tick is unknown.
    pub rto_us: u32,
    /// Segments sent and not yet acknowledged or marked lost.
    pub packets_out: u32,
    /// Of those, retransmitted.
    pub retrans_out: u32,
    /// Retransmissions over the life of the connection, segments.
    pub total_retrans: u32,
    /// Peer's receive window, bytes.
    pub snd_wnd: u32,
    /// Own receive window, bytes.
    pub rcv_wnd: u32,
    /// First byte not yet acknowledged.
    pub snd_una: u32,
    /// Next byte to send.
    pub snd_nxt: u32,
    /// Next byte that the application will write: the end of the send queue.
    pub write_seq: u32,
    /// Next byte expected from the peer: the end of the receive queue.
    pub rcv_nxt: u32,
    /// Next byte that the application will read.
    pub copied_seq: u32,
    /// Bytes in the send queue, `write_seq − snd_una`.
    pub send_queue_bytes: u32,
    /// Bytes received and not yet read, `rcv_nxt − copied_seq`.
    pub recv_queue_bytes: u32,
    /// `TCP_ESTABLISHED` and other states, as in `include/net/tcp_states.h`.
    pub state: u8,
    /// Congestion-avoidance state (open, disorder, CWR, recovery, loss).
    pub ca_state: u8,
    /// Flags of the segment just received (as in [`crate::Event::tcp_flags`]). The sample precedes its
    /// processing by TCP.
    pub tcp_flags: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_protocol_is_read_as_it_is_written() {
        for proto in [Proto::TCP, Proto::UDP, Proto::ICMP, Proto::ICMPV6, Proto::IGMP] {
            assert_eq!(Proto::of_name(&proto.to_string()), Some(proto));
        }
        for proto in (0..=255).map(Proto) {
            let number = proto.0.to_string();
            assert_eq!([proto.to_string(), number].map(|word| Proto::of_word(&word)), [Some(proto); 2]);
        }
        assert_eq!([Proto::of_word("igmpx"), Proto::of_word("256"), Proto::of_word("")], [None; 3]);
        assert_eq!((Proto(2).to_string(), Proto::of_name("IGMP")), ("igmp".to_owned(), Some(Proto(2))));
        assert_eq!((Proto(47).to_string(), Proto::of_name("proto-47")), ("proto-47".to_owned(), None));
        assert_eq!(format!("{:6}|", Proto::IGMP), "igmp  |");
    }
}

//! An event: one hit of one hop.

use crate::flow::{FlowId, Proto};
use crate::hop::{Hop, Role};

/// One hit of one hop, as recorded in the kernel. 72 bytes, `Copy`, no heap: draining a million of them
/// allocates only their vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Instant, nanoseconds of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// The socket's cookie; 0 if the hop has none. Stable for the life of the socket.
    pub socket: u64,
    /// The flow from this end's side; [`FlowId::NONE`] for sockets without a peer and for scheduler events.
    pub flow: FlowId,
    /// First byte of the range: the TCP sequence number (32 bits, wraps). UDP: the payload of each segment of a
    /// super-packet, else 0. ICMP: number of the echo. For a first fragment, the bytes after its IP header; for
    /// a later one, its offset among them. `sched.switched`: duration of the switch, nanoseconds.
    pub seq: u32,
    /// Payload bytes. At a segmentation-offload hop, the bytes of the complete super-packet; for a UDP
    /// datagram's first fragment, those of the datagram.
    pub len: u32,
    /// Identity of the buffer for some microseconds: bits 6..38 of `skb->head`. 0 without one.
    pub skb: u32,
    /// Interface index within the flow's network namespace; 0 if the hop has no device.
    pub ifindex: u32,
    /// Process, where [`Hop::knows_process`]; else 0.
    pub tgid: u32,
    /// Thread, if [`Hop::knows_process`]; else 0. For `task.wake` and `task.run` the reader's thread.
    pub tid: u32,
    /// Depends on the hop. `skb.drop`: the kernel's reason. TCP packets: the acknowledgement number.
    /// `dev.done`: the driver's return code. `task.wake`: the waking thread. Other scheduler hops: the other
    /// thread. `tcp.retransmit`: the reason (see [`crate::journey::Resend`]). `tcp.send`: 0. `sock.ready`: the
    /// thread whose busy poll fetched the data. `app.recv`: nanoseconds since this thread's last empty read of
    /// this socket, 0 without one.
    pub detail: u32,
    /// Number in this CPU's stream of records, modulo 2³². A step of more than one is a loss.
    pub record: u32,
    /// The CPU of the event.
    pub cpu: u16,
    /// IPv4 identification of the packet (first segment of a super-packet); of an IPv6 fragment the low half of its
    /// own; 0 for other IPv6.
    pub ip_id: u16,
    /// Segments in a super-packet; 1 for a plain packet; 0 without a packet.
    pub segs: u16,
    /// TCP header flags (FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128); 0 without a TCP packet.
    pub tcp_flags: u8,
    /// Time to live (IPv4) or hop limit (IPv6); 0 if the hop has no IP header.
    pub ttl: u8,
    /// Type of service (IPv4) or traffic class (IPv6): DSCP and ECN.
    pub tos: u8,
    /// See [`EventFlags`].
    pub flags: EventFlags,
    /// The hop.
    pub hop: Hop,
    /// TCP, UDP, ICMP or another protocol.
    pub proto: Proto,
}

/// One-bit properties of an event. The bits are part of the record contract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EventFlags(pub u8);

impl EventFlags {
    /// The packet or socket is IPv6.
    pub const IPV6: Self = Self(1);
    /// Recorded at the return of the call, not at its start: the process had already finished with the layers
    /// below.
    pub const AT_RETURN: Self = Self(2);
    /// At packet hops of a recording made from a log: the log marks the journey of this datagram as ambiguous.
    /// See [`Event::is_ambiguous`].
    pub const AMBIGUOUS: Self = Self(2);
    /// The read only peeked (`MSG_PEEK`); the bytes will be read again.
    pub const PEEK: Self = Self(4);
    /// At `udp.recv` and `skb.drop`: a sampler leaves out the flow of this datagram. The event exists because
    /// its socket serves other flows too, and their order requires all arrivals. See [`Event::is_for_order`].
    pub const ORDER: Self = Self(4);
    /// The packet is a fragment other than the first, so ports are unknown.
    pub const FRAGMENT: Self = Self(8);
    /// The range was cut: the header could not be read completely.
    pub const PARTIAL: Self = Self(16);
    /// More fragments follow. Without [`EventFlags::FRAGMENT`] this is the first.
    pub const MORE: Self = Self(32);
    /// Received as multicast or broadcast, so that other hosts may have received it too. Only at the receiver's
    /// packet hops.
    pub const GROUP: Self = Self(64);
    /// IPv4: the packet must not be fragmented on its path.
    pub const WHOLE: Self = Self(128);

    /// True if every bit of `other` is set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Its bits but for those of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Union of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Event {
    /// True for a read that only peeked: the bytes will be read again.
    pub const fn peeks(&self) -> bool {
        self.flags.contains(EventFlags::PEEK) && !self.is_for_order()
    }

    /// True if it was recorded at the return of its call.
    pub const fn is_at_return(&self) -> bool {
        self.flags.contains(EventFlags::AT_RETURN) && !matches!(self.hop.role(), Role::Packet)
    }

    /// True if the assignment of this event to its datagram was ambiguous in the recording that a log was made of.
    pub const fn is_ambiguous(&self) -> bool {
        self.flags.contains(EventFlags::AMBIGUOUS) && matches!(self.hop.role(), Role::Packet)
    }

    /// True if a sampler left out all other events of this datagram's flow.
    pub const fn is_for_order(&self) -> bool {
        self.flags.contains(EventFlags::ORDER) && matches!(self.hop, Hop::UdpRecv | Hop::SkbDrop)
    }

    /// An event with only its hop and time; for generators and tests.
    pub const fn at(hop: Hop, time_ns: u64) -> Self {
        Event {
            time_ns,
            socket: 0,
            flow: FlowId::NONE,
            seq: 0,
            len: 0,
            skb: 0,
            ifindex: 0,
            tgid: 0,
            tid: 0,
            detail: 0,
            record: 0,
            cpu: 0,
            ip_id: 0,
            segs: 0,
            tcp_flags: 0,
            ttl: 0,
            tos: 0,
            flags: EventFlags(0),
            hop,
            proto: Proto::TCP,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_stays_small() {
        assert!(size_of::<Event>() <= 72);
    }
}

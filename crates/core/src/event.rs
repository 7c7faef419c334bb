//! An event: one hit of one hop.

mod detail;
mod extent;
mod number;

pub use detail::{ConnectionState, Detail, DetailKind};
pub use extent::{Extent, ExtentKind, error_name};
pub use number::Number;

use crate::flow::{FlowId, Proto};
use crate::hop::Hop;

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
    /// Payload bytes. At a segmentation-offload hop, the bytes of the complete super-packet; for a UDP
    /// datagram's first fragment, those of the datagram.
    pub len: u32,
    /// Identity of the buffer for some microseconds: bits 6..38 of `skb->head`. 0 without one.
    pub skb: u32,
    /// Interface index within the flow's network namespace; 0 if the hop has no device.
    pub ifindex: u32,
    /// Process of the event: at [`Hop::knows_process`] and `ip.out` of UDP, else 0.
    pub tgid: u32,
    /// Its thread, at the same hops; else 0. For `task.wake` and `task.run` the reader's thread.
    pub tid: u32,
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
    /// Position of its bytes, or its duration.
    pub extent: Extent,
    /// What its kind of hop adds.
    pub detail: Detail,
    /// The hop.
    pub hop: Hop,
    /// TCP, UDP, ICMP or another protocol.
    pub proto: Proto,
}

/// One-bit properties of an event, each with a bit of its own. The bits are part of the record contract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EventFlags(pub u16);

impl EventFlags {
    /// The packet or socket is IPv6.
    pub const IPV6: Self = Self(1);
    /// At `udp.recv` and `skb.drop`: a sampler leaves out the flow of this datagram. The event exists because
    /// its socket serves other flows too, and their order requires all arrivals.
    pub const ORDER: Self = Self(2);
    /// At packet hops of a recording made from a log: the log marks the journey of this datagram as ambiguous.
    pub const AMBIGUOUS: Self = Self(4);
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
    /// At calls: recorded at the return of the call, not at its start. The process had already finished with the
    /// layers below.
    pub const AT_RETURN: Self = Self(256);
    /// At reads: the read only peeked (`MSG_PEEK`); the bytes will be read again.
    pub const PEEK: Self = Self(512);
    /// At `app.recv` of UDP: the socket's queue has no further datagram.
    pub const QUEUE_EMPTY: Self = Self(1024);

    /// At `app.recv` and `sock.destroy` of TCP: the byte before the range was urgent, and reads passed over it.
    pub const URGENT: Self = Self(2048);
    /// At `app.recv` of TCP: the read was out of band (`MSG_OOB`), of the urgent byte alone.
    pub const OUT_OF_BAND: Self = Self(4096);

    /// TCP: at `sock.ready`, no process reads these bytes from this socket; at calls, what they took or gave are not
    /// the bytes of the stream. [`Event::consumer`] uses them.
    pub const IN_KERNEL: Self = Self(8192);

    /// All of them, with their names in the documents.
    pub const ALL: [(Self, &'static str); 14] = [
        (Self::IPV6, "IPv6"),
        (Self::ORDER, "order"),
        (Self::AMBIGUOUS, "ambiguous"),
        (Self::FRAGMENT, "fragment"),
        (Self::PARTIAL, "partial"),
        (Self::MORE, "more"),
        (Self::GROUP, "group"),
        (Self::WHOLE, "whole"),
        (Self::AT_RETURN, "at return"),
        (Self::PEEK, "peek"),
        (Self::QUEUE_EMPTY, "queue empty"),
        (Self::URGENT, "urgent"),
        (Self::OUT_OF_BAND, "out of band"),
        (Self::IN_KERNEL, "in kernel"),
    ];

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
        self.flags.contains(EventFlags::PEEK)
    }

    /// Payload bytes that it moved. A read that only peeked moved none, and a later fragment of UDP counts none: the
    /// first one has the length of the whole datagram.
    pub const fn payload_bytes(&self) -> u64 {
        let is_in_first = self.flags.contains(EventFlags::FRAGMENT) && self.proto.0 == Proto::UDP.0;
        if self.peeks() || is_in_first { 0 } else { self.len as u64 }
    }

    /// True if it was recorded at the return of its call.
    pub const fn is_at_return(&self) -> bool {
        self.flags.contains(EventFlags::AT_RETURN)
    }

    /// True if the assignment of this event to its datagram was ambiguous in the recording that a log was made of.
    pub const fn is_ambiguous(&self) -> bool {
        self.flags.contains(EventFlags::AMBIGUOUS)
    }

    /// True if a sampler left out all other events of this datagram's flow.
    pub const fn is_for_order(&self) -> bool {
        self.flags.contains(EventFlags::ORDER)
    }

    /// An event with only its hop and time; for generators and tests.
    pub const fn at(hop: Hop, time_ns: u64) -> Self {
        Event {
            time_ns,
            socket: 0,
            flow: FlowId::NONE,
            len: 0,
            skb: 0,
            ifindex: 0,
            tgid: 0,
            tid: 0,
            record: 0,
            cpu: 0,
            ip_id: 0,
            segs: 0,
            tcp_flags: 0,
            ttl: 0,
            tos: 0,
            flags: EventFlags(0),
            extent: Extent::None,
            detail: Detail::None,
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

    #[test]
    fn no_two_flags_share_a_bit() {
        let mut bits = 0_u16;
        for (flag, name) in EventFlags::ALL {
            assert_eq!((flag.0.count_ones(), bits & flag.0), (1, 0), "{name}");
            bits |= flag.0;
        }
    }
}

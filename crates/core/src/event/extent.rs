//! The extent of an event: the position of its bytes, or its duration.

use super::number::{Number, numbers};
use super::{Event, EventFlags};
use crate::flow::Proto;
use crate::hop::{Hop, Role};
use std::io;

numbers! {
    /// The position of an event's bytes within their stream or datagram, or the duration of the event. The length is
    /// [`Event::len`].
    Extent,
    /// The kinds of [`Extent`].
    ExtentKind,
    /// Neither position nor duration: a plain datagram, a call on a UDP socket, most scheduler events.
    None,
    /// TCP: sequence number of the first byte (32 bits, wraps). At `sock.ready`, whose length is 0, the number after
    /// the last byte that can be read.
    Stream seq = 1,
    /// UDP super-packet: payload bytes of each segment.
    Segments segment_bytes = 2,
    /// ICMP: sequence number of the echo; 0 for other messages.
    Echo echo_number = 3,
    /// First fragment of a datagram: bytes of this fragment after its IP header.
    FirstFragment fragment_bytes = 4,
    /// Later fragment: offset of its first byte after the IP header of the datagram.
    LaterFragment fragment_offset = 5,
    /// `sched.switched`: duration of the switch, nanoseconds.
    Switch switch_ns = 6,
    /// UDP at `app.copy`: buffer of the datagram, as [`Event::skb`] of a packet.
    CopiedBuffer copied_buffer = 7,
    /// UDP at `app.recv`: buffer of the first datagram that is left in the socket's queue, as [`Event::skb`]. Without
    /// it the queue is empty ([`EventFlags::QUEUE_EMPTY`]) or unknown.
    NextBuffer next_buffer = 8,
    /// `tcp.open`: the socket's error number (errno) where an attempt to connect failed.
    OpenError open_error = 9,
}

/// The system's words for an error number, as of [`Extent::OpenError`]: `Connection refused`.
pub fn error_name(number: u32) -> String {
    let error = i32::try_from(number).map(io::Error::from_raw_os_error);
    let words = error.map_or_else(|_| format!("error {number}"), |error| error.to_string());
    words.split_once(" (os error").map_or(words.as_str(), |(name, _)| name).to_owned()
}

impl ExtentKind {
    /// The kind of an event's extent. Records and recordings have the number alone; this rule gives its meaning.
    #[inline]
    pub const fn at(hop: Hop, proto: Proto, flags: EventFlags, segs: u16) -> Self {
        match hop.role() {
            Role::Packet | Role::Drop => Self::of_packet(proto, flags, segs),
            Role::Send | Role::Ready | Role::Read | Role::Resend | Role::End if proto.0 == Proto::TCP.0 => {
                Self::Stream
            }
            Role::Read if proto.0 == Proto::UDP.0 && matches!(hop, Hop::AppCopy) => Self::CopiedBuffer,
            Role::Read if proto.0 == Proto::UDP.0 && !flags.contains(EventFlags::PEEK) => Self::NextBuffer,
            Role::Task if matches!(hop, Hop::SchedSwitched) => Self::Switch,
            Role::Point if matches!(hop, Hop::TcpOpen) => Self::OpenError,
            _ => Self::None,
        }
    }

    const fn of_packet(proto: Proto, flags: EventFlags, segs: u16) -> Self {
        match proto {
            _ if flags.contains(EventFlags::FRAGMENT) => Self::LaterFragment,
            Proto::TCP => Self::Stream,
            _ if flags.contains(EventFlags::MORE) => Self::FirstFragment,
            Proto::UDP if segs > 1 => Self::Segments,
            Proto::ICMP | Proto::ICMPV6 => Self::Echo,
            _ => Self::None,
        }
    }
}

impl Event {
    /// The kind of its extent by its other fields.
    #[inline]
    pub const fn extent_kind(&self) -> ExtentKind {
        ExtentKind::at(self.hop, self.proto, self.flags, self.segs)
    }

    /// TCP sequence number of its first byte; 0 for an event of no TCP stream.
    #[inline]
    pub const fn seq(&self) -> u32 {
        self.extent.seq()
    }
}

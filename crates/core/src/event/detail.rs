//! The detail of an event: the number that its kind of hop adds.

use super::number::{Number, numbers};
use super::{Event, EventFlags};
use crate::deciders::SocketFilter;
use crate::flow::Proto;
use crate::hop::Hop;
use crate::journey::{Consumer, Resend};

numbers! {
    /// The number that a kind of hop adds to the fields of all events. The table of hops names the kind of each hop.
    Detail,
    /// The kinds of [`Detail`].
    DetailKind,
    /// The hop adds nothing.
    None,
    /// TCP packet: acknowledgement number.
    Ack ack = 1,
    /// `skb.drop`: the kernel's reason, a number of this kernel's `enum skb_drop_reason`.
    DropReason drop_reason = 2,
    /// `dev.done`: the driver's return code (`netdev_tx_t`).
    DriverCode driver_code = 3,
    /// `tcp.retransmit`: the kernel's reason, a number of [`Resend`].
    ResendReason resend_reason = 4,
    /// `sock.ready`: thread whose busy poll received the data; 0 without one.
    Poller poller_tid = 5,
    /// `app.recv`: nanoseconds since this thread's last empty read of this socket; 0 without one.
    EmptyRead empty_read_ns = 6,
    /// Scheduler hops: the other thread. `task.wake` and `sched.wakeup`: the waking one; `sched.fork`: the new one;
    /// the others: the one that had the CPU before. 0 without one.
    OtherThread other_tid = 7,
    /// `tcp.send_reset`: the kernel's reason, a number of this kernel's `enum sk_rst_reason`.
    ResetReason reset_reason = 8,
    /// `tcp.open`: the new state, a number of [`ConnectionState`].
    ConnectionState connection_state = 9,
    /// `tcp.synack`: how many times the SYN-ACK was sent again.
    Synacks synacks = 10,
    /// Socket hops with [`EventFlags::IN_KERNEL`]: what uses the socket, a number of [`Consumer`].
    Consumer consumer = 11,
    /// `sock.destroy`: number behind the last byte that the socket accepted for sending, and behind its FIN if it has
    /// one.
    WriteSeq write_seq = 12,
    /// `skb.drop` by a filter: the kernel's reason in the lowest byte, and above it the filter of the socket, a number of
    /// [`SocketFilter`].
    FilterDrop filter_drop = 13,
}

/// The state of a connection after the attempt to connect, by the kernel's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// Both sides can send.
    Established,
    /// The attempt failed, or the socket was closed before.
    Closed,
    /// Another state: the peer or the program has begun to close meanwhile.
    Other(u32),
}

impl ConnectionState {
    /// The state of a number of the kernel.
    pub const fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Established,
            7 => Self::Closed,
            other => Self::Other(other),
        }
    }

    /// Name on screens.
    pub fn name(self) -> String {
        match self {
            Self::Established => "established".to_owned(),
            Self::Closed => "closed".to_owned(),
            Self::Other(number) => format!("state {number}"),
        }
    }
}

/// True for the hops at which the kernel itself may use a socket.
const fn can_be_in_kernel(hop: Hop) -> bool {
    matches!(hop, Hop::AppSend | Hop::AppRecv | Hop::SockReady)
}

impl DetailKind {
    /// The kind of detail at a hop. Packets without TCP have no acknowledgement number.
    #[inline]
    pub const fn at(hop: Hop, proto: Proto, flags: EventFlags) -> Self {
        match hop.detail() {
            _ if flags.contains(EventFlags::IN_KERNEL) && can_be_in_kernel(hop) => Self::Consumer,
            Self::Ack if proto.0 != Proto::TCP.0 => Self::None,
            kind => kind,
        }
    }
}

impl Event {
    /// The kind of its detail by its other fields.
    #[inline]
    pub const fn detail_kind(&self) -> DetailKind {
        DetailKind::at(self.hop, self.proto, self.flags)
    }

    /// The kernel's reason for a drop; 0, which is no reason, for an event other than a drop.
    #[inline]
    pub const fn drop_reason(&self) -> u32 {
        match self.detail {
            Detail::FilterDrop(number) => number.get() & 0xff,
            detail => detail.drop_reason(),
        }
    }

    /// The filter of the socket that a packet was for, at its drop by a filter; unknown for every other event.
    #[inline]
    pub const fn socket_filter(&self) -> SocketFilter {
        SocketFilter::from_number(self.detail.filter_drop() >> 8)
    }

    /// What uses the socket in place of a process; `None` for a process.
    #[inline]
    pub const fn consumer(&self) -> Option<Consumer> {
        match self.detail.consumer() {
            0 => None,
            number => Some(Consumer::from_number(number)),
        }
    }

    /// The kernel's reason for a retransmission; unknown for an event other than that.
    #[inline]
    pub const fn resend_reason(&self) -> Resend {
        Resend::from_number(self.detail.resend_reason())
    }
}

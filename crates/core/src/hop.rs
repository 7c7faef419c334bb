//! Hops: the named places in the stack with events.
//!
//! The numbers are part of the record contract (`bpf/record.h`) and of the session format; they never change
//! meaning. A test in `probe` compares the two tables.

use crate::words;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The direction of a packet at a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the application to the wire.
    Tx,
    /// From the wire to the application.
    Rx,
    /// Not on the path of a packet: state, loss and scheduler events.
    Off,
}

/// The layer of a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// `send`, `recv` and other calls of a process.
    Socket,
    /// TCP and UDP.
    Transport,
    /// IPv4 and IPv6, the netfilter hooks included.
    Ip,
    /// Queueing disciplines and network devices.
    Device,
    /// Wake-up and dispatch of tasks.
    Sched,
}

macro_rules! hops {
    ($( $(#[$doc:meta])* $id:literal $variant:ident $name:literal $dir:ident $layer:ident; )*) => {
        /// A named place in the stack.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Hop { $( $(#[$doc])* $variant = $id, )* }

        impl Hop {
            /// All hops: the sender's path, the receiver's path, then those off the path.
            pub const ALL: &'static [Hop] = &[ $( Hop::$variant, )* ];

            /// The name used on screens, on the command line and in files.
            pub const fn name(self) -> &'static str { match self { $( Hop::$variant => $name, )* } }

            /// The direction of packets at this hop.
            pub const fn direction(self) -> Direction { match self { $( Hop::$variant => Direction::$dir, )* } }

            /// The layer of this hop.
            pub const fn layer(self) -> Layer { match self { $( Hop::$variant => Layer::$layer, )* } }

            /// The hop with this number in the record contract.
            pub const fn from_id(id: u8) -> Option<Hop> { match id { $( $id => Some(Hop::$variant), )* _ => None } }
        }
    };
}

hops! {
    /// A process passed bytes to a socket (`inet_sendmsg`).
    1 AppSend "app.send" Tx Socket;
    /// TCP added bytes to its send queue (`tcp_sendmsg_locked`).
    2 TcpSend "tcp.send" Tx Transport;
    /// UDP built a datagram (`udp_sendmsg`).
    3 UdpSend "udp.send" Tx Transport;
    /// TCP passed a segment down (`__tcp_transmit_skb`).
    4 TcpXmit "tcp.xmit" Tx Transport;
    /// IP made a packet (`ip_local_out`, netfilter `LOCAL_OUT`).
    5 IpOut "ip.out" Tx Ip;
    /// IP has routed the packet and passes it to the device (netfilter `POST_ROUTING`).
    6 IpPost "ip.post" Tx Ip;
    /// The packet reached the device's queue (`dev_queue_xmit`).
    7 DevQueue "dev.queue" Tx Device;
    /// The packet is given to the driver (`net_dev_start_xmit`).
    8 DevXmit "dev.xmit" Tx Device;
    /// The driver returned (`net_dev_xmit`).
    9 DevDone "dev.done" Tx Device;
    /// The driver delivered the packet (`netif_receive_skb`).
    10 DevRecv "dev.recv" Rx Device;
    /// Entry into IP (netfilter `PRE_ROUTING`).
    11 IpPre "ip.pre" Rx Ip;
    /// IP found this node to be the destination (netfilter `LOCAL_IN`).
    12 IpIn "ip.in" Rx Ip;
    /// TCP found the socket (`tcp_rcv_established`).
    13 TcpRecv "tcp.recv" Rx Transport;
    /// UDP found the socket (`udp_queue_rcv_skb`).
    14 UdpRecv "udp.recv" Rx Transport;
    /// The socket notified its readers of data (`sk_data_ready`).
    15 SockReady "sock.ready" Rx Socket;
    /// The reader was made runnable (`sched_wakeup`).
    16 TaskWake "task.wake" Rx Sched;
    /// The reader got a CPU (`sched_switch`).
    17 TaskRun "task.run" Rx Sched;
    /// Bytes were copied to the reader's memory (`skb_copy_datagram_iter`).
    18 AppCopy "app.copy" Rx Socket;
    /// `recv` returned to the process (`inet_recvmsg`).
    19 AppRecv "app.recv" Rx Socket;
    /// TCP sent a byte range again (`tcp_retransmit_skb`).
    32 TcpRetransmit "tcp.retransmit" Off Transport;
    /// A sample of a TCP connection's state (`tcp_probe`).
    33 TcpState "tcp.state" Off Transport;
    /// The kernel dropped a packet for a reason (`kfree_skb`).
    34 SkbDrop "skb.drop" Off Device;
    /// A UDP socket's receive buffer was full (`udp_fail_queue_rcv_skb`).
    35 SockFull "sock.full" Off Socket;
    /// A CPU switches from one task to another (`sched_switch`).
    36 SchedSwitch "sched.switch" Off Sched;
    /// A task was made runnable (`sched_wakeup`).
    37 SchedWakeup "sched.wakeup" Off Sched;
    /// A task was created (`sched_process_fork`).
    38 SchedFork "sched.fork" Off Sched;
    /// A task ended (`sched_process_exit`).
    39 SchedExit "sched.exit" Off Sched;
    /// A CPU has switched to another task, which runs from here on (`finish_task_switch`); with the duration of
    /// the switch.
    40 SchedSwitched "sched.switched" Off Sched;
}

/// Number of levels of a full ladder: the hops on a packet's path, `app.send` to `app.recv`.
pub const PATH_HOPS: usize = 19;

impl Hop {
    /// The hops a packet passes, in stack order: down through the sender, up through the receiver.
    pub fn path() -> &'static [Hop] {
        &Self::ALL[..PATH_HOPS]
    }

    /// This hop's index on the path (0 is `app.send`), or `None` for hops off the path.
    pub const fn path_index(self) -> Option<usize> {
        let id = self as usize;
        if id >= 1 && id <= PATH_HOPS { Some(id - 1) } else { None }
    }

    /// True if the process of the event (tgid, tid) is the one that uses the socket.
    ///
    /// Below the socket layer an event runs in an arbitrary interrupted task, so the kernel side omits the
    /// process there.
    pub const fn knows_process(self) -> bool {
        match self {
            Hop::TcpSend | Hop::UdpSend => true,
            Hop::SockReady | Hop::SockFull => false,
            _ => matches!(self.layer(), Layer::Socket | Layer::Sched),
        }
    }
}

impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no hop, with the nearest valid name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no hop is called `{name}`; the nearest is `{nearest}` (`magnet-scope hops` lists them all)")]
pub struct UnknownHop {
    /// The given text.
    pub name: String,
    /// The nearest hop by edit distance.
    pub nearest: Hop,
}

impl FromStr for Hop {
    type Err = UnknownHop;

    fn from_str(name: &str) -> Result<Self, UnknownHop> {
        if let Some(hop) = Self::ALL.iter().find(|h| h.name().eq_ignore_ascii_case(name)) {
            return Ok(*hop);
        }
        let nearest = words::nearest(name, Self::ALL.iter().map(|hop| hop.name()));
        let nearest = Self::ALL.iter().copied().find(|hop| Some(hop.name()) == nearest).unwrap_or(Hop::AppSend);
        Err(UnknownHop { name: words::shown(name), nearest })
    }
}

impl Serialize for Hop {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Hop {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let name = String::deserialize(d)?;
        name.parse().map_err(serde::de::Error::custom)
    }
}

/// A set of hops, one bit per hop number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HopSet(pub u64);

impl HopSet {
    /// No hop.
    pub const EMPTY: HopSet = HopSet(0);

    /// All hops.
    pub fn all() -> Self {
        Hop::ALL.iter().copied().collect()
    }

    /// True if `hop` is in the set.
    pub const fn contains(self, hop: Hop) -> bool {
        self.0 & (1 << hop as u8) != 0
    }

    /// Puts `hop` in.
    pub const fn insert(&mut self, hop: Hop) {
        self.0 |= 1 << hop as u8;
    }

    /// Removes `hop`.
    pub const fn remove(&mut self, hop: Hop) {
        self.0 &= !(1 << hop as u8);
    }

    /// True for the empty set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The hops in the set, in the order of [`Hop::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Hop> {
        Hop::ALL.iter().copied().filter(move |h| self.contains(*h))
    }
}

impl FromIterator<Hop> for HopSet {
    fn from_iter<I: IntoIterator<Item = Hop>>(hops: I) -> Self {
        let mut set = HopSet::EMPTY;
        for hop in hops {
            set.insert(hop);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_names_and_path_agree() {
        for hop in Hop::ALL {
            assert_eq!(Hop::from_id(*hop as u8), Some(*hop));
            assert_eq!(hop.name().parse::<Hop>(), Ok(*hop));
            assert_eq!(hop.path_index().is_none(), hop.direction() == Direction::Off);
        }
        for (i, hop) in Hop::path().iter().enumerate() {
            assert_eq!(hop.path_index(), Some(i));
        }
    }

    #[test]
    fn an_unknown_hop_names_the_nearest() {
        let error = "dev.xmitt".parse::<Hop>().unwrap_err();
        assert_eq!(error.nearest, Hop::DevXmit);
        let long = "x".repeat(1 << 20);
        assert!(long.parse::<Hop>().unwrap_err().to_string().len() < 200);
    }

    #[test]
    fn a_set_keeps_what_it_is_given() {
        let mut set: HopSet = [Hop::AppSend, Hop::SchedExit].into_iter().collect();
        assert!(set.contains(Hop::AppSend) && set.contains(Hop::SchedExit) && !set.contains(Hop::AppRecv));
        set.remove(Hop::AppSend);
        assert_eq!(set.iter().collect::<Vec<_>>(), [Hop::SchedExit]);
        assert_eq!(HopSet::all().iter().count(), Hop::ALL.len());
    }
}

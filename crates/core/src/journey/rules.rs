//! Conclusions that the served hops permit.

use super::piece::{RX, TX};
use super::rungs::{bit, bits};
use crate::flow::Proto;
use crate::hop::{Direction, Hop, HopSet, Protocols, Role};

/// The coverage as precomputed answers to the queries of every event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    tcp: ProtocolRules,
    udp: ProtocolRules,
    /// ICMP and others, which have no socket hop.
    packet: ProtocolRules,
    pub has_dev_done: bool,
    /// True if the driver's return is the only served hop of a packet that leaves. Else a datagram has passed another
    /// one before, and a return without a datagram is that of a dropped one.
    pub begins_at_done: bool,
    pub has_app_send: bool,
    pub reports_resends: bool,
    pub reports_drops: bool,
    /// True if a hop of packets shows that bytes of TCP left their socket.
    pub shows_sent: bool,
    /// True if hops show which packets are a node's own, and not passed on: those that it makes and those that it
    /// receives.
    pub shows_own_packets: bool,
}

/// Hops that only a sender passes, and only a receiver.
const TX_END: u32 = bits(Hop::AppSend, Hop::IpOut);
const RX_END: u32 = bits(Hop::IpIn, Hop::AppRecv);

/// True for a hop that no forwarder passes.
pub(super) const fn is_certain_end(hop: Hop) -> bool {
    bit(hop) & (TX_END | RX_END) != 0
}

/// The rules of one protocol.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProtocolRules {
    /// The served hop that ends a journey at the receiver.
    pub rx_top: Option<Hop>,
    /// True if that hop is at the end, and not somewhere on the path.
    pub shows_end: bool,
    /// The highest served hop of a packet on the receiver's path, if no hop between it and the reader is
    /// served. Behind it a waiting packet and a lost one look the same.
    pub blind_after: Option<Hop>,
    /// The served hop that ends the sender's half.
    pub tx_last: Option<Hop>,
    /// The served hop where a second pass of a byte is a retransmission.
    pub counted_at: Hop,
    /// Served hops that every packet passes.
    pub expected: u32,
    /// Hops that only the true sender passes, not a node that forwards.
    pub tx_end_only: u32,
    /// Hops that only the true receiver passes.
    pub rx_end_only: u32,
    /// True if packets of the protocol pass one of these.
    pub shows_rx_end: bool,
}

impl Rules {
    pub fn new(coverage: HopSet) -> Self {
        let served = |hops: &[Hop]| hops.iter().copied().find(|h| coverage.contains(*h));
        let mask = Hop::path().iter().filter(|h| coverage.contains(**h)).fold(0, |m, h| m | bit(*h));
        let optional = Hop::path().iter().filter(|h| h.is_optional()).fold(0, |m, h| m | bit(*h));
        let packets = bits(Hop::IpOut, Hop::IpIn) & !optional;
        // If no hop distinguishes the end from a forwarder, any hop is accepted.
        let or_any = |bits: u32, side: u32| if mask & bits == 0 { side } else { bits };
        // Hops that packets of every protocol pass, the last on the path first.
        let of_all = |direction| -> Vec<Hop> {
            let is_of_all = |hop: &Hop| {
                hop.role() == Role::Packet && !hop.is_optional() && hop.spec().protocols == Protocols::All
            };
            Hop::path_in(direction).rev().filter(is_of_all).collect()
        };
        let (tx, rx) = (of_all(Direction::Tx), of_all(Direction::Rx));
        let reads = coverage.contains(Hop::AppRecv) || coverage.contains(Hop::AppCopy);
        let blind = |reported_by: &[Hop]| served(reported_by).is_none().then(|| served(&rx)).flatten();
        let packet_tx: Vec<Hop> = Hop::path_in(Direction::Tx).filter(|hop| hop.spec().has_packet).collect();
        let tx_end_only = or_any(TX_END, TX);
        let rx_end_only = or_any(RX_END, RX);
        Rules {
            tcp: ProtocolRules {
                rx_top: served(&[Hop::AppRecv, Hop::AppCopy, Hop::TcpRecv]).or(served(&rx)),
                shows_end: reads,
                blind_after: blind(&[Hop::TcpRecv, Hop::SockReady]),
                tx_last: served(&tx).or(served(&[Hop::TcpXmit, Hop::TcpSend, Hop::AppSend])),
                counted_at: served(&packet_tx).unwrap_or(Hop::DevXmit),
                expected: mask
                    & (packets | bit(Hop::TcpSend) | bit(Hop::TcpXmit) | bit(Hop::TcpRecv) | bit(Hop::AppRecv)),
                tx_end_only,
                rx_end_only,
                shows_rx_end: true,
            },
            udp: ProtocolRules {
                rx_top: served(&[Hop::AppRecv, Hop::UdpRecv]).or(served(&rx)),
                shows_end: coverage.contains(Hop::AppRecv),
                // The event of a ready socket does not identify its datagram; only datagrams with an arrival at
                // it are known.
                blind_after: blind(&[Hop::UdpRecv]),
                tx_last: served(&tx).or(served(&[Hop::UdpSend])),
                counted_at: Hop::TcpRetransmit, // never: a datagram passes a hop once
                // Not `udp.send`: before the packet exists it cannot be assigned.
                expected: mask & (packets | bit(Hop::UdpRecv) | bit(Hop::AppRecv)),
                tx_end_only,
                rx_end_only,
                shows_rx_end: true,
            },
            packet: ProtocolRules {
                rx_top: served(&rx),
                // A receiver's stack that neither takes nor drops it has no hop.
                shows_end: coverage.contains(Hop::IpIn) || coverage.contains(Hop::SkbDrop),
                blind_after: None,
                tx_last: served(&tx),
                counted_at: Hop::TcpRetransmit,
                expected: mask & packets,
                tx_end_only,
                rx_end_only,
                shows_rx_end: coverage.contains(Hop::IpIn),
            },
            has_dev_done: coverage.contains(Hop::DevDone),
            begins_at_done: served(&packet_tx) == Some(Hop::DevDone),
            has_app_send: coverage.contains(Hop::AppSend),
            reports_resends: coverage.contains(Hop::TcpRetransmit),
            reports_drops: coverage.contains(Hop::SkbDrop),
            shows_sent: served(&packet_tx).is_some(),
            shows_own_packets: coverage.contains(Hop::IpOut)
                && (coverage.contains(Hop::UdpRecv) || coverage.contains(Hop::IpIn)),
        }
    }

    pub fn of(&self, proto: Proto) -> &ProtocolRules {
        match proto {
            Proto::TCP => &self.tcp,
            Proto::UDP => &self.udp,
            _ => &self.packet,
        }
    }
}

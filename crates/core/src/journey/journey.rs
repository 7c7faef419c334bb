//! A journey: one piece of a byte stream, or one datagram, and every hop it passed.

use super::rungs::{Rung, Rungs, Who};
use super::verdict::Verdict;
use crate::flow::{FlowId, Proto};
use crate::hop::{Direction, Hop};
use serde::Serialize;
use std::ops::Range;

/// A journey, closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journey {
    /// Number in the order of closing, from 1.
    pub id: u64,
    /// TCP or UDP.
    pub proto: Proto,
    /// Which recording, counted from 0, has the sender's half; 0 where there is one only.
    pub tx_node: u16,
    /// Which recording has the receiver's half.
    pub rx_node: u16,
    /// What is known of the time between the two halves.
    pub across: Across,
    /// The flow as seen by the sender; [`FlowId::NONE`] if the sender's half was not seen.
    pub tx_flow: FlowId,
    /// The flow as seen by the receiver; [`FlowId::NONE`] if the receiver's half was not seen.
    pub rx_flow: FlowId,
    /// TCP: bytes of the stream as sequence numbers unwrapped to 64 bits; the low 32 bits are the number on the wire.
    /// UDP: 0 to the length.
    pub range: Range<u64>,
    /// When it passed which hop first.
    pub rungs: Rungs,
    /// Who sent it, if that was seen.
    pub sender: Option<Who>,
    /// Who read it, if that was seen.
    pub reader: Option<Who>,
    /// Times it was sent again.
    pub retransmits: u32,
    /// UDP over IPv4: the identification that both hosts see in the packet, of the first fragment or segment where there
    /// are several; together with the length the wire key of a datagram. 0 where there is none: TCP, IPv6, and senders
    /// that leave it out, as Linux does for a datagram of an unconnected socket that must not be fragmented.
    pub ip_id: u16,
    /// How it ended.
    pub verdict: Verdict,
    /// UDP: a hop was matched by order or length against some of the evidence, so its times may be a neighbour's.
    pub ambiguous: bool,
}

/// What is known of the time between the halves of a journey.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "across", rename_all = "kebab-case")]
pub enum Across {
    /// Both stand on one clock: differences are exact.
    #[default]
    OneClock,
    /// Two clocks on one time line: a difference between the halves is right to within so much.
    Bounded {
        /// Half of the width of the interval that holds the truth, nanoseconds.
        half_width_ns: u64,
    },
    /// Two clocks of which nothing is known: there is no difference between the halves.
    Apart,
}

/// The time between two neighbouring rungs of one journey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// The hop it left.
    pub from: Hop,
    /// The hop it reached.
    pub to: Hop,
    /// How long it took, nanoseconds.
    pub ns: u64,
}

impl Journey {
    /// Payload bytes.
    pub const fn bytes(&self) -> u64 {
        self.range.end.saturating_sub(self.range.start)
    }

    /// The rung at `hop`, if it was passed.
    pub fn rung(&self, hop: Hop) -> Option<Rung> {
        let (time_ns, cpu) = (self.rungs.time_ns(hop)?, self.rungs.cpu(hop)?);
        let who = match hop {
            Hop::AppSend | Hop::TcpSend | Hop::UdpSend => self.sender,
            Hop::TaskWake | Hop::TaskRun | Hop::AppCopy | Hop::AppRecv => self.reader,
            _ => None,
        };
        let Who { tgid, tid } = who.unwrap_or_default();
        let flow = if hop.direction() == Direction::Tx { self.tx_flow } else { self.rx_flow };
        Some(Rung { hop, time_ns, cpu, tgid, tid, flow, at_return: self.rungs.is_at_return(hop) })
    }

    /// Every rung in path order, those taken at return included.
    pub fn all_rungs(&self) -> impl Iterator<Item = Rung> + '_ {
        self.rungs.hops().filter_map(|hop| self.rung(hop))
    }

    /// The rungs that stand in the order of time, in path order: all but those taken at return.
    pub fn ladder(&self) -> impl Iterator<Item = Rung> + '_ {
        self.all_rungs().filter(|rung| !rung.at_return)
    }

    /// The ladder without `dev.done`, which stands beside the way: on one host the receiver often has the packet before
    /// the sender's driver returns.
    pub(crate) fn way(&self) -> impl Iterator<Item = Rung> + '_ {
        self.ladder().filter(|rung| rung.hop != Hop::DevDone)
    }

    /// The pairs of neighbouring rungs with the time between them, negative where two events of one journey stand in
    /// the wrong order.
    fn pairs(&self) -> impl Iterator<Item = (Hop, Hop, i64)> + '_ {
        let mut before: Option<Rung> = None;
        self.ladder().filter_map(move |rung| {
            let pair = before.map(|b| (b.hop, rung.hop, rung.time_ns.wrapping_sub(b.time_ns) as i64));
            if rung.hop != Hop::DevDone {
                before = Some(rung);
            }
            pair
        })
    }

    /// The latency of each hop from the hop before it on the path. `dev.done` is measured from `dev.xmit`, and so is
    /// `dev.recv`. A pair in the wrong order has none; see [`Journey::disordered`].
    pub fn latencies(&self) -> impl Iterator<Item = Latency> + '_ {
        self.pairs().filter_map(|(from, to, ns)| u64::try_from(ns).ok().map(|ns| Latency { from, to, ns }))
    }

    /// Pairs of neighbouring rungs whose times stand in the wrong order.
    pub fn disordered(&self) -> usize {
        self.pairs().filter(|(_, _, ns)| *ns < 0).count()
    }

    /// When the first rung of the ladder was, nanoseconds of `CLOCK_MONOTONIC`.
    pub fn start_ns(&self) -> Option<u64> {
        self.way().map(|rung| rung.time_ns).min()
    }

    /// When the last rung of the ladder was; `dev.done` does not count.
    pub fn end_ns(&self) -> Option<u64> {
        self.way().map(|rung| rung.time_ns).max()
    }

    /// From the first rung of the ladder to the last; `None` with fewer than two.
    pub fn total_ns(&self) -> Option<u64> {
        let (first, last) = (self.way().next()?, self.way().last()?);
        if first.hop == last.hop { None } else { last.time_ns.checked_sub(first.time_ns) }
    }
}

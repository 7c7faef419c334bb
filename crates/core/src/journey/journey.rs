//! A journey: one piece of a byte stream, or one datagram, and every hop it passed.

use super::branch::Branch;
use super::rungs::{Rung, Rungs, Who, bit};
use super::verdict::Verdict;
use crate::flow::{FlowId, Proto};
use crate::hop::{Direction, Hop};
use serde::{Deserialize, Serialize};
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
    /// TCP: the times that it was sent again, in order; the first eight of them.
    pub branches: Vec<Branch>,
    /// Times that it was sent again beyond those of `branches`.
    pub branches_left_out: u32,
    /// UDP over IPv4: the identification that both hosts see in the packet, of the first fragment or segment where there
    /// are several; together with the length the wire key of a datagram. 0 where there is none: TCP, IPv6, and senders
    /// that leave it out, as Linux does for an unconnected socket whose datagrams nobody may fragment.
    pub ip_id: u16,
    /// What the reader did when this was ready for it, as far as its reads tell.
    pub presence: Presence,
    /// How it ended.
    pub verdict: Verdict,
    /// UDP: a hop was matched by order or length against some of the evidence, so its times may be a neighbour's.
    pub ambiguous: bool,
}

/// What a reader that was not simply woken did while its data was ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Presence {
    /// Nothing tells.
    #[default]
    Unsaid,
    /// It asked again and again and was there when the data came.
    Polling,
    /// It had its CPU and read something else first.
    Busy,
}

/// What is known of the time between the halves of a journey.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// How long it took, nanoseconds. Between two clocks an estimate: see `half_width_ns`.
    pub ns: u64,
    /// The truth is at most so far from `ns`, nanoseconds: 0 within one clock.
    pub half_width_ns: u64,
}

impl Latency {
    /// Whether it is known to be more than nothing: between two clocks the interval may hold zero, and then neither which of
    /// the two came first nor how long it took can be told from the clocks, only how long at most.
    pub const fn is_resolvable(&self) -> bool {
        self.half_width_ns == 0 || self.ns > self.half_width_ns
    }
}

impl Journey {
    /// Payload bytes.
    pub const fn bytes(&self) -> u64 {
        self.range.end.saturating_sub(self.range.start)
    }

    /// Times it was sent again.
    pub fn retransmits(&self) -> u32 {
        self.branches_left_out.saturating_add(self.branches.len() as u32)
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
            let pair = before.filter(|b| self.can_subtract(b.hop, rung.hop));
            let pair = pair.map(|b| (b.hop, rung.hop, rung.time_ns.wrapping_sub(b.time_ns) as i64));
            if rung.hop != Hop::DevDone {
                before = Some(rung);
            }
            pair
        })
    }

    /// The latency of each hop from the hop before it on the path. `dev.done` is measured from `dev.xmit`, and so is
    /// `dev.recv`. A pair in the wrong order has none; see [`Journey::disordered`].
    pub fn latencies(&self) -> impl Iterator<Item = Latency> + '_ {
        self.pairs().filter_map(|(from, to, ns)| {
            let half_width_ns = self.half_width_ns(from, to);
            // Within the bound, what seems to be less than nothing may be nothing.
            let ns = if ns.unsigned_abs() <= half_width_ns { ns.max(0) } else { ns };
            u64::try_from(ns).ok().map(|ns| Latency { from, to, ns, half_width_ns })
        })
    }

    /// Pairs of neighbouring rungs whose times stand in the wrong order.
    pub fn disordered(&self) -> usize {
        let wrong =
            |(from, to, ns): &(Hop, Hop, i64)| *ns < 0 && ns.unsigned_abs() > self.half_width_ns(*from, *to);
        self.pairs().filter(wrong).count()
    }

    /// Whether two hops are on one time line, so that the difference of their times means something.
    fn can_subtract(&self, a: Hop, b: Hop) -> bool {
        self.across != Across::Apart || (a.direction() == Direction::Tx) == (b.direction() == Direction::Tx)
    }

    /// How far from the truth the difference of the times of two hops can be, nanoseconds: 0 within one clock.
    pub fn half_width_ns(&self, a: Hop, b: Hop) -> u64 {
        match self.across {
            Across::Bounded { half_width_ns }
                if (a.direction() == Direction::Tx) != (b.direction() == Direction::Tx) =>
            {
                half_width_ns
            }
            _ => 0,
        }
    }

    /// The time from one hop to a later one, nanoseconds; `None` if one was not passed, was taken at return, comes in the
    /// wrong order, or stands on a clock of which nothing is known.
    pub fn between_ns(&self, from: Hop, to: Hop) -> Option<u64> {
        let at = |hop| self.rungs.time_ns(hop).filter(|_| !self.rungs.is_at_return(hop));
        if !self.can_subtract(from, to) {
            return None;
        }
        let (from_ns, to_ns) = (at(from)?, at(to)?);
        // Within the bound, what seems to be less than nothing may be nothing.
        let nothing = from_ns.saturating_sub(to_ns) <= self.half_width_ns(from, to);
        to_ns.checked_sub(from_ns).or(nothing.then_some(0))
    }

    /// When the first rung of the ladder was, nanoseconds of `CLOCK_MONOTONIC`. Where the halves stand on two clocks of
    /// which nothing is known, the sender's counts.
    pub fn start_ns(&self) -> Option<u64> {
        self.one_clock().min()
    }

    /// When the last rung of the ladder was; `dev.done` does not count.
    pub fn end_ns(&self) -> Option<u64> {
        self.one_clock().max()
    }

    /// Both of them at once.
    pub fn span_ns(&self) -> Option<(u64, u64)> {
        let wider = |(least, most): (u64, u64), ns: u64| (least.min(ns), most.max(ns));
        self.one_clock().map(|ns| (ns, ns)).reduce(|so_far, (ns, _)| wider(so_far, ns))
    }

    /// The times of the way, as far as it is on the clock of its first rung.
    fn one_clock(&self) -> impl Iterator<Item = u64> + '_ {
        let first = self.ends().map(|(first, _)| first);
        let same = move |hop: &Hop| first.is_some_and(|first| self.can_subtract(first, *hop));
        let hops = self.rungs.hops().filter(|hop| self.way_hops() & bit(*hop) != 0).filter(same);
        hops.filter_map(|hop| self.rungs.time_ns(hop))
    }

    /// The hops of the way, a bit each in path order.
    const fn way_hops(&self) -> u32 {
        self.rungs.in_order() & !bit(Hop::DevDone)
    }

    /// The first and the last hop of the way.
    fn ends(&self) -> Option<(Hop, Hop)> {
        let hops = self.way_hops();
        let at = |index: u32| Hop::path().get(index as usize).copied();
        Some((at(hops.trailing_zeros())?, at(hops.checked_ilog2()?)?))
    }

    /// From the first rung of the ladder to the last; `None` with fewer than two, or where they stand on two clocks of which
    /// nothing is known.
    pub fn total_ns(&self) -> Option<u64> {
        let (first, last) = self.ends()?;
        if first == last { None } else { self.between_ns(first, last) }
    }

    /// How far from the truth [`Journey::total_ns`] can be, nanoseconds.
    pub fn total_half_width_ns(&self) -> u64 {
        self.ends().map_or(0, |(first, last)| self.half_width_ns(first, last))
    }

    /// Moves all its times.
    pub(crate) fn shift(&mut self, ns: i64) {
        if ns != 0 {
            self.rungs.shift(ns);
            for branch in &mut self.branches {
                branch.rungs.shift(ns);
                branch.told_ns = branch.told_ns.map(|at| at.saturating_add_signed(ns));
            }
        }
    }

    /// Takes over what another journey of the same bytes has of the receiver.
    pub(crate) fn take_receiver(&mut self, other: &Journey) {
        self.rungs.take(&other.rungs, Direction::Rx);
        (self.rx_flow, self.reader) = (other.rx_flow, other.reader);
        self.ambiguous |= other.ambiguous;
    }
}

//! A journey: one piece of a byte stream, or one datagram, and every hop it passed.

use super::across::Across;
use super::copies::SentCopy;
use super::forwarder::Forwarder;
use super::head_of_line::HeadOfLine;
use super::ip_ids::IpIds;
use super::piece::TX;
use super::rungs::{Rung, Rungs, ThreadRef, bit, bits};
use super::verdict::Verdict;
use crate::deciders::SocketFilter;
use crate::flow::{FlowId, Proto};
use crate::hop::{Direction, Hop, Role};
use serde::Serialize;
use std::ops::Range;

/// A journey, closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journey {
    /// Number in the order of closing, from 1.
    pub id: u64,
    /// TCP or UDP.
    pub proto: Proto,
    /// Index of the recording of the sender's half, from 0; 0 if there is one only.
    pub tx_node: u16,
    /// Index of the recording of the receiver's half.
    pub rx_node: u16,
    /// The clock relation between the two halves.
    pub across: Across,
    /// The flow from the sender's side; [`FlowId::NONE`] if the sender's half was not seen.
    pub tx_flow: FlowId,
    /// The flow from the receiver's side; [`FlowId::NONE`] if the receiver's half was not seen.
    pub rx_flow: FlowId,
    /// TCP: bytes of the stream as sequence numbers unwrapped to 64 bits; the low 32 bits are the number on the wire.
    /// UDP: 0 to the length.
    pub range: Range<u64>,
    /// The instant at each hop. For a journey sent several times, the packet hops are those of one copy: the
    /// furthest; of several, the one received first, or sent last.
    pub rungs: Rungs,
    /// The sending process, if seen.
    pub sender: Option<ThreadRef>,
    /// The reading process, if seen.
    pub reader: Option<ThreadRef>,
    /// TCP: its copies in the order of sending, if it was sent several times. The first [`super::MAX_COPIES`]
    /// less one, those that arrived, and the newest are kept. Empty if it was sent once.
    pub copies: Vec<SentCopy>,
    /// Number of copies outside `copies`.
    pub copies_left_out: u32,
    /// Number of the copy that the packet hops of `rungs` are of; 0 if it was sent once.
    pub copy: u32,
    /// UDP over IPv4: the identification in the packet, of the first fragment or segment if there are several.
    /// With the length it is the wire key of a datagram. 0 without one: TCP, IPv6, and senders that omit it, as
    /// Linux does for an unconnected socket whose datagrams must not be fragmented.
    pub ip_id: u16,
    /// TCP over IPv4: the identifications of the packet that `rungs` are of; of its first packet at the receiver, if
    /// the sender's packets were not seen.
    pub packet_ids: IpIds,
    /// The reader's activity when the data were ready, from its reads.
    pub presence: Presence,
    /// How it ended.
    pub verdict: Verdict,
    /// Of a dropped one the flow of its packet there, which has its network namespace; [`FlowId::NONE`] if unknown.
    pub drop_flow: FlowId,
    /// Of a dropped one the interface that its packet was at, within that network namespace; 0 where it was at none.
    pub drop_ifindex: u32,
    /// Of a dropped one: rules that drop packets may have changed since the capture listed them.
    pub drop_rules_changed: bool,
    /// Of one that a filter dropped: the filter of the socket that it was for.
    pub drop_filter: SocketFilter,
    /// A hop was matched by order or length against some of the evidence, so its times may be a neighbour's. TCP: two
    /// threads have read the socket at once, so the read may be that of the other one.
    pub ambiguous: bool,
    /// TCP: its bytes waited in the receiver's socket for earlier ones.
    pub head_of_line: Option<HeadOfLine>,
    /// TCP: time between its send and its first transmission in which the peer's receive window was certainly closed,
    /// nanoseconds.
    pub receive_window_ns: u64,
    /// It was under way when the capture began: its sender's first events are missing.
    pub precedes_capture: bool,
    /// The nodes that passed its packet on, in the order of the path. With `n` of them the journey has `n + 1` legs.
    pub forwarders: Vec<Forwarder>,
    /// The passages of its packet inside outer packets, which are journeys of their own: in the order of the path, of
    /// each host that the outer packet passed. [`Journey::ladder`] leaves them out.
    pub tunnels: Vec<Forwarder>,
}

/// One event for the limits of a journey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    hop: Hop,
    time_ns: u64,
    on_sender_clock: bool,
}

/// The activity of a reader that was not simply woken, while its data were ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Presence {
    /// Unknown.
    #[default]
    Unsaid,
    /// It polled repeatedly and was present at the arrival of the data.
    Polling,
    /// It had its CPU and read other data first.
    Busy,
}

/// The time between two neighbouring events of one journey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// The hop it left.
    pub from: Hop,
    /// The hop it reached.
    pub to: Hop,
    /// Instant at which it reached that, nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// Duration, nanoseconds. Between two clocks it is an estimate: see `half_width_ns`.
    pub ns: u64,
    /// Error bound of `ns`, nanoseconds: 0 within one clock.
    pub half_width_ns: u64,
    /// The interval that holds the true duration, nanoseconds. A duration is never negative.
    pub bounds_ns: (u64, u64),
    /// True for the time between two copies: from the last event of one to the first of the next.
    pub is_wait: bool,
    /// Number of the forwarder that it reached, from 1; 0 at an end.
    pub forwarder: u8,
    /// Number of the outer packet whose hop it reached, from 1; 0 outside of tunnels.
    pub tunnel: u8,
    /// It ended on the sender's clock, false for the receiver's. They may be one.
    pub on_sender_clock: bool,
}

/// Hops that a copy of a TCP packet passes.
pub(super) const PACKET: u32 = bits(Hop::TcpXmit, Hop::TcpRecv);
/// The hops before those.
pub(super) const SOCKET_TX: u32 = bits(Hop::AppSend, Hop::UdpSend);

/// True for a hop of the sender, whose times are on its clock.
pub(super) const fn is_senders(hop: Hop) -> bool {
    matches!(hop.direction(), Direction::Tx)
}

/// An event of one of the ends.
const fn place(hop: Hop, time_ns: u64) -> Place {
    Place { hop, time_ns, on_sender_clock: is_senders(hop) }
}

const fn rung_place(rung: &Rung) -> Place {
    Place { hop: rung.hop, time_ns: rung.time_ns, on_sender_clock: rung.on_sender_clock }
}

impl Latency {
    /// True if it is certainly greater than zero. Between two clocks the interval may contain zero; then the
    /// order and the duration are unknown, except the maximum.
    pub const fn is_resolvable(&self) -> bool {
        self.half_width_ns == 0 || self.bounds_ns.0 > 0
    }
}

impl Journey {
    /// Payload bytes.
    pub const fn bytes(&self) -> u64 {
        self.range.end.saturating_sub(self.range.start)
    }

    /// Number of retransmissions.
    pub fn retransmits(&self) -> u32 {
        self.copies_left_out.saturating_add(self.copies.len() as u32).saturating_sub(1)
    }

    /// How long its bytes waited in the socket for earlier ones, nanoseconds.
    pub fn head_of_line_ns(&self) -> u64 {
        let within = |wait: HeadOfLine, step: Latency| wait.within_ns(step.from, step.to, step.at_ns, step.ns);
        let Some(wait) = self.head_of_line else { return 0 };
        self.spans().filter_map(|(_, step)| step.map(|step| within(wait, step))).max().unwrap_or_default()
    }

    /// The event at `hop`, if any; at a packet hop that of [`Journey::copy`].
    pub fn rung(&self, hop: Hop) -> Option<Rung> {
        self.rung_of(&self.rungs, hop, self.copy)
    }

    fn rung_of(&self, rungs: &Rungs, hop: Hop, copy: u32) -> Option<Rung> {
        let (time_ns, cpu) = (rungs.time_ns(hop)?, rungs.cpu(hop)?);
        let who = match hop.role() {
            Role::Send => self.sender,
            Role::Reader | Role::Read => self.reader,
            Role::Packet
            | Role::Ready
            | Role::Resend
            | Role::Drop
            | Role::Overflow
            | Role::End
            | Role::Sample
            | Role::Point
            | Role::Task => None,
        };
        let ThreadRef { tgid, tid } = who.unwrap_or_default();
        let flow = if hop.direction() == Direction::Tx { self.tx_flow } else { self.rx_flow };
        let copy = if bit(hop) & PACKET == 0 { 0 } else { copy };
        let (at_return, on_sender_clock) = (rungs.is_at_return(hop), is_senders(hop));
        Some(Rung {
            hop,
            time_ns,
            cpu,
            tgid,
            tid,
            flow,
            copy,
            at_return,
            forwarder: 0,
            tunnel: 0,
            on_sender_clock,
        })
    }

    /// The events of the forwarders, in the order of the path.
    fn forwarded(&self) -> impl Iterator<Item = Rung> + '_ {
        let numbered = self.forwarders.iter().zip(1..);
        numbered
            .flat_map(move |(at, number)| self.passage(at).map(move |rung| Rung { forwarder: number, ..rung }))
    }

    /// The events of a passage between the ends.
    pub(super) fn passage<'a>(&'a self, at: &'a Forwarder) -> impl Iterator<Item = Rung> + 'a {
        at.hops().filter_map(move |hop| {
            let flow = if hop.direction() == Direction::Tx { at.tx_flow } else { at.rx_flow };
            let rung = self.rung_of(&at.rungs, hop, self.copy)?;
            Some(Rung { flow, on_sender_clock: !at.is_receivers, ..rung })
        })
    }

    /// The events of `rungs` among `hops`.
    fn own(&self, hops: u32) -> impl Iterator<Item = Rung> + '_ {
        self.rungs.hops().filter(move |hop| bit(*hop) & hops != 0).filter_map(|hop| self.rung(hop))
    }

    /// The events of other copies than that of `rungs`: the copies before it, or those after it.
    fn others(&self, before: bool) -> impl Iterator<Item = Rung> + '_ {
        let copies = self
            .copies
            .iter()
            .filter(move |copy| if before { copy.number < self.copy } else { copy.number > self.copy });
        copies.flat_map(move |copy| {
            copy.rungs.hops().filter_map(move |hop| self.rung_of(&copy.rungs, hop, copy.number))
        })
    }

    /// The events up to the end of the journey: the sender's socket, the copies in order, the forwarders, the
    /// receiver's socket.
    fn rungs_to_end(&self) -> impl Iterator<Item = Rung> + '_ {
        let (sent, received) = (self.own(TX & !SOCKET_TX), self.own(!TX));
        self.own(SOCKET_TX).chain(self.others(true)).chain(sent).chain(self.forwarded()).chain(received)
    }

    /// Every event: those up to the end of the journey in path order, copy by copy, then those of later copies.
    /// Events taken at return are included.
    pub fn all_rungs(&self) -> impl Iterator<Item = Rung> + '_ {
        self.rungs_to_end().chain(self.others(false))
    }

    /// The events in path order and copy by copy, which is also the order of time. Events taken at return, and
    /// those of copies after the one that ended the journey, are excluded.
    pub fn ladder(&self) -> impl Iterator<Item = Rung> + '_ {
        self.rungs_to_end().filter(|rung| !rung.at_return)
    }

    /// The ladder without `dev.done`, which is off the path: on one host the receiver often has the packet
    /// before the sender's driver returns.
    pub fn path(&self) -> impl Iterator<Item = Rung> + '_ {
        self.ladder().filter(|rung| rung.hop != Hop::DevDone)
    }

    /// The flow of its packets where they leave the sender's recording, after any address translation.
    pub fn sent_flow(&self) -> FlowId {
        let last = self.forwarders.iter().rfind(|at| !at.is_receivers && !at.tx_flow.is_none());
        last.map_or(self.tx_flow, |at| at.tx_flow)
    }

    /// The flow of its packets where they enter the receiver's recording, before any address translation.
    pub fn received_flow(&self) -> FlowId {
        let is_before = |at: &&Forwarder| !at.rx_flow.is_none() && (at.is_receivers || self.tx_flow.is_none());
        self.forwarders.iter().find(is_before).map_or(self.rx_flow, |at| at.rx_flow)
    }

    /// Index of the recording of an event.
    pub const fn node_of(&self, rung: &Rung) -> u16 {
        if rung.on_sender_clock { self.tx_node } else { self.rx_node }
    }

    /// Index of the recording of a forwarder.
    pub const fn node_of_forwarder(&self, at: &Forwarder) -> u16 {
        if at.is_receivers { self.rx_node } else { self.tx_node }
    }

    /// The forwarder at which a journey ended that did not reach its receiver.
    pub fn ended_at(&self) -> Option<&Forwarder> {
        let has_arrived = self.rungs.hops().any(|hop| !is_senders(hop));
        self.forwarders.last().filter(|_| !has_arrived)
    }

    /// True if nothing distinguished the copy of an event from others at its arrival.
    pub fn is_crossing_unknown(&self, from: &Rung, to: &Rung) -> bool {
        let is_ambiguous = |number: u32| self.copies.iter().any(|copy| copy.number == number && copy.ambiguous);
        from.copy != 0
            && from.hop.direction() == Direction::Tx
            && to.hop.direction() == Direction::Rx
            && is_ambiguous(from.copy)
    }

    /// True if the next copy was in flight at an event of a copy: after it no one waited for that copy.
    pub(crate) fn is_overtaken(&self, rung: &Rung) -> bool {
        if rung.copy == 0 || rung.copy >= self.copy {
            return false;
        }
        let next = self.copies.iter().filter(|copy| copy.number > rung.copy && copy.number <= self.copy);
        let mut starts = next.filter_map(|copy| copy.rungs.time_ns(copy.rungs.hops().next()?));
        starts.next().is_some_and(|start_ns| rung.time_ns > start_ns)
    }

    /// Every event with the time from its predecessor: within one copy, or between two. Negative for two events
    /// in the wrong order.
    fn pairs(&self) -> impl Iterator<Item = (Rung, Option<(Rung, i64)>)> + '_ {
        self.pairs_of(self.all_rungs())
    }

    pub(super) fn pairs_of<'a>(
        &'a self,
        all: impl Iterator<Item = Rung> + 'a,
    ) -> impl Iterator<Item = (Rung, Option<(Rung, i64)>)> + 'a {
        let (mut before, mut ahead): (Option<Rung>, Option<Rung>) = (None, None);
        all.map(move |rung| {
            if rung.at_return {
                return (rung, None);
            }
            let is_after = rung.copy > self.copy;
            let is_next_copy = before.is_some_and(|b| b.is_copy_before(&rung));
            let neighbour = if is_next_copy { ahead } else { before };
            let neighbour = neighbour.filter(|b| {
                self.can_subtract(b.on_sender_clock, rung.on_sender_clock)
                    && (!is_after || b.copy == rung.copy)
                    && !self.is_crossing_unknown(b, &rung)
            });
            let pair = neighbour.map(|b| (b, rung.time_ns.wrapping_sub(b.time_ns) as i64));
            if rung.hop != Hop::DevDone {
                before = Some(rung);
                ahead = if self.is_overtaken(&rung) { ahead } else { before };
            }
            (rung, pair)
        })
    }

    /// Every event of [`Journey::all_rungs`] with the time that ends there; `None` without one. See
    /// [`Journey::latencies`].
    pub fn spans(&self) -> impl Iterator<Item = (Rung, Option<Latency>)> + '_ {
        self.measured(self.pairs())
    }

    pub(super) fn measured<'a>(
        &'a self,
        pairs: impl Iterator<Item = (Rung, Option<(Rung, i64)>)> + 'a,
    ) -> impl Iterator<Item = (Rung, Option<Latency>)> + 'a {
        pairs.map(|(rung, pair)| {
            let latency = pair.and_then(|(from, ns)| {
                let clocks = (from.on_sender_clock, rung.on_sender_clock);
                let bounds_ns = self.bounded_ns(clocks, ns)?;
                let (below_ns, above_ns) = self.errors_ns(clocks);
                let half_width_ns = below_ns.max(above_ns);
                let ns = u64::try_from(ns).unwrap_or(0);
                let (at_ns, is_wait) = (rung.time_ns, from.is_copy_before(&rung));
                let (from, to) = (from.hop, rung.hop);
                let Rung { forwarder, tunnel, on_sender_clock, .. } = rung;
                Some(Latency {
                    from,
                    to,
                    at_ns,
                    ns,
                    half_width_ns,
                    bounds_ns,
                    is_wait,
                    forwarder,
                    tunnel,
                    on_sender_clock,
                })
            });
            (rung, latency)
        })
    }

    /// The latency of each hop from the previous hop on the path, copy by copy. `dev.done` is measured from
    /// `dev.xmit`, and so is `dev.recv`. A pair in the wrong order has none; see [`Journey::disordered`].
    pub fn latencies(&self) -> impl Iterator<Item = Latency> + '_ {
        self.spans().filter_map(|(_, latency)| latency.filter(|latency| !latency.is_wait))
    }

    /// Number of pairs of neighbouring events with times in the wrong order. Two copies may overlap.
    pub fn disordered(&self) -> usize {
        let wrong = |(rung, pair): &(Rung, Option<(Rung, i64)>)| {
            pair.is_some_and(|(from, ns)| {
                let clocks = (from.on_sender_clock, rung.on_sender_clock);
                self.bounded_ns(clocks, ns).is_none() && !from.is_copy_before(rung)
            })
        };
        self.pairs().filter(wrong).count()
    }

    /// True if two events are on one time line, so that the difference of their times is meaningful. Each is on the
    /// sender's clock or on the receiver's.
    fn can_subtract(&self, a: bool, b: bool) -> bool {
        self.across != Across::Apart || a == b
    }

    /// Error bound of the difference of the times of two hops of the ends, nanoseconds: 0 within one clock.
    pub fn half_width_ns(&self, a: Hop, b: Hop) -> u64 {
        let (below_ns, above_ns) = self.errors_ns((is_senders(a), is_senders(b)));
        below_ns.max(above_ns)
    }

    /// The largest amounts by which the true time from one event to a later one is shorter and longer than the
    /// difference of their times, nanoseconds: 0 within one clock. `clocks`: whether each is on the sender's.
    fn errors_ns(&self, clocks: (bool, bool)) -> (u64, u64) {
        match (self.across, clocks) {
            (Across::Bounded { below_ns, above_ns }, (true, false)) => (below_ns, above_ns),
            (Across::Bounded { below_ns, above_ns }, (false, true)) => (above_ns, below_ns),
            (Across::Bounded { .. }, (true, true) | (false, false)) | (Across::OneClock | Across::Apart, _) => {
                (0, 0)
            }
        }
    }

    /// The interval of the true time from one event to a later one, from the difference of their times,
    /// nanoseconds; `None` if that is certainly negative.
    fn bounded_ns(&self, clocks: (bool, bool), ns: i64) -> Option<(u64, u64)> {
        let (below_ns, above_ns) = self.errors_ns(clocks);
        let upper = u64::try_from(i128::from(ns) + i128::from(above_ns)).ok()?;
        let lower = i128::from(ns) - i128::from(below_ns);
        Some((u64::try_from(lower).unwrap_or(0), upper))
    }

    /// The time from one hop to a later one, nanoseconds. `None` if one is missing, was taken at return, is in
    /// the wrong order, or is on an unrelated clock. Between two packet hops it is that of one copy. From a
    /// socket's hop to a packet hop it is that of the first copy at that hop.
    pub fn between_ns(&self, from: Hop, to: Hop) -> Option<u64> {
        let (from_ns, to_ns) = self.between(from, to)?;
        self.difference_ns(place(from, from_ns), place(to, to_ns))
    }

    /// The instants of [`Journey::between_ns`].
    fn between(&self, from: Hop, to: Hop) -> Option<(u64, u64)> {
        if !self.can_subtract(is_senders(from), is_senders(to)) {
            return None;
        }
        let at = |hop| self.rungs.time_ns(hop).filter(|_| !self.rungs.is_at_return(hop));
        let (from_ns, mut to_ns) = (at(from)?, at(to));
        if !self.copies.is_empty() && bit(to) & PACKET != 0 {
            if bit(from) & SOCKET_TX != 0 {
                let others = self.copies.iter().filter_map(|copy| copy.rungs.time_ns(to));
                to_ns = others.chain(to_ns).min();
            } else if self.rung(from).zip(self.rung(to)).is_some_and(|(a, b)| self.is_crossing_unknown(&a, &b))
            {
                return None;
            }
        }
        Some((from_ns, to_ns?))
    }

    /// The interval that holds the true value of [`Journey::between_ns`].
    pub fn bounds_between_ns(&self, from: Hop, to: Hop) -> Option<(u64, u64)> {
        let (from_at, to_at) = self.between(from, to)?;
        self.bounded_ns((is_senders(from), is_senders(to)), to_at.wrapping_sub(from_at) as i64)
    }

    /// The time from the first event of the ladder to a hop, nanoseconds; `None` as for
    /// [`Journey::between_ns`], and for the first event itself.
    pub fn since_start_ns(&self, hop: Hop) -> Option<u64> {
        let (first, to) = (self.ends()?.0, place(hop, self.rungs.time_ns(hop)?));
        if first == to { None } else { self.difference_ns(first, to) }
    }

    fn difference_ns(&self, from: Place, to: Place) -> Option<u64> {
        let clocks = (from.on_sender_clock, to.on_sender_clock);
        if !self.can_subtract(clocks.0, clocks.1) {
            return None;
        }
        // Within the bound, a negative time may be zero.
        let ns = to.time_ns.wrapping_sub(from.time_ns) as i64;
        self.bounded_ns(clocks, ns).map(|_| u64::try_from(ns).unwrap_or(0))
    }

    /// Instant of the first event of the ladder, nanoseconds of `CLOCK_MONOTONIC`. With halves on two unrelated
    /// clocks, the sender's counts.
    pub fn start_ns(&self) -> Option<u64> {
        self.one_clock().chain(self.earlier()).min()
    }

    /// Instant of the last event of the ladder, without `dev.done`.
    pub fn end_ns(&self) -> Option<u64> {
        self.one_clock().max()
    }

    /// Both instants at once.
    pub fn span_ns(&self) -> Option<(u64, u64)> {
        let wider = |(least, most): (u64, u64), ns: u64| (least.min(ns), most.max(ns));
        let (start, end) = self.one_clock().map(|ns| (ns, ns)).reduce(|so_far, (ns, _)| wider(so_far, ns))?;
        Some((self.earlier().fold(start, u64::min), end))
    }

    /// The times of the path on the clock of its first event; of several copies, those of the one that ended
    /// it.
    fn one_clock(&self) -> impl Iterator<Item = u64> + '_ {
        let first = self.ends().map(|(first, _)| first.on_sender_clock);
        let same = move |clock: bool| first.is_some_and(|first| self.can_subtract(first, clock));
        let hops = self.rungs.hops().filter(|hop| self.path_hops() & bit(*hop) != 0);
        let own = hops.filter(move |hop| same(is_senders(*hop))).filter_map(|hop| self.rungs.time_ns(hop));
        // With both ends on one time line, the journey begins and ends there, as for its total.
        let is_between =
            self.path_hops() & TX != 0 && self.path_hops() & !TX != 0 && self.can_subtract(true, false);
        let all = self.forwarders.iter().chain(&self.tunnels);
        let passed = all.filter(move |at| !is_between && same(!at.is_receivers));
        own.chain(passed.filter_map(Forwarder::span_ns).flat_map(|(from, to)| [from, to]))
    }

    /// The times of the sender's events of earlier copies.
    fn earlier(&self) -> impl Iterator<Item = u64> + '_ {
        let is_sent = |rung: &Rung| rung.hop.direction() == Direction::Tx && rung.hop != Hop::DevDone;
        self.others(true).filter(is_sent).map(|rung| rung.time_ns)
    }

    /// The hops of the path, one bit each in path order.
    const fn path_hops(&self) -> u32 {
        self.rungs.in_order() & !bit(Hop::DevDone)
    }

    /// The first and the last event of the path.
    fn ends(&self) -> Option<(Place, Place)> {
        let hops = self.path_hops();
        let at = |index: u32| {
            let hop = Hop::path().get(index as usize).copied()?;
            Some(place(hop, self.rungs.time_ns(hop)?))
        };
        let mut last = at(hops.checked_ilog2()?)?;
        let mut first = at(hops.trailing_zeros())?;
        if !self.copies.is_empty() && hops & SOCKET_TX == 0 {
            first = self.path().next().map_or(first, |rung| rung_place(&rung));
        }
        if !self.forwarders.is_empty() || !self.tunnels.is_empty() {
            // One end is outside the capture, or the packet did not arrive.
            let outer = self.tunnels.iter().flat_map(|at| self.passage(at));
            let passed = self.forwarded().chain(outer).map(|rung| rung_place(&rung));
            if hops & TX == 0 {
                first = passed.min_by_key(|place| place.time_ns).unwrap_or(first);
            } else if hops & !TX == 0 {
                last = passed.max_by_key(|place| place.time_ns).unwrap_or(last);
            }
        }
        Some((first, last))
    }

    /// From the first event of the ladder to the last; `None` with fewer than two, or if they are on two
    /// unrelated clocks.
    pub fn total_ns(&self) -> Option<u64> {
        let (first, last) = self.ends()?;
        if first == last { None } else { self.difference_ns(first, last) }
    }

    /// Error bound of [`Journey::total_ns`], nanoseconds.
    pub fn total_half_width_ns(&self) -> u64 {
        let (below_ns, above_ns) = self.total_errors_ns();
        below_ns.max(above_ns)
    }

    /// The largest amounts by which the true [`Journey::total_ns`] is shorter and longer.
    pub fn total_errors_ns(&self) -> (u64, u64) {
        self.ends()
            .map_or((0, 0), |(first, last)| self.errors_ns((first.on_sender_clock, last.on_sender_clock)))
    }

    /// The interval that holds the true value of [`Journey::total_ns`].
    pub fn total_bounds_ns(&self) -> Option<(u64, u64)> {
        let (first, last) = self.ends()?;
        self.total_ns()?;
        let clocks = (first.on_sender_clock, last.on_sender_clock);
        self.bounded_ns(clocks, last.time_ns.wrapping_sub(first.time_ns) as i64)
    }

    /// Moves all its times by `ns` nanoseconds.
    pub fn shift(&mut self, ns: i64) {
        if ns == 0 {
            return;
        }
        self.rungs.shift(ns);
        if let Some(wait) = &mut self.head_of_line {
            wait.until_ns = wait.until_ns.saturating_add_signed(ns);
        }
        for at in self.forwarders.iter_mut().chain(&mut self.tunnels) {
            at.rungs.shift(ns);
        }
        for copy in &mut self.copies {
            copy.rungs.shift(ns);
            copy.retransmit_ns = copy.retransmit_ns.map(|at| at.saturating_add_signed(ns));
            if let Some(drop) = &mut copy.dropped {
                drop.time_ns = drop.time_ns.saturating_add_signed(ns);
            }
        }
    }
}

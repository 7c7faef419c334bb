//! Builds exchanges from the events and journeys of one recording or of several.
//!
//! Journeys end in another order than their bytes were sent and read. A connection's journeys wait for [`HOLD_NS`] of
//! the recording's time and are then processed in order. Memory is bounded by [`ExchangeLimits`].

use super::best::BestGrades;
use super::connection::{Connection, End, Slot, Surroundings};
use super::exchange::Exchange;
use super::grade::Grade;
use super::group::{Closing, REPEATED_NS};
use super::late::{Closed, Late};
use super::losses::Losses;
use super::nested::Processes;
use super::openings::{Opening, Openings};
use super::piece::{Part, Piece, is_followed};
use super::threads::Threads;
use super::tls::Heads;
use crate::batch::Batch;
use crate::blame;
use crate::context::Context;
use crate::event::{Detail, Event, EventFlags};
use crate::flow::{Flow, FlowId, Proto};
use crate::hash::Map;
use crate::hop::{Direction, Hop, HopSet};
use crate::journey::Journey;
use crate::node::NodeInfo;
use serde::Serialize;
use std::collections::{BTreeSet, VecDeque};

/// Waiting time for journeys with earlier bytes, nanoseconds: between two ends of one recording, and else. A journey
/// ends at most 50 ms after it was read, a half without its other end 300 ms after its last event, and halves of two
/// recordings are joined later.
pub const HOLD_NS: [u64; 2] = [100_000_000, 1_000_000_000];
/// Maximum time that a quiet recording holds up the exchanges of others, nanoseconds.
pub const LAG_NS: u64 = 5_000_000_000;
/// Latest instant of a recording, nanoseconds: waiting times end after it, whatever a damaged one has.
const LAST_NS: u64 = u64::MAX / 2;
/// Delay of a closed exchange: if its connection turns out not to take turns meanwhile, it was none either.
pub const JUDGE_NS: u64 = 2_000_000_000;
/// UDP: a response without further datagrams for this long is complete, and a question to DNS or NTP unanswered,
/// nanoseconds. TCP may go on after any silence.
pub const IDLE_NS: u64 = 30_000_000_000;
/// The same for datagrams that look as if one before them was not answered: the answer may have been lost, and a lost
/// datagram is given up ten seconds after it was sent.
const JUDGE_LOST_NS: u64 = 11_000_000_000;
/// Waiting time for bytes that an ended socket had accepted and nobody has read, nanoseconds. The correlator closes their
/// journeys meanwhile.
pub const UNREAD_NS: u64 = 11_000_000_000;

/// Limits of a builder's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeLimits {
    /// Open connections, of up to 4.7 kB each; beyond it the one with the longest idle time is closed.
    pub connections: usize,
    /// Closed exchanges that wait; beyond it the oldest are not judged by what follows.
    pub closed: usize,
    /// Waiting pieces, of some 550 bytes each; beyond it all of them are processed at once.
    pub waiting: usize,
}

impl Default for ExchangeLimits {
    fn default() -> Self {
        ExchangeLimits { connections: 1 << 16, closed: 1 << 16, waiting: 1 << 18 }
    }
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const ACK: u8 = 16;

/// Counters of a builder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExchangeCounters {
    /// Exchanges closed.
    pub exchanges: u64,
    /// Connections with a byte of payload.
    pub connections: u64,
    /// Connections closed because there were too many.
    pub evicted: u64,
    /// Journeys of connections that fit to none of the two ends.
    pub unplaced: u64,
    /// Lost datagrams that were given up when the exchanges around them had been output.
    pub late: u64,
}

/// Builds exchanges. Feed it every batch and every journey in the order of a reader of recordings, and take the closed
/// exchanges from time to time.
#[derive(Debug, Default)]
pub struct ExchangeBuilder {
    limits: ExchangeLimits,
    connections: Vec<(u32, Option<Box<Connection>>)>,
    free: Vec<usize>,
    by_end: Map<(u16, FlowId), Openings>,
    /// Connections with waiting pieces, by the instant of their processing; one queue a waiting time.
    due: [VecDeque<(u64, Slot)>; 2],
    /// Every connection, by the instant at which it may be idle.
    idle: BTreeSet<(u64, Slot)>,
    /// Closed exchanges that wait for those within them, and for what their connection shows.
    closed: Closed,
    /// The best grade of connections that do not take turns.
    best: BestGrades,
    threads: Threads,
    heads: Heads,
    losses: Losses,
    processes: Processes,
    served: Map<(u16, u16), HopSet>,
    /// The instant up to which each recording is observed, with or without events, and the newest of them.
    newest_ns: Vec<u64>,
    now_ns: u64,
    waiting: usize,
    next_id: u64,
    counters: ExchangeCounters,
    buffer: Vec<Exchange>,
}

impl ExchangeBuilder {
    /// An empty one with the default limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty one.
    pub fn with(limits: ExchangeLimits) -> Self {
        ExchangeBuilder { limits, ..Self::default() }
    }

    /// Its counters.
    pub fn counters(&self) -> ExchangeCounters {
        self.counters
    }

    /// Takes the events of a recording's batch. `ready` gets the exchanges that are complete.
    pub fn batch(&mut self, node: u16, batch: &Batch, ready: &mut Vec<Exchange>) {
        // The journeys of earlier batches have arrived, those of this one come after it.
        self.advance(self.arrived_ns(), ready);
        for event in &batch.events {
            if event.tcp_flags & (SYN | FIN) != 0 && event.proto == Proto::TCP {
                self.flags(node, event);
            } else if event.hop == Hop::SockDestroy {
                self.ended(node, event);
            } else {
                self.threads.event(node, event);
            }
        }
        self.losses.take(node, &batch.losses);
        self.losses.change(node, &batch.changes);
        self.threads.lose(node, &batch.losses);
        self.threads.forget(node, &batch.changes);
        batch.heads.iter().for_each(|head| self.heads.push(node, head));
        let at = usize::from(node);
        if self.newest_ns.len() <= at {
            self.newest_ns.resize(at + 1, 0);
        }
        // A silent host has a watermark and no events. 0 and the maximum are no instants.
        let watermark_ns = Some(batch.watermark_ns).filter(|ns| *ns != u64::MAX).unwrap_or(0);
        let last_ns = batch.events.last().map_or(0, |event| event.time_ns);
        if let Some(newest_ns) = self.newest_ns.get_mut(at) {
            *newest_ns = (*newest_ns).max(last_ns.max(watermark_ns).min(LAST_NS));
            self.now_ns = self.now_ns.max(*newest_ns);
        }
    }

    /// The instant up to which the journeys of all recordings have arrived. A quiet recording is waited for only so
    /// long.
    fn arrived_ns(&self) -> u64 {
        let oldest_ns = self.newest_ns.iter().copied().filter(|ns| *ns != 0).min();
        oldest_ns.unwrap_or(0).max(self.now_ns.saturating_sub(LAG_NS))
    }

    /// Takes a journey, with the context of its flows.
    pub fn journey(&mut self, journey: &Journey, context: &dyn Context, ready: &mut Vec<Exchange>) {
        if !is_followed(journey.proto) || journey.range.is_empty() && journey.proto == Proto::TCP {
            return;
        }
        let ends = [(journey.tx_node, journey.tx_flow), (journey.rx_node, journey.rx_flow)];
        let ends = ends.map(|(node, flow)| (!flow.is_none()).then_some(End { node, flow }));
        let part = Part::of(journey);
        let slot = self.slot_of_all(ends, &part).or_else(|| self.slot_of(journey, ends, &part, context));
        let Some((slot, connection)) = slot.and_then(|slot| Some((slot, self.connection_mut(slot)?))) else {
            self.counters.unplaced += 1;
            return;
        };
        let sender = match ends {
            [Some(end), _] => connection.index_of(end, true),
            [None, Some(end)] => connection.index_of(end, false).map(|receiver| 1 - receiver),
            [None, None] => None,
        };
        let Some(sender) = sender else {
            self.counters.unplaced += 1;
            return;
        };
        if let Some(late) = connection.late(sender, &part) {
            self.take_late(slot, &late, Piece::new(part, journey));
            return;
        }
        let is_new = connection.push(sender, part, journey);
        self.queue(slot);
        self.waiting += usize::from(is_new);
        if self.waiting > self.limits.waiting {
            self.process_waiting(u64::MAX);
            self.release(ready, u64::MAX);
        }
    }

    /// Ends the input: closes all open exchanges.
    pub fn finish(&mut self, ready: &mut Vec<Exchange>) {
        self.process_waiting(u64::MAX);
        let slots: Vec<Slot> = std::mem::take(&mut self.idle).into_iter().map(|(_, slot)| slot).collect();
        for slot in slots {
            let closing = self.closing_at_end(slot);
            self.remove(slot, closing);
        }
        self.release(ready, u64::MAX);
    }

    /// The ends of a connection in the capture, each with its openings and the instant of the connection's own.
    fn openings_of(&self, connection: &Connection) -> impl Iterator<Item = (&Openings, u64)> {
        let ends = connection.ends.into_iter().zip(connection.openings_ns);
        ends.filter_map(|(end, ns)| Some((self.by_end.get(&end?.key())?, ns)))
    }

    /// The instant at which a connection had ended at all captured ends; `None` before.
    fn ended_ns(&self, slot: Slot) -> Option<u64> {
        let connection = self.connection(slot)?;
        let mut all = self.openings_of(connection).map(|(of, ns)| of.ended_ns(ns, connection.first_ns));
        all.try_fold(None, |last, ns| Some(last.max(Some(ns?))))?
    }

    /// How a connection ended that was closed.
    fn closed(&self, slot: Slot) -> Closing {
        let Some(connection) = self.connection(slot) else { return Closing::Closed };
        let ends = connection.ends.into_iter().zip(connection.openings_ns).enumerate();
        let is_short = ends.into_iter().any(|(sender, (end, ns))| {
            let opening = end.and_then(|end| self.by_end.get(&end.key())?.at(ns));
            opening.is_some_and(|opening| opening.accepted_unseen(connection.next(sender)))
        });
        if is_short { Closing::Short } else { Closing::Closed }
    }

    /// How an exchange that is open at the end of the capture has ended.
    fn closing_at_end(&self, slot: Slot) -> Closing {
        let end_ns = self.now_ns;
        let Some(connection) = self.connection(slot) else { return Closing::End(end_ns) };
        let first_ns = connection.first_ns;
        let mut openings = self.openings_of(connection);
        let has_closed = openings.any(|(of, ns)| {
            let finished = |opening: &Opening| opening.finished_ns.iter().all(|ns| *ns >= first_ns && *ns > 0);
            of.ended_ns(ns, first_ns).is_some() || of.at(ns).is_some_and(finished)
        });
        if has_closed { self.closed(slot) } else { Closing::End(end_ns.max(connection.last_ns)) }
    }

    fn served(&mut self, journey: &Journey, context: &dyn Context) -> HopSet {
        let nodes = (journey.tx_node, journey.rx_node);
        *self.served.entry(nodes).or_insert_with(|| {
            let infos: Vec<NodeInfo> =
                (0..context.nodes()).map(|node| context.info(node).cloned().unwrap_or_default()).collect();
            blame::served(journey, &infos)
        })
    }

    fn connection(&self, (index, number): Slot) -> Option<&Connection> {
        let (own, connection) = self.connections.get(index)?;
        if *own == number { connection.as_deref() } else { None }
    }

    fn connection_mut(&mut self, (index, number): Slot) -> Option<&mut Connection> {
        let (own, connection) = self.connections.get_mut(index)?;
        if *own == number { connection.as_deref_mut() } else { None }
    }

    /// The connection of a journey, if it has all ends of the journey.
    fn slot_of_all(&self, ends: [Option<End>; 2], part: &Part) -> Option<Slot> {
        let (end, is_sender) =
            ends.into_iter().zip([true, false]).find_map(|(end, first)| Some((end?, first)))?;
        let slot = self.by_end.get(&end.key())?.of(part, is_sender)?.slot?;
        let connection = self.connection(slot)?;
        ends.iter().flatten().all(|end| connection.ends.contains(&Some(*end))).then_some(slot)
    }

    /// The connection of a journey, a new one if need be.
    fn slot_of(
        &mut self,
        journey: &Journey,
        ends: [Option<End>; 2],
        part: &Part,
        context: &dyn Context,
    ) -> Option<Slot> {
        let mut openings = [None; 2];
        for ((end, is_sender), opening) in ends.into_iter().zip([true, false]).zip(&mut openings) {
            let Some(end) = end else { continue };
            *opening = Some(self.openings(end.key()).of(part, is_sender)?);
        }
        let slots = openings.map(|opening| opening?.slot.filter(|slot| self.connection(*slot).is_some()));
        let mut slot = slots[0].or(slots[1]);
        // Halves that were one connection each are two, and stay incomplete.
        if let [Some(first), Some(second)] = slots
            && first != second
        {
            self.remove(first, Closing::Evicted);
            self.remove(second, Closing::Evicted);
            slot = None;
        }
        let slot = match slot {
            Some(slot) => slot,
            None => self.insert(journey, ends, openings, part.ns(true), context),
        };
        for ((end, is_first), opening) in ends.into_iter().zip([true, false]).zip(openings) {
            let (Some(end), Some(opening)) = (end, opening) else { continue };
            if let Some(info) = context.info(end.node) {
                self.losses.begin(end.node, info);
            }
            let connection = self.connection_mut(slot)?;
            let index = connection.index_of(end, is_first)?;
            connection.begin(index, &opening);
            if let Some(flow) = context.flow(end.node, end.flow) {
                note_addrs(connection, index, flow);
            }
            if let Some(opening) = self.openings(end.key()).at_mut(opening.ns) {
                opening.slot = Some(slot);
            }
        }
        Some(slot)
    }

    fn insert(
        &mut self,
        journey: &Journey,
        ends: [Option<End>; 2],
        openings: [Option<Opening>; 2],
        ns: u64,
        context: &dyn Context,
    ) -> Slot {
        while self.connections.len() - self.free.len() >= self.limits.connections {
            let Some((_, slot)) = self.idle.pop_first() else { break };
            if self.connection(slot).is_some() {
                self.counters.evicted += 1;
                self.remove(slot, Closing::Evicted);
            }
        }
        self.counters.connections += 1;
        let mut connection = Box::new(Connection::new(journey.proto, ns));
        connection.served = self.served(journey, context);
        for ((end, opening), is_first) in ends.into_iter().zip(openings).zip([true, false]) {
            if let (Some(end), Some(opening)) = (end, opening)
                && let Some(is_own) = opening.is_own
                && let Some(index) = connection.index_of(end, is_first)
            {
                connection.opened_by(if is_own { index } else { 1 - index });
                break;
            }
        }
        // The next connection with these addresses shows that earlier ones have ended.
        for (end, opening) in ends.into_iter().zip(openings) {
            let (Some(end), Some(opening)) = (end, opening) else { continue };
            let earlier: Vec<Slot> = self.openings(end.key()).before(opening.ns).collect();
            for slot in earlier {
                self.queue(slot);
            }
        }
        let index = self.free.pop().unwrap_or(self.connections.len());
        if index == self.connections.len() {
            self.connections.push((0, None));
        }
        let Some(place) = self.connections.get_mut(index) else { return (index, 0) };
        place.1 = Some(connection);
        let slot = (index, place.0);
        self.idle.insert((self.now_ns.saturating_add(IDLE_NS), slot));
        slot
    }

    /// Has a connection processed after its waiting time.
    fn queue(&mut self, slot: Slot) {
        let now_ns = self.now_ns;
        let Some(connection) = self.connection_mut(slot) else { return };
        if !std::mem::replace(&mut connection.queued, true) {
            let hold = connection.hold();
            self.due[hold].push_back((now_ns.saturating_add(HOLD_NS[hold]), slot));
        }
    }

    /// Processes all pieces of a connection, closes its exchanges and forgets it.
    fn remove(&mut self, slot: Slot, closing: Closing) {
        self.process(slot, u64::MAX);
        let Some((number, place)) = self.connections.get_mut(slot.0).filter(|(number, _)| *number == slot.1)
        else {
            return;
        };
        let Some(mut connection) = place.take() else { return };
        *number = number.wrapping_add(1);
        self.free.push(slot.0);
        for (end, ns) in connection.ends.into_iter().zip(connection.openings_ns) {
            let openings = end.and_then(|end| self.by_end.get_mut(&end.key()));
            if let Some(opening) = openings.and_then(|openings| openings.at_mut(ns))
                && opening.slot == Some(slot)
            {
                opening.slot = None;
            }
        }
        self.with_surroundings(slot, |around| connection.close_all(closing, around));
        self.note_best(slot, &connection);
    }

    fn note_best(&mut self, slot: Slot, connection: &Connection) {
        self.best.note(slot, connection.best());
        // Half of these at least have ended, and their exchanges were output.
        if self.best.len() / 2 > self.limits.connections.saturating_add(self.limits.closed) {
            let all = &self.connections;
            self.best.forget(&self.closed, |(at, number)| all.get(at).is_some_and(|own| own.0 == number));
        }
    }

    fn with_surroundings(&mut self, slot: Slot, run: impl FnOnce(&mut Surroundings<'_>)) {
        let mut closed = std::mem::take(&mut self.buffer);
        let mut around = Surroundings {
            next_id: &mut self.next_id,
            closed: &mut closed,
            heads: &self.heads,
            threads: &self.threads,
            losses: &self.losses,
            newest_ns: &self.newest_ns,
        };
        run(&mut around);
        for exchange in closed.drain(..) {
            self.processes.note_closed(&exchange);
            let wait_ns = if may_lack_answer(&exchange) { JUDGE_LOST_NS } else { JUDGE_NS };
            self.closed.push(self.now_ns.saturating_add(wait_ns), slot, exchange);
        }
        self.buffer = closed;
    }

    /// Takes a lost datagram whose successors were processed already.
    fn take_late(&mut self, slot: Slot, late: &Late, piece: Box<Piece>) {
        let is_broken = |connection: &mut Connection| connection.break_open(late);
        if self.connection_mut(slot).is_some_and(is_broken) || self.closed.break_by(slot, late) {
            return;
        }
        self.counters.late += 1;
        if !late.asks {
            return;
        }
        let Some((_, place)) = self.connections.get_mut(slot.0) else { return };
        let Some(mut connection) = place.take() else { return };
        self.with_surroundings(slot, |around| connection.close_alone(piece, around));
        if let Some((_, place)) = self.connections.get_mut(slot.0) {
            *place = Some(connection);
        }
    }

    /// Processes the pieces of a connection up to an instant.
    fn process(&mut self, slot: Slot, until_ns: u64) {
        let Some((number, place)) = self.connections.get_mut(slot.0) else { return };
        if *number != slot.1 {
            return;
        }
        let Some(mut connection) = place.take() else { return };
        let before = connection.waiting();
        self.with_surroundings(slot, |around| connection.process(until_ns, around));
        self.note_best(slot, &connection);
        self.waiting = self.waiting.saturating_sub(before - connection.waiting());
        self.processes.note(&connection);
        if let Some((_, place)) = self.connections.get_mut(slot.0) {
            *place = Some(connection);
        }
    }

    fn process_waiting(&mut self, until_ns: u64) {
        let due = std::mem::take(&mut self.due);
        for (_, slot) in due.into_iter().flatten() {
            if let Some(connection) = self.connection_mut(slot) {
                connection.queued = false;
            }
            self.process(slot, until_ns);
            // One that has ended is still to be closed.
            if self.ended_ns(slot).is_some() {
                self.queue(slot);
            }
        }
    }

    /// Processes a connection whose waiting time is over.
    fn process_due(&mut self, slot: Slot, now_ns: u64) {
        let Some(connection) = self.connection_mut(slot) else { return };
        connection.queued = false;
        let hold_ns = HOLD_NS[connection.hold()];
        self.process(slot, now_ns.saturating_sub(hold_ns));
        let (ended_ns, closing) = (self.ended_ns(slot), self.closed(slot));
        let Some(connection) = self.connection(slot) else { return };
        let is_complete = |ended_ns: u64| match closing {
            Closing::Short => ended_ns.saturating_add(UNREAD_NS) <= now_ns,
            _ => connection.last_ns.max(ended_ns).saturating_add(hold_ns) <= now_ns,
        };
        if ended_ns.is_some_and(is_complete) {
            self.remove(slot, closing);
        } else if connection.has_waiting() || ended_ns.is_some() {
            self.queue(slot);
        }
    }

    /// Does what is due by an instant.
    fn advance(&mut self, now_ns: u64, ready: &mut Vec<Exchange>) {
        for hold in 0..HOLD_NS.len() {
            while let Some((_, slot)) = self.due[hold].pop_front_if(|(ns, _)| *ns <= now_ns) {
                self.process_due(slot, now_ns);
            }
        }
        while let Some((_, slot)) = self.idle.first().copied().filter(|(ns, _)| *ns <= now_ns) {
            self.idle.pop_first();
            let Some(connection) = self.connection(slot) else { continue };
            let mut idle_ns = connection.last_ns.saturating_add(IDLE_NS);
            if idle_ns <= now_ns && connection.proto == Proto::UDP && !connection.has_waiting() {
                let Some((_, place)) = self.connections.get_mut(slot.0) else { continue };
                let Some(mut connection) = place.take() else { continue };
                self.with_surroundings(slot, |around| connection.close_idle(around));
                if let Some((_, place)) = self.connections.get_mut(slot.0) {
                    *place = Some(connection);
                }
            }
            if idle_ns <= now_ns {
                idle_ns = now_ns.saturating_add(IDLE_NS);
            }
            self.idle.insert((idle_ns, slot));
        }
        self.release(ready, now_ns);
    }

    /// Outputs closed exchanges, with those within them.
    fn release(&mut self, ready: &mut Vec<Exchange>, until_ns: u64) {
        while let Some((slot, mut exchange)) = self.closed.pop(until_ns, self.limits.closed) {
            if exchange.grade == Grade::Turn {
                exchange.grade = self.best.of(slot);
            }
            exchange.during = self.processes.during(&exchange);
            self.counters.exchanges += 1;
            ready.push(exchange);
        }
    }

    /// The connections of an end. Ends without journeys are forgotten when there are too many.
    fn openings(&mut self, key: (u16, FlowId)) -> &mut Openings {
        // Half of the places at most have journeys, so this is rare.
        if self.by_end.len() >= 4 * self.limits.connections && !self.by_end.contains_key(&key) {
            self.by_end.retain(|_, openings| openings.is_in_use());
        }
        self.by_end.entry(key).or_default()
    }

    fn flags(&mut self, node: u16, event: &Event) {
        let sends = match event.hop.direction() {
            Direction::Tx => true,
            Direction::Rx => false,
            Direction::Off => return,
        };
        let openings = self.openings((node, event.flow));
        if event.tcp_flags & SYN == 0 {
            openings.fin(event.time_ns, sends);
        } else if !event.flags.contains(EventFlags::PARTIAL) {
            let is_own = sends == (event.tcp_flags & ACK == 0);
            if let Some(forgotten) = openings.syn(event.time_ns, sends, event.seq(), is_own) {
                self.remove(forgotten, Closing::Evicted);
            }
        }
    }

    /// A socket has ended.
    fn ended(&mut self, node: u16, event: &Event) {
        let written = match event.detail {
            Detail::WriteSeq(number) => Some(number.get()),
            _ => None,
        };
        let openings = self.openings((node, event.flow));
        openings.ended(event.time_ns, event.seq(), written);
        let slots: Vec<Slot> = openings.before(u64::MAX).collect();
        for slot in slots {
            self.queue(slot);
        }
    }
}

/// True for datagrams of which one may be a repetition because the answer to the one before was lost.
fn may_lack_answer(exchange: &Exchange) -> bool {
    let request = &exchange.request;
    let between = request.first_sent_ns.zip(request.last_sent_ns);
    exchange.proto == Proto::UDP && between.is_some_and(|(first, last)| last - first >= REPEATED_NS)
}

/// Stores the addresses of both ends from the flow of one.
fn note_addrs(connection: &mut Connection, index: usize, flow: &Flow) {
    for (index, addr) in [(index, flow.local), (1 - index, flow.remote)] {
        if let Some(place) = connection.addrs.get_mut(index) {
            place.get_or_insert(addr);
        }
    }
}

//! The joiner: accepts the journeys of several recordings and returns them joined.

mod datagrams;
mod release;

use super::connection::Connection;
use super::empty::EmptySegments;
use super::half::{Crossing, Half};
use super::key::{End, Key};
use super::merge::{delay_ns, merge, place};
use super::numbering::{Numbering, Past, Turn};
use super::overlap::Overlaps;
use super::pairing::Pairing;
use super::timeline::Timeline;
use super::translation::Translations;
use super::unnumbered::UnnumberedDatagrams;
use magscope_core::batch::Batch;
use magscope_core::context::Context;
use magscope_core::flow::Proto;
use magscope_core::hash::Map;
use magscope_core::journey::{Across, Correlator, Journey, Verdict, tcp_half_wait_ns};
use magscope_core::node::NodeInfo;
use serde::Serialize;
use std::collections::BTreeMap;

/// Sequence numbers turn here.
const TURN: u64 = 1 << 32;

/// Maximum number of held crossings of datagrams; beyond it new ones do not count.
const MAX_HELD: usize = 1 << 20;

/// Limits of a joiner's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinLimits {
    /// Maximum number of waiting halves, about 600 bytes each. Beyond it the oldest are output alone.
    pub max_waiting: usize,
    /// Maximum number of stored directions of connections; beyond it all of them restart.
    pub max_connections: usize,
    /// Maximum distance of two halves of one packet on the common time line, nanoseconds. Without aligned
    /// clocks there is no limit.
    pub max_apart_ns: u64,
}

impl Default for JoinLimits {
    fn default() -> Self {
        JoinLimits { max_waiting: 1 << 18, max_connections: 1 << 16, max_apart_ns: 60_000_000_000 }
    }
}

/// A journey from the joiner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The journey, on the time line of recording 0 as far as the alignment permits.
    pub journey: Journey,
    /// The crossing, if it was joined from halves.
    pub crossing: Option<Crossing>,
}

/// Counters of a joiner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JoinCounters {
    /// Halves accepted.
    pub halves: u64,
    /// Journeys joined from halves.
    pub joined: u64,
    /// Of these, joined by an identification that may have turned.
    pub uncertain: u64,
    /// Halves without another half.
    pub alone: u64,
    /// Of these, evicted because too many waited.
    pub evicted: u64,
    /// Directions of connections evicted because there were too many.
    pub forgotten_connections: u64,
}

/// Joins half-journeys of several recordings as they arrive. Memory is bounded by [`JoinLimits`].
pub struct Joiner<'t> {
    timeline: &'t dyn Timeline,
    limits: JoinLimits,
    connections: Vec<Connection>,
    by_key: Map<Key, usize>,
    waiting: BTreeMap<u64, (usize, Half)>,
    translations: Translations,
    empty: EmptySegments,
    unnumbered: UnnumberedDatagrams,
    numbering: Numbering,
    overlaps: Overlaps,
    /// True for running recordings: they overlap, so crossings need not wait for their ends.
    is_live: bool,
    /// Number of held crossings.
    held: usize,
    crossings: Vec<Crossing>,
    next: u64,
    journeys: u64,
    counters: JoinCounters,
    scratch: Vec<u64>,
}

impl<'t> Joiner<'t> {
    /// A joiner for recordings with clock offsets from `timeline`.
    pub fn new(timeline: &'t dyn Timeline, limits: JoinLimits) -> Self {
        Joiner {
            timeline,
            limits,
            connections: Vec::new(),
            by_key: Map::default(),
            waiting: BTreeMap::new(),
            translations: Translations::default(),
            empty: EmptySegments::default(),
            unnumbered: UnnumberedDatagrams::default(),
            numbering: Numbering::default(),
            overlaps: Overlaps::default(),
            is_live: false,
            held: 0,
            crossings: Vec::new(),
            next: 0,
            journeys: 0,
            counters: JoinCounters::default(),
            scratch: Vec::new(),
        }
    }

    /// The same for running recordings.
    pub fn live(timeline: &'t dyn Timeline, limits: JoinLimits) -> Self {
        Joiner { is_live: true, ..Self::new(timeline, limits) }
    }

    /// Accepts a journey closed by a recording's correlator, and appends finished ones to `done`. `context`
    /// resolves the recording's flows.
    pub fn push(&mut self, node: u16, mut journey: Journey, context: &dyn Context, done: &mut Vec<Joined>) {
        (journey.tx_node, journey.rx_node) = (node, node);
        let end = match (journey.tx_flow.is_none(), journey.rx_flow.is_none()) {
            (false, true) => End::Tx,
            (true, false) => End::Rx,
            _ => return self.whole(node, journey, done),
        };
        // As its packets are on the wire between the recordings.
        let id = if end == End::Tx { journey.sent_flow() } else { journey.received_flow() };
        let Some(flow) = context.flow(node, id) else { return self.whole(node, journey, done) };
        let key = Key::of(node, end, flow);
        if self.connections.len() >= self.limits.max_connections && !self.by_key.contains_key(&key) {
            self.forget_connections(done);
        }
        self.counters.halves += 1;
        let connection = self.connection(key);
        let any_ns = || journey.all_rungs().map(|rung| rung.time_ns).min();
        let wire_ns = Half::wire_ns(&journey, end).or_else(any_ns).unwrap_or_default();
        let rough_ns = self.timeline.rough_ns(node, wire_ns);
        let aligned = self.timeline.shift_ns(node, wire_ns).is_some();
        let half = Half { node, end, journey, wire_ns, rough_ns, aligned, joined: false };
        if let Some(direction) = self.connections.get_mut(connection) {
            direction.note(&half);
        }
        for half in across_the_turn(half) {
            self.half(connection, half, done);
        }
        if self.waiting.len() > self.limits.max_waiting {
            self.evict(done);
        }
    }

    /// Accepts a recording's events for the turns of identifications. `correlator` has processed them.
    pub fn push_numbers(&mut self, node: u16, info: &NodeInfo, batch: &Batch, correlator: &Correlator) {
        self.numbering.push(node, info, batch, correlator);
        self.overlaps.push(node, &batch.clock);
    }

    /// Accepts a recording's events for the crossings of packets that are in no journey or have no identification, by
    /// its own clock. `correlator` has processed them. Only the alignment of clocks needs these.
    pub fn push_events(&mut self, node: u16, info: &NodeInfo, batch: &Batch, correlator: &Correlator) {
        self.empty.push(node, info, batch, correlator);
        self.unnumbered.push(node, info, batch, correlator, self.timeline);
    }

    /// Crossings of the packets of [`Joiner::push_events`], and of datagrams that were not certain at their join, since
    /// the last call.
    pub fn take_crossings(&mut self) -> Vec<Crossing> {
        let mut crossings = std::mem::take(&mut self.crossings);
        crossings.extend(self.empty.take_crossings());
        crossings.extend(self.unnumbered.take_crossings());
        crossings
    }

    /// Ends the recordings: joins the remaining halves where possible, and returns the others alone.
    pub fn finish(&mut self, done: &mut Vec<Joined>) {
        self.empty.finish();
        let connections = &self.connections;
        let key_of =
            |c: usize| connections.get(c).filter(|c| c.alias.is_none() && !c.has_both_ends()).map(|c| c.key);
        for (tx, rx) in self.translations.rest(key_of) {
            self.join_translated(tx, rx, done);
        }
        for connection in 0..self.connections.len() {
            self.join_by_order(connection, done);
        }
        while let Some((_, (connection, half))) = self.waiting.pop_first() {
            self.alone(connection, half, false, done);
        }
        (0..self.connections.len()).for_each(|connection| self.release(connection));
    }

    /// Counters so far.
    pub const fn counters(&self) -> &JoinCounters {
        &self.counters
    }

    /// The result for each direction of each connection with a half.
    pub fn pairings(&self) -> Vec<Pairing> {
        let seen = self.connections.iter().filter(|c| c.alias.is_none());
        let row = |c: &Connection| Pairing {
            proto: c.key.proto,
            from: c.key.from,
            to: c.key.to,
            translated: c.translated,
            nodes: c.nodes,
            joined: c.joined,
            uncertain: c.uncertain,
            tx_only: c.alone[0],
            rx_only: c.alone[1],
            because: c.because(),
        };
        let mut rows: Vec<_> = seen.map(row).collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.joined), row.from, row.to));
        rows
    }

    fn connection(&mut self, key: Key) -> usize {
        let new = self.connections.len();
        let mut found = *self.by_key.entry(key).or_insert(new);
        if found == new {
            self.connections.push(Connection::new(key));
        }
        while let Some(alias) = self.connections.get(found).and_then(|c| c.alias) {
            found = alias;
        }
        found
    }

    /// A journey that needs no other half.
    fn whole(&mut self, node: u16, mut journey: Journey, done: &mut Vec<Joined>) {
        place(&mut journey, node, self.timeline);
        self.give(journey, None, done);
    }

    fn give(&mut self, mut journey: Journey, crossing: Option<Crossing>, done: &mut Vec<Joined>) {
        self.journeys += 1;
        journey.id = self.journeys;
        done.push(Joined { journey, crossing });
    }

    fn half(&mut self, connection: usize, half: Half, done: &mut Vec<Joined>) {
        let Some(direction) = self.connections.get(connection) else { return };
        let mut candidates = std::mem::take(&mut self.scratch);
        direction.candidates(&half, &mut candidates);
        candidates.retain(|number| {
            self.waiting.get(number).is_some_and(|(_, other)| self.may_join(connection, &half, other))
        });
        // The nearest in time first: a sequence number repeats every 4 GiB, an identification every 65,536
        // packets.
        let now_ns = self.rough_ns(&half);
        candidates.sort_by_cached_key(|number| {
            self.waiting.get(number).map_or(u64::MAX, |(_, other)| self.rough_ns(other).abs_diff(now_ns))
        });
        if half.is_stream() {
            self.join_bytes(connection, &half, &candidates, done);
        } else if candidates.is_empty() {
            self.wait(connection, half.clone());
            self.seek_translation(connection, &half, done);
        } else {
            self.join_datagrams(connection, half, &candidates, done);
        }
        candidates.clear();
        self.scratch = candidates;
    }

    /// Approximate common time of a half's packet, nanoseconds. A half that came before packets placed its recording
    /// was noted at a place by arrival, which may be far off.
    fn rough_ns(&self, half: &Half) -> i64 {
        if half.aligned { half.rough_ns } else { self.timeline.rough_ns(half.node, half.wire_ns) }
    }

    fn may_join(&self, connection: usize, half: &Half, other: &Half) -> bool {
        let is_near = half.rough_ns.abs_diff(other.rough_ns) <= self.limits.max_apart_ns;
        let is_near = is_near || !(half.aligned && other.aligned);
        is_near && (half.is_stream() || self.turn_of(connection, half, other) != Turn::Other)
    }

    /// Whether two datagrams with one identification are of one turn.
    fn turn_of(&self, connection: usize, half: &Half, other: &Half) -> Turn {
        let (tx, rx) = if half.end == End::Tx { (half, other) } else { (other, half) };
        let Some(direction) = self.connections.get(connection) else { return Turn::Other };
        let (sent, received) = ((direction.key, tx.node), (direction.received_key, rx.node));
        let numbering = &self.numbering;
        let is_within = |past| numbering.is_within_a_turn(sent, received, !self.is_live, past);
        let Some(delay_ns) = delay_ns(tx, rx, self.timeline) else {
            return if is_within(Past::Nothing) { Turn::SameSoFar } else { Turn::Unknown };
        };
        let is_read = numbering.is_read_to(tx.node, tx.wire_ns.saturating_add_signed(delay_ns.0));
        let is_short = is_within(Past::Arrived) && is_read || numbering.is_uncounted(sent, received);
        Turn::of(delay_ns, numbering.turn_ns(sent, received).or(is_short.then_some(u64::MAX)))
    }

    /// Joins the bytes that a half shares with waiting ones; the rests of both continue to wait.
    fn join_bytes(&mut self, connection: usize, half: &Half, candidates: &[u64], done: &mut Vec<Joined>) {
        let mut left = vec![half.seqs()];
        for number in candidates {
            let Some((from, to)) = self.waiting.get(number).map(|(_, other)| other.seqs()) else { continue };
            if !left.iter().any(|(a, b)| *a < to && from < *b) {
                continue;
            }
            let Some(other) = self.take(*number) else { continue };
            let (mut rest, mut shared) = (Vec::new(), Vec::new());
            for (a, b) in left {
                let (start, end) = (a.max(from), b.min(to));
                if start >= end {
                    rest.push((a, b));
                    continue;
                }
                shared.push((start, end));
                rest.extend([(a, start), (end, b)].into_iter().filter(|(a, b)| a < b));
            }
            left = rest;
            shared.sort_unstable();
            let mut at = from;
            for (start, end) in shared {
                if at < start {
                    self.wait(connection, other.cut(at, start));
                }
                self.join(connection, &half.cut(start, end), &other.cut(start, end), done);
                at = end;
            }
            if at < to {
                self.wait(connection, other.cut(at, to));
            }
            if left.is_empty() {
                return;
            }
        }
        for (from, to) in left {
            self.wait(connection, half.cut(from, to));
        }
        self.seek_translation(connection, half, done);
    }

    /// Stores a crossing that counts if the identifications do not turn until the end.
    fn hold(&mut self, connection: usize, crossing: Crossing) {
        if self.held < MAX_HELD
            && let Some(direction) = self.connections.get_mut(connection)
        {
            self.held += direction.hold(crossing);
        }
    }

    /// Releases the held crossings at the end, if the identifications have not turned and the recordings overlap.
    fn release(&mut self, connection: usize) {
        let Some(direction) = self.connections.get_mut(connection) else { return };
        let held = std::mem::take(&mut direction.held);
        let joined = std::mem::take(&mut direction.certain_so_far);
        let keys = (direction.key, direction.received_key);
        self.held -= held.len();
        let (numbering, overlaps) = (&self.numbering, &self.overlaps);
        let is_certain = |tx: u16, rx: u16| {
            let is_within = numbering.is_within_a_turn((keys.0, tx), (keys.1, rx), true, Past::Nothing);
            is_within && !overlaps.are_apart(tx, rx)
        };
        self.crossings.extend(held.into_iter().filter(|c| is_certain(c.tx_node, c.rx_node)));
        let uncertain = joined.into_iter().filter(|((tx, rx), _)| !is_certain(*tx, *rx)).map(|(_, n)| n).sum();
        self.add_uncertain(connection, uncertain);
    }

    fn add_uncertain(&mut self, connection: usize, journeys: u64) {
        self.counters.uncertain += journeys;
        if let Some(direction) = self.connections.get_mut(connection) {
            direction.uncertain += journeys;
        }
    }

    fn join(&mut self, connection: usize, half: &Half, other: &Half, done: &mut Vec<Joined>) {
        let (tx, rx) = if half.end == End::Tx { (half, other) } else { (other, half) };
        self.counters.joined += 1;
        if let Some(direction) = self.connections.get_mut(connection) {
            direction.joined += 1;
        }
        if tx.is_stream() && tx.node != rx.node {
            self.overlaps.prove(tx.node, rx.node);
        }
        let mut journey = merge(tx, rx, self.timeline);
        if self.may_be_sent_again(tx, rx) {
            (journey.ambiguous, journey.across) = (true, Across::Apart);
        }
        self.give(journey, Half::crossing(tx, rx), done);
    }

    /// True if the arrived bytes may be a later copy's, that is not in the sender's half: it was closed before the
    /// arrival, and no identification shows a copy that it has.
    fn may_be_sent_again(&self, tx: &Half, rx: &Half) -> bool {
        if tx.journey.copy_with(rx.journey.packet_ids).is_some() {
            return false;
        }
        let closed_ns = tcp_half_wait_ns(tx.journey.retransmits()) as i64;
        let delay_ns = delay_ns(tx, rx, self.timeline).filter(|_| tx.is_stream());
        delay_ns.is_some_and(|(_, most_ns)| most_ns >= closed_ns)
    }

    fn wait(&mut self, connection: usize, half: Half) {
        let number = self.next;
        self.next += 1;
        if let Some(direction) = self.connections.get_mut(connection) {
            direction.insert(number, &half);
            self.waiting.insert(number, (connection, half));
        }
    }

    fn take(&mut self, number: u64) -> Option<Half> {
        let (connection, half) = self.waiting.remove(&number)?;
        if let Some(direction) = self.connections.get_mut(connection) {
            direction.remove(number, &half);
        }
        Some(half)
    }

    fn evict(&mut self, done: &mut Vec<Joined>) {
        for connection in 0..self.connections.len() {
            self.join_by_order(connection, done);
        }
        // Several at once: sorting datagrams costs the same for one as for all.
        while self.waiting.len() > self.limits.max_waiting - self.limits.max_waiting / 8 {
            let Some((number, (connection, _))) = self.waiting.first_key_value() else { return };
            let (number, connection) = (*number, *connection);
            if let Some(half) = self.take(number) {
                self.alone(connection, half, true, done);
            }
        }
    }

    /// Closes a half without another half.
    fn alone(&mut self, connection: usize, half: Half, evicted: bool, done: &mut Vec<Joined>) {
        if half.joined {
            return; // it is in the journeys of its receivers
        }
        self.counters.alone += 1;
        self.counters.evicted += u64::from(evicted);
        let Half { node, end, mut journey, .. } = half;
        if let Some(direction) = self.connections.get_mut(connection) {
            direction.alone[end as usize] += 1;
            if evicted && direction.has_both_ends() && journey.verdict == Verdict::HalfComplete {
                journey.verdict = Verdict::Evicted;
            }
        }
        self.whole(node, journey, done);
    }

    fn seek_translation(&mut self, connection: usize, half: &Half, done: &mut Vec<Joined>) {
        let Some(direction) = self.connections.get(connection) else { return };
        if direction.has_both_ends() || direction.key.is_private() {
            return;
        }
        let connections = &self.connections;
        let share_address = |tx: usize, rx: usize| {
            let both = connections.get(tx).zip(connections.get(rx));
            both.is_some_and(|(tx, rx)| tx.key.shares_address(&rx.key))
        };
        if let Some((tx, rx)) = self.translations.offer(connection, half, share_address) {
            self.join_translated(tx, rx, done);
        }
    }

    /// Merges two connections identified as the two sides of an address translation.
    fn join_translated(&mut self, tx: usize, rx: usize, done: &mut Vec<Joined>) {
        self.translations.forget(rx);
        let open = |c: usize| self.connections.get(c).is_some_and(|c| c.alias.is_none() && !c.has_both_ends());
        if tx == rx || !open(tx) || !open(rx) {
            return;
        }
        let Some(receiver) = self.connections.get_mut(rx) else { return };
        receiver.alias = Some(tx);
        let (key, node, seen, alone) = (receiver.key, receiver.nodes.1, receiver.seen[1], receiver.alone[1]);
        let numbers = receiver.waiting(End::Rx);
        let halves: Vec<Half> = numbers.into_iter().filter_map(|number| self.take(number)).collect();
        if let Some(sender) = self.connections.get_mut(tx) {
            self.empty.translated(&sender.key, &key);
            sender.translated = Some((key.from, key.to));
            sender.received_key = key;
            sender.nodes.1 = node;
            sender.seen[1] += seen;
            sender.alone[1] += alone;
        }
        for half in halves {
            self.half(tx, half, done);
        }
    }

    fn forget_connections(&mut self, done: &mut Vec<Joined>) {
        // Identifications may turn later.
        self.connections.iter_mut().for_each(|connection| connection.held.clear());
        self.held = 0;
        self.finish(done);
        self.counters.forgotten_connections += self.connections.len() as u64;
        self.connections.clear();
        self.by_key.clear();
        self.translations = Translations::default();
    }
}

/// A TCP half in parts that do not cross the wrap of the sequence numbers.
fn across_the_turn(half: Half) -> impl Iterator<Item = Half> {
    let parts = if half.journey.proto == Proto::TCP {
        let (from, to) = half.seqs();
        if to > TURN {
            let mut above = half.clone();
            above.journey.range.start += TURN - from;
            [Some(half.cut(from, TURN)), Some(above)]
        } else {
            [Some(half), None]
        }
    } else {
        [Some(half), None]
    };
    parts.into_iter().flatten()
}

//! Lost datagrams, which are given up long after those behind them were processed.
//!
//! **The problem.** A datagram that the kernel dropped is given up a second after it was sent, a lost one ten seconds
//! after. If a requester asks again meanwhile, both questions look like one request, and the answer to the second like its
//! response.
//!
//! **The choice.** Closed exchanges wait, those that may lack an answer longer. A lost answer breaks the exchange that was
//! open when it was sent, and a lost question the one that it was a part of; else it is an exchange by itself.
//!
//! **Known limits.** A stream has no such gaps: its bytes are processed in their order.

use super::connection::{Connection, Slot, Surroundings};
use super::exchange::Exchange;
use super::grade::{BrokenBy, Grade};
use super::group::{Closing, Group};
use super::piece::{Part, Piece};
use crate::flow::Proto;
use std::collections::{BTreeMap, BTreeSet};

/// A lost datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Late {
    /// When it was sent, or at the other end, read.
    ns: u64,
    /// The requester sent it.
    pub asks: bool,
    why: BrokenBy,
}

impl Late {
    /// True if it belongs to an exchange with these first and last instants.
    fn is_within(&self, first_ns: Option<u64>, last_ns: Option<u64>) -> bool {
        first_ns.is_some_and(|ns| ns <= self.ns) && (!self.asks || last_ns.is_some_and(|ns| self.ns <= ns))
    }
}

impl Connection {
    /// A datagram that is given up after later ones were processed; `None` for any other piece.
    pub fn late(&self, sender: usize, part: &Part) -> Option<Late> {
        let why = part.broken.filter(|_| self.proto == Proto::UDP)?;
        let asks = sender == self.requester();
        let ns = part.ns(asks == self.requester_observes());
        (ns < self.processed_ns()).then_some(Late { ns, asks, why })
    }

    /// Breaks the open exchange that it belongs to. Returns false if there is none.
    pub fn break_open(&mut self, late: &Late) -> bool {
        let is_its = |group: &&mut Group| {
            let response = &group.response.transfer;
            // Without a response, or with one that goes on, a later question is a part of it.
            let last_ns = response.last_read_ns.or(response.last_sent_ns).or(Some(u64::MAX));
            late.is_within(group.first_ns(), last_ns)
        };
        let open = [&mut self.pending, &mut self.group];
        let found = open.into_iter().filter_map(Option::as_mut).find(is_its);
        found.map(|group| group.break_by(Some(late.why))).is_some()
    }

    /// Closes an exchange of this request alone.
    pub fn close_alone(&mut self, piece: Box<Piece>, around: &mut Surroundings<'_>) {
        let mut group = around.new_group(0);
        let next_ns = piece.part.ns(true);
        group.add_request(piece, 1);
        // The pauses are those between the others.
        let (open, previous_end_ns) = (self.group.replace(group), self.previous_end_ns.take());
        self.close(Closing::Next(next_ns), around);
        (self.group, self.previous_end_ns) = (open, previous_end_ns);
    }
}

/// Maximum number of exchanges of a connection that are looked at for a lost datagram. Those of one connection follow each
/// other, but for lost questions between them.
const MOST_LOOKED_AT: usize = 16;

/// Closed exchanges that wait for those within them, and for what their connection shows.
#[derive(Debug, Default)]
pub(super) struct Closed {
    /// By the instant of their output, and their number.
    waiting: BTreeMap<(u64, u64), (Slot, Exchange)>,
    /// The instants of the output of those of datagrams, by connection, first instant and number. Without it each of many
    /// lost datagrams would look at all of them.
    by_start: BTreeMap<(Slot, u64, u64), u64>,
}

impl Closed {
    /// Adds one, which waits until an instant.
    pub fn push(&mut self, until_ns: u64, slot: Slot, exchange: Exchange) {
        if let Some(key) = start_key(slot, &exchange) {
            self.by_start.insert(key, until_ns);
        }
        self.waiting.insert((until_ns, exchange.id), (slot, exchange));
    }

    /// Number of those that are found by their start.
    #[cfg(test)]
    pub fn indexed(&self) -> usize {
        self.by_start.len()
    }

    /// Their connections.
    pub fn slots(&self) -> BTreeSet<Slot> {
        self.waiting.values().map(|(slot, _)| *slot).collect()
    }

    /// The next one, if it has waited long enough or more than `most` wait.
    pub fn pop(&mut self, until_ns: u64, most: usize) -> Option<(Slot, Exchange)> {
        let (due_ns, _) = *self.waiting.first_key_value()?.0;
        let is_due = due_ns <= until_ns || self.waiting.len() > most;
        let (_, (slot, exchange)) = is_due.then(|| self.waiting.pop_first()).flatten()?;
        if let Some(key) = start_key(slot, &exchange) {
            self.by_start.remove(&key);
        }
        Some((slot, exchange))
    }

    /// Breaks the newest exchange of a connection that a lost datagram belongs to. Returns false if there is none.
    pub fn break_by(&mut self, slot: Slot, late: &Late) -> bool {
        let begun = self.by_start.range((slot, 0, 0)..=(slot, late.ns, u64::MAX));
        let mut newest = begun.rev().take(MOST_LOOKED_AT).map(|((_, _, id), until_ns)| (*until_ns, *id));
        let is_its = |key: &(u64, u64)| {
            let exchange = self.waiting.get(key).map(|(_, exchange)| exchange);
            exchange.is_some_and(|exchange| late.is_within(exchange.start_ns(), exchange.end_ns()))
        };
        let Some(key) = newest.find(is_its) else { return false };
        let Some((_, exchange)) = self.waiting.get_mut(&key) else { return false };
        exchange.broken.get_or_insert(late.why);
        exchange.grade = Grade::Broken;
        true
    }
}

/// The place of an exchange in [`Closed::by_start`]; `None` for one of a stream, or without an instant.
fn start_key(slot: Slot, exchange: &Exchange) -> Option<(Slot, u64, u64)> {
    let start_ns = exchange.start_ns().filter(|_| exchange.proto == Proto::UDP)?;
    Some((slot, start_ns, exchange.id))
}

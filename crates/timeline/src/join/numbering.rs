//! Turns of IPv4 identifications: a sender of datagrams repeats each one after 65,536 packets.
//!
//! **The problem.** Two datagrams of one flow and length with equal identifications may be one, or lie any number of
//! turns apart. Datagrams are lost, and a recording may begin or end amid a flow.
//!
//! **The choice.** Each end counts how far its identifications advanced, in the order of its events. Two recordings of
//! exchanged packets overlap in time. So if both ends together advanced by less than a turn, equal identifications are
//! one datagram. Beyond that, only aligned clocks distinguish turns, by the shortest time of a turn.

use super::empty::Recording;
use super::key::{End, Key};
use magscope_core::batch::Batch;
use magscope_core::flow::{FlowId, Proto};
use magscope_core::hash::Map;
use magscope_core::journey::Correlator;
use magscope_core::node::NodeInfo;
use std::collections::VecDeque;

/// Identifications of a turn, less those that reordering and packets in flight may hide.
const TURN: u64 = (1 << 16) - (1 << 12);
/// A step back by no more than this is reordering.
const REORDERED: u16 = 1 << 10;
/// Instants are stored once per this many identifications.
const STRIDE: u64 = 1 << 12;
/// A recording that was read up to this long before an instant hides no turn: batches are shorter.
const UNREAD_NS: u64 = 250_000_000;
/// Maximum number of directions of flows, by end; beyond it new ones have no counts.
const MAX_SIDES: usize = 1 << 16;

/// The turns of the identifications of two datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// One turn: they are one datagram.
    Same,
    /// One turn, unless identifications turn in the rest of the recordings.
    SameSoFar,
    Unknown,
    /// Two turns: they are two datagrams.
    Other,
}

impl Turn {
    /// By the interval of the time between them, and the shortest time of a turn if known. A datagram takes less than
    /// half a turn on the wire.
    pub fn of((least_ns, most_ns): (i64, i64), turn_ns: Option<u64>) -> Self {
        let half_ns = turn_ns.map(|ns| i64::try_from(ns / 2).unwrap_or(i64::MAX));
        if most_ns < 0 || half_ns.is_some_and(|half_ns| least_ns > half_ns) {
            Self::Other
        } else if half_ns.is_some_and(|half_ns| most_ns.saturating_sub(least_ns) < half_ns) {
            Self::Same
        } else {
            Self::Unknown
        }
    }
}

/// A flow, its recording and its end.
type Name = (FlowId, u16, End);

/// Identifications of one direction of a flow at one end.
#[derive(Debug, Default)]
struct Side {
    newest: u16,
    advanced: u64,
    /// Lost records of its recording before its first event.
    lost_before: u64,
    /// Identifications since the newest instant.
    since: u64,
    /// Instants of the newest strides: those of a turn.
    instants: VecDeque<u64>,
    shortest_stride_ns: Option<u64>,
    shortest_turn_ns: Option<u64>,
}

impl Side {
    fn push(&mut self, id: u16, time_ns: u64) {
        let step = id.wrapping_sub(self.newest);
        if step.wrapping_neg() <= REORDERED && !self.instants.is_empty() {
            return; // also the same one again
        }
        self.newest = id;
        self.advanced += u64::from(step);
        self.since += u64::from(step);
        if u64::from(step) > STRIDE {
            self.instants.clear(); // a jump shows no rate
        }
        if self.instants.is_empty() || self.since >= STRIDE {
            self.note(time_ns);
        }
    }

    /// One stride more.
    fn note(&mut self, time_ns: u64) {
        let shorter = |least: Option<u64>, from_ns: u64| {
            let ns = time_ns.saturating_sub(from_ns);
            Some(least.map_or(ns, |least| least.min(ns)))
        };
        if let Some(before_ns) = self.instants.back() {
            self.shortest_stride_ns = shorter(self.shortest_stride_ns, *before_ns);
        }
        self.since = 0;
        self.instants.push_back(time_ns);
        if self.instants.len() as u64 > TURN / STRIDE
            && let Some(first_ns) = self.instants.pop_front()
        {
            self.shortest_turn_ns = shorter(self.shortest_turn_ns, first_ns);
        }
    }

    /// The shortest time of a turn; before the first one, by the shortest stride.
    fn turn_ns(&self) -> Option<u64> {
        let by_stride_ns = self.shortest_stride_ns.map(|ns| ns.saturating_mul(TURN / STRIDE));
        self.shortest_turn_ns.or(by_stride_ns)
    }
}

/// Turns of the identifications of all flows. Of bounded memory.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    recordings: Map<u16, Recording>,
    /// Instant of the newest event of each recording.
    newest_ns: Map<u16, u64>,
    /// Lost records of each recording.
    lost: Map<u16, u64>,
    /// `None` for flows without a key.
    flows: Map<(FlowId, u16, bool), Option<usize>>,
    by_key: Map<(Key, u16, bool), usize>,
    sides: Vec<Side>,
}

impl Numbering {
    /// Processes the events of a recording. `correlator` has processed them too.
    pub fn push(&mut self, node: u16, info: &NodeInfo, batch: &Batch, correlator: &Correlator) {
        let hops = *self.recordings.entry(node).or_insert_with(|| Recording::of(info));
        let lost = batch.losses.iter().fold(0_u64, |lost, loss| lost.saturating_add(loss.count));
        let left_out = if correlator.may_leave_out_events() { TURN } else { 0 };
        // 0 and the maximum are no valid times
        let watermark_ns = Some(batch.watermark_ns).filter(|ns| *ns != u64::MAX);
        let newest_ns = batch.events.last().map(|event| event.time_ns).max(watermark_ns).unwrap_or(0);
        let read_ns = self.newest_ns.entry(node).or_default();
        *read_ns = newest_ns.max(*read_ns);
        let total = self.lost.entry(node).or_default();
        *total = total.saturating_add(lost).saturating_add(left_out).saturating_add(batch.late);
        for event in batch.events.iter().filter(|event| event.proto != Proto::TCP && event.ip_id != 0) {
            if let Some(end) = hops.end_of(event.hop)
                && let Some(side) = self.side((event.flow, node, end), event.ip_id, correlator)
            {
                side.push(event.ip_id, event.time_ns);
            }
        }
    }

    fn side(&mut self, (flow, node, end): Name, first: u16, correlator: &Correlator) -> Option<&mut Side> {
        let name = (flow, node, end == End::Rx);
        let at = match self.flows.get(&name) {
            Some(at) => *at,
            None if self.flows.len() >= MAX_SIDES => None,
            None => {
                let key = correlator.flow(flow).map(|flow| Key::of(node, end, flow));
                let at = key.map(|key| self.add((key, node, end == End::Rx), first));
                self.flows.insert(name, at);
                at
            }
        };
        self.sides.get_mut(at?)
    }

    /// The side of a key, new or earlier: flows of one key follow each other.
    fn add(&mut self, key: (Key, u16, bool), first: u16) -> usize {
        let new = self.sides.len();
        let at = *self.by_key.entry(key).or_insert(new);
        if at == new {
            let lost_before = self.lost.get(&key.1).copied().unwrap_or_default();
            self.sides.push(Side { newest: first, lost_before, ..Side::default() });
        }
        at
    }

    fn of_key(&self, (key, node): (Key, u16), end: End) -> Option<&Side> {
        self.sides.get(*self.by_key.get(&(key, node, end == End::Rx))?)
    }

    /// True if the two ends advanced by less than a turn. `is_ended`: all events were processed. Before that, events of
    /// one end may be missing, so much less is required.
    pub fn is_within_a_turn(&self, tx: (Key, u16), rx: (Key, u16), is_ended: bool) -> bool {
        let most = if is_ended { TURN } else { TURN / 4 };
        let advanced = self.advanced(tx, End::Tx).zip(self.advanced(rx, End::Rx));
        advanced.is_some_and(|(tx, rx)| tx.saturating_add(rx) < most)
    }

    /// Identifications that may have passed an end, with those of lost records.
    fn advanced(&self, of: (Key, u16), end: End) -> Option<u64> {
        let side = self.of_key(of, end)?;
        let lost = self.lost.get(&of.1).copied().unwrap_or_default();
        Some(side.advanced.saturating_add(lost.saturating_sub(side.lost_before)))
    }

    /// True if the events of a recording were processed up to about an instant.
    pub fn is_read_to(&self, node: u16, at_ns: u64) -> bool {
        self.newest_ns.get(&node).is_some_and(|read_ns| at_ns <= read_ns.saturating_add(UNREAD_NS))
    }

    /// False if neither end has counts.
    pub fn has(&self, tx: (Key, u16), rx: (Key, u16)) -> bool {
        self.of_key(tx, End::Tx).is_some() || self.of_key(rx, End::Rx).is_some()
    }

    /// The shortest time of a turn at either end so far; `None` if unknown.
    pub fn turn_ns(&self, tx: (Key, u16), rx: (Key, u16)) -> Option<u64> {
        let turn_ns = |of, end| self.of_key(of, end)?.turn_ns();
        turn_ns(tx, End::Tx).into_iter().chain(turn_ns(rx, End::Rx)).min()
    }
}

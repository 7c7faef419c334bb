//! Turns of IPv4 identifications: a sender of datagrams repeats each one after 65,536 packets.
//!
//! **The problem.** Two datagrams of one flow and length with equal identifications may be one, or lie any number of
//! turns apart. Datagrams are lost, and a recording may begin or end amid a flow.
//!
//! **The choice.** Each end counts how far its identifications advanced, in the order of its events. Two recordings of
//! exchanged packets overlap in time. So if both ends together advanced by less than a turn, equal identifications are
//! one datagram. Beyond that, only aligned clocks distinguish turns, by the shortest time of a turn.
//!
//! **Many flows.** Those that were idle longest are forgotten. A forgotten flow that returns has new counts. They are
//! used where the clocks are aligned and nothing of its forgotten part can still be on the wire, else none of it is
//! certain. One bit for each hash remembers the forgotten ones. So after millions of them, a new flow may be taken for
//! one that returns, and is certain with aligned clocks alone.

use super::empty::Recording;
use super::key::{End, Key};
use magscope_core::batch::Batch;
use magscope_core::flow::{FlowId, Proto};
use magscope_core::hash::{FoldHasher, Map, Set};
use magscope_core::journey::Correlator;
use magscope_core::node::NodeInfo;
use std::collections::VecDeque;
use std::hash::{BuildHasher, BuildHasherDefault};

/// Identifications of a turn, less those that reordering and packets in flight may hide.
const TURN: u64 = (1 << 16) - (1 << 12);
/// A step back by no more than this is reordering.
const REORDERED: u16 = 1 << 10;
/// Instants are stored once per this many identifications.
const STRIDE: u64 = 1 << 12;
/// A recording that was read up to this long before an instant hides no turn: batches are shorter.
const UNREAD_NS: u64 = 250_000_000;
/// Maximum number of directions of flows, by end; beyond it the half that was idle longest is forgotten.
const MAX_SIDES: usize = 1 << 16;
/// Bits for the hashes of forgotten flows: 1 MiB, three times.
const FORGOTTEN_BITS: u64 = 1 << 23;
/// A datagram takes less than this on the wire, nanoseconds.
const MOST_TRANSIT_NS: u64 = 10_000_000_000;

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
/// A direction of a flow, its recording, and true for its receiver.
type SideKey = (Key, u16, bool);

/// What may have preceded the counts of a side, from the best case to the worst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Past {
    /// Nothing of the recording.
    #[default]
    Nothing,
    /// Forgotten datagrams, none of which is on the wire any more.
    Arrived,
    /// Forgotten datagrams.
    Unknown,
}

/// Identifications of one direction of a flow at one end.
#[derive(Debug, Default)]
struct Side {
    newest: u16,
    /// Instant of its newest event.
    newest_ns: u64,
    past: Past,
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
        self.newest_ns = self.newest_ns.max(time_ns);
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

/// A flow by its name.
#[derive(Clone, Copy, Debug)]
struct Named {
    /// `None` for flows without a key.
    side: Option<usize>,
    /// Number of its newest use.
    newest_use: u64,
}

/// Sides as bits of their hashes: another one may have the same bit.
#[derive(Debug, Default)]
struct Bits(Vec<u64>);

impl Bits {
    /// The word and the bit of a side.
    fn place(key: &SideKey) -> (usize, u64) {
        let bit = BuildHasherDefault::<FoldHasher>::default().hash_one(key) % FORGOTTEN_BITS;
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    fn add(&mut self, key: &SideKey) {
        self.0.resize((FORGOTTEN_BITS / 64) as usize, 0);
        let (word, bit) = Self::place(key);
        if let Some(word) = self.0.get_mut(word) {
            *word |= bit;
        }
    }

    fn may_have(&self, key: &SideKey) -> bool {
        let (word, bit) = Self::place(key);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }
}

/// Sides that were forgotten in one stretch of time.
#[derive(Debug, Default)]
struct Stretch {
    sides: Bits,
    /// Of each recording: the newest instant of what is forgotten.
    to_ns: Map<u16, u64>,
}

impl Stretch {
    /// True if nothing of it is on the wire any more, by the newest instants of a later stretch.
    fn has_arrived(&self, later: &Self) -> bool {
        let mut both = later.to_ns.iter().filter_map(|(node, ns)| Some((self.to_ns.get(node)?, ns)));
        both.all(|(to_ns, ns)| ns.saturating_sub(*to_ns) > MOST_TRANSIT_NS)
    }
}

/// The forgotten sides: all of them, and those of which something may be on the wire. The latter are few, however long
/// the recording is.
#[derive(Debug, Default)]
struct Forgotten {
    all: Bits,
    /// The stretch that goes on, and the one before it.
    recent: [Stretch; 2],
}

impl Forgotten {
    fn add(&mut self, key: &SideKey, newest_ns: u64) {
        self.all.add(key);
        let [now, before] = &mut self.recent;
        now.sides.add(key);
        let to_ns = now.to_ns.entry(key.1).or_default();
        *to_ns = newest_ns.max(*to_ns);
        if before.has_arrived(now) {
            *before = std::mem::take(now);
        }
    }

    fn may_have(&self, key: &SideKey) -> bool {
        self.all.may_have(key)
    }

    /// What may have preceded a side that begins at an instant.
    fn before(&self, key: &SideKey, time_ns: u64) -> Past {
        if !self.may_have(key) {
            return Past::Nothing;
        }
        let may_arrive = |stretch: &&Stretch| {
            let to_ns = stretch.to_ns.get(&key.1).copied().unwrap_or_default();
            stretch.sides.may_have(key) && time_ns.saturating_sub(to_ns) <= MOST_TRANSIT_NS
        };
        if self.recent.iter().any(|stretch| may_arrive(&stretch)) { Past::Unknown } else { Past::Arrived }
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
    flows: Map<(FlowId, u16, bool), Named>,
    by_key: Map<SideKey, usize>,
    sides: Vec<Side>,
    /// Unused places among the sides.
    free: Vec<usize>,
    forgotten: Forgotten,
    /// Number of uses of flows so far.
    uses: u64,
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
            let Some(end) = hops.end_of(event.hop) else { continue };
            let key = || correlator.flow(event.flow).map(|flow| Key::of(node, end, flow));
            self.datagram((event.flow, node, end), event.ip_id, event.time_ns, key);
        }
    }

    /// Counts a datagram. `key` gives the key of its flow.
    fn datagram(&mut self, (flow, node, end): Name, id: u16, time_ns: u64, key: impl FnOnce() -> Option<Key>) {
        self.uses += 1;
        let name = (flow, node, end == End::Rx);
        let side = if let Some(named) = self.flows.get_mut(&name) {
            named.newest_use = self.uses;
            named.side
        } else {
            if self.flows.len() >= MAX_SIDES {
                self.make_room();
            }
            let side = key().map(|key| self.add((key, node, end == End::Rx), id, time_ns));
            self.flows.insert(name, Named { side, newest_use: self.uses });
            side
        };
        if let Some(side) = side.and_then(|at| self.sides.get_mut(at)) {
            side.push(id, time_ns);
        }
    }

    /// The side of a key, new or earlier: flows of one key follow each other.
    fn add(&mut self, key: SideKey, first: u16, time_ns: u64) -> usize {
        if let Some(at) = self.by_key.get(&key) {
            return *at;
        }
        let lost_before = self.lost.get(&key.1).copied().unwrap_or_default();
        let past = self.forgotten.before(&key, time_ns);
        let side = Side { newest: first, past, lost_before, ..Side::default() };
        let at = self.free.pop().unwrap_or(self.sides.len());
        match self.sides.get_mut(at) {
            Some(place) => *place = side,
            None => self.sides.push(side),
        }
        self.by_key.insert(key, at);
        at
    }

    /// Forgets the half of the flows that was idle longest.
    fn make_room(&mut self) {
        let Numbering { flows, by_key, sides, free, forgotten, .. } = self;
        let mut uses: Vec<u64> = flows.values().map(|named| named.newest_use).collect();
        uses.sort_unstable();
        let middle = uses.get(uses.len() / 2).copied().unwrap_or_default();
        flows.retain(|_, named| named.newest_use > middle);
        let used: Set<usize> = flows.values().filter_map(|named| named.side).collect();
        by_key.retain(|key, at| {
            let at = *at;
            let is_used = used.contains(&at);
            if !is_used {
                forgotten.add(key, sides.get(at).map_or(0, |side| side.newest_ns));
                free.push(at);
            }
            is_used
        });
    }

    fn of_key(&self, (key, node): (Key, u16), end: End) -> Option<&Side> {
        self.sides.get(*self.by_key.get(&(key, node, end == End::Rx))?)
    }

    /// True if the two ends advanced by less than a turn. `is_ended`: all events were processed. Before that, events of
    /// one end may be missing, so much less is required. Counts with a worse past than `worst` prove nothing.
    pub fn is_within_a_turn(&self, tx: (Key, u16), rx: (Key, u16), is_ended: bool, worst: Past) -> bool {
        let most = if is_ended { TURN } else { TURN / 4 };
        let advanced = self.advanced(tx, End::Tx, worst).zip(self.advanced(rx, End::Rx, worst));
        advanced.is_some_and(|(tx, rx)| tx.saturating_add(rx) < most)
    }

    /// Identifications that may have passed an end, with those of lost records; `None` with a worse past.
    fn advanced(&self, of: (Key, u16), end: End, worst: Past) -> Option<u64> {
        let side = self.of_key(of, end).filter(|side| side.past <= worst)?;
        let lost = self.lost.get(&of.1).copied().unwrap_or_default();
        Some(side.advanced.saturating_add(lost.saturating_sub(side.lost_before)))
    }

    /// True if the events of a recording were processed up to about an instant.
    pub fn is_read_to(&self, node: u16, at_ns: u64) -> bool {
        self.newest_ns.get(&node).is_some_and(|read_ns| at_ns <= read_ns.saturating_add(UNREAD_NS))
    }

    /// True if neither end ever had counts.
    pub fn is_uncounted(&self, tx: (Key, u16), rx: (Key, u16)) -> bool {
        let is_new = |(key, node): (Key, u16), end: End| {
            let key = (key, node, end == End::Rx);
            !self.by_key.contains_key(&key) && !self.forgotten.may_have(&key)
        };
        is_new(tx, End::Tx) && is_new(rx, End::Rx)
    }

    /// The shortest time of a turn at either end so far; `None` if unknown.
    pub fn turn_ns(&self, tx: (Key, u16), rx: (Key, u16)) -> Option<u64> {
        let turn_ns = |of, end| self.of_key(of, end).filter(|side| side.past <= Past::Arrived)?.turn_ns();
        turn_ns(tx, End::Tx).into_iter().chain(turn_ns(rx, End::Rx)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::flow::Flow;
    use std::net::{Ipv4Addr, SocketAddr};

    /// More flows than the bound: each has two ends.
    const FLOWS: u32 = MAX_SIDES as u32 * 3 / 4;
    const STEP_NS: u64 = 1_000;

    fn key(flow: u32) -> Key {
        let local = SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + flow), 5_000));
        let remote = SocketAddr::from((Ipv4Addr::new(192, 168, 0, 1), 6_000));
        Key::of(
            0,
            End::Tx,
            &Flow { id: FlowId(u64::from(flow) + 1), netns: 1, proto: Proto::UDP, local, remote },
        )
    }

    fn ends(flow: u32) -> ((Key, u16), (Key, u16)) {
        ((key(flow), 0), (key(flow), 1))
    }

    /// One datagram of a flow at both ends.
    fn cross(numbering: &mut Numbering, flow: u32, id: u16, time_ns: u64) {
        for (node, end) in [(0, End::Tx), (1, End::Rx)] {
            let name = (FlowId(u64::from(flow) + 1), node, end);
            numbering.datagram(name, id, time_ns, || Some(key(flow)));
        }
    }

    fn is_within(numbering: &Numbering, flow: u32, worst: Past) -> bool {
        let (tx, rx) = ends(flow);
        numbering.is_within_a_turn(tx, rx, true, worst)
    }

    /// One datagram of each flow.
    fn many() -> Numbering {
        let mut numbering = Numbering::default();
        for flow in 0..FLOWS {
            cross(&mut numbering, flow, 7, u64::from(flow) * STEP_NS);
        }
        numbering
    }

    #[test]
    fn flows_beyond_the_bound_have_counts() {
        let mut numbering = many();
        assert!(numbering.flows.len() <= MAX_SIDES && numbering.sides.len() <= MAX_SIDES);
        assert_eq!(numbering.by_key.len() + numbering.free.len(), numbering.sides.len());
        // But for equal hashes, a new flow is none that returns.
        let certain = (FLOWS - 1_000..FLOWS).filter(|flow| is_within(&numbering, *flow, Past::Nothing));
        assert!(certain.count() > 900);
        for n in 0..40_u32 {
            cross(&mut numbering, FLOWS, (n * 2_048) as u16, u64::from(FLOWS + n) * STEP_NS);
        }
        let (tx, rx) = ends(FLOWS);
        assert!(!numbering.is_uncounted(tx, rx));
        assert!(!is_within(&numbering, FLOWS, Past::Arrived), "its identifications have turned");
    }

    #[test]
    fn a_forgotten_flow_that_returns_is_certain_after_its_datagrams_have_arrived() {
        let mut numbering = many();
        let (tx, rx) = ends(0);
        assert!(numbering.of_key(tx, End::Tx).is_none() && !numbering.is_uncounted(tx, rx));
        assert!(!is_within(&numbering, 0, Past::Arrived));
        let now_ns = u64::from(FLOWS) * STEP_NS;
        cross(&mut numbering, 0, 7, now_ns);
        assert!(!is_within(&numbering, 0, Past::Arrived), "it may have turned");
        cross(&mut numbering, 1, 7, now_ns + 2 * MOST_TRANSIT_NS);
        assert!(is_within(&numbering, 1, Past::Arrived) && !is_within(&numbering, 1, Past::Nothing));
    }

    /// A resolver has a new flow for each question: 10,000 a second, for five minutes.
    #[test]
    fn new_flows_are_not_taken_for_those_that_were_forgotten_long_ago() {
        let (mut forgotten, questions) = (Forgotten::default(), 3_000_000);
        for flow in 0..questions {
            forgotten.add(&(key(flow), 0, true), u64::from(flow) * 100_000);
        }
        let now_ns = u64::from(questions) * 100_000;
        let of = |flow: u32, ns| forgotten.before(&(key(flow), 0, true), ns);
        let new = (questions..questions + 1_000).filter(|flow| of(*flow, now_ns) == Past::Unknown).count();
        assert!(new < 100, "{new} of 1000");
        let newest = questions - 100_000..questions;
        assert!(newest.clone().all(|flow| of(flow, now_ns) == Past::Unknown), "of the last ten seconds");
        assert!(newest.clone().all(|flow| of(flow, now_ns + 2 * MOST_TRANSIT_NS) == Past::Arrived));
        assert!((0..1_000).all(|flow| of(flow, now_ns) != Past::Nothing));
    }
}

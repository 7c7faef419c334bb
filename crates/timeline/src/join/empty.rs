//! Crossings of TCP segments without payload: acknowledgements, SYN, FIN, RST, window updates, keep-alives.
//!
//! They are in no journey. A bulk transfer has nothing else in its other direction, so without them only one side
//! of the clocks' difference would be bounded.
//!
//! **Which segment.** Both ends read the same numbers, flags and IPv4 identification from one segment. Segments
//! with an identification are numbered by their socket, so equal ones are one segment. Without it (IPv6) several
//! may be alike. Only one conclusion holds for any pairing of those: each was received after the *first* was sent.
//! A sending is certainly the first if its numbers exceed all earlier ones at this hop, because TCP's numbers
//! never go back, but for a keep-alive, by one. So only such sendings are used, and none while the recording may have
//! missed one.
//!
//! **Thinned.** In each millisecond and direction, only the quickest crossing is used.

use super::half::Crossing;
use super::key::{End, Key};
use magscope_core::batch::Batch;
use magscope_core::event::{Event, EventFlags};
use magscope_core::flow::{FlowId, Proto};
use magscope_core::hash::Map;
use magscope_core::hop::{Direction, Hop, HopSet, Role};
use magscope_core::journey::Correlator;
use magscope_core::node::NodeInfo;
use std::mem::take;

/// Maximum number of waiting segments, in each of two generations: 20 MiB.
const MAX_WAITING: usize = 1 << 17;
/// Maximum number of directions of connections, by end; beyond it all of them restart.
const MAX_SIDES: usize = 1 << 16;
/// Maximum number of flows, by end, that are assigned to a direction or to none; beyond it all of them restart.
const MAX_NAMES: usize = 1 << 18;
/// Thinning: one crossing in 2²⁰ ns. Two clocks drift by 0.2 µs in that time.
const SLOT_BITS: u32 = 20;
/// A number that its end has passed by this much may return after the wrap of the numbers.
const STALE: u64 = 1 << 31;

const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// What identifies a segment, besides its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Segment {
    seq: u32,
    ack: u32,
    /// 0 without an identification.
    id: u16,
    flags: u8,
}

impl Segment {
    /// The segment of an event; `None` with payload, or without a complete TCP header.
    fn of(event: &Event) -> Option<Self> {
        let cut = EventFlags::PARTIAL.with(EventFlags::FRAGMENT).with(EventFlags::MORE);
        if event.proto != Proto::TCP || event.len != 0 || event.flags.without(cut) != event.flags {
            return None;
        }
        let flags = event.tcp_flags;
        let ack = if flags & ACK == 0 { 0 } else { event.detail.ack() };
        (flags != 0).then_some(Segment { seq: event.seq(), ack, id: event.ip_id, flags })
    }

    /// The sequence number after it: SYN and FIN take one.
    const fn end(self) -> u32 {
        self.seq.wrapping_add((self.flags & 1) as u32 + (self.flags >> 1 & 1) as u32)
    }
}

/// The numbers of one direction of a connection at one end, unwrapped.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    end: Option<u64>,
    ack: Option<u64>,
    /// Newest identification.
    id: Option<u16>,
    /// The SYN was seen: all numbers were, and both ends unwrap them alike.
    started: bool,
    /// Number of the connection between these addresses.
    incarnation: u32,
    last_ns: u64,
}

/// What an end knows of a segment that it sees.
#[derive(Clone, Copy, Debug, Default)]
struct Novelty {
    /// Its numbers exceed all earlier ones.
    numbers: bool,
    /// Its identification follows the earlier ones.
    id: bool,
}

/// A number near to `before`, unwrapped.
fn unwrapped(before: u64, now: u32) -> u64 {
    before.saturating_add_signed(i64::from(now.wrapping_sub(before as u32) as i32))
}

impl Progress {
    /// Adds a segment. Before `blind_to_ns` the recording may have missed segments.
    fn advance(&mut self, segment: Segment, time_ns: u64, blind_to_ns: u64) -> Novelty {
        let id = segment.id != 0
            && self.id.is_none_or(|before| (segment.id.wrapping_sub(before) as i16).is_positive());
        if id {
            self.id = Some(segment.id);
        }
        if segment.flags & RST != 0 {
            return Novelty { numbers: false, id };
        }
        if segment.flags & SYN != 0 && self.end.is_none_or(|end| end as u32 != segment.end()) {
            let incarnation = self.incarnation.wrapping_add(1);
            let id = Some(segment.id).filter(|id| *id != 0);
            *self = Progress { id, started: true, incarnation, last_ns: time_ns, ..Progress::default() };
            self.end = Some(u64::from(segment.seq) + 1);
            self.ack = (segment.flags & ACK != 0).then_some(u64::from(segment.ack));
            // It may repeat one from before the recording.
            return Novelty { numbers: false, id: id.is_some() };
        }
        let sees_all = self.last_ns > blind_to_ns;
        self.started &= sees_all;
        let mut numbers = false;
        let ack = (segment.flags & ACK != 0).then_some(segment.ack);
        // A keep-alive has the number before the newest one, which may have been sent unseen.
        let unseen = u64::from(!sees_all && segment.flags & SYN == 0);
        for (newest, now, unseen) in [(&mut self.end, Some(segment.end()), unseen), (&mut self.ack, ack, 0)] {
            let Some(now) = now else { continue };
            let now = newest.map_or(u64::from(now), |before| unwrapped(before, now));
            numbers |= newest.map_or(self.started, |before| now > before);
            *newest = (*newest).max(Some(now.saturating_add(unseen)));
        }
        self.last_ns = self.last_ns.max(time_ns);
        Novelty { numbers: numbers && sees_all, id }
    }

    /// The numbers of a segment that it has just accepted.
    fn place(&self, segment: Segment) -> [u64; 2] {
        let near = |newest: Option<u64>, now: u32| newest.map_or(0, |before| unwrapped(before, now));
        [near(self.end, segment.end()), near(self.ack, segment.ack)]
    }
}

/// One direction of a connection at one end.
#[derive(Clone, Copy, Debug)]
struct Side {
    node: u16,
    end: End,
    connection: u32,
    progress: Progress,
}

/// A segment seen at one end.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    side: u32,
    incarnation: u32,
    place: [u64; 2],
    time_ns: u64,
}

/// A recording's hops nearest to the wire, and its gaps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recording {
    tx: Option<Hop>,
    rx: Option<Hop>,
    blind_to_ns: u64,
}

impl Recording {
    /// The end of a packet at a hop; `None` unless the hop is the one nearest to the wire.
    pub fn end_of(&self, hop: Hop) -> Option<End> {
        match Some(hop) {
            hop if hop == self.tx => Some(End::Tx),
            hop if hop == self.rx => Some(End::Rx),
            _ => None,
        }
    }

    pub fn of(info: &NodeInfo) -> Self {
        // In a log of several hosts one flow has several ends.
        let served = if info.several.is_some() { HopSet::EMPTY } else { info.coverage.served() };
        let of = |direction| {
            let is_sure = |hop: &Hop| hop.role() == Role::Packet && !hop.is_optional() && *hop != Hop::DevDone;
            let is_seen = move |hop: &Hop| served.contains(*hop) && is_sure(hop);
            Hop::path_in(direction).filter(is_seen)
        };
        Recording { tx: of(Direction::Tx).next_back(), rx: of(Direction::Rx).next(), blind_to_ns: 0 }
    }
}

/// Matches segments without payload between recordings. Of bounded memory.
#[derive(Debug, Default)]
pub(super) struct EmptySegments {
    recordings: Vec<Option<Recording>>,
    /// `None` for addresses that mean another host in each recording.
    sides: Map<(FlowId, u16, bool), Option<u32>>,
    all: Vec<Side>,
    connections: Map<Key, u32>,
    /// The newer and the older generation.
    waiting: [Map<(u32, Segment), Waiting>; 2],
    /// By sender and receiver: the quickest crossing of the newest slot.
    quickest: Map<(u16, u16), Crossing>,
    crossings: Vec<Crossing>,
}

impl EmptySegments {
    /// Processes the events of a recording. `correlator` has processed them too.
    pub fn push(&mut self, node: u16, info: &NodeInfo, batch: &Batch, correlator: &Correlator) {
        let at = usize::from(node);
        if self.recordings.len() <= at {
            self.recordings.resize(at + 1, None);
        }
        let Some(place) = self.recordings.get_mut(at) else { return };
        let recording = place.get_or_insert_with(|| Recording::of(info));
        let gaps = batch.losses.iter().map(|loss| loss.to_ns);
        let gaps = gaps.chain(batch.changes.iter().map(|change| change.to_ns));
        recording.blind_to_ns = gaps.fold(recording.blind_to_ns, u64::max);
        let hops = *recording;
        let mut blind_to_ns = hops.blind_to_ns;
        if correlator.may_leave_out_events() {
            blind_to_ns = u64::MAX;
        }
        for event in &batch.events {
            let Some(end) = hops.end_of(event.hop) else { continue };
            let Some(segment) = Segment::of(event) else { continue };
            if let Some(side) = self.side(node, end, event.flow, correlator) {
                self.segment(side, segment, event.time_ns, blind_to_ns);
            }
        }
    }

    /// The crossings since the last call, but for the newest of each pair.
    pub fn take_crossings(&mut self) -> Vec<Crossing> {
        take(&mut self.crossings)
    }

    /// Ends the input.
    pub fn finish(&mut self) {
        self.crossings.extend(self.quickest.drain().map(|(_, crossing)| crossing));
    }

    /// An address translator changes segments with the sender's key `tx` to those with the receiver's key `rx`, and
    /// the answers back.
    pub fn translated(&mut self, tx: &Key, rx: &Key) {
        for (sender, receiver) in [(*tx, *rx), (rx.reversed(), tx.reversed())] {
            let connection = self.connection(sender);
            self.connections.insert(receiver, connection);
        }
        // The sides of the old keys are found again.
        self.sides.clear();
    }

    fn connection(&mut self, key: Key) -> u32 {
        let next = self.connections.len() as u32;
        *self.connections.entry(key).or_insert(next)
    }

    /// The side of a flow, if this host is an end of it.
    fn side(&mut self, node: u16, end: End, flow: FlowId, correlator: &Correlator) -> Option<usize> {
        let name = (flow, node, end == End::Rx);
        if let Some(side) = self.sides.get(&name) {
            return side.map(|side| side as usize);
        }
        let own_flow = correlator.flow(flow).filter(|_| correlator.is_end_of(flow))?;
        self.make_room();
        let key = Key::of(node, end, own_flow);
        let side = (!key.is_private()).then_some(self.all.len());
        if side.is_some() {
            let connection = self.connection(key);
            self.all.push(Side { node, end, connection, progress: Progress::default() });
        }
        self.sides.insert(name, side.map(|side| side as u32));
        side
    }

    /// Restarts all connections if there are too many. Crossings remain.
    fn make_room(&mut self) {
        if self.all.len() >= MAX_SIDES || self.sides.len() >= MAX_NAMES {
            self.finish();
            let (recordings, crossings) = (take(&mut self.recordings), take(&mut self.crossings));
            *self = EmptySegments { recordings, crossings, ..Self::default() };
        }
    }

    fn segment(&mut self, at: usize, segment: Segment, time_ns: u64, blind_to_ns: u64) {
        let Some(side) = self.all.get_mut(at) else { return };
        let new = side.progress.advance(segment, time_ns, blind_to_ns);
        let may_pair = new.numbers || new.id || segment.id == 0 && side.end == End::Rx;
        if !may_pair {
            return;
        }
        let Side { node, end, connection, progress } = *side;
        let place = progress.place(segment);
        let key = (connection, segment);
        let Some(other) = self.waiting.iter().find_map(|waiting| waiting.get(&key)).copied() else {
            let waiting = Waiting { side: at as u32, incarnation: progress.incarnation, place, time_ns };
            return self.wait(key, waiting);
        };
        let Some(there) = self.all.get(other.side as usize) else { return };
        if there.end == end || there.node == node {
            return;
        }
        for waiting in &mut self.waiting {
            waiting.remove(&key);
        }
        let is_stale = there.progress.incarnation != other.incarnation
            || there.progress.end.is_some_and(|end| end.saturating_sub(other.place[0]) >= STALE)
            || there.progress.ack.is_some_and(|ack| ack.saturating_sub(other.place[1]) >= STALE)
            || there.progress.started && progress.started && other.place != place;
        if is_stale {
            return;
        }
        let (tx_node, rx_node) = if end == End::Tx { (node, there.node) } else { (there.node, node) };
        let (sent_ns, received_ns) =
            if end == End::Tx { (time_ns, other.time_ns) } else { (other.time_ns, time_ns) };
        self.crossed(Crossing { tx_node, rx_node, sent_ns, received_ns });
    }

    fn wait(&mut self, key: (u32, Segment), waiting: Waiting) {
        let [newer, older] = &mut self.waiting;
        if newer.len() >= MAX_WAITING {
            *older = take(newer);
        }
        newer.insert(key, waiting);
    }

    /// Keeps the quickest of each slot of the sender's time. Their order is what counts, so the offset between the
    /// clocks does not matter.
    fn crossed(&mut self, crossing: Crossing) {
        let flight_ns = |crossing: &Crossing| crossing.received_ns.wrapping_sub(crossing.sent_ns) as i64;
        let best = self.quickest.entry((crossing.tx_node, crossing.rx_node)).or_insert(crossing);
        if best.sent_ns >> SLOT_BITS != crossing.sent_ns >> SLOT_BITS {
            self.crossings.push(std::mem::replace(best, crossing));
        } else if flight_ns(&crossing) < flight_ns(best) {
            *best = crossing;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_from_before_a_recording_are_not_new_after_a_keep_alive() {
        let side = |node, end| Side { node, end, connection: 0, progress: Progress::default() };
        let all = vec![side(0, End::Tx), side(1, End::Rx)];
        let mut segments = EmptySegments { all, ..EmptySegments::default() };
        let of = |seq| Segment { seq, ack: 500, id: 0, flags: ACK };
        // The sender's recording begins after this was sent.
        segments.segment(1, of(1_000), 1_000, 0);
        segments.segment(0, of(999), 10_000, 0);
        segments.segment(1, of(999), 10_100, 0);
        segments.segment(0, of(1_000), 12_000, 0);
        segments.finish();
        assert_eq!(segments.take_crossings(), []);
        segments.segment(0, of(1_001), 13_000, 0);
        segments.segment(1, of(1_001), 13_100, 0);
        segments.finish();
        let crossing = Crossing { tx_node: 0, rx_node: 1, sent_ns: 13_000, received_ns: 13_100 };
        assert_eq!(segments.take_crossings(), [crossing]);
        // The same after a gap.
        segments.segment(1, of(2_000), 20_000, 0);
        segments.segment(0, of(1_999), 21_000, 20_500);
        segments.segment(0, of(2_000), 22_000, 20_500);
        segments.finish();
        assert_eq!(segments.take_crossings(), []);
    }

    #[test]
    fn flows_without_another_end_are_bounded_and_cost_no_crossing() {
        let mut segments = EmptySegments::default();
        let crossing = Crossing { tx_node: 0, rx_node: 1, sent_ns: 1, received_ns: 2 };
        segments.crossed(crossing);
        segments.sides.extend((0..MAX_NAMES as u64).map(|i| ((FlowId(i), 0, false), None)));
        segments.make_room();
        assert_eq!(segments.sides.len(), 0);
        assert_eq!(segments.take_crossings(), [crossing]);
    }
}

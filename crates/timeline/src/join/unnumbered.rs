//! Crossings of datagrams without an identification: UDP over IPv6, and over IPv4 with an identification of 0.
//!
//! **Which datagram.** Only flow and length identify one, and several are alike. Packets are lost, repeated and
//! reordered on the path, and records are lost. One conclusion holds for any pairing of those that are alike: each was
//! received after the *first* of them was sent. So the first sending of each length in a flow is one constraint, with
//! the first receipt of that length.
//!
//! **When a sending is the first.** The sender's recording must have all of the flow's sendings. So it must have begun
//! two seconds before the flow, and likewise after a gap. So must the receiver's recording: an earlier user of the same
//! ports may have sent equal datagrams. By the hosts' wall clocks the two must be within a second. After a lost record
//! of the sender, only lengths that were sent before it remain certain.
//!
//! A new flow for each request (DNS) gives a constraint per request. A long flow gives one for each length.

use super::empty::Recording;
use super::half::Crossing;
use super::key::{End, Key};
use super::timeline::Timeline;
use magscope_core::batch::Batch;
use magscope_core::clock::ClockSample;
use magscope_core::event::{Event, EventFlags};
use magscope_core::flow::{FlowId, Proto};
use magscope_core::hash::{Map, Set};
use magscope_core::hop::Hop;
use magscope_core::journey::Correlator;
use magscope_core::node::NodeInfo;
use std::collections::hash_map::Entry;
use std::mem::take;

/// A recording is without this flow for this long before its first datagram.
const QUIET_NS: u64 = 2_000_000_000;
/// Maximum distance of the two ends by the hosts' wall clocks.
const APART_NS: u64 = 1_000_000_000;
/// Maximum number of flows, by end; beyond it no new ones are used.
const MAX_SIDES: usize = 1 << 16;
/// Maximum number of lengths of flows; beyond it no new ones are used.
const MAX_LENGTHS: usize = 1 << 17;

/// One direction of a flow at one end.
#[derive(Clone, Copy, Debug)]
struct Side {
    connection: u32,
    /// Time of its first datagram.
    first_ns: u64,
    /// The newest length whose first datagram was seen: a flow of one length has no further lookup.
    newest_len: Option<u32>,
}

/// The first datagram of a length at one end.
#[derive(Clone, Copy, Debug)]
struct First {
    node: u16,
    time_ns: u64,
    rough_ns: i64,
}

/// A length of a flow. A missing end has not been seen.
#[derive(Clone, Copy, Debug, Default)]
struct Length {
    sent: Option<First>,
    received: Option<First>,
}

/// The hops of a recording, and the end of its newest gap: at first its beginning.
#[derive(Clone, Copy, Debug)]
struct Seen {
    hops: Recording,
    blind_to_ns: u64,
}

/// Pairs datagrams without an identification between recordings. Of bounded memory.
#[derive(Debug, Default)]
pub(super) struct UnnumberedDatagrams {
    recordings: Vec<Option<Seen>>,
    /// `None` for flows that are not used: this host is no end, or their beginning was not seen.
    sides: Map<(FlowId, u16, bool), Option<Side>>,
    /// Flows with an event of a socket here: a forwarder has none.
    ends: Set<(FlowId, u16)>,
    connections: Map<Key, u32>,
    /// By connection and length, in one number: it is hashed for each datagram.
    lengths: Map<u64, Length>,
    crossings: Vec<Crossing>,
}

/// True for a whole datagram without an identification, and for a super-packet of such datagrams.
fn is_unnumbered(event: &Event) -> bool {
    event.proto == Proto::UDP && event.ip_id == 0
}

impl UnnumberedDatagrams {
    /// Processes the events of a recording. `correlator` has processed them too.
    pub fn push(
        &mut self,
        node: u16,
        info: &NodeInfo,
        batch: &Batch,
        correlator: &Correlator,
        timeline: &dyn Timeline,
    ) {
        let at = usize::from(node);
        if self.recordings.len() <= at {
            self.recordings.resize(at + 1, None);
        }
        let Some(place) = self.recordings.get_mut(at) else { return };
        if place.is_none() {
            let event_ns = batch.events.first().map(|event| event.time_ns);
            let begin_ns = event_ns.into_iter().chain(batch.clock.first().map(ClockSample::event_ns)).min();
            *place = begin_ns.map(|ns| Seen { hops: Recording::of(info), blind_to_ns: ns });
        }
        let Some(seen) = place else { return };
        let gaps = batch.losses.iter().map(|loss| loss.to_ns);
        let gaps = gaps.chain(batch.changes.iter().map(|change| change.to_ns));
        // A late event is older than those before it.
        let late_ns = (batch.late > 0).then(|| batch.events.last().map_or(0, |event| event.time_ns));
        seen.blind_to_ns = gaps.chain(late_ns).fold(seen.blind_to_ns, u64::max);
        let Seen { hops, blind_to_ns } = *seen;
        if correlator.may_leave_out_events() {
            return;
        }
        for event in batch.events.iter().filter(|event| event.proto == Proto::UDP) {
            let is_socket = event.hop == Hop::UdpSend || event.hop == Hop::UdpRecv;
            if is_socket && self.ends.len() < MAX_SIDES {
                self.ends.insert((event.flow, node));
            }
        }
        for event in batch.events.iter().filter(|event| is_unnumbered(event)) {
            if let Some(end) = hops.end_of(event.hop) {
                self.datagram((node, end), event, blind_to_ns, correlator, timeline);
            }
        }
    }

    /// The crossings since the last call.
    pub fn take_crossings(&mut self) -> Vec<Crossing> {
        take(&mut self.crossings)
    }

    fn datagram(
        &mut self,
        (node, end): (u16, End),
        event: &Event,
        blind_to_ns: u64,
        correlator: &Correlator,
        timeline: &dyn Timeline,
    ) {
        let name = (event.flow, node, end == End::Rx);
        let side = match self.sides.get(&name) {
            Some(side) => *side,
            None => self.side(name, end, event.time_ns, blind_to_ns, correlator),
        };
        let Some(side) = side else { return };
        let cut = EventFlags::PARTIAL.with(EventFlags::FRAGMENT).with(EventFlags::MORE);
        let is_whole = event.flags.without(cut) == event.flags && event.segs <= 1;
        if !is_whole || end == End::Tx && side.first_ns < blind_to_ns {
            // A super-packet has datagrams of lengths that it does not show, and a gap may have had the first of any
            // length: new lengths are uncertain.
            if end == End::Tx {
                self.sides.insert(name, None);
            }
            return;
        }
        if side.newest_len == Some(event.len) {
            return; // no more than the first of a length is certain
        }
        let is_full = self.lengths.len() >= MAX_LENGTHS;
        let length = match self.lengths.entry(u64::from(side.connection) << 32 | u64::from(event.len)) {
            Entry::Occupied(length) => length.into_mut(),
            Entry::Vacant(_) if is_full => return,
            Entry::Vacant(length) => length.insert(Length::default()),
        };
        let place = if end == End::Tx { &mut length.sent } else { &mut length.received };
        if place.is_some() {
            return;
        }
        *place = Some(First { node, time_ns: event.time_ns, rough_ns: timeline.rough_ns(node, event.time_ns) });
        if let Length { sent: Some(sent), received: Some(received) } = *length
            && sent.node != received.node
            && sent.rough_ns.abs_diff(received.rough_ns) <= APART_NS
        {
            self.crossings.push(Crossing {
                tx_node: sent.node,
                rx_node: received.node,
                sent_ns: sent.time_ns,
                received_ns: received.time_ns,
            });
        }
        self.sides.insert(name, Some(Side { newest_len: Some(event.len), ..side }));
    }

    /// The side of a flow from its first datagram on.
    fn side(
        &mut self,
        name: (FlowId, u16, bool),
        end: End,
        time_ns: u64,
        blind_to_ns: u64,
        correlator: &Correlator,
    ) -> Option<Side> {
        if self.sides.len() >= MAX_SIDES {
            return None;
        }
        let (flow, node, _) = name;
        let flow_here = correlator.flow(flow).filter(|_| self.ends.contains(&(flow, node)));
        let key = flow_here.map(|flow| Key::of(node, end, flow)).filter(|key| !key.is_private());
        let is_new = time_ns >= blind_to_ns.saturating_add(QUIET_NS);
        let side = key.filter(|_| is_new).map(|key| {
            let next = self.connections.len() as u32;
            let connection = *self.connections.entry(key).or_insert(next);
            Side { connection, first_ns: time_ns, newest_len: None }
        });
        self.sides.insert(name, side);
        side
    }
}

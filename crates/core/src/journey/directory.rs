//! The flows of flow ids, and the stream of each direction of a flow.

use super::limits::Counters;
use super::proofs::{Proofs, Proven};
use super::state::StreamRef;
use super::stream::Stream;
use crate::flow::{Endpoint, Flow, FlowId, Proto, is_from_anybody};
use crate::hash::Map;
use crate::hop::Direction;
use std::net::SocketAddr;

/// One direction between two addresses. Loopback addresses mean another host in every namespace. Others may mean
/// the same host in all of them, so the two ends share a key. Connections of other namespaces between equal
/// addresses have further streams of the same key (see [`super::namesakes`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct StreamKey {
    proto: Proto,
    from: Endpoint,
    to: Endpoint,
    netns: u32,
    /// True for the receiving half, if the two are never one stream.
    receives: Option<bool>,
}

#[derive(Clone, Debug)]
struct Entry {
    flow: Flow,
    tx: Option<u32>,
    rx: Option<u32>,
    /// True if this node only passes on the packets that it sends, or receives, in this flow.
    passes: [bool; 2],
    /// Low bits of the number of the batch that announced it.
    batch: u32,
}

/// Flows and their streams.
#[derive(Debug, Default)]
pub(super) struct Directory {
    flows: Map<FlowId, Entry>,
    /// The first stream between two addresses.
    keys: Map<StreamKey, u32>,
    /// Further streams between the same addresses, of connections in other namespaces.
    further: Map<StreamKey, Vec<u32>>,
    free: Vec<u32>,
    generation: u32,
    /// Batches so far, low bits.
    batches: u32,
    /// The last flow looked up, because events occur in runs.
    last: Option<(FlowId, bool, u32)>,
    /// Whether this node only passes on its packets.
    last_passes: bool,
    /// What was proven before the first event.
    proven: Proven,
    /// What was proven since, if it is kept.
    proofs: Option<Proofs>,
}

impl StreamKey {
    fn of(flow: &Flow, receives: bool) -> Self {
        let (from, to) = if receives { (flow.remote, flow.local) } else { (flow.local, flow.remote) };
        let (from, to) = (canonical(from), canonical(to));
        let anybody = is_from_anybody(flow.proto, from);
        let private = from.ip().is_loopback() || to.ip().is_loopback() || anybody;
        let netns = if private { flow.netns } else { 0 };
        StreamKey { proto: flow.proto, from, to, netns, receives: anybody.then_some(receives) }
    }
}

fn new_stream(free: &mut Vec<u32>, generation: &mut u32, proto: Proto, streams: &mut Vec<Stream>) -> u32 {
    *generation = generation.wrapping_add(1);
    let slot = free.pop().unwrap_or(streams.len() as u32);
    let stream = Stream::new(proto, StreamRef { slot, generation: *generation });
    match streams.get_mut(slot as usize) {
        Some(place) => *place = stream,
        None => streams.push(stream),
    }
    slot
}

/// IPv4 mapped into IPv6 is the same host.
fn canonical(end: Endpoint) -> Endpoint {
    SocketAddr::new(end.ip().to_canonical(), end.port())
}

impl Directory {
    /// Another batch begins.
    pub const fn next_batch(&mut self) {
        self.batches = self.batches.wrapping_add(1);
    }

    pub fn announce(&mut self, flow: &Flow, counters: &mut Counters) {
        if flow.id.is_none() {
            return;
        }
        if let Some(announced) = self.flows.get(&flow.id) {
            counters.flow_collisions += u64::from(announced.flow != *flow);
        } else {
            let passes = self.proven.passes(flow.id);
            self.flows.insert(flow.id, Entry { flow: *flow, tx: None, rx: None, passes, batch: self.batches });
        }
    }

    pub fn len(&self) -> usize {
        self.flows.len()
    }

    pub fn get(&self, id: FlowId) -> Option<&Flow> {
        self.flows.get(&id).map(|entry| &entry.flow)
    }

    /// The streams in which a flow sends and receives, if it has them.
    pub fn streams_of(&self, id: FlowId) -> [Option<u32>; 2] {
        self.flows.get(&id).map_or([None; 2], |entry| [entry.tx, entry.rx])
    }

    pub fn iter(&self) -> impl Iterator<Item = &Flow> {
        self.flows.values().map(|entry| &entry.flow)
    }

    /// The stream of one direction of a flow, a new one if necessary; `None` if the flow was not announced, or
    /// if one of its ports is 0.
    pub fn stream(&mut self, id: FlowId, direction: Direction, streams: &mut Vec<Stream>) -> Option<usize> {
        let receives = direction == Direction::Rx;
        if let Some((last, side, slot)) = self.last
            && last == id
            && side == receives
        {
            return Some(slot as usize);
        }
        let entry = self.flows.get_mut(&id)?;
        let passes = entry.passes[usize::from(receives)];
        let place = if receives { &mut entry.rx } else { &mut entry.tx };
        let slot = if let Some(slot) = *place {
            slot
        } else if !entry.flow.has_its_ports() {
            return None;
        } else {
            let key = StreamKey::of(&entry.flow, receives);
            let (free, generation, proto) = (&mut self.free, &mut self.generation, entry.flow.proto);
            let earlier = self.keys.get(&key).copied().or_else(|| self.proven.slot(&key));
            let slot = if let Some(slot) = earlier {
                if let Some(stream) = streams.get_mut(slot as usize) {
                    stream.has_several_flows = true;
                }
                slot
            } else {
                let slot = new_stream(free, generation, proto, streams);
                self.proven.begins(&key, slot);
                slot
            };
            self.keys.insert(key, slot);
            *place = Some(slot);
            slot
        };
        (self.last, self.last_passes) = (Some((id, receives, slot)), passes);
        Some(slot as usize)
    }

    /// True if this node only passes on packets of the flow in this direction.
    pub fn passes(&self, id: FlowId, receives: bool) -> bool {
        if self.last.is_some_and(|(last, side, _)| last == id && side == receives) {
            return self.last_passes;
        }
        self.flows.get(&id).is_some_and(|entry| entry.passes[usize::from(receives)])
    }

    /// Marks a flow as one of a node that only passes its packets on. Returns true if it was not marked.
    pub fn set_passes(&mut self, id: FlowId, receives: bool) -> bool {
        self.last = None;
        let Some(entry) = self.flows.get_mut(&id) else { return false };
        !std::mem::replace(&mut entry.passes[usize::from(receives)], true)
    }

    /// Gives the addresses of a flow to the stream `to`, because its packets are the same, and with them all flows
    /// between these addresses. With `alone` no other flow has the stream `from`. Returns true if no addresses are
    /// left to `from`; then its slot is free.
    pub fn rekey(&mut self, id: FlowId, receives: bool, from: u32, to: u32, alone: bool) -> bool {
        let Some(entry) = self.flows.get_mut(&id) else { return false };
        let key = StreamKey::of(&entry.flow, receives);
        self.keys.insert(key, to);
        self.last = None;
        if alone {
            let place = if receives { &mut entry.rx } else { &mut entry.tx };
            *place = Some(to);
        } else {
            for entry in self.flows.values_mut() {
                if entry.tx == Some(from) && StreamKey::of(&entry.flow, false) == key {
                    entry.tx = Some(to);
                }
                if entry.rx == Some(from) && StreamKey::of(&entry.flow, true) == key {
                    entry.rx = Some(to);
                }
            }
        }
        let unused = alone || self.keys.values().all(|slot| *slot != from);
        if unused {
            self.free.push(from);
            self.proven.replace(|slot| Some(if slot == from { to } else { slot }));
        }
        unused
    }

    /// Keeps what is proven from now on.
    pub fn keep_proofs(&mut self) {
        self.proofs.get_or_insert_default();
    }

    pub const fn proofs(&self) -> Option<&Proofs> {
        self.proofs.as_ref()
    }

    pub fn begin_with(&mut self, proven: Proven) {
        self.proven = proven;
    }

    /// A packet has shown that the addresses of `before` became those of `after`; each is a flow, and whether it receives.
    pub fn note_translation(&mut self, time_ns: u64, before: (FlowId, bool), after: (FlowId, bool)) {
        let key = |(flow, receives)| self.get(flow).map(|flow| StreamKey::of(flow, receives));
        let keys = key(before).zip(key(after));
        if let (Some(proofs), Some((before, after))) = (&mut self.proofs, keys) {
            proofs.translated(time_ns, before, after);
        }
    }

    /// A packet has shown that the node passes on those of the flow.
    pub fn note_passed_on(&mut self, time_ns: u64, flow: FlowId, receives: bool) {
        if let Some(proofs) = &mut self.proofs {
            proofs.passes_on(time_ns, flow, receives);
        }
    }

    /// True for an announced flow without one of its ports.
    pub fn lacks_port(&self, id: FlowId) -> bool {
        self.flows.get(&id).is_some_and(|entry| !entry.flow.has_its_ports())
    }

    /// Every stream between the addresses of a flow.
    pub fn all_streams(&self, id: FlowId, direction: Direction) -> Vec<usize> {
        let Some(entry) = self.flows.get(&id) else { return Vec::new() };
        let key = StreamKey::of(&entry.flow, direction == Direction::Rx);
        let further = self.further.get(&key).into_iter().flatten();
        self.keys.get(&key).into_iter().chain(further).map(|slot| *slot as usize).collect()
    }

    /// A further stream between the addresses of a flow.
    pub fn further_stream(
        &mut self,
        id: FlowId,
        direction: Direction,
        streams: &mut Vec<Stream>,
    ) -> Option<usize> {
        let flow = &self.flows.get(&id)?.flow;
        let key = StreamKey::of(flow, direction == Direction::Rx);
        let slot = new_stream(&mut self.free, &mut self.generation, flow.proto, streams);
        self.further.entry(key).or_default().push(slot);
        Some(slot as usize)
    }

    /// Makes this the stream of one direction of a flow.
    pub fn assign(&mut self, id: FlowId, direction: Direction, slot: usize) {
        let Some(entry) = self.flows.get_mut(&id) else { return };
        let place = if direction == Direction::Rx { &mut entry.rx } else { &mut entry.tx };
        *place = Some(slot as u32);
        self.last = None;
    }

    /// Evicts every flow and stream that `keep` rejects. A flow stays as long as one of its streams does. With
    /// `fresh` it also stays if announced by this batch or the previous one: its events may still follow.
    pub fn retain(&mut self, fresh: bool, mut keep: impl FnMut(usize) -> bool) -> u64 {
        let (before, batches) = (self.flows.len(), self.batches);
        self.last = None;
        // Several addresses may have one stream, which is asked for once.
        let mut decided: Map<u32, bool> = Map::default();
        let free = &mut self.free;
        let mut stays = |slot: u32| {
            *decided.entry(slot).or_insert_with(|| {
                let stays = keep(slot as usize);
                if !stays {
                    free.push(slot);
                }
                stays
            })
        };
        self.keys.retain(|_, slot| stays(*slot));
        let keys = &mut self.keys;
        self.further.retain(|key, slots| {
            slots.retain(|slot| stays(*slot));
            if !keys.contains_key(key)
                && let Some(slot) = slots.pop()
            {
                keys.insert(*key, slot);
            }
            !slots.is_empty()
        });
        self.flows.retain(|_, entry| {
            let stays = |slot: &mut Option<u32>| {
                *slot = slot.filter(|s| decided.get(s) == Some(&true));
                slot.is_some()
            };
            let (tx, rx) = (stays(&mut entry.tx), stays(&mut entry.rx));
            tx || rx || (fresh && batches.wrapping_sub(entry.batch) <= 1)
        });
        self.proven.replace(|slot| Some(slot).filter(|slot| decided.get(slot) != Some(&false)));
        (before - self.flows.len()) as u64
    }
}

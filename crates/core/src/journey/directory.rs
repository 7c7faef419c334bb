//! The flows of flow ids, and the stream of each direction of a flow.

use super::limits::Counters;
use super::state::StreamRef;
use super::stream::Stream;
use crate::flow::{Endpoint, Flow, FlowId, Proto, is_from_anybody};
use crate::hash::{Map, Set};
use crate::hop::Direction;
use std::net::SocketAddr;

/// One direction between two addresses. Loopback addresses mean another host in every namespace, all others the
/// same one in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct StreamKey {
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
    /// The batch that announced it.
    batch: u64,
}

/// Flows and their streams.
#[derive(Debug, Default)]
pub(super) struct Directory {
    flows: Map<FlowId, Entry>,
    keys: Map<StreamKey, u32>,
    free: Vec<u32>,
    generation: u32,
    /// Batches so far.
    batches: u64,
    /// The last flow looked up, because events occur in runs.
    last: Option<(FlowId, bool, u32)>,
}

/// IPv4 mapped into IPv6 is the same host.
fn canonical(end: Endpoint) -> Endpoint {
    SocketAddr::new(end.ip().to_canonical(), end.port())
}

impl Directory {
    /// Another batch begins.
    pub const fn next_batch(&mut self) {
        self.batches += 1;
    }

    pub fn announce(&mut self, flow: &Flow, counters: &mut Counters) {
        if flow.id.is_none() {
            return;
        }
        if let Some(known) = self.flows.get(&flow.id) {
            counters.flow_collisions += u64::from(known.flow != *flow);
        } else {
            self.flows.insert(flow.id, Entry { flow: *flow, tx: None, rx: None, batch: self.batches });
        }
    }

    pub fn len(&self) -> usize {
        self.flows.len()
    }

    pub fn get(&self, id: FlowId) -> Option<&Flow> {
        self.flows.get(&id).map(|entry| &entry.flow)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Flow> {
        self.flows.values().map(|entry| &entry.flow)
    }

    /// The stream of one direction of a flow, a new one if necessary; `None` if the flow was not announced.
    pub fn stream(&mut self, id: FlowId, direction: Direction, streams: &mut Vec<Stream>) -> Option<usize> {
        let receives = direction == Direction::Rx;
        if let Some((last, side, slot)) = self.last
            && last == id
            && side == receives
        {
            return Some(slot as usize);
        }
        let entry = self.flows.get_mut(&id)?;
        let place = if receives { &mut entry.rx } else { &mut entry.tx };
        let slot = if let Some(slot) = *place {
            slot
        } else {
            let flow = &entry.flow;
            let (from, to) = if receives { (flow.remote, flow.local) } else { (flow.local, flow.remote) };
            let (from, to) = (canonical(from), canonical(to));
            let anybody = is_from_anybody(flow.proto, from);
            let private = from.ip().is_loopback() || to.ip().is_loopback() || anybody;
            let netns = if private { flow.netns } else { 0 };
            let key = StreamKey { proto: flow.proto, from, to, netns, receives: anybody.then_some(receives) };
            let slot = *self.keys.entry(key).or_insert_with(|| {
                self.generation = self.generation.wrapping_add(1);
                let slot = self.free.pop().unwrap_or(streams.len() as u32);
                let stream = Stream::new(flow.proto, StreamRef { slot, generation: self.generation });
                match streams.get_mut(slot as usize) {
                    Some(place) => *place = stream,
                    None => streams.push(stream),
                }
                slot
            });
            *place = Some(slot);
            slot
        };
        self.last = Some((id, receives, slot));
        Some(slot as usize)
    }

    /// Evicts every flow and stream that `keep` rejects. A flow stays as long as one of its streams does. With
    /// `fresh` it also stays if announced by this batch or the previous one: its events may still follow.
    pub fn retain(&mut self, fresh: bool, mut keep: impl FnMut(usize) -> bool) -> u64 {
        let (before, batches) = (self.flows.len(), self.batches);
        self.last = None;
        let mut kept: Set<u32> = Set::default();
        self.keys.retain(|_, slot| {
            if keep(*slot as usize) {
                kept.insert(*slot);
                true
            } else {
                self.free.push(*slot);
                false
            }
        });
        self.flows.retain(|_, entry| {
            let stays = |slot: &mut Option<u32>| {
                *slot = slot.filter(|s| kept.contains(s));
                slot.is_some()
            };
            let (tx, rx) = (stays(&mut entry.tx), stays(&mut entry.rx));
            tx || rx || (fresh && entry.batch + 1 >= batches)
        });
        (before - self.flows.len()) as u64
    }
}

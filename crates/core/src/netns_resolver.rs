//! The network namespace of an event, also for events without a namespace field.
//!
//! A flow names its namespace. An unconnected socket and a scheduler event have no flow. Their namespace is
//! that of the last event with a flow on the same socket or thread.

use crate::event::Event;
use crate::flow::FlowId;
use crate::hash::Map;
use crate::hop::Hop;

/// Maximum number of stored flows, of sockets and of threads; beyond it the table restarts empty.
const MAX_ENTRIES: usize = 1 << 16;

/// The namespaces of flows, sockets and threads. Bounded.
#[derive(Debug, Default)]
pub struct Places {
    flows: Map<FlowId, u32>,
    sockets: Map<u64, u32>,
    threads: Map<u32, u32>,
    last: Option<(FlowId, u32)>,
}

fn keep<K: Eq + std::hash::Hash>(map: &mut Map<K, u32>, key: K, netns: u32) {
    if map.len() >= MAX_ENTRIES {
        map.clear();
    }
    map.insert(key, netns);
}

impl Places {
    /// The namespace of an event. `netns_of` resolves a flow that is not stored here yet.
    pub fn of(&mut self, event: &Event, netns_of: impl FnOnce(FlowId) -> Option<u32>) -> Option<u32> {
        if event.flow.is_none() {
            return self.by_socket(event);
        }
        let netns = match self.last {
            Some((flow, netns)) if flow == event.flow => netns,
            _ => self.of_flow(event.flow, netns_of)?,
        };
        // only where a socket without a peer occurs again: UDP's receiving side, and processes
        if event.socket != 0 && event.hop == Hop::UdpRecv {
            keep(&mut self.sockets, event.socket, netns);
        }
        if event.tid != 0 && event.hop.knows_process() {
            keep(&mut self.threads, event.tid, netns);
        }
        Some(netns)
    }

    fn of_flow(&mut self, flow: FlowId, netns_of: impl FnOnce(FlowId) -> Option<u32>) -> Option<u32> {
        let netns = if let Some(netns) = self.flows.get(&flow) {
            *netns
        } else {
            let netns = netns_of(flow)?;
            keep(&mut self.flows, flow, netns);
            netns
        };
        self.last = Some((flow, netns));
        Some(netns)
    }

    fn by_socket(&mut self, event: &Event) -> Option<u32> {
        let of_socket = if event.socket == 0 { None } else { self.sockets.get(&event.socket).copied() };
        let netns = of_socket.or_else(|| self.threads.get(&event.tid).copied().filter(|_| event.tid != 0))?;
        if event.tid != 0 && event.hop.knows_process() {
            keep(&mut self.threads, event.tid, netns);
        }
        Some(netns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_and_threads_are_where_they_were_seen_with_a_flow() {
        let mut places = Places::default();
        let netns_of = |flow: FlowId| (flow.0 == 1).then_some(77);
        let datagram = Event { flow: FlowId(1), socket: 9, ..Event::at(Hop::UdpRecv, 1) };
        assert_eq!(places.of(&datagram, netns_of), Some(77));
        let read = Event { socket: 9, tid: 5, ..Event::at(Hop::AppRecv, 2) };
        assert_eq!(places.of(&read, netns_of), Some(77));
        assert_eq!(places.of(&Event { tid: 5, ..Event::at(Hop::TaskWake, 3) }, netns_of), Some(77));
        assert_eq!(places.of(&Event { tid: 6, ..Event::at(Hop::TaskWake, 3) }, netns_of), None);
        assert_eq!(places.of(&Event { flow: FlowId(2), ..Event::at(Hop::IpIn, 3) }, netns_of), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut places = Places::default();
        for id in 1..200_000u64 {
            let event = Event { flow: FlowId(id), socket: id, tid: id as u32, ..Event::at(Hop::AppRecv, id) };
            places.of(&event, |_| Some(1));
        }
        assert!(places.flows.len() <= MAX_ENTRIES && places.threads.len() <= MAX_ENTRIES);
    }
}

//! The network namespace of an event, also for events without a namespace field.
//!
//! **The problem.** An unconnected socket and a scheduler event have no flow, which would name their namespace. A thread
//! may use sockets of several namespaces, so its last one proves nothing of another socket.
//!
//! **The choice.** An event with a socket has the namespace of that socket, which never changes: that of its packets at
//! `ip.out` and `udp.recv`. The first packet of a socket may have no cookie yet; its call returns later and has it. The
//! packet of a tunnel may leave in that call too, after the one inside it, so the first packet of a call decides, until
//! one with the cookie does. A scheduler event, and any event without a socket, has the namespace of its thread's last
//! event with one.
//!
//! **Known limits.** A call of an unconnected socket is of no namespace until a packet of the socket was recorded at one
//! of these hops.

use crate::event::Event;
use crate::flow::{FlowId, Proto};
use crate::hash::Map;
use crate::hop::{Hop, Layer};

/// Maximum number of stored flows, of sockets and of threads; beyond it the table restarts empty.
const MAX_ENTRIES: usize = 1 << 16;
/// Maximum time from the first packet of a call to the call's return, nanoseconds. An older packet is of another call.
const CALL_NS: u64 = 1_000_000_000;

/// The namespace of a packet without a cookie.
#[derive(Clone, Copy, Debug)]
struct CallPlace {
    netns: u32,
    time_ns: u64,
}

impl CallPlace {
    /// True if an event at this instant may be of the same call.
    const fn is_at(self, time_ns: u64) -> bool {
        time_ns.saturating_sub(self.time_ns) <= CALL_NS
    }
}

/// The namespace of a socket.
#[derive(Clone, Copy, Debug)]
struct SocketPlace {
    netns: u32,
    /// It is that of a packet without a cookie, in a call of the socket.
    is_guess: bool,
}

/// The namespaces of flows, sockets and threads. Bounded.
#[derive(Debug, Default)]
pub struct Places {
    flows: Map<FlowId, u32>,
    sockets: Map<u64, SocketPlace>,
    threads: Map<u32, u32>,
    /// The first packet without a cookie of each call, by the thread of the call.
    calls: Map<u32, CallPlace>,
    last: Option<(FlowId, u32)>,
}

fn keep<K: Eq + std::hash::Hash, V>(map: &mut Map<K, V>, key: K, value: V) {
    if map.len() >= MAX_ENTRIES {
        map.clear();
    }
    map.insert(key, value);
}

impl Places {
    /// The namespace of an event. `netns_of` resolves a flow that is not stored here yet.
    pub fn of(&mut self, event: &Event, netns_of: impl FnOnce(FlowId) -> Option<u32>) -> Option<u32> {
        let netns = if event.flow.is_none() {
            self.without_flow(event)?
        } else {
            let netns = match self.last {
                Some((flow, netns)) if flow == event.flow => netns,
                _ => self.of_flow(event.flow, netns_of)?,
            };
            self.remember(event, netns);
            netns
        };
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

    /// Stores the namespace of a packet for the events of its socket without a flow. Those of TCP have one.
    fn remember(&mut self, event: &Event, netns: u32) {
        if event.hop == Hop::AppSend {
            // The call is over, and its socket has a peer.
            self.calls.remove(&event.tid);
            return;
        }
        let is_of_datagram = event.hop == Hop::IpOut && event.proto != Proto::TCP;
        if !is_of_datagram && !matches!(event.hop, Hop::UdpSend | Hop::UdpRecv) {
            return;
        }
        if event.socket == 0 {
            let has_first = self.calls.get(&event.tid).is_some_and(|call| call.is_at(event.time_ns));
            if event.tid != 0 && !has_first {
                keep(&mut self.calls, event.tid, CallPlace { netns, time_ns: event.time_ns });
            }
        } else if self.sockets.get(&event.socket).is_none_or(|place| place.is_guess) {
            keep(&mut self.sockets, event.socket, SocketPlace { netns, is_guess: false });
        }
    }

    fn without_flow(&mut self, event: &Event) -> Option<u32> {
        let call = if event.hop == Hop::AppSend { self.calls.remove(&event.tid) } else { None };
        let of_call = call.filter(|call| call.is_at(event.time_ns)).map(|call| call.netns);
        if event.socket != 0 {
            let of_socket = self.sockets.get(&event.socket).map(|place| place.netns);
            if let Some(netns) = of_call.filter(|_| of_socket.is_none()) {
                keep(&mut self.sockets, event.socket, SocketPlace { netns, is_guess: true });
            }
            let of_either = of_socket.or(of_call);
            if of_either.is_some() || event.hop.layer() != Layer::Sched {
                return of_either;
            }
        }
        self.threads.get(&event.tid).copied().filter(|_| event.tid != 0)
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
    fn a_call_is_where_the_packets_of_its_socket_are() {
        const THREAD: u32 = 5;
        let (mut places, netns_of) = (Places::default(), |flow: FlowId| Some(60 + flow.0 as u32));
        let event = |hop, socket| Event { socket, tid: THREAD, proto: Proto::UDP, ..Event::at(hop, 1) };
        let packet = |hop, socket, flow| Event { flow: FlowId(flow), ..event(hop, socket) };
        let mut of = |event: Event| places.of(&event, netns_of);
        // One thread reads a socket in one namespace, and sends by another one elsewhere.
        assert_eq!(of(Event { tid: 0, ..packet(Hop::UdpRecv, 9, 1) }), Some(61));
        assert_eq!(of(event(Hop::AppRecv, 9)), Some(61));
        // The first packet of a socket has no cookie.
        assert_eq!(of(packet(Hop::IpOut, 0, 2)), Some(62));
        assert_eq!(of(event(Hop::AppSend, 8)), Some(62));
        assert_eq!(of(event(Hop::AppRecv, 9)), Some(61));
        assert_eq!(of(event(Hop::AppSend, 8)), Some(62));
        assert_eq!(of(packet(Hop::IpOut, 7, 3)), Some(63));
        // The packet of a tunnel around it.
        assert_eq!(of(packet(Hop::IpOut, 7, 4)), Some(64));
        assert_eq!(of(event(Hop::AppSend, 7)), Some(63));
        // The thread's last namespace is no proof for another socket; a wake-up is of the thread.
        assert_eq!(of(event(Hop::AppSend, 6)), None);
        assert_eq!(of(event(Hop::TaskWake, 6)), Some(63));
        // A call on a socket with a peer ends the wait for a cookie.
        assert_eq!(of(packet(Hop::IpOut, 0, 2)), Some(62));
        assert_eq!(of(packet(Hop::AppSend, 4, 2)), Some(62));
        assert_eq!(of(event(Hop::AppSend, 6)), None);
    }

    #[test]
    fn the_first_packet_of_a_call_decides_and_not_that_of_a_tunnel() {
        let (mut places, netns_of) = (Places::default(), |flow: FlowId| Some(60 + flow.0 as u32));
        let event = |hop, socket, ns| Event { socket, tid: 5, proto: Proto::UDP, ..Event::at(hop, ns) };
        let packet = |socket, flow, ns| Event { flow: FlowId(flow), ..event(Hop::IpOut, socket, ns) };
        let mut of = |event: Event| places.of(&event, netns_of);
        // The tunnel's own socket has no cookie either.
        assert_eq!(of(packet(0, 1, 10)), Some(61));
        assert_eq!(of(packet(0, 2, 20)), Some(62));
        assert_eq!(of(event(Hop::AppSend, 8, 30)), Some(61));
        assert_eq!(of(event(Hop::AppRecv, 8, 40)), Some(61));
        // The next call, whose packet has the cookie: that one is certain.
        assert_eq!(of(packet(8, 3, 50)), Some(63));
        assert_eq!(of(packet(8, 4, 60)), Some(64));
        assert_eq!(of(event(Hop::AppRecv, 8, 70)), Some(63));
        // The return of a call was lost: its packet is not of the next one.
        assert_eq!(of(packet(0, 1, 100)), Some(61));
        assert_eq!(of(packet(0, 2, 101 + CALL_NS)), Some(62));
        assert_eq!(of(event(Hop::AppSend, 9, 102 + CALL_NS)), Some(62));
        assert_eq!(of(packet(0, 1, 2 * CALL_NS)), Some(61));
        assert_eq!(of(event(Hop::AppSend, 7, 3 * CALL_NS + 1)), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut places = Places::default();
        for id in 1..200_000u64 {
            let event = Event { flow: FlowId(id), socket: id, tid: id as u32, ..Event::at(Hop::AppRecv, id) };
            places.of(&event, |_| Some(1));
            let packet = Event { proto: Proto::UDP, hop: Hop::IpOut, ..event };
            places.of(&packet, |_| Some(1));
            places.of(&Event { socket: 0, ..packet }, |_| Some(1));
        }
        let sizes = [places.flows.len(), places.sockets.len(), places.threads.len(), places.calls.len()];
        assert!(sizes.iter().all(|size| (1..=MAX_ENTRIES).contains(size)), "{sizes:?}");
    }
}

//! Finds the datagram of a read for sockets without a peer, whose reads have no flow.
//!
//! A read carries its socket and length. Datagrams are read in order of arrival, so a queue per socket
//! identifies the datagram: the first of equal length, as in the correlator. The read goes to the bucket of its
//! datagram. A subscriber of some buckets therefore sees matching reads and datagrams.

use super::subject::Part;
use magscope_core::hash::Map;
use magscope_core::{Event, FlowId, Hop};
use std::collections::VecDeque;

/// Maximum number of sockets; at the limit the table is cleared.
const MAX_SOCKETS: usize = 1 << 12;
/// Maximum number of datagrams per socket.
const MAX_QUEUE: usize = 1 << 9;
/// Maximum distance of a read from the head of its queue.
const RESYNC_WINDOW: usize = 32;

#[derive(Clone, Copy, Debug)]
struct Waiting {
    flow: FlowId,
    len: u32,
    skb: u32,
    ip_id: u16,
    part: Part,
}

/// Receive queues by socket.
#[derive(Debug, Default)]
pub struct Reads {
    queues: Map<u64, VecDeque<Waiting>>,
    /// The last socket that received a flow's datagrams.
    sockets: Map<FlowId, u64>,
}

impl Reads {
    /// Registers a datagram of this part that reached its socket.
    pub fn arrived(&mut self, event: &Event, part: Part) {
        let Event { flow, len, skb, ip_id, socket, .. } = *event;
        if socket == 0 {
            return;
        }
        if self.queues.len() >= MAX_SOCKETS && !self.queues.contains_key(&socket) {
            self.queues.clear();
            self.sockets.clear();
        }
        if self.sockets.len() >= MAX_SOCKETS * 16 {
            self.sockets.clear();
        }
        self.sockets.insert(flow, socket);
        let queue = self.queues.entry(socket).or_default();
        if queue.len() >= MAX_QUEUE {
            queue.pop_front();
        }
        queue.push_back(Waiting { flow, len, skb, ip_id, part });
    }

    /// Removes a datagram that the kernel dropped.
    pub fn dropped(&mut self, event: &Event) {
        let Some(queue) = self.sockets.get(&event.flow).and_then(|socket| self.queues.get_mut(socket)) else {
            return;
        };
        let is_it = |one: &Waiting| {
            let same = one.ip_id != 0 && one.ip_id == event.ip_id || one.skb != 0 && one.skb == event.skb;
            one.flow == event.flow && one.len == event.len && same
        };
        if let Some(at) = queue.iter().rposition(is_it) {
            queue.remove(at);
        }
    }

    /// The part of the datagram that was read or peeked.
    pub fn read(&mut self, event: &Event) -> Option<Part> {
        let queue = self.queues.get_mut(&event.socket)?;
        let found = queue.iter().take(RESYNC_WINDOW).position(|one| one.len == event.len);
        let at = found.unwrap_or(0);
        let part = queue.get(at)?.part;
        let looks = event.hop == Hop::AppCopy || event.peeks();
        if !looks {
            queue.remove(at);
        }
        if queue.is_empty() {
            self.queues.remove(&event.socket);
        }
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::{EventFlags, Proto};

    fn event(hop: Hop, flow: u64, len: u32, ip_id: u16) -> Event {
        Event { flow: FlowId(flow), socket: 9, len, ip_id, proto: Proto::UDP, ..Event::at(hop, 1) }
    }

    #[test]
    fn reads_go_where_their_datagrams_went() {
        let part = |number| Part::numbered(number).unwrap();
        let mut reads = Reads::default();
        for (flow, len, ip_id, to) in [(1, 100, 1, 3), (2, 100, 2, 4), (1, 200, 3, 3), (3, 100, 4, 5)] {
            reads.arrived(&event(Hop::UdpRecv, flow, len, ip_id), part(to));
        }
        let mut read = |hop, len, flags| reads.read(&Event { flags, ..event(hop, 0, len, 0) });
        let plain = EventFlags::default();
        assert_eq!(read(Hop::AppRecv, 100, EventFlags::PEEK), Some(part(3)));
        assert_eq!(read(Hop::AppCopy, 100, plain), Some(part(3)));
        assert_eq!(read(Hop::AppRecv, 100, plain), Some(part(3)));
        reads.dropped(&event(Hop::SkbDrop, 2, 100, 2));
        let mut read = |len| reads.read(&event(Hop::AppRecv, 0, len, 0));
        assert_eq!([read(200), read(100), read(100)], [Some(part(3)), Some(part(5)), None]);
    }
}

//! Which datagram a read took, where the socket has no peer and so the read has no flow.
//!
//! A read names its socket and its length. Datagrams are read in the order in which the socket got them, so a queue a socket tells which one
//! it was, by the rule that the correlator has: the first that is as long. A read then goes where its datagram went, and whoever takes
//! only some buckets still sees reads and datagrams of a socket in step.

use super::subject::Part;
use magscope_core::hash::Map;
use magscope_core::{Event, FlowId, Hop};
use std::collections::VecDeque;

/// Sockets remembered; beyond, that memory starts afresh.
const MAX_SOCKETS: usize = 1 << 12;
/// Datagrams remembered a socket.
const MAX_QUEUE: usize = 1 << 9;
/// How far a read may be from the head of its queue.
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
    /// Where datagrams of a flow last went.
    sockets: Map<FlowId, u64>,
}

impl Reads {
    /// A datagram of this part found its socket.
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

    /// The kernel dropped a datagram; it waits no longer, if it did.
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

    /// The part of the datagram that a read, or a look, was about.
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

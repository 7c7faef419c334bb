//! Receive queues of UDP sockets, and the sends that wait for their return.
//!
//! A read of a datagram has the socket and the length, not the packet. A [`Queue`] per socket finds the datagram.

use super::entry::Arrival;
use super::piece::Mark;
use super::queue::{Conditions, Front, Queue};
use super::state::StreamRef;
use crate::event::Event;
use crate::flow::FlowId;
use crate::hash::Map;

/// Sockets remembered.
const MAX_SOCKETS: usize = 1 << 15;
/// Datagrams remembered a socket.
const MAX_QUEUE: usize = 1 << 14;
/// Datagrams of flows that a sampler left out, in all queues.
const MAX_OTHERS: usize = 1 << 16;
/// Maximum number of sends without their packet so far.
const MAX_BEGUN: usize = 1 << 12;

/// A datagram: its stream and where it starts there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DatagramRef {
    pub stream: StreamRef,
    pub start: u64,
    pub len: u32,
}

/// An entry of a queue: a datagram, or the datagrams of a super-packet. The length is that of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Queued {
    pub first: DatagramRef,
    more: Box<[u64]>,
}

/// Replaces the stream of a datagram from a flow that a sampler left out.
const OTHER: StreamRef = StreamRef { slot: u32::MAX, generation: u32::MAX };

impl DatagramRef {
    /// A datagram of a flow that a sampler left out.
    const fn other(flow: FlowId, len: u32) -> Self {
        DatagramRef { stream: OTHER, start: flow.0, len }
    }

    /// True for an entry without any other information.
    pub fn is_other(&self) -> bool {
        self.stream == OTHER
    }
}

impl Queued {
    /// Datagrams of one stream with `len` bytes together; `None` without any.
    pub fn run(stream: StreamRef, starts: &[u64], len: u32) -> Option<Self> {
        let (first, more) = starts.split_first()?;
        Some(Queued { first: DatagramRef { stream, start: *first, len }, more: more.into() })
    }

    /// Without these, of which the first is none.
    pub fn without(&self, starts: &[u64]) -> Self {
        let more = self.more.iter().copied().filter(|start| !starts.contains(start)).collect();
        Queued { first: self.first, more }
    }

    /// Start of each.
    pub fn starts(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.first.start).chain(self.more.iter().copied())
    }
}

/// The match of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Match {
    /// The datagram of the read; `None` if only others are known to have left the queue.
    pub run: Option<Queued>,
    /// True if length or order contradict it.
    pub ambiguous: bool,
    /// The instant since which an arrival or a read of this socket may have been lost, so that the order proves
    /// nothing.
    pub in_doubt_since_ns: Option<u64>,
    /// True if arrivals or reads were left out deliberately, and the queue was not known to be correct since.
    pub torn: bool,
    /// Others that have left the queue without a read that was seen.
    pub gone: Vec<Queued>,
}

/// A read, or a peek.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub len: u32,
    pub time_ns: u64,
    /// True for a peek, which removes nothing.
    pub looks: bool,
    pub tid: u32,
    pub front: Front,
    /// The last time at which this thread found nothing to read; 0 if unknown.
    pub empty_ns: u64,
}

/// Queues by socket cookie.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    queues: Map<u64, Queue>,
    /// Last datagram sent, by thread and by socket.
    sent: Map<(u8, u64), Queued>,
    /// Sends in progress, by thread: socket, bytes (0: unknown), and the event.
    begun: Map<u32, (u64, u32, Mark)>,
    /// Entries added since the last clean-up.
    queued: usize,
    /// Datagrams of other flows since their last count, and the position of the last one of each.
    others: usize,
    other_at: Map<FlowId, u64>,
    /// Instant at which all queues were emptied.
    emptied_ns: u64,
    /// Sockets and entries evicted since the last read of this counter.
    pub forgotten: u64,
}

impl Sockets {
    /// A datagram arrived at its socket.
    pub fn arrived(&mut self, cookie: u64, arrival: Arrival) {
        let time_ns = arrival.time_ns;
        if self.queues.len() >= MAX_SOCKETS && !self.queues.contains_key(&cookie) {
            let before = self.queues.len();
            self.queues.retain(|_, q| !q.is_empty() && time_ns.saturating_sub(q.last_ns) < 1_000_000_000);
            if self.queues.len() >= MAX_SOCKETS {
                self.queues.clear();
                self.emptied_ns = time_ns;
            }
            self.forgotten += (before - self.queues.len()) as u64;
        }
        let parted_ns = self.emptied_ns;
        let queue = self.queues.entry(cookie).or_insert_with(|| Queue::since(parted_ns));
        if queue.len() >= MAX_QUEUE {
            queue.evict(time_ns);
            self.forgotten += 1;
        }
        queue.push(arrival);
        self.queued += 1;
    }

    /// A datagram from a flow that a sampler left out arrived at its socket.
    pub fn other_arrived(&mut self, event: &Event) {
        let Event { socket: cookie, flow, len, skb, cpu, time_ns, .. } = *event;
        if self.others >= MAX_OTHERS {
            let lie_there = |queue: &Queue| queue.iter().filter(|d| d.first.is_other()).count();
            self.others = self.queues.values().map(lie_there).sum();
            if self.other_at.len() >= MAX_OTHERS {
                self.other_at.clear();
            }
            if self.others >= MAX_OTHERS / 2 {
                // No thread reads them. The next read may take one of them.
                self.forgotten += self.queues.len() as u64;
                self.queues.clear();
                self.others = 0;
                self.emptied_ns = time_ns;
            }
        }
        let first = DatagramRef::other(flow, len);
        let run = Queued { first, more: Box::default() };
        self.arrived(cookie, Arrival { run, skb, cpu, time_ns });
        self.queued = self.queued.saturating_sub(1);
        self.others += 1;
        self.other_at.insert(flow, cookie);
    }

    /// The kernel dropped a datagram from a flow that a sampler left out, for lack of room: the last of its
    /// flow.
    pub fn other_dropped(&mut self, flow: FlowId, len: u32) -> bool {
        let queue = self.other_at.get(&flow).and_then(|cookie| self.queues.get_mut(cookie));
        queue.is_some_and(|queue| queue.remove_newest(DatagramRef::other(flow, len)))
    }

    /// Takes a datagram from whichever queue holds it, near the head. 0 is no buffer.
    pub fn take_waiting(&mut self, skb: u32, len: u32, is_it: impl Fn(&DatagramRef) -> bool) -> Option<Queued> {
        if skb == 0 {
            return None;
        }
        let fits = |d: &Queued| d.first.len == len && !d.first.is_other() && is_it(&d.first);
        let mut found = self.queues.values_mut().filter_map(|queue| queue.remove_near_head(fits));
        found.next()
    }

    /// The datagrams that a `sock.ready` announces.
    pub fn announced(&mut self, event: &Event, each: impl FnMut(&Queued)) {
        if let Some(queue) = self.queues.get_mut(&event.socket) {
            queue.announced(event.cpu, event.time_ns, each);
        }
    }

    /// The datagram that a copy to a reader's memory names by its buffer.
    pub fn copied(&self, cookie: u64, skb: u32, is_open: impl Fn(&DatagramRef) -> bool) -> Option<Queued> {
        self.queues.get(&cookie)?.copied(skb, is_open)
    }

    /// The datagram that a read took, if known. `is_open` is true for a datagram that still waits for a read: those
    /// that the kernel dropped later are skipped.
    pub fn read(
        &mut self,
        cookie: u64,
        read: &Read,
        conditions: Conditions<'_>,
        is_open: impl Fn(&DatagramRef) -> bool,
    ) -> Option<Match> {
        self.queues.get_mut(&cookie)?.read(read, conditions, is_open)
    }

    /// A reader of this socket was woken: it had slept, so both queues were empty except for new arrivals.
    pub fn reader_slept(&mut self, event: &Event, order_since_ns: Option<u64>) {
        if let Some(queue) = self.queues.get_mut(&event.socket) {
            queue.reader_slept(event.tid, event.time_ns, order_since_ns);
        }
    }

    /// True if many more entries wait than pieces are open, so that a clean-up is worthwhile.
    pub fn is_crowded(&self, open: usize) -> bool {
        self.queued > 4 * open + 4096
    }

    /// Discards entries that no longer wait.
    pub fn forget(&mut self, is_open: impl Fn(&DatagramRef) -> bool) {
        self.queues.retain(|_, queue| {
            queue.retain(&is_open);
            !queue.is_empty() || queue.is_parted()
        });
        let queued = |queue: &Queue| queue.iter().filter(|d| !d.first.is_other()).count();
        self.queued = self.queues.values().map(queued).sum();
    }

    /// A datagram left by this thread and socket; either may be 0, unknown.
    pub fn went_out(&mut self, tid: u32, cookie: u64, datagram: &Queued) {
        if self.sent.len() >= 2 * MAX_SOCKETS {
            self.forgotten += self.sent.len() as u64;
            self.sent.clear();
        }
        for key in [(0, u64::from(tid)), (1, cookie)] {
            if key.1 != 0 {
                self.sent.insert(key, datagram.clone());
            }
        }
    }

    /// The datagram of a returning `send`.
    pub fn send_returned(&mut self, tid: u32, cookie: u64, len: u32) -> Option<Queued> {
        let keys = [(0, u64::from(tid)), (1, cookie)];
        let is_it =
            |key: &&(u8, u64)| key.1 != 0 && self.sent.get(key).is_some_and(|sent| sent.first.len == len);
        let found = self.sent.remove(keys.iter().find(is_it)?)?;
        // It returns once, and a socket that sends no more would keep it.
        for key in keys {
            if self.sent.get(&key).is_some_and(|sent| sent.first == found.first) {
                self.sent.remove(&key);
            }
        }
        Some(found)
    }

    /// A thread called `send`. Returns the number of its earlier sends that are abandoned.
    pub fn send_begins(&mut self, event: &Event, mark: Mark) -> u64 {
        let mut lost = 0;
        if self.begun.len() >= MAX_BEGUN && !self.begun.contains_key(&event.tid) {
            lost += self.begun.len() as u64;
            self.begun.clear();
        }
        let before = self.begun.insert(event.tid, (event.socket, event.len, mark));
        lost + u64::from(before.is_some())
    }

    /// The call in which this thread made a packet, unless socket or length contradict it.
    pub fn send_began(&mut self, tid: u32, cookie: u64, len: u32) -> Option<Mark> {
        let (socket, asked, mark) = *self.begun.get(&tid)?;
        let same_socket = socket == cookie || socket == 0 || cookie == 0;
        if !same_socket || asked != len && asked != 0 {
            return None;
        }
        self.begun.remove(&tid).map(|_| mark)
    }

    /// A send of this thread has returned: an earlier one without a packet made none. True if there is such a
    /// send.
    pub fn send_ended(&mut self, tid: u32) -> u64 {
        u64::from(self.begun.remove(&tid).is_some())
    }
}

//! Receive queues of UDP sockets, and the sends that wait for their return.
//!
//! A read of a datagram has the socket and the length, not the packet. Datagrams are read in the order of their
//! arrival at the socket, so a queue per socket identifies the datagram, and the length verifies it.

use super::losses::Losses;
use super::piece::Mark;
use super::state::StreamRef;
use crate::event::Event;
use crate::flow::FlowId;
use crate::hash::Map;
use std::collections::VecDeque;

/// Sockets remembered.
const MAX_SOCKETS: usize = 1 << 15;
/// Datagrams remembered a socket.
const MAX_QUEUE: usize = 1 << 14;
/// Maximum distance of a read from the head of its queue.
const RESYNC_WINDOW: usize = 32;

/// Time that a reader counts as one of several after another thread's read from the same socket.
const SEVERAL_NS: u64 = 1_000_000_000;
/// Minimum time after the previous datagram for a datagram to be the cause of a wake-up: a wake-up takes
/// microseconds.
const ALONE_NS: u64 = 1_000_000;
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
    more: Vec<u64>,
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
        Some(Queued { first: DatagramRef { stream, start: *first, len }, more: more.to_vec() })
    }

    /// Start of each.
    pub fn starts(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.first.start).chain(self.more.iter().copied())
    }
}

/// The match of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Match {
    pub run: Queued,
    /// True if length or order contradict it.
    pub ambiguous: bool,
    /// The instant since which an arrival or a read of this socket may have been lost, so that the order proves
    /// nothing.
    pub in_doubt_since_ns: Option<u64>,
    /// True if arrivals or reads were left out deliberately, and the queue was not known to be correct since.
    pub torn: bool,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Queued>,
    /// Number of entries at the back without a notification of the reader.
    unannounced: usize,
    last_ns: u64,
    /// Arrival of the previous one.
    before_ns: u64,
    /// Instant at which this queue last certainly agreed with the kernel's.
    agreed_ns: u64,
    /// The last eviction from this queue, while the kernel's queue still had the entry.
    parted_ns: u64,
    /// The last reader, and the last time that two different threads read successively.
    reader: u32,
    several_ns: Option<u64>,
}

/// A read, or a peek.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub len: u32,
    pub time_ns: u64,
    /// True for a peek, which removes nothing.
    pub looks: bool,
    pub tid: u32,
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
    pub fn arrived(&mut self, cookie: u64, datagram: Queued, time_ns: u64) {
        if self.queues.len() >= MAX_SOCKETS && !self.queues.contains_key(&cookie) {
            let before = self.queues.len();
            self.queues
                .retain(|_, q| !q.waiting.is_empty() && time_ns.saturating_sub(q.last_ns) < 1_000_000_000);
            if self.queues.len() >= MAX_SOCKETS {
                self.queues.clear();
                self.emptied_ns = time_ns;
            }
            self.forgotten += (before - self.queues.len()) as u64;
        }
        let parted_ns = self.emptied_ns;
        let queue = self.queues.entry(cookie).or_insert_with(|| Queue { parted_ns, ..Queue::default() });
        if queue.waiting.len() >= MAX_QUEUE {
            queue.waiting.pop_front();
            queue.parted_ns = time_ns;
            self.forgotten += 1;
        }
        queue.before_ns = std::mem::replace(&mut queue.last_ns, time_ns);
        queue.waiting.push_back(datagram);
        queue.unannounced += 1;
        self.queued += 1;
    }

    /// A datagram from a flow that a sampler left out arrived at its socket.
    pub fn other_arrived(&mut self, cookie: u64, flow: FlowId, len: u32, time_ns: u64) {
        if self.others >= MAX_OTHERS {
            let lie_there = |queue: &Queue| queue.waiting.iter().filter(|d| d.first.is_other()).count();
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
        self.arrived(cookie, Queued { first, more: Vec::new() }, time_ns);
        self.queued = self.queued.saturating_sub(1);
        self.others += 1;
        self.other_at.insert(flow, cookie);
    }

    /// The kernel dropped a datagram from a flow that a sampler left out, for lack of room: the last of its
    /// flow.
    pub fn other_dropped(&mut self, flow: FlowId, len: u32) -> bool {
        let queue = self.other_at.get(&flow).and_then(|cookie| self.queues.get_mut(cookie));
        let first = DatagramRef::other(flow, len);
        let at = queue.as_ref().and_then(|queue| queue.waiting.iter().rposition(|d| d.first == first));
        let Some((queue, at)) = queue.zip(at) else { return false };
        queue.waiting.remove(at);
        queue.unannounced = queue.unannounced.min(queue.waiting.len());
        true
    }

    /// Takes a datagram from whichever queue holds it, near the head. 0 is no buffer.
    pub fn take_waiting(&mut self, skb: u32, len: u32, is_it: impl Fn(&DatagramRef) -> bool) -> Option<Queued> {
        if skb == 0 {
            return None;
        }
        let fits = |d: &Queued| d.first.len == len && !d.first.is_other() && is_it(&d.first);
        let waiting = self.queues.values_mut().filter(|queue| !queue.waiting.is_empty());
        let mut found = waiting.filter_map(|queue| {
            let at = queue.waiting.iter().take(RESYNC_WINDOW).position(fits)?;
            queue.unannounced = queue.unannounced.min(queue.waiting.len() - 1);
            queue.waiting.remove(at)
        });
        found.next()
    }

    /// The datagrams that a `sock.ready` announces.
    pub fn announced(&mut self, cookie: u64, mut each: impl FnMut(&Queued)) {
        if let Some(queue) = self.queues.get_mut(&cookie) {
            let new = queue.unannounced.min(queue.waiting.len());
            queue.waiting.iter().rev().take(new).for_each(&mut each);
            queue.unannounced = 0;
        }
    }

    /// The datagram that a read of `len` bytes took, if known. `is_open` is true for a datagram that still
    /// waits for a read: those that the kernel dropped later are skipped.
    pub fn read(
        &mut self,
        cookie: u64,
        read: &Read,
        losses: &Losses,
        order_since_ns: Option<u64>,
        is_open: impl Fn(&DatagramRef) -> bool,
    ) -> Option<Match> {
        let Read { len, time_ns, looks, tid } = *read;
        let queue = self.queues.get_mut(&cookie)?;
        while queue.waiting.front().is_some_and(|d| !is_open(&d.first)) {
            queue.waiting.pop_front();
        }
        let fits = |d: &Queued| d.first.len == len && is_open(&d.first);
        let found = queue.waiting.iter().take(RESYNC_WINDOW).position(fits);
        // No length fits: the buffer was too small for the datagram, and the order decides.
        let at = found.unwrap_or(0);
        let run = queue.waiting.get(at)?.clone();
        // After a lost arrival or read, the order proves nothing.
        let agreed_ns = queue.agreed_ns;
        let in_doubt = losses.overlap(agreed_ns, time_ns);
        let torn = order_since_ns.is_none_or(|since_ns| agreed_ns < since_ns.max(queue.parted_ns));
        if queue.reader != 0 && queue.reader != tid {
            queue.several_ns = Some(time_ns);
        }
        queue.reader = tid;
        // Two threads may return in another order than that of their reads.
        let several = queue.several_ns.is_some_and(|ns| time_ns.saturating_sub(ns) < SEVERAL_NS);
        let alike = several && queue.waiting.iter().take(RESYNC_WINDOW).filter(|d| fits(d)).nth(1).is_some();
        if !looks {
            queue.waiting.remove(at);
            queue.unannounced = queue.unannounced.min(queue.waiting.len());
            // With arrivals left out, the kernel's queue may hold more.
            if queue.waiting.is_empty() && !in_doubt && !torn {
                queue.agreed_ns = time_ns;
            }
        }
        let in_doubt_since_ns = in_doubt.then_some(agreed_ns);
        Some(Match { run, ambiguous: found != Some(0) || in_doubt || alike, in_doubt_since_ns, torn })
    }

    /// A reader of this socket was woken: it had slept, so both queues were empty except for new arrivals.
    pub fn reader_slept(&mut self, cookie: u64, order_since_ns: Option<u64>) {
        let Some(queue) = self.queues.get_mut(&cookie) else { return };
        let order_since_ns = order_since_ns.map(|since_ns| since_ns.max(queue.parted_ns));
        // Of the entries during an omission only the last can still be present, if it arrived alone: it woke
        // the reader.
        if order_since_ns.is_some_and(|since_ns| queue.agreed_ns < since_ns && queue.last_ns >= since_ns)
            && queue.last_ns.saturating_sub(queue.before_ns) > ALONE_NS
        {
            queue.waiting.drain(..queue.waiting.len().saturating_sub(1));
        }
        if queue.waiting.len() <= 1 {
            queue.agreed_ns = queue.last_ns;
        }
    }

    /// True if many more entries wait than pieces are open, so that a clean-up is worthwhile.
    pub fn is_crowded(&self, open: usize) -> bool {
        self.queued > 4 * open + 4096
    }

    /// Discards entries that no longer wait.
    pub fn forget(&mut self, is_open: impl Fn(&DatagramRef) -> bool) {
        self.queues.retain(|_, queue| {
            queue.waiting.retain(|d| is_open(&d.first));
            queue.unannounced = queue.unannounced.min(queue.waiting.len());
            !queue.waiting.is_empty() || queue.agreed_ns < queue.parted_ns
        });
        let known = |queue: &Queue| queue.waiting.iter().filter(|d| !d.first.is_other()).count();
        self.queued = self.queues.values().map(known).sum();
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

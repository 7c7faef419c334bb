//! Receive queues of UDP sockets, and the sends that wait for their return.
//!
//! A read of a datagram names the socket and the length, not the packet. Datagrams are read in the order in which the
//! socket got them, so a queue per socket tells which one it was, and the length checks it.

use super::desk::StreamRef;
use super::losses::Losses;
use crate::hash::Map;
use std::collections::VecDeque;

/// Sockets remembered.
const MAX_SOCKETS: usize = 1 << 15;
/// Datagrams remembered a socket.
const MAX_QUEUE: usize = 1 << 14;
/// How far a read may be from the head of its queue.
const RESYNC_WINDOW: usize = 32;

/// A datagram: its stream and where it starts there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DatagramRef {
    pub stream: StreamRef,
    pub start: u64,
    pub len: u32,
}

/// What a read matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Match {
    pub datagram: DatagramRef,
    /// Length or order spoke against it.
    pub ambiguous: bool,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<DatagramRef>,
    /// How many at the back the reader was not yet told of.
    unannounced: usize,
    last_ns: u64,
    /// When this queue and the kernel's were last known to agree.
    agreed_ns: u64,
}

/// A read, or a look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub len: u32,
    pub time_ns: u64,
    /// It takes nothing out.
    pub looks: bool,
}

/// Queues by socket cookie.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    queues: Map<u64, Queue>,
    /// Last datagram sent, by thread and by socket.
    sent: Map<(u8, u64), DatagramRef>,
    /// Entries put in since the last clean-up.
    queued: usize,
    /// Sockets and entries given up on since this was last taken.
    pub forgotten: u64,
}

impl Sockets {
    /// A datagram found its socket.
    pub fn arrived(&mut self, cookie: u64, datagram: DatagramRef, time_ns: u64) {
        if self.queues.len() >= MAX_SOCKETS && !self.queues.contains_key(&cookie) {
            let before = self.queues.len();
            self.queues
                .retain(|_, q| !q.waiting.is_empty() && time_ns.saturating_sub(q.last_ns) < 1_000_000_000);
            if self.queues.len() >= MAX_SOCKETS {
                self.queues.clear();
            }
            self.forgotten += (before - self.queues.len()) as u64;
        }
        let queue = self.queues.entry(cookie).or_default();
        if queue.waiting.len() >= MAX_QUEUE {
            queue.waiting.pop_front();
            self.forgotten += 1;
        }
        queue.last_ns = time_ns;
        queue.waiting.push_back(datagram);
        queue.unannounced += 1;
        self.queued += 1;
    }

    /// The datagrams that a `sock.ready` announces.
    pub fn announced(&mut self, cookie: u64, mut each: impl FnMut(DatagramRef)) {
        if let Some(queue) = self.queues.get_mut(&cookie) {
            let new = queue.unannounced.min(queue.waiting.len());
            queue.waiting.iter().rev().take(new).for_each(|d| each(*d));
            queue.unannounced = 0;
        }
    }

    /// The datagram that a read of `len` bytes took, if one is known. `is_open` says whether a datagram still waits
    /// to be read: those that the kernel dropped after all are passed over.
    pub fn read(
        &mut self,
        cookie: u64,
        read: Read,
        losses: &Losses,
        is_open: impl Fn(&DatagramRef) -> bool,
    ) -> Option<Match> {
        let Read { len, time_ns, looks } = read;
        let queue = self.queues.get_mut(&cookie)?;
        while queue.waiting.front().is_some_and(|d| !is_open(d)) {
            queue.waiting.pop_front();
        }
        let fits = |d: &DatagramRef| d.len == len && is_open(d);
        let found = queue.waiting.iter().take(RESYNC_WINDOW).position(fits);
        // No length fits: the buffer was too small for the datagram, and the order has to do.
        let at = found.unwrap_or(0);
        let datagram = *queue.waiting.get(at)?;
        // Where an arrival or a read was lost since, the order proves nothing.
        let in_doubt = losses.overlap(queue.agreed_ns, time_ns);
        if !looks {
            queue.waiting.remove(at);
            queue.unannounced = queue.unannounced.min(queue.waiting.len());
            if queue.waiting.is_empty() && !in_doubt {
                queue.agreed_ns = time_ns;
            }
        }
        Some(Match { datagram, ambiguous: found != Some(0) || in_doubt })
    }

    /// A reader of this socket was woken: it had slept, so but for what has come since both queues were empty.
    pub fn reader_slept(&mut self, cookie: u64) {
        if let Some(queue) = self.queues.get_mut(&cookie)
            && queue.waiting.len() <= 1
        {
            queue.agreed_ns = queue.last_ns;
        }
    }

    /// Whether many more wait here than are open, so that a clean-up pays.
    pub fn is_crowded(&self, open: usize) -> bool {
        self.queued > 4 * open + 4096
    }

    /// Forgets what no longer waits.
    pub fn forget(&mut self, is_open: impl Fn(&DatagramRef) -> bool) {
        self.queues.retain(|_, queue| {
            queue.waiting.retain(|d| is_open(d));
            queue.unannounced = queue.unannounced.min(queue.waiting.len());
            !queue.waiting.is_empty()
        });
        self.queued = self.queues.values().map(|q| q.waiting.len()).sum();
    }

    /// A datagram went out by this thread and socket; either may be 0, unknown.
    pub fn went_out(&mut self, tid: u32, cookie: u64, datagram: DatagramRef) {
        if self.sent.len() >= 2 * MAX_SOCKETS {
            self.forgotten += self.sent.len() as u64;
            self.sent.clear();
        }
        for key in [(0, u64::from(tid)), (1, cookie)] {
            if key.1 != 0 {
                self.sent.insert(key, datagram);
            }
        }
    }

    /// The datagram whose `send` returns now.
    pub fn send_returned(&mut self, tid: u32, cookie: u64, len: u32) -> Option<DatagramRef> {
        for key in [(0, u64::from(tid)), (1, cookie)] {
            if key.1 != 0
                && let Some(datagram) = self.sent.get(&key).copied()
                && datagram.len == len
            {
                self.sent.remove(&key);
                return Some(datagram);
            }
        }
        None
    }
}

//! Arrivals at a UDP socket, as entries of its receive queue.

use super::sockets::Queued;

/// An arrival at a socket.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    pub run: Queued,
    /// Its buffer; 0 if unknown.
    pub skb: u32,
    pub cpu: u16,
    pub time_ns: u64,
}

/// A datagram, or a run of them, in a queue.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub run: Queued,
    pub skb: u32,
    pub cpu: u16,
    /// Time at its hop, before it entered the queue.
    pub hop_ns: u64,
    pub place: Place,
    /// True if an earlier read may have taken it.
    pub is_doubted: bool,
    /// True if an earlier read was assigned to it in doubt. It stays until it has certainly left the queue.
    pub is_assigned: bool,
}

/// The place of an arrival in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// On its way to the queue, or in it.
    Unknown,
    /// In the queue at this time, or already read.
    Queued(u64),
    /// Out of the queue at this time, for a read that has not returned yet.
    Left(u64),
}

impl Entry {
    /// True if it certainly entered the queue before a later arrival. One CPU handles its packets in order.
    pub fn is_before(&self, other: &Self) -> bool {
        match self.place {
            Place::Left(_) => true,
            Place::Queued(at_ns) if at_ns <= other.hop_ns => true,
            Place::Queued(_) | Place::Unknown => self.cpu == other.cpu && self.hop_ns <= other.hop_ns,
        }
    }

    pub fn has_left(&self) -> bool {
        matches!(self.place, Place::Left(_))
    }

    pub fn has_left_after(&self, time_ns: u64) -> bool {
        matches!(self.place, Place::Left(at_ns) if at_ns > time_ns)
    }

    /// True if no earlier read can have taken it.
    pub fn is_firm(&self) -> bool {
        !self.is_doubted && !self.is_assigned
    }
}

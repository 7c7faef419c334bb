//! The waiting halves of one direction of a connection.

use super::half::{Crossing, Half};
use super::key::{End, Key};
use super::pairing::Unjoined;
use magscope_core::flow::{Endpoint, Proto};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of halves examined for the bytes of one half: more than can lie inside one, except in a
/// malicious file.
const MAX_OVERLAPS: usize = 1024;

/// Thinning of crossings: one in 2²⁰ ns. Two clocks drift by 0.2 µs in that time.
const SLOT_BITS: u32 = 20;
/// Number of held crossings of a connection from which they are thinned.
const ALL_HELD: usize = 1 << 10;

/// Halves of one end, by the fields that both ends read from the packet. The values are indices into the
/// joiner's list.
#[derive(Debug, Default)]
struct Side {
    /// TCP: by first sequence number.
    seqs: BTreeSet<(u64, u64)>,
    /// Longest of them so far, bytes.
    longest: u64,
    /// Datagrams: by identification and length.
    datagrams: BTreeMap<(u16, u64), BTreeSet<u64>>,
}

/// One direction of a connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub key: Key,
    /// The receiver's key, if it differs.
    pub translated: Option<(Endpoint, Endpoint)>,
    /// The same as a key.
    pub received_key: Key,
    /// Crossings of datagrams that count if the identifications did not turn.
    pub held: Vec<Crossing>,
    /// The connection of which this is the other end, once known.
    pub alias: Option<usize>,
    pub nodes: (Option<u16>, Option<u16>),
    /// Number of halves seen, by end.
    pub seen: [u64; 2],
    pub joined: u64,
    /// Of these, by an identification that may have turned.
    pub uncertain: u64,
    /// Of these, by an identification that had not turned so far, by the recordings of sender and receiver.
    pub certain_so_far: BTreeMap<(u16, u16), u64>,
    /// Evicted halves, by end.
    pub alone: [u64; 2],
    /// True if some of its halves have a key besides their addresses.
    pub has_keys: bool,
    sides: [Side; 2],
}

impl Connection {
    pub fn new(key: Key) -> Self {
        Connection {
            key,
            translated: None,
            received_key: key,
            held: Vec::new(),
            alias: None,
            nodes: (None, None),
            seen: [0; 2],
            joined: 0,
            uncertain: 0,
            certain_so_far: BTreeMap::new(),
            alone: [0; 2],
            has_keys: false,
            sides: Default::default(),
        }
    }

    pub const fn is_stream(&self) -> bool {
        self.key.proto.0 == Proto::TCP.0
    }

    pub const fn has_both_ends(&self) -> bool {
        self.seen[0] > 0 && self.seen[1] > 0
    }

    pub fn note(&mut self, half: &Half) {
        self.seen[half.end as usize] += 1;
        let place = if half.end == End::Tx { &mut self.nodes.0 } else { &mut self.nodes.1 };
        place.get_or_insert(half.node);
        self.has_keys |= half.is_stream() || half.journey.ip_id != 0;
    }

    /// Stores a crossing; of many, of each slot of time the quickest. Returns the number of stored ones more than before.
    pub fn hold(&mut self, crossing: Crossing) -> usize {
        let slot = |crossing: &Crossing| (crossing.tx_node, crossing.rx_node, crossing.sent_ns >> SLOT_BITS);
        let delay_ns = |crossing: &Crossing| crossing.received_ns.wrapping_sub(crossing.sent_ns) as i64;
        let are_many = self.held.len() >= ALL_HELD;
        match self.held.last_mut() {
            Some(last) if are_many && slot(last) == slot(&crossing) => {
                if delay_ns(&crossing) < delay_ns(last) {
                    *last = crossing;
                }
                0
            }
            _ => {
                self.held.push(crossing);
                1
            }
        }
    }

    pub fn insert(&mut self, number: u64, half: &Half) {
        let side = &mut self.sides[half.end as usize];
        if half.is_stream() {
            let (from, to) = half.seqs();
            side.seqs.insert((from, number));
            side.longest = side.longest.max(to - from);
        } else {
            side.datagrams.entry((half.journey.ip_id, half.journey.bytes())).or_default().insert(number);
        }
    }

    pub fn remove(&mut self, number: u64, half: &Half) {
        let side = &mut self.sides[half.end as usize];
        if half.is_stream() {
            side.seqs.remove(&(half.seqs().0, number));
        } else {
            let key = (half.journey.ip_id, half.journey.bytes());
            if let Some(equal) = side.datagrams.get_mut(&key) {
                equal.remove(&number);
                if equal.is_empty() {
                    side.datagrams.remove(&key);
                }
            }
        }
    }

    /// Halves of the other end that share bytes with a half, or are the same datagram, in no order.
    pub fn candidates(&self, half: &Half, found: &mut Vec<u64>) {
        found.clear();
        let other = &self.sides[half.end.other() as usize];
        if half.is_stream() {
            let (from, to) = half.seqs();
            let near = other.seqs.range(..(to, 0)).rev().take(MAX_OVERLAPS);
            found.extend(near.take_while(|(start, _)| start + other.longest > from).map(|(_, number)| *number));
        } else if half.journey.ip_id != 0
            && let Some(equal) = other.datagrams.get(&(half.journey.ip_id, half.journey.bytes()))
        {
            found.extend(equal.iter().take(MAX_OVERLAPS));
        }
    }

    /// Numbers of the halves of one end without an identification.
    pub fn unnumbered(&self, end: End) -> Vec<u64> {
        let same = self.sides[end as usize].datagrams.range((0, 0)..=(0, u64::MAX));
        same.flat_map(|(_, numbers)| numbers.iter().copied()).collect()
    }

    /// Numbers of all halves of one end.
    pub fn waiting(&self, end: End) -> Vec<u64> {
        let side = &self.sides[end as usize];
        let datagrams = side.datagrams.values().flatten().copied();
        side.seqs.iter().map(|(_, number)| *number).chain(datagrams).collect()
    }

    /// The reason why halves of it are alone.
    pub fn because(&self) -> Option<Unjoined> {
        if self.alone == [0, 0] {
            return None;
        }
        Some(match () {
            () if self.key.is_private() => Unjoined::Loopback,
            () if self.has_both_ends() => Unjoined::NotSeenThere,
            () if !self.has_keys => Unjoined::NoKey,
            () => Unjoined::NoOtherEnd,
        })
    }
}

//! Detection of address translation: packets that leave under one pair of addresses and arrive under another.
//!
//! A translator changes addresses and ports and preserves the rest of the key. One connection has only its
//! sender seen, another only its receiver. They are the same if the same sequence numbers begin their packets
//! repeatedly, without a third such connection.
//!
//! Identifications of datagrams count up from anywhere in 16 bits. So any two long flows of one length have many in
//! common, one after the other, which is no proof. Flows of datagrams must have an address in common, too. One is
//! the same on both sides unless both are translated: by two translators, or by one that does both (a service on all
//! nodes of a cluster, a published port that is used from behind a masquerade).

use super::half::Half;
use super::key::{End, Key};
use magscope_core::flow::Proto;
use magscope_core::hash::Map;

/// Equal keys that make two connections one.
const STREAM_VOTES: u32 = 3;
/// The same for datagrams, whose key has 16 bits and a length.
const DATAGRAM_VOTES: u32 = 8;
/// Maximum number of stored keys per end; beyond it the table restarts empty.
const MAX_KEYS: usize = 1 << 16;
/// Maximum number of pairs of connections with votes.
const MAX_PAIRS: usize = 1 << 14;

/// Maximum number of senders compared with one receiver.
const MAX_RIVALS: usize = 64;

/// Votes for pairs of one-sided connections.
#[derive(Debug, Default)]
pub(super) struct Translations {
    seen: [Map<(u8, u64), usize>; 2],
    /// By the receiver's connection, then the sender's.
    votes: Map<usize, Vec<(usize, u32)>>,
}

impl Translations {
    /// Processes a half of a connection without a known other end. Returns the connections of sender and
    /// receiver once they are identified as one. `share_address`: whether these two have an address in common.
    pub fn offer(
        &mut self,
        connection: usize,
        half: &Half,
        share_address: impl Fn(usize, usize) -> bool,
    ) -> Option<(usize, usize)> {
        let key = Self::key(half)?;
        let [tx, rx] = &mut self.seen;
        let (mine, theirs) = if half.end == End::Tx { (tx, rx) } else { (rx, tx) };
        if mine.len() >= MAX_KEYS {
            mine.clear();
        }
        mine.insert(key, connection);
        let other = *theirs.get(&key)?;
        let (tx, rx) = if half.end == End::Tx { (connection, other) } else { (other, connection) };
        if tx == rx || self.votes.len() >= MAX_PAIRS && !self.votes.contains_key(&rx) {
            return None;
        }
        if !half.is_stream() && !share_address(tx, rx) {
            return None;
        }
        let votes = self.votes.entry(rx).or_default();
        if let Some((_, count)) = votes.iter_mut().find(|(voted, _)| *voted == tx) {
            *count += 1;
        } else if votes.len() < MAX_RIVALS {
            votes.push((tx, 1));
        } else {
            return None;
        }
        let need = if half.is_stream() { STREAM_VOTES } else { DATAGRAM_VOTES };
        let (best, count, second) = Self::best(votes)?;
        (count >= need && count >= 3 * second).then_some((best, rx))
    }

    /// At the end: pairs of streams too short for many votes. Every vote must agree, and one of the two
    /// addresses must be the same on both sides. One address is the same unless the path has two translators.
    pub fn rest(&self, key_of: impl Fn(usize) -> Option<Key>) -> Vec<(usize, usize)> {
        let agreed = self.votes.iter().filter_map(|(rx, votes)| {
            let (tx, _, second) = Self::best(votes)?;
            let (sender, receiver) = (key_of(tx)?, key_of(*rx)?);
            let is_one = second == 0 && sender.shares_address(&receiver);
            (sender.proto == Proto::TCP && is_one).then_some((tx, *rx))
        });
        let mut pairs: Vec<_> = agreed.collect();
        pairs.sort_unstable();
        pairs
    }

    /// Discards a pair that was joined.
    pub fn forget(&mut self, rx: usize) {
        self.votes.remove(&rx);
    }

    fn best(votes: &[(usize, u32)]) -> Option<(usize, u32, u32)> {
        let (best, count) = votes.iter().copied().max_by_key(|(_, count)| *count)?;
        let second = votes.iter().filter(|(tx, _)| *tx != best).map(|(_, count)| *count).max();
        Some((best, count, second.unwrap_or(0)))
    }

    fn key(half: &Half) -> Option<(u8, u64)> {
        if half.is_stream() {
            return Some((Proto::TCP.0, half.seqs().0));
        }
        let id = half.journey.ip_id;
        (id != 0).then(|| (half.journey.proto.0, u64::from(id) << 32 | (half.journey.bytes() & 0xffff_ffff)))
    }
}

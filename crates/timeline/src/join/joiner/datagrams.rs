//! Joins datagrams: by their identification, and those without one by their order.

use super::super::half::Half;
use super::super::key::End;
use super::super::merge::delay_ns;
use super::super::numbering::Turn;
use super::{Joined, Joiner};
use magscope_core::hash::Map;
use magscope_core::journey::Across;
use std::collections::{BTreeMap, VecDeque};

impl Joiner<'_> {
    /// Joins a datagram with the nearest of these, or what was sent with all its receivers: those of a host got it at
    /// one instant.
    pub(super) fn join_datagrams(
        &mut self,
        connection: usize,
        half: Half,
        candidates: &[u64],
        done: &mut Vec<Joined>,
    ) {
        let many = self.connections.get(connection).is_some_and(|c| c.key.has_many_receivers());
        let mut arrivals: BTreeMap<u16, u64> = BTreeMap::new();
        let mut sender = None;
        for number in candidates {
            let Some((_, other)) = self.waiting.get(number) else { continue };
            if *arrivals.entry(other.node).or_insert(other.wire_ns) != other.wire_ns {
                continue;
            }
            let Some(other) = self.take(*number) else { continue };
            self.join_numbered(connection, &half, &other, done);
            if half.end == End::Rx {
                sender = Some(other);
            }
            if half.end == End::Rx || !many {
                break;
            }
        }
        // Other receivers may have it too.
        if many {
            let sender = sender.unwrap_or(half);
            self.wait(connection, Half { joined: true, ..sender });
        }
    }

    /// Joins two datagrams with one identification.
    fn join_numbered(&mut self, connection: usize, half: &Half, other: &Half, done: &mut Vec<Joined>) {
        let (turn, first) = (self.turn_of(connection, half, other), done.len());
        self.join(connection, half, other, done);
        let Some(joined) = done.get_mut(first).filter(|_| turn != Turn::Same) else { return };
        let crossing = joined.crossing.take();
        let (tx_node, rx_node) = (joined.journey.tx_node, joined.journey.rx_node);
        // Running recordings overlap. Bytes of a stream may still prove it for others, so their crossings are held.
        let are_apart = !self.is_live && self.overlaps.are_apart(tx_node, rx_node);
        if turn == Turn::Unknown || are_apart {
            (joined.journey.ambiguous, joined.journey.across) = (true, Across::Apart);
            self.add_uncertain(connection, 1);
        } else if let Some(direction) = self.connections.get_mut(connection) {
            *direction.certain_so_far.entry((tx_node, rx_node)).or_default() += 1;
        }
        match crossing.filter(|_| turn == Turn::SameSoFar) {
            Some(crossing) if self.is_live => self.crossings.push(crossing),
            Some(crossing) => self.hold(connection, crossing),
            None => {}
        }
    }

    /// Joins datagrams without an identification by their order and length, oldest first.
    pub(super) fn join_by_order(&mut self, connection: usize, done: &mut Vec<Joined>) {
        let Some(direction) = self.connections.get(connection).filter(|c| !c.is_stream() && c.has_both_ends())
        else {
            return;
        };
        let in_order = |end| {
            let halves = direction.unnumbered(end).into_iter();
            let mut halves: Vec<_> = halves
                .filter_map(|n| self.waiting.get(&n).map(|(_, h)| (self.rough_ns(h), n, h.journey.bytes())))
                .collect();
            halves.sort_unstable();
            halves
        };
        let (sent, received) = (in_order(End::Tx), in_order(End::Rx));
        let many = direction.key.has_many_receivers();
        // The next candidate among the sent datagrams of each length.
        let mut by_len: Map<u64, VecDeque<u64>> = Map::default();
        for (_, number, len) in sent {
            by_len.entry(len).or_default().push_back(number);
        }
        for (_, number, len) in received {
            let Some(queue) = by_len.get_mut(&len) else { continue };
            while let Some(oldest) = queue.front().copied() {
                let fits = match (self.waiting.get(&oldest), self.waiting.get(&number)) {
                    (Some((_, tx)), Some((_, rx))) => self.order(tx, rx),
                    _ => Fit::TooOld,
                };
                match fits {
                    Fit::TooOld => {
                        queue.pop_front();
                    }
                    Fit::TooYoung => break,
                    Fit::Yes => {
                        if !many {
                            queue.pop_front();
                        }
                        self.join_in_order(connection, oldest, number, many, done);
                        break;
                    }
                }
            }
        }
    }

    fn join_in_order(
        &mut self,
        connection: usize,
        sent: u64,
        received: u64,
        many: bool,
        done: &mut Vec<Joined>,
    ) {
        let Some(mut rx) = self.take(received) else { return };
        rx.journey.ambiguous = true;
        if many {
            let Some((_, tx)) = self.waiting.get_mut(&sent) else { return };
            tx.joined = true;
            let tx = tx.clone();
            self.join(connection, &tx, &rx, done);
        } else if let Some(tx) = self.take(sent) {
            self.join(connection, &tx, &rx, done);
        }
    }

    /// Whether a sent datagram can be the received one, according to the clocks.
    fn order(&self, tx: &Half, rx: &Half) -> Fit {
        match delay_ns(tx, rx, self.timeline) {
            Some((_, most_ns)) if most_ns < 0 => Fit::TooYoung,
            Some((least_ns, _)) if least_ns > self.limits.max_apart_ns as i64 => Fit::TooOld,
            _ => Fit::Yes,
        }
    }
}

/// The relation between a sent and a received datagram.
enum Fit {
    Yes,
    TooOld,
    TooYoung,
}

//! The slowest of many journeys, in bounded memory.

use super::row::Row;
use magscope_core::Journey;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Slower first; equal ones by start. Journeys without a latency come last.
type Key = (Option<u64>, Reverse<u64>);

#[derive(Debug)]
struct Entry {
    key: Key,
    row: Row,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

/// Keeps the slowest journeys.
#[derive(Debug)]
pub struct Slowest {
    most: usize,
    /// Heap with the fastest on top, which is evicted next.
    entries: BinaryHeap<Reverse<Entry>>,
}

fn key(journey: &Journey) -> Key {
    (journey.total_ns(), Reverse(journey.id))
}

impl Slowest {
    /// Stores at most `most` journeys.
    pub fn new(most: usize) -> Self {
        Slowest { most, entries: BinaryHeap::new() }
    }

    /// True if the journey would be stored; avoids unnecessary look-ups.
    pub fn wants(&self, journey: &Journey) -> bool {
        self.entries.len() < self.most
            || self.entries.peek().is_some_and(|Reverse(fastest)| key(journey) > fastest.key)
    }

    /// Stores the journey and evicts the fastest above the limit.
    pub fn push(&mut self, journey: &Journey, row: Row) {
        self.entries.push(Reverse(Entry { key: key(journey), row }));
        if self.entries.len() > self.most {
            self.entries.pop();
        }
    }

    /// The slowest first.
    pub fn into_rows(self) -> Vec<Row> {
        self.entries.into_sorted_vec().into_iter().map(|Reverse(entry)| entry.row).collect()
    }
}

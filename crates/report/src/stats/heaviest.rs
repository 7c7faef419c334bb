//! The heaviest of many, in bounded memory.
//!
//! Flows can number millions, and a distribution for each would take gigabytes. So a maximum number is kept
//! separately; beyond it, the lighter half is evicted and added up to one rest. The sum of rows and rest is
//! always complete.
//!
//! **Known limit.** An evicted entry that returns starts from zero: such a row is marked, since part of it may
//! be in the rest.

use magscope_core::hash::Map;
use std::cmp::{Ordering, Reverse};
use std::hash::Hash;

/// A value that can be added up and has a weight.
pub trait Weighed: Default {
    /// Heavier values stay longer; the weight never decreases.
    fn weight(&self) -> u64;

    /// Adds the counts of `other`.
    fn merge(&mut self, other: &Self);

    /// Order of two values of one weight, by what they are called. Keys may be hashes, which differ between a
    /// recording and its import.
    fn by_name(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}

/// Keeps a maximum number separately, and adds up the rest.
#[derive(Clone, Debug)]
pub struct Heaviest<K, V> {
    most: usize,
    entries: Map<K, Entry<V>>,
    rest: V,
    let_go: u64,
}

#[derive(Clone, Debug)]
struct Entry<V> {
    value: V,
    may_be_more: bool,
}

/// One of the heaviest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row<K, V> {
    /// The key.
    pub key: K,
    /// Its sum.
    pub value: V,
    /// True if it was first seen after evictions and may be an evicted one: part of it may be in the rest.
    pub may_be_more: bool,
}

/// The heaviest first, and the sum of all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranking<K, V> {
    /// The heaviest first.
    pub rows: Vec<Row<K, V>>,
    /// Sum of all entries outside the rows.
    pub rest: V,
    /// Number of entries in the rest; an evicted one that returned counts each time.
    pub others: u64,
    /// Maximum number of separate entries, if any was evicted.
    pub bound: Option<u64>,
}

impl<K: Hash + Eq + Ord + Clone, V: Weighed> Heaviest<K, V> {
    /// Keeps at most `most` entries; at least 2.
    pub fn new(most: usize) -> Self {
        Heaviest { most: most.max(2), entries: Map::default(), rest: V::default(), let_go: 0 }
    }

    /// The entry of this key, a new one if not stored.
    pub fn entry(&mut self, key: K) -> &mut V {
        self.entry_evicting(key, |_, _| {})
    }

    /// The same; `evicted` gets every entry that is evicted for it.
    pub fn entry_evicting(&mut self, key: K, evicted: impl FnMut(&K, &V)) -> &mut V {
        if self.entries.len() >= self.most && !self.entries.contains_key(&key) {
            self.let_lighter_half_go(evicted);
        }
        let may_be_more = self.let_go > 0;
        &mut self.entries.entry(key).or_insert_with(|| Entry { value: V::default(), may_be_more }).value
    }

    fn let_lighter_half_go(&mut self, mut visit: impl FnMut(&K, &V)) {
        let mut weights: Vec<u64> = self.entries.values().map(|entry| entry.value.weight()).collect();
        let half = weights.len() / 2;
        let limit = *weights.select_nth_unstable(half).1;
        // Of equal weights, as many as needed in any order.
        let lighter = weights[..half].iter().filter(|weight| **weight < limit).count();
        let (mut equals, rest, let_go) = (half - lighter, &mut self.rest, &mut self.let_go);
        self.entries.retain(|key, entry| {
            let weight = entry.value.weight();
            let goes = weight < limit || weight == limit && equals > 0;
            if goes {
                equals -= usize::from(weight == limit);
                rest.merge(&entry.value);
                visit(key, &entry.value);
                *let_go += 1;
            }
            !goes
        });
    }

    /// The stored entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, entry)| (key, &entry.value))
    }

    /// The stored values, in no order. True for one that was first seen after evictions and may be an evicted one: part
    /// of it may be in the rest.
    pub fn values(&self) -> impl Iterator<Item = (&V, bool)> {
        self.entries.values().map(|entry| (&entry.value, entry.may_be_more))
    }

    /// Maximum number of separate entries, if any was evicted.
    pub fn bound(&self) -> Option<u64> {
        (self.let_go > 0).then_some(self.most as u64)
    }

    /// Sum of all evicted entries.
    pub const fn rest(&self) -> &V {
        &self.rest
    }

    /// Number of stored entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True without any count.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of entries so far; an evicted one that returned counts each time.
    pub fn seen(&self) -> u64 {
        self.entries.len() as u64 + self.let_go
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (key, theirs) in &other.entries {
            self.entry(key.clone()).merge(&theirs.value);
            if let Some(ours) = self.entries.get_mut(key) {
                ours.may_be_more |= theirs.may_be_more;
            }
        }
        self.rest.merge(&other.rest);
        self.let_go += other.let_go;
    }

    /// The `top` heaviest, those of one weight in the order of their names and then keys, and the rest.
    pub fn ranking(self, top: usize) -> Ranking<K, V> {
        let bound = self.bound();
        let row = |(key, Entry { value, may_be_more })| Row { key, value, may_be_more };
        let mut rows: Vec<Row<K, V>> = self.entries.into_iter().map(row).collect();
        rows.sort_by(|a, b| {
            let by_weight = Reverse(a.value.weight()).cmp(&Reverse(b.value.weight()));
            by_weight.then_with(|| a.value.by_name(&b.value)).then_with(|| a.key.cmp(&b.key))
        });
        let (mut rest, mut others) = (self.rest, self.let_go);
        for row in rows.drain(top.min(rows.len())..) {
            rest.merge(&row.value);
            others += 1;
        }
        Ranking { rows, rest, others, bound }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Weighed for u64 {
        fn weight(&self) -> u64 {
            *self
        }

        fn merge(&mut self, other: &Self) {
            *self += other;
        }
    }

    #[test]
    fn a_million_stay_bounded_and_nothing_gets_lost() {
        let mut heaviest = Heaviest::new(1000);
        for i in 0..1_000_000_u64 {
            *heaviest.entry(i) += 1;
            *heaviest.entry(u64::MAX - i % 10) += 100;
            assert!(heaviest.entries.len() <= 1000);
        }
        assert!(heaviest.seen() >= 1_000_010);
        let ranking = heaviest.ranking(10);
        assert!(ranking.rows.iter().all(|row| row.key >= u64::MAX - 9 && row.value == 10_000_000));
        assert_eq!((ranking.rows.len(), ranking.others, ranking.rest), (10, 1_000_000, 1_000_000));
        assert_eq!(ranking.bound, Some(1_000));
        assert!(ranking.rows.iter().all(|row| !row.may_be_more), "they were there from the beginning");
    }

    #[test]
    fn what_comes_again_says_so() {
        let mut heaviest = Heaviest::<u64, u64>::new(2);
        *heaviest.entry(1) = 0;
        assert_eq!(heaviest.bound(), None, "nothing was evicted");
        for key in [1, 2, 3] {
            *heaviest.entry(key) += 10;
        }
        assert_eq!(heaviest.values().filter(|(_, may_be_more)| *may_be_more).count(), 1);
        let ranking = heaviest.ranking(5);
        assert_eq!((ranking.rows.len(), ranking.rest, ranking.others), (2, 10, 1));
        let three = ranking.rows.iter().find(|row| row.key == 3).unwrap();
        assert!(three.may_be_more);
    }
}

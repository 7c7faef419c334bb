//! A tile: the counts of one place in one stretch of time.

use crate::look::{Exemplar, Percentiles};
use smallvec::SmallVec;

/// Maximum number of slowest journeys of a tile.
pub const SLOWEST: usize = 4;

/// Values that combine from parts in any order.
pub trait Part: Default {
    /// Adds all data of `other`.
    fn merge(&mut self, other: &Self);
    /// True without content.
    fn is_empty(&self) -> bool;
}

/// Counted values: count, sum, minimum and maximum, and the count in each class.
///
/// A class is an eighth of an octave: a percentile has an error of at most a sixteenth, 6.25 %.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tile {
    /// Count.
    pub count: u64,
    /// Sum of the values.
    pub sum: u64,
    /// Minimum; 0 without values.
    pub min: u64,
    /// The largest.
    pub max: u64,
    /// Classes and their counts, ascending. Empty for a lane without classes. Most tiles are of one value or two.
    classes: SmallVec<[(u16, u32); 2]>,
}

/// Classes of an octave.
const SUB: u32 = 8;

/// The class of a value: values below 16 have their own.
pub const fn class_of(value: u64) -> u16 {
    if value < 2 * SUB as u64 {
        return value as u16;
    }
    let octave = value.ilog2();
    let sub = (value >> (octave - 3)) & 7;
    ((octave - 3) * SUB + SUB + sub as u32) as u16
}

/// Number of classes.
pub const CLASSES: usize = class_of(u64::MAX) as usize + 1;

/// The least value of a class and that of the next class.
pub const fn edges_of(class: u16) -> (u64, u64) {
    if (class as u32) < 2 * SUB {
        return (class as u64, class as u64 + 1);
    }
    let (octave, sub) = ((class as u32 - SUB) / SUB + 3, (class as u64 - SUB as u64) % SUB as u64);
    let low = (SUB as u64 + sub) << (octave - 3);
    (low, low.saturating_add(1 << (octave - 3)))
}

impl Tile {
    /// Counts a value.
    pub fn add(&mut self, value: u64, classes: bool) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        if classes {
            self.add_class(class_of(value), 1);
        }
    }

    fn add_class(&mut self, class: u16, n: u32) {
        match self.classes.binary_search_by_key(&class, |(other, _)| *other) {
            Ok(at) => self.classes[at].1 = self.classes[at].1.saturating_add(n),
            Err(at) => self.classes.insert(at, (class, n)),
        }
    }

    /// The non-empty classes, in order of value.
    pub fn classes(&self) -> impl Iterator<Item = (u16, u32)> + '_ {
        self.classes.iter().copied()
    }

    /// The value that a part of them does not exceed, to within a class.
    fn quantile(&self, part: f64) -> u64 {
        let all: u64 = self.classes.iter().map(|(_, n)| u64::from(*n)).sum();
        let rank = ((all as f64 * part).ceil() as u64).max(1);
        let mut seen = 0;
        for (class, n) in &self.classes {
            seen += u64::from(*n);
            if seen >= rank {
                let (low, high) = edges_of(*class);
                return (low + (high - 1 - low) / 2).clamp(self.min, self.max);
            }
        }
        self.max
    }

    /// Its percentiles, if it has classes.
    pub fn percentiles(&self) -> Percentiles {
        Percentiles {
            n: self.count,
            min_ns: self.min,
            p50_ns: self.quantile(0.5),
            p90_ns: self.quantile(0.9),
            p99_ns: self.quantile(0.99),
            max_ns: self.max,
            exact: self.count == 0,
        }
    }
}

impl Part for Tile {
    fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        for (class, n) in &other.classes {
            self.add_class(*class, *n);
        }
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// A signal in a tile: minimum, maximum and last value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Extent {
    /// Samples.
    pub count: u64,
    /// Sum of the values.
    pub sum: f64,
    /// Minimum; 0 without values.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// The newest value and its instant.
    pub last: (u64, f64),
}

impl Extent {
    /// One sample.
    pub const fn of(time_ns: u64, value: f64) -> Self {
        Extent { count: 1, sum: value, min: value, max: value, last: (time_ns, value) }
    }

    /// Mean value; 0 without samples.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }
}

impl Part for Extent {
    fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        if other.last.0 >= self.last.0 {
            self.last = other.last;
        }
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// The slowest journeys of a tile, slowest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slowest(Vec<Exemplar>);

impl Slowest {
    /// Adds it if it is among the slowest. Of equal ones the earlier wins, so that the order of arrival has no
    /// effect.
    pub fn add(&mut self, exemplar: Exemplar) {
        let rank = |e: &Exemplar| (std::cmp::Reverse(e.total_ns), e.start_ns, e.key);
        let at = self.0.partition_point(|other| rank(other) < rank(&exemplar));
        if at < SLOWEST && self.0.get(at).is_none_or(|other| other.key != exemplar.key) {
            self.0.insert(at, exemplar);
            self.0.truncate(SLOWEST);
        }
    }

    /// Slowest first.
    pub fn iter(&self) -> impl Iterator<Item = &Exemplar> {
        self.0.iter()
    }
}

impl Part for Slowest {
    fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|exemplar| self.add(*exemplar));
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_is_in_its_class(value: u64) {
            let (low, high) = edges_of(class_of(value));
            prop_assert!(low <= value && (value < high || high == u64::MAX));
            prop_assert!(high - low <= (low / 8).max(1));
        }

        #[test]
        fn percentiles_are_right_to_a_class(mut values in prop::collection::vec(0..10_000_000_000_u64, 1..300)) {
            let mut tile = Tile::default();
            for value in &values {
                tile.add(*value, true);
            }
            let p = tile.percentiles();
            values.sort_unstable();
            for (part, seen) in [(0.5, p.p50_ns), (0.9, p.p90_ns), (0.99, p.p99_ns)] {
                let rank = ((values.len() as f64 * part).ceil() as usize).max(1) - 1;
                let truth = values[rank];
                prop_assert!(seen.abs_diff(truth) <= truth / 8 + 1, "{part}: {seen} for {truth}");
            }
            prop_assert_eq!((p.n, p.min_ns, p.max_ns), (values.len() as u64, values[0], values[values.len() - 1]));
        }
    }
}

//! Amounts over time, in as many slices as a screen has columns, for an initially unknown duration.
//!
//! Slices have a length of a power of two nanoseconds and begin at multiples of their length. So the same
//! amounts give the same slices for any order and any division into parts.

use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum number of slices; at least half of it after enough time.
pub const MOST: usize = 256;

/// Amounts in slices of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strip {
    /// The length of a slice as a power of two nanoseconds.
    exponent: u32,
    slices: BTreeMap<u64, u64>,
}

/// An amount in one slice of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Slice {
    /// Instant of its beginning, nanoseconds.
    pub from_ns: u64,
    /// The amount.
    pub amount: u64,
}

impl Strip {
    /// Counts an amount.
    pub fn count(&mut self, time_ns: u64, amount: u64) {
        let slice = self.slices.entry(time_ns >> self.exponent).or_default();
        *slice = slice.saturating_add(amount);
        self.widen();
    }

    /// Doubles the slice length until their number fits.
    fn widen(&mut self) {
        while let (Some((first, _)), Some((last, _))) =
            (self.slices.first_key_value(), self.slices.last_key_value())
            && last - first >= MOST as u64
        {
            self.coarsen(self.exponent + 1);
        }
    }

    fn coarsen(&mut self, exponent: u32) {
        let by = exponent.saturating_sub(self.exponent);
        if by == 0 {
            return;
        }
        let mut wider: BTreeMap<u64, u64> = BTreeMap::new();
        for (index, amount) in std::mem::take(&mut self.slices) {
            let slice = wider.entry(index >> by).or_default();
            *slice = slice.saturating_add(amount);
        }
        (self.slices, self.exponent) = (wider, exponent);
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.coarsen(other.exponent);
        let by = self.exponent - other.exponent;
        for (index, amount) in &other.slices {
            let slice = self.slices.entry(index >> by).or_default();
            *slice = slice.saturating_add(*amount);
        }
        self.widen();
    }

    /// Length of a slice, nanoseconds.
    pub const fn slice_ns(&self) -> u64 {
        1 << self.exponent
    }

    /// The non-empty slices, in order of time.
    pub fn slices(&self) -> impl Iterator<Item = Slice> + '_ {
        self.slices.iter().map(|(index, amount)| Slice { from_ns: index << self.exponent, amount: *amount })
    }

    /// The amounts in `columns` equal parts of `[from_ns, to_ns]`. A slice over the border of two is shared between
    /// them by time.
    pub fn columns(&self, from_ns: u64, to_ns: u64, columns: usize) -> Vec<f64> {
        let mut out = vec![0.0; columns];
        let width = (to_ns.saturating_sub(from_ns) as f64 + 1.0) / columns.max(1) as f64;
        for slice in self.slices() {
            // Amounts lie inside the range, however far the slice exceeds it.
            let (low, high) = (slice.from_ns.max(from_ns), (slice.from_ns | (self.slice_ns() - 1)).min(to_ns));
            let (low, high) = ((low.saturating_sub(from_ns)) as f64, (high.saturating_sub(from_ns) + 1) as f64);
            let (first, last) = ((low / width) as usize, (high / width).ceil() as usize);
            for (column, place) in
                out.iter_mut().enumerate().take(last).skip(first.min(columns.saturating_sub(1)))
            {
                let (left, right) = (column as f64 * width, (column + 1) as f64 * width);
                let share = (high.min(right) - low.max(left)).max(0.0) / (high - low).max(1.0);
                *place += slice.amount as f64 * share;
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_widen_and_nothing_gets_lost() {
        let mut strip = Strip::default();
        for time_ns in [0, 5, 1_000, 1_000_000, u64::MAX] {
            strip.count(time_ns, 10);
            assert!(strip.slices.len() <= MOST);
            assert_eq!(strip.slices().map(|slice| slice.amount).sum::<u64>() % 10, 0);
        }
        assert_eq!(strip.slices().map(|slice| slice.amount).sum::<u64>(), 50);
    }

    #[test]
    fn columns_hold_all_of_it() {
        let mut strip = Strip::default();
        (1_000..2_000_u64).for_each(|t| strip.count(t, 3));
        let columns = strip.columns(1_000, 1_999, 7);
        assert!((columns.iter().sum::<f64>() - 3_000.0).abs() < 1.0, "{columns:?}");
        assert!(columns.iter().all(|c| (c - 3_000.0 / 7.0).abs() < 15.0), "{columns:?}");
        assert_eq!(Strip::default().columns(0, 0, 3), [0.0; 3]);
    }
}

//! Distributions of times: sixteen steps to each doubling, and exact counts at the bounds that monitors are told.

use serde::{Deserialize, Serialize};

/// A value's step tells it to within one part in sixteen of itself.
const SUB_BITS: u32 = 4;
/// Longer times are counted as this: 100 s, nanoseconds.
const MAX_NS: u64 = 100_000_000_000;

/// Upper bounds of what monitors are told, nanoseconds: 1 µs to 10 s, three to each power of ten. Longer ones are beyond all of them.
pub const LE_NS: [u64; 22] = [
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// Counts times. As large as its longest one needs, 5 kB at most.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    steps: Vec<u64>,
    /// Those at most as long as each of [`LE_NS`] and longer than the one before, then those beyond all of them.
    bounds: [u64; LE_NS.len() + 1],
    sum_ns: u64,
    max_ns: u64,
}

/// A distribution of times, as plain data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// How many were measured.
    pub n: u64,
    /// All of them together, nanoseconds.
    pub sum_ns: u64,
    /// Half of them took at most this, nanoseconds, to within one part in sixteen; 0 where there are none.
    pub p50_ns: u64,
    /// Ninety-nine in a hundred took at most this.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// How many lie between each of [`LE_NS`] and the bound before it, then those beyond the last; trailing ones without any are left out.
    pub bounds: Vec<u64>,
}

/// The step of a time.
pub(crate) const fn step(ns: u64) -> usize {
    if ns < 1 << SUB_BITS {
        return ns as usize;
    }
    let shift = ns.ilog2() - SUB_BITS;
    (((shift + 1) << SUB_BITS) as u64 + (ns >> shift) - (1 << SUB_BITS)) as usize
}

/// The longest time of a step.
pub(crate) const fn longest(step: usize) -> u64 {
    let (row, place) = ((step >> SUB_BITS) as u32, step as u64 & ((1 << SUB_BITS) - 1));
    if row == 0 { place } else { (((1 << SUB_BITS) + place + 1) << (row - 1)) - 1 }
}

impl Histogram {
    /// Counts one time, nanoseconds.
    pub fn record(&mut self, ns: u64) {
        let counted = ns.min(MAX_NS);
        let at = step(counted);
        if self.steps.len() <= at {
            self.steps.resize(at + 1, 0);
        }
        self.steps[at] += 1;
        self.bounds[LE_NS.partition_point(|le| *le < counted)] += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Counts all that `other` has counted.
    pub fn merge(&mut self, other: &Self) {
        if self.steps.len() < other.steps.len() {
            self.steps.resize(other.steps.len(), 0);
        }
        self.steps.iter_mut().zip(&other.steps).for_each(|(sum, n)| *sum += n);
        self.bounds.iter_mut().zip(&other.bounds).for_each(|(sum, n)| *sum += n);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The value that a share `q` of `n` does not exceed.
    fn quantile_ns(&self, n: u64, q: f64) -> u64 {
        let rank = ((q * n as f64).ceil() as u64).clamp(1, n.max(1));
        let mut below = 0;
        for (at, count) in self.steps.iter().enumerate() {
            below += count;
            if below >= rank {
                return longest(at).min(self.max_ns);
            }
        }
        0
    }

    /// What was counted.
    pub fn times(&self) -> Times {
        let n = self.bounds.iter().sum();
        let last = self.bounds.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        Times {
            n,
            sum_ns: self.sum_ns,
            p50_ns: self.quantile_ns(n, 0.5),
            p99_ns: self.quantile_ns(n, 0.99),
            max_ns: self.max_ns,
            bounds: self.bounds[..last].to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn steps_follow_each_other_without_a_gap() {
        for at in 0..step(MAX_NS) {
            assert_eq!(step(longest(at)), at);
            assert_eq!(step(longest(at) + 1), at + 1);
        }
        assert!(step(MAX_NS) < 640 && step(u64::MAX) < 1_024);
    }

    proptest! {
        #[test]
        fn quantiles_are_right_to_a_sixteenth_and_bounds_exactly(
            mut all in proptest::collection::vec(0..200_000_000_000_u64, 1..400),
            q in 0.0..=1.0_f64,
        ) {
            let (mut odd, mut even) = (Histogram::default(), Histogram::default());
            for (at, ns) in all.iter().enumerate() {
                if at % 2 == 0 { even.record(*ns) } else { odd.record(*ns) }
            }
            odd.merge(&even);
            all.sort_unstable();
            let rank = ((q * all.len() as f64).ceil() as usize).clamp(1, all.len());
            let (truth, told) = (all[rank - 1].min(MAX_NS), odd.quantile_ns(all.len() as u64, q).min(MAX_NS));
            prop_assert!(told >= truth && told - truth <= truth / 16 + 1, "{} for {}", told, truth);
            let times = odd.times();
            prop_assert_eq!((times.n, times.sum_ns, times.max_ns), (all.len() as u64, all.iter().sum(), all[all.len() - 1]));
            let mut below = 0;
            for (count, le) in times.bounds.iter().zip(LE_NS) {
                below += count;
                prop_assert_eq!(below, all.iter().filter(|ns| **ns <= le).count() as u64);
            }
        }
    }

    #[test]
    fn nothing_measured_is_nothing() {
        assert_eq!(Histogram::default().times(), Times::default());
    }
}

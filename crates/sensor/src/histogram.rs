//! Histograms of times: sixteen buckets per octave, with exact counts at the exported bounds and in the buckets
//! of Prometheus' native histograms.

pub use magscope_core::histogram::BOUNDS_NS as LE_NS;
use magscope_core::histogram::{self, LONGEST_NS, longest, step};
use serde::{Deserialize, Serialize};

/// Subdivision of an octave in a native histogram, as a power of two: bucket bounds are 2^(1/8) apart.
pub const NATIVE_SCHEMA: i32 = 3;
/// The native bucket of 1 ns.
const LOWEST_NATIVE: i32 = -239;

/// A histogram of times. Its size depends on the longest time, 8 kB at most.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    steps: Vec<u64>,
    /// Counts from [`LOWEST_NATIVE`] on.
    native: Vec<u64>,
    /// Counts between consecutive bounds of [`LE_NS`], then above the last.
    bounds: [u64; LE_NS.len() + 1],
    sum_ns: u64,
    max_ns: u64,
}

/// A distribution of times, as plain data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// Number of times.
    pub n: u64,
    /// Sum of all times, nanoseconds.
    pub sum_ns: u64,
    /// Median, nanoseconds, within one part in sixteen; 0 if empty.
    pub p50_ns: u64,
    /// 99th percentile, nanoseconds.
    pub p99_ns: u64,
    /// Maximum, nanoseconds.
    pub max_ns: u64,
    /// Counts between consecutive bounds of [`LE_NS`], then above the last; trailing zeros are omitted.
    pub bounds: Vec<u64>,
    /// Native buckets that are not empty, in order, with counts. The upper bound of bucket `i` is 2^(i/8)
    /// seconds. Times of 0 are in no bucket.
    pub native: Vec<(i32, u64)>,
}

/// The native bucket of a time that is not 0: the smallest `i` with a time of at most 2^(i/8) seconds.
fn native_bucket(ns: u64) -> i32 {
    ((ns as f64 / 1e9).log2() * f64::from(1 << NATIVE_SCHEMA)).ceil() as i32
}

/// Adds `n` to a slot and creates the slot if missing.
fn count(slots: &mut Vec<u64>, at: usize, n: u64) {
    if slots.len() <= at {
        slots.resize(at + 1, 0);
    }
    slots[at] += n;
}

/// Adds the counts of `other` to `all`.
fn add(all: &mut Vec<u64>, other: &[u64]) {
    if all.len() < other.len() {
        all.resize(other.len(), 0);
    }
    all.iter_mut().zip(other).for_each(|(sum, n)| *sum += n);
}

impl Histogram {
    /// Counts one time, nanoseconds.
    pub fn record(&mut self, ns: u64) {
        let counted = ns.min(LONGEST_NS);
        count(&mut self.steps, step(counted), 1);
        self.count_native(counted, 1);
        self.bounds[LE_NS.partition_point(|le| *le < counted)] += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    fn count_native(&mut self, ns: u64, n: u64) {
        if ns > 0 {
            let at = native_bucket(ns).saturating_sub(LOWEST_NATIVE);
            count(&mut self.native, usize::try_from(at).unwrap_or(0), n);
        }
    }

    /// Adds times given as bucket counts (see [`magscope_core::histogram`]) and a sum. The maximum is then exact to
    /// its bucket, and native buckets use the upper bound.
    pub fn buckets(&mut self, buckets: &[(u16, u32)], sum_ns: u64) {
        for (bucket, n) in buckets {
            let Some((at, below)) = histogram::bucket_step(usize::from(*bucket)) else { continue };
            // ignore buckets above the longest time
            if at > step(LONGEST_NS) {
                continue;
            }
            count(&mut self.steps, at, u64::from(*n));
            self.bounds[below] += u64::from(*n);
            let longest = histogram::bucket_upper_ns(*bucket);
            self.count_native(longest, u64::from(*n));
            self.max_ns = self.max_ns.max(longest);
        }
        self.sum_ns = self.sum_ns.saturating_add(sum_ns);
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        add(&mut self.steps, &other.steps);
        add(&mut self.native, &other.native);
        self.bounds.iter_mut().zip(&other.bounds).for_each(|(sum, n)| *sum += n);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The quantile `q` of `n` times.
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

    /// The summary.
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
            native: (LOWEST_NATIVE..).zip(self.native.iter().copied()).filter(|(_, n)| *n > 0).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
            let (truth, reported) = (all[rank - 1].min(LONGEST_NS), odd.quantile_ns(all.len() as u64, q).min(LONGEST_NS));
            prop_assert!(reported >= truth && reported - truth <= truth / 16 + 1, "{} for {}", reported, truth);
            let times = odd.times();
            prop_assert_eq!((times.n, times.sum_ns, times.max_ns), (all.len() as u64, all.iter().sum(), all[all.len() - 1]));
            let mut below = 0;
            for (count, le) in times.bounds.iter().zip(LE_NS) {
                below += count;
                prop_assert_eq!(below, all.iter().filter(|ns| **ns <= le).count() as u64);
            }
            let zeros = all.iter().filter(|ns| **ns == 0).count() as u64;
            prop_assert_eq!(zeros + times.native.iter().map(|(_, n)| n).sum::<u64>(), times.n);
            for (bucket, n) in times.native {
                let bound = |bucket: i32| (f64::from(bucket) / 8.0).exp2() * 1e9;
                let within = |ns: &&u64| (**ns).min(LONGEST_NS) as f64 > bound(bucket - 1) && (**ns).min(LONGEST_NS) as f64 <= bound(bucket);
                prop_assert_eq!(n, all.iter().filter(within).count() as u64, "bucket {}", bucket);
            }
        }
    }

    #[test]
    fn cells_count_as_their_times_do() {
        let all = [0, 3, 17, 999, 1_000, 1_001, 2_500, 2_501, 77_777, 5_000_000_000, 99_999_999_999];
        let (mut by_time, mut by_bucket) = (Histogram::default(), Histogram::default());
        for ns in all {
            by_time.record(ns);
            by_bucket.buckets(&[(histogram::bucket(ns) as u16, 1)], ns);
        }
        let (by_time, by_bucket) = (by_time.times(), by_bucket.times());
        assert_eq!(
            (by_bucket.n, by_bucket.sum_ns, &by_bucket.bounds),
            (by_time.n, by_time.sum_ns, &by_time.bounds)
        );
        assert_eq!(by_bucket.p50_ns, by_time.p50_ns);
        let native = |times: &Times| times.native.iter().map(|(_, n)| n).sum::<u64>();
        assert_eq!((native(&by_bucket), native(&by_time)), (10, 10), "all but the one of 0");
        by_bucket.max_ns.checked_sub(by_time.max_ns).expect("no shorter than the longest");
        let mut wild = Histogram::default();
        wild.buckets(&[(u16::MAX, 9), (560, 1)], 0);
        assert_eq!(wild.times().n, 0);
    }

    #[test]
    fn nothing_measured_is_nothing() {
        assert_eq!(Histogram::default().times(), Times::default());
    }
}

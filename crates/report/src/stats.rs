//! Statistics: distributions of latencies, rates, running averages, the heaviest of many, throughput of each
//! layer.

pub mod heaviest;
pub mod layers;
pub mod running;
pub mod strip;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Maximum latency, 100 s, in nanoseconds; longer ones count as this.
const MAX_NS: u64 = 100_000_000_000;

/// The distribution of the time between two hops, to two significant digits. Mergeable, so that threads and
/// hosts can count separately. Its size depends on its longest time, 31 kB at most.
#[derive(Clone, Debug)]
pub struct HopPairStats {
    histogram: Option<Histogram<u64>>,
    /// Exact, in nanoseconds; the histogram has the end of its bucket.
    longest_ns: u64,
}

/// Quantiles of a distribution of times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Quantiles {
    /// Median, nanoseconds.
    pub p50_ns: u64,
    /// 90th percentile, nanoseconds.
    pub p90_ns: u64,
    /// 99th percentile, nanoseconds.
    pub p99_ns: u64,
    /// 99.9th percentile, nanoseconds.
    pub p999_ns: u64,
    /// The longest, nanoseconds.
    pub max_ns: u64,
    /// Number of measurements.
    pub n: u64,
}

/// Count of a distribution between two powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// Upper bound of the bucket: its largest time is at most this, and more than half of it.
    pub at_most: u64,
    /// Count.
    pub n: u64,
}

impl Default for HopPairStats {
    fn default() -> Self {
        Self::new()
    }
}

impl HopPairStats {
    /// An empty distribution.
    pub fn new() -> Self {
        // Bounds and digits are constants that the library accepts; on an error nothing would be counted.
        let mut histogram = Histogram::new_with_bounds(1, 2, 2).ok();
        if let Some(histogram) = &mut histogram {
            histogram.auto(true);
        }
        HopPairStats { histogram, longest_ns: 0 }
    }

    /// Counts one latency, nanoseconds.
    pub fn record(&mut self, ns: u64) {
        self.longest_ns = self.longest_ns.max(ns);
        if let Some(histogram) = &mut self.histogram {
            // It grows with the recorded values, which are bounded.
            let _ = histogram.record(ns.min(MAX_NS));
        }
    }

    /// Counts `n` equal latencies, nanoseconds.
    pub fn record_n(&mut self, ns: u64, n: u64) {
        self.longest_ns = if n > 0 { self.longest_ns.max(ns) } else { self.longest_ns };
        if let Some(histogram) = &mut self.histogram {
            let _ = histogram.record_n(ns.min(MAX_NS), n);
        }
    }

    /// The recorded counts, shortest first: a length within its bucket, nanoseconds, and the count.
    /// [`Self::record_n`] of these restores the distribution.
    pub fn recorded(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let longest_ns = self.longest_ns;
        self.histogram.iter().flat_map(move |histogram| {
            // The longest is stored exactly, not as the end of its bucket.
            let last = histogram.max();
            let steps = histogram.iter_recorded();
            steps.map(move |step| {
                let to = step.value_iterated_to();
                (if to >= last { longest_ns } else { to }, step.count_since_last_iteration())
            })
        })
    }

    /// Current memory, bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.histogram.as_ref().map_or(0, |h| h.distinct_values() * size_of::<u64>())
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        if let (Some(mine), Some(theirs)) = (&mut self.histogram, &other.histogram) {
            // It grows to the size of the other, so no value is out of range.
            let _ = mine.add(theirs);
        }
    }

    /// Number of measurements.
    pub fn n(&self) -> u64 {
        self.histogram.as_ref().map_or(0, Histogram::len)
    }

    /// The value that a fraction `q` of them (0 to 1) does not exceed, nanoseconds; 0 without any.
    pub fn quantile_ns(&self, q: f64) -> u64 {
        self.histogram
            .as_ref()
            .map_or(0, |h| if h.is_empty() { 0 } else { h.value_at_quantile(q).min(self.longest_ns) })
    }

    /// Number of times up to a limit, nanoseconds, to within a bucket.
    pub fn at_most(&self, ns: u64) -> u64 {
        self.histogram.as_ref().map_or(0, |h| if h.is_empty() { 0 } else { h.count_between(0, ns) })
    }

    /// The bounds of the bucket of a rank, nanoseconds, both included; 1 is the rank of the shortest. `None`
    /// beyond the number of measurements.
    pub fn at_rank_ns(&self, rank: u64) -> Option<(u64, u64)> {
        let histogram = self.histogram.as_ref().filter(|h| rank >= 1 && rank <= h.len())?;
        let mut below = 0;
        for bucket in histogram.iter_recorded() {
            below += bucket.count_since_last_iteration();
            if below >= rank {
                let value = bucket.value_iterated_to();
                return Some((histogram.lowest_equivalent(value), histogram.highest_equivalent(value)));
            }
        }
        None
    }

    /// The shape of the distribution: counts between each two powers of two, without empty ones.
    pub fn buckets(&self) -> Vec<Bucket> {
        let mut buckets: Vec<Bucket> = Vec::new();
        for step in self.histogram.iter().flat_map(Histogram::iter_recorded) {
            let at_most = u64::MAX.checked_shr(step.value_iterated_to().leading_zeros()).unwrap_or(0);
            let n = step.count_since_last_iteration();
            match buckets.last_mut() {
                Some(last) if last.at_most == at_most => last.n += n,
                _ => buckets.push(Bucket { at_most, n }),
            }
        }
        buckets
    }

    /// The usual quantiles; `None` without measurements.
    pub fn quantiles(&self) -> Option<Quantiles> {
        let histogram = self.histogram.as_ref().filter(|h| !h.is_empty())?;
        Some(Quantiles {
            p50_ns: self.quantile_ns(0.5),
            p90_ns: self.quantile_ns(0.9),
            p99_ns: self.quantile_ns(0.99),
            p999_ns: self.quantile_ns(0.999),
            max_ns: self.longest_ns,
            n: histogram.len(),
        })
    }
}

/// Events and bytes at one hop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HopRate {
    /// Events.
    pub events: u64,
    /// Payload bytes of those events.
    pub bytes: u64,
}

impl HopRate {
    /// Counts one event.
    pub fn count(&mut self, bytes: u64) {
        self.events += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: Self) {
        self.events += other.events;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    /// Events per second over `span_ns`; 0 over no time.
    pub fn events_per_s(&self, span_ns: u64) -> f64 {
        per_second(self.events, span_ns)
    }

    /// Payload bytes per second over `span_ns`; 0 over no time.
    pub fn bytes_per_s(&self, span_ns: u64) -> f64 {
        per_second(self.bytes, span_ns)
    }
}

/// `count` per second over `span_ns`; 0 over no time.
pub(crate) fn per_second(count: u64, span_ns: u64) -> f64 {
    if span_ns == 0 { 0.0 } else { count as f64 * 1e9 / span_ns as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_merge_are_those_of_all() {
        let (mut odd, mut even) = (HopPairStats::new(), HopPairStats::new());
        for ns in 1..=1000_u64 {
            if ns % 2 == 0 { even.record(ns) } else { odd.record(ns) }
        }
        assert_eq!(HopPairStats::new().quantiles(), None);
        odd.merge(&even);
        let mut again = HopPairStats::new();
        odd.recorded().for_each(|(ns, n)| again.record_n(ns, n));
        assert_eq!(again.quantiles(), odd.quantiles());
        assert!(again.bytes() == odd.bytes() && again.bytes() > 1_000 && again.bytes() < 40_000);
        let q = odd.quantiles().unwrap();
        assert_eq!(q.n, 1000);
        assert!(q.p50_ns.abs_diff(500) <= 5 && q.p99_ns.abs_diff(990) <= 10, "{q:?}");
        assert_eq!((odd.at_rank_ns(0), odd.at_rank_ns(1001)), (None, None));
        for rank in 1..=1000 {
            let (low, high) = odd.at_rank_ns(rank).unwrap();
            assert!((low..=high).contains(&rank) && high - low <= rank / 50, "{rank}: {low}..={high}");
        }
        assert!(odd.at_most(500).abs_diff(500) <= 5 && odd.at_most(u64::MAX) == 1000);
        assert_eq!(q.max_ns, 1000, "the longest, not the end of its bucket");
        odd.record(u64::MAX);
        odd.record(0);
        assert!(odd.quantiles().unwrap().max_ns >= MAX_NS);
    }
}

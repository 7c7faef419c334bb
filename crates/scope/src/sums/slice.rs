//! The sums of one interval, or of several.

use crate::look::Percentiles;
use magscope_core::Hop;
use magscope_core::histogram::{LONGEST_NS, bucket, bucket_range_ns, bucket_upper_ns, quantile};
use magscope_core::synthesis::{Sum, Synthesis};
use std::collections::BTreeMap;

/// Times by their buckets, see [`magscope_core::histogram`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buckets(Vec<(u16, u64)>);

impl Buckets {
    /// Adds these. Returns the number of new buckets.
    fn add(&mut self, buckets: impl Iterator<Item = (u16, u64)>) -> usize {
        let before = self.0.len();
        // outside data may hold any value
        for (at, n) in buckets.filter(|(at, n)| usize::from(*at) <= bucket(LONGEST_NS) && *n > 0) {
            match self.0.binary_search_by_key(&at, |(other, _)| *other) {
                Ok(place) => self.0[place].1 = self.0[place].1.saturating_add(n),
                Err(place) => self.0.insert(place, (at, n)),
            }
        }
        self.0.len() - before
    }

    /// Buckets and their counts, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u64)> + Clone + '_ {
        self.0.iter().copied()
    }

    /// Total count.
    pub fn n(&self) -> u64 {
        self.iter().fold(0, |sum, (_, n)| sum.saturating_add(n))
    }

    /// Percentiles, at most a sixteenth too long, as in a report.
    pub fn percentiles(&self) -> Percentiles {
        let part = |part| quantile(self.iter(), part);
        let range = |at: u16| bucket_range_ns(usize::from(at)).unwrap_or_default();
        Percentiles {
            n: self.n(),
            min_ns: self.0.first().map_or(0, |(at, _)| range(*at).0),
            p50_ns: part(0.5),
            p90_ns: part(0.9),
            p99_ns: part(0.99),
            max_ns: self.0.last().map_or(0, |(at, _)| bucket_upper_ns(*at)),
            exact: self.0.is_empty(),
        }
    }
}

/// Counts of a hop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Hits.
    pub hits: u64,
    /// Payload bytes, at the hops where packets or calls are added up.
    pub bytes: Option<u64>,
}

/// The sums of one interval, or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// Begin of the interval; of several, the first.
    pub from_ns: u64,
    /// End of the interval; of several, the last.
    pub to_ns: u64,
    /// The longest interval in it, nanoseconds.
    pub interval_ns: u64,
    /// Times from hop to hop.
    pub pairs: BTreeMap<(Hop, Hop), Buckets>,
    /// Counts of intervals without events.
    pub hops: BTreeMap<Hop, Counted>,
    /// Of those, dropped packets.
    pub drops: u64,
    /// True if part of it covers an interval without events.
    alone: bool,
}

impl Slice {
    pub(super) fn new((from_ns, to_ns): (u64, u64)) -> Self {
        Slice { from_ns, to_ns, ..Slice::default() }
    }

    fn reach(&mut self, (from_ns, to_ns): (u64, u64)) {
        self.from_ns = self.from_ns.min(from_ns);
        self.to_ns = self.to_ns.max(to_ns);
    }

    /// Adds a row. Returns the number of new buckets.
    pub(super) fn add(&mut self, ends: (u64, u64), row: &Synthesis, alone: bool) -> usize {
        self.reach(ends);
        self.interval_ns = self.interval_ns.max(ends.1.saturating_sub(ends.0));
        self.alone |= alone;
        if alone {
            self.count(row);
        }
        match row.of {
            Sum::Since(from) if row.n > 0 => {
                let buckets = row.buckets.iter().map(|(at, n)| (*at, u64::from(*n)));
                self.pairs.entry((from, row.hop)).or_default().add(buckets)
            }
            _ => 0,
        }
    }

    fn count(&mut self, row: &Synthesis) {
        let hop = self.hops.entry(row.hop).or_default();
        match row.of {
            Sum::Since(_) | Sum::Begun => hop.hits = hop.hits.saturating_add(row.n),
            Sum::Flow(_) | Sum::Cgroup(_) | Sum::Rest | Sum::Reason(_) => {
                hop.bytes = Some(hop.bytes.unwrap_or(0).saturating_add(row.sum));
                // a row without a table entry has no reason
                if row.hop == Hop::SkbDrop {
                    self.drops = self.drops.saturating_add(row.n);
                }
            }
        }
    }

    /// Adds all data of another.
    pub(super) fn merge(&mut self, other: &Self) {
        if self.to_ns == 0 {
            (self.from_ns, self.to_ns) = (other.from_ns, other.to_ns);
        }
        self.reach((other.from_ns, other.to_ns));
        self.interval_ns = self.interval_ns.max(other.interval_ns);
        self.alone |= other.alone;
        for (pair, buckets) in &other.pairs {
            self.pairs.entry(*pair).or_default().add(buckets.iter());
        }
        for (hop, counted) in &other.hops {
            let sum = self.hops.entry(*hop).or_default();
            sum.hits = sum.hits.saturating_add(counted.hits);
            if let Some(bytes) = counted.bytes {
                sum.bytes = Some(sum.bytes.unwrap_or(0).saturating_add(bytes));
            }
        }
        self.drops = self.drops.saturating_add(other.drops);
    }

    /// True if part of it covers an interval without events.
    pub const fn is_alone(&self) -> bool {
        self.alone
    }

    /// Length in seconds; at least a millisecond, to avoid a division by zero.
    pub fn secs(&self) -> f64 {
        self.to_ns.saturating_sub(self.from_ns).max(1_000_000) as f64 / 1e9
    }

    /// The most frequently measured time to a hop, with its first hop.
    pub fn latency_to(&self, to: Hop) -> Option<(Hop, Percentiles)> {
        let pairs = self.pairs.iter().filter(|((_, end), _)| *end == to);
        let ((from, _), buckets) = pairs.max_by_key(|(_, buckets)| buckets.n())?;
        Some((*from, buckets.percentiles())).filter(|(_, times)| times.n > 0)
    }
}

//! Times in order of arrival, so that similar neighbours do not count twice.
//!
//! Journeys of one packet, of one burst, or of one busy second are alike. Counted as independent, they would
//! make chance look like a difference. So the times are also stored in blocks of neighbours (batch means,
//! Schmeiser 1982). The share below a quantile may vary between blocks by more than a binomial. n is then
//! divided by that factor (the design effect of Woodruff 1952 and Kish 1965).

use crate::stats::HopPairStats;

/// Maximum number of blocks; at least half as many after a merge. 16 × 32 kB for each step.
const BLOCKS: usize = 16;
/// Times in the first blocks; doubled at every merge.
const FIRST: u64 = 16;
/// Fewer blocks give no estimate of their variance.
const FEWEST: usize = 4;

/// Times, all together and in blocks of neighbours.
#[derive(Clone, Debug)]
pub struct Blocks {
    all: HopPairStats,
    full: Vec<HopPairStats>,
    filling: HopPairStats,
    size: u64,
}

impl Default for Blocks {
    fn default() -> Self {
        let (all, filling) = (HopPairStats::new(), HopPairStats::new());
        Blocks { all, full: Vec::new(), filling, size: FIRST }
    }
}

impl Blocks {
    /// Counts one time, nanoseconds.
    pub fn record(&mut self, ns: u64) {
        self.all.record(ns);
        self.filling.record(ns);
        if self.filling.n() < self.size {
            return;
        }
        self.full.push(std::mem::take(&mut self.filling));
        if self.full.len() >= BLOCKS {
            self.size *= 2;
            let halves = std::mem::take(&mut self.full);
            for two in halves.chunks(2) {
                let mut both = HopPairStats::new();
                for half in two {
                    both.merge(half);
                }
                self.full.push(both);
            }
        }
    }

    /// All times.
    pub fn all(&self) -> &HopPairStats {
        &self.all
    }

    /// Effective number of independent times for the quantile `q`; at most their actual number.
    pub fn worth(&self, q: f64) -> u64 {
        let n = self.all.n();
        if self.full.len() < FEWEST {
            return n;
        }
        let at = self.all.quantile_ns(q);
        let shares: Vec<f64> =
            self.full.iter().map(|block| block.at_most(at) as f64 / block.n().max(1) as f64).collect();
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        let between =
            shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>() / (shares.len() - 1) as f64;
        let by_chance = mean * (1.0 - mean) / self.size as f64;
        if between <= by_chance { n } else { (n as f64 * by_chance / between) as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times from 0 to 999 in no order.
    fn mixed(i: u64) -> u64 {
        i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 0x3ff
    }

    #[test]
    fn alike_neighbours_count_once() {
        let of = |times: &mut dyn Iterator<Item = u64>| {
            let mut blocks = Blocks::default();
            times.for_each(|ns| blocks.record(ns));
            assert!(blocks.full.len() < BLOCKS);
            (blocks.all().n(), blocks.worth(0.5))
        };
        assert_eq!(of(&mut std::iter::empty()), (0, 0));
        assert_eq!(of(&mut (0..50).map(mixed)), (50, 50));
        let (n, worth) = of(&mut (0..10_000).map(mixed));
        assert!(n == 10_000 && worth > 4_000, "{worth}");
        // Half of the time everything took twice as long: that is two observations, not ten thousand.
        let (_, worth) = of(&mut (0..10_000).map(|i| mixed(i) + if i < 5_000 { 0 } else { 1_000 }));
        assert!(worth < 50, "{worth}");
    }
}

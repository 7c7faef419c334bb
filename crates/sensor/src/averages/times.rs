//! Latencies in a sliding window.

use magscope_client::wire::{Latency, Window};
use magscope_core::Hop;
use magscope_core::histogram::{longest, step};
use magscope_core::hop::HopSet;
use std::collections::VecDeque;

/// Maximum number of journeys in a time window. Beyond that the window covers the last ones and reports its
/// start.
const MOST: usize = 4_096;

/// One journey.
#[derive(Clone, Copy, Debug)]
struct One {
    read_ns: u64,
    ns: u64,
    first: Hop,
}

/// The last latencies.
#[derive(Clone, Debug)]
pub struct Latencies {
    window: Window,
    within: VecDeque<One>,
    sum_ns: u128,
    /// Counts per bucket of a [`Histogram`](crate::histogram::Histogram).
    steps: Vec<u32>,
}

impl Latencies {
    pub const fn new(window: Window) -> Self {
        Latencies { window, within: VecDeque::new(), sum_ns: 0, steps: Vec::new() }
    }

    /// Registers a journey with its read time and latency.
    pub fn journey(&mut self, read_ns: u64, ns: u64, first: Hop) {
        let read_ns = self.within.back().map_or(read_ns, |last| last.read_ns.max(read_ns));
        self.within.push_back(One { read_ns, ns, first });
        self.sum_ns += u128::from(ns);
        let at = step(ns);
        if self.steps.len() <= at {
            self.steps.resize(at + 1, 0);
        }
        self.steps[at] += 1;
        let most = match self.window {
            Window::Receives(most) => most as usize,
            Window::Seconds(_) => MOST,
        };
        while self.within.len() > most {
            self.leave();
        }
        if let Some(begins_ns) = self.begins_ns(read_ns) {
            while self.within.front().is_some_and(|first| first.read_ns < begins_ns) {
                self.leave();
            }
        }
    }

    fn leave(&mut self) {
        let Some(first) = self.within.pop_front() else { return };
        self.sum_ns -= u128::from(first.ns);
        self.steps[step(first.ns)] -= 1;
    }

    /// Start of a time window that ends at `to_ns`.
    fn begins_ns(&self, to_ns: u64) -> Option<u64> {
        let Window::Seconds(seconds) = self.window else { return None };
        Some(to_ns.saturating_sub((seconds * 1e9) as u64))
    }

    /// Summary of the latencies; `None` if empty.
    pub fn latency(&self, as_of_ns: u64) -> Option<Latency> {
        // Time has passed since the last journey.
        let old = self
            .begins_ns(as_of_ns)
            .map_or(0, |begins_ns| self.within.partition_point(|one| one.read_ns < begins_ns));
        if old > 0 {
            let mut now = self.clone();
            (0..old).for_each(|_| now.leave());
            return now.latency(0);
        }
        let (first, last) = (self.within.front()?, self.within.back()?);
        let n = self.within.len() as u64;
        let firsts: HopSet = self.within.iter().map(|one| one.first).collect();
        Some(Latency {
            from_ns: first.read_ns,
            to_ns: last.read_ns,
            journeys: n,
            mean_ns: self.sum_ns as f64 / n as f64,
            p50_ns: self.quantile_ns(n.div_ceil(2)),
            p99_ns: self.quantile_ns((n * 99).div_ceil(100)),
            first_seen_at: firsts.iter().map(|hop| hop.name().to_owned()).collect(),
        })
    }

    /// The latency that `rank` of the journeys do not exceed.
    fn quantile_ns(&self, rank: u64) -> u64 {
        let mut below = 0;
        for (at, count) in self.steps.iter().enumerate() {
            below += u64::from(*count);
            if below >= rank {
                return longest(at);
            }
        }
        0
    }
}

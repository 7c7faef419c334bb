//! A sliding window over one hop of one node: recent events, bytes and latencies.
//!
//! The window is a ring of sub-buckets of event time. Sums and the latency histogram cover the complete window,
//! and the oldest bucket is subtracted when it leaves. So reading is cheap and memory does not grow with
//! traffic. Only complete buckets are shown: numbers change at bucket edges only.

use crate::look::Percentiles;
use crate::measure::Origin;
use hdrhistogram::Histogram;
use magscope_core::{Hop, Proto};

/// Width of a sub-bucket, nanoseconds.
pub const BUCKET_NS: u64 = 500_000_000;
/// Number of complete sub-buckets of a window.
pub const BUCKETS: usize = 10;

/// Longest distinct latency; longer ones count as this one.
const LONGEST_NS: u64 = 100_000_000_000;

/// Percentiles of the latency from the hop below, over the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// The hop it is measured from; `None` for several.
    pub from: Option<Hop>,
    /// Protocol of the journeys, where journeys of others passed as well.
    pub proto: Option<Proto>,
    /// How many journeys it is about.
    pub n: u64,
    /// Median, nanoseconds.
    pub p50_ns: u64,
    /// Ninety per cent.
    pub p90_ns: u64,
    /// Ninety-nine per cent.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Latency {
    /// The percentiles of times measured from there.
    pub(crate) const fn of(from: Option<Hop>, times: Percentiles) -> Self {
        let Percentiles { n, p50_ns, p90_ns, p99_ns, max_ns, .. } = times;
        Latency { from, proto: None, n, p50_ns, p90_ns, p99_ns, max_ns }
    }

    /// That of the protocol with the most journeys. Steps of others begin at other hops, so that all of them are no
    /// one figure.
    pub(crate) fn of_most(all: impl Iterator<Item = (Proto, Self)>) -> Option<Self> {
        let all: Vec<_> = all.filter(|(_, latency)| latency.n > 0).collect();
        let (proto, most) = *all.iter().rev().max_by_key(|(_, latency)| latency.n)?;
        Some(Latency { proto: Some(proto).filter(|_| all.len() > 1), ..most })
    }
}

/// A histogram of nanoseconds, 1 % wide classes. `None` only if the constants were out of the library's range.
fn histogram() -> Option<Histogram<u32>> {
    let mut histogram = Histogram::new_with_bounds(1, LONGEST_NS, 2).ok()?;
    histogram.auto(false);
    Some(histogram)
}

#[derive(Default)]
struct Slot {
    events: u64,
    bytes: u64,
    latency: Option<Box<Histogram<u32>>>,
}

/// The window of one hop of one node.
#[derive(Default)]
pub struct HopWindow {
    /// `BUCKETS` complete ones and the current one.
    slots: [Slot; BUCKETS + 1],
    events: u64,
    bytes: u64,
    latency: Option<Box<Histogram<u32>>>,
    below: Option<Origin>,
}

impl HopWindow {
    /// Counts an event into the bucket `at`.
    pub fn event(&mut self, at: usize, bytes: u64) {
        self.slots[at].events += 1;
        self.slots[at].bytes += bytes;
    }

    /// Counts a latency from hop `below` into the bucket `at`.
    pub fn latency(&mut self, at: usize, below: Hop, ns: u64) {
        self.below = Some(Origin::with(self.below, below));
        let slot = &mut self.slots[at].latency;
        if slot.is_none() {
            *slot = histogram().map(Box::new);
        }
        if let Some(histogram) = slot {
            histogram.saturating_record(ns.max(1));
        }
    }

    /// Adds the bucket `at`, now complete, to the window.
    pub fn close(&mut self, at: usize) {
        let slot = &self.slots[at];
        self.events += slot.events;
        self.bytes += slot.bytes;
        if let Some(part) = &slot.latency
            && !part.is_empty()
        {
            if self.latency.is_none() {
                self.latency = histogram().map(Box::new);
            }
            if let Some(total) = &mut self.latency {
                // Same bounds on both sides, so neither adding nor taking off can fail.
                let _ = total.add(&**part);
            }
        }
    }

    /// Removes the bucket `at` from the window and empties it.
    pub fn expire(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        self.events = self.events.saturating_sub(slot.events);
        self.bytes = self.bytes.saturating_sub(slot.bytes);
        slot.events = 0;
        slot.bytes = 0;
        if let Some(part) = &mut slot.latency
            && !part.is_empty()
        {
            if let Some(total) = &mut self.latency {
                let _ = total.subtract(&**part);
            }
            part.reset();
        }
    }

    /// Events in the window.
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Bytes in the window.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The percentiles of the window, if there are measurements.
    pub fn latency_read(&self) -> Option<Latency> {
        let histogram = self.latency.as_ref().filter(|histogram| !histogram.is_empty())?;
        Some(Latency {
            from: self.below.and_then(Origin::hop),
            proto: None,
            n: histogram.len(),
            p50_ns: histogram.value_at_quantile(0.5),
            p90_ns: histogram.value_at_quantile(0.9),
            p99_ns: histogram.value_at_quantile(0.99),
            max_ns: histogram.max(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_the_window_leaves_the_percentiles() {
        let mut window = HopWindow::default();
        for _ in 0..99 {
            window.event(0, 100);
            window.latency(0, Hop::DevRecv, 1_000);
        }
        assert_eq!((window.events(), window.latency_read()), (0, None), "an open bucket is not shown");
        window.close(0);
        window.latency(1, Hop::DevRecv, 1_000_000);
        window.close(1);
        let latency = window.latency_read().unwrap();
        assert_eq!((window.events(), window.bytes(), latency.n), (99, 9_900, 100));
        assert!((990..=1_010).contains(&latency.p50_ns), "{latency:?}");
        assert!((990_000..=1_010_000).contains(&latency.max_ns), "{latency:?}");

        window.expire(0);
        let latency = window.latency_read().unwrap();
        assert_eq!((window.events(), latency.n), (0, 1));
        assert!(latency.p50_ns > 990_000);
        window.expire(1);
        assert_eq!(window.latency_read(), None);
    }

    #[test]
    fn absurd_latencies_are_kept_at_the_end_of_the_scale() {
        let mut window = HopWindow::default();
        window.latency(0, Hop::AppSend, 0);
        window.latency(0, Hop::AppSend, u64::MAX);
        window.close(0);
        assert_eq!(window.latency_read().unwrap().n, 2);
    }
}

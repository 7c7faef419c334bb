//! Sliding-window statistics of every hop, of all traffic. What a filter chooses is counted over time instead, see
//! [`crate::counts`].
//!
//! The places where it was are noted for their names: at most [`MAX_NODES`] network namespaces.

use crate::format;
use crate::lifeline::Lifeline;
use crate::names::NetnsKey;
use crate::protocols::ByProtocol;
use crate::window::{BUCKET_NS, BUCKETS, HopWindow, Latency};
use magscope_core::hop::{PATH_HOPS, Role};
use magscope_core::{Event, Hop};

/// Network namespaces that are noted.
pub const MAX_NODES: usize = 16;

/// Displayed statistics of one hop, over the complete buckets of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HopStats {
    /// Events per second.
    pub events_per_s: f64,
    /// Payload bytes per second; `None` where events of the hop carry none.
    pub bytes_per_s: Option<f64>,
    /// True if both rates are estimates, because a sampler leaves events out.
    pub estimated: bool,
    /// True if no events arrived, and all values are the kernel's sums.
    pub summed: bool,
    /// Latency from the hop below, of the protocols with the most journeys, which it names where there are others; `None` while no
    /// journey passed both.
    pub latency: Option<Latency>,
}

impl HopStats {
    /// Scales the rates by `weight`, the number of events per recorded event.
    #[must_use]
    pub fn scaled(self, weight: f64) -> Self {
        HopStats {
            events_per_s: self.events_per_s * weight,
            bytes_per_s: self.bytes_per_s.map(|bytes| bytes * weight),
            estimated: weight > 1.0,
            ..self
        }
    }

    /// One of its two rates as text with a mark: `≈18.2k/s` for an estimate, `Σ18.2k/s` for the kernel's sums.
    pub fn shown(&self, rate: &str) -> String {
        match (self.summed, self.estimated) {
            (true, _) => format::marked(format::SUMMED, rate),
            (_, true) => format::estimate(rate),
            _ => rate.to_owned(),
        }
    }
}

/// True if events of the hop have payload. A wake-up of a reader has none: other hops count the bytes it waits for.
pub const fn carries_payload(hop: Hop) -> bool {
    !matches!(hop.role(), Role::Ready | Role::Reader)
}

/// The windows of all hops.
pub struct Stats {
    hops: [HopWindow; PATH_HOPS],
    /// Times to each hop, by protocol: their steps begin at different hops.
    times: ByProtocol<[HopWindow; PATH_HOPS]>,
    /// Namespaces in order of appearance.
    netns_keys: Vec<NetnsKey>,
    /// Number of the bucket being filled, in event time.
    bucket: Option<u64>,
    /// Whole buckets in the window so far.
    whole: usize,
}

impl Default for Stats {
    fn default() -> Self {
        let hops = std::array::from_fn(|_| HopWindow::default());
        Stats { hops, times: ByProtocol::default(), netns_keys: Vec::new(), bucket: None, whole: 0 }
    }
}

impl Stats {
    /// The namespaces seen, in order of appearance.
    pub fn netns_keys(&self) -> impl Iterator<Item = NetnsKey> + '_ {
        self.netns_keys.iter().copied()
    }

    /// Advances the window to `time_ns`. Returns the number of bucket edges crossed. Time never decreases: a
    /// late event counts in the current bucket.
    pub fn advance(&mut self, time_ns: u64) -> u64 {
        let now = time_ns / BUCKET_NS;
        let Some(before) = self.bucket else {
            self.bucket = Some(now);
            return 0;
        };
        if now <= before {
            return 0;
        }
        let edges = now - before;
        // After a silence longer than the window every slot is empty, so that the numbering may jump.
        for bucket in before..before + edges.min(2 * (BUCKETS as u64 + 1)) {
            let (closing, leaving) = (Self::slot(bucket), Self::slot(bucket + 1));
            for window in self.hops.iter_mut().chain(self.times.values_mut().flatten()) {
                window.close(closing);
                window.expire(leaving);
            }
            self.whole = (self.whole + 1).min(BUCKETS);
        }
        self.bucket = Some(now);
        edges
    }

    /// Ring slot of a bucket.
    const fn slot(bucket: u64) -> usize {
        (bucket % (BUCKETS as u64 + 1)) as usize
    }

    fn filling(&self) -> usize {
        Self::slot(self.bucket.unwrap_or(0))
    }

    /// Counts an event, and notes where it was.
    pub fn event(&mut self, event: &Event, netns_key: Option<NetnsKey>) {
        let Some(index) = event.hop.rank() else { return };
        if let Some(netns_key) = netns_key {
            self.note(netns_key);
        }
        let at = self.filling();
        self.hops[index].event(at, event.payload_bytes());
    }

    fn note(&mut self, netns_key: NetnsKey) {
        if self.netns_keys.len() < MAX_NODES && !self.netns_keys.contains(&netns_key) {
            self.netns_keys.push(netns_key);
        }
    }

    /// Counts the latencies of a journey, and notes its ends.
    pub fn journey(&mut self, line: &Lifeline) {
        for netns_key in [line.from, line.to].into_iter().flatten() {
            self.note(netns_key);
        }
        let at = self.filling();
        for step in line.steps_outside_forwarders() {
            if let Some(index) = step.to.rank()
                && let Some(times) = self.times.entry(line.journey.proto)
            {
                times[index].latency(at, step.from, step.ns);
            }
        }
    }

    /// Displayed statistics of `hop`. `None` before the first complete bucket.
    pub fn read(&self, hop: Hop) -> Option<HopStats> {
        let index = hop.rank()?;
        if self.whole == 0 {
            return None;
        }
        let of = |proto| Some((proto, self.times.get(proto)?[index].latency_read()?));
        let latency = Latency::of_most(self.times.protocols().filter_map(of));
        let secs = (self.whole as u64 * BUCKET_NS) as f64 / 1e9;
        Some(HopStats {
            events_per_s: self.hops[index].events() as f64 / secs,
            bytes_per_s: carries_payload(hop).then(|| self.hops[index].bytes() as f64 / secs),
            estimated: false,
            summed: false,
            latency,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifeline::tests::lifeline;

    const S: u64 = 1_000_000_000;

    fn event(hop: Hop, time_ns: u64, len: u32) -> Event {
        Event { len, ..Event::at(hop, time_ns) }
    }

    #[test]
    fn rates_are_over_the_window() {
        let mut stats = Stats::default();
        for i in 0..400 {
            let time = i * S / 100;
            stats.advance(time);
            stats.event(&event(Hop::DevXmit, time, 1000), None);
        }
        stats.advance(4 * S);
        let xmit = stats.read(Hop::DevXmit).unwrap();
        assert_eq!((xmit.events_per_s as u64, xmit.bytes_per_s.map(|b| b as u64)), (100, Some(100_000)));
        let meant = xmit.scaled(4.0);
        assert_eq!((meant.events_per_s as u64, meant.estimated), (400, true));
        // Silence empties the window, however long it is.
        stats.advance(4000 * S);
        assert_eq!(stats.read(Hop::DevXmit).unwrap().events_per_s as u64, 0);
    }

    #[test]
    fn latencies_stand_at_the_upper_hop() {
        let mut stats = Stats::default();
        stats.advance(0);
        stats.journey(&lifeline(1, &[(Hop::DevQueue, 0), (Hop::DevXmit, 1_000), (Hop::DevRecv, 6_000)]));
        stats.advance(S);
        let from = |hop| stats.read(hop).unwrap().latency.map(|latency| (latency.from, latency.n));
        assert_eq!(from(Hop::DevXmit), Some((Some(Hop::DevQueue), 1)));
        assert_eq!(from(Hop::DevRecv), Some((Some(Hop::DevXmit), 1)));
        assert_eq!(from(Hop::DevQueue), None);
    }

    #[test]
    fn noted_namespaces_are_bounded() {
        let mut stats = Stats::default();
        stats.advance(0);
        for netns in 1..1000 {
            stats.event(&event(Hop::IpOut, 0, 1), Some(NetnsKey { node: 0, netns }));
        }
        assert_eq!(stats.netns_keys().count(), MAX_NODES);
        stats.advance(S / 2);
        assert_eq!(stats.read(Hop::IpOut).unwrap().events_per_s as u64, 1998);
    }
}

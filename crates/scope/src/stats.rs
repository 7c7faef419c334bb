//! Sliding-window statistics of every node and hop.
//!
//! A node is a network namespace. At most [`MAX_NODES`] have windows of their own. Events of further ones, and
//! those of an unknown node, are counted together and are visible only in the view of all nodes.

use crate::format;
use crate::lifeline::Lifeline;
use crate::names::NetnsKey;
use crate::protocols::{ByProtocol, order};
use crate::window::{BUCKET_NS, BUCKETS, HopWindow, Latency, Merged};
use magscope_core::hop::{PATH_HOPS, Role};
use magscope_core::{Direction, Event, Hop};

/// Nodes with windows of their own.
pub const MAX_NODES: usize = 16;
/// Index of the windows for data without a node of its own.
const ELSEWHERE: u8 = 0;

struct Node {
    netns: Option<NetnsKey>,
    hops: [HopWindow; PATH_HOPS],
    /// Times to each hop, by protocol: their steps begin at different hops.
    times: ByProtocol<[HopWindow; PATH_HOPS]>,
}

impl Node {
    fn windows(&mut self) -> impl Iterator<Item = &mut HopWindow> {
        self.hops.iter_mut().chain(self.times.values_mut().flatten())
    }
}

impl Node {
    fn new(netns: Option<NetnsKey>) -> Self {
        Node { netns, hops: std::array::from_fn(|_| HopWindow::default()), times: ByProtocol::default() }
    }
}

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

/// The nodes whose windows are read, per side of the journey. `None` for all nodes.
pub type Sides = Option<(Option<NetnsKey>, Option<NetnsKey>)>;

/// The windows of all nodes.
pub struct Stats {
    nodes: Vec<Node>,
    /// Number of the bucket being filled, in event time.
    bucket: Option<u64>,
    /// Whole buckets in the window so far.
    whole: usize,
    merged: Merged,
}

impl Default for Stats {
    fn default() -> Self {
        Stats { nodes: vec![Node::new(None)], bucket: None, whole: 0, merged: Merged::default() }
    }
}

impl Stats {
    /// The nodes seen, in order of appearance.
    pub fn netns_keys(&self) -> impl Iterator<Item = NetnsKey> + '_ {
        self.nodes.iter().filter_map(|node| node.netns)
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
            for window in self.nodes.iter_mut().flat_map(Node::windows) {
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

    /// Counts an event of a node.
    pub fn event(&mut self, event: &Event, netns_key: Option<NetnsKey>) {
        let Some(index) = event.hop.rank() else { return };
        let node = netns_key.map_or(ELSEWHERE, |netns_key| self.node(netns_key));
        let at = self.filling();
        self.nodes[usize::from(node)].hops[index].event(at, event.payload_bytes());
    }

    fn node(&mut self, netns_key: NetnsKey) -> u8 {
        if let Some(at) = self.nodes.iter().position(|node| node.netns == Some(netns_key)) {
            return at as u8;
        }
        if self.nodes.len() > MAX_NODES {
            return ELSEWHERE;
        }
        self.nodes.push(Node::new(Some(netns_key)));
        (self.nodes.len() - 1) as u8
    }

    /// Counts the latencies of a journey, each at the node of its upper hop.
    pub fn journey(&mut self, line: &Lifeline) {
        let from = line.from.map_or(ELSEWHERE, |netns_key| self.node(netns_key));
        let to = line.to.map_or(ELSEWHERE, |netns_key| self.node(netns_key));
        let at = self.filling();
        for step in line.steps_outside_forwarders() {
            let node = if step.to.direction() == Direction::Tx { from } else { to };
            if let Some(index) = step.to.rank()
                && let Some(times) = self.nodes[usize::from(node)].times.entry(line.journey.proto)
            {
                times[index].latency(at, step.from, step.ns);
            }
        }
    }

    /// Displayed statistics of `hop`. `None` before the first complete bucket, and for an outside node.
    pub fn read(&mut self, hop: Hop, sides: Sides) -> Option<HopStats> {
        let index = hop.rank()?;
        if self.whole == 0 {
            return None;
        }
        let wanted = match sides {
            None => None,
            Some((from, to)) => Some(if hop.direction() == Direction::Tx { from? } else { to? }),
        };
        let (mut events, mut bytes) = (0, 0);
        for node in self.nodes.iter().filter(|node| wanted.is_none() || node.netns == wanted) {
            events += node.hops[index].events();
            bytes += node.hops[index].bytes();
        }
        let (nodes, merged) = (&self.nodes, &mut self.merged);
        let nodes = || nodes.iter().filter(|node| wanted.is_none() || node.netns == wanted);
        let mut protocols: Vec<_> = nodes().flat_map(|node| node.times.protocols()).collect();
        protocols.sort_by_key(|proto| order(*proto));
        protocols.dedup();
        let latency = Latency::of_most(protocols.into_iter().filter_map(|proto| {
            merged.clear();
            nodes().filter_map(|node| node.times.get(proto)).for_each(|times| times[index].add_latency(merged));
            Some((proto, merged.latency()?))
        }));
        let secs = (self.whole as u64 * BUCKET_NS) as f64 / 1e9;
        let carries = !matches!(hop.role(), Role::Ready | Role::Reader);
        Some(HopStats {
            events_per_s: events as f64 / secs,
            bytes_per_s: carries.then(|| bytes as f64 / secs),
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

    #[allow(clippy::unnecessary_wraps)] // window queries take an `Option`
    fn netns_key(netns: u32) -> Option<NetnsKey> {
        Some(NetnsKey { node: 0, netns })
    }

    #[test]
    fn rates_are_per_node_and_over_the_window() {
        let mut stats = Stats::default();
        for i in 0..400 {
            let time = i * S / 100;
            stats.advance(time);
            stats.event(&event(Hop::DevXmit, time, 1000), netns_key(10));
            if i % 2 == 0 {
                stats.event(&event(Hop::DevXmit, time, 10), netns_key(20));
            }
            stats.event(&event(Hop::DevXmit, time, 1), None);
        }
        stats.advance(4 * S);
        let client = stats.read(Hop::DevXmit, Some((netns_key(10), None))).unwrap();
        assert_eq!((client.events_per_s as u64, client.bytes_per_s.map(|b| b as u64)), (100, Some(100_000)));
        let server = stats.read(Hop::DevXmit, Some((netns_key(20), None))).unwrap();
        assert_eq!(server.events_per_s as u64, 50);
        assert_eq!(stats.read(Hop::DevXmit, None).unwrap().events_per_s as u64, 250);
        let meant = stats.read(Hop::DevXmit, None).unwrap().scaled(4.0);
        assert_eq!((meant.events_per_s as u64, meant.estimated), (1_000, true));
        assert_eq!(stats.read(Hop::DevRecv, Some((netns_key(10), None))), None, "the receiver is outside");
        // Silence empties the window, however long it is.
        stats.advance(4000 * S);
        assert_eq!(stats.read(Hop::DevXmit, None).unwrap().events_per_s as u64, 0);
    }

    #[test]
    fn latencies_stand_at_the_node_of_the_upper_hop() {
        let mut stats = Stats::default();
        stats.advance(0);
        let mut line = lifeline(1, &[(Hop::DevQueue, 0), (Hop::DevXmit, 1_000), (Hop::DevRecv, 6_000)]);
        (line.from, line.to) = (netns_key(10), netns_key(20));
        stats.journey(&line);
        stats.advance(S);
        let xmit = stats.read(Hop::DevXmit, Some((netns_key(10), netns_key(20)))).unwrap().latency.unwrap();
        assert_eq!((xmit.from, xmit.n), (Hop::DevQueue, 1));
        let recv = stats.read(Hop::DevRecv, Some((netns_key(10), netns_key(20)))).unwrap().latency.unwrap();
        assert_eq!((recv.from, recv.n), (Hop::DevXmit, 1));
        assert_eq!(stats.read(Hop::DevRecv, Some((netns_key(20), netns_key(10)))).unwrap().latency, None);
    }

    #[test]
    fn nodes_are_bounded() {
        let mut stats = Stats::default();
        stats.advance(0);
        for netns in 1..1000 {
            stats.event(&event(Hop::IpOut, 0, 1), netns_key(netns));
        }
        assert_eq!(stats.netns_keys().count(), MAX_NODES);
        stats.advance(S / 2);
        assert_eq!(stats.read(Hop::IpOut, None).unwrap().events_per_s as u64, 1998);
    }
}

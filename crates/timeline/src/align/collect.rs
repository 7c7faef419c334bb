//! From crossings and clock samples to bounds of every pair of clocks.

use super::{Alignment, MOST_RECORDED, Node};
use crate::NodeClock;
use crate::join::Crossing;
use crate::pair::{Builder, Constraint, Kind, Recorded};
use magscope_core::clock::ClockSample;
use magscope_core::node::NodeInfo;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Maximum number of crossings per pair that wait for a later clock sample. Beyond it, crossings are used with
/// the larger error of an old clock sample.
const MAX_PENDING: usize = 1 << 16;

/// Collects the information of recordings about each other's clocks.
#[derive(Debug, Default)]
pub struct Aligner {
    nodes: Vec<Node>,
    pairs: BTreeMap<(u16, u16), Pair>,
}

impl Aligner {
    /// An aligner for recordings of these nodes. Recordings of one boot of one host share a clock, except the
    /// TSC: each recording counts it from its own beginning.
    pub fn new<'a>(nodes: impl IntoIterator<Item = &'a NodeInfo>) -> Self {
        Aligner { nodes: self::nodes(nodes), pairs: BTreeMap::new() }
    }

    /// True if all recordings share one clock: there is nothing to align.
    pub fn is_one_clock(&self) -> bool {
        self.nodes.iter().all(|node| node.same == 0)
    }

    /// Adds a clock sample of a recording, in order of time.
    pub fn clock(&mut self, node: u16, sample: ClockSample) {
        if let Some(node) = self.nodes.get_mut(usize::from(node)) {
            node.clock.push(sample);
        }
    }

    /// A packet crossed from one recording to another.
    pub fn crossing(&mut self, crossing: &Crossing) {
        let (Some(tx), Some(rx)) = (self.same(crossing.tx_node), self.same(crossing.rx_node)) else { return };
        if tx == rx {
            return;
        }
        let pair = self.pairs.entry((tx.min(rx), tx.max(rx))).or_default();
        pair.pending.push(*crossing);
        if pair.pending.len() >= MAX_PENDING {
            pair.settle(&self.nodes, (tx.min(rx), tx.max(rx)));
        }
    }

    /// The recordings have ended.
    pub fn finish(mut self) -> Alignment {
        let nodes = &self.nodes;
        self.pairs.iter_mut().for_each(|(clocks, pair)| pair.settle(nodes, *clocks));
        let pairs = self.pairs.into_iter().map(|(key, pair)| (key, pair.finish(nodes, key))).collect();
        let mut alignment = Alignment::new(self.nodes, pairs, MOST_RECORDED);
        alignment.refute_utc();
        alignment
    }

    fn same(&self, node: u16) -> Option<u16> {
        self.nodes.get(usize::from(node)).map(|node| node.same)
    }
}

/// Numbers of breaks of A's and of B's clock.
pub(super) type Breaks = [usize; 2];

#[derive(Debug, Default)]
struct Pair {
    pending: Vec<Crossing>,
    builder: Builder,
    /// The builder's current breaks.
    breaks: Breaks,
    /// The newest instant of A before any further break of B's clock.
    unbroken_ns: u64,
    /// Crossings of a span in which a clock broke.
    between: u64,
}

impl Pair {
    fn finish(self, nodes: &[Node], clocks: (u16, u16)) -> Recorded {
        // A break after the last packet has no later bounds, and ends the earlier ones.
        let next_ns = |clock, breaks| broken_ns(nodes, clock).get(breaks).map(|(from_ns, _)| *from_ns);
        let [a, b] = [next_ns(clocks.0, self.breaks[0]), next_ns(clocks.1, self.breaks[1])];
        self.builder.finish().with_more_between_epochs(self.between).until(a, b)
    }

    /// Converts crossings to bounds; those without a clock sample of their node are left out.
    fn settle(&mut self, nodes: &[Node], clocks: (u16, u16)) {
        let broken = [broken_ns(nodes, clocks.0), broken_ns(nodes, clocks.1)];
        let mut spans: BTreeMap<Breaks, Vec<Constraint>> = BTreeMap::new();
        for crossing in self.pending.drain(..) {
            let Some((stamps, constraint)) = constraint(nodes, clocks.0, &crossing) else { continue };
            match (breaks_before(&broken[0], stamps[0]), breaks_before(&broken[1], stamps[1])) {
                (Some(a), Some(b)) => spans.entry([a, b]).or_default().push(constraint),
                _ => self.between += 1,
            }
        }
        // In order of time. Packets in flight during a break may form a spurious span.
        let mut spans: Vec<_> = spans.into_iter().collect();
        spans.sort_by_key(|([a, b], span)| (a + b, Reverse(span.len())));
        for (breaks, span) in spans {
            if breaks[0] < self.breaks[0] || breaks[1] < self.breaks[1] {
                self.between += span.len() as u64;
                continue;
            }
            if breaks != self.breaks {
                self.step(&broken[0], breaks, &span);
            }
            for constraint in span {
                if constraint.kind == Kind::Upper {
                    self.unbroken_ns = self.unbroken_ns.max(constraint.at_ns);
                }
                self.builder.push(constraint);
            }
        }
    }

    /// Applies a known break of a clock. A break of A's clock has a known instant. A break of B's lies after
    /// the sending of the data that B had received before, and before the receipt of the data sent since.
    fn step(&mut self, broken_a: &[(u64, u64)], breaks: Breaks, next: &[Constraint]) {
        let (mut from_ns, mut to_ns) = (u64::MAX, 0);
        if let Some(own) = broken_a.get(self.breaks[0]..breaks[0]) {
            from_ns = own.first().map_or(from_ns, |(from, _)| *from);
            to_ns = own.last().map_or(to_ns, |(_, to)| *to);
        }
        if breaks[1] != self.breaks[1] {
            let received = next.iter().filter(|c| c.kind == Kind::Lower).map(|c| c.at_ns);
            from_ns = from_ns.min(self.unbroken_ns);
            to_ns = to_ns.max(received.min().unwrap_or(u64::MAX));
        }
        self.builder.step_between(from_ns, to_ns);
        self.breaks = breaks;
    }
}

/// Recordings of one boot of one host share a clock, except the TSC.
pub(super) fn nodes<'a>(infos: impl IntoIterator<Item = &'a NodeInfo>) -> Vec<Node> {
    let mut boots = Boots::default();
    infos.into_iter().map(|info| boots.node(info)).collect()
}

/// The boots of the recordings so far, where available.
#[derive(Debug, Default)]
pub(super) struct Boots(Vec<Option<String>>);

impl Boots {
    /// The next recording.
    pub(super) fn node(&mut self, info: &NodeInfo) -> Node {
        let boot = Some(&info.boot_id).filter(|boot| !boot.is_empty() && info.clock != "tsc").cloned();
        let earlier = boot.as_ref().and_then(|_| self.0.iter().position(|earlier| *earlier == boot));
        let at = self.0.len();
        self.0.push(boot);
        Node { clock: NodeClock::new(), same: earlier.unwrap_or(at) as u16 }
    }
}

/// The constraint of a crossing, with its instants on R of A and of B.
pub(super) fn constraint(nodes: &[Node], a: u16, crossing: &Crossing) -> Option<([u64; 2], Constraint)> {
    let node = |node: u16| nodes.get(usize::from(node));
    let sent = node(crossing.tx_node)?.clock.raw_ns(crossing.sent_ns)?;
    let received = node(crossing.rx_node)?.clock.raw_ns(crossing.received_ns)?;
    let error_ns = sent.error_ns.saturating_add(received.error_ns);
    let (stamps, made) = if node(crossing.tx_node)?.same == a {
        ([sent.ns, received.ns], Constraint::a_to_b(sent.ns, received.ns, error_ns))
    } else {
        ([received.ns, sent.ns], Constraint::b_to_a(sent.ns, received.ns, error_ns))
    };
    Some((stamps, made?.of_packet(crossing.sent_ns)))
}

/// The spans of R with a break of a clock, from all recordings with this clock.
fn broken_ns(nodes: &[Node], clock: u16) -> Vec<(u64, u64)> {
    let recordings = nodes.iter().filter(|node| node.same == clock);
    let mut spans: Vec<(u64, u64)> =
        recordings.flat_map(|node| node.clock.breaks()).map(|(from, to, _)| (from, to)).collect();
    spans.sort_unstable();
    // two recordings see one break, each within a span of its own
    spans.dedup_by(|next, previous| {
        let same = next.0 < previous.1;
        previous.1 = if same { previous.1.max(next.1) } else { previous.1 };
        same
    });
    spans
}

/// Number of spans that end before an instant; `None` within one.
pub(super) fn breaks_before(spans: &[(u64, u64)], at_ns: u64) -> Option<usize> {
    let before = spans.partition_point(|(_, to)| *to <= at_ns);
    spans.get(before).is_none_or(|(from, _)| at_ns <= *from).then_some(before)
}

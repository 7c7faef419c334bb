//! Alignment: one time line for several recordings, from the packets that crossed between them.
//!
//! The join gives [`Crossing`]s: a packet certainly still here at one instant of one clock, certainly there at one of the other's.
//! Each bounds the difference of the two clocks from one side ([`crate::clock::pair`]); all together give an interval that holds the truth
//! as long as crystals drift apart by less than 200 ppm. The time line is that of recording 0.

use crate::clock::graph::{Contradiction, Graph, Solution};
use crate::clock::pair::{Bounds, Builder, Constraint, Drift, Recorded, State};
use crate::clock::{ClockSample, NodeClock};
use crate::join::{Crossing, Timeline};
use crate::node::NodeInfo;
use std::collections::BTreeMap;

/// Crossings that wait for a clock sample after them, a pair; beyond it they are taken with the larger error of a clock read
/// too long ago.
const MAX_PENDING: usize = 1 << 16;

/// Collects what recordings say about each other's clocks.
#[derive(Debug, Default)]
pub struct Aligner {
    nodes: Vec<Node>,
    pairs: BTreeMap<(u16, u16), Pair>,
    crossings: u64,
}

#[derive(Clone, Debug, Default)]
struct Node {
    clock: NodeClock,
    /// The first recording with the same clock.
    same: u16,
}

#[derive(Debug, Default)]
struct Pair {
    pending: Vec<Crossing>,
    builder: Builder,
}

impl Aligner {
    /// For recordings of these nodes. Those of one boot of one host share a clock.
    pub fn new<'a>(nodes: impl IntoIterator<Item = &'a NodeInfo>) -> Self {
        let mut boots: Vec<&str> = Vec::new();
        let mut aligner = Aligner::default();
        for (at, info) in nodes.into_iter().enumerate() {
            let known = boots.iter().position(|boot| !boot.is_empty() && *boot == info.boot_id);
            boots.push(&info.boot_id);
            aligner.nodes.push(Node { clock: NodeClock::new(), same: known.unwrap_or(at) as u16 });
        }
        aligner
    }

    /// Whether all recordings share one clock, so that there is nothing to align.
    pub fn is_one_clock(&self) -> bool {
        self.nodes.iter().all(|node| node.same == 0)
    }

    /// How the clocks of a recording stood. In order of time.
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
        self.crossings += 1;
        let pair = self.pairs.entry((tx.min(rx), tx.max(rx))).or_default();
        pair.pending.push(*crossing);
        if pair.pending.len() >= MAX_PENDING {
            let (nodes, crossings) = (&self.nodes, self.crossings);
            pair.settle(nodes, crossings);
        }
    }

    /// The recordings have ended.
    pub fn finish(mut self) -> Alignment {
        let (nodes, crossings) = (&self.nodes, self.crossings);
        self.pairs.values_mut().for_each(|pair| pair.settle(nodes, crossings));
        let pairs = self.pairs.into_iter().map(|(key, pair)| (key, pair.builder.finish())).collect();
        Alignment { nodes: self.nodes, pairs }
    }

    fn same(&self, node: u16) -> Option<u16> {
        self.nodes.get(usize::from(node)).map(|node| node.same)
    }
}

impl Pair {
    /// Turns crossings into bounds; those without a clock sample of their node are left out.
    fn settle(&mut self, nodes: &[Node], name: u64) {
        for crossing in self.pending.drain(..) {
            let reading = |node: u16, at_ns| nodes.get(usize::from(node))?.clock.raw_ns(at_ns);
            let sent = reading(crossing.tx_node, crossing.sent_ns);
            let received = reading(crossing.rx_node, crossing.received_ns);
            let (Some(sent), Some(received)) = (sent, received) else { continue };
            let error_ns = sent.error_ns.saturating_add(received.error_ns);
            let same = |node: u16| nodes.get(usize::from(node)).map_or(0, |node| node.same);
            let constraint = if same(crossing.tx_node) < same(crossing.rx_node) {
                Constraint::a_to_b(sent.ns, received.ns, error_ns)
            } else {
                Constraint::b_to_a(sent.ns, received.ns, error_ns)
            };
            if let Some(constraint) = constraint {
                self.builder.push(constraint.of_packet(name));
            }
        }
    }
}

/// How the clocks of several recordings stand to each other.
#[derive(Debug)]
pub struct Alignment {
    nodes: Vec<Node>,
    pairs: BTreeMap<(u16, u16), Recorded>,
}

impl Alignment {
    /// What is known of each pair of clocks: the first recordings that have them, and the bounds of the second's R less
    /// the first's.
    pub fn pairs(&self) -> impl Iterator<Item = ((u16, u16), &Recorded)> {
        self.pairs.iter().map(|(key, pair)| (*key, pair))
    }

    /// The clocks of a recording.
    pub fn clock(&self, node: u16) -> Option<&NodeClock> {
        self.nodes.get(usize::from(node)).map(|node| &node.clock)
    }

    /// What the difference between two recordings' clocks rests on; `None` where they share one.
    pub fn state(&self, a: u16, b: u16) -> Option<State> {
        let (a, b) = (self.same(a)?, self.same(b)?);
        if a == b {
            return None;
        }
        Some(self.pairs.get(&(a.min(b), a.max(b))).map_or(State::Unsynchronised, Recorded::state))
    }

    /// What all pairs say together at one instant of R of recording 0: bounds of every two clocks, also of those that
    /// never spoke to each other. Recordings that share a clock have the number of the first of them.
    ///
    /// # Errors
    /// Names the recordings whose clocks contradict each other.
    pub fn at(&self, raw_0_ns: u64) -> Result<Solution, Contradiction> {
        let instants = self.instants(raw_0_ns);
        let mut graph = Graph::new(self.nodes.len());
        for ((a, b), pair) in &self.pairs {
            let (a, b) = (usize::from(*a), usize::from(*b));
            let Some((at_ns, off_ns)) = instants.get(a).copied().flatten() else { continue };
            // The instant on this clock is known to within `off_ns`, and the difference drifts during that.
            let slack_ns = Drift::default().over_ns(off_ns);
            let Bounds { lower, upper } = pair.bounds_at(at_ns);
            let lower = lower.map(|ns| ns.saturating_sub_unsigned(slack_ns));
            graph.bound(a, b, &Bounds { lower, upper: upper.map(|ns| ns.saturating_add_unsigned(slack_ns)) });
        }
        graph.solve()
    }

    /// One instant on R of every recording that estimates lead to from recording 0, and how far it may be off.
    fn instants(&self, raw_0_ns: u64) -> Vec<Option<(u64, u64)>> {
        let mut instants = vec![None; self.nodes.len()];
        let mut next = vec![(0_u16, raw_0_ns, 0_u64)];
        while let Some((from, at_ns, off_ns)) = next.pop() {
            match instants.get_mut(usize::from(from)) {
                Some(instant @ None) => *instant = Some((at_ns, off_ns)),
                _ => continue,
            }
            for (a, b) in self.pairs.keys().filter(|(a, b)| *a == from || *b == from) {
                let to = if *a == from { *b } else { *a };
                if let Some((there_ns, half_width_ns)) = self.cross(from, to, at_ns) {
                    next.push((to, there_ns, off_ns.saturating_add(half_width_ns)));
                }
            }
        }
        instants
    }

    fn same(&self, node: u16) -> Option<u16> {
        self.nodes.get(usize::from(node)).map(|node| node.same)
    }

    /// R of `to` at an instant of R of `from`, and how far from the truth that can be.
    fn cross(&self, from: u16, to: u16, raw_ns: u64) -> Option<(u64, u64)> {
        let pair = self.pairs.get(&(from.min(to), from.max(to)))?;
        if from < to {
            let (difference_ns, half_width_ns) = pair.estimate_at(raw_ns)?;
            return Some((raw_ns.checked_add_signed(difference_ns)?, half_width_ns));
        }
        // The difference is known by the other clock's instants: look until both agree. It drifts by parts in a million, so
        // that each look is right to a millionth of the one before.
        let mut at_ns = pair.middle_ns().unwrap_or(raw_ns);
        for _ in 0..4 {
            let (difference_ns, half_width_ns) = pair.estimate_at(at_ns)?;
            let next = raw_ns.checked_add_signed(difference_ns.checked_neg()?)?;
            if next == at_ns {
                return Some((at_ns, half_width_ns));
            }
            at_ns = next;
        }
        let (_, half_width_ns) = pair.estimate_at(at_ns)?;
        Some((at_ns, half_width_ns))
    }
}

impl Timeline for Alignment {
    fn shift_ns(&self, node: u16, at_ns: u64) -> Option<i64> {
        let same = self.same(node)?;
        if same == 0 {
            return Some(0);
        }
        let raw = self.clock(node)?.raw_ns(at_ns)?;
        let (raw_0, _) = self.cross(same, 0, raw.ns)?;
        let there = self.clock(0)?.monotonic_ns(raw_0)?;
        i64::try_from(i128::from(there.ns) - i128::from(at_ns)).ok()
    }

    fn difference_ns(&self, a: u16, b: u16, at_ns: u64) -> Option<(i64, u64)> {
        let (from, to) = (self.same(a)?, self.same(b)?);
        if from == to {
            return Some((0, 0));
        }
        let raw = self.clock(a)?.raw_ns(at_ns)?;
        let (there, half_width_ns) = self.cross(from, to, raw.ns)?;
        let back = self.clock(b)?.monotonic_ns(there)?;
        let difference_ns = i64::try_from(i128::from(back.ns) - i128::from(at_ns)).ok()?;
        Some((difference_ns, half_width_ns.saturating_add(raw.error_ns).saturating_add(back.error_ns)))
    }

    fn rough_ns(&self, node: u16, at_ns: u64) -> i64 {
        // Where this very instant has no bound, the difference amid the recording is right to within what clocks drift.
        let amid = || {
            let pair = self.pairs.get(&(0, self.same(node)?))?;
            let (difference_ns, _) = pair.estimate_at(pair.middle_ns()?)?;
            let (first, second) = (self.clock(0)?.samples().first()?, self.clock(node)?.samples().first()?);
            let unslewed = |s: &ClockSample| i128::from(s.monotonic_ns) - i128::from(s.raw_ns);
            i64::try_from(unslewed(first) - unslewed(second) - i128::from(difference_ns)).ok()
        };
        let shift_ns = self.shift_ns(node, at_ns).or_else(amid).unwrap_or(0);
        (at_ns as i64).wrapping_add(shift_ns)
    }
}

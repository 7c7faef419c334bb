//! Alignment of running recordings: bounds from the data so far, in constant memory.

use super::collect::{Boots, Breaks, break_between, breaks_before, constraint};
use super::{Alignment, MOST_LIVE, Node, two_sided};
use crate::join::{Crossing, Timeline};
use crate::pair::{Counts, Estimate, Live};
use magscope_core::clock::ClockSample;
use magscope_core::node::NodeInfo;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of crossings per pair that wait for a later clock sample; of more, the oldest are left out,
/// which only widens the bounds.
const MAX_PENDING: usize = 1 << 14;
/// Maximum number of clock samples per node: some seven minutes, at ten per second.
const MAX_SAMPLES: usize = 1 << 12;
/// Maximum number of stored breaks of a clock; earlier instants are left out.
const MAX_BREAKS: usize = 64;

/// The current offsets between the clocks of running sources: Level 0 and Level 1 as packets arrive.
///
/// It receives clock samples and crossings while other code queries the time line, so it is shared within one
/// thread. A crossing counts after a later clock sample on both sides, O(1) each. Until then, and before the
/// first, older bounds hold and widen with time. A break of a clock ends the bounds of its pairs as soon as a
/// sample shows it.
#[derive(Debug)]
pub struct Online(RefCell<Inner>);

#[derive(Debug)]
struct Inner {
    boots: Boots,
    alignment: Alignment<Live>,
    pending: BTreeMap<(u16, u16), Pending>,
    /// Per clock.
    broken: Vec<Broken>,
    /// Approximate offset from a node's event clock to that of node 0, from arrival times.
    arrived: Vec<Option<i64>>,
    /// The newest instant so far, approximately, on node 0's event clock.
    newest_ns: Option<i64>,
    ended: Vec<bool>,
}

/// Spans of R in which a clock broke.
#[derive(Debug, Default)]
struct Broken {
    spans: Vec<(u64, u64)>,
    forgotten: usize,
}

#[derive(Debug, Default)]
struct Pending {
    crossings: VecDeque<Crossing>,
    /// Numbers of breaks of the two clocks at the beginning of the bounds.
    breaks: Breaks,
    left_out: u64,
}

impl Online {
    /// The initial state for sources of these nodes. Nodes of one boot of one host share a clock, see
    /// [`Aligner::new`](super::Aligner::new).
    pub fn new<'a>(nodes: impl IntoIterator<Item = &'a NodeInfo>) -> Self {
        let online = Online(RefCell::new(Inner {
            boots: Boots::default(),
            alignment: Alignment::new(Vec::new(), BTreeMap::new(), MOST_LIVE),
            pending: BTreeMap::new(),
            broken: Vec::new(),
            arrived: Vec::new(),
            newest_ns: None,
            ended: Vec::new(),
        }));
        nodes.into_iter().for_each(|info| online.join(info));
        online
    }

    /// Adds a source while the others run.
    pub fn join(&self, info: &NodeInfo) {
        let inner = &mut *self.0.borrow_mut();
        inner.alignment.nodes.push(inner.boots.node(info));
        inner.broken.push(Broken::default());
        inner.arrived.push(None);
        inner.ended.push(false);
    }

    /// Reports data of a source up to this instant of its event clock. The first data of a source other than
    /// the first are taken as simultaneous with the newest of earlier sources, until packets give better
    /// bounds.
    pub fn arrived(&self, node: u16, event_ns: u64) {
        let Inner { alignment, arrived, newest_ns, .. } = &mut *self.0.borrow_mut();
        let own_ns = event_ns as i64;
        let Some(arrived) = arrived.get_mut(usize::from(node)) else { return };
        if node == 0 {
            *arrived = Some(0);
        }
        if let (None, Some(there_ns)) = (*arrived, *newest_ns) {
            *arrived = Some(there_ns.wrapping_sub(own_ns));
        }
        let shift_ns = alignment.shift_ns(node, event_ns).or(*arrived);
        *newest_ns = (*newest_ns).max(shift_ns.map(|shift_ns| own_ns.wrapping_add(shift_ns)));
    }

    /// Places a source by an instant of its event clock and one of node 0's that are about the same, until packets give
    /// better bounds.
    pub fn place(&self, node: u16, event_ns: u64, there_ns: u64) {
        if let Some(arrived) = self.0.borrow_mut().arrived.get_mut(usize::from(node)) {
            *arrived = Some((there_ns as i64).wrapping_sub(event_ns as i64));
        }
    }

    /// True if a source's data, or packets, have placed it on the time line.
    pub fn has_place(&self, node: u16) -> bool {
        self.0.borrow().arrived.get(usize::from(node)).is_some_and(Option::is_some)
    }

    /// True if packets, or a common clock, place an instant of a source on the time line.
    pub fn is_aligned(&self, node: u16, event_ns: u64) -> bool {
        self.0.borrow().alignment.shift_ns(node, event_ns).is_some()
    }

    /// Adds a current clock sample of a source.
    pub fn clock(&self, node: u16, sample: ClockSample) {
        self.0.borrow_mut().clock(node, sample);
    }

    /// A packet crossed from one source to another.
    pub fn crossing(&self, crossing: &Crossing) {
        self.0.borrow_mut().crossing(crossing);
    }

    /// Ends a source: no more samples follow.
    pub fn ended(&self, node: u16) {
        self.0.borrow_mut().end(node);
    }

    /// Range of instants of a node's event clock with bounds. It spans the second sample to the last but one,
    /// because a slew may have begun outside. After the end of the source, up to the last sample.
    pub fn settled_ns(&self, node: u16) -> Option<(u64, u64)> {
        self.0.borrow().settled_ns(node)
    }

    /// Counts of the crossings of two clocks, by the first nodes that have them.
    pub fn counts(&self, a: u16, b: u16) -> Counts {
        let inner = self.0.borrow();
        let counts = inner.alignment.pair(a, b).map(|live| live.certified().counts()).unwrap_or_default();
        let left_out = inner.pending.get(&(a, b)).map_or(0, |pending| pending.left_out);
        Counts { between_epochs: counts.between_epochs + left_out, ..counts }
    }

    /// Gives access to the current alignment.
    pub fn look<T>(&self, at: impl FnOnce(&Alignment<Live>) -> T) -> T {
        at(&self.0.borrow().alignment)
    }
}

impl Timeline for Online {
    fn shift_ns(&self, node: u16, at_ns: u64) -> Option<i64> {
        self.0.borrow().alignment.shift_ns(node, at_ns)
    }

    /// The offset from arrival times, until packets give better bounds.
    fn placed_ns(&self, node: u16, at_ns: u64) -> i64 {
        let inner = self.0.borrow();
        let arrived = || inner.arrived.get(usize::from(node)).copied().flatten();
        inner.alignment.shift_ns(node, at_ns).or_else(arrived).unwrap_or(0)
    }

    /// `None` for instants that are not settled on both sides, see [`Online::settled_ns`].
    fn difference_ns(&self, a: u16, b: u16, at_ns: u64) -> Option<Estimate> {
        let inner = self.0.borrow();
        let difference = inner.alignment.difference_ns(a, b, at_ns)?;
        // Nodes with one clock need no bounds.
        if inner.alignment.same(a) == inner.alignment.same(b) {
            return Some(difference);
        }
        let settled = |node, ns| inner.settled_ns(node).filter(|(from, to)| (*from..=*to).contains(&ns));
        settled(a, at_ns)?;
        settled(b, at_ns.checked_add_signed(difference.ns)?)?;
        Some(difference)
    }

    fn rough_ns(&self, node: u16, at_ns: u64) -> i64 {
        (at_ns as i64).wrapping_add(self.placed_ns(node, at_ns))
    }
}

impl Inner {
    fn clock(&mut self, node: u16, sample: ClockSample) {
        let at = usize::from(node);
        let Some(Node { clock, same }) = self.alignment.nodes.get_mut(at) else { return };
        let (same, count) = (*same, clock.samples().len());
        clock.push(sample);
        let broke = clock.newest_break().filter(|_| clock.samples().len() > count);
        let broke = broke.map(|(from_ns, to_ns, _)| (from_ns, to_ns));
        clock.keep_newest(MAX_SAMPLES);
        // The clock may have broken between two recordings of it.
        let earlier = if count == 0 { self.newest_elsewhere(same, at) } else { None };
        let broke = broke.or_else(|| break_between(&earlier?, &sample));
        // a packet sent before a break counts before it
        let concerned = self.settle_all(same);
        if let (Some(span), Some(broken)) = (broke, self.broken.get_mut(usize::from(same)))
            && broken.add(span)
        {
            for pair in concerned {
                self.step(pair);
            }
        }
    }

    /// The newest sample of a clock in other recordings than this one.
    fn newest_elsewhere(&self, clock: u16, own: usize) -> Option<ClockSample> {
        let nodes = self.alignment.nodes.iter().enumerate();
        let others = nodes.filter(|(at, node)| *at != own && node.same == clock);
        others.filter_map(|(_, node)| node.clock.newest()).max_by_key(|sample| sample.raw_ns)
    }

    fn crossing(&mut self, crossing: &Crossing) {
        let same = |node: u16| self.alignment.same(node);
        let (Some(tx), Some(rx)) = (same(crossing.tx_node), same(crossing.rx_node)) else { return };
        if tx == rx {
            return;
        }
        let pair = (tx.min(rx), tx.max(rx));
        let breaks = [self.breaks(pair.0), self.breaks(pair.1)];
        self.alignment.paired.extend([pair, (pair.1, pair.0)]);
        let pending = self.pending.entry(pair).or_insert_with(|| Pending { breaks, ..Pending::default() });
        if pending.crossings.len() >= MAX_PENDING {
            pending.crossings.pop_front();
            pending.left_out += 1;
        }
        pending.crossings.push_back(*crossing);
        let has_ended = |node: u16| self.ended.get(usize::from(node)).copied().unwrap_or_default();
        if has_ended(crossing.tx_node) && has_ended(crossing.rx_node) {
            self.settle(pair); // no later sample will arrive
        }
    }

    fn settled_ns(&self, node: u16) -> Option<(u64, u64)> {
        settled_ns(&self.alignment, &self.ended, node)
    }

    fn end(&mut self, node: u16) {
        let at = usize::from(node);
        if let (Some(ended), Some(same)) = (self.ended.get_mut(at), self.alignment.same(node)) {
            *ended = true;
            self.settle_all(same);
        }
    }

    /// Processes the settled crossings between a clock and every other.
    fn settle_all(&mut self, clock: u16) -> Vec<(u16, u16)> {
        let concerned = self.alignment.neighbours(clock).map(|other| (clock.min(other), clock.max(other)));
        let concerned: Vec<(u16, u16)> = concerned.collect();
        for pair in &concerned {
            self.settle(*pair);
        }
        concerned
    }

    /// Processes the crossings whose instants are settled on both nodes' clocks.
    fn settle(&mut self, pair: (u16, u16)) {
        let settled = |node: u16| settled_ns(&self.alignment, &self.ended, node);
        let Some(pending) = self.pending.get_mut(&pair) else { return };
        let (nodes, broken) = (&self.alignment.nodes, &self.broken);
        let (mut ready, mut left_out) = (Vec::new(), 0);
        pending.crossings.retain(|crossing| {
            let spans = settled(crossing.tx_node).zip(settled(crossing.rx_node));
            let Some(((sent_from, sent_to), (received_from, received_to))) = spans else { return true };
            let is_ready = crossing.sent_ns <= sent_to && crossing.received_ns <= received_to;
            if is_ready {
                // Before the second sample an unseen slew may have begun.
                if crossing.sent_ns < sent_from || crossing.received_ns < received_from {
                    left_out += 1;
                    return false;
                }
                let before =
                    |clock: u16, ns| broken.get(usize::from(clock)).and_then(|broken| broken.before(ns));
                let made = constraint(nodes, pair.0, crossing);
                match made.map(|(stamps, made)| ([before(pair.0, stamps[0]), before(pair.1, stamps[1])], made))
                {
                    Some((breaks, made)) if breaks == pending.breaks.map(Some) => ready.push(made),
                    _ => left_out += 1,
                }
            }
            !is_ready
        });
        pending.left_out += left_out;
        if ready.is_empty() {
            return;
        }
        ready.sort_unstable_by_key(|constraint| constraint.at_ns);
        let live = self.alignment.pairs.entry(pair).or_default();
        for constraint in &ready {
            live.push(constraint);
        }
        let is_bounded = two_sided(live);
        self.alignment.paths.set(pair, is_bounded);
    }

    /// Handles a break of a clock of a pair: earlier bounds of their difference are invalid.
    fn step(&mut self, pair: (u16, u16)) {
        let breaks = [self.breaks(pair.0), self.breaks(pair.1)];
        if let Some(pending) = self.pending.get_mut(&pair) {
            pending.breaks = breaks;
        }
        if let Some(live) = self.alignment.pairs.get_mut(&pair) {
            live.step();
            self.alignment.paths.set(pair, false);
        }
    }

    fn breaks(&self, clock: u16) -> usize {
        self.broken.get(usize::from(clock)).map_or(0, |broken| broken.forgotten + broken.spans.len())
    }
}

fn settled_ns(alignment: &Alignment<Live>, ended: &[bool], node: u16) -> Option<(u64, u64)> {
    let clock = alignment.clock(node)?;
    let (from, to) = clock.settled_ns()?;
    let ended = ended.get(usize::from(node)).copied().unwrap_or_default();
    Some((from, if ended { clock.newest()?.event_ns() } else { to }))
}

impl Broken {
    /// Adds a span. True if it is a new break. Two recordings see one break, each within a span of its own.
    fn add(&mut self, (from, to): (u64, u64)) -> bool {
        if let Some(last) = self.spans.last_mut()
            && from < last.1
        {
            last.1 = last.1.max(to);
            return false;
        }
        self.spans.push((from, to));
        if self.spans.len() > MAX_BREAKS {
            self.spans.remove(0);
            self.forgotten += 1;
        }
        true
    }

    /// Number of breaks of the clock at an instant; `None` within a break, or before the stored ones.
    fn before(&self, raw_ns: u64) -> Option<usize> {
        let remembered = self.forgotten == 0 || self.spans.first().is_some_and(|(from, _)| raw_ns > *from);
        let before = breaks_before(&self.spans, raw_ns).filter(|_| remembered)?;
        Some(before + self.forgotten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair::{Bounds, State};

    const SECOND: u64 = 1_000_000_000;
    const BEGIN_NS: u64 = 1_000 * SECOND;
    const DELAY_NS: u64 = 25_000;

    fn sample(since_ns: u64) -> ClockSample {
        let own_ns = BEGIN_NS + since_ns;
        ClockSample { monotonic_ns: own_ns, raw_ns: own_ns, width_ns: 100, ..ClockSample::default() }
    }

    /// Ten seconds of hosts, and packets in both directions of each of these pairs up to a time since the beginning; later
    /// only in one.
    fn ten_seconds(hosts: u16, talks: &[(u16, u16, u64)]) -> Online {
        let info = |i: u16| NodeInfo { boot_id: i.to_string(), ..NodeInfo::default() };
        let online = Online::new(&(0..hosts).map(info).collect::<Vec<_>>());
        for since_ns in (0..10 * SECOND).step_by(100_000_000) {
            for node in 0..hosts {
                online.clock(node, sample(since_ns));
            }
            for (a, b, until_ns) in talks.iter().copied() {
                let sent_ns = BEGIN_NS + since_ns + 1_000_000;
                let received_ns = sent_ns + DELAY_NS;
                online.crossing(&Crossing { tx_node: a, rx_node: b, sent_ns, received_ns });
                if since_ns < until_ns {
                    online.crossing(&Crossing { tx_node: b, rx_node: a, sent_ns, received_ns });
                }
            }
        }
        online
    }

    #[test]
    fn two_hosts_in_holdover_are_not_certified() {
        let state = |until_ns| ten_seconds(2, &[(0, 1, until_ns)]).look(|all| all.state(0, 1));
        assert_eq!(state(10 * SECOND), Some(State::Certified));
        assert_eq!(state(3 * SECOND), Some(State::Holdover));
    }

    #[test]
    fn packets_with_a_third_host_certify_as_long_as_they_are_recent() {
        let at_ns = BEGIN_NS + 9 * SECOND;
        let state = |until_ns| {
            let talks = [(0, 1, 3 * SECOND), (0, 2, until_ns), (1, 2, until_ns)];
            ten_seconds(3, &talks).look(|all| all.state_at(0, 1, at_ns))
        };
        assert_eq!(state(10 * SECOND), Some(State::Certified));
        assert_eq!(state(6 * SECOND), Some(State::Holdover));
        // Without packets of their own.
        let state = |until_ns| {
            let talks = [(0, 2, until_ns), (1, 2, until_ns)];
            ten_seconds(3, &talks).look(|all| all.state_at(0, 1, at_ns))
        };
        assert_eq!(state(10 * SECOND), Some(State::Certified));
        assert_eq!(state(6 * SECOND), Some(State::Holdover));
    }

    #[test]
    fn a_host_that_sleeps_between_two_sources_has_a_break() {
        let info = |boot: &str| NodeInfo { boot_id: boot.to_owned(), ..NodeInfo::default() };
        let online = Online::new(&[info("a"), info("b")]);
        for since_ns in (0..10 * SECOND).step_by(100_000_000) {
            for node in [0, 1] {
                online.clock(node, sample(since_ns));
                let sent_ns = BEGIN_NS + since_ns + 1_000_000;
                let (tx_node, rx_node, received_ns) = (node, 1 - node, sent_ns + DELAY_NS);
                online.crossing(&Crossing { tx_node, rx_node, sent_ns, received_ns });
            }
        }
        let bounds_at =
            |since_ns: u64| online.look(|all| all.pair(0, 1).map(|live| live.bounds_at(BEGIN_NS + since_ns)));
        assert!(bounds_at(9 * SECOND).is_some_and(|bounds| bounds.width_ns().is_some()));
        online.ended(0);
        online.join(&info("a"));
        online.clock(2, ClockSample { suspended_ns: 5 * SECOND, ..sample(15 * SECOND) });
        assert_eq!(bounds_at(15 * SECOND), Some(Bounds::NONE));
        // Another recording of the same time has none.
        online.join(&info("a"));
        online.clock(3, ClockSample { suspended_ns: 5 * SECOND, ..sample(16 * SECOND) });
        assert_eq!(online.look(|all| all.pair(0, 1).map(|live| live.certified().steps())), Some(1));
    }
}

//! From crossings and clock samples to bounds of every pair of clocks.

use super::{Alignment, MOST_RECORDED, Node};
use crate::NodeClock;
use crate::join::Crossing;
use crate::pair::{Builder, Constraint, Kind, Recorded};
use magscope_core::clock::ClockSample;
use magscope_core::node::NodeInfo;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::mem::take;

/// Maximum number of crossings per pair that wait for a later clock sample. If half of it has none yet, crossings are
/// used with the larger error of an old clock sample.
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
            let unsettled = pair.take_unsettled(&self.nodes);
            pair.settle(&self.nodes, (tx.min(rx), tx.max(rx)));
            pair.pending = unsettled;
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
    /// B's clock broke, and A has received nothing that was sent since: the break has no latest instant of A yet.
    is_open: bool,
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

    /// Takes the crossings beyond the settled part of a node's clock: a rate, or a break, may have begun there unseen.
    fn take_unsettled(&mut self, nodes: &[Node]) -> Vec<Crossing> {
        let is_before = |node: u16, ns: u64| {
            let settled = nodes.get(usize::from(node)).and_then(|node| node.clock.settled_ns());
            settled.is_some_and(|(_, to_ns)| ns <= to_ns)
        };
        let is_settled = |c: &Crossing| is_before(c.tx_node, c.sent_ns) && is_before(c.rx_node, c.received_ns);
        let (settled, unsettled): (Vec<_>, Vec<_>) = take(&mut self.pending).into_iter().partition(is_settled);
        self.pending = settled;
        if self.pending.len() < MAX_PENDING / 2 {
            self.pending.extend(unsettled);
            return Vec::new();
        }
        unsettled
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
            } else if self.is_open
                && let Some(received_ns) = first_received_ns(&span)
            {
                self.builder.begin_by(received_ns);
                self.is_open = false;
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
        if breaks[1] != self.breaks[1] || self.is_open {
            let received_ns = first_received_ns(next);
            from_ns = from_ns.min(self.unbroken_ns);
            to_ns = to_ns.max(received_ns.unwrap_or(u64::MAX));
            self.is_open = received_ns.is_none();
        }
        self.builder.step_between(from_ns, to_ns);
        self.breaks = breaks;
    }
}

/// The first instant of A at which it received a packet.
fn first_received_ns(span: &[Constraint]) -> Option<u64> {
    span.iter().filter(|constraint| constraint.kind == Kind::Lower).map(|constraint| constraint.at_ns).min()
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

/// The span of R between two recordings of one clock, if it broke in between. Each recording counts continuations of
/// the machine from its own beginning, so these do not show.
pub(super) fn break_between(before: &ClockSample, next: &ClockSample) -> Option<(u64, u64)> {
    let same_count = ClockSample { generations: before.generations, ..*next };
    let is_later = before.raw_ns < next.raw_ns;
    (is_later && before.break_of_raw_before(&same_count).is_some()).then_some((before.raw_ns, next.raw_ns))
}

/// The spans between recordings of one clock in which it broke.
fn broken_between(recordings: &[&Node]) -> Vec<(u64, u64)> {
    let ends = |node: &&Node| Some((*node.clock.samples().first()?, node.clock.newest()?));
    let mut ends: Vec<(ClockSample, ClockSample)> = recordings.iter().filter_map(ends).collect();
    ends.sort_by_key(|(first, _)| first.raw_ns);
    let (mut spans, mut newest) = (Vec::new(), None::<ClockSample>);
    for (first, last) in ends {
        spans.extend(newest.and_then(|newest| break_between(&newest, &first)));
        newest = newest.into_iter().chain([last]).max_by_key(|sample| sample.raw_ns);
    }
    spans
}

/// The spans of R with a break of a clock, from all recordings with this clock.
fn broken_ns(nodes: &[Node], clock: u16) -> Vec<(u64, u64)> {
    let recordings: Vec<&Node> = nodes.iter().filter(|node| node.same == clock).collect();
    let breaks = recordings.iter().flat_map(|node| node.clock.breaks()).map(|(from, to, _)| (from, to));
    let mut spans: Vec<(u64, u64)> = breaks.chain(broken_between(&recordings)).collect();
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

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::clock::Clocksource;

    const SECOND: u64 = 1_000_000_000;
    const BEGIN_NS: u64 = 1_000 * SECOND;
    const DELAY_NS: u64 = 25_000;

    /// Recordings of these boots.
    fn aligner(boots: &[&str]) -> Aligner {
        let info = |boot: &&str| NodeInfo { boot_id: (*boot).to_owned(), ..NodeInfo::default() };
        Aligner::new(&boots.iter().map(info).collect::<Vec<_>>())
    }

    /// A sample of a clock, by the time since the beginning on R.
    fn sample(since_ns: u64) -> ClockSample {
        let own_ns = BEGIN_NS + since_ns;
        ClockSample { monotonic_ns: own_ns, raw_ns: own_ns, width_ns: 100, ..ClockSample::default() }
    }

    /// A packet between the first two recordings, sent at this time since the beginning.
    fn packet(tx_node: u16, since_ns: u64) -> Crossing {
        let sent_ns = BEGIN_NS + since_ns;
        Crossing { tx_node, rx_node: 1 - tx_node, sent_ns, received_ns: sent_ns + DELAY_NS }
    }

    #[test]
    fn a_host_that_sleeps_between_two_recordings_has_a_break() {
        const SLEPT_NS: u64 = 5 * SECOND;
        let mut aligner = aligner(&["a", "b", "a"]);
        for since_ns in (0..=30 * SECOND).step_by(100_000_000) {
            aligner.clock(1, sample(since_ns));
            if since_ns <= 10 * SECOND {
                aligner.clock(0, sample(since_ns));
            } else if since_ns >= 20 * SECOND {
                aligner.clock(2, ClockSample { suspended_ns: SLEPT_NS, ..sample(since_ns - SLEPT_NS) });
            }
        }
        for i in 0..800 {
            aligner.crossing(&packet(i % 2, SECOND + u64::from(i) * 10_000_000));
        }
        // Afterwards packets go in the direction in which sleep looks like delay.
        for i in 0..800 {
            let received_ns = BEGIN_NS + 21 * SECOND + i * 10_000_000;
            let sent_ns = received_ns - DELAY_NS - SLEPT_NS;
            aligner.crossing(&Crossing { tx_node: 2, rx_node: 1, sent_ns, received_ns });
        }
        let alignment = aligner.finish();
        let pair = alignment.pair(0, 1).expect("packets crossed");
        assert_eq!((pair.steps(), pair.counts().rejected), (1, 0));
        assert!(pair.bounds_at(BEGIN_NS + 5 * SECOND).width_ns().is_some_and(|ns| ns < 3 * DELAY_NS));
        let bounds = pair.bounds_at(BEGIN_NS + 20 * SECOND);
        assert!(bounds.contains(SLEPT_NS as i64) && bounds.upper.is_some(), "{bounds:?}");
    }

    #[test]
    fn a_break_whose_first_packets_go_in_one_direction_is_left() {
        const JUMP_NS: u64 = 5_000_000;
        let mut aligner = aligner(&["a", "b"]);
        for since_ns in (0..=20 * SECOND).step_by(100_000_000) {
            aligner.clock(0, sample(since_ns));
            let is_after = since_ns >= 10 * SECOND;
            let (clocksource, jump_ns) =
                if is_after { (Clocksource::Hpet, JUMP_NS) } else { (Clocksource::Tsc, 0) };
            let before = sample(since_ns);
            aligner.clock(1, ClockSample { raw_ns: before.raw_ns + jump_ns, clocksource, ..before });
        }
        // With one packet after the break the first part is full.
        for i in 0..MAX_PENDING as u64 - 1 {
            aligner.crossing(&packet((i % 2) as u16, SECOND + i * 100_000));
        }
        aligner.crossing(&packet(0, 11 * SECOND));
        for i in 0..200 {
            aligner.crossing(&packet(i % 2, 12 * SECOND + u64::from(i) * 10_000_000));
        }
        let alignment = aligner.finish();
        let pair = alignment.pair(0, 1).expect("packets crossed");
        assert_eq!((pair.steps(), pair.counts().rejected), (1, 0));
        let bounds = pair.bounds_at(BEGIN_NS + 13 * SECOND);
        assert!(
            bounds.contains(JUMP_NS as i64) && bounds.width_ns().is_some_and(|ns| ns < 3 * DELAY_NS),
            "{bounds:?}"
        );
    }

    #[test]
    fn packets_after_the_newest_sample_wait_for_the_rate_of_their_time() {
        let mut aligner = aligner(&["a", "b"]);
        // B's MONOTONIC is slewed by 8 % from here on.
        let slew_ns = 10 * SECOND;
        let slewed_ns = |since_ns: u64| since_ns + since_ns.saturating_sub(slew_ns) / 25 * 2;
        let clocks = |aligner: &mut Aligner, since_ns: u64| {
            aligner.clock(0, sample(since_ns));
            let monotonic_ns = BEGIN_NS + slewed_ns(since_ns);
            aligner.clock(1, ClockSample { monotonic_ns, ..sample(since_ns) });
        };
        for since_ns in (0..=slew_ns).step_by(100_000_000) {
            clocks(&mut aligner, since_ns);
        }
        // The first part is full amid the interval after the newest sample.
        let first_ns = slew_ns + 80_000_000 - MAX_PENDING as u64 * 100_000;
        for i in 0..MAX_PENDING as u64 + 1_000 {
            let since_ns = first_ns + i * 100_000;
            let mut packet = packet((i % 2) as u16, since_ns);
            let of_b = if i % 2 == 0 { &mut packet.received_ns } else { &mut packet.sent_ns };
            *of_b = BEGIN_NS + slewed_ns(*of_b - BEGIN_NS);
            aligner.crossing(&packet);
        }
        for since_ns in (slew_ns + 100_000_000..=slew_ns + SECOND).step_by(100_000_000) {
            clocks(&mut aligner, since_ns);
        }
        let alignment = aligner.finish();
        let pair = alignment.pair(0, 1).expect("packets crossed");
        assert_eq!((pair.steps(), pair.counts().rejected), (0, 0));
        assert_eq!(pair.counts().used, MAX_PENDING as u64 + 1_000);
    }
}

//! Weights of recorded events over all recordings: a sampler leaves events out, and the kernel counts them.
//!
//! Each capture samples on its own, and one with a budget changes its rate while it runs. So counts are added
//! over all captures; for a recording, those of the shown stretch.

use magscope_core::node::NodeInfo;
use magscope_core::sampled::Sampled;
use magscope_core::{Batch, Hop, HopCount, Omissions};

/// Maximum number of counter readings per capture; beyond that, every second one is removed.
const MOST_READINGS: usize = 2_048;

/// Numbers of events that passed the sampler, recorded or added up, and of events sampled out.
type Parts = (u64, u64);

/// Events per recorded event; `None` without any recorded event.
fn weight((recorded, sampled): Parts) -> Option<f64> {
    (recorded > 0).then(|| (recorded as f64 + sampled as f64) / recorded as f64)
}

fn sum(parts: impl Iterator<Item = Parts>) -> Parts {
    parts.fold((0, 0), |all, part| (all.0 + part.0, all.1 + part.1))
}

/// The counters of one capture at an instant.
#[derive(Clone, Debug)]
struct Reading {
    time_ns: u64,
    hops: Vec<HopCount>,
}

impl Reading {
    fn of(&self, hop: Hop) -> Parts {
        self.hops.iter().find(|count| count.hop == hop).map_or((0, 0), |count| (count.passed(), count.sampled))
    }
}

#[derive(Clone, Debug)]
struct Node {
    sampled: Sampled,
    /// In order of time from the first: only two without any sampling between.
    readings: Vec<Reading>,
    /// Number of readings since the last stored one, and the number per stored reading.
    skipped: usize,
    one_in: usize,
}

/// The weights of all captures.
#[derive(Clone, Debug)]
pub struct Weights {
    nodes: Vec<Node>,
}

impl Weights {
    /// The initial weights of the captures.
    pub fn new(infos: &[NodeInfo]) -> Self {
        let mut weights = Weights { nodes: Vec::new() };
        for info in infos {
            weights.join(info);
        }
        weights
    }

    /// Adds a capture.
    pub fn join(&mut self, info: &NodeInfo) {
        let sampled = Sampled::of(info);
        self.nodes.push(Node { sampled, readings: Vec::new(), skipped: 0, one_in: 1 });
    }

    /// Processes a batch's counts and changes.
    pub fn batch(&mut self, node: u16, batch: &Batch) {
        let Some(of) = self.nodes.get_mut(usize::from(node)) else { return };
        of.sampled.batch(batch);
        if let Some(last) = batch.counts.last() {
            of.read(Reading { time_ns: last.time_ns, hops: batch.counts.clone() });
        }
    }

    /// Events per recorded event of a hop, between the last two readings of each capture's counters: the value
    /// for a live screen.
    pub fn lately(&self, hop: Hop) -> f64 {
        let lately = weight(sum(self.nodes.iter().map(|node| node.sampled.lately(hop))));
        lately.or_else(|| weight(sum(self.nodes.iter().map(|node| node.sampled.overall(hop))))).unwrap_or(1.0)
    }

    /// The same for a stretch, to within the readings around its ends.
    pub fn between(&self, hop: Hop, from_ns: u64, to_ns: u64) -> f64 {
        weight(sum(self.nodes.iter().map(|node| node.between(hop, from_ns, to_ns)))).unwrap_or(1.0)
    }

    /// What any of the captures left out at any time.
    pub fn omissions(&self) -> Omissions {
        self.nodes.iter().map(|node| node.sampled.omissions()).fold(Omissions::default(), Omissions::merged)
    }

    /// Journeys per recorded journey; `None` if unknown or different between captures.
    pub fn of_journeys(&self) -> Option<f64> {
        let mut all = self.nodes.iter().map(|node| node.sampled.journey_weight());
        let first = all.next()??;
        all.all(|other| other == Some(first)).then_some(first)
    }
}

impl Node {
    fn read(&mut self, reading: Reading) {
        let samples = |reading: &Reading| reading.hops.iter().map(|count| count.sampled).sum::<u64>();
        // While sampling does not change, the first and the last reading suffice.
        let [.., before, last] = &self.readings[..] else { return self.readings.push(reading) };
        self.skipped += 1;
        let same = samples(before) == samples(last) && samples(last) == samples(&reading);
        if same || self.skipped < self.one_in {
            self.readings.pop();
        } else {
            self.skipped = 0;
        }
        self.readings.push(reading);
        if self.readings.len() > MOST_READINGS {
            let mut at = 0;
            self.readings.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.one_in *= 2;
        }
    }

    fn between(&self, hop: Hop, from_ns: u64, to_ns: u64) -> Parts {
        let after = self.readings.partition_point(|reading| reading.time_ns <= from_ns);
        let until = self.readings.partition_point(|reading| reading.time_ns < to_ns);
        // After the last reading, the rate before it continues.
        let to = until.min(self.readings.len().saturating_sub(1));
        let from = after.min(to).saturating_sub(1);
        let (Some(from), Some(to)) = (self.readings.get(from), self.readings.get(to)) else { return (0, 0) };
        let (from, to) = (from.of(hop), to.of(hop));
        (to.0.saturating_sub(from.0), to.1.saturating_sub(from.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// In thousandths.
    fn thousandths(weight: f64) -> u64 {
        (weight * 1e3).round() as u64
    }

    fn batch(s: u64, recorded: u64, sampled: u64) -> Batch {
        let count = HopCount {
            time_ns: s * S,
            hop: Hop::DevXmit,
            kept: recorded,
            sampled,
            filtered: 0,
            undecided: 0,
            synthesised: 0,
        };
        Batch { counts: vec![count], ..Batch::default() }
    }

    #[test]
    fn hosts_that_sample_differently_are_added() {
        let mut weights = Weights::new(&[NodeInfo::default(), NodeInfo::default()]);
        assert_eq!(thousandths(weights.lately(Hop::DevXmit)), 1_000);
        for s in 0..3 {
            weights.batch(0, &batch(s, s * 100, 0));
            weights.batch(1, &batch(s, s * 10, s * 290));
        }
        // 110 recorded of 400
        assert_eq!(thousandths(weights.lately(Hop::DevXmit)), 3_636);
        assert_eq!(
            (thousandths(weights.lately(Hop::DevRecv)), weights.of_journeys().map(thousandths)),
            (1_000, Some(1_000))
        );
        let sampling = NodeInfo { settings: vec!["sample flows 1/4".to_owned()], ..NodeInfo::default() };
        weights.join(&sampling);
        assert!(weights.of_journeys().is_none(), "it is not the same of all");
        assert_eq!(Weights::new(&[sampling]).of_journeys().map(thousandths), Some(4_000));
    }

    #[test]
    fn a_stretch_of_a_recording_has_its_own_weight() {
        let mut weights = Weights::new(&[NodeInfo::default()]);
        // All events for a minute, a quarter for ten seconds, all again for an hour and more.
        let (mut recorded, mut sampled) = (5_000, 70);
        for s in 0..10_000_u64 {
            let quarter = (60..70).contains(&s);
            recorded += if quarter { 25 } else { 100 };
            sampled += if quarter { 75 } else { 0 };
            weights.batch(0, &batch(s, recorded, sampled));
        }
        let between = |weights: &Weights, from: u64, to: u64| {
            thousandths(weights.between(Hop::DevXmit, from * S, to * S))
        };
        let all = [(10, 40), (62, 68), (80, 9_000), (20_000, 30_000)];
        assert_eq!(all.map(|(from, to)| between(&weights, from, to)), [1_000, 4_000, 1_000, 1_000]);
        assert_eq!(between(&weights, 59, 69), 4_000);
        weights.batch(0, &batch(10_000, recorded + 10, sampled + 30));
        assert_eq!(between(&weights, 10_000, 10_001), 4_000, "the newest, of which no reading tells yet");
        assert!(weights.nodes[0].readings.len() < 20, "{}", weights.nodes[0].readings.len());
    }

    #[test]
    fn memory_is_bounded() {
        let mut weights = Weights::new(&[NodeInfo::default()]);
        for s in 0..50_000_u64 {
            weights.batch(0, &batch(s, s * 10, s * 30));
        }
        assert!(weights.nodes[0].readings.len() <= MOST_READINGS + 1);
        assert_eq!(thousandths(weights.between(Hop::DevXmit, 0, 40_000 * S)), 4_000);
    }
}

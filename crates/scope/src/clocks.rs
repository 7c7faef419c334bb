//! Drift of the nodes' own clocks.

use crate::look::{ClockPair, ClockRow};
use magscope_core::clock::ClockSample;
use magscope_core::journey::Across;
use magscope_core::node::NodeInfo;
use magscope_timeline::pair::State;
use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// First sample since the last step of UTC.
    first: Option<ClockSample>,
    last: Option<ClockSample>,
    samples: u64,
}

/// The clocks of all nodes, and the offsets between them.
#[derive(Debug, Default)]
pub struct Clocks {
    nodes: Vec<Seen>,
    /// Clock pairs from the logs that recordings were converted from.
    logs: Vec<ClockPair>,
    /// Clock pairs from the alignment, then those from logs.
    pub pairs: Vec<ClockPair>,
}

impl Clocks {
    /// The initial state. Only a recording converted from a log of several hosts has clock pairs here.
    pub fn of(infos: &[NodeInfo]) -> Self {
        let mut clocks = Clocks::default();
        for info in infos {
            clocks.join(info);
        }
        clocks
    }

    /// Adds a recording.
    pub fn join(&mut self, info: &NodeInfo) {
        let log = of_log(info);
        self.pairs.extend(log.clone());
        self.logs.extend(log);
    }

    /// Sets the clock pairs of the alignment.
    pub fn set(&mut self, pairs: Vec<ClockPair>) {
        self.pairs = pairs;
        self.pairs.extend(self.logs.iter().cloned());
    }

    /// True if the newest step of a pair differs from that of the pair that it replaces.
    pub fn is_new_step(&self, pair: &ClockPair) -> bool {
        let before = self.pairs.iter().find(|before| before.hosts == pair.hosts);
        before.is_none_or(|before| before.last_step_ns != pair.last_step_ns)
    }

    /// Adds a reading.
    pub fn push(&mut self, node: u16, sample: ClockSample) {
        let at = usize::from(node);
        if self.nodes.len() <= at {
            self.nodes.resize(at + 1, Seen::default());
        }
        if let Some(seen) = self.nodes.get_mut(at) {
            let was_set = seen.last.is_some_and(|last| last.realtime_steps != sample.realtime_steps);
            seen.first = seen.first.filter(|_| !was_set).or(Some(sample));
            seen.last = Some(sample);
            seen.samples += 1;
        }
    }

    /// Forgets the readings.
    pub fn clear(&mut self) {
        self.nodes.clear();
    }

    /// The newest reading of a node.
    pub fn last(&self, node: u16) -> Option<&ClockSample> {
        self.nodes.get(usize::from(node))?.last.as_ref()
    }

    /// One row per node.
    pub fn rows(&self, infos: &[NodeInfo]) -> Vec<ClockRow> {
        let row = |(at, info): (usize, &NodeInfo)| {
            let seen = self.nodes.get(at).copied().unwrap_or_default();
            let drift_ppm = seen.first.zip(seen.last).and_then(|(first, last)| {
                let ran = last.monotonic_ns.checked_sub(first.monotonic_ns).filter(|ns| *ns > 0)?;
                let utc = i128::from(last.realtime_ns) - i128::from(first.realtime_ns);
                Some((utc - i128::from(ran)) as f64 * 1e6 / ran as f64)
            });
            ClockRow { host: info.host.clone(), last: seen.last, samples: seen.samples, drift_ppm }
        };
        infos.iter().enumerate().map(row).collect()
    }
}

/// The clock offset between the first host of a log and all others, as the log's writer computed it.
fn of_log(info: &NodeInfo) -> Option<ClockPair> {
    let several = info.several.as_ref()?;
    let (state, half_width_ns) = match several.across {
        Across::OneClock => return None,
        Across::Bounded { below_ns, above_ns } => (State::External, Some(below_ns.max(above_ns))),
        Across::Apart => (State::Unsynchronised, None),
    };
    let hosts: BTreeSet<&str> = several.hosts.iter().map(|of| of.host.as_str()).collect();
    let mut hosts = hosts.into_iter();
    let first = hosts.next().unwrap_or_default().to_owned();
    let others: Vec<&str> = hosts.collect();
    Some(ClockPair {
        hosts: (first, others.join(", ")),
        state: Some(state),
        half_width_ns,
        ..ClockPair::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utc_that_runs_away_is_seen() {
        let mut clocks = Clocks::default();
        let sample =
            |monotonic_ns, realtime_ns| ClockSample { monotonic_ns, realtime_ns, ..ClockSample::default() };
        clocks.push(1, sample(0, 1_000));
        clocks.push(1, sample(1_000_000_000, 1_000_021_000));
        let rows = clocks.rows(&[NodeInfo::default(), NodeInfo::default()]);
        assert_eq!((rows[0].samples, rows[0].drift_ppm), (0, None));
        assert!((rows[1].drift_ppm.unwrap() - 20.0).abs() < 1e-6);
        // A step of UTC by an hour is no drift.
        let set =
            |monotonic_ns, realtime_ns| ClockSample { realtime_steps: 1, ..sample(monotonic_ns, realtime_ns) };
        clocks.push(1, set(2_000_000_000, 3_602_000_000_000));
        assert_eq!(clocks.rows(&[NodeInfo::default(), NodeInfo::default()])[1].drift_ppm, None);
        clocks.push(1, set(3_000_000_000, 3_603_000_000_000));
        assert_eq!(clocks.rows(&[NodeInfo::default(), NodeInfo::default()])[1].drift_ppm, Some(0.0));
    }
}

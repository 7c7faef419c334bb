//! Relations of the clocks of several live hosts.

use magscope_core::clock::ClockSample;
use magscope_timeline::align::Alignment;
use magscope_timeline::pair::{Counts, Hint, Live, State};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum number of pairs; further ones are counted and left out.
const MOST_PAIRS: usize = 4096;

/// The relation of two hosts' clocks: `D`, the unslewed clock of `b` minus that of `a`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockRelation {
    /// The first host.
    pub a: String,
    /// The second host.
    pub b: String,
    /// Basis of the bounds, in lower case: `certified`, `suspect`, …
    pub state: String,
    /// Maximum error of the difference now, nanoseconds; `None` if it is not bounded from both sides.
    pub half_width_ns: Option<u64>,
    /// Number of steps of either clock, proven by packets or seen in clock samples.
    pub steps: u64,
    /// Size of the newest step that packets proved, nanoseconds.
    pub last_step_ns: Option<i64>,
    /// Number of times that packets began to contradict a bound of UTC that the hosts claim.
    pub sources_refuted: u64,
    /// Hints at steps that packets cannot prove.
    pub hints: Vec<ClockHint>,
    /// Packets that bound the difference.
    pub packets_used: u64,
    /// Packets in contradiction to the others.
    pub packets_rejected: u64,
}

/// A hint at a step that packets cannot prove.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockHint {
    /// `collapse`, `contradictions`, `bend` or `same-sign`.
    pub hint: String,
    /// The same as a sentence.
    pub text: String,
}

impl ClockHint {
    fn of(hint: &Hint) -> Self {
        ClockHint { hint: hint.name().to_owned(), text: hint.to_string() }
    }
}

/// Name of a state in metrics and JSON.
pub fn state_name(state: State) -> String {
    state.to_string().to_lowercase()
}

/// The newest relations, and the refutations so far.
#[derive(Debug, Default)]
pub struct ClockWatch {
    relations: Vec<ClockRelation>,
    left_out: u64,
    /// Of each pair: whether a source is refuted now, and how many times one was.
    refuted: BTreeMap<(u16, u16), (bool, u64)>,
}

impl ClockWatch {
    /// The newest relations, and the number of pairs that are left out.
    pub fn relations(&self) -> (Vec<ClockRelation>, u64) {
        (self.relations.clone(), self.left_out)
    }

    /// Reads the current relations of the clocks of these hosts.
    pub fn read(&mut self, all: &Alignment<Live>, names: &[&str]) {
        let pairs = all.reported_pairs();
        self.left_out = pairs.len().saturating_sub(MOST_PAIRS) as u64;
        let pairs = pairs.into_iter().take(MOST_PAIRS);
        self.relations = pairs.map(|pair| relation(all, names, pair, &mut self.refuted)).collect();
    }
}

fn relation(
    all: &Alignment<Live>,
    names: &[&str],
    pair: (u16, u16),
    refuted: &mut BTreeMap<(u16, u16), (bool, u64)>,
) -> ClockRelation {
    let (a, b) = pair;
    let name = |node: u16| names.get(usize::from(node)).map_or_else(String::new, |name| (*name).to_owned());
    let live = all.pair(a, b);
    // Now, not at the newest packet: without packets the bounds grow.
    let now_ns =
        all.clock(a).and_then(|clock| clock.samples().last()).map(|sample: &ClockSample| sample.raw_ns);
    let now_ns = now_ns.max(live.and_then(Live::newest_ns));
    let sourced = now_ns.and_then(|now_ns| all.bounds_at(a, b, now_ns));
    let half_width_ns = now_ns.and_then(|now_ns| all.difference_at(a, b, now_ns).half_width_ns());
    let state = now_ns.and_then(|now_ns| all.state_at(a, b, now_ns)).unwrap_or(State::Unsynchronised);
    let (was_refuted, times) = refuted.entry(pair).or_default();
    let is_refuted = sourced.is_some_and(|sourced| sourced.external_refuted);
    *times += u64::from(is_refuted && !*was_refuted);
    *was_refuted = is_refuted;
    let counts = live.map_or_else(Counts::default, |live| live.certified().counts());
    ClockRelation {
        a: name(a),
        b: name(b),
        state: state_name(state),
        half_width_ns,
        steps: live.map_or(0, |live| live.certified().steps()),
        last_step_ns: live.and_then(|live| live.certified().last_step()).map(|step| step.change_ns),
        sources_refuted: *times,
        hints: live.map_or(&[][..], Live::hints).iter().map(ClockHint::of).collect(),
        packets_used: counts.used,
        packets_rejected: counts.rejected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::node::NodeInfo;
    use magscope_timeline::align::Online;
    use magscope_timeline::join::Crossing;

    const TICK_NS: u64 = 100_000_000;
    const BEGIN_NS: u64 = 1_000_000_000_000;

    /// States of the pairs of three hosts. The first two exchange packets, the last two have a bound of UTC.
    fn states(packets: u64) -> Vec<String> {
        let info = |host: &str| NodeInfo { boot_id: host.to_owned(), ..NodeInfo::default() };
        let online = Online::new(&["a", "b", "c"].map(info));
        for tick in 0..100 {
            let own_ns = BEGIN_NS + tick * TICK_NS;
            // What is now by the first is not beyond the samples of the others.
            for node in (0..3_u16).filter(|node| tick < 98 + u64::from(*node)) {
                online.clock(
                    node,
                    ClockSample {
                        monotonic_ns: own_ns,
                        raw_ns: own_ns,
                        realtime_ns: own_ns as i64,
                        width_ns: 100,
                        utc_error_ns: (node > 0).then_some(1_000),
                        ..ClockSample::default()
                    },
                );
            }
            for tx_node in (0..2_u16).filter(|_| tick < packets) {
                let (sent_ns, received_ns) = (own_ns + 1_000_000, own_ns + 1_025_000);
                online.crossing(&Crossing { tx_node, rx_node: 1 - tx_node, sent_ns, received_ns });
            }
        }
        let mut watch = ClockWatch::default();
        online.look(|all| watch.read(all, &["a", "b", "c"]));
        let (relations, _) = watch.relations();
        assert!(relations.iter().all(|one| one.half_width_ns.is_some()), "{relations:?}");
        relations.into_iter().map(|one| one.state).collect()
    }

    #[test]
    fn a_relation_that_rests_on_utc_is_external() {
        let states = states(98);
        assert_eq!((states[0].as_str(), states[1].as_str()), ("certified", "external"));
    }

    #[test]
    fn without_packets_a_relation_is_in_holdover() {
        assert_eq!(states(20)[0], "holdover");
    }
}

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
    let own = sourced.map_or(State::Unsynchronised, |sourced| sourced.state);
    let is_weak = matches!(own, State::Unsynchronised | State::OneSided);
    // Packets of both with a third clock may bound it.
    let state = if is_weak && half_width_ns.is_some() { State::Certified } else { own };
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

//! The match between hits of custom probes and the bytes of the picture's lifelines.
//!
//! A hit is a stop of a lifeline only if its bytes match, never because of its time alone. The match runs once
//! per picture, with bounded work.

use crate::journal::NodeHit;
use crate::lifeline::Lifeline;
use crate::look::Pass;
use crate::probes::Probes;
use magscope_core::annotations::MatchedBy;
use magscope_core::custom::Mark;
use magscope_core::{Direction, FlowId, Journey};
use std::collections::HashMap;

/// Maximum number of hits examined per picture.
pub const MOST_HITS: usize = 1 << 14;
/// Maximum number of pairs of a hit and a lifeline examined.
const MOST_PAIRS: usize = 1 << 19;

/// The hits of each lifeline, by its key.
#[derive(Debug, Default)]
pub struct ProbeMatches {
    passes: HashMap<u64, Vec<Pass>>,
    /// True if the search reached its limit.
    pub left_out: bool,
}

/// True if a hit saw the bytes of a journey, in the direction of its probe.
pub fn is_tied(hit: &NodeHit, direction: Option<Direction>, journey: &Journey) -> bool {
    let flow = match direction {
        Some(Direction::Tx) => Some(journey.tx_flow),
        Some(Direction::Rx) => Some(journey.rx_flow),
        _ => None,
    };
    flow.is_none_or(|flow| flow == hit.hit.flow) && hit.hit.tie(hit.node, journey) == Some(MatchedBy::Bytes)
}

impl ProbeMatches {
    /// Matches hits, in order of time, with lifelines, the most important first.
    pub fn find<'a>(lines: &[Lifeline], hits: impl Iterator<Item = &'a NodeHit>, probes: &Probes) -> Self {
        let mut of_flow: HashMap<(u16, FlowId), Vec<&Lifeline>> = HashMap::new();
        for line in lines {
            let journey = &line.journey;
            let ends = [(journey.tx_node, journey.tx_flow), (journey.rx_node, journey.rx_flow)];
            let one = if ends[0] == ends[1] { &ends[..1] } else { &ends[..] };
            one.iter()
                .filter(|(_, flow)| !flow.is_none())
                .for_each(|end| of_flow.entry(*end).or_default().push(line));
        }
        let (mut ties, mut pairs) = (ProbeMatches::default(), 0);
        for hit in hits {
            let Some(probe) = probes.get(hit.probe).filter(|probe| probe.asked.mark == Mark::Hop) else {
                continue;
            };
            let lines = of_flow.get(&(hit.node, hit.hit.flow)).map(Vec::as_slice).unwrap_or_default();
            pairs += lines.len();
            if pairs > MOST_PAIRS {
                ties.left_out = true;
                break;
            }
            for line in lines.iter().filter(|line| is_tied(hit, probe.direction(), &line.journey)) {
                let pass = Pass { probe: hit.probe, node: hit.node, hit: hit.hit };
                ties.passes.entry(line.key()).or_default().push(pass);
            }
        }
        ties
    }

    /// The hits of a lifeline, in order of time.
    pub fn of(&self, key: u64) -> &[Pass] {
        self.passes.get(&key).map(Vec::as_slice).unwrap_or_default()
    }

    /// The lifeline of a hit: one of them, if several have its bytes.
    pub fn journey_of(&self) -> HashMap<(u16, u64, u32), u64> {
        let mut keys: Vec<_> = self.passes.iter().collect();
        keys.sort_by_key(|(key, _)| std::cmp::Reverse(**key));
        let each = keys
            .into_iter()
            .flat_map(|(key, passes)| passes.iter().map(move |pass| (name(pass.node, &pass.hit), *key)));
        each.collect()
    }
}

/// Identity of a hit.
pub const fn name(node: u16, hit: &magscope_core::custom::ProbeHit) -> (u16, u64, u32) {
    (node, hit.time_ns, hit.record)
}

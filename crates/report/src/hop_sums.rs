//! Sums of each hop: its events, and the times from the hop below.

use super::HopProtocol;
use crate::stats::{HopPairStats, HopRate};
use magscope_core::flow::Proto;
use magscope_core::hop::{HOP_IDS, Hop};
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct HopSum {
    pub rate: HopRate,
    /// Times from the hop below, which differs between protocols.
    pub steps: BTreeMap<Proto, Steps>,
}

/// Times to a hop from the hop below, of one protocol.
#[derive(Default)]
pub(super) struct Steps {
    pub latency: Box<HopPairStats>,
    pub half_width: Option<Box<HopPairStats>>,
    pub unresolvable: u64,
}

impl HopSum {
    pub fn latency(&mut self, proto: Proto, ns: u64) -> &mut Steps {
        let steps = self.steps.entry(proto).or_default();
        steps.latency.record(ns);
        steps
    }

    /// A row a protocol.
    pub fn protocols(&self) -> Vec<HopProtocol> {
        let row = |(proto, steps): (&Proto, &Steps)| {
            Some(HopProtocol {
                proto: *proto,
                latency: steps.latency.quantiles()?,
                half_width: steps.half_width.as_ref().and_then(|widths| widths.quantiles()),
                unresolvable: steps.half_width.is_some().then_some(steps.unresolvable),
                histogram: steps.latency.buckets(),
            })
        };
        self.steps.iter().filter_map(row).collect()
    }
}

/// One entry per hop, by its number.
pub(super) struct HopSums(pub Box<[HopSum; HOP_IDS]>);

impl HopSums {
    pub fn new() -> Self {
        HopSums(Box::new(std::array::from_fn(|_| HopSum::default())))
    }

    pub fn of(&mut self, hop: Hop) -> &mut HopSum {
        &mut self.0[usize::from(hop.id())]
    }
}

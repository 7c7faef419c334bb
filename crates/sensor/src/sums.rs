//! Sums of the whole time or of a part of it.

use crate::histogram::Histogram;
use crate::services::{Service, Services};
use crate::snapshot::{
    BreakCount, CauseCount, DropCount, HopTally, JourneyCount, KernelHop, KernelTally, PairTimes, ResentCount,
    Tally, cause_name,
};
use magscope_core::clock::Break;
use magscope_core::drop_reason::Freed;
use magscope_core::exchange::Exchange;
use magscope_core::hop::HOP_IDS;
use magscope_core::node::NodeInfo;
use magscope_core::synthesis::Sum;
use magscope_core::{Batch, CleanUp, Event, Hop, Journey, LossCause, Outcomes, Proto, Synthesis, Verdict};
use magscope_report::stats::HopRate;
use std::collections::BTreeMap;

/// Maximum number of drop reasons; the kernel has some eighty.
const MOST_REASONS: usize = 512;

/// Characters of a name at most.
const LONGEST_NAME: usize = 128;

/// Counters and histograms. Memory is bounded by the numbers of hops, reasons and protocols.
#[derive(Clone, Debug)]
pub struct Sums {
    hops: Box<[HopRate; HOP_IDS]>,
    drops: BTreeMap<Freed, u64>,
    other_drops: u64,
    losses: [u64; LossCause::ALL.len()],
    late: u64,
    /// By position in [`Break::ALL`].
    clock_breaks: [u64; Break::ALL.len()],
    journeys: BTreeMap<Proto, Outcomes>,
    services: Services,
    /// By protocol, because the hop below another depends on it.
    latencies: BTreeMap<(Hop, Hop, Proto), Histogram>,
    wakeup: Histogram,
    queue: Histogram,
    kernel: Kernel,
}

/// Sums of the kernel.
#[derive(Clone, Debug, Default)]
struct Kernel {
    latencies: BTreeMap<(Hop, Hop), Histogram>,
    /// Hits; and bytes, if packets were summed too.
    hops: BTreeMap<Hop, (u64, Option<u64>)>,
    drops: BTreeMap<Freed, u64>,
    other_drops: u64,
}

impl Kernel {
    fn add(&mut self, row: &Synthesis) {
        let (hits, bytes) = self.hops.entry(row.hop).or_default();
        match row.of {
            Sum::Since(from) => {
                *hits = hits.saturating_add(row.n);
                self.latencies.entry((from, row.hop)).or_default().buckets(&row.buckets, row.sum);
            }
            Sum::Begun => *hits = hits.saturating_add(row.n),
            Sum::Flow(_) | Sum::Cgroup(_) | Sum::Rest | Sum::Reason(_) => {
                *bytes = Some(bytes.unwrap_or(0).saturating_add(row.sum));
            }
        }
        match row.of {
            Sum::Reason(reason) => self.dropped(Freed::summed(reason), row.n),
            // Drops whose reason found no room in the kernel.
            Sum::Rest if row.hop == Hop::SkbDrop => self.other_drops = self.other_drops.saturating_add(row.n),
            _ => {}
        }
    }

    fn dropped(&mut self, freed: Freed, n: u64) {
        let has_room = self.drops.len() < MOST_REASONS || self.drops.contains_key(&freed);
        let sum = if has_room { self.drops.entry(freed).or_default() } else { &mut self.other_drops };
        *sum = sum.saturating_add(n);
    }

    fn merge(&mut self, other: &Self) {
        for (pair, histogram) in &other.latencies {
            self.latencies.entry(*pair).or_default().merge(histogram);
        }
        for (hop, (more, more_bytes)) in &other.hops {
            let (hits, bytes) = self.hops.entry(*hop).or_default();
            *hits = hits.saturating_add(*more);
            *bytes = more_bytes.map_or(*bytes, |more| Some(bytes.unwrap_or(0).saturating_add(more)));
        }
        other.drops.iter().for_each(|(freed, n)| self.dropped(*freed, *n));
        self.other_drops = self.other_drops.saturating_add(other.other_drops);
    }

    fn tally(&self, info: &NodeInfo) -> KernelTally {
        KernelTally {
            latencies: pairs(
                self.latencies.iter().map(|((from, to), times)| (*from, *to, String::new(), times)),
            ),
            hops: self
                .hops
                .iter()
                .map(|(hop, (events, bytes))| KernelHop { hop: *hop, events: *events, bytes: *bytes })
                .collect(),
            drops: named(&self.drops, self.other_drops, info, false),
            cleaned_up: named(&self.drops, 0, info, true),
        }
    }
}

fn pairs<'h>(latencies: impl Iterator<Item = (Hop, Hop, String, &'h Histogram)>) -> Vec<PairTimes> {
    latencies.map(|(from, to, proto, times)| PairTimes { from, to, proto, times: times.times() }).collect()
}

/// Drops, or packets freed in a clean-up, by reason name. Two numbers can share a name if the kernel's names
/// are unknown.
fn named(drops: &BTreeMap<Freed, u64>, others: u64, info: &NodeInfo, is_clean_up: bool) -> Vec<DropCount> {
    let mut named: BTreeMap<String, u64> = BTreeMap::new();
    let clean_up = CleanUp::of(info);
    for (freed, n) in drops.iter().filter(|(freed, _)| clean_up.has(**freed) == is_clean_up) {
        let name = clean_up.name(*freed, clean(&info.drop_reason(freed.reason)));
        *named.entry(name).or_default() += n;
    }
    if others > 0 {
        *named.entry("other reasons".to_owned()).or_default() += others;
    }
    named.into_iter().map(|(reason, n)| DropCount { reason, n }).collect()
}

impl Default for Sums {
    fn default() -> Self {
        Sums {
            hops: Box::new([HopRate::default(); HOP_IDS]),
            drops: BTreeMap::new(),
            other_drops: 0,
            losses: [0; LossCause::ALL.len()],
            late: 0,
            clock_breaks: [0; Break::ALL.len()],
            journeys: BTreeMap::new(),
            services: Services::default(),
            latencies: BTreeMap::new(),
            wakeup: Histogram::default(),
            queue: Histogram::default(),
            kernel: Kernel::default(),
        }
    }
}

impl Sums {
    pub fn event(&mut self, event: &Event) {
        self.hops[usize::from(event.hop.id()) % HOP_IDS].count(event.payload_bytes());
        if event.hop == Hop::SkbDrop {
            self.dropped(Freed::of(event), 1);
        }
    }

    /// TCP state arrives as samples, not as events.
    pub fn tcp_sample(&mut self) {
        self.hops[usize::from(Hop::TcpState.id()) % HOP_IDS].count(0);
    }

    fn dropped(&mut self, freed: Freed, n: u64) {
        if self.drops.len() < MOST_REASONS || self.drops.contains_key(&freed) {
            *self.drops.entry(freed).or_default() += n;
        } else {
            self.other_drops += n;
        }
    }

    pub fn lost(&mut self, cause: LossCause, records: u64) {
        let sum = &mut self.losses[cause as usize % LossCause::ALL.len()];
        *sum = sum.saturating_add(records);
    }

    pub fn late(&mut self, batch: &Batch) {
        self.late = self.late.saturating_add(batch.late);
    }

    /// Counts a break of the host's clocks.
    pub fn clock_break(&mut self, kind: Break) {
        for (sum, _) in self.clock_breaks.iter_mut().zip(Break::ALL).filter(|(_, of)| *of == kind) {
            *sum += 1;
        }
    }

    /// Counts a journey by its verdict.
    pub fn ended(&mut self, journey: &Journey) {
        self.journeys.entry(journey.proto).or_default().journey(journey);
    }

    /// Counts a request and its response.
    pub fn exchange(&mut self, service: &Service, exchange: &Exchange) {
        self.services.add(service, exchange);
    }

    /// The time between two neighbouring hops of a whole journey.
    pub fn latency(&mut self, proto: Proto, (from, to): (Hop, Hop), ns: u64) {
        self.latencies.entry((from, to, proto)).or_default().record(ns);
    }

    /// Adds a time from available data to the woken reader on its CPU.
    pub fn wakeup(&mut self, ns: u64) {
        self.wakeup.record(ns);
    }

    /// Adds a time from the device queue to the driver.
    pub fn queue(&mut self, ns: u64) {
        self.queue.record(ns);
    }

    /// Adds sums of the kernel.
    pub fn synthesis(&mut self, row: &Synthesis) {
        self.kernel.add(row);
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.kernel.merge(&other.kernel);
        self.hops.iter_mut().zip(other.hops.iter()).for_each(|(sum, rate)| sum.merge(*rate));
        other.drops.iter().for_each(|(freed, n)| self.dropped(*freed, *n));
        self.other_drops += other.other_drops;
        for (sum, n) in self.losses.iter_mut().zip(other.losses) {
            *sum = sum.saturating_add(n);
        }
        self.late = self.late.saturating_add(other.late);
        self.clock_breaks.iter_mut().zip(other.clock_breaks).for_each(|(sum, n)| *sum += n);
        for (proto, outcomes) in &other.journeys {
            self.journeys.entry(*proto).or_default().merge(outcomes);
        }
        self.services.merge(&other.services);
        for (pair, histogram) in &other.latencies {
            self.latencies.entry(*pair).or_default().merge(histogram);
        }
        self.wakeup.merge(&other.wakeup);
        self.queue.merge(&other.queue);
    }

    /// The sums as plain data, with this host's names.
    pub fn tally(&self, info: &NodeInfo) -> Tally {
        let seen = |hop: &&Hop| self.hops[usize::from(hop.id())].events > 0;
        let hop = |hop: &Hop| {
            let rate = self.hops[usize::from(hop.id())];
            HopTally { hop: *hop, events: rate.events, bytes: rate.bytes }
        };
        let journeys = self.journeys.iter().flat_map(|(proto, outcomes)| {
            let kinds = Verdict::NAMES.into_iter().zip(outcomes.verdicts).filter(|(_, n)| *n > 0);
            kinds.map(|(verdict, n)| JourneyCount { proto: proto.to_string(), verdict: verdict.to_owned(), n })
        });
        let lost = |cause: LossCause| CauseCount {
            cause: cause_name(cause).to_owned(),
            records: self.losses[cause as usize % LossCause::ALL.len()],
        };
        Tally {
            hops: Hop::ALL.iter().filter(seen).map(hop).collect(),
            drops: named(&self.drops, self.other_drops, info, false),
            cleaned_up: named(&self.drops, 0, info, true),
            losses: LossCause::ALL.into_iter().map(lost).collect(),
            late: self.late,
            clock_breaks: Break::ALL
                .into_iter()
                .zip(self.clock_breaks)
                .map(|(kind, n)| BreakCount { kind: kind.name().to_owned(), n })
                .collect(),
            journeys: journeys.collect(),
            resent: self
                .journeys
                .iter()
                .map(|(proto, outcomes)| ResentCount { proto: proto.to_string(), n: outcomes.resent })
                .collect(),
            services: self.services.tally(),
            latencies: pairs(
                self.latencies.iter().map(|((from, to, proto), times)| (*from, *to, proto.to_string(), times)),
            ),
            wakeup: self.wakeup.times(),
            queue: self.queue.times(),
            kernel: self.kernel.tally(info),
        }
    }
}

/// A name from another host, shortened and without control characters.
pub fn clean(name: &str) -> String {
    name.chars().take(LONGEST_NAME).map(|c| if c.is_control() { '?' } else { c }).collect()
}

//! What is counted of journeys, payload and hits over time: the tiles, the flows, the topology, the hop below each hop, and
//! the forwarders.
//!
//! Live there are two of them while a filter is on: one of all, which goes on counting, and one of what the filter chooses. So a filter
//! that is taken away again brings back every count. A filter that is set can choose only among the journeys that are kept.

use crate::bands::Passages;
use crate::flows::Flows;
use crate::journal::NodeHit;
use crate::lifeline::Lifeline;
use crate::look::Exemplar;
use crate::measure::Below;
use crate::names::Names;
use crate::probes::Probe;
use crate::pyramid::{Keep, Lane, Pyramid};
use crate::stats::carries_payload;
use crate::topology::Topology;
use magscope_core::Event;
use magscope_core::custom::{MOST_VALUES, ValueKind};

/// See the module.
pub struct Counts {
    pub pyramid: Pyramid,
    pub flows: Flows,
    pub below: Below,
    pub passages: Passages,
    pub topology: Topology,
}

impl Counts {
    /// None yet, with room for so many custom probes.
    pub fn new(keep: Keep, probes: usize) -> Self {
        Counts {
            pyramid: Pyramid::with_probes(keep, probes),
            flows: Flows::default(),
            below: Below::default(),
            passages: Passages::default(),
            topology: Topology::default(),
        }
    }

    /// Counts a journey.
    pub fn journey(&mut self, line: &Lifeline, names: &Names) {
        let proto = line.journey.proto;
        let complete = line.journey.verdict.is_whole().then(|| line.journey.total_ns()).flatten();
        if let Some(below) = self.below.entry(proto) {
            for step in line.steps_outside_forwarders() {
                if let Some(origins) = step.to.rank().and_then(|index| below.get_mut(index)) {
                    let lane = Lane::Latency(proto, step.to, origins.lane_of(step.from));
                    self.pyramid.count(lane, step.at_ns, step.ns);
                }
            }
            for passage in line.passages() {
                self.pyramid.count(Lane::Forwarded(proto, passage.forwarder), passage.at_ns, passage.ns);
            }
            for wait in line.waits() {
                self.pyramid.count(Lane::Waits(proto), wait.at_ns, wait.ns);
            }
            if let Some(total_ns) = complete {
                self.pyramid.count(Lane::Whole(proto), line.start_ns(), total_ns);
            }
        } else {
            self.pyramid.count(Lane::Untimed, line.end_ns(), 1);
        }
        self.passages.add(line);
        self.pyramid.count(Lane::Ended, line.end_ns(), 1);
        if line.journey.verdict.is_lost() {
            self.pyramid.count(Lane::LostJourneys, line.end_ns(), 1);
        }
        if let Some(total_ns) = complete {
            self.pyramid.journey(Exemplar { key: line.key(), start_ns: line.start_ns(), total_ns, x: 0.0 });
        }
        let served = names.served(&line.journey, line.end_ns());
        self.flows.journey(line, served, names);
        self.topology.journey(&line.journey, names);
    }

    /// Counts the payload of a journey at each hop of its own packets, for a filter that no event matches by itself.
    pub fn payload_of(&mut self, line: &Lifeline) {
        for rung in line.journey.all_rungs().filter(|rung| rung.tunnel == 0) {
            let bytes = if carries_payload(rung.hop) { line.journey.bytes() } else { 0 };
            self.pyramid.count(Lane::Payload(rung.hop), rung.time_ns, bytes);
        }
    }

    /// Counts the payload of an event of the path.
    pub fn payload(&mut self, event: &Event) {
        self.pyramid.count(Lane::Payload(event.hop), event.time_ns, event.payload_bytes());
    }

    /// Counts a hit of a custom probe and what it read.
    pub fn hit(&mut self, hit: &NodeHit, probe: &Probe) {
        self.pyramid.count(Lane::Hits(hit.probe), hit.hit.time_ns, 1);
        for (at, value) in probe.asked.values.iter().enumerate().take(MOST_VALUES) {
            if let Some(number) = hit.hit.value(at).filter(|_| value.kind != ValueKind::Address) {
                self.pyramid.value((hit.probe, at), hit.hit.time_ns, value.kind.number(number));
            }
        }
    }

    /// Takes over from others what no filter narrows: drops, retransmissions, lost events, all events, and what the kernel added up.
    pub fn take_not_narrowed(&mut self, others: &mut Self) {
        self.pyramid.take_not_narrowed(&mut others.pyramid);
        self.flows.take_sums(&mut others.flows);
    }
}

//! Divides a stream of batches into wire-key buckets.
//!
//! Every record goes to exactly one part: the bucket of its flow's conversation. Both directions and both ends
//! of a connection therefore share a bucket on every host. Records without an announced flow go to the common
//! part, which every subscriber reads. Threads are announced there, flows with their bucket. Each announcement
//! period repeats the names and changes so far there.

use super::reads::Reads;
use super::subject::{PARTS, Part};
use magscope_core::changes::StoredChanges;
use magscope_core::hash::Map;
use magscope_core::hop::Role;
use magscope_core::node::NodeInfo;
use magscope_core::workload::Names;
use magscope_core::{Batch, Event, Flow, FlowId, Hop, Proto, Task};
use magscope_export::wire;

/// Maximum number of flows, and of threads; at the limit the table is cleared, because the kernel repeats its
/// announcements.
const MOST: usize = 1 << 17;

struct SeenIds<T> {
    what: T,
    part: Part,
    /// The last announcement period.
    announced: u32,
}

/// Divides batches and holds the parts until they are taken.
pub struct Split {
    stretch: u32,
    flows: Map<FlowId, SeenIds<Flow>>,
    tasks: Map<u32, SeenIds<Task>>,
    reads: Reads,
    changes: StoredChanges,
    /// The names so far, later than those of the host's description.
    names: NodeInfo,
    parts: Vec<Batch>,
    /// Number of held records.
    records: u64,
}

impl Default for Split {
    fn default() -> Self {
        Split {
            stretch: 1,
            flows: Map::default(),
            tasks: Map::default(),
            reads: Reads::default(),
            changes: StoredChanges::default(),
            names: NodeInfo::default(),
            parts: vec![Batch::default(); PARTS],
            records: 0,
        }
    }
}

impl Split {
    /// Starts an announcement period: every flow and thread is announced again at its next use, and the names and
    /// changes so far are repeated at once.
    pub fn begin(&mut self) {
        self.stretch = self.stretch.wrapping_add(1);
        let NodeInfo { netns, interfaces, cgroups, containers, .. } = self.names.clone();
        let common = &mut self.parts[Part::COMMON.index()];
        let names = Names { time_ns: common.watermark_ns, netns, interfaces, cgroups, containers };
        common.names.extend(Some(names).filter(|names| !names.is_empty()));
        common.changes.extend_from_slice(self.changes.all());
    }

    /// Divides a batch.
    pub fn push(&mut self, batch: &Batch) {
        self.records = self.records.saturating_add(batch.numbered()).saturating_add(batch.lost());
        for flow in &batch.flows {
            self.announce_flow(flow);
        }
        for task in &batch.tasks {
            self.announce_task(task);
        }
        for event in &batch.events {
            let part = self.part_of(event);
            self.used_task(event.tid);
            self.part(part).events.push(*event);
        }
        for sample in &batch.tcp {
            let part = self.used(sample.flow);
            self.part(part).tcp.push(*sample);
        }
        for hit in &batch.hits {
            let part = self.used(hit.flow);
            self.used_task(hit.tid);
            self.part(part).hits.push(*hit);
        }
        for head in &batch.heads {
            let part = self.used(head.flow);
            self.part(part).heads.push(head.clone());
        }
        self.changes.remember(&batch.changes);
        for names in &batch.names {
            self.names.learn(names);
        }
        let common = self.part(Part::COMMON);
        common.losses.extend_from_slice(&batch.losses);
        common.clock.extend_from_slice(&batch.clock);
        common.changes.extend_from_slice(&batch.changes);
        common.counts.extend_from_slice(&batch.counts);
        common.synthesis.extend_from_slice(&batch.synthesis);
        common.names.extend_from_slice(&batch.names);
        common.watermark_ns = common.watermark_ns.max(batch.watermark_ns);
        common.late = common.late.saturating_add(batch.late);
    }

    /// A part of the divided batches. The caller clears it.
    pub fn part(&mut self, part: Part) -> &mut Batch {
        &mut self.parts[part.index()]
    }

    /// Records divided since the last call.
    pub fn take_records(&mut self) -> u64 {
        std::mem::take(&mut self.records)
    }

    /// As [`Self::take_records`], without a reset.
    pub fn records(&self) -> u64 {
        self.records
    }

    fn part_of(&mut self, event: &Event) -> Part {
        let part = self.used(event.flow);
        if event.proto != Proto::UDP {
            return part;
        }
        match event.hop.role() {
            Role::Packet if event.hop == Hop::UdpRecv => self.reads.arrived(event, part),
            Role::Drop => self.reads.dropped(event),
            Role::Read => {
                let of_datagram = self.reads.read(event);
                if event.flow.is_none() {
                    return of_datagram.unwrap_or(Part::COMMON);
                }
            }
            Role::Send
            | Role::Packet
            | Role::Ready
            | Role::Reader
            | Role::Resend
            | Role::Overflow
            | Role::End
            | Role::Sample
            | Role::Point
            | Role::Task => {}
        }
        part
    }

    /// The part of a flow; announces the flow if needed.
    fn used(&mut self, flow: FlowId) -> Part {
        let Some(seen) = self.flows.get_mut(&flow).filter(|_| !flow.is_none()) else { return Part::COMMON };
        if seen.announced != self.stretch {
            seen.announced = self.stretch;
            self.parts[seen.part.index()].flows.push(seen.what);
        }
        seen.part
    }

    fn used_task(&mut self, tid: u32) {
        if tid == 0 {
            return;
        }
        if let Some(seen) = self.tasks.get_mut(&tid).filter(|seen| seen.announced != self.stretch) {
            seen.announced = self.stretch;
            self.parts[seen.part.index()].tasks.push(seen.what.clone());
        }
    }

    fn announce_flow(&mut self, flow: &Flow) {
        if self.flows.len() >= MOST && !self.flows.contains_key(&flow.id) {
            self.flows.clear();
        }
        let part = Part::of(wire::conversation(flow));
        let reported =
            self.flows.get(&flow.id).is_some_and(|seen| seen.what == *flow && seen.announced == self.stretch);
        if !reported {
            self.flows.insert(flow.id, SeenIds { what: *flow, part, announced: self.stretch });
            self.parts[part.index()].flows.push(*flow);
        }
    }

    fn announce_task(&mut self, task: &Task) {
        if self.tasks.len() >= MOST && !self.tasks.contains_key(&task.tid) {
            self.tasks.clear();
        }
        let reported =
            self.tasks.get(&task.tid).is_some_and(|seen| seen.what == *task && seen.announced == self.stretch);
        if !reported {
            let seen = SeenIds { what: task.clone(), part: Part::COMMON, announced: self.stretch };
            self.tasks.insert(task.tid, seen);
            self.parts[Part::COMMON.index()].tasks.push(task.clone());
        }
    }
}

/// Appends a part. The result is in time order only after [`in_order`].
pub fn add(part: &mut Batch, to: &mut Batch) {
    to.events.append(&mut part.events);
    to.flows.append(&mut part.flows);
    to.tasks.append(&mut part.tasks);
    to.tcp.append(&mut part.tcp);
    to.hits.append(&mut part.hits);
    to.heads.append(&mut part.heads);
    to.losses.append(&mut part.losses);
    to.clock.append(&mut part.clock);
    to.changes.append(&mut part.changes);
    to.counts.append(&mut part.counts);
    to.synthesis.append(&mut part.synthesis);
    to.names.append(&mut part.names);
    to.late = to.late.saturating_add(part.late);
}

/// Sorts a merged batch by time, then by each CPU's record number.
pub fn in_order(batch: &mut Batch) {
    batch.events.sort_by_key(|event| (event.time_ns, event.cpu, event.record));
    batch.tcp.sort_by_key(|sample| sample.time_ns);
    batch.hits.sort_by_key(|hit| hit.time_ns);
    batch.heads.sort_by_key(|head| head.time_ns);
    batch.losses.sort_by_key(|loss| loss.to_ns);
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::node::CgroupName;
    use magscope_core::source::{Progress, Source};
    use magscope_core::{Change, Generator, GeneratorOptions, Loss, LossCause};
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    fn generated(seed: u64, flows: u32, events: u64) -> Vec<Batch> {
        let options =
            GeneratorOptions { seed, flows, events, batch_events: 700, ..GeneratorOptions::default() };
        let mut generator = Generator::new(options);
        let (mut batches, mut batch) = (Vec::new(), Batch::default());
        while generator.next(&mut batch, Duration::ZERO).unwrap() == Progress::More {
            batches.push(batch.clone());
        }
        batches
    }

    fn all_parts() -> impl Iterator<Item = Part> {
        (0..PARTS as u8).filter_map(Part::numbered)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn parts_put_together_again_are_the_batch(seed in any::<u64>(), flows in 1_u32..200, every in 1_usize..4) {
            let mut split = Split::default();
            let mut announced: BTreeMap<Part2, BTreeSet<u64>> = BTreeMap::new();
            for (at, mut batch) in generated(seed, flows, 3_000).into_iter().enumerate() {
                let loss = Loss { cpu: 0, from_ns: 1, to_ns: 2, count: at as u64, cause: LossCause::Gap };
                batch.losses.push(loss);
                if at % every == 0 {
                    split.begin();
                    announced.clear();
                }
                split.push(&batch);
                prop_assert_eq!(split.take_records(), batch.numbered() + batch.lost());
                let mut whole = Batch::default();
                for part in all_parts() {
                    let piece = split.part(part);
                    // A reader from the start of a period has every flow that it needs.
                    let announced_flows = announced.entry(part.index()).or_default();
                    announced_flows.extend(piece.flows.iter().map(|flow| flow.id.0));
                    for event in piece.events.iter().filter(|event| !event.flow.is_none()) {
                        prop_assert!(announced_flows.contains(&event.flow.0) && part != Part::COMMON);
                    }
                    whole.watermark_ns = whole.watermark_ns.max(piece.watermark_ns);
                    add(piece, &mut whole);
                    piece.clear();
                }
                in_order(&mut whole);
                in_order(&mut batch);
                for side in [&mut whole, &mut batch] {
                    side.flows.clear();
                    side.tasks.clear();
                }
                prop_assert_eq!(format!("{:?}", whole), format!("{:?}", batch));
            }
        }
    }

    type Part2 = usize;

    #[test]
    fn both_ends_of_a_connection_are_in_one_part() {
        let mut split = Split::default();
        let batches = generated(7, 100, 20_000);
        let flows: Vec<Flow> = batches.iter().flat_map(|batch| &batch.flows).copied().collect();
        for batch in &batches {
            split.push(batch);
        }
        let mut parts: BTreeMap<u64, usize> = BTreeMap::new();
        let mut filled = BTreeSet::new();
        for part in all_parts() {
            for event in &split.part(part).events {
                if !event.flow.is_none() {
                    assert_eq!(*parts.entry(event.flow.0).or_insert(part.index()), part.index());
                    filled.insert(part.index());
                }
            }
        }
        assert!(filled.len() > 20, "{filled:?}");
        for a in &flows {
            for b in flows.iter().filter(|b| a.mirrors(b)) {
                assert_eq!(parts.get(&a.id.0), parts.get(&b.id.0));
            }
        }
    }

    #[test]
    fn each_period_repeats_the_changes_so_far() {
        let change = |to_ns| Change { from_ns: 0, to_ns, what: "detail both".to_owned() };
        let mut split = Split::default();
        split.push(&Batch { changes: vec![change(1)], ..Batch::default() });
        // The memory repeats it as well.
        split.push(&Batch { changes: vec![change(1), change(2)], ..Batch::default() });
        assert_eq!(split.part(Part::COMMON).changes, [change(1), change(1), change(2)]);
        for _ in 0..2 {
            split.part(Part::COMMON).clear();
            split.begin();
            assert_eq!(split.part(Part::COMMON).changes, [change(1), change(2)]);
        }
    }

    #[test]
    fn each_period_repeats_the_names_so_far() {
        let names = |id: u64| {
            let cgroups = vec![CgroupName { id, path: format!("/{id}") }];
            Names { time_ns: id, cgroups, ..Names::default() }
        };
        let mut split = Split::default();
        split.begin();
        assert!(split.part(Part::COMMON).names.is_empty(), "there are none so far");
        split.push(&Batch { names: vec![names(1), names(2)], watermark_ns: 9, ..Batch::default() });
        for _ in 0..2 {
            let common = split.part(Part::COMMON);
            common.clear();
            split.begin();
            let both = Names { time_ns: 9, cgroups: [names(1).cgroups, names(2).cgroups].concat(), ..names(1) };
            assert_eq!(split.part(Part::COMMON).names, [both]);
        }
    }

    #[test]
    fn what_is_not_known_is_common_until_it_is_announced() {
        let mut split = Split::default();
        let batch = generated(3, 4, 3_000).remove(0);
        let of_flow = batch.events.iter().find(|event| !event.flow.is_none()).copied().unwrap();
        split.push(&Batch { events: vec![of_flow], ..Batch::default() });
        assert_eq!(split.part(Part::COMMON).events, [of_flow]);
        split.push(&Batch { events: vec![of_flow], flows: batch.flows.clone(), ..Batch::default() });
        assert_eq!(split.part(Part::COMMON).events.len(), 1);
    }
}

//! Flows and tasks, announced once in every segment that refers to them.
//!
//! Retention deletes whole segments, and with them whatever was announced there. So a segment announces for itself
//! each flow and task its rows use: those announced while it is written, and the older ones when an event first
//! uses them.
//!
//! Two generations bound the memory. An entry that is used moves to the younger one. When the younger one is full,
//! the older one is forgotten. The kernel repeats an announcement after 8.6 s, or as soon as
//! another one takes its place among 8,192. A generation is larger than that, so what is forgotten comes back.

use crate::table::Announced;
use magscope_core::synthesis::Sum;
use magscope_core::{Batch, Event, Flow, FlowId, PayloadHead, ProbeHit, Synthesis, Task, TcpSample};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Most flows (tasks) of a generation: what a table of 2¹⁵ places takes. Two generations of both take about 12 MiB.
const GENERATION: usize = (1 << 15) / 8 * 7;

/// Flow ids are hashes already, and a peer cannot choose thread ids. One multiplication is a sufficient hash,
/// and nearly every event needs a look-up.
#[derive(Default)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, n: u64) {
        let product = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}

struct Entry<T> {
    what: T,
    /// The last segment that announces it.
    segment: u32,
}

type Entries<T> = HashMap<u64, Entry<T>, BuildHasherDefault<IdHasher>>;

struct Map<T> {
    younger: Entries<T>,
    older: Entries<T>,
    last: Option<u64>,
    /// Announcements for the next batch.
    fresh: Vec<Announced<T>>,
}

impl<T: Clone + PartialEq> Map<T> {
    fn new() -> Self {
        Map { younger: HashMap::default(), older: HashMap::default(), last: None, fresh: Vec::new() }
    }

    /// The entry of a key, which is in the younger generation from then on.
    #[inline]
    fn entry(&mut self, key: u64) -> Option<&mut Entry<T>> {
        if !self.younger.contains_key(&key) {
            let entry = self.older.remove(&key)?;
            self.insert(key, entry);
        }
        self.younger.get_mut(&key)
    }

    fn insert(&mut self, key: u64, entry: Entry<T>) {
        if self.younger.len() >= GENERATION {
            std::mem::swap(&mut self.younger, &mut self.older);
            self.younger.clear();
        }
        self.younger.insert(key, entry);
    }

    fn announce(&mut self, key: u64, what: &T, ts_ns: u64, segment: u32) {
        match self.entry(key) {
            // A repetition of what the segment already has.
            Some(entry) if entry.segment == segment && entry.what == *what => return,
            Some(entry) => *entry = Entry { what: what.clone(), segment },
            None => self.insert(key, Entry { what: what.clone(), segment }),
        }
        self.fresh.push(Announced { ts_ns, what: what.clone() });
    }

    #[inline]
    fn used(&mut self, key: u64, ts_ns: u64, segment: u32) {
        if key == 0 || self.last == Some(key) {
            return;
        }
        self.last = Some(key);
        if let Some(entry) = self.entry(key)
            && entry.segment != segment
        {
            entry.segment = segment;
            let what = entry.what.clone();
            self.fresh.push(Announced { ts_ns, what });
        }
    }
}

pub(super) struct AnnouncedIds {
    segment: u32,
    flows: Map<Flow>,
    tasks: Map<Task>,
}

impl AnnouncedIds {
    pub(super) fn new() -> Self {
        AnnouncedIds { segment: 0, flows: Map::new(), tasks: Map::new() }
    }

    /// Starts a new segment.
    pub(super) fn begin_segment(&mut self, segment: u32) {
        self.segment = segment;
        self.flows.last = None;
        self.tasks.last = None;
    }

    pub(super) fn announce(&mut self, flows: &[Flow], tasks: &[Task], ts_ns: u64) {
        for flow in flows {
            self.flows.announce(flow.id.0, flow, ts_ns, self.segment);
        }
        for task in tasks {
            self.tasks.announce(task_key(task.tgid, task.tid), task, ts_ns, self.segment);
        }
    }

    pub(super) fn used_by(&mut self, events: &[Event]) {
        for event in events {
            self.flows.used(event.flow.0, event.time_ns, self.segment);
            self.tasks.used(task_key(event.tgid, event.tid), event.time_ns, self.segment);
        }
    }

    pub(super) fn used_by_tcp(&mut self, samples: &[TcpSample]) {
        for TcpSample { flow: FlowId(flow), time_ns, .. } in samples {
            self.flows.used(*flow, *time_ns, self.segment);
        }
    }

    pub(super) fn used_by_synthesis(&mut self, sums: &[Synthesis]) {
        for sum in sums {
            if let Sum::Flow(FlowId(flow)) = sum.of {
                self.flows.used(flow, sum.to_ns, self.segment);
            }
        }
    }

    pub(super) fn used_by_custom(&mut self, hits: &[ProbeHit], heads: &[PayloadHead]) {
        for hit in hits {
            self.flows.used(hit.flow.0, hit.time_ns, self.segment);
            self.tasks.used(task_key(hit.tgid, hit.tid), hit.time_ns, self.segment);
        }
        for head in heads {
            self.flows.used(head.flow.0, head.time_ns, self.segment);
        }
    }

    /// Approximate size of the pending announcements, bytes.
    pub(super) fn fresh_bytes(&self) -> usize {
        self.flows.fresh.len() * size_of::<Announced<Flow>>()
            + self.tasks.fresh.len() * size_of::<Announced<Task>>()
    }

    pub(super) fn fresh_flows(&mut self) -> Vec<Announced<Flow>> {
        std::mem::take(&mut self.flows.fresh)
    }

    pub(super) fn fresh_tasks(&mut self) -> Vec<Announced<Task>> {
        std::mem::take(&mut self.tasks.fresh)
    }
}

/// Makes segments of a stream self-contained: each announces every flow and task in it.
pub struct Announcer {
    announced: AnnouncedIds,
    segment: u32,
}

impl Default for Announcer {
    fn default() -> Self {
        Announcer { announced: AnnouncedIds::new(), segment: 0 }
    }
}

impl Announcer {
    /// Starts a segment without announcements.
    pub fn begin(&mut self) {
        self.segment = self.segment.wrapping_add(1);
        self.announced.begin_segment(self.segment);
    }

    /// Stores the flows and tasks of a batch outside of all segments, for the segments that use them later.
    pub(super) fn learn(&mut self, batch: &Batch) {
        self.announced.announce(&batch.flows, &batch.tasks, 0);
        drop((self.announced.fresh_flows(), self.announced.fresh_tasks()));
    }

    /// Removes flows and tasks from a batch that this segment has announced already, and adds those that only
    /// earlier segments have.
    pub fn complete(&mut self, batch: &mut Batch) {
        self.announced.announce(&batch.flows, &batch.tasks, 0);
        self.announced.used_by(&batch.events);
        self.announced.used_by_tcp(&batch.tcp);
        self.announced.used_by_custom(&batch.hits, &batch.heads);
        self.announced.used_by_synthesis(&batch.synthesis);
        batch.flows.clear();
        batch.flows.extend(self.announced.fresh_flows().into_iter().map(|flow| flow.what));
        batch.tasks.clear();
        batch.tasks.extend(self.announced.fresh_tasks().into_iter().map(|task| task.what));
    }
}

fn task_key(tgid: u32, tid: u32) -> u64 {
    u64::from(tgid) << 32 | u64::from(tid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::{Endpoint, Hop, Proto};
    use std::net::Ipv4Addr;

    fn flow(n: u64) -> Flow {
        let end = Endpoint::new(Ipv4Addr::LOCALHOST.into(), n as u16);
        Flow { id: FlowId(n), netns: 1, proto: Proto::TCP, local: end, remote: end }
    }

    fn task(n: u64) -> Task {
        let tid = n as u32;
        Task { tgid: tid, tid, uid: 0, cgroup: 1, comm: "curl".to_owned() }
    }

    fn event_of(flow: u64) -> Event {
        Event { flow: FlowId(flow), ..Event::at(Hop::TcpSend, 7) }
    }

    fn announced(ids: &mut AnnouncedIds) -> Vec<u64> {
        ids.fresh_flows().into_iter().map(|announced| announced.what.id.0).collect()
    }

    /// Entries that there is memory for.
    fn places(ids: &AnnouncedIds) -> usize {
        let AnnouncedIds { flows, tasks, .. } = ids;
        let of_flows = flows.younger.capacity() + flows.older.capacity();
        of_flows + tasks.younger.capacity() + tasks.older.capacity()
    }

    #[test]
    fn memory_is_the_same_after_a_million_flows_and_tasks_as_after_a_hundred_thousand() {
        let mut ids = AnnouncedIds::new();
        let mut announce = |range: std::ops::Range<u64>| {
            for n in range {
                ids.announce(&[flow(n)], &[task(n)], n);
                ids.used_by(&[event_of(n)]);
                ids.fresh_flows();
                ids.fresh_tasks();
            }
            places(&ids)
        };
        let early = announce(1..100_000);
        assert_eq!(announce(100_000..1_000_000), early);
        assert_eq!(early, 4 * GENERATION, "a generation fills its table");
    }

    #[test]
    fn a_flow_in_use_is_remembered_among_a_million_others() {
        let mut ids = AnnouncedIds::new();
        ids.announce(&[flow(1)], &[], 1);
        for n in 2..1_000_000 {
            ids.announce(&[flow(n)], &[], n);
            if n % 1_000 == 0 {
                ids.used_by(&[event_of(n), event_of(1)]);
            }
        }
        ids.fresh_flows();
        ids.begin_segment(1);
        ids.used_by(&[event_of(1)]);
        assert_eq!(announced(&mut ids), [1]);
    }

    #[test]
    fn a_forgotten_flow_is_written_as_soon_as_it_is_announced_again() {
        let mut ids = AnnouncedIds::new();
        ids.announce(&[flow(1)], &[], 1);
        for n in 2..100_000 {
            ids.announce(&[flow(n)], &[], n);
        }
        ids.fresh_flows();
        ids.begin_segment(1);
        ids.used_by(&[event_of(1)]);
        assert_eq!(announced(&mut ids), [0; 0], "it is forgotten");
        ids.announce(&[flow(1)], &[], 9);
        assert_eq!(announced(&mut ids), [1]);
    }

    #[test]
    fn a_stretch_announces_the_flows_of_every_table() {
        let mut announcer = Announcer::default();
        announcer.begin();
        announcer.complete(&mut Batch { flows: vec![flow(5)], ..Batch::default() });
        announcer.begin();
        let sum = Synthesis {
            from_ns: 1,
            to_ns: 2,
            hop: Hop::DevXmit,
            of: Sum::Flow(FlowId(5)),
            n: 1,
            sum: 1,
            buckets: Vec::new(),
        };
        let mut batch = Batch { synthesis: vec![sum], ..Batch::default() };
        announcer.complete(&mut batch);
        assert_eq!(batch.flows, [flow(5)]);
    }
}

//! Flows and tasks, announced once in every segment that refers to them.
//!
//! Retention deletes whole segments with their announcements. Each segment therefore announces every flow and
//! task that its rows use: new ones at once, and older ones at their first use in the segment. The table is
//! bounded; the kernel repeats its announcements every few seconds, so evicted entries return.

use crate::table::Announced;
use magscope_core::synthesis::Sum;
use magscope_core::{Batch, Event, Flow, FlowId, PayloadHead, ProbeHit, Synthesis, Task, TcpSample};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Maximum number of flows, and of tasks. The flows take about 30 MiB.
const MOST: usize = 1 << 18;

/// Flow ids are hashes already, and a peer cannot choose thread ids. One multiplication is a sufficient hash,
/// and nearly every event needs a look-up.
#[derive(Default)]
pub(super) struct Spread(u64);

impl Hasher for Spread {
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

struct Map<T> {
    entries: HashMap<u64, Entry<T>, BuildHasherDefault<Spread>>,
    last: Option<u64>,
    /// Announcements for the next batch.
    fresh: Vec<Announced<T>>,
}

impl<T: Clone + PartialEq> Map<T> {
    fn new() -> Self {
        Map { entries: HashMap::default(), last: None, fresh: Vec::new() }
    }

    fn announce(&mut self, key: u64, what: &T, ts_ns: u64, segment: u32) {
        if let Some(entry) = self.entries.get(&key)
            && entry.segment == segment
            && entry.what == *what
        {
            return; // A repetition within the segment.
        }
        if self.entries.len() >= MOST {
            // Evict entries of older segments, then all: see the module comment.
            self.entries.retain(|_, entry| entry.segment == segment);
            if self.entries.len() >= MOST {
                self.entries.clear();
            }
        }
        self.entries.insert(key, Entry { what: what.clone(), segment });
        self.fresh.push(Announced { ts_ns, what: what.clone() });
    }

    #[inline]
    fn used(&mut self, key: u64, ts_ns: u64, segment: u32) {
        if key == 0 || self.last == Some(key) {
            return;
        }
        self.last = Some(key);
        if let Some(entry) = self.entries.get_mut(&key)
            && entry.segment != segment
        {
            entry.segment = segment;
            self.fresh.push(Announced { ts_ns, what: entry.what.clone() });
        }
    }
}

pub(super) struct Known {
    segment: u32,
    flows: Map<Flow>,
    tasks: Map<Task>,
}

impl Known {
    pub(super) fn new() -> Self {
        Known { segment: 0, flows: Map::new(), tasks: Map::new() }
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
    known: Known,
    segment: u32,
}

impl Default for Announcer {
    fn default() -> Self {
        Announcer { known: Known::new(), segment: 0 }
    }
}

impl Announcer {
    /// Starts a segment without announcements.
    pub fn begin(&mut self) {
        self.segment = self.segment.wrapping_add(1);
        self.known.begin_segment(self.segment);
    }

    /// Removes flows and tasks from a batch that this segment has announced already, and adds those that only
    /// earlier segments have.
    pub fn complete(&mut self, batch: &mut Batch) {
        self.known.announce(&batch.flows, &batch.tasks, 0);
        self.known.used_by(&batch.events);
        self.known.used_by_tcp(&batch.tcp);
        self.known.used_by_custom(&batch.hits, &batch.heads);
        batch.flows.clear();
        batch.flows.extend(self.known.fresh_flows().into_iter().map(|flow| flow.what));
        batch.tasks.clear();
        batch.tasks.extend(self.known.fresh_tasks().into_iter().map(|task| task.what));
    }
}

fn task_key(tgid: u32, tid: u32) -> u64 {
    u64::from(tgid) << 32 | u64::from(tid)
}

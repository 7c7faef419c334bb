//! Resolves ids in events for watches by another key: addresses of flows, cgroups of threads.

use super::Subject;
use magscope_core::flow::Task;
use magscope_core::{Flow, FlowId};
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Maximum number of flows, and of threads. Announcements repeat every few seconds.
const MOST: usize = 1 << 16;

/// A table that evicts its oldest entry.
#[derive(Clone, Debug)]
struct Table<K, V> {
    by: HashMap<K, V>,
    order: VecDeque<K>,
}

impl<K: Copy + Eq + Hash, V> Table<K, V> {
    fn insert(&mut self, key: K, value: V) {
        if self.by.insert(key, value).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.by.remove(&oldest);
        }
    }
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Table { by: HashMap::new(), order: VecDeque::new() }
    }
}

/// Flows and threads.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    flows: Table<FlowId, Flow>,
    cgroups: Table<u32, u64>,
}

impl Tables {
    pub fn flow(&mut self, flow: &Flow) {
        self.flows.insert(flow.id, *flow);
    }

    pub fn task(&mut self, task: &Task) {
        self.cgroups.insert(task.tid, task.cgroup);
    }

    /// The announced flows that match.
    pub fn flows<'a>(&'a self, subject: &'a Subject) -> impl Iterator<Item = FlowId> + 'a {
        let meant = self.flows.by.values().filter(|flow| subject.is(flow));
        meant.map(|flow| flow.id).take(super::watch::MOST_KEYS)
    }

    /// The cgroup of an announced thread.
    pub fn cgroup(&self, tid: u32) -> Option<u64> {
        self.cgroups.by.get(&tid).copied()
    }
}

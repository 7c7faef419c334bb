//! Names from the batches of a reader, for what is resolved after the reader has ended.

use crate::batch::Batch;
use crate::context::Context;
use crate::flow::{Flow, FlowId, Task};
use crate::hash::Map;
use crate::node::NodeInfo;

/// Maximum number of stored flows, and of stored threads. They are announced again periodically.
const MOST: usize = 1 << 16;

/// The flows and threads announced so far.
#[derive(Clone, Debug, Default)]
pub struct StoredContext {
    infos: Vec<NodeInfo>,
    flows: Map<(u16, FlowId), Flow>,
    tasks: Map<(u16, u32), Task>,
}

impl StoredContext {
    /// Without flows and threads, for recordings of these hosts.
    pub fn new(infos: Vec<NodeInfo>) -> Self {
        StoredContext { infos, ..Self::default() }
    }

    /// The hosts.
    pub fn infos(&self) -> &[NodeInfo] {
        &self.infos
    }

    /// Adds a host that begins later.
    pub fn join(&mut self, info: NodeInfo) {
        self.infos.push(info);
    }

    /// Stores the announcements of a batch.
    pub fn batch(&mut self, node: u16, batch: &Batch) {
        for flow in &batch.flows {
            make_room(&mut self.flows, &(node, flow.id));
            self.flows.insert((node, flow.id), *flow);
        }
        if let Some(info) = self.infos.get_mut(usize::from(node)) {
            for names in &batch.names {
                info.learn(names);
            }
        }
        self.threads(node, batch);
    }

    /// Stores the announced threads of a batch alone.
    pub fn threads(&mut self, node: u16, batch: &Batch) {
        for task in &batch.tasks {
            make_room(&mut self.tasks, &(node, task.tid));
            self.tasks.insert((node, task.tid), task.clone());
        }
    }
}

fn make_room<K: std::hash::Hash + Eq, V>(map: &mut Map<K, V>, key: &K) {
    if map.len() >= MOST && !map.contains_key(key) {
        map.clear();
    }
}

impl Context for StoredContext {
    fn flow(&self, node: u16, id: FlowId) -> Option<&Flow> {
        self.flows.get(&(node, id))
    }

    fn task(&self, node: u16, tid: u32) -> Option<&Task> {
        self.tasks.get(&(node, tid))
    }

    fn info(&self, node: u16) -> Option<&NodeInfo> {
        self.infos.get(usize::from(node))
    }

    fn nodes(&self) -> u16 {
        self.infos.len() as u16
    }
}

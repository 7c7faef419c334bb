//! Who is who: flows and tasks as they were announced. Bounded; sources announce them again every few seconds, so
//! that starting afresh costs a name for a moment and nothing else.

use magscope_core::{Batch, Flow, FlowId, Task};
use std::collections::HashMap;

const MAX_FLOWS: usize = 65_536;
const MAX_TASKS: usize = 16_384;

/// Flows and tasks by their numbers.
#[derive(Default)]
pub(crate) struct Directory {
    flows: HashMap<FlowId, Flow>,
    tasks: HashMap<u32, Task>,
}

impl Directory {
    /// Takes in what a batch announces.
    pub(crate) fn learn(&mut self, batch: &Batch) {
        if self.flows.len() + batch.flows.len() > MAX_FLOWS {
            self.flows.clear();
        }
        self.flows.extend(batch.flows.iter().take(MAX_FLOWS).map(|flow| (flow.id, *flow)));
        if self.tasks.len() + batch.tasks.len() > MAX_TASKS {
            self.tasks.clear();
        }
        self.tasks.extend(batch.tasks.iter().take(MAX_TASKS).map(|task| (task.tid, task.clone())));
    }

    /// What a flow id stands for.
    pub(crate) fn flow(&self, id: FlowId) -> Option<&Flow> {
        self.flows.get(&id)
    }

    /// Who a thread is.
    pub(crate) fn task(&self, tid: u32) -> Option<&Task> {
        self.tasks.get(&tid)
    }
}

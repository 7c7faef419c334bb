//! The hosts of an agent or a relay. A relay adds hosts, and a rebooted host replaces its former entry.

use crate::memory::Memory;
use magscope_core::node::{NodeInfo, make_name_unique};
use std::sync::{Arc, PoisonError, RwLock};

/// The memory of each host; names are unique.
#[derive(Debug, Default)]
pub struct Hosts(RwLock<Vec<Arc<Memory>>>);

impl Hosts {
    /// These hosts, which must have unique names.
    pub fn of(all: Vec<Arc<Memory>>) -> Arc<Self> {
        Arc::new(Hosts(RwLock::new(all)))
    }

    /// All current hosts.
    pub fn all(&self) -> Vec<Arc<Memory>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Current number of hosts.
    pub fn len(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes the name of a new host unique among the hosts with a running capture.
    pub fn name(&self, info: &mut NodeInfo) {
        let running = self.all().into_iter().filter(|memory| !memory.has_ended());
        let running: Vec<NodeInfo> = running.map(|memory| memory.info().clone()).collect();
        make_name_unique(&running, info);
    }

    /// Adds a host. An entry of the same name with an ended capture is removed; its readers can finish.
    pub fn add(&self, memory: Arc<Memory>) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.info().host != memory.info().host);
        all.push(memory);
    }
}

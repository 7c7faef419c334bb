//! The hosts that an agent or a relay has. A relay's become more, and one that is booted anew takes the place of what it was.

use crate::memory::Memory;
use magscope_core::node::{NodeInfo, tell_apart_from};
use std::sync::{Arc, PoisonError, RwLock};

/// What is kept of each host; no two have the same name.
#[derive(Debug, Default)]
pub struct Hosts(RwLock<Vec<Arc<Memory>>>);

impl Hosts {
    /// These, which have names of their own.
    pub fn of(all: Vec<Arc<Memory>>) -> Arc<Self> {
        Arc::new(Hosts(RwLock::new(all)))
    }

    /// All that there are by now.
    pub fn all(&self) -> Vec<Arc<Memory>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many there are by now.
    pub fn len(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives one that comes later a name that none has whose capture runs yet.
    pub fn name(&self, info: &mut NodeInfo) {
        let running = self.all().into_iter().filter(|memory| !memory.has_ended());
        let running: Vec<NodeInfo> = running.map(|memory| memory.info().clone()).collect();
        tell_apart_from(&running, info);
    }

    /// One more. One with the same name whose capture has ended goes, but for those who read it yet.
    pub fn add(&self, memory: Arc<Memory>) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.info().host != memory.info().host);
        all.push(memory);
    }
}

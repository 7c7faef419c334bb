//! What a host on the bus is to a viewer.

use crate::inbox::Inbox;
use magscope_core::Batch;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source, SourceError};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::runtime::Runtime;

/// A host that publishes on a bus.
pub struct Subscribed {
    inbox: Inbox,
    /// What reads the bus, together with others.
    _runtime: Arc<Runtime>,
}

impl Subscribed {
    /// One that is fed by what runs there.
    pub fn new(inbox: Inbox, runtime: Arc<Runtime>) -> Self {
        Subscribed { inbox, _runtime: runtime }
    }

    /// What is raised when nothing more comes of it, or is taken.
    pub fn over(&self) -> Arc<AtomicBool> {
        self.inbox.over().clone()
    }
}

impl Source for Subscribed {
    fn info(&self) -> &NodeInfo {
        self.inbox.info()
    }

    fn next(&mut self, batch: &mut Batch, timeout: Duration) -> Result<Progress, SourceError> {
        self.inbox.next(batch, timeout)
    }
}

//! A host on the bus as a viewer's source.

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
    /// The runtime that reads the bus, shared with other hosts.
    _runtime: Arc<Runtime>,
}

impl Subscribed {
    /// A source fed by tasks of this runtime.
    pub fn new(inbox: Inbox, runtime: Arc<Runtime>) -> Self {
        Subscribed { inbox, _runtime: runtime }
    }

    /// Flag set when no more batches follow or the reader has ended.
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

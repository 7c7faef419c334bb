//! A recording in memory: batches one after the other.

use magscope_core::Batch;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source, SourceError};
use std::time::Duration;

/// One host's recording of a world.
pub struct Recording {
    pub info: NodeInfo,
    pub batches: std::vec::IntoIter<Batch>,
}

impl Source for Recording {
    fn info(&self) -> &NodeInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Batch, _: Duration) -> Result<Progress, SourceError> {
        batch.clear();
        match self.batches.next() {
            Some(next) => {
                *batch = next;
                Ok(Progress::More)
            }
            None => Ok(Progress::End),
        }
    }
}

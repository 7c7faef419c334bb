//! What a host on the bus is to a viewer: a source, and the other end of it.

use crate::remote::Ticker;
use magscope_core::Batch;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source, SourceError};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Batches that wait to be looked at.
const WAITING: usize = 16;

/// A host that publishes on a bus.
pub struct Subscribed {
    info: NodeInfo,
    batches: Receiver<Batch>,
    ticker: Ticker,
    /// What reads the bus, together with others.
    _runtime: Arc<Runtime>,
}

/// What gives it its batches.
pub struct Feeder {
    give: SyncSender<Batch>,
    /// What tells of the bus.
    pub ticker: Ticker,
}

impl Subscribed {
    /// One that ends with this ticker, fed by what runs there.
    pub fn new(info: NodeInfo, ticker: Ticker, runtime: Arc<Runtime>) -> (Self, Feeder) {
        let (give, batches) = sync_channel(WAITING);
        let feeder = Feeder { give, ticker: ticker.clone() };
        (Subscribed { info, batches, ticker, _runtime: runtime }, feeder)
    }
}

impl Source for Subscribed {
    fn info(&self) -> &NodeInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Batch, timeout: Duration) -> Result<Progress, SourceError> {
        batch.clear();
        if self.ticker.is_stopped() {
            return Ok(Progress::End);
        }
        match self.batches.recv_timeout(timeout) {
            Ok(came) => *batch = came,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(Progress::End),
        }
        Ok(Progress::More)
    }
}

impl Feeder {
    /// Gives a batch to the reader, as soon as there is room; whether there is a reader.
    pub async fn hand_over(&self, mut batch: Batch) -> bool {
        loop {
            match self.give.try_send(batch) {
                Ok(()) => return true,
                Err(TrySendError::Disconnected(_)) => return false,
                Err(TrySendError::Full(back)) => batch = back,
            }
            if self.ticker.is_stopped() {
                return false;
            }
            // What the reader does not take stays with the bus.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

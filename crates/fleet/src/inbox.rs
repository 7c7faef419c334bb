//! Queue of batches from a host's reader to the consumer: a source, and its feeding end.

use crate::remote::Ticker;
use magscope_core::Batch;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source, SourceError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

/// Maximum number of queued batches.
const WAITING: usize = 16;

/// A host as a source. The source ends with its ticker or its feeder.
pub struct Inbox {
    info: NodeInfo,
    batches: Receiver<Batch>,
    ticker: Ticker,
    over: Arc<AtomicBool>,
}

/// The feeding end.
pub struct Feeder {
    give: SyncSender<Batch>,
    ticker: Ticker,
    over: Arc<AtomicBool>,
}

impl Inbox {
    /// A source of this host, and its feeder.
    pub fn new(info: NodeInfo, ticker: Ticker) -> (Self, Feeder) {
        let (give, batches) = sync_channel(WAITING);
        let over = Arc::new(AtomicBool::new(false));
        let feeder = Feeder { give, ticker: ticker.clone(), over: over.clone() };
        (Inbox { info, batches, ticker, over }, feeder)
    }

    /// The ticker of its connection.
    pub fn ticker(&self) -> &Ticker {
        &self.ticker
    }

    /// Flag set when the feeder or the reader has ended.
    pub fn over(&self) -> &Arc<AtomicBool> {
        &self.over
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

impl Source for Inbox {
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
    /// Queues a batch as soon as there is room; returns false without a reader. Unqueued data stays at its
    /// origin.
    pub async fn hand_over(&self, mut batch: Batch) -> bool {
        loop {
            match self.give.try_send(batch) {
                Ok(()) => return true,
                Err(TrySendError::Disconnected(_)) => return false,
                Err(TrySendError::Full(back)) => batch = back,
            }
            if self.is_stopped() {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// True if there is no reader any more.
    pub fn is_stopped(&self) -> bool {
        self.ticker.is_stopped() || self.over.load(Ordering::Relaxed)
    }

    /// Waits for the end of the reader.
    pub async fn stopped(&self) {
        while !self.is_stopped() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Reports news about the connection.
    pub fn push_notice(&self, text: String, bad: bool) {
        self.ticker.notify(text, bad);
    }

    /// Sets whether the connection to a host is lost.
    pub fn set_away(&self, host: &str, is_away: bool) {
        self.ticker.set_away(host, is_away);
    }
}

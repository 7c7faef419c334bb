//! Batches on their way from what reads a host to whoever looks at it: a source, and its other end.

use crate::remote::Ticker;
use magscope_core::Batch;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source, SourceError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

/// Batches that wait to be looked at.
const WAITING: usize = 16;

/// A host as a source. It ends with its ticker, or when nothing more is given.
pub struct Inbox {
    info: NodeInfo,
    batches: Receiver<Batch>,
    ticker: Ticker,
    over: Arc<AtomicBool>,
}

/// What gives it its batches.
pub struct Feeder {
    give: SyncSender<Batch>,
    ticker: Ticker,
    over: Arc<AtomicBool>,
}

impl Inbox {
    /// One of this host, and what feeds it.
    pub fn new(info: NodeInfo, ticker: Ticker) -> (Self, Feeder) {
        let (give, batches) = sync_channel(WAITING);
        let over = Arc::new(AtomicBool::new(false));
        let feeder = Feeder { give, ticker: ticker.clone(), over: over.clone() };
        (Inbox { info, batches, ticker, over }, feeder)
    }

    /// What tells of its connection.
    pub fn ticker(&self) -> &Ticker {
        &self.ticker
    }

    /// What is raised when nothing more is given, or taken.
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
    /// Gives a batch to the reader, as soon as there is room; whether there is a reader. What it does not take stays where it comes from.
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

    /// Whether nobody reads it any more.
    pub fn is_stopped(&self) -> bool {
        self.ticker.is_stopped() || self.over.load(Ordering::Relaxed)
    }

    /// Waits until nobody does.
    pub async fn stopped(&self) {
        while !self.is_stopped() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Says something about the connection.
    pub fn tell(&self, text: String, bad: bool) {
        self.ticker.tell(text, bad);
    }
}

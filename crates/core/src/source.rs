//! A source of event batches with a clock: what stands at the head of the line.
//!
//! Live, replay and several hosts differ only here. Everything behind a source (correlator, scope, exporters)
//! sees batches and nothing else.

use crate::batch::Batch;
use crate::node::NodeInfo;
use std::time::Duration;

/// Whether a source has more to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There may be more; the batch can be empty when nothing came within the time-out.
    More,
    /// The last batch has been given.
    End,
}

/// Why a source cannot go on. What was already handed over stays good.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;

/// A source of event batches: a live probe, a session, a remote agent, a generator.
pub trait Source {
    /// The node these events come from.
    fn info(&self) -> &NodeInfo;

    /// Clears `batch` and fills it with what came next, waiting at most `timeout` for something to come.
    fn next(&mut self, batch: &mut Batch, timeout: Duration) -> Result<Progress, SourceError>;
}

impl<S: Source + ?Sized> Source for &mut S {
    fn info(&self) -> &NodeInfo {
        (**self).info()
    }

    fn next(&mut self, batch: &mut Batch, timeout: Duration) -> Result<Progress, SourceError> {
        (**self).next(batch, timeout)
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn info(&self) -> &NodeInfo {
        (**self).info()
    }

    fn next(&mut self, batch: &mut Batch, timeout: Duration) -> Result<Progress, SourceError> {
        (**self).next(batch, timeout)
    }
}

//! A source of event batches with a clock: the head of the pipeline.
//!
//! Live capture, replay and several hosts differ only here. All code behind a source (correlator, scope,
//! exporters) processes batches only.

use crate::batch::Batch;
use crate::node::NodeInfo;
use std::time::Duration;

/// Whether a source has more data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More data may follow; the batch can be empty after a time-out.
    More,
    /// The last batch was returned before. What this one may have is not read.
    End,
}

/// The reason why a source cannot continue. Earlier batches stay valid.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;

/// A source of event batches: a live probe, a session, a remote agent, a generator.
pub trait Source {
    /// The node of these events.
    fn info(&self) -> &NodeInfo;

    /// Clears `batch` and fills it with the next data, waiting at most `timeout` for them.
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

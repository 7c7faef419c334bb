//! Errors of the terminal.

use magscope_core::source::SourceError;
use std::io;

/// Reason for an early end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TuiError {
    /// Standard output is a file or a pipe.
    #[error("the scope needs a terminal, and standard output is none; `magnet-scope report` prints text")]
    NoTerminal,
    /// The terminal could not be initialised or restored.
    #[error("the terminal could not be {doing}")]
    Terminal {
        /// The operation.
        doing: &'static str,
        /// The error.
        source: io::Error,
    },
    /// The signals that end a program could not be caught.
    #[error("signals could not be caught")]
    Signals(#[source] io::Error),
    /// The source of events failed.
    #[error("the source of events failed")]
    Source(#[source] SourceError),
}

impl TuiError {
    /// For `map_err`: the terminal failed while `doing`.
    pub(crate) fn at(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Terminal { doing, source }
    }
}

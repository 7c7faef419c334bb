//! What can go wrong with a terminal.

use magscope_core::source::SourceError;
use std::io;

/// Why the picture ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TuiError {
    /// Standard output goes to a file or a pipe.
    #[error("the scope needs a terminal, and standard output is none; `magnet-scope report` prints text")]
    NoTerminal,
    /// The terminal could not be made ready or given back.
    #[error("the terminal could not be {doing}")]
    Terminal {
        /// What was being done.
        doing: &'static str,
        /// Why it failed.
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

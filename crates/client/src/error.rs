//! Errors of the client.

use crate::wire::Refusal;
use std::io;
use std::path::PathBuf;

/// Reason for missing averages.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No agent answers at its socket.
    #[error(
        "cannot connect to {}: {because}; no agent runs here, or it does not serve programs; start one: `sudo magnet-scope agent`",
        path.display()
    )]
    Connect {
        /// The path of the socket.
        path: PathBuf,
        /// The kernel's error.
        because: io::Error,
    },
    /// The agent refused the request.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// The agent has ended, or has closed the connection.
    #[error(
        "the agent has closed the connection; it has ended, or was not read from for too long; connect again"
    )]
    Ended,
    /// The agent's line is invalid.
    #[error("the agent's answer is not understood: {0}; it is of another version than this library")]
    Nonsense(String),
    /// The connection broke.
    #[error("talking to the agent: {0}")]
    Io(#[from] io::Error),
}

//! Errors between hosts.

use std::io;
use std::path::PathBuf;

/// An error between hosts.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// Bad certificate or key file.
    #[error("{path}: {because}")]
    Key {
        /// The file.
        path: PathBuf,
        /// The problem.
        because: String,
    },
    /// Several certificates match.
    #[error("{path} has several certificates: {}", names.join(", "))]
    Several {
        /// The folder.
        path: PathBuf,
        /// Their names.
        names: Vec<String>,
    },
    /// A certificate could not be created.
    #[error("no certificate can be made for `{name}`: {because}")]
    Certificate {
        /// Its name.
        name: String,
        /// Why.
        because: String,
    },
    /// Invalid address.
    #[error("`{text}` is no address of an agent: {because}")]
    Address {
        /// The text.
        text: String,
        /// The expected form.
        because: &'static str,
    },
    /// The peer is absent, rejects this host, or is not trusted.
    #[error("no connection with the agent at {address}: {because}")]
    Connect {
        /// The address.
        address: String,
        /// Why.
        because: String,
        /// The likely cause.
        likely: Likely,
    },
    /// The agent refused a request.
    #[error("the agent at {address} refuses: {because}")]
    Refused {
        /// The address.
        address: String,
        /// The agent's reason.
        because: String,
    },
    /// Every server of a bus is absent, rejects this host, or refused a request.
    #[error("no connection with the bus at {address}: {because}")]
    Bus {
        /// The address.
        address: String,
        /// Why.
        because: String,
        /// The likely cause.
        likely: Likely,
    },
    /// Another agent publishes as this host.
    #[error("at {address} another agent publishes as `{host}`")]
    Taken {
        /// The address.
        address: String,
        /// The name.
        host: String,
    },
    /// A socket could not be made.
    #[error("cannot listen at {address}: {because}")]
    Listen {
        /// The address.
        address: String,
        /// Why.
        because: String,
    },
    /// Threads or a runtime could not be made.
    #[error("cannot start what serves: {0}")]
    Start(#[from] io::Error),
}

/// The likely cause of a connection error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Likely {
    /// The port is closed.
    Nobody,
    /// The agent's certificate is not what was expected.
    Agent,
    /// The viewer's certificate is not what the agent lets in.
    Viewer,
    /// No agent has ever published there.
    NoAgent,
    /// None of these.
    #[default]
    Unknown,
}

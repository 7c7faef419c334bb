//! What can go wrong between hosts.

use std::io;
use std::path::PathBuf;

/// Why something between hosts did not work.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// A file of certificates or keys.
    #[error("{path}: {because}")]
    Key {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        because: String,
    },
    /// Several certificates, any of which could be meant.
    #[error("{path} has several certificates: {}", names.join(", "))]
    Several {
        /// The folder.
        path: PathBuf,
        /// Which there are.
        names: Vec<String>,
    },
    /// No certificate could be made.
    #[error("no certificate can be made for `{name}`: {because}")]
    Certificate {
        /// For whom.
        name: String,
        /// Why.
        because: String,
    },
    /// An address that is none.
    #[error("`{text}` is no address of an agent: {because}")]
    Address {
        /// What was written.
        text: String,
        /// What would do.
        because: &'static str,
    },
    /// Nobody is there, or nobody who is let in or may be trusted.
    #[error("no connection with the agent at {address}: {because}")]
    Connect {
        /// Where.
        address: String,
        /// Why.
        because: String,
        /// What is most likely the matter.
        likely: Likely,
    },
    /// The agent does not do what it was asked for.
    #[error("the agent at {address} refuses: {because}")]
    Refused {
        /// Where.
        address: String,
        /// What it says.
        because: String,
    },
    /// No server of a bus is there, lets us in, or does what it was asked for.
    #[error("no connection with the bus at {address}: {because}")]
    Bus {
        /// Where.
        address: String,
        /// Why.
        because: String,
        /// What is most likely the matter.
        likely: Likely,
    },
    /// Another agent publishes as this host.
    #[error("at {address} another agent publishes as `{host}`")]
    Taken {
        /// Where.
        address: String,
        /// The name.
        host: String,
    },
    /// A socket could not be made.
    #[error("cannot listen at {address}: {because}")]
    Listen {
        /// Where.
        address: String,
        /// Why.
        because: String,
    },
    /// Threads or a runtime could not be made.
    #[error("cannot start what serves: {0}")]
    Start(#[from] io::Error),
}

/// What is most likely the matter with a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Likely {
    /// Nobody listens there.
    Nobody,
    /// The agent's certificate is not what was expected.
    Agent,
    /// The viewer's certificate is not what the agent lets in.
    Viewer,
    /// No agent has ever come there.
    NoAgent,
    /// None of these.
    #[default]
    Unknown,
}

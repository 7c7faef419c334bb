//! What can go wrong on the way.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

/// Why something could not be shipped. Nothing of it is lost for that.
#[derive(Debug, thiserror::Error)]
pub enum ShipError {
    /// What was given is no place.
    #[error("`{given}` is no place to ship to: {because}")]
    NoPlace {
        /// What was given.
        given: String,
        /// What is wrong with it.
        because: String,
    },
    /// The store did not do what was asked for.
    #[error("cannot {operation} {place}: {because}")]
    Store {
        /// What was asked for, as a verb.
        operation: &'static str,
        /// On which object.
        place: String,
        /// What it said.
        because: String,
    },
    /// A file of this host's.
    #[error("cannot {operation} {}: {source}", path.display())]
    Local {
        /// What was tried, as a verb.
        operation: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The place of this recording holds another one.
    #[error("{place} holds another recording; give {} another name", dir.display())]
    Taken {
        /// Where.
        place: String,
        /// The recording that is here.
        dir: PathBuf,
    },
    /// What is here is no recording that can be shipped.
    #[error("{} cannot be shipped: {because}", dir.display())]
    NoRecording {
        /// Where it is.
        dir: PathBuf,
        /// What is wrong with it.
        because: String,
    },
}

impl ShipError {
    pub(crate) fn local(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| ShipError::Local { operation, path, source }
    }

    pub(crate) fn store(operation: &'static str, place: impl Display, because: impl Display) -> Self {
        ShipError::Store { operation, place: place.to_string(), because: because.to_string() }
    }

    /// Whether what was to be shipped is not there any more: retention was faster.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, ShipError::Local { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Whether trying again cannot help.
    pub(crate) fn is_for_good(&self) -> bool {
        matches!(self, ShipError::Taken { .. } | ShipError::NoRecording { .. })
    }
}

//! Upload errors.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

/// Reason for a failed upload. The recording itself is unaffected.
#[derive(Debug, thiserror::Error)]
pub enum ShipError {
    /// Invalid destination.
    #[error("`{given}` is no place to ship to: {because}")]
    NoPlace {
        /// The text.
        given: String,
        /// The problem.
        because: String,
    },
    /// The store refused an operation.
    #[error("cannot {operation} {place}: {because}")]
    Store {
        /// The operation, as a verb.
        operation: &'static str,
        /// The object.
        place: String,
        /// The store's message.
        because: String,
    },
    /// A local file error.
    #[error("cannot {operation} {}: {source}", path.display())]
    Local {
        /// The operation, as a verb.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The destination holds another recording of this name.
    #[error("{place} holds another recording; give {} another name", dir.display())]
    Taken {
        /// The destination.
        place: String,
        /// The recording that is here.
        dir: PathBuf,
    },
    /// The recording cannot be uploaded.
    #[error("{} cannot be shipped: {because}", dir.display())]
    NoRecording {
        /// Its directory.
        dir: PathBuf,
        /// The problem.
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

    /// True if retention deleted the file before the upload.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, ShipError::Local { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// True if a retry is pointless.
    pub(crate) fn is_for_good(&self) -> bool {
        matches!(self, ShipError::Taken { .. } | ShipError::NoRecording { .. })
    }
}

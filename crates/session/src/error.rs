//! Errors of a session, with the next step for the user.

use std::io;
use std::path::{Path, PathBuf};

/// Why a session cannot be made, written or read.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The operating system refused something.
    #[error("cannot {operation} {}: {source}; {}", path.display(), next_step(source))]
    Io {
        /// The operation, as a verb: `create`, `write`, `read`.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The path is no session.
    #[error("{} is not a session: {because}; give the directory that `magnet-scope record` made", path.display())]
    NotASession {
        /// The path.
        path: PathBuf,
        /// The difference from a session.
        because: String,
    },
    /// Made by a newer magnet-scope.
    #[error(
        "{} has session format {found}, and this magnet-scope reads up to {supported}: use the version that made it ({tool}) or a newer one",
        path.display()
    )]
    NewerFormat {
        /// The session.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest format this library reads.
        supported: u32,
        /// The tool that made it, as far as recorded.
        tool: String,
    },
    /// Made on a machine that stores numbers in the other order.
    #[error(
        "{} was made on a machine with the other byte order, whose numbers this one does not read: open it there, and \
         export it there (`magnet-scope export --format csv`)",
        path.display()
    )]
    OtherByteOrder {
        /// The session.
        path: PathBuf,
    },
    /// The directory to record into is already used for something.
    #[error("cannot record into {}: {because}; name a directory that does not exist yet or is empty", path.display())]
    Occupied {
        /// The directory.
        path: PathBuf,
        /// The content of the directory.
        because: String,
    },
    /// The limits are contradictory or too small.
    #[error("cannot record with {option}: {because}")]
    Options {
        /// Which option, with its value.
        option: String,
        /// The problem, and a valid value.
        because: String,
    },
    /// A batch could not be turned into an Arrow message.
    #[error("cannot encode a batch for {}: {because}; this is a bug in magnet-scope, please report it", path.display())]
    Encode {
        /// The file it was meant for.
        path: PathBuf,
        /// The encoder's error.
        because: String,
    },
    /// The files of a recording were deleted while it was being written.
    #[error(
        "{} was deleted while it was being recorded: the records in it are lost; record into another directory, and keep cleaners away from it",
        path.display()
    )]
    Deleted {
        /// The file that is gone.
        path: PathBuf,
    },
    /// The recorder's thread ended before this call; the first error was returned earlier.
    #[error("the recorder of {} has stopped after an error; what was written before it can be replayed", path.display())]
    Stopped {
        /// The session.
        path: PathBuf,
    },
}

impl SessionError {
    /// True if a full disk or an exhausted quota is the cause.
    pub fn is_full_disk(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Self::Io { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded))
    }

    pub(crate) fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { operation, path, source }
    }
}

fn next_step(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room, or record with a size limit; what was written before is kept and can be replayed"
        }
        io::ErrorKind::FileTooLarge => {
            "raise the file size limit (`ulimit -f`) or use smaller segments; what was written before is kept"
        }
        io::ErrorKind::PermissionDenied => "check who owns it, or choose another directory",
        io::ErrorKind::ReadOnlyFilesystem => "the file system is mounted read-only: choose another directory",
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "a part of the path is a file: choose another directory"
        }
        _ => "check the disk and the kernel log (`dmesg`)",
    }
}

//! Children of this process, which share its files until `exec`.
//!
//! A link that is closed stays attached while a child has it. A new link of the same program would then count
//! every event twice, or fail (Linux before 6.10). Most kinds of links cannot be detached otherwise. So a link
//! is closed only while no other process has it.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{PipeReader, PipeWriter, pipe};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

static STARTS: Mutex<()> = Mutex::new(());

/// Maximum number of pipes that wait for the end of a child.
const MOST_PIPES: usize = 16;

/// Lock for the start of a child, and for the close of links that may be attached again.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    STARTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Detects processes with copies of this process's files: a copy of all files includes the write end of a pipe.
/// When this process has closed its own, the pipe ends with the last copy.
pub(crate) struct SharedFiles {
    /// `None` if this process may have no further files.
    now: Option<(PipeReader, PipeWriter)>,
    /// Pipes whose write end is closed here and may be open elsewhere.
    older: Vec<PipeReader>,
    /// True if a link was closed while another process may have had it.
    in_doubt: bool,
}

impl SharedFiles {
    /// Created before the files it is about.
    pub(crate) fn new() -> Self {
        SharedFiles { now: pipe().ok(), older: Vec::new(), in_doubt: false }
    }

    /// True if no other process has files that this process has opened so far.
    pub(crate) fn are_ours_alone(&mut self) -> bool {
        if self.older.len() < MOST_PIPES {
            let (Some(_), Ok(next)) = (&self.now, pipe()) else { return false };
            self.older.extend(self.now.replace(next).map(|(reader, _writer)| reader));
        }
        self.older.retain(|reader| !has_ended(reader, Duration::ZERO));
        self.older.is_empty()
    }

    /// Checks links that were just closed: a child may have started at the same moment.
    pub(crate) fn closed(&mut self) {
        self.in_doubt |= !self.are_ours_alone();
    }

    /// Waits until no closed link is attached any more; returns false if a process has it for longer.
    pub(crate) fn wait_for_closed(&mut self, patience: Duration) -> bool {
        if self.in_doubt {
            let end = Instant::now() + patience;
            self.older.retain(|reader| !has_ended(reader, end.saturating_duration_since(Instant::now())));
            self.in_doubt = !self.older.is_empty();
        }
        !self.in_doubt
    }
}

/// True if no process has the write end, at the latest after `patience`.
fn has_ended(reader: &PipeReader, patience: Duration) -> bool {
    let mut end = [PollFd::new(reader, PollFlags::empty())];
    let timeout = Timespec::try_from(patience).unwrap_or_default();
    poll(&mut end, Some(&timeout)).is_ok() && end[0].revents().contains(PollFlags::HUP)
}

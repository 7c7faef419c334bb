//! Records a source on its path to the report or the screen.
//!
//! The directory is created with all privileges and written after their drop. A directory that is not writable
//! without privileges is thus detected early.

use crate::failure::Hint;
use crate::screen::Feed;
use crate::{files, output};
use anyhow::{Context, Result};
use magscope_core::Batch;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source, SourceError};
use magscope_scope::Recording;
use magscope_session::{RecordOptions, Recorder, Summary};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A target directory. Removed if it was created here and nothing was recorded.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    made: bool,
}

impl Directory {
    /// Creates it before privileges are dropped.
    pub fn prepare(path: &Path) -> Result<Self> {
        files::refuse_link(path)?;
        let made = !path.exists();
        if !made && !path.is_dir() {
            let next = "choose another place with `-o DIR`: a directory, made if it is not there";
            return Err(Hint::error(format!("cannot record into {}", path.display()), "it is a file", next));
        }
        fs::create_dir_all(path).with_context(|| {
            Hint::new(
                format!("cannot make the directory {} to record into", path.display()),
                "its parent belongs to someone else, or is on a read-only or full file system",
                "choose another place with `-o DIR`",
            )
        })?;
        Ok(Directory { path: path.to_owned(), made })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that it is writable without privileges.
    pub fn check(&self) -> Result<()> {
        accessat(CWD, &self.path, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).with_context(|| {
            Hint::new(
                format!("cannot record into {}", self.path.display()),
                "it belongs to another user, and the right to ignore that (CAP_DAC_OVERRIDE) was given away \
                 together with all others",
                "name a directory that does not exist yet, or that belongs to the user who records",
            )
        })
    }

    fn record(mut self, info: &NodeInfo, options: RecordOptions) -> Result<Recorder> {
        self.check()?;
        let recorder = Recorder::create(&self.path, info, options)?;
        self.made = false;
        Ok(recorder)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.made {
            // Removes only an empty directory.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// The summary of a recording that has ended: events and bytes in its directory, lost records, and what was deleted.
pub fn last_line(name: &str, summary: &Summary) -> String {
    let in_deleted = summary.dropped.as_ref().map_or(0, |dropped| dropped.lost);
    let lost = match (summary.losses.total(), in_deleted) {
        (0, 0) => "nothing lost".to_owned(),
        (0, lost) => format!("{lost} LOST, all in deleted segments"),
        (lost, 0) => format!("{lost} LOST (`magnet-scope info` says where)"),
        (lost, deleted) => {
            format!("{lost} LOST (`magnet-scope info` says where) and {deleted} in deleted segments")
        }
    };
    let deleted = summary.dropped.as_ref().map_or_else(String::new, |dropped| {
        // Without this a short limit reads as if nothing had been captured.
        format!("; recorded and deleted: {}", dropped.describe())
    });
    format!("{name}: {} events in {} bytes, {lost}{deleted}", summary.events, summary.bytes)
}

/// A source whose batches are recorded in passing.
pub struct Recorded<S> {
    inner: S,
    recorder: Recorder,
    name: String,
}

impl<S: Source> Recorded<S> {
    /// Records `inner` into `directory`. Called after privileges are dropped.
    pub fn new(inner: S, directory: Directory, options: RecordOptions) -> Result<Self> {
        let name = directory.path.display().to_string();
        let recorder = directory.record(inner.info(), options)?;
        Ok(Recorded { inner, recorder, name })
    }

    /// Ends the recording and prints its summary.
    pub fn close(self) -> Result<()> {
        let (result, status) = self.recorder.finish();
        if result.is_err() && status.lost > 0 {
            output::note(&format!("{}: {} records LOST, which could not be written", self.name, status.lost));
        }
        output::note(&last_line(&self.name, &result?));
        Ok(())
    }
}

impl<S: Source> Source for Recorded<S> {
    fn info(&self) -> &NodeInfo {
        self.inner.info()
    }

    fn next(&mut self, batch: &mut Batch, timeout: Duration) -> Result<Progress, SourceError> {
        let progress = self.inner.next(batch, timeout)?;
        // A failed recorder (full disk) ends the source: recorded data stays valid, and the user must notice
        // the end.
        self.recorder.append(batch)?;
        Ok(progress)
    }
}

impl<S: Feed> Feed for Recorded<S> {
    fn hits(&self) -> Option<u64> {
        self.inner.hits()
    }

    fn set_fault(&mut self, fault: Option<magscope_scope::TourFault>) -> Result<()> {
        self.inner.set_fault(fault)
    }

    fn budget(&self) -> Option<magscope_scope::Budget> {
        self.inner.budget()
    }

    fn hit_ns(&mut self) -> Option<f64> {
        self.inner.hit_ns()
    }

    fn ring_fill_ratio(&self) -> f64 {
        self.inner.ring_fill_ratio()
    }

    fn recording(&self) -> Option<Recording> {
        let status = self.recorder.status();
        Some(Recording { name: self.name.clone(), bytes: status.bytes_on_disk, events: status.events })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_session::{Dropped, LossTotals};

    #[test]
    fn the_last_line_has_what_was_recorded_and_deleted() {
        let of = |events, missed, dropped| {
            let losses = LossTotals { missed, ..LossTotals::default() };
            last_line("a", &Summary { events, bytes: 70, losses, dropped, ..Summary::default() })
        };
        assert_eq!(of(5, 0, None), "a: 5 events in 70 bytes, nothing lost");
        let dropped = Dropped { segments: 3, events: 12_791, by: "keep-for".to_owned(), ..Dropped::default() };
        assert_eq!(
            of(0, 0, Some(dropped.clone())),
            "a: 0 events in 70 bytes, nothing lost; recorded and deleted: first 3 segments (12791 events) \
             dropped by the limit on their age"
        );
        let lost = of(0, 0, Some(Dropped { lost: 4, ..dropped.clone() }));
        assert!(lost.contains("4 LOST, all in deleted segments;"), "{lost}");
        let lost = of(0, 2, Some(Dropped { lost: 4, ..dropped }));
        assert!(lost.contains("2 LOST (`magnet-scope info` says where) and 4 in deleted segments;"), "{lost}");
    }
}

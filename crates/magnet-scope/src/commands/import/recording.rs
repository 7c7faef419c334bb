//! The recording of an import: complete, or absent.

use crate::failure::Hint;
use crate::files;
use anyhow::{Context, Result};
use magscope_core::Batch;
use magscope_core::node::NodeInfo;
use magscope_session::{RecordOptions, Recorder};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum size of queued data, bytes.
const WAITING: usize = 16 << 20;

/// A recording being made.
pub struct Recording {
    /// Dropped before the directory is cleared.
    recorder: Option<Recorder>,
    made: Made,
}

/// Files to remove if the import fails.
struct Made {
    dir: PathBuf,
    existed: bool,
    whole: bool,
}

impl Recording {
    /// Starts the recording in `dir`, which must not exist or be empty.
    pub fn create(dir: &Path, info: &NodeInfo) -> Result<Self> {
        files::refuse_link(dir)?;
        let existed = dir.exists();
        // Checked before any existing file could be mistaken for new.
        let recorder = match Recorder::create(dir, info, RecordOptions::default()) {
            Ok(recorder) => recorder,
            Err(error) => {
                let is_ours = !matches!(error, magscope_session::SessionError::Occupied { .. });
                drop(Made { dir: dir.to_path_buf(), existed, whole: !is_ours });
                return Err(error).with_context(|| cannot(dir));
            }
        };
        let made = Made { dir: dir.to_path_buf(), existed, whole: false };
        Ok(Recording { recorder: Some(recorder), made })
    }

    /// Adds a batch and waits for room: unlike a capture, an import may block.
    pub fn append(&mut self, batch: &Batch) -> Result<()> {
        let dir = &self.made.dir;
        let Some(recorder) = &mut self.recorder else { return Ok(()) };
        while recorder.status().queue_bytes > WAITING {
            // A failed writer returns its error and frees no more room.
            recorder.append(&Batch::default()).with_context(|| cannot(dir))?;
            std::thread::sleep(Duration::from_millis(1));
        }
        recorder.append(batch).with_context(|| cannot(dir))
    }

    /// Ends the recording. Returns its number of events.
    pub fn finish(mut self) -> Result<u64> {
        let Some(recorder) = self.recorder.take() else { return Ok(0) };
        let summary = recorder.close().with_context(|| cannot(&self.made.dir))?;
        self.made.whole = true;
        Ok(summary.events)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if self.whole {
            return;
        }
        // The original error is more useful than one of the removal.
        if self.existed {
            let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
            entries.for_each(|entry| drop(fs::remove_file(entry.path())));
        } else {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

fn cannot(dir: &Path) -> Hint {
    Hint::new(
        format!("cannot record into {}", dir.display()),
        "the disk is full, the directory may not be written to, or there is something in it already",
        "give another place with --output; nothing is left under that name",
    )
}

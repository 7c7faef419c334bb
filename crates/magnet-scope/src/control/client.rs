//! Client of the control socket: finds running captures and queries one.

use super::answer::Answer;
use super::{CAPTURE_PATIENCE, LONGEST_ANSWER, PATIENCE, folders};
use crate::failure::{Hint, Usage};
use anyhow::{Context, Result, anyhow};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// A running capture.
pub struct Running {
    /// Process id.
    pub pid: u32,
    stream: UnixStream,
}

/// Every capture that answers at its socket. Sockets without a listener are leftovers of killed processes and
/// are removed.
pub fn running() -> Vec<Running> {
    let entries = folders().into_iter().filter_map(|dir| fs::read_dir(dir).ok()).flatten().flatten();
    let mut found: Vec<Running> = entries.filter_map(|entry| open(entry.path())).collect();
    found.sort_by_key(|running| running.pid);
    found
}

fn open(path: PathBuf) -> Option<Running> {
    let pid = path.file_name()?.to_str()?.strip_suffix(".sock")?.parse().ok()?;
    match UnixStream::connect(&path) {
        Ok(stream) => Some(Running { pid, stream }),
        Err(error) => {
            if error.kind() == std::io::ErrorKind::ConnectionRefused {
                let _ = fs::remove_file(path);
            }
            None
        }
    }
}

/// The selected capture.
pub fn find(pid: Option<u32>) -> Result<Running> {
    let mut all = running();
    if let Some(pid) = pid {
        all.retain(|running| running.pid == pid);
    }
    let pids: Vec<String> = all.iter().map(|running| running.pid.to_string()).collect();
    match (all.pop(), all.is_empty()) {
        (Some(one), true) => Ok(one),
        (Some(_), false) => {
            Err(Usage(format!("several captures run ({}): say which one with `--pid`", pids.join(", "))).into())
        }
        (None, _) => Err(Hint::error(
            pid.map_or_else(
                || "no capture runs".to_owned(),
                |pid| format!("process {pid} is no capture of yours"),
            ),
            "only the user who started a capture, and root, can talk to it",
            "start one (`sudo magnet-scope`), or use the same user as it",
        )),
    }
}

impl Running {
    /// Sends a question and waits for the answer.
    pub fn ask(&mut self, question: &str) -> Result<Answer> {
        let pid = self.pid;
        let failed = || {
            Hint::new(
                format!("the capture of process {pid} does not answer"),
                "it is ending or stopped",
                "try again",
            )
        };
        let mut exchange = || -> std::io::Result<Vec<u8>> {
            self.stream.set_write_timeout(Some(PATIENCE))?;
            self.stream.set_read_timeout(Some(CAPTURE_PATIENCE + PATIENCE))?;
            self.stream.write_all(question.replace(['\n', '\r'], " ").as_bytes())?;
            self.stream.write_all(b"\n")?;
            let mut line = Vec::new();
            BufReader::new((&self.stream).take(LONGEST_ANSWER)).read_until(b'\n', &mut line)?;
            Ok(line)
        };
        // as text, so that a broken pipe here is not mistaken for the end of our output's reader
        let line = exchange().map_err(|error| anyhow!("{error}")).with_context(failed)?;
        serde_json::from_slice(&line).map_err(|error| anyhow!("{error}")).with_context(failed)
    }
}

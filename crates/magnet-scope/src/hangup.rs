//! The end of a terminal that went away (its window was closed, the connection broke).
//!
//! crossterm 0.29 never comes back from reading a terminal that hung up: it takes the error for "try again", so the
//! loop that would see the signal is not reached any more and the process would spin for ever. A thread that does nothing
//! but wait for the hang-up gives the orderly way out a moment and then ends the process.

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::process;
use std::thread;
use std::time::Duration;

/// What the orderly way out may take: closing a recording, for instance.
const PATIENCE: Duration = Duration::from_secs(2);
/// What a shell reports for a process that SIGHUP ended.
const HUNG_UP: i32 = 128 + 1;

/// Ends this process soon after its terminal has gone. The kernel detaches the probes, a recording keeps what was
/// flushed, and the demo's hosts die with this process.
pub fn watch() -> Result<()> {
    thread::Builder::new()
        .name("magnet-hangup".to_owned())
        .spawn(|| {
            let stdin = std::io::stdin();
            // No event is asked for: errors and hang-ups are reported always, and key presses do not wake it.
            let mut terminal = [PollFd::new(&stdin, PollFlags::empty())];
            while let Ok(0) | Err(Errno::INTR) = poll(&mut terminal, None) {}
            thread::sleep(PATIENCE);
            process::exit(HUNG_UP);
        })
        .context("cannot start the thread that watches the terminal")?;
    Ok(())
}

//! The command's process.

use super::{ChildArgs, cannot_start};
use crate::failure::{self, Exit};
use crate::privileges;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

/// Exit codes of shells: a program that is not found, one that may not be started, and the first of those ended by a
/// signal.
const NOT_FOUND: u8 = 127;
const NOT_ALLOWED: u8 = 126;
const BY_SIGNAL: i32 = 128;

/// The process. It waits until [`Child::open`]; dropped before that, it ends without running the command.
pub struct Child {
    process: std::process::Child,
    gate: Option<File>,
    /// Has a byte if the command could not be started.
    failed: File,
    status: Option<ExitStatus>,
    interrupted: bool,
}

impl Child {
    /// Starts a process that waits and then becomes the command.
    pub fn start(command: &[OsString], as_root: bool) -> Result<Self> {
        // The child inherits the reading end, and finds it by its number.
        let (reader, writer): (OwnedFd, OwnedFd) = rustix::pipe::pipe().context("cannot make a pipe")?;
        rustix::io::fcntl_setfd(&writer, rustix::io::FdFlags::CLOEXEC).context("cannot set up a pipe")?;
        let (failed, fails): (OwnedFd, OwnedFd) = rustix::pipe::pipe().context("cannot make a pipe")?;
        rustix::io::fcntl_setfd(&failed, rustix::io::FdFlags::CLOEXEC).context("cannot set up a pipe")?;
        let mut own = Command::new("/proc/self/exe");
        own.arg("run-child").arg("--gate").arg(reader.as_raw_fd().to_string());
        own.arg("--failed").arg(fails.as_raw_fd().to_string());
        if as_root {
            own.arg("--as-root");
        }
        let process = own.arg("--").args(command).spawn().context("cannot start a process for the command")?;
        let (gate, failed) = (Some(File::from(writer)), File::from(failed));
        Ok(Child { process, gate, failed, status: None, interrupted: false })
    }

    /// Number of the process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Lets the command begin.
    pub fn open(&mut self) -> Result<()> {
        let mut gate = self.gate.take().context("the command has begun")?;
        gate.write_all(b"1").context("the command's process has ended before the command began")
    }

    /// True if it has ended.
    pub fn has_ended(&mut self) -> std::io::Result<bool> {
        self.status = self.status.or(self.process.try_wait()?);
        Ok(self.status.is_some())
    }

    /// True if the command could not be started, which its process has reported. Call it after the end.
    pub fn never_began(&mut self) -> bool {
        self.failed.read(&mut [0]).is_ok_and(|bytes| bytes > 0)
    }

    /// Asks it to end, once.
    pub fn interrupt(&mut self) {
        if std::mem::replace(&mut self.interrupted, true) || self.status.is_some() {
            return;
        }
        if let Some(pid) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            // It may belong to another user, who has to end it.
            let _ = kill_process(pid, Signal::INT);
        }
    }

    /// Waits for its end: its exit code as shells have it, and the number of the signal that ended it.
    pub fn wait(&mut self) -> Result<(u8, Option<i32>)> {
        let status = match self.status {
            Some(status) => status,
            None => self.process.wait().context("cannot wait for the command")?,
        };
        let code = status.code().unwrap_or_else(|| BY_SIGNAL + status.signal().unwrap_or(0));
        Ok((u8::try_from(code).unwrap_or(u8::MAX), status.signal()))
    }
}

/// Waits for the gate and becomes the command.
pub fn become_command(args: &ChildArgs) -> Result<()> {
    let Some((program, arguments)) = args.command.split_first() else { bail!("no command") };
    let path = format!("/proc/self/fd/{}", args.gate);
    let mut gate = File::open(&path).with_context(|| format!("cannot open {path}"))?;
    rustix::io::fcntl_setfd(&gate, rustix::io::FdFlags::CLOEXEC)?;
    let mut word = [0];
    if gate.read(&mut word)? == 0 {
        return Err(Exit(NOT_FOUND).into()); // the capture could not be started
    }
    let path = format!("/proc/self/fd/{}", args.failed);
    let mut failed = File::options().write(true).open(&path).with_context(|| format!("cannot open {path}"))?;
    // SAFETY: the parent has passed it on for this alone, and nothing else here uses the number.
    #[allow(unsafe_code)]
    drop(unsafe { OwnedFd::from_raw_fd(args.failed) });
    privileges::clear_lent()?;
    if !args.as_root {
        privileges::become_the_caller()?;
    }
    let error = Command::new(program).args(arguments).exec();
    let code = if error.kind() == std::io::ErrorKind::NotFound { NOT_FOUND } else { NOT_ALLOWED };
    failure::report(&cannot_start(program, error));
    // Without the byte, the parent reports a command that ended with this code.
    let _ = failed.write_all(b"1");
    Err(Exit(code).into())
}

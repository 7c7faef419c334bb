//! Reads a client's lines and file descriptors, with limits on length, number and time.

use magscope_client::wire::{LONGEST_LINE, Reply};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::collections::VecDeque;
use std::io::{self, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Maximum number of file descriptors that wait for their line.
const MOST_FDS: usize = 4;

/// A client's input.
pub struct Lines<'a> {
    stream: &'a UnixStream,
    beyond: Vec<u8>,
    fds: VecDeque<OwnedFd>,
}

/// Result of a read.
pub enum LineRead {
    /// A line without its end.
    Line(Vec<u8>),
    /// Timeout.
    Nothing,
    /// The client has disconnected or exceeded a limit.
    End,
}

impl<'a> Lines<'a> {
    pub const fn of(stream: &'a UnixStream) -> Self {
        Lines { stream, beyond: Vec::new(), fds: VecDeque::new() }
    }

    /// The next line, or a timeout.
    pub fn next(&mut self, within: Duration) -> io::Result<LineRead> {
        let end = Instant::now() + within;
        loop {
            if let Some(at) = self.beyond.iter().position(|byte| *byte == b'\n') {
                let rest = self.beyond.split_off(at + 1);
                let mut line = std::mem::replace(&mut self.beyond, rest);
                line.truncate(at);
                return Ok(LineRead::Line(line));
            }
            if self.beyond.len() >= LONGEST_LINE {
                return Ok(LineRead::End);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(LineRead::Nothing);
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.read() {
                Ok(0) => return Ok(LineRead::End),
                Ok(_) => {}
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {}
                    _ => return Err(error),
                },
            }
            if self.fds.len() > MOST_FDS {
                return Ok(LineRead::End);
            }
        }
    }

    fn read(&mut self) -> io::Result<usize> {
        let mut bytes = [0; LONGEST_LINE];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got =
            recvmsg(self.stream, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.fds.extend(fds);
            }
        }
        self.beyond.extend_from_slice(&bytes[..got.bytes]);
        Ok(got.bytes)
    }

    /// The oldest unclaimed file descriptor.
    pub fn fd(&mut self) -> Option<OwnedFd> {
        self.fds.pop_front()
    }

    /// Closes all unclaimed ones.
    pub fn close_fds(&mut self) {
        self.fds.clear();
    }
}

/// Sends a reply as a line.
pub fn write_reply(mut stream: &UnixStream, reply: &Reply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    stream.write_all(&line)
}

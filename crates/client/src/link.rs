//! A connection to the agent: requests out, perhaps with a file descriptor, and replies in.

use crate::error::Error;
use crate::wire::{LONGEST_LINE, Reply, Request};
use rustix::io::retry_on_intr;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Timeout of an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The connection, and the bytes read beyond the last line.
#[derive(Debug)]
pub struct Link {
    stream: UnixStream,
    beyond: Vec<u8>,
}

impl Link {
    pub fn connect(path: &Path) -> Result<Self, Error> {
        let failed = |because| Error::Connect { path: path.to_owned(), because };
        let stream = UnixStream::connect(path).map_err(failed)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Link { stream, beyond: Vec::new() })
    }

    /// Sends a request, with an optional file descriptor.
    pub fn send(&mut self, request: &Request, with: Option<BorrowedFd<'_>>) -> Result<(), Error> {
        let mut line = serde_json::to_vec(request).map_err(io::Error::from)?;
        line.push(b'\n');
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds: Vec<_> = with.into_iter().collect();
        if !fds.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&fds));
        }
        // A signal ends a timed wait for room.
        let sent =
            retry_on_intr(|| sendmsg(&self.stream, &[IoSlice::new(&line)], &mut control, SendFlags::NOSIGNAL));
        let sent = sent.map_err(|error| gone(error.into()))?;
        self.stream.write_all(&line[sent..]).map_err(gone)
    }

    /// The next answer; waits for it.
    pub fn answer(&mut self) -> Result<Reply, Error> {
        self.hear(Some(PATIENCE))?.ok_or_else(|| Error::Io(io::ErrorKind::TimedOut.into()))
    }

    /// The next reply within the timeout, or without one; `None` on timeout.
    pub fn hear(&mut self, within: Option<Duration>) -> Result<Option<Reply>, Error> {
        let end = within.and_then(|within| Instant::now().checked_add(within));
        loop {
            if let Some(at) = self.beyond.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.beyond.drain(..=at).collect();
                let reply = serde_json::from_slice(&line);
                return reply.map(Some).map_err(|error| Error::Nonsense(error.to_string()));
            }
            if self.beyond.len() > LONGEST_LINE {
                return Err(Error::Nonsense("it does not end".to_owned()));
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            // A zero timeout would mean none.
            let left = left.map(|left| left.max(Duration::from_millis(1)));
            self.stream.set_read_timeout(left)?;
            let mut bytes = [0; LONGEST_LINE];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(Error::Ended),
                Ok(n) => self.beyond.extend_from_slice(&bytes[..n]),
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                        if end.is_some_and(|end| Instant::now() >= end) {
                            return Ok(None);
                        }
                    }
                    _ => return Err(gone(error)),
                },
            }
        }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Classifies a connection error.
fn gone(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Error::Ended,
        _ => Error::Io(error),
    }
}

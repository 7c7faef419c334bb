//! Server of the control socket.

use super::peers::{Peers, Place};
use super::{CAPTURE_PATIENCE, LONGEST_LINE, PATIENCE, folders};
use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Instant;

/// A question, and the channel for its answer.
pub struct Question {
    /// The line without its end.
    pub text: String,
    answer: Sender<String>,
}

impl Question {
    /// Sends the answer. A disconnected peer is no error.
    pub fn answer(self, json: String) {
        let _ = self.answer.send(json);
    }
}

/// A bound socket without a reader so far. Removed on drop.
pub struct Bound {
    listener: UnixListener,
    path: PathBuf,
}

/// The socket and its pending questions.
pub struct Questions {
    path: PathBuf,
    waiting: Receiver<Question>,
}

impl Bound {
    /// Creates the socket, private to its owner. Called before privileges are dropped.
    pub fn new() -> io::Result<Self> {
        let folder = folders().into_iter().next().ok_or(io::ErrorKind::NotFound)?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let path = folder.join(format!("{}.sock", std::process::id()));
        // The final name always denotes a listening socket, because clients remove others as leftovers.
        let made = path.with_extension("made");
        // an earlier process with this id has ended
        let _ = fs::remove_file(&made);
        let listener = UnixListener::bind(&made)?;
        let named =
            fs::set_permissions(&made, Permissions::from_mode(0o600)).and_then(|()| fs::rename(&made, &path));
        if let Err(error) = named {
            let _ = fs::remove_file(&made);
            return Err(error);
        }
        Ok(Bound { listener, path })
    }

    /// Starts to listen in a thread with the caller's rights: called after privileges are dropped.
    pub fn listen(self) -> io::Result<Questions> {
        let listener = self.listener.try_clone()?;
        let (ask, waiting) = sync_channel(1);
        let thread = std::thread::Builder::new().name("magnet-control".to_owned());
        thread.spawn(move || serve(&listener, &ask))?;
        let path = self.path.clone();
        std::mem::forget(self);
        Ok(Questions { path, waiting })
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Questions {
    /// Pending questions.
    pub fn waiting(&self) -> impl Iterator<Item = Question> + '_ {
        self.waiting.try_iter()
    }
}

impl Drop for Questions {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Serves peers until the capture ends, each in a separate thread.
fn serve(listener: &UnixListener, ask: &SyncSender<Question>) {
    let peers = Peers::default();
    for peer in listener.incoming() {
        let Ok((place, peer)) = peer.and_then(|peer| Ok((peers.admit(&peer)?, peer))) else {
            // mostly out of file descriptors: wait until some are free
            std::thread::sleep(PATIENCE);
            continue;
        };
        let ask = ask.clone();
        // without a thread the connection is closed
        let _ = std::thread::Builder::new().name("magnet-peer".to_owned()).spawn(move || {
            // a peer's protocol violation concerns only itself
            let _ = converse(&peer, &place, &ask);
        });
    }
}

const SILENT: &str = r#"{"ok":false,"error":"the capture does not answer; is it ending?"}"#;

/// Handles a peer's questions until its end.
fn converse(peer: &UnixStream, place: &Place, ask: &SyncSender<Question>) -> io::Result<()> {
    let other = crate::peer::credentials(peer)?.uid;
    if other != 0 && other != rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    peer.set_write_timeout(Some(PATIENCE))?;
    let mut lines = Lines { peer, beyond: Vec::new() };
    while let Some(line) = lines.next()? {
        place.asked(true);
        let text = String::from_utf8_lossy(&line).trim().to_owned();
        let (answer, answered) = channel();
        if ask.send(Question { text, answer }).is_err() {
            return write_json(peer, SILENT);
        }
        let json = answered.recv_timeout(CAPTURE_PATIENCE);
        write_json(peer, json.as_deref().unwrap_or(SILENT))?;
        place.asked(false);
    }
    Ok(())
}

fn write_json(mut peer: &UnixStream, json: &str) -> io::Result<()> {
    peer.write_all(json.as_bytes())?;
    peer.write_all(b"\n")
}

/// Lines of a peer with limits on length and time, for any fragmentation.
struct Lines<'a> {
    peer: &'a UnixStream,
    /// Bytes after the last line.
    beyond: Vec<u8>,
}

impl Lines<'_> {
    /// The next line without its end; `None` at the end, above the limit or after the timeout.
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.beyond.iter().position(|byte| *byte == b'\n') {
                let rest = self.beyond.split_off(at + 1);
                let mut line = std::mem::replace(&mut self.beyond, rest);
                line.truncate(at);
                return Ok(Some(line));
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.beyond.len() as u64 >= LONGEST_LINE {
                return Ok(None);
            }
            self.peer.set_read_timeout(Some(left))?;
            let mut bytes = [0; 4096];
            match self.peer.read(&mut bytes) {
                Ok(0) => return Ok(None),
                Ok(n) => self.beyond.extend_from_slice(&bytes[..n]),
                // A signal ends a timed wait, and no conversation.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_however_they_are_sent_and_none_without_an_end() {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        (&theirs).write_all(b"list\nsta").expect("room");
        let mut lines = Lines { peer: &ours, beyond: Vec::new() };
        assert_eq!(lines.next().expect("a line").as_deref(), Some(&b"list"[..]));
        (&theirs).write_all(b"ts\n\n").expect("room");
        assert_eq!(lines.next().expect("a line").as_deref(), Some(&b"stats"[..]));
        assert_eq!(lines.next().expect("a line").as_deref(), Some(&b""[..]));
        (&theirs).write_all(&vec![b'x'; LONGEST_LINE as usize + 1]).expect("room");
        assert_eq!(lines.next().expect("read"), None, "too long");
        drop(theirs);
        let mut lines = Lines { peer: &ours, beyond: Vec::new() };
        while lines.next().is_ok_and(|line| line.is_some()) {}
    }
}

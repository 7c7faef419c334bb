//! The capture's end of the control socket.

use super::{CAPTURE_PATIENCE, LONGEST_LINE, PATIENCE, folders};
use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};

/// A question, and where its answer goes.
pub struct Question {
    /// The line without its end.
    pub text: String,
    answer: Sender<String>,
}

impl Question {
    /// Answers it. A peer that is gone is no error.
    pub fn answer(self, json: String) {
        let _ = self.answer.send(json);
    }
}

/// A socket that is bound but that nobody reads from yet. Removed when it goes out of scope.
pub struct Bound {
    listener: UnixListener,
    path: PathBuf,
}

/// The socket, and the questions that came in by it.
pub struct Questions {
    path: PathBuf,
    waiting: Receiver<Question>,
}

impl Bound {
    /// Makes the socket, readable and writable by its owner alone. To be called before privileges are given away.
    pub fn new() -> io::Result<Self> {
        let folder = folders().into_iter().next().ok_or(io::ErrorKind::NotFound)?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let path = folder.join(format!("{}.sock", std::process::id()));
        // whoever had this number before is gone
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        let bound = Bound { listener, path };
        fs::set_permissions(&bound.path, Permissions::from_mode(0o600))?;
        Ok(bound)
    }

    /// Begins to listen, in a thread that has what rights the calling one has: to be called after they were given away.
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
    /// The next question, if one waits.
    pub fn next(&self) -> Option<Question> {
        self.waiting.try_recv().ok()
    }
}

impl Drop for Questions {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Serves one peer after the other until the capture is gone.
fn serve(listener: &UnixListener, ask: &SyncSender<Question>) {
    for peer in listener.incoming() {
        let Ok(peer) = peer else {
            // out of file descriptors, most likely: give them time to come back
            std::thread::sleep(PATIENCE);
            continue;
        };
        // a peer that breaks off, says nothing or too much has itself to blame
        if let Ok(false) = converse(&peer, ask) {
            return;
        }
    }
}

/// One peer's questions; false when there is no capture any more.
fn converse(peer: &UnixStream, ask: &SyncSender<Question>) -> io::Result<bool> {
    let other = rustix::net::sockopt::socket_peercred(peer.as_fd())?.uid;
    if !other.is_root() && other != rustix::process::geteuid() {
        return Ok(true);
    }
    peer.set_read_timeout(Some(PATIENCE))?;
    peer.set_write_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(peer);
    loop {
        let mut line = Vec::new();
        (&mut lines).take(LONGEST_LINE).read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            return Ok(true);
        }
        let text = String::from_utf8_lossy(&line).trim().to_owned();
        let (answer, answered) = channel();
        match ask.try_send(Question { text, answer }) {
            Err(TrySendError::Disconnected(_)) => return Ok(false),
            // full: the one before was never looked at; the answer to this one is that none comes
            Ok(()) | Err(TrySendError::Full(_)) => {}
        }
        let json = answered.recv_timeout(CAPTURE_PATIENCE);
        let json = json
            .unwrap_or_else(|_| r#"{"ok":false,"error":"the capture does not answer; is it ending?"}"#.into());
        let mut writer = peer;
        writer.write_all(json.as_bytes())?;
        writer.write_all(b"\n")?;
    }
}

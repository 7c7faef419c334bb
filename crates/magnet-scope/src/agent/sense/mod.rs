//! The socket at which programs ask about their own traffic, and what stands behind it.
//!
//! The capture hands its batches to a thread that correlates and adds up, by a queue that never holds it up; every client has a thread of
//! its own, because what a client passes may take long to be closed: a socket that lingers, a file of its own file system. So nobody
//! waits for anybody else's.

mod asker;
mod caller;
mod desk;
mod lines;
mod seats;
mod tap;

use super::Socket;
use crate::output;
use anyhow::{Context, Result};
use clap::Args;
use desk::Desk;
use magscope_client::SOCKET;
use magscope_core::Batch;
use magscope_core::join::OneClock;
use magscope_core::journey::Limits;
use magscope_core::node::NodeInfo;
use magscope_core::source::Progress;
use magscope_core::together::Walker;
use seats::Seats;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tap::{Tap, tap};

/// The longest that what adds up waits for a batch.
const PATIENCE: Duration = Duration::from_millis(100);
/// Journeys under way that it follows: some 50 MB at most.
const MOST_PIECES: usize = 1 << 17;

/// Where programs ask.
#[derive(Clone, Debug, Args)]
pub struct SenseArgs {
    /// The socket where programs of every user ask about their own traffic, or `off` [default: /run/magnet-scope-sense/sense.sock]
    #[arg(long, value_name = "PATH|off")]
    sense_socket: Option<PathBuf>,
}

/// The place, where nobody is let in yet.
pub struct Place(Socket);

/// What serves programs.
pub struct Sense {
    tap: Tap,
    thread: JoinHandle<()>,
    /// Removed with it.
    _socket: Socket,
}

impl SenseArgs {
    /// Makes the place, if there is to be one. To be called before privileges are given away.
    pub fn open(&self) -> Result<Option<Place>> {
        match &self.sense_socket {
            Some(off) if off == Path::new("off") => Ok(None),
            Some(path) => everybodys(path.clone()).map(Some),
            // An agent that nobody told to serve programs is none the worse where it cannot.
            None => {
                Ok(usual().map_err(|error| output::note(&format!("programs are not served: {error}"))).ok())
            }
        }
    }
}

/// The usual place: in a folder of its own, since the one with the other sockets is for their owner alone.
fn usual() -> Result<Place> {
    let path = PathBuf::from(SOCKET);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    }
    everybodys(path)
}

/// Whoever comes is asked who it is, and is told of its own alone: so everybody may.
fn everybodys(path: PathBuf) -> Result<Place> {
    Socket::at(path, 0o666).map(Place)
}

impl Place {
    /// Begins to serve, from threads of its own. To be called after privileges were given away.
    pub fn serve(self, info: &NodeInfo) -> Result<Sense> {
        let desk = Arc::new(Desk::new(info));
        let (tap, source) = tap(info.clone(), desk.watched().clone());
        let adds = desk.clone();
        let thread = std::thread::Builder::new().name("magnet-sense".to_owned()).spawn(move || {
            let limits = Limits { max_pieces: MOST_PIECES, ..Limits::default() };
            let mut walker = Walker::new(vec![Box::new(source)], &OneClock, limits, PATIENCE);
            while walker.step(&mut |piece| adds.add(&piece)).is_ok_and(|progress| progress == Progress::More) {}
        })?;
        let listener = self.0.listener.try_clone()?;
        if let Ok(address) = listener.local_addr()
            && let Some(path) = address.as_pathname()
        {
            output::note(&format!("serving programs at {}", path.display()));
        }
        let door = std::thread::Builder::new().name("magnet-askers".to_owned());
        door.spawn(move || let_in(&listener, &desk))?;
        Ok(Sense { tap, thread, _socket: self.0 })
    }
}

/// Lets clients in, a thread each, until the process ends.
fn let_in(listener: &UnixListener, desk: &Arc<Desk>) {
    let seats = Seats::default();
    loop {
        let Ok((stream, _)) = listener.accept() else {
            // No file is left, or it went away again: later there may be.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        let (seats, desk) = (seats.clone(), desk.clone());
        // What becomes of a connection is its peer's business, and where no thread is left it is closed.
        if let Ok(seated) = seats.take(&stream) {
            let thread = std::thread::Builder::new().name("magnet-asker".to_owned());
            let _ = thread.spawn(move || asker::serve(&stream, seated, &desk));
        }
    }
}

impl Sense {
    /// Hands on what came. Never waits.
    pub fn offer(&mut self, batch: &Batch) {
        self.tap.offer(batch);
    }

    /// Whether it serves no longer, which it should.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }
}

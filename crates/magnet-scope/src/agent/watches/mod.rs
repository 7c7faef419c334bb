//! The socket for programs that watch their own traffic: watches of the crate `client`, figures of `sensor::averages`.
//!
//! Clients are known by the kernel's word on their process, and pass sockets as descriptors. `sensor` knows no
//! sockets, so this part is in the binary, beside the other sockets of the agent.
//!
//! The capture passes its batches to a correlating thread through a queue that never blocks it. Every client
//! has a thread, because the close of a passed descriptor may block: a lingering socket, or a file of the
//! client's file system. Clients therefore do not delay each other.

mod caller;
mod client;
mod client_slots;
mod lines;

use super::Socket;
use crate::output;
use anyhow::{Context, Result};
use clap::Args;
use client_slots::ClientSlots;
use magscope_client::SOCKET;
use magscope_core::Batch;
use magscope_core::journey::Limits;
use magscope_core::node::NodeInfo;
use magscope_core::source::Progress;
use magscope_probe::clock::monotonic_ns;
use magscope_sensor::averages::{AverageStore, Tap, tap};
use magscope_timeline::join::OneClock;
use magscope_timeline::merged_reader::Walker;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Maximum wait of the correlating thread for a batch.
const PATIENCE: Duration = Duration::from_millis(100);
/// Maximum number of journeys in flight: some 50 MB.
const MOST_PIECES: usize = 1 << 17;

/// Where programs ask.
#[derive(Clone, Debug, Args)]
pub struct WatchArgs {
    /// The socket where programs of every user ask about their own traffic, or `off` [default: /run/magnet-scope-watch/watch.sock]
    #[arg(long, value_name = "PATH|off")]
    watch_socket: Option<PathBuf>,
}

/// The socket without clients so far.
pub struct Place(Socket);

/// The threads that serve programs.
pub struct WatchServer {
    tap: Tap,
    thread: JoinHandle<()>,
    /// Removed on drop.
    _socket: Socket,
}

impl WatchArgs {
    /// Opens the socket, if configured. Called before privileges are dropped.
    pub fn open(&self) -> Result<Option<Place>> {
        match &self.watch_socket {
            Some(off) if off == Path::new("off") => Ok(None),
            Some(path) => open_to_all(path.clone()).map(Some),
            // Without explicit configuration a failure is only reported.
            None => Ok(default_place()
                .map_err(|error| output::note(&format!("programs are not served: {error}")))
                .ok()),
        }
    }
}

/// The default path, in a separate folder, because the other sockets' folder is private to their owner.
fn default_place() -> Result<Place> {
    let path = PathBuf::from(SOCKET);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    }
    open_to_all(path)
}

/// The socket is open to all users: each client is authenticated and receives only its own data.
fn open_to_all(path: PathBuf) -> Result<Place> {
    Socket::at(path, 0o666).map(Place)
}

impl Place {
    /// Starts to serve in separate threads. Called after privileges are dropped.
    pub fn serve(self, info: &NodeInfo) -> Result<WatchServer> {
        let averages = Arc::new(AverageStore::new(info, monotonic_ns));
        let (tap, source) = tap(info.clone(), averages.watched().clone());
        let adds = averages.clone();
        let thread = std::thread::Builder::new().name("magnet-watches".to_owned()).spawn(move || {
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
        let accepts = std::thread::Builder::new().name("magnet-clients".to_owned());
        accepts.spawn(move || accept_clients(&listener, &averages))?;
        Ok(WatchServer { tap, thread, _socket: self.0 })
    }
}

/// Accepts clients, with a thread each, until the process ends.
fn accept_clients(listener: &UnixListener, averages: &Arc<AverageStore>) {
    let slots = ClientSlots::default();
    loop {
        let Ok((stream, _)) = listener.accept() else {
            // Out of file descriptors, or the client has disconnected: try again later.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        let (slots, averages) = (slots.clone(), averages.clone());
        // A connection error concerns only its peer; without a thread the connection is closed.
        if let Ok(slot) = slots.take(&stream) {
            let thread = std::thread::Builder::new().name("magnet-client".to_owned());
            let _ = thread.spawn(move || client::serve(&stream, slot, &averages));
        }
    }
}

impl WatchServer {
    /// Passes on a batch without blocking.
    pub fn offer(&mut self, batch: &Batch) {
        self.tap.offer(batch);
    }

    /// True if serving has ended unexpectedly.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }
}

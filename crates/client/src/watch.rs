//! A watch: its parameters, and its averages.

use crate::error::Error;
use crate::link::Link;
use crate::wire::{
    Averages, Figure, FourTuple, LEAST_PAUSE_S, Push, Refusal, Reply, Request, WatchSubject, Watching, Window,
};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Socket of root's agent. The variable `MAGNET_SCOPE_WATCH` overrides it.
pub const SOCKET: &str = "/run/magnet-scope-watch/watch.sock";

/// Maximum number of unread changes; the newest are stored.
const MOST_UNREAD: usize = 64;

/// Parameters of a watch. [`Watch::open`] starts it.
#[derive(Clone, Debug)]
pub struct Watch<'fd> {
    of: WatchSubject,
    socket: Option<BorrowedFd<'fd>>,
    window: Window,
    push: Option<Push>,
    at: Option<PathBuf>,
}

impl<'fd> Watch<'fd> {
    /// A socket of this program. The watch lasts until its drop, even if the socket closes.
    pub fn socket<S: AsFd + ?Sized>(socket: &'fd S) -> Self {
        Watch { socket: Some(socket.as_fd()), ..Self::of(WatchSubject::Socket) }
    }

    /// All sockets of this process: counts calls of this process alone.
    pub fn process() -> Self {
        Self::of(WatchSubject::Process)
    }

    /// All processes in this one's cgroup; requires root.
    pub fn container() -> Self {
        Self::of(WatchSubject::Container)
    }

    /// A flow by its addresses; requires root.
    pub fn flow(flow: FourTuple) -> Self {
        Self::of(WatchSubject::Flow(flow))
    }

    /// Any subject.
    pub fn of(of: WatchSubject) -> Self {
        Watch { of, socket: None, window: Window::Receives(1_000), push: None, at: None }
    }

    /// The window of short-term averages [default: 1,000 receives].
    #[must_use]
    pub fn window(self, window: Window) -> Self {
        Watch { window, ..self }
    }

    /// Notify when the receive rate has changed by this fraction since the last notification: 0.1 for a tenth.
    #[must_use]
    pub fn on_change(self, change: f64) -> Self {
        let push = Push { of: Figure::Received, change, pause_s: LEAST_PAUSE_S };
        Watch { push: Some(self.push.map_or(push, |push| Push { change, ..push })), ..self }
    }

    /// Notify about this figure instead, with a minimum interval.
    #[must_use]
    pub fn figure(self, of: Figure, pause: Duration) -> Self {
        let change = self.push.map_or(0.1, |push| push.change);
        Watch { push: Some(Push { of, change, pause_s: pause.as_secs_f64().max(LEAST_PAUSE_S) }), ..self }
    }

    /// Socket of the agent [default: `MAGNET_SCOPE_WATCH` of the environment, or else [`SOCKET`]].
    #[must_use]
    pub fn at(self, path: impl Into<PathBuf>) -> Self {
        Watch { at: Some(path.into()), ..self }
    }

    /// Starts the watch: everything after the return is counted.
    ///
    /// # Errors
    /// No agent runs, or it refuses.
    pub fn open(&self) -> Result<Watched, Error> {
        let named = std::env::var_os("MAGNET_SCOPE_WATCH").map(PathBuf::from);
        let path = self.at.clone().or(named);
        let mut link = Link::connect(path.as_deref().unwrap_or(Path::new(SOCKET)))?;
        let watching = Watching { of: self.of.clone(), window: self.window, push: self.push };
        link.send(&Request::Watch(watching), self.socket)?;
        match link.answer()? {
            Reply::Watching(begun) => {
                Ok(Watched { link, id: begun.id, since_ns: begun.since_ns, unread: VecDeque::new() })
            }
            other => Err(unexpected(other)),
        }
    }
}

/// A running watch, which ends on drop.
#[derive(Debug)]
pub struct Watched {
    link: Link,
    id: u32,
    since_ns: u64,
    unread: VecDeque<Averages>,
}

impl Watched {
    /// Start of the watch, nanoseconds of the agent's event clock (`CLOCK_MONOTONIC`).
    pub fn since_ns(&self) -> u64 {
        self.since_ns
    }

    /// Current averages.
    ///
    /// # Errors
    /// [`Error::Ended`] after the agent's end, and connection errors.
    pub fn ask(&mut self) -> Result<Averages, Error> {
        self.link.send(&Request::Ask(self.id), None)?;
        loop {
            match self.link.answer()? {
                Reply::Averages(averages) => return Ok(*averages),
                Reply::Changed(averages) => {
                    self.unread.push_back(*averages);
                    if self.unread.len() > MOST_UNREAD {
                        self.unread.pop_front();
                    }
                }
                other => return Err(unexpected(other)),
            }
        }
    }

    /// Waits for the next change of a watch started with [`Watch::on_change`].
    ///
    /// # Errors
    /// [`Error::Ended`] after the agent's end, and connection errors.
    #[expect(clippy::should_implement_trait)] // an iterator would continue after an error
    pub fn next(&mut self) -> Result<Averages, Error> {
        loop {
            if let Some(averages) = self.wait(None)? {
                return Ok(averages);
            }
        }
    }

    /// The next change within the timeout.
    ///
    /// # Errors
    /// As [`Watched::next`].
    pub fn next_within(&mut self, time: Duration) -> Result<Option<Averages>, Error> {
        self.wait(Some(time))
    }

    fn wait(&mut self, time: Option<Duration>) -> Result<Option<Averages>, Error> {
        if let Some(averages) = self.unread.pop_front() {
            return Ok(Some(averages));
        }
        match self.link.hear(time)? {
            None => Ok(None),
            Some(Reply::Changed(averages)) => Ok(Some(*averages)),
            Some(other) => Err(unexpected(other)),
        }
    }
}

/// For `poll`: readable when a change has arrived. One readiness may cover several changes, so call
/// [`Watched::next_within`] with a zero timeout until it returns `None`.
impl AsFd for Watched {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.fd()
    }
}

fn unexpected(reply: Reply) -> Error {
    match reply {
        Reply::Error(refusal) => Error::Refused(refusal),
        other => {
            let what = format!("{other:?} was not asked for");
            Error::Refused(Refusal {
                what,
                likely: "the agent is of another version".to_owned(),
                next: "use the same".to_owned(),
            })
        }
    }
}

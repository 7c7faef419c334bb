//! A watch: what is asked for, and what is told.

use crate::error::Error;
use crate::link::Link;
use crate::wire::{
    Averages, Figure, FourTuple, LEAST_PAUSE_S, Push, Refusal, Reply, Request, Watching, What, Window,
};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where an agent of root serves programs. The environment's `MAGNET_SCOPE_SENSE` says another place.
pub const SOCKET: &str = "/run/magnet-scope-sense/sense.sock";

/// Changes that were told and not fetched yet are kept up to so many; of more the newest.
const MOST_UNREAD: usize = 64;

/// What is to be watched, and how. [`Watch::open`] begins.
#[derive(Clone, Debug)]
pub struct Watch<'fd> {
    of: What,
    socket: Option<BorrowedFd<'fd>>,
    window: Window,
    push: Option<Push>,
    at: Option<PathBuf>,
}

impl<'fd> Watch<'fd> {
    /// A socket that this program holds. The watch lasts as long as it is kept, whatever becomes of the socket.
    pub fn socket<S: AsFd + ?Sized>(socket: &'fd S) -> Self {
        Watch { socket: Some(socket.as_fd()), ..Self::of(What::Socket) }
    }

    /// All sockets of this process, which connects itself: by calls of this process alone.
    pub fn process() -> Self {
        Self::of(What::Process)
    }

    /// All processes of this one's cgroup, for root.
    pub fn container() -> Self {
        Self::of(What::Container)
    }

    /// A flow by its addresses, for root.
    pub fn flow(flow: FourTuple) -> Self {
        Self::of(What::Flow(flow))
    }

    /// Anything that can be watched.
    pub fn of(of: What) -> Self {
        Watch { of, socket: None, window: Window::Receives(1_000), push: None, at: None }
    }

    /// The window of short-term averages [default: 1,000 receives].
    #[must_use]
    pub fn window(self, window: Window) -> Self {
        Watch { window, ..self }
    }

    /// Be told when the rate at which bytes are received has changed by this part of what was told last: 0.1 for a tenth.
    #[must_use]
    pub fn on_change(self, change: f64) -> Self {
        let push = Push { of: Figure::Received, change, pause_s: LEAST_PAUSE_S };
        Watch { push: Some(self.push.map_or(push, |push| Push { change, ..push })), ..self }
    }

    /// Be told of this figure instead, and no sooner than this after the last time.
    #[must_use]
    pub fn figure(self, of: Figure, pause: Duration) -> Self {
        let change = self.push.map_or(0.1, |push| push.change);
        Watch { push: Some(Push { of, change, pause_s: pause.as_secs_f64().max(LEAST_PAUSE_S) }), ..self }
    }

    /// Ask the agent at this socket [default: `MAGNET_SCOPE_SENSE` of the environment, or else [`SOCKET`]].
    #[must_use]
    pub fn at(self, path: impl Into<PathBuf>) -> Self {
        Watch { at: Some(path.into()), ..self }
    }

    /// Begins: everything that happens after this returns is counted.
    ///
    /// # Errors
    /// Where no agent is there, or it refuses.
    pub fn open(&self) -> Result<Watched, Error> {
        let named = std::env::var_os("MAGNET_SCOPE_SENSE").map(PathBuf::from);
        let path = self.at.clone().or(named);
        let mut link = Link::connect(path.as_deref().unwrap_or(Path::new(SOCKET)))?;
        let watching = Watching { of: self.of.clone(), window: self.window, push: self.push };
        link.say(&Request::Watch(watching), self.socket)?;
        match link.answer()? {
            Reply::Watching(begun) => {
                Ok(Watched { link, id: begun.id, since_ns: begun.since_ns, unread: VecDeque::new() })
            }
            other => Err(unexpected(other)),
        }
    }
}

/// A watch that runs. It ends when it goes.
#[derive(Debug)]
pub struct Watched {
    link: Link,
    id: u32,
    since_ns: u64,
    unread: VecDeque<Averages>,
}

impl Watched {
    /// From when on it counts, nanoseconds of the agent's clock of events (`CLOCK_MONOTONIC`).
    pub fn since_ns(&self) -> u64 {
        self.since_ns
    }

    /// How it stands now.
    ///
    /// # Errors
    /// [`Error::Ended`] when the agent has, and what else can go wrong.
    pub fn ask(&mut self) -> Result<Averages, Error> {
        self.link.say(&Request::Ask(self.id), None)?;
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

    /// The next change of a watch that was begun with [`Watch::on_change`], however long that takes.
    ///
    /// # Errors
    /// [`Error::Ended`] when the agent has, and what else can go wrong.
    #[expect(clippy::should_implement_trait)] // an iterator would go on after an error
    pub fn next(&mut self) -> Result<Averages, Error> {
        loop {
            if let Some(averages) = self.wait(None)? {
                return Ok(averages);
            }
        }
    }

    /// The next change, if it comes within this time.
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

/// To be polled for reading where a program waits for several things: readable when a change has come. One poll may stand for several
/// changes, so fetch them with [`Watched::next_within`] of no time until there is none.
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

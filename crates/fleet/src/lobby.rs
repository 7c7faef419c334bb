//! Hosts as they come: those that answer at once, and later who was away then, was booted anew, or has joined a relay.

use crate::dial::{Dialed, dial};
use crate::error::{FleetError, Likely};
use crate::remote::{Remote, Ticker, Wish};
use magscope_core::source::Source;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Between two looks at who is at an address.
const PAUSE: Duration = Duration::from_secs(2);
/// Hosts of all addresses together, those that have gone as well: whoever is asked can name as many as it likes.
const MOST_HOSTS: usize = 1024;
/// Hosts that have come and were not yet taken in.
const WAITING: usize = 16;

/// A host that is read.
pub type Host = Box<dyn Source + Send>;

/// Where hosts come in. It ends them all when it goes.
pub struct Lobby {
    ticker: Ticker,
    arrivals: Receiver<Host>,
    threads: Vec<JoinHandle<()>>,
}

impl Lobby {
    /// Connects to all agents and relays, and gives the hosts of those that are there, in the order they were named; who does not answer
    /// yet is waited for.
    ///
    /// # Errors
    /// Nobody is there at all; or somebody does not let this viewer in, or cannot be trusted.
    pub fn enter(wishes: &[Wish]) -> Result<(Vec<Host>, Self), FleetError> {
        let ticker = Ticker::default();
        let (give, arrivals) = sync_channel(WAITING);
        let hosts = Arc::new(AtomicUsize::new(0));
        let mut lobby = Lobby { ticker: ticker.clone(), arrivals, threads: Vec::new() };
        let mut firsts = Vec::new();
        for wish in wishes {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let (first, came) = channel();
            let (ticker, give, hosts) = (ticker.clone(), give.clone(), hosts.clone());
            let door =
                Door { wish: wish.clone(), line: None, known: Vec::new(), hosts, ticker, give, said: None };
            let thread = std::thread::Builder::new().name("magnet-lobby".to_owned());
            lobby.threads.push(thread.spawn(move || door.stand(&runtime, &first))?);
            firsts.push(came);
        }
        let (mut there, mut away) = (Vec::new(), Vec::new());
        for (wish, came) in wishes.iter().zip(firsts) {
            // A thread that failed has nobody behind it.
            match came.recv().unwrap_or(Ok(Vec::new())) {
                Ok(hosts) => there.extend(hosts.into_iter().map(|remote| Box::new(remote) as Host)),
                Err(error @ FleetError::Connect { likely: Likely::Nobody, .. }) => {
                    away.push((&wish.address, error));
                }
                Err(error) => return Err(error),
            }
        }
        if there.is_empty()
            && let Some((_, error)) = away.pop()
        {
            return Err(error);
        }
        for (address, error) in away {
            let because = if let FleetError::Connect { because, .. } = error { because } else { String::new() };
            ticker.tell(format!("{address} is not there yet, waiting for it: {because}"), true);
        }
        Ok((there, lobby))
    }

    /// One that has come since.
    pub fn arrived(&self) -> Option<Host> {
        self.arrivals.try_recv().ok()
    }

    /// What tells of all their connections, and ends them.
    pub fn ticker(&self) -> &Ticker {
        &self.ticker
    }
}

impl Drop for Lobby {
    fn drop(&mut self) {
        self.ticker.stop();
        // Those who wait to be let in, and who wait behind them.
        while self.arrivals.try_recv().is_ok() {}
        for thread in self.threads.drain(..) {
            // Nobody is left who could be told that it failed.
            let _ = thread.join();
        }
    }
}

/// One address.
struct Door {
    wish: Wish,
    /// The connection over which it is asked.
    line: Option<Dialed>,
    known: Vec<Known>,
    /// Hosts that have come, at whatever address.
    hosts: Arc<AtomicUsize>,
    ticker: Ticker,
    give: SyncSender<Host>,
    /// What was told last to be the matter.
    said: Option<String>,
}

/// A host that is being read.
struct Known {
    host: String,
    boot_id: String,
    ended: Arc<AtomicBool>,
}

impl Door {
    fn stand(mut self, runtime: &Runtime, first: &Sender<Result<Vec<Remote>, FleetError>>) {
        // Fails only where nobody wants to know any more.
        let _ = first.send(self.look(runtime));
        loop {
            // Within the runtime, which keeps the connection meanwhile.
            runtime.block_on(async {
                tokio::select! { () = tokio::time::sleep(PAUSE) => {}, () = self.ticker.stopped() => {} }
            });
            if self.ticker.is_stopped() {
                return;
            }
            match self.look(runtime) {
                Ok(come) => {
                    self.said = None;
                    for remote in come {
                        if !self.let_in(Box::new(remote)) {
                            return;
                        }
                    }
                }
                Err(error) => self.tell(&error),
            }
        }
    }

    /// Asks who is there, and connects to those who are not known.
    fn look(&mut self, runtime: &Runtime) -> Result<Vec<Remote>, FleetError> {
        let (address, credentials) = (&self.wish.address, self.wish.credentials.as_ref());
        let about = match self.line.take() {
            Some(mut line) => {
                let about = runtime.block_on(line.ask(address))?;
                self.line = Some(line);
                about
            }
            None => self.line.insert(runtime.block_on(dial(address, credentials))?).about.clone(),
        };
        self.known.retain(|known| !known.ended.load(Ordering::Relaxed));
        let mut come = Vec::new();
        for there in about.hosts.iter().filter(|there| !there.ended) {
            let (host, boot_id) = (&there.node.host, &there.node.boot_id);
            if self.known.iter().any(|known| known.host == *host && known.boot_id == *boot_id) {
                continue;
            }
            if self.hosts.fetch_add(1, Ordering::Relaxed) >= MOST_HOSTS {
                self.hosts.store(MOST_HOSTS, Ordering::Relaxed);
                return Err(FleetError::Refused {
                    address: address.to_string(),
                    because: format!("{host} is one more than the {MOST_HOSTS} hosts that fit in here"),
                });
            }
            let remote = Remote::host(self.wish.clone(), host, self.ticker.clone())?;
            let (host, boot_id, ended) = (host.clone(), remote.info().boot_id.clone(), remote.ended());
            self.known.push(Known { host, boot_id, ended });
            come.push(remote);
        }
        Ok(come)
    }

    /// Gives a host to whoever reads, as soon as there is room; whether anybody does.
    fn let_in(&self, mut host: Host) -> bool {
        loop {
            match self.give.try_send(host) {
                Ok(()) => return true,
                Err(TrySendError::Disconnected(_)) => return false,
                Err(TrySendError::Full(back)) => host = back,
            }
            if self.ticker.is_stopped() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Says what is the matter, once. That a host is away its own connection tells.
    fn tell(&mut self, error: &FleetError) {
        let text = error.to_string();
        let away = matches!(error, FleetError::Connect { likely: Likely::Nobody | Likely::Unknown, .. });
        if !away && self.said.as_ref() != Some(&text) {
            self.ticker.tell(text.clone(), true);
            self.said = Some(text);
        }
    }
}

//! Host discovery: hosts that answer at the start, and later ones. Later hosts were away, rebooted, or joined a
//! relay or a bus.

use crate::address::Address;
use crate::bus::{BusPlace, BusReadOptions};
use crate::dial::{Dialed, dial};
use crate::error::{FleetError, Likely};
use crate::remote::{ReadOptions, Remote, Ticker};
use magscope_core::Batch;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source, SourceError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Interval between two queries of a place.
const PAUSE: Duration = Duration::from_secs(2);
/// Maximum number of hosts over all places, including ended ones: a peer can report any number of hosts.
const MOST_HOSTS: usize = 1024;
/// Maximum number of discovered hosts that wait for the caller.
const WAITING: usize = 16;

/// A discovered host.
pub struct Host {
    source: Box<dyn Source + Send>,
    asked_as: Option<String>,
}

impl Host {
    /// A host that the user did not name.
    pub fn new(source: impl Source + Send + 'static) -> Self {
        Host { source: Box::new(source), asked_as: None }
    }

    /// The name or address in the user's request, if it denotes this host alone.
    pub fn asked_as(&self) -> Option<&str> {
        self.asked_as.as_deref()
    }
}

impl Source for Host {
    fn info(&self) -> &NodeInfo {
        self.source.info()
    }

    fn next(&mut self, batch: &mut Batch, timeout: Duration) -> Result<Progress, SourceError> {
        self.source.next(batch, timeout)
    }
}

/// A source of hosts: the address of an agent or a relay, or a bus.
pub trait Place: Send {
    /// Name for messages.
    fn name(&self) -> String;
    /// Queries the hosts and starts to read new ones. The ticker receives further messages.
    fn look(
        &mut self,
        runtime: &Runtime,
        active_hosts: &mut ActiveHosts,
        ticker: &Ticker,
    ) -> Result<Vec<Host>, FleetError>;
}

/// Discovery of hosts. A drop ends all of them.
pub struct HostDiscovery {
    ticker: Ticker,
    arrivals: Receiver<Host>,
    threads: Vec<JoinHandle<()>>,
}

impl HostDiscovery {
    /// Connects to all agents, relays and a bus, and returns the available hosts in the order of the request.
    /// Hosts without an answer are retried later.
    ///
    /// # Errors
    /// No host is available; or a peer rejects this viewer or is not trusted.
    pub fn enter(
        requests: &[ReadOptions],
        bus: Option<&BusReadOptions>,
    ) -> Result<(Vec<Host>, Self), FleetError> {
        let agents =
            requests.iter().map(|options| Box::new(AgentPlace::new(options.clone())) as Box<dyn Place>);
        let bus = bus.map(|options| Box::new(BusPlace::new(options.clone())) as Box<dyn Place>);
        let ticker = Ticker::default();
        let (give, arrivals) = sync_channel(WAITING);
        let hosts = Arc::new(AtomicUsize::new(0));
        let mut discovery = HostDiscovery { ticker: ticker.clone(), arrivals, threads: Vec::new() };
        let mut firsts = Vec::new();
        for place in agents.chain(bus) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let (first, came) = channel();
            firsts.push((place.name(), came));
            let active_hosts = ActiveHosts { hosts_seen: Vec::new(), hosts: hosts.clone() };
            let worker = DiscoverySource {
                place,
                active_hosts,
                ticker: ticker.clone(),
                give: give.clone(),
                last_error: None,
            };
            let thread = std::thread::Builder::new().name("magnet-hosts".to_owned());
            discovery.threads.push(thread.spawn(move || worker.run(&runtime, &first))?);
        }
        let (mut there, mut away) = (Vec::new(), Vec::new());
        for (name, came) in firsts {
            // A failed thread has no hosts.
            match came.recv().unwrap_or(Ok(Vec::new())) {
                Ok(hosts) => there.extend(hosts),
                Err(error) if is_away(&error) => away.push((name, error)),
                Err(error) => return Err(error),
            }
        }
        if there.is_empty()
            && let Some((_, error)) = away.pop()
        {
            return Err(error);
        }
        for (name, error) in away {
            let because = match error {
                FleetError::Connect { because, .. } | FleetError::Bus { because, .. } => because,
                _ => String::new(),
            };
            ticker.notify(format!("{name} is not there yet, waiting for it: {because}"), true);
        }
        Ok((there, discovery))
    }

    /// A host discovered since the last call.
    pub fn arrived(&self) -> Option<Host> {
        self.arrivals.try_recv().ok()
    }

    /// The ticker of all connections; it also stops them.
    pub fn ticker(&self) -> &Ticker {
        &self.ticker
    }
}

/// True if the host may still become available.
fn is_away(error: &FleetError) -> bool {
    matches!(
        error,
        FleetError::Connect { likely: Likely::Nobody, .. }
            | FleetError::Bus { likely: Likely::Nobody | Likely::NoAgent, .. }
    )
}

impl Drop for HostDiscovery {
    fn drop(&mut self) {
        self.ticker.stop();
        // Discard waiting hosts, so that blocked threads continue.
        while self.arrivals.try_recv().is_ok() {}
        for thread in self.threads.drain(..) {
            // No receiver remains for an error.
            let _ = thread.join();
        }
    }
}

/// The hosts of one place that are being read.
pub struct ActiveHosts {
    hosts_seen: Vec<HostEntry>,
    /// Number of hosts over all places.
    hosts: Arc<AtomicUsize>,
}

struct HostEntry {
    host: String,
    boot_id: String,
    ended: Arc<AtomicBool>,
}

impl ActiveHosts {
    /// True if this boot of a host is being read.
    pub fn is_reading(&self, host: &str, boot_id: &str) -> bool {
        let mut reads = self.hosts_seen.iter().filter(|entry| !entry.ended.load(Ordering::Relaxed));
        reads.any(|entry| entry.host == host && entry.boot_id == boot_id)
    }

    /// Reserves room for one more host, or returns an error at the limit.
    pub fn make_room(&self, place: String, host: &str) -> Result<(), FleetError> {
        if self.hosts.fetch_add(1, Ordering::Relaxed) < MOST_HOSTS {
            return Ok(());
        }
        self.hosts.store(MOST_HOSTS, Ordering::Relaxed);
        let because = format!("{host} is one more than the {MOST_HOSTS} hosts that fit in here");
        Err(FleetError::Refused { address: place, because })
    }

    /// Registers a host until its end.
    pub fn add(&mut self, host: &str, boot_id: &str, ended: Arc<AtomicBool>) {
        self.hosts_seen.retain(|entry| !entry.ended.load(Ordering::Relaxed));
        self.hosts_seen.push(HostEntry { host: host.to_owned(), boot_id: boot_id.to_owned(), ended });
    }
}

/// One agent or relay.
struct AgentPlace {
    options: ReadOptions,
    /// The connection for queries.
    line: Option<Dialed>,
}

impl AgentPlace {
    fn new(options: ReadOptions) -> Self {
        AgentPlace { options, line: None }
    }
}

impl Place for AgentPlace {
    fn name(&self) -> String {
        self.options.address.to_string()
    }

    fn look(
        &mut self,
        runtime: &Runtime,
        active_hosts: &mut ActiveHosts,
        ticker: &Ticker,
    ) -> Result<Vec<Host>, FleetError> {
        let (address, credentials) = (&self.options.address, self.options.credentials.as_ref());
        let about = match self.line.take() {
            Some(mut line) => {
                let about = runtime.block_on(line.ask(address))?;
                self.line = Some(line);
                about
            }
            None => self.line.insert(runtime.block_on(dial(address, credentials))?).about.clone(),
        };
        // The hosts of a relay have names of their own.
        let asked_as = match address {
            Address::Host { host, .. } if about.hosts.len() == 1 => Some(host.clone()),
            _ => None,
        };
        let mut come: Vec<Host> = Vec::new();
        for there in about.hosts.iter().filter(|there| !there.ended) {
            let host = &there.node.host;
            if active_hosts.is_reading(host, &there.node.boot_id) {
                continue;
            }
            active_hosts.make_room(address.to_string(), host)?;
            let remote = Remote::host(self.options.clone(), host, ticker.clone())?;
            active_hosts.add(host, &remote.info().boot_id, remote.ended());
            come.push(Host { asked_as: asked_as.clone(), ..Host::new(remote) });
        }
        Ok(come)
    }
}

/// Discovery thread of one place.
struct DiscoverySource {
    place: Box<dyn Place>,
    active_hosts: ActiveHosts,
    ticker: Ticker,
    give: SyncSender<Host>,
    /// The last reported error.
    last_error: Option<String>,
}

impl DiscoverySource {
    fn run(mut self, runtime: &Runtime, first: &Sender<Result<Vec<Host>, FleetError>>) {
        // Fails only without a receiver.
        let _ = first.send(self.look(runtime));
        loop {
            // Within the runtime, which services the connection meanwhile.
            runtime.block_on(async {
                tokio::select! { () = tokio::time::sleep(PAUSE) => {}, () = self.ticker.stopped() => {} }
            });
            if self.ticker.is_stopped() {
                return;
            }
            match self.look(runtime) {
                Ok(come) => {
                    self.last_error = None;
                    if !come.into_iter().all(|host| self.let_in(host)) {
                        return;
                    }
                }
                Err(error) => self.report_error(&error),
            }
        }
    }

    fn look(&mut self, runtime: &Runtime) -> Result<Vec<Host>, FleetError> {
        self.place.look(runtime, &mut self.active_hosts, &self.ticker)
    }

    /// Queues a host as soon as there is room; returns false without a receiver.
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

    /// Reports an error once. A host's own connection reports its outage.
    fn report_error(&mut self, error: &FleetError) {
        let text = error.to_string();
        let away = matches!(error, FleetError::Connect { likely: Likely::Unknown, .. }) || is_away(error);
        if !away && self.last_error.as_ref() != Some(&text) {
            self.ticker.notify(text.clone(), true);
            self.last_error = Some(text);
        }
    }
}

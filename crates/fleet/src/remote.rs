//! An agent as a source of batches, with reconnection after a failure.

use crate::address::Address;
use crate::dial::{Broke, Credentials, Dialed, PATIENCE, dial};
use crate::error::FleetError;
use crate::inbox::{Feeder, Inbox};
use crate::memory::Start;
use crate::request::{Request, Terms};
use arrow::buffer::Buffer;
use arrow_flight::{FlightData, Ticket};
use magscope_core::changes::NewChanges;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source, SourceError};
use magscope_core::{Batch, Loss, LossCause};
use magscope_session::{Place, unpack};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tonic::{Status, Streaming};

/// Interval between connection attempts: initial value, and maximum.
const TRIES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// Maximum number of unread messages.
const MOST_NEWS: usize = 64;

/// Start position at an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartAt {
    /// New data only.
    Now,
    /// This long ago, as far as stored.
    Back(Duration),
}

/// Parameters of a connection to an agent.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// The address.
    pub address: Address,
    /// Credentials, if needed.
    pub credentials: Option<Credentials>,
    /// Start position.
    pub from: StartAt,
    /// Filters of the stream.
    pub terms: Terms,
}

/// An agent's stream.
pub struct Remote {
    inbox: Inbox,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    news: Mutex<Vec<Notice>>,
    away: Mutex<BTreeSet<String>>,
}

/// A message about the connection for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The text.
    pub text: String,
    /// True for a problem.
    pub bad: bool,
}

/// Messages about connections, and the stop flag of their sources.
#[derive(Clone, Default)]
pub struct Ticker(Arc<Shared>);

impl Ticker {
    /// Messages since the last call.
    pub fn news(&self) -> Vec<Notice> {
        std::mem::take(&mut *self.0.news.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the sources: their readers get [`Progress::End`].
    pub fn stop(&self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }

    /// Names of the hosts whose connection is lost.
    pub fn away(&self) -> Vec<String> {
        self.0.away.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Sets whether the connection to a host is lost.
    pub(crate) fn set_away(&self, host: &str, is_away: bool) {
        let mut away = self.0.away.lock().unwrap_or_else(PoisonError::into_inner);
        if is_away {
            away.insert(host.to_owned());
        } else {
            away.remove(host);
        }
    }

    pub(crate) fn notify(&self, text: String, bad: bool) {
        let mut news = self.0.news.lock().unwrap_or_else(PoisonError::into_inner);
        if news.len() < MOST_NEWS {
            news.push(Notice { text, bad });
        }
    }

    /// True after a stop.
    pub fn is_stopped(&self) -> bool {
        self.0.stop.load(Ordering::Relaxed)
    }

    /// Waits for the stop.
    pub(crate) async fn stopped(&self) {
        while !self.is_stopped() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Remote {
    /// Connects and reads each host in a separate thread: an agent has one host, a relay several.
    ///
    /// # Errors
    /// The agent is absent, rejects this viewer or is not trusted.
    pub fn connect(read_options: &ReadOptions) -> Result<Vec<Self>, FleetError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let dialed = runtime.block_on(dial(&read_options.address, read_options.credentials.as_ref()))?;
        let hosts = dialed.about.hosts.clone();
        drop((dialed, runtime));
        hosts.iter().map(|host| Self::host(read_options.clone(), &host.node.host, Ticker::default())).collect()
    }

    /// Connects to one host of a relay or agent.
    pub(crate) fn host(read_options: ReadOptions, host: &str, ticker: Ticker) -> Result<Self, FleetError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let dialed = runtime.block_on(dial(&read_options.address, read_options.credentials.as_ref()))?;
        let about = dialed.about.hosts.iter().find(|about| about.node.host == host);
        let about = about.ok_or_else(|| FleetError::Refused {
            address: read_options.address.to_string(),
            because: format!("{host} was there a moment ago, and is not any more"),
        })?;
        let mut info = about.node.clone();
        info.settings.extend(read_options.terms.settings());
        let after = match (read_options.from, about.holds.range_ns) {
            (StartAt::Back(back), Some((_, to_ns))) => {
                Start::At(to_ns.saturating_sub(u64::try_from(back.as_nanos()).unwrap_or(u64::MAX)))
            }
            _ => Start::Now,
        };
        let boot_id = info.boot_id.clone();
        let (inbox, feeder) = Inbox::new(info, ticker);
        let reading = Reading {
            options: read_options,
            after,
            boot_id,
            host: host.to_owned(),
            stream: String::new(),
            read_ns: 0,
            new_changes: NewChanges::default(),
            feeder,
        };
        let thread = std::thread::Builder::new().name("magnet-remote".to_owned());
        let thread = thread.spawn(move || runtime.block_on(reading.run(dialed)))?;
        Ok(Remote { inbox, thread: Some(thread) })
    }

    /// The ticker of its connection.
    pub fn ticker(&self) -> Ticker {
        self.inbox.ticker().clone()
    }

    /// Flag set after the last batch.
    pub fn ended(&self) -> Arc<AtomicBool> {
        self.inbox.over().clone()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // The thread sees that the reader is gone.
        self.inbox.over().store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // No receiver remains for an error.
            let _ = thread.join();
        }
    }
}

impl Source for Remote {
    fn info(&self) -> &NodeInfo {
        self.inbox.info()
    }

    fn next(&mut self, batch: &mut Batch, timeout: Duration) -> Result<Progress, SourceError> {
        self.inbox.next(batch, timeout)
    }
}

/// State of the thread.
struct Reading {
    options: ReadOptions,
    /// Position to resume from.
    after: Start,
    boot_id: String,
    host: String,
    /// The stream that is being read.
    stream: String,
    /// The last instant read.
    read_ns: u64,
    /// An agent repeats its changes, also after a reconnection.
    new_changes: NewChanges,
    feeder: Feeder,
}

/// Why a stream was left.
enum Left {
    /// The reader is gone, or a retry is pointless.
    ForGood,
    /// The agent or the connection has ended.
    Broken(String),
}

impl Reading {
    async fn run(mut self, mut agent: Dialed) {
        loop {
            let Left::Broken(because) = self.read(agent).await else { return };
            self.notify(format!("{} is away, trying again: {because}", self.options.address), true);
            self.feeder.set_away(&self.host, true);
            let mut pause = TRIES.0;
            agent = loop {
                if self.feeder.is_stopped() {
                    return;
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(TRIES.1);
                if let Ok(found) = dial(&self.options.address, self.options.credentials.as_ref()).await {
                    break found;
                }
            };
            let Some(about) = agent.about.hosts.iter().find(|about| about.node.host == self.host) else {
                self.notify(format!("{}: it has {} no longer", self.options.address, self.host), true);
                return;
            };
            if about.node.boot_id != self.boot_id {
                let what =
                    format!("{}: {} was booted again, with another clock", self.options.address, self.host);
                self.notify(what, true);
                return;
            }
            self.feeder.set_away(&self.host, false);
            self.notify(format!("{} is back", self.options.address), false);
        }
    }

    /// Reads one stream until it ends.
    async fn read(&mut self, Dialed { mut client, about, broke }: Dialed) -> Left {
        let about = about.hosts.into_iter().find(|about| about.node.host == self.host);
        let Some(about) = about else { return Left::Broken(format!("it has {} no longer", self.host)) };
        let request = Request {
            table: "packets".to_owned(),
            host: Some(self.host.clone()),
            from: self.after.clone(),
            terms: self.options.terms.clone(),
            ..Request::default()
        };
        let ticket = Ticket { ticket: request.ticket().into() };
        let mut stream = match tokio::time::timeout(PATIENCE, client.do_get(ticket)).await {
            Ok(Ok(stream)) => stream.into_inner(),
            Ok(Err(status)) => return Left::Broken(broke.because(&self.options.address, &status)),
            Err(_) => return Left::Broken("it does not answer".to_owned()),
        };
        // The memory of a new stream is read from its start; data between the two streams is lost.
        let mut unseen = !self.stream.is_empty() && self.stream != about.stream;
        self.stream.clone_from(&about.stream);
        loop {
            let (mut batch, place) = match self.next(&mut stream, &broke).await {
                Ok(Some(next)) => next,
                Ok(None) => continue,
                Err(left) => return left,
            };
            self.new_changes.retain(&mut batch.changes);
            if unseen && let Some(first) = batch.events.first() {
                // The number of lost records is unknown; it counts as one, so that the gap is visible.
                let (from_ns, to_ns) = (self.read_ns.min(first.time_ns), first.time_ns);
                batch.losses.push(Loss { cpu: u16::MAX, from_ns, to_ns, count: 1, cause: LossCause::Missed });
                batch.losses.sort_by_key(|loss| loss.to_ns);
                unseen = false;
            }
            // A new reader in the agent does not know from where on records are missing.
            for loss in batch.losses.iter_mut().filter(|loss| loss.cause == LossCause::Missed) {
                if loss.from_ns == loss.to_ns && self.read_ns > 0 {
                    loss.from_ns = self.read_ns.min(loss.to_ns);
                }
            }
            self.read_ns = batch.events.iter().map(|event| event.time_ns).fold(self.read_ns, u64::max);
            if !self.feeder.hand_over(batch).await {
                return Left::ForGood;
            }
            // Only delivered batches count as read.
            let Place { number, records } = place;
            self.after = Start::After { stream: self.stream.clone(), number, records };
        }
    }

    /// The next batch; `None` for a message without one.
    async fn next(
        &self,
        stream: &mut Streaming<FlightData>,
        broke: &Broke,
    ) -> Result<Option<(Batch, Place)>, Left> {
        let message: Result<Option<FlightData>, Status> = tokio::select! {
            message = stream.message() => message,
            () = self.feeder.stopped() => return Err(Left::ForGood),
            // Clock samples arrive continuously, so silence means a broken connection.
            () = tokio::time::sleep(PATIENCE) => return Err(Left::Broken("nothing has come for 5 s".to_owned())),
        };
        let data = match message {
            Ok(Some(data)) => data,
            Ok(None) => return Err(Left::Broken("the agent has ended".to_owned())),
            Err(status) => return Err(Left::Broken(broke.because(&self.options.address, &status))),
        };
        // The schema is the first message and has no body.
        if data.data_body.is_empty() {
            return Ok(None);
        }
        let mut batch = Batch::default();
        let place = unpack(&data.data_header, &Buffer::from(data.data_body), &mut batch);
        let place = place.map_err(|error| Left::Broken(format!("what it sends is no packet: {error}")))?;
        Ok(Some((batch, place)))
    }

    fn notify(&self, text: String, bad: bool) {
        self.feeder.push_notice(text, bad);
    }
}

//! A viewer's side of the bus: hosts that publish there, each as a source.

use super::gather::{Begin, Gather, Message, StreamPosition};
use super::publish::{HostAnnouncement, STRETCH};
use super::round::{ROUND, RUN, Round};
use super::server::{Bus, Via, innermost_message};
use super::source::Subscribed;
use super::subject::{self, ALL_HOSTS, Buckets, HOSTS, PACKETS, Part};
use crate::client_filter::ClientFilter;
use crate::error::{FleetError, Likely};
use crate::feed::parts;
use crate::inbox::{Feeder, Inbox};
use crate::remote::{StartAt, Ticker};
use crate::request::Terms;
use crate::rows::Rows;
use arrow::buffer::Buffer;
use async_nats::datetime::DateTime;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::{self, stream};
use futures::StreamExt;
use magscope_core::Batch;
use magscope_core::node::NodeInfo;
use magscope_session::unpack;
use std::error::Error;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};

/// Maximum number of hosts.
const MOST_HOSTS: usize = 1 << 12;
/// Messages per request over all consumers, up to 1 MiB each; and messages that wait for processing.
const ASKED: usize = 32;
const WAITING: usize = 16;
/// Silence after which an agent counts as away; agents publish every second.
const SILENCE: Duration = Duration::from_secs(5);
/// Interval between two attempts, and between two checks of the time.
const PAUSE: Duration = Duration::from_millis(300);
/// Idle time after which the bus deletes a consumer.
const IDLE: Duration = Duration::from_mins(1);
/// Maximum length of a run id, bytes.
const LONGEST_RUN: usize = 256;

/// A host that publishes now or did before.
#[derive(Clone, Debug)]
pub struct BusHost {
    /// Description by the host.
    pub node: NodeInfo,
    token: String,
    /// Its last message on the bus, if any.
    last: Option<(u64, DateTime)>,
}

/// A connection with a bus, to read it.
pub struct Subscriber {
    via: Via,
    bus: Bus,
    runtime: Arc<Runtime>,
    is_there: watch::Receiver<bool>,
    /// True if a reader reports the connection state.
    reported: AtomicBool,
}

impl Subscriber {
    /// Connects.
    ///
    /// # Errors
    /// The bus does not answer, has no `JetStream` or rejects this viewer.
    pub fn connect(via: &Via) -> Result<Self, FleetError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("magnet-bus-io")
            .enable_all()
            .build()?;
        let (report, is_there) = watch::channel(true);
        let report = move |is_there| {
            // a missing receiver is no error
            let _ = report.send(is_there);
        };
        let bus = runtime.block_on(via.connect("magnet-scope", report))?;
        let reported = AtomicBool::new(false);
        Ok(Subscriber { via: via.clone(), bus, runtime: Arc::new(runtime), is_there, reported })
    }

    /// True while the bus is reachable.
    pub fn is_there(&self) -> bool {
        *self.is_there.borrow()
    }

    /// The address for messages.
    pub fn shown(&self) -> &str {
        &self.bus.shown
    }

    /// The hosts on the bus: those with these names, or all. Returns `None` without news since `mark`, which is
    /// advanced.
    ///
    /// # Errors
    /// The bus denies access, or all descriptions are invalid.
    pub fn hosts(&self, only: &[String], mark: &mut Option<u64>) -> Result<Option<Vec<BusHost>>, FleetError> {
        self.runtime.block_on(self.ask_for_hosts(only, mark))
    }

    async fn ask_for_hosts(
        &self,
        only: &[String],
        mark: &mut Option<u64>,
    ) -> Result<Option<Vec<BusHost>>, FleetError> {
        let what = "what hosts there are cannot be read";
        let hosts = match self.bus.jetstream.get_stream(HOSTS).await {
            Ok(hosts) => hosts,
            // no agent has published there yet
            Err(error) if innermost_message(&error).contains("stream not found") => {
                return Ok(Some(Vec::new()));
            }
            Err(error) => return Err(self.via.refused(what, &error)),
        };
        let last_state = hosts.cached_info().state.last_sequence;
        if mark.replace(last_state) == Some(last_state) {
            return Ok(None);
        }
        let subjects = hosts.info_with_subjects(ALL_HOSTS).await;
        let subjects = subjects.map_err(|error| self.via.refused(what, &error))?;
        let mut tokens: Vec<String> = subjects
            .take(MOST_HOSTS)
            .filter_map(|subject| async {
                let (subject, _) = subject.ok()?;
                subject::announced_host(&subject).map(str::to_owned)
            })
            .collect()
            .await;
        tokens.sort();
        let packets = self.bus.jetstream.get_stream_no_info(PACKETS).await;
        let packets = packets.map_err(|error| self.via.refused(what, &error))?;
        let (mut found, mut odd) = (Vec::new(), None);
        for token in tokens {
            // a foreign subject
            let Some(name) = subject::host(&token) else { continue };
            if !only.is_empty() && !only.contains(&name) {
                continue;
            }
            let Ok(announced) = hosts.get_last_raw_message_by_subject(&subject::about(&token)).await else {
                continue;
            };
            let announced: HostAnnouncement = match serde_json::from_slice(&announced.payload) {
                Ok(announced) => announced,
                Err(error) => {
                    odd = Some(format!(
                        "what {name} says of itself is not understood ({error}): is it another version?"
                    ));
                    continue;
                }
            };
            let last = packets.get_last_raw_message_by_subject(&subject::packets(&token, Part::COMMON)).await;
            let last = last.ok().map(|last| (last.sequence, last.time));
            if last.is_none() {
                // The host may be about to start.
                *mark = None;
            }
            // Only the name is left of a host that is gone.
            if last.is_some() || !only.is_empty() {
                found.push(BusHost { node: NodeInfo { host: name, ..announced.node }, token, last });
            }
        }
        match odd {
            Some(because) if found.is_empty() => {
                Err(FleetError::Bus { address: self.bus.shown.clone(), because, likely: Likely::Unknown })
            }
            _ => Ok(Some(found)),
        }
    }

    /// Reads a host from then on: these buckets, within these terms, until the ticker stops.
    ///
    /// # Errors
    /// The terms are invalid, or the bus refuses.
    pub fn read(
        &self,
        host: &BusHost,
        buckets: Buckets,
        from: StartAt,
        terms: &Terms,
        ticker: Ticker,
    ) -> Result<Subscribed, FleetError> {
        let refused = |because: String| FleetError::Refused { address: self.bus.shown.clone(), because };
        let wanted = ClientFilter::new(terms, &self.via.grants()?).map_err(refused)?;
        let what = "its packets cannot be read";
        let created = self.runtime.block_on(async {
            let stream =
                self.bus.jetstream.get_stream(PACKETS).await.map_err(|error| self.via.refused(what, &error))?;
            Ok::<_, FleetError>(stream.cached_info().created)
        })?;
        let ahead = STRETCH + Duration::from_secs(1);
        let (begin, policy) = match (from, host.last) {
            (_, None) => (Begin::Oldest, DeliverPolicy::All),
            (StartAt::Now, Some((sequence, time))) => (
                Begin::After((nanos(created), sequence)),
                DeliverPolicy::ByStartTime { start_time: time - ahead },
            ),
            (StartAt::Back(back), Some((_, time))) => {
                let back = back.min(Duration::from_hours(24 * 365));
                let start_time = time - back - ahead;
                (Begin::From(nanos(time - back)), DeliverPolicy::ByStartTime { start_time })
            }
        };
        let mut info = Rows::new(&self.via.grants()?).host(host.node.clone());
        info.settings.extend(terms.settings());
        if buckets != Buckets::ALL {
            info.settings.push(format!("buckets {buckets}"));
        }
        let (inbox, feeder) = Inbox::new(info.clone(), ticker);
        let (filters, by) = subject::filters(&host.token, buckets);
        let reading = Reading {
            bus: self.bus.clone(),
            token: host.token.clone(),
            info,
            gather: Gather::new(buckets, by, begin, &host.node.boot_id),
            filter: wanted,
            feeder,
            is_there: (!self.reported.swap(true, Ordering::Relaxed)).then(|| self.is_there.clone()),
            first: (0, 0),
            asked: Instant::now(),
        };
        self.runtime.spawn(reading.run(filters, policy));
        Ok(Subscribed::new(inbox, self.runtime.clone()))
    }
}

fn nanos(time: DateTime) -> i128 {
    time.unix_timestamp_nanos()
}

/// Result of one consumer.
enum Incoming {
    Message(Box<Message>),
    /// A foreign message, with the reason.
    Other(usize, StreamPosition, String),
    /// A temporary failure of the consumer.
    Trouble(String),
}

/// Reader of one host.
struct Reading {
    bus: Bus,
    token: String,
    info: NodeInfo,
    gather: Gather,
    filter: Option<ClientFilter>,
    feeder: Feeder,
    /// Set if this reader reports the connection state.
    is_there: Option<watch::Receiver<bool>>,
    /// The oldest message of the bus, and the time of that query.
    first: StreamPosition,
    asked: Instant,
}

impl Reading {
    async fn run(mut self, filters: Vec<String>, policy: DeliverPolicy) {
        let each = (ASKED / filters.len()).max(4);
        let mut subscriptions = Vec::new();
        for (subscription, filter) in filters.into_iter().enumerate() {
            let (give, came) = mpsc::channel(WAITING);
            let (bus, token) = (self.bus.clone(), self.token.clone());
            let tail = Tail { bus, token, subscription, filter, each, next: None, created: None, give };
            tokio::spawn(tail.run(policy));
            subscriptions.push(came);
        }
        let (mut silence, mut is_silent, mut refused, mut was_there) = (Duration::ZERO, false, 0_u64, true);
        let (mut trouble, mut looked) = (None, Instant::now());
        loop {
            let next = tokio::select! {
                next = next_of(&mut subscriptions, &self.gather) => next.map(Some),
                () = self.feeder.stopped() => return,
                () = tokio::time::sleep(PAUSE) => Some(None),
            };
            // A pause of this process or of its reader is no silence of the agent.
            let passed = looked.elapsed().min(PAUSE);
            looked = Instant::now();
            silence += passed;
            self.gather.waits(passed);
            match next {
                None => return,
                Some(Some(Incoming::Message(message))) => {
                    (silence, trouble) = (Duration::ZERO, None);
                    if std::mem::take(&mut is_silent) {
                        self.feeder.push_notice(format!("{} is back", self.info.host), false);
                    }
                    self.gather.push(*message);
                }
                Some(Some(Incoming::Other(subscription, at, because))) => {
                    self.gather.passed(subscription, at);
                    if refused == 0 {
                        self.feeder.push_notice(format!("{}: {because}", self.info.host), true);
                    }
                    refused += 1;
                }
                Some(Some(Incoming::Trouble(because))) => {
                    if was_there && trouble.as_ref() != Some(&because) {
                        self.feeder.push_notice(format!("{}: {because}", self.bus.shown), true);
                    }
                    trouble = Some(because);
                }
                Some(None) => {}
            }
            let is_there = self.is_there.as_ref().is_none_or(|is_there| *is_there.borrow());
            if is_there != was_there {
                was_there = is_there;
                let state = if is_there { "is back" } else { "is away, trying again" };
                self.feeder.push_notice(format!("{} {state}", self.bus.shown), !is_there);
            }
            if !is_silent && silence > SILENCE {
                is_silent = true;
                self.feeder.push_notice(format!("{}: nothing has come for 5 s", self.info.host), true);
            }
            if !self.hand_over().await {
                return;
            }
        }
    }

    /// Delivers complete rounds; returns true to continue.
    async fn hand_over(&mut self) -> bool {
        if self.gather.is_in_doubt() && self.asked.elapsed() > Duration::from_secs(1) {
            self.asked = Instant::now();
            if let Ok(stream) = self.bus.jetstream.get_stream(PACKETS).await {
                let info = stream.cached_info();
                self.first = (nanos(info.created), info.state.first_sequence);
            }
        }
        loop {
            let mut batch = match self.gather.next(self.first) {
                Ok(Some(batch)) => batch,
                Ok(None) => return true,
                Err(_) => {
                    let what = format!(
                        "{} was booted again: what comes from now on has another clock",
                        self.info.host
                    );
                    self.feeder.push_notice(what, true);
                    return false;
                }
            };
            if let Some(wanted) = &mut self.filter {
                wanted.apply(&mut batch, &self.info);
            }
            if self.gather.take_end() {
                self.feeder.push_notice(format!("{}: its agent has ended", self.info.host), true);
            }
            if !self.feeder.hand_over(batch).await {
                return false;
            }
        }
    }
}

/// The next message of any consumer that may read on; `None` after the last.
async fn next_of(subscriptions: &mut [mpsc::Receiver<Incoming>], gather: &Gather) -> Option<Incoming> {
    poll_fn(|cx| {
        let mut is_over = true;
        for (subscription, came) in subscriptions.iter_mut().enumerate() {
            if !gather.wants(subscription) {
                is_over = false;
                continue;
            }
            match came.poll_recv(cx) {
                Poll::Ready(Some(came)) => return Poll::Ready(Some(came)),
                Poll::Ready(None) => {}
                Poll::Pending => is_over = false,
            }
        }
        if is_over { Poll::Ready(None) } else { Poll::Pending }
    })
    .await
}

/// One consumer, recreated after a failure.
struct Tail {
    bus: Bus,
    token: String,
    subscription: usize,
    filter: String,
    each: usize,
    /// Sequence number of the next message, and creation time of its stream.
    next: Option<u64>,
    created: Option<DateTime>,
    give: mpsc::Sender<Incoming>,
}

impl Tail {
    async fn run(mut self, policy: DeliverPolicy) {
        while !self.give.is_closed() {
            let because = match self.follow(policy).await {
                Ok(()) => None,
                Err(error) => Some(innermost_message(&*error)),
            };
            if let Some(because) = because
                && self.give.send(Incoming::Trouble(because)).await.is_err()
            {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn follow(&mut self, policy: DeliverPolicy) -> Result<(), Box<dyn Error + Send + Sync>> {
        let stream = self.bus.jetstream.get_stream(PACKETS).await?;
        let info = stream.cached_info();
        // A recreated stream is read from its start.
        if self.created.is_some_and(|created| created != info.created) {
            self.next = Some(1);
        }
        let created = info.created;
        self.created = Some(created);
        let deliver_policy =
            self.next.map_or(policy, |start_sequence| DeliverPolicy::ByStartSequence { start_sequence });
        let consumer: jetstream::consumer::PullConsumer = self.consumer(&stream, deliver_policy).await?;
        let messages =
            consumer.stream().max_messages_per_batch(self.each).heartbeat(SILENCE).expires(SILENCE * 4);
        let mut messages = messages.messages().await?;
        loop {
            let message = tokio::select! {
                message = messages.next() => message,
                () = self.give.closed() => None,
            };
            let Some(message) = message else { return Ok(()) };
            let message = message?;
            let (at, published_ns) = {
                let info = message.info()?;
                ((nanos(created), info.stream_sequence), nanos(info.published))
            };
            let came = match read(&self.token, &message, at, published_ns) {
                Ok(message) => Incoming::Message(Box::new(message)),
                Err(because) => Incoming::Other(self.subscription, at, because),
            };
            if self.give.send(came).await.is_err() {
                return Ok(());
            }
            // Only delivered messages count as read.
            self.next = Some(at.1 + 1);
        }
    }

    async fn consumer(
        &self,
        stream: &stream::Stream,
        deliver_policy: DeliverPolicy,
    ) -> Result<jetstream::consumer::PullConsumer, Box<dyn Error + Send + Sync>> {
        let config = pull::Config {
            deliver_policy,
            ack_policy: AckPolicy::None,
            filter_subject: self.filter.clone(),
            inactive_threshold: IDLE,
            memory_storage: true,
            description: Some("magnet-scope".to_owned()),
            ..pull::Config::default()
        };
        Ok(stream.create_consumer(config).await?)
    }
}

/// Parses a message, or returns the reason for its rejection. Any publisher may have written it.
fn read(
    token: &str,
    message: &jetstream::Message,
    at: StreamPosition,
    published_ns: i128,
) -> Result<Message, String> {
    let part = subject::part(token, &message.subject).ok_or("a message has no subject of ours")?;
    let headers = message.headers.as_ref().ok_or("a message has no headers")?;
    let run = headers.get(RUN).map(async_nats::HeaderValue::as_str).filter(|run| run.len() <= LONGEST_RUN);
    let run = run.ok_or("a message does not say which run it is of")?.to_owned();
    let round = headers.get(ROUND).map(|round| Round::read(round.as_str()).ok_or("a round is not understood"));
    let round = round.transpose()?;
    if round.is_some() && part != Part::COMMON {
        return Err("a round is ended by another part than the last".to_owned());
    }
    let mut batch = Batch::default();
    let (metadata, body) = parts(&message.payload).ok_or("a message is no packet")?;
    let place = unpack(&metadata, &Buffer::from(body), &mut batch)
        .map_err(|error| format!("a message is no packet: {error}"))?;
    Ok(Message { at, published_ns, run, part, round, place, batch })
}

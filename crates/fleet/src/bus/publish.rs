//! Publishes an agent's memory to the bus in rounds.
//!
//! The thread advances only after an acknowledgement of the bus. Meanwhile data stays in the memory, which
//! deletes its oldest records. The thread reports deleted records as missed.

use super::pieces::{can_be_halved, first_piece, halve, rows};
use super::round::{ROUND, RUN, Round};
use super::server::{Bus, Via, innermost_message};
use super::split::Split;
use super::subject::{self, ALL_HOSTS, ALL_PACKETS, HOSTS, PACKETS, PARTS, Part};
use crate::error::FleetError;
use crate::memory::{Memory, Next, Reader, Start};
use arrow::error::ArrowError;
use async_nats::HeaderMap;
use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType};
use bytes::Bytes;
use futures::future::join_all;
use magscope_core::Batch;
use magscope_core::node::NodeInfo;
use magscope_core::workload::Names;
use magscope_session::{Packer, Place};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Maximum duration of a round, and its maximum number of records.
const ROUND_TIME: Duration = Duration::from_millis(200);
const ROUND_RECORDS: u64 = 1 << 16;
/// Maximum interval between rounds; a longer silence means that the agent is away.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Interval at which all flows and threads in use are announced again, and the names and changes so far. A new
/// reader starts with the announcements of this period before its start.
pub const STRETCH: Duration = Duration::from_secs(5);
/// Maximum number of rows in the last message of a round, and maximum size of their names, bytes.
const FEW_ROWS: usize = 1 << 10;
const FEW_NAMES: usize = 16 << 10;
/// Size of a message without its packet, bytes.
const AROUND: usize = 20 << 10;
/// Maximum number of unacknowledged messages.
const IN_FLIGHT: usize = 64;
/// Interval between two attempts: initial value, and maximum.
const TRIES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));
/// Window in which the bus recognises duplicates.
const SAME_FOR: Duration = Duration::from_mins(2);
/// Maximum size of all hosts' descriptions, bytes.
const MOST_HOSTS_BYTES: i64 = 16 << 20;
/// Time to detect another agent of the same name.
const LISTEN: Duration = Duration::from_millis(1500);

/// Retention of the bus; the first agent of a bus sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Size of all hosts together, bytes.
    pub bytes: u64,
    /// Maximum age.
    pub time: Option<Duration>,
}

/// Description of a host on the bus.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostAnnouncement {
    /// Program and version that wrote it.
    pub tool: String,
    /// The host.
    pub node: NodeInfo,
}

/// State of the publisher.
#[derive(Debug, Default)]
pub struct BusStatus {
    sent: AtomicU64,
    bytes: AtomicU64,
    missed: AtomicU64,
    waiting: AtomicU64,
    trouble: Mutex<Option<String>>,
}

impl BusStatus {
    /// Records acknowledged by the bus.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Bytes of acknowledged messages.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Records that the memory deleted before they were published.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Records that are not yet published.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// The current problem, if any.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_troubled(&self, by: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = by;
    }
}

/// The thread that publishes a memory.
pub struct Publisher {
    status: Arc<BusStatus>,
    give_up: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), ArrowError>>,
}

impl Publisher {
    /// Connects, creates missing streams, publishes the host's description and starts a thread that publishes
    /// the memory.
    ///
    /// # Errors
    /// The bus does not answer, has no `JetStream` or rejects this agent, or another agent publishes as this
    /// host.
    pub fn start(via: &Via, memory: &Arc<Memory>, name: &str, keep: Keep) -> Result<Self, FleetError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("magnet-bus-io")
            .enable_all()
            .build()?;
        let token = subject::token(name).ok_or_else(|| FleetError::Address {
            text: name.chars().filter(|c| !c.is_control()).take(60).collect(),
            because: "a host's name on the bus has 1 to 253 bytes",
        })?;
        let status = Arc::new(BusStatus::default());
        let reported = status.clone();
        let away =
            move |is_there: bool| reported.is_troubled((!is_there).then(|| "the bus is away".to_owned()));
        let bus = runtime.block_on(via.connect("magnet-scope agent", away))?;
        let node = NodeInfo { host: name.to_owned(), ..memory.info().clone() };
        let run = format!("{}.{}", memory.stream(), node.boot_id);
        let mut sending = Sending {
            via: via.clone(),
            bus,
            token,
            node,
            run,
            keep,
            status: status.clone(),
            give_up: Arc::default(),
            split: Split::default(),
            packer: Packer::new().map_err(|error| std::io::Error::other(error.to_string()))?,
            round: Round::default(),
            missed: 0,
        };
        runtime.block_on(sending.open())?;
        // An empty round marks the host as present.
        let began = runtime.block_on(sending.send(Vec::new(), false));
        began.map_err(|error| std::io::Error::other(error.to_string()))?;
        let give_up = sending.give_up.clone();
        let (reader, _) = memory.read(&Start::Oldest);
        let thread = std::thread::Builder::new().name("magnet-bus".to_owned());
        let thread = thread.spawn(move || sending.run(&runtime, reader))?;
        Ok(Publisher { status, give_up, thread })
    }

    /// State of the publisher.
    pub fn status(&self) -> &Arc<BusStatus> {
        &self.status
    }

    /// True if the thread has ended.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits after the memory's end, at most `patience`, until the bus has the rest.
    ///
    /// # Errors
    /// Arrow's error.
    pub fn end(self, patience: Duration) -> Result<(), ArrowError> {
        let since = Instant::now();
        while !self.thread.is_finished() && since.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.give_up.store(true, Ordering::Relaxed);
        let ended = self.thread.join();
        if self.status.waiting() == 0 {
            // Everything was published, so the closed connection is no error.
            self.status.is_troubled(None);
        }
        ended.unwrap_or_else(|_| Err(ArrowError::ComputeError("what publishes has failed".to_owned())))
    }
}

/// True if the common part fits into the last message of a round.
fn is_small(common: &Batch) -> bool {
    let names: usize = common.names.iter().map(Names::bytes).sum();
    rows(common) <= FEW_ROWS && common.heads.is_empty() && names <= FEW_NAMES
}

/// State of the thread.
struct Sending {
    via: Via,
    bus: Bus,
    token: String,
    node: NodeInfo,
    run: String,
    keep: Keep,
    status: Arc<BusStatus>,
    give_up: Arc<AtomicBool>,
    split: Split,
    packer: Packer,
    /// Position of every part.
    round: Round,
    /// Records missed since the last round.
    missed: u64,
}

/// An unacknowledged message.
struct Outgoing {
    part: Part,
    id: String,
    round: Option<String>,
    packet: Bytes,
}

impl Sending {
    /// Creates missing streams and publishes the host's description.
    async fn open(&self) -> Result<(), FleetError> {
        let common = Config { storage: StorageType::File, discard: DiscardPolicy::Old, ..Config::default() };
        let age = self.keep.time.unwrap_or_default();
        let packets = Config {
            name: PACKETS.to_owned(),
            subjects: vec![ALL_PACKETS.to_owned()],
            max_bytes: i64::try_from(self.keep.bytes).unwrap_or(i64::MAX),
            max_age: age,
            duplicate_window: if age.is_zero() { SAME_FOR } else { SAME_FOR.min(age) },
            ..common.clone()
        };
        let hosts = Config {
            name: HOSTS.to_owned(),
            subjects: vec![ALL_HOSTS.to_owned()],
            max_messages_per_subject: 1,
            max_bytes: MOST_HOSTS_BYTES,
            ..common
        };
        for config in [hosts, packets] {
            let what = format!("its stream {} cannot be used", config.name);
            let made = self.bus.jetstream.get_or_create_stream(config).await;
            made.map_err(|error| self.via.refused(&what, &error))?;
        }
        self.is_free().await?;
        self.announce().await
    }

    /// Checks that no other agent publishes as this host.
    async fn is_free(&self) -> Result<(), FleetError> {
        let what = "its stream cannot be read";
        let stream = self.bus.jetstream.get_stream_no_info(PACKETS).await;
        let stream = stream.map_err(|error| self.via.refused(what, &error))?;
        let common = subject::packets(&self.token, Part::COMMON);
        let Ok(before) = stream.get_last_raw_message_by_subject(&common).await else { return Ok(()) };
        let ended = before.headers.get(ROUND).and_then(|header| Round::read(header.as_str()));
        if ended.is_some_and(|round| round.is_last) {
            return Ok(());
        }
        tokio::time::sleep(LISTEN).await;
        let after = stream.get_last_raw_message_by_subject(&common).await;
        match after {
            Ok(after) if after.sequence > before.sequence => Err(FleetError::Taken {
                address: self.bus.shown.clone(),
                host: self.node.host.chars().filter(|c| !c.is_control()).collect(),
            }),
            _ => Ok(()),
        }
    }

    /// Publishes the host's description; the bus stores the last one.
    async fn announce(&self) -> Result<(), FleetError> {
        let what = "it does not take what this host is";
        let mut announcement = HostAnnouncement {
            tool: concat!("magnet-scope ", env!("CARGO_PKG_VERSION")).to_owned(),
            node: self.node.clone(),
        };
        let most = self.bus.client.max_payload();
        let mut payload = serde_json::to_vec(&announcement).map_err(|error| self.via.refused(what, &error))?;
        if payload.len() > most.saturating_sub(AROUND) {
            // The only list that grows with the load; without it a cgroup is shown by its id.
            announcement.node.cgroups.clear();
            payload = serde_json::to_vec(&announcement).map_err(|error| self.via.refused(what, &error))?;
        }
        let ack = self.bus.jetstream.publish(subject::about(&self.token), payload.into()).await;
        let ack = ack.map_err(|error| self.via.refused(what, &error))?;
        ack.await.map(|_| ()).map_err(|error| self.via.refused(what, &error))
    }

    fn run(mut self, runtime: &Runtime, mut reader: Reader) -> Result<(), ArrowError> {
        let mut batch = Batch::default();
        let (mut stretch, mut ended) = (Instant::now(), false);
        while !ended && !self.give_up.load(Ordering::Relaxed) {
            if stretch.elapsed() >= STRETCH {
                self.split.begin();
                stretch = Instant::now();
            }
            ended = self.gather(&mut reader, &mut batch)?;
            self.status.waiting.store(reader.behind(), Ordering::Relaxed);
            let messages = self.pack()?;
            runtime.block_on(self.send(messages, ended))?;
        }
        // unpublished records are lost at this point
        self.status.waiting.store(reader.behind(), Ordering::Relaxed);
        let flushed = async { tokio::time::timeout(TRIES.1, self.bus.client.flush()).await };
        // Every message was acknowledged already.
        let _ = runtime.block_on(flushed);
        Ok(())
    }

    /// Collects a round; returns true for the last one.
    fn gather(&mut self, reader: &mut Reader, batch: &mut Batch) -> Result<bool, ArrowError> {
        let began = Instant::now();
        loop {
            let so_long = if self.split.records() == 0 { HEARTBEAT } else { ROUND_TIME };
            let left = so_long.saturating_sub(began.elapsed());
            if left.is_zero() || self.split.records() >= ROUND_RECORDS || self.give_up.load(Ordering::Relaxed) {
                return Ok(false);
            }
            match reader.next(left.min(Duration::from_millis(50))) {
                Next::Packet(packet) => {
                    packet.unpack(batch).map_err(|error| ArrowError::IpcError(error.to_string()))?;
                    self.split.push(batch);
                }
                Next::Missed(loss) => {
                    self.missed = self.missed.saturating_add(loss.count);
                    self.split.push(&Batch {
                        losses: vec![loss],
                        watermark_ns: loss.from_ns,
                        ..Batch::default()
                    });
                }
                Next::Nothing => {}
                Next::End => return Ok(true),
            }
        }
    }

    /// Builds the messages of a round, except the common part.
    fn pack(&mut self) -> Result<Vec<Outgoing>, ArrowError> {
        let mut messages = Vec::new();
        let most = self.bus.client.max_payload().saturating_sub(AROUND);
        for part in (0..PARTS as u8).filter_map(Part::numbered).filter(|part| *part != Part::COMMON) {
            if self.split.part(part).is_empty() {
                continue;
            }
            let mut whole = std::mem::take(self.split.part(part));
            while let Some(piece) = first_piece(&mut whole) {
                self.pack_piece(part, piece, most, &mut messages)?;
            }
        }
        // The last message of a round must fit the size limit: tables that can grow are sent before it.
        if !is_small(self.split.part(Part::COMMON)) {
            let mut common = std::mem::take(self.split.part(Part::COMMON));
            while let Some(piece) = first_piece(&mut common) {
                self.pack_piece(Part::COMMON, piece, most, &mut messages)?;
            }
            *self.split.part(Part::COMMON) = common;
        }
        Ok(messages)
    }

    /// Builds one message, or two halves if it exceeds the bus's limit.
    fn pack_piece(
        &mut self,
        part: Part,
        mut piece: Batch,
        most: usize,
        messages: &mut Vec<Outgoing>,
    ) -> Result<(), ArrowError> {
        let position = &self.round.positions[part.index()];
        let records = super::gather::records(&piece);
        let place =
            Place { number: position.next.number, records: position.next.records.saturating_add(records) };
        let packet = self.packer.packet(place, &piece)?;
        if packet.len() > most && can_be_halved(&piece) {
            let half = halve(&mut piece);
            self.pack_piece(part, half, most, messages)?;
            return self.pack_piece(part, piece, most, messages);
        }
        self.round.positions[part.index()].next = Place { number: place.number + 1, records: place.records };
        let id = self.id(part, place.number);
        messages.push(Outgoing { part, id, round: None, packet: packet.into() });
        Ok(())
    }

    fn id(&self, part: Part, number: u64) -> String {
        format!("{}.{}.{}.{number}", self.token, self.run, part.index())
    }

    /// Sends a round: all messages, and after their acknowledgements the message that ends it.
    async fn send(&mut self, messages: Vec<Outgoing>, is_last: bool) -> Result<(), ArrowError> {
        for some in messages.chunks(IN_FLIGHT) {
            self.send_until_acknowledged(some).await;
        }
        let mut common = std::mem::take(self.split.part(Part::COMMON));
        let position = &mut self.round.positions[Part::COMMON.index()];
        let records = position.next.records.saturating_add(super::gather::records(&common));
        let place = Place { number: position.next.number, records };
        position.next = Place { number: place.number + 1, records };
        self.round.is_last = is_last;
        let packet = self.packer.packet(place, &common)?;
        let watermark_ns = common.watermark_ns;
        common.clear();
        common.watermark_ns = watermark_ns;
        *self.split.part(Part::COMMON) = common;
        let id = self.id(Part::COMMON, place.number);
        let end = Outgoing { part: Part::COMMON, id, round: Some(self.round.write()), packet: packet.into() };
        self.send_until_acknowledged(&[end]).await;
        if self.give_up.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.status.sent.fetch_add(self.split.take_records(), Ordering::Relaxed);
        self.status.missed.fetch_add(std::mem::take(&mut self.missed), Ordering::Relaxed);
        Ok(())
    }

    /// Sends these messages until the bus has acknowledged each.
    async fn send_until_acknowledged(&mut self, messages: &[Outgoing]) {
        let mut left: Vec<&Outgoing> = messages.iter().collect();
        let mut pause = TRIES.0;
        while !left.is_empty() && !self.give_up.load(Ordering::Relaxed) {
            let answers = join_all(left.iter().map(|message| self.offer(message)));
            let Some(answers) = self.unless_given_up(answers).await else { return };
            let (mut again, mut trouble) = (Vec::new(), None);
            for (message, answer) in left.into_iter().zip(answers) {
                match answer {
                    Ok(sequence) => {
                        self.round.positions[message.part.index()].sequence = sequence;
                        self.status.bytes.fetch_add(message.packet.len() as u64, Ordering::Relaxed);
                    }
                    // Packets are split below the limit; a longer one counts as missed for the readers of its
                    // part.
                    Err(error) if error.kind() == PublishErrorKind::MaxPayloadExceeded => {
                        trouble = Some(innermost_message(&error));
                    }
                    Err(error) => {
                        trouble = Some(innermost_message(&error));
                        again.push(message);
                    }
                }
            }
            left = again;
            self.status.is_troubled(trouble.clone());
            if trouble.is_some() && !left.is_empty() {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(TRIES.1);
                Box::pin(self.open_again()).await;
            }
        }
    }

    /// Sends a message and returns the sequence number that the bus assigned.
    async fn offer(&self, message: &Outgoing) -> Result<u64, PublishError> {
        let mut headers = HeaderMap::new();
        headers.insert(NATS_MESSAGE_ID, message.id.as_str());
        headers.insert(RUN, self.run.as_str());
        if let Some(round) = &message.round {
            headers.insert(ROUND, round.as_str());
        }
        let subject = subject::packets(&self.token, message.part);
        let sent = self.bus.jetstream.publish_with_headers(subject, headers, message.packet.clone()).await?;
        Ok(sent.await?.sequence)
    }

    /// A restarted bus may have lost its streams.
    async fn open_again(&self) {
        let opened = async {
            let streams = [PACKETS, HOSTS].map(|name| self.bus.jetstream.get_stream(name));
            for stream in streams {
                if stream.await.is_err() {
                    return Box::pin(self.open()).await;
                }
            }
            Ok(())
        };
        if let Some(Err(error)) = self.unless_given_up(opened).await {
            self.status.is_troubled(Some(error.to_string()));
        }
    }

    async fn unless_given_up<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let given_up = async {
            while !self.give_up.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            done = work => Some(done),
            () = given_up => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::node::CgroupName;

    #[test]
    fn many_names_do_not_go_into_the_last_message_of_a_round() {
        let common = |cgroups: u64| {
            let cgroups = (0..cgroups).map(|id| CgroupName { id, path: "/docker/6dcf81d5d93c".to_owned() });
            let names = Names { cgroups: cgroups.collect(), ..Names::default() };
            Batch { names: vec![names], ..Batch::default() }
        };
        assert!(is_small(&Batch::default()) && is_small(&common(10)));
        assert!(!is_small(&common(8_192)));
    }
}

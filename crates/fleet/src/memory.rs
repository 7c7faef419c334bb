//! The last minutes of a capture, kept as packets within a limit of bytes.
//!
//! One thread writes and never waits for anybody; any number of readers follow, each at its own place. The memory is every reader's
//! queue: whoever is slower than the stream falls behind in it, and loses what was forgotten before it was read, exactly counted and
//! told at its place.

use crate::feed::parts;
use arrow::buffer::Buffer;
use arrow::error::ArrowError;
use bytes::Bytes;
use magscope_core::clock::ClockSample;
use magscope_core::node::NodeInfo;
use magscope_core::{Batch, Event, Flow, Loss, LossCause, PayloadHead, ProbeHit, Task, TcpSample};
use magscope_session::{Announcer, BadPacket, Packer, Place, unpack};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Stretches that the memory is made of. The oldest is forgotten whole; each announces every flow and task that it uses.
const STRETCHES: u64 = 16;
/// Rows of each table in a packet at most.
pub const MAX_ROWS: usize = 16 << 10;
/// Bytes of payload in a packet at most.
const MAX_PAYLOAD: usize = 4 << 20;

/// A packet that is kept.
#[derive(Debug)]
pub struct Kept {
    /// Its place in the stream.
    pub place: Place,
    /// The whole Arrow message.
    pub message: Bytes,
    /// Records of the stream before it.
    pub before: u64,
    /// Its first and last instant, nanoseconds of the node's event clock.
    pub range_ns: (u64, u64),
    /// It announces flows or tasks.
    announces: bool,
}

impl Kept {
    /// Clears `batch` and fills it with what was kept.
    ///
    /// # Errors
    /// [`BadPacket`], which what was made here never is.
    pub fn unpack(&self, batch: &mut Batch) -> Result<(), BadPacket> {
        let (header, body) = parts(&self.message).unwrap_or_default();
        unpack(&header, &Buffer::from(body), batch).map(|_| ())
    }
}

/// What is kept, for its readers.
#[derive(Debug)]
pub struct Memory {
    stream: String,
    info: NodeInfo,
    limit_bytes: u64,
    kept: Mutex<Stretches>,
    more: Condvar,
    readers: AtomicUsize,
}

#[derive(Debug, Default)]
struct Stretches {
    all: VecDeque<Stretch>,
    bytes: u64,
    next: Place,
    lost: u64,
    /// UTC less the node's event clock, by the first reading of its clocks.
    to_utc_ns: Option<i64>,
    ended: bool,
}

#[derive(Debug, Default)]
struct Stretch {
    packets: Vec<Arc<Kept>>,
    bytes: u64,
}

/// How much is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holds {
    /// Bytes of packets.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Packets that came in all.
    pub came_packets: u64,
    /// Records that came in all, those told as lost among them.
    pub came_records: u64,
    /// Of those, lost before they came here.
    pub came_lost: u64,
    /// The first and last instant that is kept, nanoseconds of the node's event clock.
    pub range_ns: Option<(u64, u64)>,
}

/// Where to begin to read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// With what comes from now on.
    #[default]
    Now,
    /// With the oldest that is kept.
    Oldest,
    /// With the first packet that reaches this instant, nanoseconds of the node's event clock.
    At(u64),
    /// Behind a packet of this stream, as far as it is still kept. Of another stream, all that is kept.
    After {
        /// Name of the stream.
        stream: String,
        /// The packet's number.
        number: u64,
        /// Records of the stream up to its end.
        records: u64,
    },
}

/// What a reader gets.
#[derive(Debug)]
pub enum Next {
    /// The next packet.
    Packet(Arc<Kept>),
    /// Records that were forgotten before they were read. Then it goes on with what is left.
    Missed(Loss),
    /// Nothing came within the time.
    Nothing,
    /// The capture has ended and all of it was read.
    End,
}

/// A reader's place.
#[derive(Debug)]
pub struct Reader {
    memory: Arc<Memory>,
    /// The next packet's number, and the records up to there.
    at: Place,
    /// The last instant that was read.
    read_ns: u64,
}

impl Memory {
    /// An empty one, and what writes into it.
    ///
    /// # Errors
    /// Where Arrow was built without what packets need.
    pub fn new(info: NodeInfo, limit_bytes: u64) -> Result<(Arc<Self>, Writer), ArrowError> {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let memory = Arc::new(Memory {
            stream: format!("{:x}-{:x}", since_epoch.as_nanos(), std::process::id()),
            info,
            limit_bytes,
            kept: Mutex::default(),
            more: Condvar::new(),
            readers: AtomicUsize::new(0),
        });
        let mut announcer = Announcer::default();
        announcer.begin();
        let writer =
            Writer { memory: memory.clone(), packer: Packer::new()?, announcer, piece: Batch::default() };
        Ok((memory, writer))
    }

    /// The node that is captured.
    pub fn info(&self) -> &NodeInfo {
        &self.info
    }

    /// Tells this stream from any other, also of the same host.
    pub fn stream(&self) -> &str {
        &self.stream
    }

    /// How much it may keep, bytes.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// How much is kept.
    pub fn holds(&self) -> Holds {
        let kept = self.kept();
        let packets = || kept.all.iter().flat_map(|stretch| &stretch.packets);
        let began = packets().find(|packet| packet.range_ns.1 > 0).map(|packet| packet.range_ns.0);
        let ended = kept.all.iter().rev().flat_map(|stretch| stretch.packets.iter().rev());
        let ended = ended.map(|packet| packet.range_ns.1).find(|ns| *ns > 0);
        Holds {
            bytes: kept.bytes,
            packets: kept.all.iter().map(|stretch| stretch.packets.len() as u64).sum(),
            came_packets: kept.next.number,
            came_records: kept.next.records,
            came_lost: kept.lost,
            range_ns: began.zip(ended),
        }
    }

    /// UTC less the node's event clock, nanoseconds, as at the first reading of its clocks: waits for that; nothing if the capture ends
    /// before, or `given_up` says that nobody waits any more.
    pub fn to_utc_ns(&self, given_up: impl Fn() -> bool) -> Option<i64> {
        let mut kept = self.kept();
        while kept.to_utc_ns.is_none() && !kept.ended && !given_up() {
            let pause = Duration::from_millis(100);
            kept = self.more.wait_timeout(kept, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
        kept.to_utc_ns
    }

    /// Whether the capture has ended.
    pub fn has_ended(&self) -> bool {
        self.kept().ended
    }

    /// How many read it.
    pub fn readers(&self) -> usize {
        self.readers.load(Ordering::Relaxed)
    }

    fn kept(&self) -> MutexGuard<'_, Stretches> {
        // a panic elsewhere leaves no half-kept packet
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A reader from `start` on, and the packets that announce what was announced before it in its stretch.
    pub fn read(self: &Arc<Self>, start: &Start) -> (Reader, Vec<Arc<Kept>>) {
        let kept = self.kept();
        let oldest = kept.oldest();
        let at = match start {
            Start::Now => kept.next,
            Start::At(ns) => kept.reaching(*ns).unwrap_or(kept.next),
            Start::After { stream, number, records } if *stream == self.stream => {
                let number = number.saturating_add(1).min(kept.next.number);
                Place { number, records: (*records).min(kept.next.records) }
            }
            Start::Oldest | Start::After { .. } => oldest,
        };
        // Who was here before knows what was announced, unless it was forgotten since; then the next stretch announces it again.
        let knows = matches!(start, Start::After { stream, .. } if *stream == self.stream);
        let before = if knows { Vec::new() } else { kept.announced_before(at.number) };
        self.readers.fetch_add(1, Ordering::Relaxed);
        (Reader { memory: self.clone(), at, read_ns: 0 }, before)
    }
}

impl Stretches {
    /// The place of the first packet that is kept.
    fn oldest(&self) -> Place {
        let first = self.all.iter().find_map(|stretch| stretch.packets.first());
        first.map_or(self.next, |first| Place { number: first.place.number, records: first.before })
    }

    fn reaching(&self, ns: u64) -> Option<Place> {
        let reaching = self.all.iter().flat_map(|stretch| &stretch.packets).find(|p| p.range_ns.1 >= ns)?;
        Some(Place { number: reaching.place.number, records: reaching.before })
    }

    /// The packet with this number, or the first that is kept behind it.
    fn from(&self, number: u64) -> Option<&Arc<Kept>> {
        let last = |stretch: &Stretch| stretch.packets.last().map(|packet| packet.place.number);
        let at = self.all.partition_point(|stretch| last(stretch).is_none_or(|last| last < number));
        let packets = &self.all.get(at)?.packets;
        packets.get(packets.partition_point(|packet| packet.place.number < number))
    }

    /// Packets with announcements, of the stretch that a packet belongs to and before it.
    fn announced_before(&self, number: u64) -> Vec<Arc<Kept>> {
        let holds = |stretch: &&Stretch| stretch.packets.last().is_some_and(|last| last.place.number >= number);
        let Some(stretch) = self.all.iter().find(holds).or(self.all.back()) else { return Vec::new() };
        let before = stretch.packets.iter().take_while(|packet| packet.place.number < number);
        before.filter(|packet| packet.announces).cloned().collect()
    }
}

/// What of a batch has yet to be kept.
struct Rest<'b> {
    events: &'b [Event],
    flows: &'b [Flow],
    tasks: &'b [Task],
    tcp: &'b [TcpSample],
    hits: &'b [ProbeHit],
    heads: &'b [PayloadHead],
}

impl<'b> Rest<'b> {
    fn of(Batch { events, flows, tasks, tcp, hits, heads, .. }: &'b Batch) -> Self {
        Rest { events, flows, tasks, tcp, hits, heads }
    }

    /// Moves so much of it as fits into one packet, and says whether that was not all.
    fn take(&mut self, piece: &mut Batch) -> bool {
        fn some<T: Clone>(from: &mut &[T], to: &mut Vec<T>, most: usize) {
            let (now, later) = from.split_at(from.len().min(most));
            to.extend_from_slice(now);
            *from = later;
        }
        some(&mut self.events, &mut piece.events, MAX_ROWS);
        some(&mut self.flows, &mut piece.flows, MAX_ROWS);
        some(&mut self.tasks, &mut piece.tasks, MAX_ROWS);
        some(&mut self.tcp, &mut piece.tcp, MAX_ROWS);
        some(&mut self.hits, &mut piece.hits, MAX_ROWS);
        let mut bytes = 0;
        let fits = self.heads.iter().take(MAX_ROWS).take_while(|head| {
            bytes += head.bytes.len();
            bytes <= MAX_PAYLOAD
        });
        // One alone is never too long.
        let most = fits.count().max(1);
        some(&mut self.heads, &mut piece.heads, most);
        !(self.events.is_empty()
            && self.flows.is_empty()
            && self.tasks.is_empty()
            && self.tcp.is_empty()
            && self.hits.is_empty()
            && self.heads.is_empty())
    }
}

/// Writes into a memory; the only one that does.
pub struct Writer {
    memory: Arc<Memory>,
    packer: Packer,
    announcer: Announcer,
    piece: Batch,
}

impl Writer {
    /// Keeps a batch.
    ///
    /// # Errors
    /// What Arrow says; nothing is kept of the batch then, and its records are counted as missed by every reader.
    pub fn push(&mut self, batch: &Batch) -> Result<(), ArrowError> {
        if batch.is_empty() && batch.late == 0 {
            return Ok(());
        }
        let mut rest = Rest::of(batch);
        let mut result = Ok(());
        // The small tables go with the first piece.
        self.piece.clear();
        self.piece.losses.extend_from_slice(&batch.losses);
        self.piece.clock.extend_from_slice(&batch.clock);
        self.piece.changes.extend_from_slice(&batch.changes);
        self.piece.counts.extend_from_slice(&batch.counts);
        self.piece.late = batch.late;
        loop {
            let more = rest.take(&mut self.piece);
            let last = self.piece.events.last().filter(|_| !rest.events.is_empty());
            self.piece.watermark_ns =
                last.map_or(batch.watermark_ns, |last| last.time_ns.min(batch.watermark_ns));
            result = result.and(self.keep());
            if !more {
                return result;
            }
            self.piece.clear();
        }
    }

    fn keep(&mut self) -> Result<(), ArrowError> {
        let limit = self.memory.limit_bytes / STRETCHES;
        let begins = self.memory.kept().all.back().is_none_or(|stretch| stretch.bytes >= limit);
        if begins {
            self.announcer.begin();
        }
        self.announcer.complete(&mut self.piece);
        let before = self.memory.kept().next;
        let records = self.piece.numbered().saturating_add(self.piece.lost());
        let place = Place { number: before.number, records: before.records.saturating_add(records) };
        let message = self.packer.packet(place, &self.piece).map(Bytes::from);
        let times = self.piece.events.iter().map(|event| event.time_ns);
        let range_ns = times.fold((u64::MAX, 0), |(from, to), ns| (from.min(ns), to.max(ns)));
        let range_ns =
            if range_ns.1 == 0 { (self.piece.watermark_ns, self.piece.watermark_ns) } else { range_ns };
        let announces = !self.piece.flows.is_empty() || !self.piece.tasks.is_empty();
        let mut kept = self.memory.kept();
        kept.next = Place { number: place.number + 1, records: place.records };
        kept.lost = kept.lost.saturating_add(self.piece.lost());
        let first = self.piece.clock.first();
        let offset_ns = |sample: &ClockSample| sample.realtime_ns.wrapping_sub(sample.event_ns() as i64);
        kept.to_utc_ns = kept.to_utc_ns.or(first.map(offset_ns));
        let message = message?;
        let bytes = message.len() as u64 + size_of::<Kept>() as u64;
        kept.bytes += bytes;
        // Together with its first packet: readers never see a stretch without any.
        if begins {
            kept.all.push_back(Stretch::default());
        }
        if let Some(stretch) = kept.all.back_mut() {
            stretch.bytes += bytes;
            stretch.packets.push(Arc::new(Kept {
                place,
                message,
                before: before.records,
                range_ns,
                announces,
            }));
        }
        while kept.bytes > self.memory.limit_bytes && kept.all.len() > 1 {
            if let Some(forgotten) = kept.all.pop_front() {
                kept.bytes -= forgotten.bytes;
            }
        }
        drop(kept);
        self.memory.more.notify_all();
        Ok(())
    }
}

impl Drop for Writer {
    /// Readers get what is left, and then the end.
    fn drop(&mut self) {
        self.memory.kept().ended = true;
        self.memory.more.notify_all();
    }
}

impl Reader {
    /// The memory it reads.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// What comes next, waiting at most so long for it.
    pub fn next(&mut self, timeout: Duration) -> Next {
        let memory = self.memory.clone();
        let kept = memory.kept();
        let nothing_new = |kept: &mut Stretches| !kept.ended && kept.next.number <= self.at.number;
        let (kept, _) =
            memory.more.wait_timeout_while(kept, timeout, nothing_new).unwrap_or_else(PoisonError::into_inner);
        let Some(packet) = kept.from(self.at.number).cloned() else {
            // What could not be kept, at the end or before the next packet, is missed all the same.
            let count = kept.next.records.saturating_sub(self.at.records);
            self.at = Place { number: self.at.number.max(kept.next.number), records: kept.next.records };
            return match (count, kept.ended) {
                (1.., _) => Next::Missed(missed(self.read_ns, self.read_ns, count)),
                (0, true) => Next::End,
                (0, false) => Next::Nothing,
            };
        };
        drop(kept);
        let count = packet.before.saturating_sub(self.at.records);
        if count > 0 {
            self.at = Place { number: packet.place.number, records: packet.before };
            return Next::Missed(missed(self.read_ns, packet.range_ns.0, count));
        }
        self.at = Place { number: packet.place.number + 1, records: packet.place.records };
        self.read_ns = self.read_ns.max(packet.range_ns.1);
        Next::Packet(packet)
    }

    /// The next packet's number, and the records up to there.
    pub fn place(&self) -> Place {
        self.at
    }

    /// Records of the stream that it has not read yet.
    pub fn behind(&self) -> u64 {
        self.memory.kept().next.records.saturating_sub(self.at.records)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.memory.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

fn missed(from_ns: u64, to_ns: u64, count: u64) -> Loss {
    // Who has read nothing yet has missed nothing before what was forgotten.
    let from_ns = if from_ns == 0 { to_ns } else { from_ns.min(to_ns) };
    Loss { cpu: u16::MAX, from_ns, to_ns, count, cause: LossCause::Missed }
}

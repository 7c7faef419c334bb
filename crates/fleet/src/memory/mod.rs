//! The last minutes of a capture as packets, within a limit of bytes.
//!
//! One thread writes and never waits; any number of readers follow at their own positions. The memory is every
//! reader's queue. A slow reader loses the packets that are deleted before it reads them; the loss is counted
//! exactly and reported at its position.

mod reader;
mod writer;

pub use reader::{Next, Reader};
pub use writer::Writer;

use crate::feed::parts;
use arrow::buffer::Buffer;
use arrow::error::ArrowError;
use bytes::Bytes;
use magscope_core::Batch;
use magscope_core::changes::StoredChanges;
use magscope_core::node::NodeInfo;
use magscope_session::{Announcer, BadPacket, Packer, Place, unpack};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Number of segments in the memory. The oldest is deleted as a whole; each announces every flow and task that
/// it uses, and repeats the names and changes so far.
const STRETCHES: u64 = 16;
/// Maximum number of rows per table in a packet.
pub const MAX_ROWS: usize = 16 << 10;

/// A stored packet.
#[derive(Debug)]
pub struct StoredPacket {
    /// Position in the stream.
    pub place: Place,
    /// The whole Arrow message.
    pub message: Bytes,
    /// Number of earlier records in the stream.
    pub before: u64,
    /// First and last instant, nanoseconds of the node's event clock.
    pub range_ns: (u64, u64),
    /// True if the packet announces flows, tasks, names or changes.
    announces: bool,
}

impl StoredPacket {
    /// Clears `batch` and fills it with the packet's content.
    ///
    /// # Errors
    /// [`BadPacket`], which cannot occur for packets of this memory.
    pub fn unpack(&self, batch: &mut Batch) -> Result<(), BadPacket> {
        // A message without parts is refused below, like any other invalid packet.
        let (header, body) = parts(&self.message).unwrap_or_default();
        unpack(&header, &Buffer::from(body), batch).map(|_| ())
    }
}

/// The stored packets, for readers.
#[derive(Debug)]
pub struct Memory {
    stream: String,
    info: NodeInfo,
    limit_bytes: AtomicU64,
    stretches: Mutex<Stretches>,
    more: Condvar,
    readers: AtomicUsize,
}

#[derive(Debug, Default)]
struct Stretches {
    all: VecDeque<Stretch>,
    bytes: u64,
    next: Place,
    lost: u64,
    /// UTC minus the node's event clock, from the first clock sample.
    to_utc_ns: Option<i64>,
    ended: bool,
}

#[derive(Debug, Default)]
struct Stretch {
    packets: Vec<Arc<StoredPacket>>,
    bytes: u64,
}

/// Fill level of a memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holds {
    /// Bytes of packets.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Packets received in total.
    pub came_packets: u64,
    /// Records received in total, including those reported as lost.
    pub came_records: u64,
    /// Records lost before they arrived here.
    pub came_lost: u64,
    /// First and last stored instant, nanoseconds of the node's event clock.
    pub range_ns: Option<(u64, u64)>,
}

/// Start position of a reader.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// New packets only.
    #[default]
    Now,
    /// The oldest stored packet.
    Oldest,
    /// The first packet that reaches this instant, nanoseconds of the node's event clock.
    At(u64),
    /// After a packet of this stream, as far as stored. For another stream, all stored packets.
    After {
        /// Name of the stream.
        stream: String,
        /// The packet's number.
        number: u64,
        /// Records of the stream up to the packet's end.
        records: u64,
    },
}

impl Memory {
    /// An empty memory and its writer.
    ///
    /// # Errors
    /// Arrow lacks a feature that packets need.
    pub fn new(info: NodeInfo, limit_bytes: u64) -> Result<(Arc<Self>, Writer), ArrowError> {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let memory = Arc::new(Memory {
            stream: format!("{:x}-{:x}", since_epoch.as_nanos(), std::process::id()),
            info,
            limit_bytes: AtomicU64::new(limit_bytes),
            stretches: Mutex::default(),
            more: Condvar::new(),
            readers: AtomicUsize::new(0),
        });
        let mut announcer = Announcer::default();
        announcer.begin();
        let writer = Writer {
            memory: memory.clone(),
            packer: Packer::new()?,
            announcer,
            piece: Batch::default(),
            names: NodeInfo::default(),
            changes: StoredChanges::default(),
        };
        Ok((memory, writer))
    }

    /// The node that is captured.
    pub fn info(&self) -> &NodeInfo {
        &self.info
    }

    /// Unique id of this stream; another capture of the same host has another id.
    pub fn stream(&self) -> &str {
        &self.stream
    }

    /// Maximum size, bytes.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    /// Sets the maximum size. The next packet evicts the excess, oldest first.
    pub fn limit(&self, bytes: u64) {
        self.limit_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Current fill level.
    pub fn holds(&self) -> Holds {
        let stretches = self.stretches();
        let packets = || stretches.all.iter().flat_map(|stretch| &stretch.packets);
        let began = packets().find(|packet| packet.range_ns.1 > 0).map(|packet| packet.range_ns.0);
        let ended = stretches.all.iter().rev().flat_map(|stretch| stretch.packets.iter().rev());
        let ended = ended.map(|packet| packet.range_ns.1).find(|ns| *ns > 0);
        Holds {
            bytes: stretches.bytes,
            packets: stretches.all.iter().map(|stretch| stretch.packets.len() as u64).sum(),
            came_packets: stretches.next.number,
            came_records: stretches.next.records,
            came_lost: stretches.lost,
            range_ns: began.zip(ended),
        }
    }

    /// UTC minus the node's event clock, nanoseconds, from the first clock sample. Waits for that sample;
    /// `None` if the capture ends first or `given_up` returns true.
    pub fn to_utc_ns(&self, given_up: impl Fn() -> bool) -> Option<i64> {
        let mut stretches = self.stretches();
        while stretches.to_utc_ns.is_none() && !stretches.ended && !given_up() {
            let pause = Duration::from_millis(100);
            stretches = self.more.wait_timeout(stretches, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
        stretches.to_utc_ns
    }

    /// True if the capture has ended.
    pub fn has_ended(&self) -> bool {
        self.stretches().ended
    }

    /// Number of readers.
    pub fn readers(&self) -> usize {
        self.readers.load(Ordering::Relaxed)
    }

    fn stretches(&self) -> MutexGuard<'_, Stretches> {
        // a panic elsewhere leaves the memory consistent
        self.stretches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A reader from `start` on, and the packets with the earlier announcements of its segment.
    pub fn read(self: &Arc<Self>, start: &Start) -> (Reader, Vec<Arc<StoredPacket>>) {
        let stretches = self.stretches();
        let oldest = stretches.oldest();
        let at = match start {
            Start::Now => stretches.next,
            Start::At(ns) => stretches.reaching(*ns).unwrap_or(stretches.next),
            Start::After { stream, number, records } if *stream == self.stream => {
                let number = number.saturating_add(1).min(stretches.next.number);
                Place { number, records: (*records).min(stretches.next.records) }
            }
            Start::Oldest | Start::After { .. } => oldest,
        };
        // A reader that continues has the announcements, unless they were deleted since; the next segment then
        // repeats them.
        let knows = matches!(start, Start::After { stream, .. } if *stream == self.stream);
        let before = if knows { Vec::new() } else { stretches.announced_before(at.number) };
        self.readers.fetch_add(1, Ordering::Relaxed);
        (Reader { memory: self.clone(), at, read_ns: 0 }, before)
    }

    /// The packets with the earlier announcements of a reader's segment, also if the reader continues.
    pub fn announced_before(&self, reader: &Reader) -> Vec<Arc<StoredPacket>> {
        self.stretches().announced_before(reader.place().number)
    }
}

impl Stretches {
    /// The position of the oldest stored packet.
    fn oldest(&self) -> Place {
        let first = self.all.iter().find_map(|stretch| stretch.packets.first());
        first.map_or(self.next, |first| Place { number: first.place.number, records: first.before })
    }

    fn reaching(&self, ns: u64) -> Option<Place> {
        let reaching = self.all.iter().flat_map(|stretch| &stretch.packets).find(|p| p.range_ns.1 >= ns)?;
        Some(Place { number: reaching.place.number, records: reaching.before })
    }

    /// The packet with this number, or the first stored one after it.
    fn from(&self, number: u64) -> Option<&Arc<StoredPacket>> {
        let last = |stretch: &Stretch| stretch.packets.last().map(|packet| packet.place.number);
        let at = self.all.partition_point(|stretch| last(stretch).is_none_or(|last| last < number));
        let packets = &self.all.get(at)?.packets;
        packets.get(packets.partition_point(|packet| packet.place.number < number))
    }

    /// Earlier packets with announcements in the segment of a packet.
    fn announced_before(&self, number: u64) -> Vec<Arc<StoredPacket>> {
        let holds = |stretch: &&Stretch| stretch.packets.last().is_some_and(|last| last.place.number >= number);
        let Some(stretch) = self.all.iter().find(holds).or(self.all.back()) else { return Vec::new() };
        let before = stretch.packets.iter().take_while(|packet| packet.place.number < number);
        before.filter(|packet| packet.announces).cloned().collect()
    }
}

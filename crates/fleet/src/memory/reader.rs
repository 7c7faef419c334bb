//! Readers of a memory, each at its own position.

use super::{Memory, StoredPacket, Stretches};
use magscope_core::{Loss, LossCause};
use magscope_session::Place;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Result of a read.
#[derive(Debug)]
pub enum Next {
    /// The next packet.
    Packet(Arc<StoredPacket>),
    /// Records deleted before they were read. The reader continues with the rest.
    Missed(Loss),
    /// Timeout.
    Nothing,
    /// The capture has ended and everything was read.
    End,
}

/// State of a reader.
#[derive(Debug)]
pub struct Reader {
    pub(super) memory: Arc<Memory>,
    /// Number of the next packet, and of the records before it.
    pub(super) at: Place,
    /// The last instant read.
    pub(super) read_ns: u64,
}

impl Reader {
    /// The memory it reads.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// The next result, after at most `timeout`.
    pub fn next(&mut self, timeout: Duration) -> Next {
        let memory = self.memory.clone();
        let stretches = memory.stretches();
        let nothing_new =
            |stretches: &mut Stretches| !stretches.ended && stretches.next.number <= self.at.number;
        let (stretches, _) = memory
            .more
            .wait_timeout_while(stretches, timeout, nothing_new)
            .unwrap_or_else(PoisonError::into_inner);
        let Some(packet) = stretches.from(self.at.number).cloned() else {
            // Records that could not be stored, at the end or before the next packet, also count as missed.
            let count = stretches.next.records.saturating_sub(self.at.records);
            self.at =
                Place { number: self.at.number.max(stretches.next.number), records: stretches.next.records };
            return match (count, stretches.ended) {
                (1.., _) => Next::Missed(missed(self.read_ns, self.read_ns, count)),
                (0, true) => Next::End,
                (0, false) => Next::Nothing,
            };
        };
        drop(stretches);
        let count = packet.before.saturating_sub(self.at.records);
        if count > 0 {
            self.at = Place { number: packet.place.number, records: packet.before };
            return Next::Missed(missed(self.read_ns, packet.range_ns.0, count));
        }
        self.at = Place { number: packet.place.number + 1, records: packet.place.records };
        self.read_ns = self.read_ns.max(packet.range_ns.1);
        Next::Packet(packet)
    }

    /// Number of the next packet, and of the records before it.
    pub fn place(&self) -> Place {
        self.at
    }

    /// Number of unread records in the stream.
    pub fn behind(&self) -> u64 {
        self.memory.stretches().next.records.saturating_sub(self.at.records)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.memory.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

fn missed(from_ns: u64, to_ns: u64, count: u64) -> Loss {
    // A new reader has missed nothing before the deleted records.
    let from_ns = if from_ns == 0 { to_ns } else { from_ns.min(to_ns) };
    Loss { cpu: u16::MAX, from_ns, to_ns, count, cause: LossCause::Missed }
}

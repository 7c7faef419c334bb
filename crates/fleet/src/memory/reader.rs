//! What reads a memory, each reader at its own place.

use super::{Kept, Memory, Stretches};
use magscope_core::{Loss, LossCause};
use magscope_session::Place;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

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
    pub(super) memory: Arc<Memory>,
    /// The next packet's number, and the records up to there.
    pub(super) at: Place,
    /// The last instant that was read.
    pub(super) read_ns: u64,
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

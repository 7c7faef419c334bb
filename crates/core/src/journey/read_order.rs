//! The order of a TCP socket's reads.
//!
//! A read has its range from the reader's position at its return. Another thread may have read more by then, so its
//! range is too late. The ranges of all reads then have a gap or an overlap until each of them has returned: as long
//! as fewer bytes were reported than the position has moved, any of them may be another thread's.

use crate::hash::Map;

/// Longest wait for the return of another thread's read.
const MAX_WAIT_NS: u64 = 1_000_000_000;
/// Wait where no other thread has read the socket so far.
const FIRST_WAIT_NS: u64 = 50_000_000;
/// Bit of [`super::stream::Stream::last_reader`] after reads of two threads. Thread ids are below 2²².
const SEVERAL: u32 = 1 << 31;
/// Maximum number of stretches.
const MOST: usize = 1 << 14;

/// A stretch of a stream in which reads and ranges do not match.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from: u64,
    /// Bytes of all reads in it.
    reported: u64,
    since_ns: u64,
}

/// The stretches, by the slot of their stream: few streams have one.
#[derive(Debug, Default)]
pub(super) struct ReadOrder {
    stretches: Map<u32, Stretch>,
}

/// A read that returns.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadReturn {
    pub slot: u32,
    /// The reader was at this position before, as far as is known.
    pub end: u64,
    pub from: u64,
    pub to: u64,
    pub tid: u32,
    pub time_ns: u64,
}

/// What a read's order proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadProof {
    /// The range is its own.
    Own,
    /// It is its own unless another thread has read the socket.
    Doubtful,
    /// Bytes from `from` on may be another thread's.
    Ambiguous { from: u64 },
}

impl ReadOrder {
    /// Processes a read; `last_reader` is that of its stream.
    pub fn read(&mut self, read: &ReadReturn, last_reader: &mut u32) -> ReadProof {
        let ReadReturn { slot, end, from, to, tid, time_ns } = *read;
        let tid = tid & !SEVERAL;
        let is_other = *last_reader != 0 && *last_reader & !SEVERAL != tid;
        let several = is_other || *last_reader & SEVERAL != 0;
        *last_reader = if several { tid | SEVERAL } else { tid };
        if self.stretches.is_empty() && from == end {
            return ReadProof::Own; // nearly always
        }
        let wait_ns = if several { MAX_WAIT_NS } else { FIRST_WAIT_NS };
        let open = self.stretches.remove(&slot);
        let open = open.filter(|stretch| time_ns.saturating_sub(stretch.since_ns) < wait_ns);
        let mut stretch = match open {
            None if from == end => return ReadProof::Own,
            None => Stretch { from: end.min(from), reported: end.saturating_sub(from), since_ns: time_ns },
            Some(stretch) => stretch,
        };
        stretch.reported = stretch.reported.saturating_add(to.saturating_sub(from));
        if stretch.reported < end.max(to).saturating_sub(stretch.from) {
            if self.stretches.len() >= MOST {
                self.stretches.clear();
            }
            self.stretches.insert(slot, stretch);
        }
        if several { ReadProof::Ambiguous { from: stretch.from } } else { ReadProof::Doubtful }
    }
}

//! A batch: the unit of data from a source.

use crate::change::{Change, HopCount};
use crate::clock::ClockSample;
use crate::custom::ProbeHit;
use crate::event::Event;
use crate::flow::{Flow, Task, TcpSample};
use crate::head::PayloadHead;
use crate::synthesis::Synthesis;
use crate::workload::Names;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Events in order of time, and the data that they refer to. The caller owns and refills it, so that a steady
/// stream allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// In order of time, except `late` of them.
    pub events: Vec<Event>,
    /// Flows announced in this batch.
    pub flows: Vec<Flow>,
    /// Tasks announced in this batch.
    pub tasks: Vec<Task>,
    /// TCP state samples, in order of time.
    pub tcp: Vec<TcpSample>,
    /// Hits of custom probes, in order of time.
    pub hits: Vec<ProbeHit>,
    /// Payload heads, in order of time.
    pub heads: Vec<PayloadHead>,
    /// Losses, in order of their end.
    pub losses: Vec<Loss>,
    /// Clock samples of this node.
    pub clock: Vec<ClockSample>,
    /// Changes of the capture, in order of time.
    pub changes: Vec<Change>,
    /// Names that the node learned, in order of time.
    pub names: Vec<Names>,
    /// The kernel's counts at hops, with a filter or a sampler; later counts replace earlier ones.
    pub counts: Vec<HopCount>,
    /// The kernel's sums in place of events or in addition to them, ordered by the end of the interval.
    pub synthesis: Vec<Synthesis>,
    /// No later batch has an event before this time, except those counted in its `late`.
    pub watermark_ns: u64,
    /// Events in this batch older than the watermark of the previous batch: the bounded sort window was too
    /// short for them. They are stored and counted, and never reordered into the past.
    pub late: u64,
}

impl Batch {
    /// Empties it and keeps its memory, but for the memory of a peak.
    pub fn clear(&mut self) {
        empty(&mut self.events);
        empty(&mut self.flows);
        empty(&mut self.tasks);
        empty(&mut self.tcp);
        empty(&mut self.hits);
        empty(&mut self.heads);
        empty(&mut self.losses);
        empty(&mut self.clock);
        empty(&mut self.changes);
        empty(&mut self.names);
        empty(&mut self.counts);
        empty(&mut self.synthesis);
        self.late = 0;
    }

    /// True for an empty batch.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
            && self.flows.is_empty()
            && self.tasks.is_empty()
            && self.tcp.is_empty()
            && self.hits.is_empty()
            && self.heads.is_empty()
            && self.losses.is_empty()
            && self.clock.is_empty()
            && self.changes.is_empty()
            && self.names.is_empty()
            && self.counts.is_empty()
            && self.synthesis.is_empty()
    }

    /// Records that carry a number of their CPU's stream: events, TCP samples, hits and heads.
    pub fn numbered(&self) -> u64 {
        (self.events.len() + self.tcp.len() + self.hits.len() + self.heads.len()) as u64
    }

    /// Events lost within this batch, of any cause.
    pub fn lost(&self) -> u64 {
        self.losses.iter().fold(0, |all, loss| all.saturating_add(loss.count))
    }
}

/// Bytes that an empty table of a batch keeps, whatever it held.
const RETAINED_BYTES: usize = 256 << 10;

/// Empties a table. Its memory stays, if it is small or if the rows that it had used a quarter of it. So a peak's memory goes back.
fn empty<T>(rows: &mut Vec<T>) {
    let (used, most) = (rows.len(), RETAINED_BYTES / size_of::<T>());
    rows.clear();
    if rows.capacity() > most.max(4 * used) {
        *rows = Vec::new();
    }
}

/// Records that are known to be missing, at their place in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Loss {
    /// CPU whose stream has the gap; `u16::MAX` where it concerns all of them.
    pub cpu: u16,
    /// No loss before this instant, `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// No loss after this instant.
    pub to_ns: u64,
    /// Number of records.
    pub count: u64,
    /// Place of the loss.
    pub cause: LossCause,
}

/// The place where records were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum LossCause {
    /// The kernel's ring buffer was full: the reader was too late.
    RingFull = 0,
    /// A gap in the record numbers that no loss record explains.
    Gap = 1,
    /// The recorder's queue was full: the disk was too slow.
    RecorderQueue = 2,
    /// A damaged stretch of a session file was skipped.
    Damaged = 3,
    /// A record that the decoder could not read.
    Undecodable = 4,
    /// The kernel refused to run a probe, because the same probe was active on that CPU: each refusal may have
    /// been a hit.
    Refused = 5,
    /// A viewer was too late for the agent's buffer, or reached its limit of data.
    Missed = 6,
}

impl LossCause {
    /// All causes.
    pub const ALL: [LossCause; 7] = [
        Self::RingFull,
        Self::Gap,
        Self::RecorderQueue,
        Self::Damaged,
        Self::Undecodable,
        Self::Refused,
        Self::Missed,
    ];

    /// The cause with this number in a session file.
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|c| *c as u8 == id)
    }
}

impl fmt::Display for LossCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::RingFull => "ring buffer full",
            Self::Gap => "gap in record numbers",
            Self::RecorderQueue => "recorder queue full",
            Self::Damaged => "damaged file",
            Self::Undecodable => "undecodable record",
            Self::Refused => "refused by the kernel",
            Self::Missed => "missed by the viewer",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hop;

    fn fill(batch: &mut Batch, events: usize) {
        batch.clear();
        batch.events.resize(events, Event::at(Hop::DevXmit, 1));
    }

    #[test]
    fn a_steady_stream_allocates_once() {
        let mut batch = Batch::default();
        fill(&mut batch, 50_000);
        let memory = batch.events.as_ptr();
        for events in [50_000, 40_000, 20_000, 50_000] {
            fill(&mut batch, events);
            assert_eq!(batch.events.as_ptr(), memory);
        }
    }

    #[test]
    fn the_memory_of_a_peak_goes_back() {
        let mut batch = Batch::default();
        fill(&mut batch, 200_000);
        fill(&mut batch, 1_000);
        fill(&mut batch, 1_000);
        assert!(batch.events.capacity() * size_of::<Event>() <= RETAINED_BYTES, "{}", batch.events.capacity());
    }
}

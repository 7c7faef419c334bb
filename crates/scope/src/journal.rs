//! The journal: recent events, hits of custom probes, and isolated events in a list of their own.

use crate::look::PointKind;
use crate::probes::ProbeId;
use magscope_core::custom::ProbeHit;
use magscope_core::head::PayloadHead;
use magscope_core::hop::Role;
use magscope_core::{Batch, Event, FlowId, Hop};
use std::collections::VecDeque;

/// Maximum number of events and hits, the newest; 104 bytes each.
pub const MOST_EVENTS: usize = 1 << 16;
/// Maximum number of hits in a list of their own, so that events do not evict them. Lanes use them where tiles
/// are too coarse.
pub const MOST_HITS: usize = 1 << 16;
/// Maximum number of payload heads, the newest; each holds the number of bytes of the capture's setting.
pub const MOST_HEADS: usize = 1 << 12;
/// Maximum number of isolated events, the newest; 64 bytes each.
pub const MOST_MARKS: usize = 1 << 16;

/// An isolated event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mark {
    /// Instant.
    pub time_ns: u64,
    /// The kind of event.
    pub kind: PointKind,
    /// The hop, if any.
    pub hop: Option<Hop>,
    /// The recording and the flow of the packet; `None` for what is of no packet.
    pub flow: Option<(u16, FlowId)>,
}

impl Mark {
    /// The isolated event for a mark: an event off a packet's path.
    pub fn of(node: u16, event: &Event) -> Option<Self> {
        let (kind, hop) = match event.hop.role() {
            Role::Drop => (PointKind::Drop { node, reason: event.drop_reason() }, None),
            Role::Resend => (PointKind::Retransmit, Some(Hop::TcpXmit)),
            Role::Overflow => (PointKind::SocketFull, Some(Hop::UdpRecv)),
            Role::Send
            | Role::Packet
            | Role::Ready
            | Role::Reader
            | Role::Read
            | Role::End
            | Role::Sample
            | Role::Point
            | Role::Task => return None,
        };
        Some(Mark { time_ns: event.time_ns, kind, hop, flow: Some((node, event.flow)) })
    }

    /// The losses and changes of a batch.
    pub fn losses_and_changes(batch: &Batch) -> impl Iterator<Item = Self> + '_ {
        let losses = batch.losses.iter().map(|loss| (loss.to_ns, PointKind::EventLoss(loss.count)));
        let changes = batch.changes.iter().map(|change| (change.to_ns, PointKind::Change));
        losses.chain(changes).map(|(time_ns, kind)| Mark { time_ns, kind, hop: None, flow: None })
    }
}

/// A row of the journal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Entry {
    /// An event.
    Event(Event),
    /// A hit of a custom probe.
    Hit(ProbeId, ProbeHit),
}

impl Entry {
    /// Instant.
    pub const fn time_ns(&self) -> u64 {
        match self {
            Self::Event(event) => event.time_ns,
            Self::Hit(_, hit) => hit.time_ns,
        }
    }
}

/// A hit of a custom probe, of a recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeHit {
    /// The recording.
    pub node: u16,
    /// The probe.
    pub probe: ProbeId,
    /// The hit.
    pub hit: ProbeHit,
}

/// The journal.
#[derive(Debug, Default)]
pub struct Journal {
    entries: VecDeque<(u16, Entry)>,
    /// Rows before this had to go, or were left out.
    entries_from_ns: u64,
    hits: VecDeque<NodeHit>,
    /// The instant before which hits may be evicted.
    hits_from_ns: u64,
    heads: VecDeque<(u16, PayloadHead)>,
    /// The instant before which heads may be evicted.
    heads_from_ns: u64,
    marks: VecDeque<Mark>,
}

/// Stores one more, in order of time. Returns the oldest beyond the maximum.
fn keep<T>(all: &mut VecDeque<T>, one: T, most: usize, time_ns: impl Fn(&T) -> u64) -> Option<T> {
    let at_ns = time_ns(&one);
    if all.back().is_none_or(|last| time_ns(last) <= at_ns) {
        all.push_back(one);
    } else {
        let at = all.partition_point(|other| time_ns(other) <= at_ns);
        all.insert(at, one);
    }
    if all.len() > most { all.pop_front() } else { None }
}

impl Journal {
    /// Keeps an event.
    pub fn event(&mut self, node: u16, event: &Event) {
        self.entry(node, Entry::Event(*event));
    }

    /// Keeps a row.
    pub fn entry(&mut self, node: u16, entry: Entry) {
        let gone = keep(&mut self.entries, (node, entry), MOST_EVENTS, |(_, entry)| entry.time_ns());
        self.entries_from_ns = gone.map_or(self.entries_from_ns, |(_, gone)| {
            self.entries_from_ns.max(gone.time_ns().saturating_add(1))
        });
    }

    /// An event is not kept.
    pub fn leave_out(&mut self, event: &Event) {
        self.entries_from_ns = self.entries_from_ns.max(event.time_ns.saturating_add(1));
    }

    /// Since when every event that came is still there.
    pub const fn entries_from_ns(&self) -> u64 {
        self.entries_from_ns
    }

    /// Keeps a hit for the lanes.
    pub fn hit(&mut self, hit: NodeHit) {
        let gone = keep(&mut self.hits, hit, MOST_HITS, |hit| hit.hit.time_ns);
        self.hits_from_ns = gone.map_or(self.hits_from_ns, |gone| gone.hit.time_ns.saturating_add(1));
    }

    /// Keeps the head of a payload.
    pub fn head(&mut self, node: u16, head: &PayloadHead) {
        let gone = keep(&mut self.heads, (node, head.clone()), MOST_HEADS, |(_, head)| head.time_ns);
        self.heads_from_ns = gone.map_or(self.heads_from_ns, |(_, gone)| gone.time_ns.saturating_add(1));
    }

    /// Keeps a mark.
    pub fn mark(&mut self, mark: Mark) {
        keep(&mut self.marks, mark, MOST_MARKS, |mark| mark.time_ns);
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Rows from a place on.
    pub fn entries(&self, first: usize, most: usize) -> impl Iterator<Item = &(u16, Entry)> {
        let first = first.min(self.entries.len());
        self.entries.range(first..first.saturating_add(most).min(self.entries.len()))
    }

    /// The place of the first row not before an instant.
    pub fn place_of(&self, time_ns: u64) -> usize {
        self.entries.partition_point(|(_, entry)| entry.time_ns() < time_ns)
    }

    /// True if there is a row of this instant.
    pub fn has_at(&self, time_ns: u64) -> bool {
        self.get(self.place_of(time_ns)).is_some_and(|(_, entry)| entry.time_ns() == time_ns)
    }

    /// The row at a place.
    pub fn get(&self, at: usize) -> Option<&(u16, Entry)> {
        self.entries.get(at)
    }

    /// The instant since which the list of hits is complete.
    pub const fn hits_from_ns(&self) -> u64 {
        self.hits_from_ns
    }

    /// The hits of a stretch, both ends included, in order of time.
    pub fn hits(
        &self,
        from_ns: u64,
        to_ns: u64,
    ) -> impl ExactSizeIterator<Item = &NodeHit> + DoubleEndedIterator {
        let first = self.hits.partition_point(|hit| hit.hit.time_ns < from_ns);
        let end = self.hits.partition_point(|hit| hit.hit.time_ns <= to_ns);
        self.hits.range(first.min(end)..end)
    }

    /// The instant since which the list of heads is complete.
    pub const fn heads_from_ns(&self) -> u64 {
        self.heads_from_ns
    }

    /// The payload heads, in order of time.
    pub fn heads(&self) -> impl Iterator<Item = &(u16, PayloadHead)> {
        self.heads.iter()
    }

    /// The marks of a stretch, in order of time.
    pub fn marks(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = &Mark> {
        let first = self.marks.partition_point(|mark| mark.time_ns < from_ns);
        self.marks.range(first..).take_while(move |mark| mark.time_ns <= to_ns)
    }

    /// Forgets the marks.
    pub fn clear_marks(&mut self) {
        self.marks.clear();
    }

    /// Forgets all but the marks.
    pub fn clear_stretch(&mut self) {
        let marks = std::mem::take(&mut self.marks);
        *self = Journal { marks, ..Journal::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_in_order_and_bounded() {
        let mut journal = Journal::default();
        for n in 0..100_000_u64 {
            let late = if n % 10 == 0 { 3 } else { 0 };
            journal.event(0, &Event::at(Hop::DevXmit, 100 + n - late));
            journal.mark(Mark { time_ns: n, kind: PointKind::Retransmit, hop: None, flow: None });
        }
        assert_eq!((journal.len(), journal.marks.len()), (MOST_EVENTS, MOST_MARKS));
        assert!(journal.entries.iter().is_sorted_by_key(|(_, entry)| entry.time_ns()));
        assert_eq!(journal.marks(99_990, 200_000).count(), 10);
        let at = journal.place_of(99_000);
        assert!(journal.get(at).is_some_and(|(_, entry)| entry.time_ns() >= 99_000));
        assert_eq!(journal.entries(MOST_EVENTS - 2, 100).count(), 2);
        assert_eq!(journal.entries(usize::MAX, usize::MAX).count(), 0);
    }
}

//! The journal: the events as they came, and the isolated ones apart.

use crate::look::PointKind;
use magscope_core::{Batch, Event, Hop};
use std::collections::VecDeque;

/// Events kept, the newest; 80 bytes each.
pub const MOST_EVENTS: usize = 1 << 16;
/// Isolated events kept, the newest; 40 bytes each.
pub const MOST_MARKS: usize = 1 << 16;

/// An isolated event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mark {
    /// When.
    pub time_ns: u64,
    /// What.
    pub kind: PointKind,
    /// Where, if it was at a hop.
    pub hop: Option<Hop>,
}

impl Mark {
    /// What an event is by itself, if it is off a packet's path and worth a mark.
    pub fn of(event: &Event) -> Option<Self> {
        let (kind, hop) = match event.hop {
            Hop::SkbDrop => (PointKind::Drop(event.detail), None),
            Hop::TcpRetransmit => (PointKind::Retransmit, Some(Hop::TcpXmit)),
            Hop::SockFull => (PointKind::SocketFull, Some(Hop::UdpRecv)),
            _ => return None,
        };
        Some(Mark { time_ns: event.time_ns, kind, hop })
    }

    /// The losses and changes of a batch.
    pub fn beside(batch: &Batch) -> impl Iterator<Item = Self> + '_ {
        let losses = batch.losses.iter().map(|loss| (loss.to_ns, PointKind::EventLoss(loss.count)));
        let changes = batch.changes.iter().map(|change| (change.to_ns, PointKind::Change));
        losses.chain(changes).map(|(time_ns, kind)| Mark { time_ns, kind, hop: None })
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Journal {
    events: VecDeque<(u16, Event)>,
    marks: VecDeque<Mark>,
}

fn keep<T>(all: &mut VecDeque<T>, one: T, most: usize, time_ns: impl Fn(&T) -> u64) {
    let at_ns = time_ns(&one);
    if all.back().is_none_or(|last| time_ns(last) <= at_ns) {
        all.push_back(one);
    } else {
        let at = all.partition_point(|known| time_ns(known) <= at_ns);
        all.insert(at, one);
    }
    if all.len() > most {
        all.pop_front();
    }
}

impl Journal {
    /// Keeps an event.
    pub fn event(&mut self, node: u16, event: &Event) {
        keep(&mut self.events, (node, *event), MOST_EVENTS, |(_, event)| event.time_ns);
    }

    /// Keeps a mark.
    pub fn mark(&mut self, mark: Mark) {
        keep(&mut self.marks, mark, MOST_MARKS, |mark| mark.time_ns);
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Events from a place on.
    pub fn events(&self, first: usize, most: usize) -> impl Iterator<Item = &(u16, Event)> {
        let first = first.min(self.events.len());
        self.events.range(first..first.saturating_add(most).min(self.events.len()))
    }

    /// The place of the first event not before an instant.
    pub fn place_of(&self, time_ns: u64) -> usize {
        self.events.partition_point(|(_, event)| event.time_ns < time_ns)
    }

    /// The event at a place.
    pub fn get(&self, at: usize) -> Option<&(u16, Event)> {
        self.events.get(at)
    }

    /// The marks of a stretch, in order of time.
    pub fn marks(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = &Mark> {
        let first = self.marks.partition_point(|mark| mark.time_ns < from_ns);
        self.marks.range(first..).take_while(move |mark| mark.time_ns <= to_ns)
    }

    /// Forgets the events.
    pub fn clear_events(&mut self) {
        self.events.clear();
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
            journal.mark(Mark { time_ns: n, kind: PointKind::Retransmit, hop: None });
        }
        assert_eq!((journal.len(), journal.marks.len()), (MOST_EVENTS, MOST_MARKS));
        assert!(journal.events.iter().is_sorted_by_key(|(_, event)| event.time_ns));
        assert_eq!(journal.marks(99_990, 200_000).count(), 10);
        let at = journal.place_of(99_000);
        assert!(journal.get(at).is_some_and(|(_, event)| event.time_ns >= 99_000));
        assert_eq!(journal.events(MOST_EVENTS - 2, 100).count(), 2);
        assert_eq!(journal.events(usize::MAX, usize::MAX).count(), 0);
    }
}

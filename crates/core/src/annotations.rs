//! Custom probe hits and payload heads, buffered until their journeys end.
//!
//! A hit or head belongs to a journey by its flow and its bytes; without bytes, by its flow and time. Memory is
//! bounded: beyond [`MOST`] the oldest are evicted and counted.

use crate::batch::Batch;
use crate::custom::ProbeHit;
use crate::flow::{FlowId, Proto};
use crate::hash::Map;
use crate::head::PayloadHead;
use crate::journey::Journey;
use std::collections::VecDeque;

/// Maximum number of hits and heads.
pub const MOST: usize = 1 << 18;
/// Maximum distance in time between a journey and a record with its bytes: longer than retransmissions take,
/// shorter than identifications take to repeat.
const SLACK_NS: u64 = 1_000_000_000;

/// A hit or a head.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AnnotationItem {
    Hit(ProbeHit),
    Head(PayloadHead),
}

/// Which bytes, and when.
struct Mark {
    time_ns: u64,
    seq: u32,
    len: u32,
    ip_id: u16,
}

impl AnnotationItem {
    const fn mark(&self) -> Mark {
        match self {
            Self::Hit(hit) => Mark { time_ns: hit.time_ns, seq: hit.seq, len: hit.len, ip_id: hit.ip_id },
            Self::Head(head) => {
                Mark { time_ns: head.time_ns, seq: head.seq, len: head.of_bytes, ip_id: head.ip_id }
            }
        }
    }
}

/// Keeps hits and heads by flow.
#[derive(Debug, Default)]
pub struct Annotations {
    flows: Map<(u16, FlowId), VecDeque<AnnotationItem>>,
    order: VecDeque<(u16, FlowId)>,
    let_go: u64,
}

impl Annotations {
    /// Stores the hits and heads of a batch of a recording.
    pub fn take(&mut self, node: u16, batch: &Batch) {
        let hits = batch.hits.iter().map(|hit| (hit.flow, AnnotationItem::Hit(*hit)));
        let heads = batch.heads.iter().map(|head| (head.flow, AnnotationItem::Head(head.clone())));
        for (flow, item) in hits.chain(heads).filter(|(flow, _)| *flow != FlowId::NONE) {
            if self.order.len() >= MOST {
                self.let_go_of_oldest();
            }
            self.flows.entry((node, flow)).or_default().push_back(item);
            self.order.push_back((node, flow));
        }
    }

    fn let_go_of_oldest(&mut self) {
        let Some(key) = self.order.pop_front() else { return };
        self.let_go += 1;
        if let Some(items) = self.flows.get_mut(&key) {
            items.pop_front();
            if items.is_empty() {
                self.flows.remove(&key);
            }
        }
    }

    /// Number of records evicted before their journey ended.
    pub const fn let_go(&self) -> u64 {
        self.let_go
    }

    fn of<'a>(&'a self, journey: &'a Journey) -> impl Iterator<Item = (u16, &'a AnnotationItem)> {
        let ends = [(journey.tx_node, journey.tx_flow), (journey.rx_node, journey.rx_flow)];
        let ends = ends.into_iter().enumerate().filter(move |(i, end)| *i == 0 || ends[0] != *end);
        ends.flat_map(move |(_, end)| {
            let items = self.flows.get(&end).into_iter().flatten();
            items.filter(move |item| belongs(&item.mark(), journey)).map(move |item| (end.0, item))
        })
    }

    /// The hits of custom probes with this journey's bytes, each with its recording, in order of time.
    pub fn hits_of(&self, journey: &Journey) -> Vec<(u16, ProbeHit)> {
        let hit = |(node, item): (u16, &AnnotationItem)| {
            if let AnnotationItem::Hit(hit) = item { Some((node, *hit)) } else { None }
        };
        let mut hits: Vec<_> = self.of(journey).filter_map(hit).collect();
        hits.sort_by_key(|(_, hit)| hit.time_ns);
        hits
    }

    /// The heads of this journey's packets, in order of time.
    pub fn heads_of<'a>(&'a self, journey: &'a Journey) -> Vec<&'a PayloadHead> {
        let mut heads = Vec::new();
        for (_, item) in self.of(journey) {
            if let AnnotationItem::Head(head) = item {
                heads.push(head);
            }
        }
        heads.sort_by_key(|head| head.time_ns);
        heads
    }
}

/// The reason why a record belongs to a journey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchedBy {
    /// The record's bytes are the journey's.
    Bytes,
    /// It has the flow within the journey's time, but no bytes: it may belong to a neighbour.
    Time,
}

impl ProbeHit {
    /// The tie between this hit of a recording and a journey, if any.
    pub fn tie(&self, node: u16, journey: &Journey) -> Option<MatchedBy> {
        let mark = Mark { time_ns: self.time_ns, seq: self.seq, len: self.len, ip_id: self.ip_id };
        is_of_an_end(node, self.flow, journey).then(|| tie(&mark, journey)).flatten()
    }
}

impl PayloadHead {
    /// The tie between this head of a recording and a journey, if any.
    pub fn tie(&self, node: u16, journey: &Journey) -> Option<MatchedBy> {
        let mark = Mark { time_ns: self.time_ns, seq: self.seq, len: self.of_bytes, ip_id: self.ip_id };
        is_of_an_end(node, self.flow, journey).then(|| tie(&mark, journey)).flatten()
    }
}

fn is_of_an_end(node: u16, flow: FlowId, journey: &Journey) -> bool {
    let ends = [(journey.tx_node, journey.tx_flow), (journey.rx_node, journey.rx_flow)];
    flow != FlowId::NONE && ends.contains(&(node, flow))
}

fn belongs(mark: &Mark, journey: &Journey) -> bool {
    tie(mark, journey).is_some()
}

fn tie(mark: &Mark, journey: &Journey) -> Option<MatchedBy> {
    let named = if journey.proto == Proto::TCP {
        // a hit with a socket and no packet has no bytes; a packet without bytes is, for example, an
        // acknowledgement
        if mark.len == 0 && mark.seq == 0 {
            None
        } else {
            let ahead = mark.seq.wrapping_sub(journey.range.start as u32) as i32;
            Some(i64::from(ahead) < journey.bytes() as i64 && i64::from(ahead) + i64::from(mark.len) > 0)
        }
    } else if mark.ip_id != 0 && journey.ip_id != 0 {
        let nth = u64::from(journey.ip_id.wrapping_sub(mark.ip_id));
        match nth {
            0 => Some(true),
            // A super-packet is a run of datagrams with consecutive identifications. A longer datagram before
            // this one is, too: only the time distinguishes the former.
            _ => Some(nth * journey.bytes() < u64::from(mark.len)).filter(|fits| !fits),
        }
    } else if mark.len == 0 {
        None
    } else {
        Some(u64::from(mark.len) >= journey.bytes()).filter(|fits| !fits)
    };
    let slack_ns = if named.is_some() { SLACK_NS } else { 0 };
    let (start, end) = (journey.start_ns()?, journey.end_ns()?);
    let near = (start.saturating_sub(slack_ns)..=end.saturating_add(slack_ns)).contains(&mark.time_ns);
    match named.filter(|_| near) {
        Some(true) => Some(MatchedBy::Bytes),
        None if near => Some(MatchedBy::Time),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hop::Hop;
    use crate::source::{Progress, Source};
    use crate::{Correlator, Generator, GeneratorOptions, Limits};
    use std::time::Duration;

    #[test]
    fn a_hit_stands_with_the_journey_whose_bytes_it_saw() {
        let mut source =
            Generator::new(GeneratorOptions { events: 20_000, flows: 4, ..GeneratorOptions::default() });
        let mut correlator = Correlator::new(source.info().coverage.served(), Limits::default());
        let (mut annotations, mut done) = (Annotations::default(), Vec::new());
        let mut batch = Batch::default();
        while source.next(&mut batch, Duration::ZERO).expect("a generator never fails") == Progress::More {
            let passed = batch.events.iter().filter(|event| event.hop == Hop::DevRecv);
            let hit = |event: &crate::Event| ProbeHit {
                time_ns: event.time_ns,
                socket: 0,
                flow: event.flow,
                seq: event.seq(),
                len: event.len,
                tgid: 0,
                tid: 0,
                record: 0,
                cpu: event.cpu,
                ip_id: event.ip_id,
                probe: 0,
                proto: event.proto,
                known: 1,
                values: [event.time_ns as i64, 0, 0, 0],
            };
            batch.hits = passed.map(hit).collect();
            annotations.take(0, &batch);
            correlator.push(&batch, &mut done);
        }
        correlator.finish(&mut done);
        let mut matched = 0;
        for journey in done.iter().filter(|journey| journey.rungs.has(Hop::DevRecv)) {
            let at = journey.rungs.time_ns(Hop::DevRecv).expect("passed");
            let hits = annotations.hits_of(journey);
            assert!(
                hits.iter().any(|(_, hit)| hit.time_ns == at),
                "journey {} has {} hits",
                journey.id,
                hits.len()
            );
            matched += 1;
        }
        assert!(matched > 100, "{matched}");
        assert_eq!(annotations.let_go(), 0);
    }

    #[test]
    fn memory_is_bounded_and_what_is_let_go_is_counted() {
        let mut annotations = Annotations::default();
        let mut batch = Batch::default();
        for i in 0..MOST as u64 + 10 {
            let head = PayloadHead {
                time_ns: i,
                flow: FlowId(1 + i % 3),
                seq: 0,
                of_bytes: 1,
                event: 0,
                record: 0,
                cpu: 0,
                ip_id: 0,
                hop: Hop::DevXmit,
                proto: Proto::UDP,
                bytes: Vec::new(),
            };
            batch.heads = vec![head];
            annotations.take(0, &batch);
        }
        assert_eq!((annotations.order.len(), annotations.let_go()), (MOST, 10));
        assert_eq!(annotations.flows.values().map(VecDeque::len).sum::<usize>(), MOST);
    }
}

//! Writer of a memory: divides batches into packets of bounded size.

use super::{MAX_ROWS, Memory, STRETCHES, StoredPacket, Stretch};
use arrow::error::ArrowError;
use bytes::Bytes;
use magscope_core::changes::StoredChanges;
use magscope_core::clock::ClockSample;
use magscope_core::node::NodeInfo;
use magscope_core::workload::Names;
use magscope_core::{Batch, Event, Flow, PayloadHead, ProbeHit, Synthesis, Task, TcpSample};
use magscope_session::{Announcer, Packer, Place};
use std::sync::Arc;

/// Maximum payload of a packet, bytes.
const MAX_PAYLOAD: usize = 4 << 20;

/// The unwritten rest of a batch.
struct PendingRows<'b> {
    events: &'b [Event],
    flows: &'b [Flow],
    tasks: &'b [Task],
    tcp: &'b [TcpSample],
    hits: &'b [ProbeHit],
    heads: &'b [PayloadHead],
    synthesis: &'b [Synthesis],
}

impl<'b> PendingRows<'b> {
    fn of(Batch { events, flows, tasks, tcp, hits, heads, synthesis, .. }: &'b Batch) -> Self {
        PendingRows { events, flows, tasks, tcp, hits, heads, synthesis }
    }

    /// Moves as much as fits into one packet; returns true if a rest remains.
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
        some(&mut self.synthesis, &mut piece.synthesis, MAX_ROWS);
        let mut bytes = 0;
        let fits = self.heads.iter().take(MAX_ROWS).take_while(|head| {
            bytes += head.bytes.len();
            bytes <= MAX_PAYLOAD
        });
        // A single head always fits.
        let most = fits.count().max(1);
        some(&mut self.heads, &mut piece.heads, most);
        !(self.events.is_empty()
            && self.flows.is_empty()
            && self.tasks.is_empty()
            && self.tcp.is_empty()
            && self.hits.is_empty()
            && self.heads.is_empty()
            && self.synthesis.is_empty())
    }
}

/// The only writer of a memory.
pub struct Writer {
    pub(super) memory: Arc<Memory>,
    pub(super) packer: Packer,
    pub(super) announcer: Announcer,
    pub(super) piece: Batch,
    /// The names so far, which each stretch repeats.
    pub(super) names: NodeInfo,
    /// The changes so far, which each stretch repeats.
    pub(super) changes: StoredChanges,
}

impl Writer {
    /// Stores a batch.
    ///
    /// # Errors
    /// Arrow's error. The batch is then not stored, and every reader counts its records as missed.
    pub fn push(&mut self, batch: &Batch) -> Result<(), ArrowError> {
        if batch.is_empty() && batch.late == 0 {
            return Ok(());
        }
        let mut rest = PendingRows::of(batch);
        let mut result = Ok(());
        // The first piece carries the small tables.
        self.piece.clear();
        self.piece.losses.extend_from_slice(&batch.losses);
        self.piece.clock.extend_from_slice(&batch.clock);
        self.piece.changes.extend_from_slice(&batch.changes);
        self.piece.counts.extend_from_slice(&batch.counts);
        self.piece.names.extend_from_slice(&batch.names);
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
        let limit = self.memory.limit_bytes() / STRETCHES;
        let begins = self.memory.stretches().all.back().is_none_or(|stretch| stretch.bytes >= limit);
        if begins {
            self.announcer.begin();
            let NodeInfo { netns, interfaces, cgroups, containers, .. } = self.names.clone();
            let names = Names { time_ns: self.piece.watermark_ns, netns, interfaces, cgroups, containers };
            self.piece.names.splice(0..0, Some(names).filter(|names| !names.is_empty()));
            self.piece.changes.splice(0..0, self.changes.all().iter().cloned());
        }
        self.changes.remember(&self.piece.changes);
        for names in &self.piece.names {
            self.names.learn(names);
        }
        self.announcer.complete(&mut self.piece);
        let before = self.memory.stretches().next;
        let records = self.piece.numbered().saturating_add(self.piece.lost());
        let place = Place { number: before.number, records: before.records.saturating_add(records) };
        let message = self.packer.packet(place, &self.piece).map(Bytes::from);
        let times = self.piece.events.iter().map(|event| event.time_ns);
        let range_ns = times.fold((u64::MAX, 0), |(from, to), ns| (from.min(ns), to.max(ns)));
        let range_ns =
            if range_ns.1 == 0 { (self.piece.watermark_ns, self.piece.watermark_ns) } else { range_ns };
        let Batch { flows, tasks, names, changes, .. } = &self.piece;
        let announces = !(flows.is_empty() && tasks.is_empty() && names.is_empty() && changes.is_empty());
        let mut stretches = self.memory.stretches();
        stretches.next = Place { number: place.number + 1, records: place.records };
        stretches.lost = stretches.lost.saturating_add(self.piece.lost());
        let first = self.piece.clock.first();
        let offset_ns = |sample: &ClockSample| sample.realtime_ns.wrapping_sub(sample.event_ns() as i64);
        stretches.to_utc_ns = stretches.to_utc_ns.or(first.map(offset_ns));
        let message = message?;
        let bytes = message.len() as u64 + size_of::<StoredPacket>() as u64;
        stretches.bytes += bytes;
        // Added together with its first packet: readers never see an empty segment.
        if begins {
            stretches.all.push_back(Stretch::default());
        }
        if let Some(stretch) = stretches.all.back_mut() {
            stretch.bytes += bytes;
            stretch.packets.push(Arc::new(StoredPacket {
                place,
                message,
                before: before.records,
                range_ns,
                announces,
            }));
        }
        while stretches.bytes > self.memory.limit_bytes() && stretches.all.len() > 1 {
            if let Some(forgotten) = stretches.all.pop_front() {
                stretches.bytes -= forgotten.bytes;
            }
        }
        drop(stretches);
        self.memory.more.notify_all();
        Ok(())
    }
}

impl Drop for Writer {
    /// Readers get the rest, and then the end.
    fn drop(&mut self) {
        self.memory.stretches().ended = true;
        self.memory.more.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Next, Start};
    use super::*;
    use magscope_core::{Change, Hop};
    use std::time::Duration;

    fn changes(packet: &StoredPacket) -> Vec<Change> {
        let mut batch = Batch::default();
        packet.unpack(&mut batch).expect("a packet");
        batch.changes
    }

    #[test]
    fn every_stretch_repeats_the_changes_so_far() {
        let (memory, mut writer) = Memory::new(NodeInfo::default(), 64_000).expect("Arrow");
        let change = Change { from_ns: 1, to_ns: 2, what: "disable dev.queue".to_owned() };
        let batch = Batch { changes: vec![change.clone()], watermark_ns: 2, ..Batch::default() };
        writer.push(&batch).expect("it is stored");
        let (_, before) = memory.read(&Start::Now);
        assert_eq!(before.iter().map(|packet| changes(packet)).collect::<Vec<_>>(), [[change.clone()]]);
        for ns in 3..500 {
            let events = vec![Event::at(Hop::IpOut, ns); 100];
            writer.push(&Batch { events, watermark_ns: ns, ..Batch::default() }).expect("it is stored");
        }
        let (mut reader, _) = memory.read(&Start::Oldest);
        let Next::Packet(oldest) = reader.next(Duration::ZERO) else { panic!("it is stored") };
        assert!(oldest.place.number > 0, "the packet with the change is deleted");
        assert_eq!(changes(&oldest), std::slice::from_ref(&change));
        let (_, before) = memory.read(&Start::Now);
        assert_eq!(before.iter().map(|packet| changes(packet)).collect::<Vec<_>>(), [[change]]);
    }
}

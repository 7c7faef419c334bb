//! One client's stream: a thread that reads the memory at its own position, at the speed of its client.

use crate::client_filter::ClientFilter;
use crate::memory::{MAX_ROWS, Memory, Next, Reader, StoredPacket};
use crate::outbox::{Outbox, Stopped};
use crate::request::{Request, StreamContent};
use arrow::error::ArrowError;
use bytes::Bytes;
use magscope_core::changes::NewChanges;
use magscope_core::{Batch, Flow, FlowId, Loss, Task};
use magscope_session::{Packer, Place};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Interval between two checks for a disconnected client.
const PAUSE: Duration = Duration::from_millis(200);

/// A client's stream.
pub struct Feed {
    memory: Arc<Memory>,
    request: Request,
    give: StreamContent,
    filter: Option<ClientFilter>,
    new_changes: NewChanges,
    out: Outbox,
    packer: Packer,
    batch: Batch,
}

impl From<ArrowError> for Stopped {
    fn from(error: ArrowError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl Feed {
    /// A stream of this memory for this request.
    ///
    /// # Errors
    /// Arrow lacks a feature that packets need.
    pub fn new(
        memory: Arc<Memory>,
        request: Request,
        give: StreamContent,
        terms_filter: Option<ClientFilter>,
        out: Outbox,
    ) -> Result<Self, ArrowError> {
        let packer = Packer::new()?;
        let (new_changes, batch) = (NewChanges::default(), Batch::default());
        Ok(Feed { memory, request, give, filter: terms_filter, new_changes, out, packer, batch })
    }

    /// Sends until the end of the stream or of the client.
    pub fn run(mut self) {
        if let Err(because) = self.send_all() {
            self.out.fail(&because);
        }
    }

    fn send_all(&mut self) -> Result<(), Stopped> {
        let table = if let StreamContent::Rows(table) = self.give { Some(table) } else { None };
        let schema = self.packer.schema(table)?;
        self.send(&Bytes::from(schema))?;
        let end = self.request.pull.then(|| self.memory.holds().came_packets);
        let (mut reader, before) = self.memory.read(&self.request.from);
        if before.is_empty() && self.filter.is_some() {
            self.relearn(&reader)?;
        }
        self.announced(&reader, &before)?;
        loop {
            if end.is_some_and(|end| reader.place().number >= end) {
                return Ok(());
            }
            match reader.next(PAUSE) {
                Next::Packet(packet)
                    if self.request.until_ns.is_some_and(|until| packet.range_ns.0 > until) =>
                {
                    return Ok(());
                }
                Next::Packet(packet) => self.pass(&packet)?,
                Next::Missed(loss) => self.missed(loss, reader.place())?,
                Next::Nothing if self.out.is_closed() => return Err(Stopped::Gone),
                Next::Nothing if end.is_some() => return Ok(()),
                Next::Nothing => {}
                Next::End => return Ok(()),
            }
        }
    }

    /// Gives the filter the earlier announcements. A client that continues has them, but its filter is new.
    fn relearn(&mut self, reader: &Reader) -> Result<(), Stopped> {
        for packet in self.memory.announced_before(reader) {
            self.unpack(&packet)?;
            let Batch { flows, tasks, names, .. } = std::mem::take(&mut self.batch);
            let mut announced = Batch { flows, tasks, names, ..Batch::default() };
            if let Some(terms_filter) = &mut self.filter {
                terms_filter.apply(&mut announced, self.memory.info());
                self.out.holds_tables(terms_filter.held_bytes())?;
            }
        }
        Ok(())
    }

    /// Sends the announcements from before the start position.
    fn announced(&mut self, reader: &Reader, before: &[Arc<StoredPacket>]) -> Result<(), Stopped> {
        let mut flows: BTreeMap<FlowId, Flow> = BTreeMap::new();
        let mut tasks: BTreeMap<(u32, u32), Task> = BTreeMap::new();
        // Names and changes are few; they are sent first.
        let mut first = Batch::default();
        for packet in before {
            self.unpack(packet)?;
            flows.extend(self.batch.flows.drain(..).map(|flow| (flow.id, flow)));
            tasks.extend(self.batch.tasks.drain(..).map(|task| ((task.tgid, task.tid), task)));
            first.names.append(&mut self.batch.names);
            first.changes.append(&mut self.batch.changes);
        }
        let place = reader.place();
        let place = Place { number: place.number.saturating_sub(1), records: place.records };
        let (flows, tasks): (Vec<Flow>, Vec<Task>) =
            (flows.into_values().collect(), tasks.into_values().collect());
        let (mut flows, mut tasks) = (flows.chunks(MAX_ROWS), tasks.chunks(MAX_ROWS));
        loop {
            let (some, more) = (flows.next(), tasks.next());
            if some.is_none() && more.is_none() && first.is_empty() {
                return Ok(());
            }
            let (flows, tasks) = (some.unwrap_or_default().to_vec(), more.unwrap_or_default().to_vec());
            self.batch = Batch { flows, tasks, ..std::mem::take(&mut first) };
            self.filter_and_send(place)?;
        }
    }

    fn pass(&mut self, packet: &StoredPacket) -> Result<(), Stopped> {
        if self.filter.is_none() && self.give == StreamContent::Packets {
            return self.send(&packet.message);
        }
        self.unpack(packet)?;
        self.filter_and_send(packet.place)
    }

    fn missed(&mut self, loss: Loss, place: Place) -> Result<(), Stopped> {
        self.batch = Batch { losses: vec![loss], watermark_ns: loss.from_ns, ..Batch::default() };
        self.filter_and_send(Place { number: place.number.saturating_sub(1), records: place.records })
    }

    fn unpack(&mut self, packet: &StoredPacket) -> Result<(), Stopped> {
        packet.unpack(&mut self.batch).map_err(|error| Stopped::Failed(error.to_string()))
    }

    fn filter_and_send(&mut self, place: Place) -> Result<(), Stopped> {
        self.new_changes.retain(&mut self.batch.changes);
        if let Some(terms_filter) = &mut self.filter {
            terms_filter.apply(&mut self.batch, self.memory.info());
            self.out.holds_tables(terms_filter.held_bytes())?;
        }
        let message = match self.give {
            StreamContent::Packets if self.batch.is_empty() => None,
            StreamContent::Packets => Some(self.packer.packet(place, &self.batch)?),
            StreamContent::Rows(table) => self.packer.rows(table, &self.batch)?,
            // Computed elsewhere.
            StreamContent::Flat(_) => None,
        };
        message.map_or(Ok(()), |message| self.send(&Bytes::from(message)))
    }

    fn send(&self, message: &Bytes) -> Result<(), Stopped> {
        self.out.send(message)
    }
}

/// Metadata and body of a message, which Flight sends separately.
pub fn parts(message: &Bytes) -> Option<(Bytes, Bytes)> {
    let length = u32::from_le_bytes(*message.get(4..)?.first_chunk()?) as usize;
    let end = length.checked_add(8).filter(|end| *end <= message.len())?;
    Some((message.slice(8..end), message.slice(end..)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grants::Grants;
    use crate::hosts::Hosts;
    use crate::memory::Start;
    use crate::pki::Peer;
    use crate::readers::ReaderBudget;
    use crate::request::Terms;
    use arrow::buffer::Buffer;
    use magscope_core::node::{CgroupName, NodeInfo};
    use magscope_core::workload::Names;
    use magscope_core::{Container, Event, Hop};
    use magscope_session::unpack;
    use tokio::sync::mpsc::channel;

    #[test]
    fn the_filter_of_a_client_that_continues_has_the_earlier_announcements() {
        let (memory, mut writer) = Memory::new(NodeInfo::default(), 64 << 20).expect("Arrow");
        let path = "/docker/6dcf81d5d93c".to_owned();
        let container = Container { name: "web".to_owned(), cgroup: path.clone(), ..Container::default() };
        let cgroups = vec![CgroupName { id: 9, path }];
        let names = Names { cgroups, containers: vec![container], ..Names::default() };
        let task = Task { tgid: 7, tid: 7, uid: 0, cgroup: 9, comm: "nginx".to_owned() };
        let call = |ns: u64| Event { tgid: 7, tid: 7, socket: 3, ..Event::at(Hop::AppSend, ns) };
        let (names, tasks) = (vec![names], vec![task]);
        let first = Batch { names, tasks, events: vec![call(5)], watermark_ns: 5, ..Batch::default() };
        writer.push(&first).expect("it is stored");
        let second = Batch { events: vec![call(6)], watermark_ns: 6, ..Batch::default() };
        writer.push(&second).expect("it is stored");

        // The client has the first packet.
        let from = Start::After { stream: memory.stream().to_owned(), number: 0, records: 1 };
        let terms = Terms { filter: Some("container = web".to_owned()), ..Terms::default() };
        let terms_filter = ClientFilter::new(&terms, &Grants::default()).expect("terms");
        let request = Request { from, pull: true, terms, ..Request::default() };
        let budget = ReaderBudget::new(Hosts::of(vec![memory.clone()]), 1 << 30);
        let peer = Peer { name: "me".to_owned(), grants: Grants::default() };
        let (out, mut sent) = channel(16);
        let out = Outbox::new(out, budget.admit(&peer, 0).expect("it fits"));
        let feed = Feed::new(memory, request, StreamContent::Packets, terms_filter, out).expect("Arrow");
        feed.run();
        let (mut batch, mut times) = (Batch::default(), Vec::new());
        while let Some(message) = sent.blocking_recv() {
            let data = message.expect("no error");
            // The schema has no body.
            if !data.data_body.is_empty() {
                unpack(&data.data_header, &Buffer::from(data.data_body), &mut batch).expect("a packet");
                times.extend(batch.events.iter().map(|event| event.time_ns));
            }
        }
        assert_eq!(times, [6]);
    }
}

//! Streams that an agent computes for a client: journeys, their hops, and sums over time.
//!
//! The correlator and tables are those of recordings, applied to the data that the client may read, with
//! bounded memory per client.

use crate::client_filter::ClientFilter;
use crate::memory::{Memory, Next, Reader};
use crate::outbox::{Outbox, Stopped};
use crate::request::{Derived, Request};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use magscope_core::Batch;
use magscope_core::changes::NewChanges;
use magscope_core::journey::Limits;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source, SourceError};
use magscope_export::table::plain;
use magscope_export::{Chosen, Export, ExportError, Periods, Table, TableWriter, Tables, TimeLine};
use magscope_session::Packer;
use magscope_timeline::join::OneClock;
use magscope_timeline::merged_reader::Walker;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum number of journeys in flight per client: some 500 bytes each, and twice that while a table grows.
const IN_FLIGHT: usize = 1 << 14;
/// Maximum number of flows per client.
const FLOWS: usize = 1 << 14;
/// Memory of one client's correlator and unsent rows, bytes.
const JOURNEYS_BYTES: u64 = 24 << 20;
/// Additional memory for sums over time, bytes: up to 32 periods with 4,096 groups each.
const PERIODS_BYTES: u64 = 24 << 20;
/// Interval between two checks for a disconnected client, and between two messages at low load.
const PAUSE: Duration = Duration::from_millis(200);
/// Time for which a period accepts journeys that end late.
const LATE_NS: u64 = 3_000_000_000;

/// Memory reserved for one client's computation, without its queue and filter, bytes.
pub fn work_bytes(table: Table) -> u64 {
    if table == Table::Periods { JOURNEYS_BYTES + PERIODS_BYTES } else { JOURNEYS_BYTES }
}

/// The transmitted columns: names as text, because some clients do not support changing dictionaries.
pub fn schema(table: Table) -> SchemaRef {
    let plain = |field: &Arc<Field>| match field.data_type() {
        DataType::Dictionary(_, values) => Field::new(field.name(), (**values).clone(), field.is_nullable()),
        _ => (**field).clone(),
    };
    Arc::new(Schema::new(table.schema().fields().iter().map(plain).collect::<Vec<_>>()))
}

/// Sends the requested rows until the end of the stream or of the client.
pub fn run(
    memory: &Arc<Memory>,
    request: &Request,
    derived: Derived,
    terms_filter: Option<ClientFilter>,
    out: &Outbox,
) {
    if let Err(because) = send_all(memory, request, derived, terms_filter, out) {
        out.fail(&stopped(because));
    }
}

/// The reason behind an error. The source has it as it is, the sink within an I/O error, and a table writer within
/// its own error.
fn stopped(because: SourceError) -> Stopped {
    let because = match because.downcast::<Stopped>() {
        Ok(stopped) => return *stopped,
        Err(because) => because,
    };
    let of_io = |error: io::Error| error.downcast().unwrap_or_else(|error| Stopped::Failed(error.to_string()));
    match because.downcast::<ExportError>() {
        Ok(error) => match *error {
            ExportError::Io(error) => of_io(error),
            error @ (ExportError::Arrow(_) | ExportError::Parquet(_) | ExportError::Format(_)) => {
                Stopped::Failed(error.to_string())
            }
        },
        Err(because) => match because.downcast::<io::Error>() {
            Ok(error) => of_io(*error),
            Err(because) => Stopped::Failed(because.to_string()),
        },
    }
}

fn send_all(
    memory: &Arc<Memory>,
    request: &Request,
    derived: Derived,
    filter: Option<ClientFilter>,
    out: &Outbox,
) -> Result<(), SourceError> {
    let sink = Sink { out: out.clone(), packer: Packer::new()? };
    let message = sink.packer.schema_of(&schema(derived.table))?;
    sink.send(message)?;
    let Some(to_utc_ns) = memory.to_utc_ns(|| out.is_closed()) else { return Ok(()) };
    let line = TimeLine { to_utc_ns: Some(to_utc_ns) };
    let info =
        filter.as_ref().map_or_else(|| memory.info().clone(), |terms_filter| terms_filter.host(memory.info()));
    let infos = [info.clone()];
    let chosen = Chosen { tables: vec![derived.table], filter: derived.filter };
    let mut export: Box<dyn Export> = match derived.every_ns {
        Some(every_ns) => {
            let open = usize::try_from(LATE_NS.div_ceil(every_ns)).unwrap_or(usize::MAX).saturating_add(1);
            Box::new(Periods::new(&infos, line, chosen, every_ns, sink).keeping_open(open))
        }
        None => Box::new(Tables::new(&infos, line, chosen, sink)),
    };
    let source = Pulled::new(memory, info, request, filter, out.clone());
    let limits = Limits { max_pieces: IN_FLIGHT, max_flows: FLOWS, ..Limits::default() };
    let mut walker = Walker::new(vec![Box::new(source)], &OneClock, limits, PAUSE);
    let (mut failed, mut passed_on) = (None, Instant::now());
    loop {
        let progress = walker.step(&mut |piece| {
            if failed.is_none() {
                failed = export.piece(&piece).err();
            }
        })?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        if progress == Progress::End {
            break;
        }
        if passed_on.elapsed() >= PAUSE {
            export.flush()?;
            passed_on = Instant::now();
        }
    }
    export.finish()?;
    Ok(())
}

/// The memory as a source, for one client.
struct Pulled {
    reader: Reader,
    /// The node, restricted to the client's grants.
    info: NodeInfo,
    /// Announcements from before the start position.
    before: Option<Batch>,
    new_changes: NewChanges,
    terms_filter: Option<ClientFilter>,
    /// The sequence number of the end.
    end: Option<u64>,
    until_ns: Option<u64>,
    out: Outbox,
}

impl Pulled {
    fn new(
        memory: &Arc<Memory>,
        info: NodeInfo,
        request: &Request,
        terms_filter: Option<ClientFilter>,
        out: Outbox,
    ) -> Self {
        let end = request.pull.then(|| memory.holds().came_packets);
        let (reader, _) = memory.read(&request.from);
        // Also for a client that continues: it has the rows, not the announcements.
        let before = memory.announced_before(&reader);
        let mut announced = Batch::default();
        let mut batch = Batch::default();
        for packet in before {
            if packet.unpack(&mut batch).is_ok() {
                announced.flows.append(&mut batch.flows);
                announced.tasks.append(&mut batch.tasks);
                announced.names.append(&mut batch.names);
                announced.changes.append(&mut batch.changes);
            }
        }
        let (before, new_changes, until_ns) = (Some(announced), NewChanges::default(), request.until_ns);
        Pulled { reader, info, before, new_changes, terms_filter, end, until_ns, out }
    }
}

impl Source for Pulled {
    fn info(&self) -> &NodeInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Batch, timeout: Duration) -> Result<Progress, SourceError> {
        batch.clear();
        if let Some(before) = self.before.take() {
            *batch = before;
        } else if self.out.is_closed() || self.end.is_some_and(|end| self.reader.place().number >= end) {
            return Ok(Progress::End);
        } else {
            match self.reader.next(timeout) {
                Next::Packet(packet) if self.until_ns.is_some_and(|until| packet.range_ns.0 > until) => {
                    return Ok(Progress::End);
                }
                Next::Packet(packet) => packet.unpack(batch)?,
                Next::Missed(loss) => batch.losses.push(loss),
                Next::Nothing if self.end.is_some() => return Ok(Progress::End),
                Next::Nothing => {}
                Next::End => return Ok(Progress::End),
            }
        }
        self.new_changes.retain(&mut batch.changes);
        if let Some(terms_filter) = &mut self.terms_filter {
            terms_filter.apply(batch, self.reader.memory().info());
            self.out.holds_tables(terms_filter.held_bytes()).map_err(Stopped::from)?;
        }
        Ok(Progress::More)
    }
}

/// Sends rows to the client.
struct Sink {
    out: Outbox,
    packer: Packer,
}

impl Sink {
    fn send(&self, message: Vec<u8>) -> io::Result<()> {
        self.out.send(&Bytes::from(message)).map_err(io::Error::other)
    }
}

impl TableWriter for Sink {
    fn rows(&mut self, table: Table, _: u16, batch: &RecordBatch) -> Result<(), ExportError> {
        let schema = schema(table);
        let columns: Vec<ArrayRef> = batch.columns().iter().map(plain).collect::<Result<_, _>>()?;
        let message = self.packer.message_of(&RecordBatch::try_new(schema, columns)?)?;
        Ok(self.send(message)?)
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grants::Grants;
    use crate::hosts::Hosts;
    use crate::memory::Start;
    use crate::pki::Peer;
    use crate::readers::ReaderBudget;
    use magscope_core::Change;
    use magscope_core::node::CgroupName;
    use magscope_core::workload::Names;
    use tokio::sync::mpsc::channel;

    #[test]
    fn changes_and_names_from_before_the_start_come_first_and_once() {
        let (memory, mut writer) = Memory::new(NodeInfo::default(), 64 << 20).expect("Arrow");
        let change = Change { from_ns: 1, to_ns: 2, what: "disable dev.queue".to_owned() };
        let cgroups = vec![CgroupName { id: 5, path: "/later".to_owned() }];
        let names = Names { time_ns: 1, cgroups, ..Names::default() };
        let first = Batch {
            changes: vec![change.clone()],
            names: vec![names.clone()],
            watermark_ns: 2,
            ..Batch::default()
        };
        writer.push(&first).expect("it is stored");
        let budget = ReaderBudget::new(Hosts::of(vec![memory.clone()]), 1 << 30);
        let peer = Peer { name: "me".to_owned(), grants: Grants::default() };
        let (out, _rows) = channel(1);
        let out = Outbox::new(out, budget.admit(&peer, 0).expect("it fits"));
        let mut pulled = Pulled::new(&memory, NodeInfo::default(), &Request::default(), None, out);
        writer.push(&first).expect("it is stored");
        let mut next = || {
            let mut batch = Batch::default();
            assert_eq!(pulled.next(&mut batch, Duration::ZERO).expect("a source"), Progress::More);
            batch
        };
        let before = next();
        assert_eq!((before.changes, before.names), (vec![change], vec![names]));
        assert!(next().changes.is_empty(), "it came before");
    }

    #[test]
    fn rows_of_a_client_that_continues_have_the_earlier_names() {
        let (memory, mut writer) = Memory::new(NodeInfo::default(), 64 << 20).expect("Arrow");
        let cgroups = vec![CgroupName { id: 5, path: "/later".to_owned() }];
        let names = Names { time_ns: 1, cgroups, ..Names::default() };
        let first = Batch { names: vec![names.clone()], watermark_ns: 2, ..Batch::default() };
        writer.push(&first).expect("it is stored");
        let budget = ReaderBudget::new(Hosts::of(vec![memory.clone()]), 1 << 30);
        let peer = Peer { name: "me".to_owned(), grants: Grants::default() };
        let (out, _rows) = channel(1);
        let out = Outbox::new(out, budget.admit(&peer, 0).expect("it fits"));
        let from = Start::After { stream: memory.stream().to_owned(), number: 0, records: 0 };
        let request = Request { from, ..Request::default() };
        let mut pulled = Pulled::new(&memory, NodeInfo::default(), &request, None, out);
        let mut batch = Batch::default();
        assert_eq!(pulled.next(&mut batch, Duration::ZERO).expect("a source"), Progress::More);
        assert_eq!(batch.names, [names]);
    }

    #[test]
    fn a_limit_is_found_in_whatever_error_it_comes() {
        let gone = || io::Error::other(Stopped::Gone);
        let errors: [SourceError; 3] =
            [Box::new(Stopped::Gone), Box::new(gone()), Box::new(ExportError::Io(gone()))];
        for error in errors {
            assert!(matches!(stopped(error), Stopped::Gone));
        }
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert!(matches!(stopped(Box::new(ExportError::Io(full))), Stopped::Failed(_)));
        assert!(matches!(stopped(Box::new(ExportError::Format("x".to_owned()))), Stopped::Failed(_)));
    }
}

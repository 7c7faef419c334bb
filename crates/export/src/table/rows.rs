//! From batches and journeys to rows of the flat tables, in constant memory.

use super::column::{Key, Keys};
use super::definition::{Table, columns};
use crate::error::ExportError;
use crate::names::Names;
use crate::timeline::TimeLine;
use crate::wire;
use arrow::array::RecordBatch;
use magscope_core::batch::{Batch, Loss};
use magscope_core::clock::ClockSample;
use magscope_core::context::Context;
use magscope_core::journey::{Across, Latency};
use magscope_core::node::NodeInfo;
use magscope_core::together::Piece;
use magscope_core::{Direction, Event, Filter, Flow, FlowId, Journey, Task, TcpSample, Verdict};

/// Rows after which a table is handed over.
const BATCH_ROWS: usize = 16 << 10;

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Chosen {
    /// Which tables; empty: all.
    pub tables: Vec<Table>,
    /// Only these journeys and their hops. The other tables know no journeys and are not concerned.
    pub filter: Option<Filter>,
}

impl Chosen {
    /// Whether a table is asked for.
    pub fn has(&self, table: Table) -> bool {
        self.tables.is_empty() || self.tables.contains(&table)
    }

    /// Whether a journey is asked for.
    pub fn wants(&self, journey: &Journey, context: &dyn Context) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.matches(journey, context))
    }
}

/// Where finished rows go: the table, the node they belong to, and the rows.
pub type Out<'o> = dyn FnMut(Table, u16, RecordBatch) -> Result<(), ExportError> + 'o;

/// The tables of one node.
#[derive(Default)]
struct Node {
    events: columns::Events,
    hops: columns::Hops,
    journeys: columns::Journeys,
    flows: columns::Flows,
    tcp: columns::Tcp,
    losses: columns::Losses,
    clock: columns::Clock,
}

/// Makes rows of batches and journeys. Rows of a table come in the order of the recording: events of a node by time but for late ones,
/// journeys in the order they ended.
pub struct Rows {
    chosen: Chosen,
    line: TimeLine,
    names: Names,
    nodes: Vec<Node>,
    new_flows: Vec<Flow>,
}

impl Rows {
    /// Of these nodes.
    pub fn new(infos: &[NodeInfo], line: TimeLine, chosen: Chosen) -> Self {
        Rows {
            chosen,
            line,
            names: Names::new(infos),
            nodes: infos.iter().map(|_| Node::default()).collect(),
            new_flows: Vec::new(),
        }
    }

    /// Adds a piece; what is full goes to `out`.
    pub fn piece(&mut self, piece: &Piece<'_>, out: &mut Out<'_>) -> Result<(), ExportError> {
        match piece {
            Piece::Batch(node, batch) => {
                self.batch(*node, batch);
                self.flush(BATCH_ROWS, out)
            }
            Piece::Journey(journey, _, context) => {
                if self.chosen.wants(journey, *context) {
                    self.journey(journey, *context);
                    self.flush(BATCH_ROWS, out)?;
                }
                Ok(())
            }
        }
    }

    /// Hands over what is left.
    pub fn finish(&mut self, out: &mut Out<'_>) -> Result<(), ExportError> {
        self.flush(1, out)
    }

    fn flush(&mut self, at_least: usize, out: &mut Out<'_>) -> Result<(), ExportError> {
        for (at, node) in self.nodes.iter_mut().enumerate() {
            macro_rules! flush {
                ($($table:ident $field:ident),*) => { $(
                    if node.$field.rows >= at_least {
                        out(Table::$table, at as u16, node.$field.finish()?)?;
                    }
                )* };
            }
            flush!(Events events, Hops hops, Journeys journeys, Flows flows, Tcp tcp, Losses losses, Clock clock);
        }
        Ok(())
    }

    fn batch(&mut self, node: u16, batch: &Batch) {
        let mut new = std::mem::take(&mut self.new_flows);
        self.names.learn(node, batch, &mut new);
        let Rows { chosen, line, names, nodes, .. } = self;
        let Some(tables) = nodes.get_mut(usize::from(node)) else { return };
        if chosen.has(Table::Flows) {
            let at_ns = batch.events.first().map_or(batch.watermark_ns, |event| event.time_ns);
            for flow in &new {
                flow_row(&mut tables.flows, *line, names, node, flow, at_ns);
            }
        }
        if chosen.has(Table::Events) {
            event_rows(&mut tables.events, *line, names, node, &batch.events);
        }
        let host = names.host(node);
        if chosen.has(Table::Tcp) {
            batch.tcp.iter().for_each(|sample| tcp_row(&mut tables.tcp, *line, &host, sample));
        }
        if chosen.has(Table::Losses) {
            batch.losses.iter().for_each(|loss| loss_row(&mut tables.losses, *line, &host, loss));
        }
        if chosen.has(Table::Clock) {
            batch.clock.iter().for_each(|sample| clock_row(&mut tables.clock, &host, sample));
        }
        self.new_flows = new;
    }

    fn journey(&mut self, journey: &Journey, context: &dyn Context) {
        let Rows { chosen, line, names, nodes, .. } = self;
        let (tx, rx) = (context.tx_flow(journey), context.rx_flow(journey));
        let key = wire::key(journey, tx, rx);
        if chosen.has(Table::Hops) {
            hop_rows(nodes, *line, names, journey, context, key);
        }
        if chosen.has(Table::Journeys) {
            // A journey stands with its sender, or where it was seen.
            let node = if journey.tx_flow.is_none() { journey.rx_node } else { journey.tx_node };
            if let Some(tables) = nodes.get_mut(usize::from(node)) {
                journey_row(&mut tables.journeys, *line, names, journey, context, key);
            }
        }
    }
}

fn some_id(id: FlowId) -> Option<u64> {
    Some(id.0).filter(|id| *id != 0)
}

fn some_u32(n: u32) -> Option<u32> {
    Some(n).filter(|n| *n != 0)
}

/// Column by column: there are as many of these as of all other rows together.
fn event_rows(rows: &mut columns::Events, line: TimeLine, names: &mut Names, node: u16, events: &[Event]) {
    let each = || events.iter();
    rows.rows += events.len();
    rows.ts_ns.extend(each().map(|event| line.ns(event.time_ns)));
    rows.ts.extend(each().map(|event| line.ns(event.time_ns)), line.to_utc_ns.is_some());
    rows.host.repeat(&names.host(node), events.len());
    let (mut places, mut hops, mut protos, mut comms) =
        (Keys::default(), Keys::default(), Keys::default(), Keys::default());
    for event in events {
        let netns = names.netns(node, event);
        let place = netns.and_then(|netns| places.get(netns, || rows.place.key(&names.place(node, netns))));
        rows.place.push_key(place);
        let hop_key = hops.get(event.hop as u8, || rows.hop.key(event.hop.name()));
        rows.hop.push_key(hop_key);
        let proto_key = protos.get(event.proto.0, || rows.proto.key(&proto(event.proto)));
        rows.proto.push_key(proto_key);
        let comm_key = comms.get(event.tid, || rows.comm.key(names.comm(node, event.tid)));
        rows.comm.push_key(comm_key);
    }
    rows.cpu.extend(each().map(|event| u32::from(event.cpu)));
    rows.flow.extend(each().map(|event| event.flow.0));
    rows.socket.extend(each().map(|event| event.socket));
    rows.seq.extend(each().map(|event| i64::from(event.seq)));
    rows.len.extend(each().map(|event| i64::from(event.len)));
    rows.segs.extend(each().map(|event| u32::from(event.segs)));
    rows.ip_id.extend(each().map(|event| u32::from(event.ip_id)));
    rows.tcp_flags.extend(each().map(|event| u32::from(event.tcp_flags)));
    rows.ttl.extend(each().map(|event| u32::from(event.ttl)));
    rows.tos.extend(each().map(|event| u32::from(event.tos)));
    rows.flags.extend(each().map(|event| u32::from(event.flags.0)));
    rows.tgid.extend(each().map(|event| event.tgid));
    rows.tid.extend(each().map(|event| event.tid));
    rows.ifindex.extend(each().map(|event| event.ifindex));
    rows.skb.extend(each().map(|event| i64::from(event.skb)));
    rows.detail.extend(each().map(|event| i64::from(event.detail)));
    rows.record.extend(each().map(|event| i64::from(event.record)));
}

/// `tcp` without a new string for the usual ones.
pub(super) fn proto(proto: magscope_core::Proto) -> std::borrow::Cow<'static, str> {
    use magscope_core::Proto;
    match proto {
        Proto::TCP => "tcp".into(),
        Proto::UDP => "udp".into(),
        other => other.to_string().into(),
    }
}

fn flow_row(rows: &mut columns::Flows, line: TimeLine, names: &mut Names, node: u16, flow: &Flow, at_ns: u64) {
    rows.rows += 1;
    rows.ts_ns.push_signed(line.ns(at_ns));
    rows.ts.push(line.utc_ns(at_ns));
    rows.flow.push(flow.id.0);
    rows.host.push(&names.host(node));
    rows.place.push(&names.place(node, flow.netns));
    rows.netns.push(u64::from(flow.netns));
    rows.proto.push(proto(flow.proto).as_ref());
    rows.local_addr.push(Some(flow.local.ip()));
    rows.local_port.push(flow.local.port());
    rows.remote_addr.push(Some(flow.remote.ip()));
    rows.remote_port.push(flow.remote.port());
}

fn tcp_row(rows: &mut columns::Tcp, line: TimeLine, host: &str, sample: &TcpSample) {
    rows.rows += 1;
    rows.ts_ns.push_signed(line.ns(sample.time_ns));
    rows.ts.push(line.utc_ns(sample.time_ns));
    rows.host.push(host);
    rows.flow.push(some_id(sample.flow));
    rows.socket.push(sample.socket);
    rows.cwnd.push(u64::from(sample.cwnd));
    rows.ssthresh.push(u64::from(sample.ssthresh));
    rows.srtt_us.push(u64::from(sample.srtt_us));
    rows.rttvar_us.push(u64::from(sample.rttvar_us));
    rows.rto_us.push(u64::from(sample.rto_us));
    rows.packets_out.push(u64::from(sample.packets_out));
    rows.total_retrans.push(u64::from(sample.total_retrans));
    rows.snd_wnd.push(u64::from(sample.snd_wnd));
    rows.rcv_wnd.push(u64::from(sample.rcv_wnd));
    rows.snd_una.push(u64::from(sample.snd_una));
    rows.snd_nxt.push(u64::from(sample.snd_nxt));
    rows.send_queue_bytes.push(u64::from(sample.send_queue_bytes));
    rows.recv_queue_bytes.push(u64::from(sample.recv_queue_bytes));
    rows.state.push(sample.state);
    rows.ca_state.push(sample.ca_state);
}

fn loss_row(rows: &mut columns::Losses, line: TimeLine, host: &str, loss: &Loss) {
    rows.rows += 1;
    rows.ts_ns.push_signed(line.ns(loss.from_ns));
    rows.ts.push(line.utc_ns(loss.from_ns));
    rows.to_ns.push_signed(line.ns(loss.to_ns));
    rows.host.push(host);
    rows.cpu.push(Some(loss.cpu).filter(|cpu| *cpu != u16::MAX));
    rows.lost.push(loss.count);
    rows.cause.push(&loss.cause.to_string());
}

fn clock_row(rows: &mut columns::Clock, host: &str, sample: &ClockSample) {
    rows.rows += 1;
    rows.ts_ns.push_signed(sample.realtime_ns);
    rows.ts.push(Some(sample.realtime_ns));
    rows.host.push(host);
    rows.monotonic_ns.push(sample.monotonic_ns);
    rows.raw_ns.push(sample.raw_ns);
    rows.realtime_ns.push_signed(sample.realtime_ns);
    rows.width_ns.push(u64::from(sample.width_ns));
    rows.suspended_ns.push(sample.suspended_ns);
    rows.tai_offset_s.push(sample.tai_offset_s);
    rows.realtime_steps.push(sample.realtime_steps);
    rows.clocksource.push(sample.clocksource as u8);
    rows.frequency.push_signed(sample.frequency);
    rows.status.push(u64::from(sample.status));
    rows.utc_error_ns.push(sample.utc_error_ns);
}

/// What the hops of one end of a journey have in common.
struct End<'j> {
    task: Option<&'j Task>,
    host: Key,
    place: Key,
    direction: Key,
    proto: Key,
    verdict: Key,
}

impl<'j> End<'j> {
    fn of(
        rows: &mut columns::Hops,
        names: &mut Names,
        journey: &'j Journey,
        context: &'j dyn Context,
        sent: bool,
    ) -> Self {
        let (node, flow, task, direction) = if sent {
            (journey.tx_node, context.tx_flow(journey), context.sender(journey), "tx")
        } else {
            (journey.rx_node, context.rx_flow(journey), context.reader(journey), "rx")
        };
        End {
            task,
            host: rows.host.key(&names.host(node)),
            place: flow.and_then(|flow| rows.place.key(&names.place(node, flow.netns))),
            direction: rows.direction.key(direction),
            proto: rows.proto.key(&proto(journey.proto)),
            verdict: rows.verdict.key(journey.verdict.name()),
        }
    }
}

fn hop_rows(
    nodes: &mut [Node],
    line: TimeLine,
    names: &mut Names,
    journey: &Journey,
    context: &dyn Context,
    key: Option<u64>,
) {
    let mut latencies = journey.latencies().peekable();
    let mut ends: [Option<End>; 2] = [None, None];
    for rung in journey.all_rungs() {
        let sent = rung.hop.direction() == Direction::Tx;
        let node = if sent { journey.tx_node } else { journey.rx_node };
        let Some(rows) = nodes.get_mut(usize::from(node)).map(|node| &mut node.hops) else { continue };
        let end = ends[usize::from(sent)].get_or_insert_with(|| End::of(rows, names, journey, context, sent));
        // Latencies come in the order of the rungs they end at, with some rungs left out.
        let latency: Option<Latency> = latencies.next_if(|latency| latency.to == rung.hop);
        rows.rows += 1;
        rows.ts_ns.push_signed(line.ns(rung.time_ns));
        rows.ts.push(line.utc_ns(rung.time_ns));
        rows.journey.push(journey.id);
        rows.host.push_key(end.host);
        rows.place.push_key(end.place);
        rows.hop.push(rung.hop.name());
        rows.step.push(rung.hop as u8);
        rows.direction.push_key(end.direction);
        rows.cpu.push(rung.cpu);
        rows.tgid.push(some_u32(rung.tgid));
        rows.tid.push(some_u32(rung.tid));
        let task = end.task.filter(|task| rung.tid != 0 && task.tid == rung.tid);
        rows.comm.push(task.map_or("", |task| &task.comm));
        rows.proto.push_key(end.proto);
        rows.flow.push(some_id(rung.flow));
        rows.bytes.push(journey.bytes());
        rows.at_return.push(rung.at_return);
        rows.from_hop.push(latency.map_or("", |latency| latency.from.name()));
        rows.latency_ns.push(latency.map(|latency| latency.ns));
        rows.half_width_ns.push(latency.map(|latency| latency.half_width_ns));
        rows.verdict.push_key(end.verdict);
        rows.whole.push(journey.verdict.is_whole());
        rows.wire_key.push(key);
        rows.wire_bucket.push(key.map(wire::bucket));
    }
}

fn journey_row(
    rows: &mut columns::Journeys,
    line: TimeLine,
    names: &mut Names,
    journey: &Journey,
    context: &dyn Context,
    key: Option<u64>,
) {
    let (tx, rx) = (context.tx_flow(journey), context.rx_flow(journey));
    let ends = tx.map(|f| (f.local, f.remote)).or_else(|| rx.map(|f| (f.remote, f.local)));
    let (start_ns, end_ns) = (journey.start_ns().unwrap_or(0), journey.end_ns().unwrap_or(0));
    rows.rows += 1;
    rows.ts_ns.push_signed(line.ns(start_ns));
    rows.ts.push(line.utc_ns(start_ns));
    rows.journey.push(journey.id);
    rows.end_ns.push_signed(line.ns(end_ns));
    let total_ns = journey.total_ns();
    rows.total_ns.push(total_ns);
    rows.half_width_ns.push(total_ns.map(|_| journey.total_half_width_ns()));
    rows.across.push(match journey.across {
        Across::OneClock => "one-clock",
        Across::Bounded { .. } => "bounded",
        Across::Apart => "apart",
    });
    rows.proto.push(&proto(journey.proto));
    rows.verdict.push(journey.verdict.name());
    rows.whole.push(journey.verdict.is_whole());
    let (hop, reason) = match journey.verdict {
        Verdict::LostAfter { hop } | Verdict::NotProbed { beyond: hop } | Verdict::Filtered { beyond: hop } => {
            (hop.name(), None)
        }
        Verdict::Dropped { hop, reason } => (hop.name(), Some(reason)),
        _ => ("", None),
    };
    rows.verdict_hop.push(hop);
    rows.drop_reason.push(reason);
    rows.bytes.push(journey.bytes());
    rows.range_start.push(journey.range.start);
    rows.range_end.push(journey.range.end);
    rows.ip_id.push(journey.ip_id);
    rows.src_addr.push(ends.map(|(from, _)| from.ip()));
    rows.src_port.push(ends.map(|(from, _)| from.port()));
    rows.dst_addr.push(ends.map(|(_, to)| to.ip()));
    rows.dst_port.push(ends.map(|(_, to)| to.port()));
    rows.tx_host.push(&tx.map(|_| names.host(journey.tx_node)).unwrap_or_default());
    rows.tx_place.push(&tx.map(|flow| names.place(journey.tx_node, flow.netns)).unwrap_or_default());
    rows.rx_host.push(&rx.map(|_| names.host(journey.rx_node)).unwrap_or_default());
    rows.rx_place.push(&rx.map(|flow| names.place(journey.rx_node, flow.netns)).unwrap_or_default());
    rows.tx_flow.push(some_id(journey.tx_flow));
    rows.rx_flow.push(some_id(journey.rx_flow));
    let cgroup = |node: u16, task: Option<&magscope_core::Task>| {
        task.and_then(|task| context.info(node)?.cgroup_path(task.cgroup)).unwrap_or_default()
    };
    let (sender, reader) = (context.sender(journey), context.reader(journey));
    rows.sender.push(sender.map_or("", |task| task.comm.as_str()));
    rows.sender_tgid.push(journey.sender.and_then(|who| some_u32(who.tgid)));
    rows.sender_tid.push(journey.sender.and_then(|who| some_u32(who.tid)));
    rows.sender_cgroup.push(cgroup(journey.tx_node, sender));
    rows.reader.push(reader.map_or("", |task| task.comm.as_str()));
    rows.reader_tgid.push(journey.reader.and_then(|who| some_u32(who.tgid)));
    rows.reader_tid.push(journey.reader.and_then(|who| some_u32(who.tid)));
    rows.reader_cgroup.push(cgroup(journey.rx_node, reader));
    rows.hops.push(journey.rungs.len() as i64);
    rows.retransmits.push(journey.retransmits());
    rows.ambiguous.push(journey.ambiguous);
    rows.wire_key.push(key);
    rows.wire_bucket.push(key.map(wire::bucket));
}

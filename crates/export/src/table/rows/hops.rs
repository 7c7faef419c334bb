//! Rows of `hops`.

use super::{Node, proto, some_id, some_u32};
use crate::names::Names;
use crate::table::column::{Key, Keys};
use crate::table::definition::columns;
use crate::timeline::TimeLine;
use crate::wire;
use magscope_core::context::Context;
use magscope_core::journey::Rung;
use magscope_core::{Direction, Flow, Hop, Journey, Task};

/// Keys of hop names, valid until the rows are taken.
#[derive(Default)]
pub struct Common {
    hops: Keys<u8>,
    from_hops: Keys<u8>,
}

/// Common data of the hops at one end of a journey.
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
        let (node, flow, task) = if sent {
            (journey.tx_node, context.tx_flow(journey), context.sender(journey))
        } else {
            (journey.rx_node, context.rx_flow(journey), context.reader(journey))
        };
        Self::at(rows, names, journey, (node, flow, task, sent))
    }

    /// The same of one event of a forwarder.
    fn of_forwarder(
        rows: &mut columns::Hops,
        names: &mut Names,
        journey: &Journey,
        context: &'j dyn Context,
        rung: &Rung,
    ) -> Self {
        let (node, sent) = (journey.node_of(rung), rung.hop.direction() == Direction::Tx);
        Self::at(rows, names, journey, (node, context.flow(node, rung.flow), None, sent))
    }

    fn at(
        rows: &mut columns::Hops,
        names: &mut Names,
        journey: &Journey,
        (node, flow, task, sent): (u16, Option<&Flow>, Option<&'j Task>, bool),
    ) -> Self {
        let direction = if sent { "tx" } else { "rx" };
        End {
            task,
            host: rows.host.key(&flow.map_or_else(|| names.host(node), |flow| names.host_of(node, flow.netns))),
            place: flow.and_then(|flow| rows.netns_name.key(&names.place(node, flow.netns))),
            direction: rows.direction.key(direction),
            proto: rows.proto.key(&proto(journey.proto)),
            verdict: rows.verdict.key(journey.verdict.name()),
        }
    }
}

/// The kernel's drop reason of a copy, at its last hop; otherwise empty.
fn dropped_behind(journey: &Journey, rung: &Rung, context: &dyn Context) -> String {
    let copy = journey.copies.iter().find(|copy| rung.copy != 0 && copy.number == rung.copy);
    let copy = copy.filter(|copy| copy.rungs.last() == Some(rung.hop));
    let drop = copy.and_then(|copy| copy.dropped);
    let node = if rung.hop.direction() == Direction::Tx { journey.tx_node } else { journey.rx_node };
    drop.map(|drop| context.drop_reason(node, drop.reason)).unwrap_or_default()
}

pub fn hop_rows(
    nodes: &mut [Node],
    line: TimeLine,
    names: &mut Names,
    journey: &Journey,
    context: &dyn Context,
    key: Option<u64>,
) {
    let mut ends: [Option<End>; 2] = [None, None];
    for (rung, span) in journey.spans() {
        let (sent, node) = (rung.hop.direction() == Direction::Tx, journey.node_of(&rung));
        let Some(Node { hops: rows, common, .. }) = nodes.get_mut(usize::from(node)) else { continue };
        let common = &mut common.hops;
        let mut passing = None;
        let end = if rung.forwarder == 0 {
            ends[usize::from(sent)].get_or_insert_with(|| End::of(rows, names, journey, context, sent))
        } else {
            passing.insert(End::of_forwarder(rows, names, journey, context, &rung))
        };
        let latency = span.filter(|span| !span.is_wait);
        rows.rows += 1;
        rows.ts_ns.push_signed(line.ns(rung.time_ns));
        rows.ts.push(line.utc_ns(rung.time_ns));
        rows.journey.push(journey.id);
        rows.host.push_key(end.host);
        rows.netns_name.push_key(end.place);
        let hop = common.hops.get(rung.hop.id(), || rows.hop.key(rung.hop.name()));
        rows.hop.push_key(hop);
        rows.step.push(rung.hop.order());
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
        let from = latency.map(|latency| latency.from);
        let from =
            common.from_hops.get(from.map_or(0, Hop::id), || rows.from_hop.key(from.map_or("", Hop::name)));
        rows.from_hop.push_key(from);
        rows.latency_ns.push(latency.map(|latency| latency.ns));
        rows.half_width_ns.push(latency.map(|latency| latency.half_width_ns));
        rows.copy.push(some_u32(rung.copy));
        rows.forwarder.push(some_u32(u32::from(rung.forwarder)));
        rows.waited_ns.push(span.filter(|span| span.is_wait).map(|span| span.ns));
        rows.copy_dropped.push(&dropped_behind(journey, &rung, context));
        rows.verdict.push_key(end.verdict);
        rows.whole.push(journey.verdict.is_whole());
        rows.wire_key.push(key);
        rows.wire_bucket.push(key.map(wire::bucket));
        rows.lower_ns.push(latency.map(|latency| latency.bounds_ns.0));
        rows.upper_ns.push(latency.map(|latency| latency.bounds_ns.1));
    }
}

//! Rows of `exchanges` and `nested`.
//!
//! An exchange is complete some seconds after its last byte, and those that are open at the end of the recordings after
//! all context is gone. Names are therefore those of the last announcement.

use super::{proto, some_id, some_u32};
use crate::names::Names;
use crate::table::definition::columns;
use crate::timeline::TimeLine;
use magscope_core::exchange::{Exchange, ExchangeEnd, ExchangePart, Transfer};
use magscope_core::journey::Rungs;
use magscope_core::node::NodeInfo;
use std::sync::Arc;

/// The names of an end; empty if it is not in the capture, or was not announced.
#[derive(Default)]
struct EndNames {
    host: Arc<str>,
    netns: Arc<str>,
    comm: String,
    cgroup: String,
    container: String,
    pod: String,
    unit: String,
}

impl EndNames {
    fn of(names: &mut Names, end: &ExchangeEnd) -> Self {
        let mut found = EndNames::default();
        if let Some(netns) = names.flow(end.node, end.flow).map(|flow| flow.netns) {
            (found.host, found.netns) = (names.host_of(end.node, netns), names.place(end.node, netns));
        }
        if let Some(task) = end.thread().and_then(|thread| names.task(end.node, thread.tid)) {
            let info: Option<&NodeInfo> = names.infos().get(usize::from(end.node));
            let path = info.and_then(|info| info.cgroup_path(task.cgroup));
            task.comm.as_str().clone_into(&mut found.comm);
            path.unwrap_or_default().clone_into(&mut found.cgroup);
        }
        let task = end.thread().and_then(|thread| names.task(end.node, thread.tid));
        let netns = names.flow(end.node, end.flow).map(|flow| flow.netns);
        let info = names.infos().get(usize::from(end.node));
        if let Some(member) = info.and_then(|info| info.member(task, netns)) {
            member.container_name().unwrap_or_default().clone_into(&mut found.container);
            found.pod = member.pod().unwrap_or_default();
            member.unit.unwrap_or_default().clone_into(&mut found.unit);
        }
        found
    }
}

/// Instant of the first byte. If neither a send nor a read was seen, the first hop of the last journey.
fn start_ns(exchange: &Exchange) -> u64 {
    let first_hop_ns = |rungs: &Rungs| {
        rungs.hops().filter(|hop| !rungs.is_at_return(*hop)).filter_map(|hop| rungs.time_ns(hop)).min()
    };
    let of_calls = exchange.start_ns().or(exchange.end_ns());
    let of_hops = || first_hop_ns(&exchange.request.last_rungs).or(first_hop_ns(&exchange.response.last_rungs));
    of_calls.or_else(of_hops).unwrap_or_default()
}

/// The larger error bound of the two transfers that have a duration.
fn half_width_ns(exchange: &Exchange) -> Option<u64> {
    let of = |part, transfer: &Transfer| exchange.part_ns(part).and(transfer.half_width_ns);
    of(ExchangePart::RequestTransfer, &exchange.request)
        .max(of(ExchangePart::ResponseTransfer, &exchange.response))
}

/// Adds a row.
pub fn exchange_row(rows: &mut columns::Exchanges, line: TimeLine, names: &mut Names, exchange: &Exchange) {
    let start_ns = start_ns(exchange);
    rows.rows += 1;
    rows.ts_ns.push_signed(line.ns(start_ns));
    rows.ts.push(line.utc_ns(start_ns));
    rows.exchange.push(exchange.id);
    rows.end_ns.push_signed(exchange.end_ns().map(|end_ns| line.ns(end_ns)));
    rows.total_ns.push(exchange.total_ns());
    rows.half_width_ns.push(half_width_ns(exchange));
    rows.request_ns.push(exchange.part_ns(ExchangePart::RequestTransfer));
    rows.answer_ns.push(exchange.part_ns(ExchangePart::UntilAnswered));
    rows.response_ns.push(exchange.part_ns(ExchangePart::ResponseTransfer));
    let work = exchange.work.filter(|_| exchange.grade.has_latency());
    rows.on_cpu_ns.push(work.map(|work| work.on_cpu_ns));
    rows.runnable_ns.push(work.map(|work| work.runnable_ns));
    rows.blocked_ns.push(work.map(|work| work.blocked_ns));
    rows.pause_ns.push(exchange.pause_ns);
    rows.longest_idle_ns.push(exchange.longest_idle_ns);
    rows.envelope_ns.push(exchange.envelope_ns());
    rows.grade.push(exchange.grade.name());
    rows.broken_because.push(&exchange.broken.map(|why| why.to_string()).unwrap_or_default());
    rows.captured_ends.push(exchange.view.name());
    rows.requester_by.push(exchange.requester_by.name());
    rows.proto.push(&proto(exchange.proto));
    let (request, response) = (&exchange.request, &exchange.response);
    rows.request_bytes.push(request.bytes);
    rows.response_bytes.push(response.bytes);
    rows.request_journeys.push(request.journeys);
    rows.response_journeys.push(response.journeys);
    rows.retransmits.push(request.retransmits.saturating_add(response.retransmits));
    let journey = |transfer: &Transfer, number| (transfer.journeys > 0).then_some(number);
    rows.first_request_journey.push(journey(request, request.first_journey));
    rows.last_request_journey.push(journey(request, request.last_journey));
    rows.first_response_journey.push(journey(response, response.first_journey));
    rows.last_response_journey.push(journey(response, response.last_journey));
    let (requester, responder) = (&exchange.requester, &exchange.responder);
    let end = EndNames::of(names, requester);
    let thread = requester.thread().unwrap_or_default();
    rows.requester_addr.push(requester.addr.map(|addr| addr.ip()));
    rows.requester_port.push(requester.addr.map(|addr| addr.port()));
    rows.requester_host.push(&end.host);
    rows.requester_netns_name.push(&end.netns);
    rows.requester_flow.push(some_id(requester.flow));
    rows.requester.push(&end.comm);
    rows.requester_tgid.push(some_u32(thread.tgid));
    rows.requester_tid.push(some_u32(thread.tid));
    rows.requester_cgroup.push(&end.cgroup);
    rows.requester_container.push(&end.container);
    rows.requester_pod.push(&end.pod);
    rows.requester_unit.push(&end.unit);
    let end = EndNames::of(names, responder);
    let thread = responder.thread().unwrap_or_default();
    rows.responder_addr.push(responder.addr.map(|addr| addr.ip()));
    rows.responder_port.push(responder.addr.map(|addr| addr.port()));
    rows.responder_host.push(&end.host);
    rows.responder_netns_name.push(&end.netns);
    rows.responder_flow.push(some_id(responder.flow));
    rows.responder.push(&end.comm);
    rows.responder_tgid.push(some_u32(thread.tgid));
    rows.responder_tid.push(some_u32(thread.tid));
    rows.responder_cgroup.push(&end.cgroup);
    rows.responder_container.push(&end.container);
    rows.responder_pod.push(&end.pod);
    rows.responder_unit.push(&end.unit);
    rows.during.push(exchange.during.len() as i64);
}

/// Adds a row for each exchange within it.
pub fn nested_rows(rows: &mut columns::Nested, line: TimeLine, exchange: &Exchange) {
    let start_ns = start_ns(exchange);
    for inner in &exchange.during {
        rows.rows += 1;
        rows.ts_ns.push_signed(line.ns(start_ns));
        rows.ts.push(line.utc_ns(start_ns));
        rows.exchange.push(exchange.id);
        rows.inner_exchange.push(inner.exchange);
        rows.nested_by.push(inner.by.name());
    }
}

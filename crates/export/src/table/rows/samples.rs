//! Rows of the tables other than events: flows, states, losses, clocks, custom probes, payload and counters.

use super::{proto, some_id, some_u32};
use crate::names::Names;
use crate::table::column::{MaybeInt, Name};
use crate::table::definition::columns;
use crate::timeline::TimeLine;
use magscope_core::batch::Loss;
use magscope_core::change::HopCount;
use magscope_core::clock::ClockSample;
use magscope_core::custom::{CustomProbe, ProbeHit};
use magscope_core::head::PayloadHead;
use magscope_core::{Flow, Proto, TcpSample};
use std::fmt::Write;

pub fn flow_row(
    rows: &mut columns::Flows,
    line: TimeLine,
    names: &mut Names,
    node: u16,
    flow: &Flow,
    at_ns: u64,
) {
    rows.rows += 1;
    rows.ts_ns.push_signed(line.ns(at_ns));
    rows.ts.push(line.utc_ns(at_ns));
    rows.flow.push(flow.id.0);
    rows.host.push(&names.host_of(node, flow.netns));
    rows.netns_name.push(&names.place(node, flow.netns));
    rows.netns.push(u64::from(flow.netns));
    rows.proto.push(proto(flow.proto).as_ref());
    rows.local_addr.push(Some(flow.local.ip()));
    rows.local_port.push(flow.local.port());
    rows.remote_addr.push(Some(flow.remote.ip()));
    rows.remote_port.push(flow.remote.port());
}

pub fn tcp_row(rows: &mut columns::Tcp, line: TimeLine, host: &str, sample: &TcpSample) {
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

pub fn loss_row(rows: &mut columns::Losses, line: TimeLine, host: &str, loss: &Loss) {
    rows.rows += 1;
    rows.ts_ns.push_signed(line.ns(loss.from_ns));
    rows.ts.push(line.utc_ns(loss.from_ns));
    rows.to_ns.push_signed(line.ns(loss.to_ns));
    rows.host.push(host);
    rows.cpu.push(Some(loss.cpu).filter(|cpu| *cpu != u16::MAX));
    rows.lost.push(loss.count);
    rows.cause.push(&loss.cause.to_string());
}

pub fn clock_row(rows: &mut columns::Clock, host: &str, sample: &ClockSample) {
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

pub fn hit_row(rows: &mut columns::Hits, line: TimeLine, names: &mut Names, node: u16, hit: &ProbeHit) {
    rows.rows += 1;
    rows.ts_ns.push_signed(line.ns(hit.time_ns));
    rows.ts.push(line.utc_ns(hit.time_ns));
    rows.host.push(&names.host_of_flow(node, hit.flow));
    rows.netns_name.push(&names.place_of(node, hit.flow));
    let probe = names.probe(node, hit.probe);
    rows.probe.push(probe.map_or("", |probe| &probe.name));
    rows.point.push(&probe.map(CustomProbe::place).unwrap_or_default());
    let value = |at: usize, name: &mut Name, value: &mut MaybeInt| {
        name.push(probe.and_then(|probe| probe.values.get(at)).map_or("", |value| &value.name));
        value.push_signed(hit.value(at));
    };
    value(0, &mut rows.name0, &mut rows.value0);
    value(1, &mut rows.name1, &mut rows.value1);
    value(2, &mut rows.name2, &mut rows.value2);
    value(3, &mut rows.name3, &mut rows.value3);
    rows.cpu.push(hit.cpu);
    let proto_name = (hit.proto.0 != 0).then(|| proto(hit.proto));
    rows.proto.push(proto_name.as_deref().unwrap_or_default());
    rows.flow.push(some_id(hit.flow));
    rows.socket.push(Some(hit.socket).filter(|socket| *socket != 0));
    rows.seq.push(stream_seq(hit.proto, hit.seq));
    rows.len.push(u64::from(hit.len));
    rows.ip_id.push(hit.ip_id);
    rows.tgid.push(some_u32(hit.tgid));
    rows.tid.push(some_u32(hit.tid));
    rows.comm.push(names.comm(node, hit.tid));
    rows.record.push(u64::from(hit.record));
}

/// A sequence number, which only a packet of TCP has.
fn stream_seq(proto: Proto, seq: u32) -> Option<u64> {
    (proto == Proto::TCP).then(|| u64::from(seq))
}

pub fn head_row(rows: &mut columns::Heads, line: TimeLine, names: &mut Names, node: u16, head: &PayloadHead) {
    rows.rows += 1;
    rows.ts_ns.push_signed(line.ns(head.time_ns));
    rows.ts.push(line.utc_ns(head.time_ns));
    rows.host.push(&names.host_of_flow(node, head.flow));
    rows.netns_name.push(&names.place_of(node, head.flow));
    rows.hop.push(head.hop.name());
    rows.cpu.push(head.cpu);
    rows.proto.push(&proto(head.proto));
    rows.flow.push(some_id(head.flow));
    rows.seq.push(stream_seq(head.proto, head.seq));
    rows.ip_id.push(head.ip_id);
    rows.of_bytes.push(u64::from(head.of_bytes));
    rows.event.push(u64::from(head.event));
    let mut hex = String::with_capacity(2 * head.bytes.len());
    for byte in &head.bytes {
        // Writing into a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    rows.hex.push(hex);
}

pub fn count_row(rows: &mut columns::Counts, line: TimeLine, host: &str, count: &HopCount) {
    rows.rows += 1;
    rows.ts_ns.push_signed(line.ns(count.time_ns));
    rows.ts.push(line.utc_ns(count.time_ns));
    rows.host.push(host);
    rows.hop.push(count.hop.name());
    rows.kept.push(count.kept);
    rows.filtered.push(count.filtered);
    rows.undecided.push(count.undecided);
    rows.sampled.push(count.sampled);
    rows.weight.push(Some(count.weight()));
    rows.synthesised.push(count.synthesised);
}

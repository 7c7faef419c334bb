//! The small tables next to the events: flows, tasks, TCP state, losses, clock.

use super::{Row, column, field, values};
use crate::layout::Table;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use magscope_core::clock::{ClockSample, Clocksource};
use magscope_core::{Flow, FlowId, Loss, LossCause, Proto, Task, TcpSample};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// A flow or task, and the time of its announcement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Announced<T> {
    pub(crate) ts_ns: u64,
    pub(crate) what: T,
}

pub(super) fn text<'a>(values: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

/// The strings of a column, if of that type.
pub(super) fn strings(batch: &RecordBatch, column: usize) -> Option<&StringArray> {
    let array = batch.columns().get(column)?.as_string_opt::<i32>()?;
    (array.null_count() == 0).then_some(array)
}

fn address(text: &str) -> Option<IpAddr> {
    text.parse().ok()
}

impl Row for Announced<Flow> {
    const TABLE: Table = Table::Flows;

    fn fields() -> Vec<Field> {
        use DataType::{Int64, UInt8, UInt16, UInt32, UInt64, Utf8};
        vec![
            field("ts_ns", Int64),
            field("flow", UInt64),
            field("netns", UInt32),
            field("proto", UInt8),
            field("local_addr", Utf8),
            field("local_port", UInt16),
            field("remote_addr", Utf8),
            field("remote_port", UInt16),
        ]
    }

    fn columns(rows: &[Self]) -> Vec<ArrayRef> {
        let local: Vec<String> = rows.iter().map(|r| r.what.local.ip().to_string()).collect();
        let remote: Vec<String> = rows.iter().map(|r| r.what.remote.ip().to_string()).collect();
        vec![
            column::<Int64Type>(rows.iter().map(|r| r.ts_ns as i64)),
            column::<UInt64Type>(rows.iter().map(|r| r.what.id.0)),
            column::<UInt32Type>(rows.iter().map(|r| r.what.netns)),
            column::<UInt8Type>(rows.iter().map(|r| r.what.proto.0)),
            text(local.iter().map(String::as_str)),
            column::<UInt16Type>(rows.iter().map(|r| r.what.local.port())),
            text(remote.iter().map(String::as_str)),
            column::<UInt16Type>(rows.iter().map(|r| r.what.remote.port())),
        ]
    }

    fn decode(batch: &RecordBatch, out: &mut Vec<Self>) -> Option<u64> {
        let ts_ns = values::<Int64Type>(batch, 0)?;
        let id = values::<UInt64Type>(batch, 1)?;
        let netns = values::<UInt32Type>(batch, 2)?;
        let proto = values::<UInt8Type>(batch, 3)?;
        let local = strings(batch, 4)?;
        let local_port = values::<UInt16Type>(batch, 5)?;
        let remote = strings(batch, 6)?;
        let remote_port = values::<UInt16Type>(batch, 7)?;
        let mut wrong = 0;
        for i in 0..batch.num_rows() {
            let (Some(local), Some(remote)) = (address(local.value(i)), address(remote.value(i))) else {
                wrong += 1;
                continue;
            };
            let what = Flow {
                id: FlowId(id[i]),
                netns: netns[i],
                proto: Proto(proto[i]),
                local: SocketAddr::new(local, local_port[i]),
                remote: SocketAddr::new(remote, remote_port[i]),
            };
            out.push(Announced { ts_ns: ts_ns[i] as u64, what });
        }
        Some(wrong)
    }

    fn time_ns(&self) -> u64 {
        self.ts_ns
    }
}

impl Row for Announced<Task> {
    const TABLE: Table = Table::Tasks;

    fn fields() -> Vec<Field> {
        use DataType::{Int64, UInt32, UInt64, Utf8};
        vec![
            field("ts_ns", Int64),
            field("tgid", UInt32),
            field("tid", UInt32),
            field("uid", UInt32),
            field("cgroup", UInt64),
            field("comm", Utf8),
        ]
    }

    fn columns(rows: &[Self]) -> Vec<ArrayRef> {
        vec![
            column::<Int64Type>(rows.iter().map(|r| r.ts_ns as i64)),
            column::<UInt32Type>(rows.iter().map(|r| r.what.tgid)),
            column::<UInt32Type>(rows.iter().map(|r| r.what.tid)),
            column::<UInt32Type>(rows.iter().map(|r| r.what.uid)),
            column::<UInt64Type>(rows.iter().map(|r| r.what.cgroup)),
            text(rows.iter().map(|r| r.what.comm.as_str())),
        ]
    }

    fn decode(batch: &RecordBatch, out: &mut Vec<Self>) -> Option<u64> {
        let ts_ns = values::<Int64Type>(batch, 0)?;
        let tgid = values::<UInt32Type>(batch, 1)?;
        let tid = values::<UInt32Type>(batch, 2)?;
        let uid = values::<UInt32Type>(batch, 3)?;
        let cgroup = values::<UInt64Type>(batch, 4)?;
        let comm = strings(batch, 5)?;
        for i in 0..batch.num_rows() {
            let what = Task {
                tgid: tgid[i],
                tid: tid[i],
                uid: uid[i],
                cgroup: cgroup[i],
                comm: magscope_core::foreign::clean(comm.value(i)).into_owned(),
            };
            out.push(Announced { ts_ns: ts_ns[i] as u64, what });
        }
        Some(0)
    }

    fn time_ns(&self) -> u64 {
        self.ts_ns
    }
}

impl Row for TcpSample {
    const TABLE: Table = Table::Tcp;

    fn fields() -> Vec<Field> {
        use DataType::{Int64, UInt8, UInt32, UInt64};
        let mut fields = vec![field("ts_ns", Int64), field("socket", UInt64), field("flow", UInt64)];
        let counters = [
            "cwnd",
            "ssthresh",
            "srtt_us",
            "rttvar_us",
            "rto_us",
            "packets_out",
            "total_retrans",
            "snd_wnd",
            "rcv_wnd",
            "snd_una",
            "snd_nxt",
            "send_queue_bytes",
            "recv_queue_bytes",
        ];
        fields.extend(counters.map(|name| field(name, UInt32)));
        fields.extend([field("state", UInt8), field("ca_state", UInt8)]);
        fields.extend(["write_seq", "rcv_nxt", "copied_seq", "retrans_out"].map(|name| field(name, UInt32)));
        fields.push(field("tcp_flags", UInt8));
        fields
    }

    fn columns(rows: &[Self]) -> Vec<ArrayRef> {
        let u32s = |get: fn(&TcpSample) -> u32| column::<UInt32Type>(rows.iter().map(get));
        vec![
            column::<Int64Type>(rows.iter().map(|r| r.time_ns as i64)),
            column::<UInt64Type>(rows.iter().map(|r| r.socket)),
            column::<UInt64Type>(rows.iter().map(|r| r.flow.0)),
            u32s(|r| r.cwnd),
            u32s(|r| r.ssthresh),
            u32s(|r| r.srtt_us),
            u32s(|r| r.rttvar_us),
            u32s(|r| r.rto_us),
            u32s(|r| r.packets_out),
            u32s(|r| r.total_retrans),
            u32s(|r| r.snd_wnd),
            u32s(|r| r.rcv_wnd),
            u32s(|r| r.snd_una),
            u32s(|r| r.snd_nxt),
            u32s(|r| r.send_queue_bytes),
            u32s(|r| r.recv_queue_bytes),
            column::<UInt8Type>(rows.iter().map(|r| r.state)),
            column::<UInt8Type>(rows.iter().map(|r| r.ca_state)),
            u32s(|r| r.write_seq),
            u32s(|r| r.rcv_nxt),
            u32s(|r| r.copied_seq),
            u32s(|r| r.retrans_out),
            column::<UInt8Type>(rows.iter().map(|r| r.tcp_flags)),
        ]
    }

    fn decode(batch: &RecordBatch, out: &mut Vec<Self>) -> Option<u64> {
        let ts_ns = values::<Int64Type>(batch, 0)?;
        let socket = values::<UInt64Type>(batch, 1)?;
        let flow = values::<UInt64Type>(batch, 2)?;
        let mut counters: [&[u32]; 13] = [&[]; 13];
        for (i, counter) in counters.iter_mut().enumerate() {
            *counter = values::<UInt32Type>(batch, 3 + i)?;
        }
        let state = values::<UInt8Type>(batch, 16)?;
        let ca_state = values::<UInt8Type>(batch, 17)?;
        let write_seq = values::<UInt32Type>(batch, 18)?;
        let rcv_nxt = values::<UInt32Type>(batch, 19)?;
        let copied_seq = values::<UInt32Type>(batch, 20)?;
        let retrans_out = values::<UInt32Type>(batch, 21)?;
        let tcp_flags = values::<UInt8Type>(batch, 22)?;
        for i in 0..batch.num_rows() {
            out.push(TcpSample {
                time_ns: ts_ns[i] as u64,
                socket: socket[i],
                flow: FlowId(flow[i]),
                cwnd: counters[0][i],
                ssthresh: counters[1][i],
                srtt_us: counters[2][i],
                rttvar_us: counters[3][i],
                rto_us: counters[4][i],
                packets_out: counters[5][i],
                retrans_out: retrans_out[i],
                total_retrans: counters[6][i],
                snd_wnd: counters[7][i],
                rcv_wnd: counters[8][i],
                snd_una: counters[9][i],
                snd_nxt: counters[10][i],
                write_seq: write_seq[i],
                rcv_nxt: rcv_nxt[i],
                copied_seq: copied_seq[i],
                send_queue_bytes: counters[11][i],
                recv_queue_bytes: counters[12][i],
                state: state[i],
                ca_state: ca_state[i],
                tcp_flags: tcp_flags[i],
            });
        }
        Some(0)
    }

    fn time_ns(&self) -> u64 {
        self.time_ns
    }
}

impl Row for Loss {
    const TABLE: Table = Table::Losses;

    fn fields() -> Vec<Field> {
        use DataType::{Int64, UInt8, UInt16, UInt64};
        vec![
            field("from_ns", Int64),
            field("to_ns", Int64),
            field("cpu", UInt16),
            field("count", UInt64),
            field("cause", UInt8),
        ]
    }

    fn columns(rows: &[Self]) -> Vec<ArrayRef> {
        vec![
            column::<Int64Type>(rows.iter().map(|r| r.from_ns as i64)),
            column::<Int64Type>(rows.iter().map(|r| r.to_ns as i64)),
            column::<UInt16Type>(rows.iter().map(|r| r.cpu)),
            column::<UInt64Type>(rows.iter().map(|r| r.count)),
            column::<UInt8Type>(rows.iter().map(|r| r.cause as u8)),
        ]
    }

    fn decode(batch: &RecordBatch, out: &mut Vec<Self>) -> Option<u64> {
        let from_ns = values::<Int64Type>(batch, 0)?;
        let to_ns = values::<Int64Type>(batch, 1)?;
        let cpu = values::<UInt16Type>(batch, 2)?;
        let count = values::<UInt64Type>(batch, 3)?;
        let cause = values::<UInt8Type>(batch, 4)?;
        let mut wrong = 0;
        for i in 0..batch.num_rows() {
            let Some(cause) = LossCause::from_id(cause[i]) else {
                wrong += 1;
                continue;
            };
            out.push(Loss {
                cpu: cpu[i],
                from_ns: from_ns[i] as u64,
                to_ns: to_ns[i] as u64,
                count: count[i],
                cause,
            });
        }
        Some(wrong)
    }

    fn time_ns(&self) -> u64 {
        self.to_ns
    }
}

/// The kernel's status has 16 bits. The other half of the column has the number of generations.
const STATUS_BITS: u32 = 0xffff;
const GENERATION_SHIFT: u32 = 16;

fn status_of(sample: &ClockSample) -> u32 {
    sample.status & STATUS_BITS | sample.generations << GENERATION_SHIFT
}

impl Row for ClockSample {
    const TABLE: Table = Table::Clock;

    fn fields() -> Vec<Field> {
        use DataType::{Int32, Int64, UInt8, UInt32};
        vec![
            field("monotonic_ns", Int64),
            field("raw_ns", Int64),
            field("realtime_ns", Int64),
            field("width_ns", UInt32),
            field("suspended_ns", Int64),
            field("tai_offset_s", Int32),
            field("realtime_steps", UInt32),
            field("clocksource", UInt8),
            field("frequency", Int64),
            field("status", UInt32),
            field("utc_error_ns", Int64),
            field("stamp_ns", Int64),
        ]
    }

    fn columns(rows: &[Self]) -> Vec<ArrayRef> {
        vec![
            column::<Int64Type>(rows.iter().map(|r| r.monotonic_ns as i64)),
            column::<Int64Type>(rows.iter().map(|r| r.raw_ns as i64)),
            column::<Int64Type>(rows.iter().map(|r| r.realtime_ns)),
            column::<UInt32Type>(rows.iter().map(|r| r.width_ns)),
            column::<Int64Type>(rows.iter().map(|r| r.suspended_ns as i64)),
            column::<Int32Type>(rows.iter().map(|r| r.tai_offset_s)),
            column::<UInt32Type>(rows.iter().map(|r| r.realtime_steps)),
            column::<UInt8Type>(rows.iter().map(|r| r.clocksource as u8)),
            column::<Int64Type>(rows.iter().map(|r| r.frequency)),
            column::<UInt32Type>(rows.iter().map(status_of)),
            column::<Int64Type>(rows.iter().map(|r| r.utc_error_ns.map_or(-1, |ns| ns as i64))),
            column::<Int64Type>(rows.iter().map(|r| r.stamp_ns as i64)),
        ]
    }

    fn decode(batch: &RecordBatch, out: &mut Vec<Self>) -> Option<u64> {
        let monotonic_ns = values::<Int64Type>(batch, 0)?;
        let raw_ns = values::<Int64Type>(batch, 1)?;
        let realtime_ns = values::<Int64Type>(batch, 2)?;
        let width_ns = values::<UInt32Type>(batch, 3)?;
        let suspended_ns = values::<Int64Type>(batch, 4)?;
        let tai_offset_s = values::<Int32Type>(batch, 5)?;
        let realtime_steps = values::<UInt32Type>(batch, 6)?;
        let clocksource = values::<UInt8Type>(batch, 7)?;
        let frequency = values::<Int64Type>(batch, 8)?;
        let status = values::<UInt32Type>(batch, 9)?;
        let utc_error_ns = values::<Int64Type>(batch, 10)?;
        let stamp_ns = values::<Int64Type>(batch, 11)?;
        for i in 0..batch.num_rows() {
            out.push(ClockSample {
                monotonic_ns: monotonic_ns[i] as u64,
                raw_ns: raw_ns[i] as u64,
                realtime_ns: realtime_ns[i],
                width_ns: width_ns[i],
                suspended_ns: suspended_ns[i] as u64,
                tai_offset_s: tai_offset_s[i],
                realtime_steps: realtime_steps[i],
                clocksource: Clocksource::from_id(clocksource[i]),
                frequency: frequency[i],
                status: status[i] & STATUS_BITS,
                generations: status[i] >> GENERATION_SHIFT,
                utc_error_ns: u64::try_from(utc_error_ns[i]).ok(),
                stamp_ns: stamp_ns[i] as u64,
            });
        }
        Some(0)
    }

    fn time_ns(&self) -> u64 {
        self.event_ns()
    }
}

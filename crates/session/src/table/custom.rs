//! The tables of custom-probe hits and payload heads.

use super::{Row, column, field, values};
use crate::layout::Table;
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use magscope_core::{FlowId, Hop, PayloadHead, ProbeHit, Proto};
use std::sync::Arc;

impl Row for ProbeHit {
    const TABLE: Table = Table::Hits;

    fn fields() -> Vec<Field> {
        use DataType::{Int64, UInt8, UInt16, UInt32, UInt64};
        vec![
            field("ts_ns", Int64),
            field("probe", UInt8),
            field("known", UInt8),
            field("value0", Int64),
            field("value1", Int64),
            field("value2", Int64),
            field("value3", Int64),
            field("socket", UInt64),
            field("flow", UInt64),
            field("seq", UInt32),
            field("len", UInt32),
            field("proto", UInt8),
            field("ip_id", UInt16),
            field("tgid", UInt32),
            field("tid", UInt32),
            field("cpu", UInt16),
            field("record", UInt32),
        ]
    }

    fn columns(rows: &[Self]) -> Vec<ArrayRef> {
        let value = |i: usize| column::<Int64Type>(rows.iter().map(move |r| r.values[i]));
        vec![
            column::<Int64Type>(rows.iter().map(|r| r.time_ns as i64)),
            column::<UInt8Type>(rows.iter().map(|r| r.probe)),
            column::<UInt8Type>(rows.iter().map(|r| r.known)),
            value(0),
            value(1),
            value(2),
            value(3),
            column::<UInt64Type>(rows.iter().map(|r| r.socket)),
            column::<UInt64Type>(rows.iter().map(|r| r.flow.0)),
            column::<UInt32Type>(rows.iter().map(|r| r.seq)),
            column::<UInt32Type>(rows.iter().map(|r| r.len)),
            column::<UInt8Type>(rows.iter().map(|r| r.proto.0)),
            column::<UInt16Type>(rows.iter().map(|r| r.ip_id)),
            column::<UInt32Type>(rows.iter().map(|r| r.tgid)),
            column::<UInt32Type>(rows.iter().map(|r| r.tid)),
            column::<UInt16Type>(rows.iter().map(|r| r.cpu)),
            column::<UInt32Type>(rows.iter().map(|r| r.record)),
        ]
    }

    fn decode(batch: &RecordBatch, out: &mut Vec<Self>) -> Option<u64> {
        let ts_ns = values::<Int64Type>(batch, 0)?;
        let probe = values::<UInt8Type>(batch, 1)?;
        let read_mask = values::<UInt8Type>(batch, 2)?;
        let mut value = [&[][..]; magscope_core::custom::MOST_VALUES];
        for (i, value) in value.iter_mut().enumerate() {
            *value = values::<Int64Type>(batch, 3 + i)?;
        }
        let socket = values::<UInt64Type>(batch, 7)?;
        let flow = values::<UInt64Type>(batch, 8)?;
        let seq = values::<UInt32Type>(batch, 9)?;
        let len = values::<UInt32Type>(batch, 10)?;
        let proto = values::<UInt8Type>(batch, 11)?;
        let ip_id = values::<UInt16Type>(batch, 12)?;
        let tgid = values::<UInt32Type>(batch, 13)?;
        let tid = values::<UInt32Type>(batch, 14)?;
        let cpu = values::<UInt16Type>(batch, 15)?;
        let record = values::<UInt32Type>(batch, 16)?;
        out.extend((0..batch.num_rows()).map(|i| ProbeHit {
            time_ns: ts_ns[i] as u64,
            socket: socket[i],
            flow: FlowId(flow[i]),
            seq: seq[i],
            len: len[i],
            tgid: tgid[i],
            tid: tid[i],
            record: record[i],
            cpu: cpu[i],
            ip_id: ip_id[i],
            probe: probe[i],
            proto: Proto(proto[i]),
            known: read_mask[i],
            values: value.map(|column| column[i]),
        }));
        Some(0)
    }

    fn time_ns(&self) -> u64 {
        self.time_ns
    }
}

/// The byte strings of a column, if of that type.
pub(super) fn binary(batch: &RecordBatch, column: usize) -> Option<&BinaryArray> {
    let array = batch.columns().get(column)?.as_binary_opt::<i32>()?;
    (array.null_count() == 0).then_some(array)
}

impl Row for PayloadHead {
    const TABLE: Table = Table::Heads;

    fn fields() -> Vec<Field> {
        use DataType::{Binary, Int64, UInt8, UInt16, UInt32, UInt64};
        vec![
            field("ts_ns", Int64),
            field("hop", UInt8),
            field("flow", UInt64),
            field("seq", UInt32),
            field("of_bytes", UInt32),
            field("proto", UInt8),
            field("ip_id", UInt16),
            field("cpu", UInt16),
            field("event", UInt32),
            field("record", UInt32),
            field("bytes", Binary),
        ]
    }

    fn columns(rows: &[Self]) -> Vec<ArrayRef> {
        vec![
            column::<Int64Type>(rows.iter().map(|r| r.time_ns as i64)),
            column::<UInt8Type>(rows.iter().map(|r| r.hop.id())),
            column::<UInt64Type>(rows.iter().map(|r| r.flow.0)),
            column::<UInt32Type>(rows.iter().map(|r| r.seq)),
            column::<UInt32Type>(rows.iter().map(|r| r.of_bytes)),
            column::<UInt8Type>(rows.iter().map(|r| r.proto.0)),
            column::<UInt16Type>(rows.iter().map(|r| r.ip_id)),
            column::<UInt16Type>(rows.iter().map(|r| r.cpu)),
            column::<UInt32Type>(rows.iter().map(|r| r.event)),
            column::<UInt32Type>(rows.iter().map(|r| r.record)),
            Arc::new(BinaryArray::from_iter_values(rows.iter().map(|r| &r.bytes))),
        ]
    }

    fn decode(batch: &RecordBatch, out: &mut Vec<Self>) -> Option<u64> {
        let ts_ns = values::<Int64Type>(batch, 0)?;
        let hop = values::<UInt8Type>(batch, 1)?;
        let flow = values::<UInt64Type>(batch, 2)?;
        let seq = values::<UInt32Type>(batch, 3)?;
        let of_bytes = values::<UInt32Type>(batch, 4)?;
        let proto = values::<UInt8Type>(batch, 5)?;
        let ip_id = values::<UInt16Type>(batch, 6)?;
        let cpu = values::<UInt16Type>(batch, 7)?;
        let event = values::<UInt32Type>(batch, 8)?;
        let record = values::<UInt32Type>(batch, 9)?;
        let bytes = binary(batch, 10)?;
        let mut wrong = 0;
        for i in 0..batch.num_rows() {
            let Some(hop) = Hop::from_id(hop[i]) else {
                wrong += 1;
                continue;
            };
            out.push(PayloadHead {
                time_ns: ts_ns[i] as u64,
                flow: FlowId(flow[i]),
                seq: seq[i],
                of_bytes: of_bytes[i],
                event: event[i],
                record: record[i],
                cpu: cpu[i],
                ip_id: ip_id[i],
                hop,
                proto: Proto(proto[i]),
                bytes: bytes.value(i).to_vec(),
            });
        }
        Some(wrong)
    }

    fn time_ns(&self) -> u64 {
        self.time_ns
    }
}

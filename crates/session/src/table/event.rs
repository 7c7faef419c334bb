//! The table of events.

use super::{Row, field, values};
use crate::layout::Table;
use arrow::array::{ArrayRef, PrimitiveArray, RecordBatch};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Field, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use magscope_core::{DetailKind, Event, EventFlags, ExtentKind, FlowId, Hop, Proto};
use std::sync::Arc;

/// Indexes of the columns that the index uses.
pub(crate) const TS_NS: usize = 0;
pub(crate) const HOP: usize = 1;

/// Pending events as columns.
#[derive(Default)]
pub(crate) struct EventColumns {
    ts_ns: Vec<i64>,
    hop: Vec<u8>,
    cpu: Vec<u16>,
    flow: Vec<u64>,
    socket: Vec<u64>,
    len: Vec<u32>,
    skb: Vec<u32>,
    ifindex: Vec<u32>,
    tgid: Vec<u32>,
    tid: Vec<u32>,
    record: Vec<u32>,
    ip_id: Vec<u16>,
    segs: Vec<u16>,
    tcp_flags: Vec<u8>,
    flags: Vec<u16>,
    proto: Vec<u8>,
    ttl: Vec<u8>,
    tos: Vec<u8>,
    kinds: Vec<u8>,
    extent: Vec<u32>,
    detail: Vec<u32>,
    range_ns: Option<(u64, u64)>,
    hops: u64,
}

impl EventColumns {
    pub(crate) fn rows(&self) -> usize {
        self.ts_ns.len()
    }

    /// Earliest and latest time, if there are rows.
    pub(crate) fn range_ns(&self) -> Option<(u64, u64)> {
        self.range_ns
    }

    /// One bit per hop number.
    pub(crate) fn hops(&self) -> u64 {
        self.hops
    }

    pub(crate) fn extend(&mut self, events: &[Event]) {
        // Blocks of rows that stay in the L1 cache for all passes.
        for some in events.chunks(256) {
            self.ts_ns.extend(some.iter().map(|e| e.time_ns as i64));
            self.hop.extend(some.iter().map(|e| e.hop.id()));
            self.cpu.extend(some.iter().map(|e| e.cpu));
            self.flow.extend(some.iter().map(|e| e.flow.0));
            self.socket.extend(some.iter().map(|e| e.socket));
            self.len.extend(some.iter().map(|e| e.len));
            self.skb.extend(some.iter().map(|e| e.skb));
            self.ifindex.extend(some.iter().map(|e| e.ifindex));
            self.tgid.extend(some.iter().map(|e| e.tgid));
            self.tid.extend(some.iter().map(|e| e.tid));
            self.record.extend(some.iter().map(|e| e.record));
            self.ip_id.extend(some.iter().map(|e| e.ip_id));
            self.segs.extend(some.iter().map(|e| e.segs));
            self.tcp_flags.extend(some.iter().map(|e| e.tcp_flags));
            self.flags.extend(some.iter().map(|e| e.flags.0));
            self.proto.extend(some.iter().map(|e| e.proto.0));
            self.ttl.extend(some.iter().map(|e| e.ttl));
            self.tos.extend(some.iter().map(|e| e.tos));
            self.kinds.extend(some.iter().map(kinds));
            self.extent.extend(some.iter().map(|e| e.extent.number()));
            self.detail.extend(some.iter().map(|e| e.detail.number()));
            for event in some {
                self.hops |= 1 << event.hop.id();
                let (from, to) = self.range_ns.unwrap_or((event.time_ns, event.time_ns));
                self.range_ns = Some((from.min(event.time_ns), to.max(event.time_ns)));
            }
        }
    }

    /// Returns the columns and starts again.
    pub(crate) fn take(&mut self) -> Vec<ArrayRef> {
        let full = std::mem::take(self);
        vec![
            array::<Int64Type>(full.ts_ns),
            array::<UInt8Type>(full.hop),
            array::<UInt16Type>(full.cpu),
            array::<UInt64Type>(full.flow),
            array::<UInt64Type>(full.socket),
            array::<UInt32Type>(full.len),
            array::<UInt32Type>(full.skb),
            array::<UInt32Type>(full.ifindex),
            array::<UInt32Type>(full.tgid),
            array::<UInt32Type>(full.tid),
            array::<UInt32Type>(full.record),
            array::<UInt16Type>(full.ip_id),
            array::<UInt16Type>(full.segs),
            array::<UInt8Type>(full.tcp_flags),
            array::<UInt16Type>(full.flags),
            array::<UInt8Type>(full.proto),
            array::<UInt8Type>(full.ttl),
            array::<UInt8Type>(full.tos),
            array::<UInt8Type>(full.kinds),
            array::<UInt32Type>(full.extent),
            array::<UInt32Type>(full.detail),
        ]
    }
}

/// The kinds of both numbers of an event in one column: they follow from each other in most rows, so that two columns
/// would take twice the space.
#[inline]
fn kinds(event: &Event) -> u8 {
    const { assert!(ExtentKind::ALL.len() <= 16 && DetailKind::ALL.len() <= 16) };
    event.extent.kind() as u8 | (event.detail.kind() as u8) << 4
}

fn array<T: ArrowPrimitiveType>(values: Vec<T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values.into(), None))
}

impl Row for Event {
    const TABLE: Table = Table::Events;

    fn fields() -> Vec<Field> {
        use DataType::{Int64, UInt8, UInt16, UInt32, UInt64};
        vec![
            field("ts_ns", Int64),
            field("hop", UInt8),
            field("cpu", UInt16),
            field("flow", UInt64),
            field("socket", UInt64),
            field("len", UInt32),
            field("skb", UInt32),
            field("ifindex", UInt32),
            field("tgid", UInt32),
            field("tid", UInt32),
            field("record", UInt32),
            field("ip_id", UInt16),
            field("segs", UInt16),
            field("tcp_flags", UInt8),
            field("flags", UInt16),
            field("proto", UInt8),
            field("ttl", UInt8),
            field("tos", UInt8),
            field("kinds", UInt8),
            field("extent", UInt32),
            field("detail", UInt32),
        ]
    }

    fn columns(rows: &[Self]) -> Vec<ArrayRef> {
        let mut columns = EventColumns::default();
        columns.extend(rows);
        columns.take()
    }

    /// Events with an unknown hop or kind of number count as invalid.
    fn decode(batch: &RecordBatch, out: &mut Vec<Self>) -> Option<u64> {
        let n = batch.num_rows();
        // Truncated to the row count once, so that the loop below needs no bounds checks.
        let ts_ns = values::<Int64Type>(batch, 0)?.get(..n)?;
        let hop = values::<UInt8Type>(batch, 1)?.get(..n)?;
        let cpu = values::<UInt16Type>(batch, 2)?.get(..n)?;
        let flow = values::<UInt64Type>(batch, 3)?.get(..n)?;
        let socket = values::<UInt64Type>(batch, 4)?.get(..n)?;
        let len = values::<UInt32Type>(batch, 5)?.get(..n)?;
        let skb = values::<UInt32Type>(batch, 6)?.get(..n)?;
        let ifindex = values::<UInt32Type>(batch, 7)?.get(..n)?;
        let tgid = values::<UInt32Type>(batch, 8)?.get(..n)?;
        let tid = values::<UInt32Type>(batch, 9)?.get(..n)?;
        let record = values::<UInt32Type>(batch, 10)?.get(..n)?;
        let ip_id = values::<UInt16Type>(batch, 11)?.get(..n)?;
        let segs = values::<UInt16Type>(batch, 12)?.get(..n)?;
        let tcp_flags = values::<UInt8Type>(batch, 13)?.get(..n)?;
        let flags = values::<UInt16Type>(batch, 14)?.get(..n)?;
        let proto = values::<UInt8Type>(batch, 15)?.get(..n)?;
        let ttl = values::<UInt8Type>(batch, 16)?.get(..n)?;
        let tos = values::<UInt8Type>(batch, 17)?.get(..n)?;
        let kinds = values::<UInt8Type>(batch, 18)?.get(..n)?;
        let extent = values::<UInt32Type>(batch, 19)?.get(..n)?;
        let detail = values::<UInt32Type>(batch, 20)?.get(..n)?;
        let mut unknown = 0;
        out.reserve(n);
        for i in 0..n {
            let (Some(hop), Some(of_extent), Some(of_detail)) =
                (Hop::from_id(hop[i]), ExtentKind::from_id(kinds[i] % 16), DetailKind::from_id(kinds[i] / 16))
            else {
                unknown += 1;
                continue;
            };
            out.push(Event {
                time_ns: ts_ns[i] as u64,
                socket: socket[i],
                flow: FlowId(flow[i]),
                len: len[i],
                skb: skb[i],
                ifindex: ifindex[i],
                tgid: tgid[i],
                tid: tid[i],
                record: record[i],
                cpu: cpu[i],
                ip_id: ip_id[i],
                segs: segs[i],
                tcp_flags: tcp_flags[i],
                ttl: ttl[i],
                tos: tos[i],
                flags: EventFlags(flags[i]),
                extent: of_extent.of(extent[i]),
                detail: of_detail.of(detail[i]),
                hop,
                proto: Proto(proto[i]),
            });
        }
        Some(unknown)
    }

    fn time_ns(&self) -> u64 {
        self.time_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_hop_is_counted_and_left_out() {
        let events: Vec<Event> = [Hop::AppSend, Hop::TcpSend, Hop::AppRecv].map(|h| Event::at(h, 7)).into();
        let mut columns = Event::columns(&events);
        columns[HOP] = array::<UInt8Type>(vec![1, 250, 19]);
        let batch = RecordBatch::try_new(crate::table::schema(Table::Events), columns).unwrap();
        let mut decoded = Vec::new();
        assert_eq!(Event::decode(&batch, &mut decoded), Some(1));
        assert_eq!(decoded, [events[0], events[2]]);
    }
}

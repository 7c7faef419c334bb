//! Rows of the kernel's sums: one row per sum, and one per bucket of times, so that percentiles are a running
//! sum.

use super::{proto, some_id};
use crate::names::Names;
use crate::table::definition::columns;
use crate::timeline::TimeLine;
use magscope_core::histogram::{LONGEST_NS, bucket, bucket_range_ns};
use magscope_core::synthesis::{Sum, Synthesis};

/// Adds a row.
pub fn sum_row(rows: &mut columns::Sums, line: TimeLine, names: &mut Names, node: u16, sum: &Synthesis) {
    rows.rows += 1;
    rows.ts_ns.push_signed(line.ns(sum.from_ns));
    rows.ts.push(line.utc_ns(sum.from_ns));
    rows.to_ns.push_signed(line.ns(sum.to_ns));
    rows.host.push(&names.host(node));
    rows.hop.push(sum.hop.name());
    let (mut from, mut id, mut cgroup, mut reason) = (None, None, None, None);
    rows.sum_of.push(match sum.of {
        Sum::Since(hop) => {
            from = Some(hop);
            "since"
        }
        Sum::Begun => "begun",
        Sum::Flow(flow) => {
            id = Some(flow);
            "flow"
        }
        Sum::Cgroup(number) => {
            cgroup = Some(number);
            "cgroup"
        }
        Sum::Reason(number) => {
            reason = Some(number);
            "reason"
        }
        Sum::Rest => "rest",
    });
    rows.from_hop.push(from.map_or("", |hop| hop.name()));
    let flow = id.and_then(|id| names.flow(node, id)).copied();
    rows.netns_name.push(&flow.map(|flow| names.place(node, flow.netns)).unwrap_or_default());
    rows.proto.push(&flow.map(|flow| proto(flow.proto)).unwrap_or_default());
    rows.flow.push(id.and_then(some_id));
    rows.local_addr.push(flow.map(|flow| flow.local.ip()));
    rows.local_port.push(flow.map(|flow| flow.local.port()));
    rows.remote_addr.push(flow.map(|flow| flow.remote.ip()));
    rows.remote_port.push(flow.map(|flow| flow.remote.port()));
    let info = names.infos().get(usize::from(node));
    let path = |number: u64| info.and_then(|info| info.cgroup_path(number)).map(str::to_owned);
    let path = cgroup.map(|number| path(number).unwrap_or_else(|| number.to_string()));
    rows.cgroup.push(&path.unwrap_or_default());
    rows.drop_reason.push(reason);
    let why = reason.zip(info).map(|(number, info)| info.drop_reason(number));
    rows.drop_name.push(&why.unwrap_or_default());
    rows.n.push(sum.n);
    rows.sum_ns.push(from.map(|_| sum.sum));
    rows.bytes.push((from.is_none() && sum.of != Sum::Begun).then_some(sum.sum));
}

/// Adds one row per bucket. An invalid bucket has no bounds but is kept.
pub fn histogram_rows(rows: &mut columns::Histograms, line: TimeLine, host: &str, sum: &Synthesis) {
    let Sum::Since(from) = sum.of else { return };
    rows.rows += sum.buckets.len();
    rows.host.repeat(host, sum.buckets.len());
    rows.from_hop.repeat(from.name(), sum.buckets.len());
    rows.hop.repeat(sum.hop.name(), sum.buckets.len());
    for (number, n) in &sum.buckets {
        rows.ts_ns.push_signed(line.ns(sum.from_ns));
        rows.ts.push(line.utc_ns(sum.from_ns));
        rows.to_ns.push_signed(line.ns(sum.to_ns));
        let number = Some(usize::from(*number)).filter(|number| *number <= bucket(LONGEST_NS));
        let range = number.and_then(bucket_range_ns);
        rows.min_ns.push(range.map(|(least, _)| least));
        rows.max_ns.push(range.map(|(_, most)| most.min(LONGEST_NS)));
        rows.n.push(u64::from(*n));
    }
}

//! The kernel's sums as tables: each number equals the batch's.

use crate::common;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use common::sums;
use magscope_core::histogram::{LONGEST_NS, bucket, bucket_range_ns};
use magscope_core::node::{DropReason, NodeInfo};
use magscope_core::synthesis::{Sum, Synthesis};
use magscope_core::{Batch, Flow, FlowId, Hop, Proto};
use magscope_export::format::tables::{TableWriter, Tables};
use magscope_export::{Chosen, Export, ExportError, Table, TimeLine};
use magscope_timeline::merged_reader::Piece;
use proptest::prelude::*;

const LINE: TimeLine = TimeLine { to_utc_ns: Some(1_000) };

#[derive(Default)]
struct Written {
    sums: Vec<RecordBatch>,
    buckets: Vec<RecordBatch>,
}

impl TableWriter for &mut Written {
    fn rows(&mut self, table: Table, _: u16, batch: &RecordBatch) -> Result<(), ExportError> {
        match table {
            Table::Sums => self.sums.push(batch.clone()),
            Table::Histograms => self.buckets.push(batch.clone()),
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        Ok(())
    }
}

fn summed(batch: &Batch, info: &NodeInfo) -> Written {
    let mut written = Written::default();
    let chosen = Chosen { tables: vec![Table::Sums, Table::Histograms], filter: None };
    let mut tables = Tables::new(std::slice::from_ref(info), LINE, chosen, &mut written);
    tables.piece(&Piece::Batch(0, batch)).expect("memory takes all");
    tables.finish().expect("memory takes all");
    written
}

/// A column of numbers, over all batches.
fn numbers(batches: &[RecordBatch], name: &str) -> Vec<Option<i64>> {
    let of = |batch: &RecordBatch| {
        let column = cast(batch.column_by_name(name).expect("a column"), &DataType::Int64).expect("numbers");
        column.as_primitive::<Int64Type>().iter().collect::<Vec<_>>()
    };
    batches.iter().flat_map(of).collect()
}

/// A column of names, over all batches.
fn names(batches: &[RecordBatch], name: &str) -> Vec<String> {
    let of = |batch: &RecordBatch| {
        let column = cast(batch.column_by_name(name).expect("a column"), &DataType::Utf8).expect("text");
        let text = column.as_string::<i32>();
        (0..text.len())
            .map(|row| if text.is_null(row) { "" } else { text.value(row) }.to_owned())
            .collect::<Vec<_>>()
    };
    batches.iter().flat_map(of).collect()
}

/// Numbers above the supported range are saturated.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn batch(synthesis: Vec<Synthesis>) -> Batch {
    Batch { synthesis, ..Batch::default() }
}

proptest! {
    #[test]
    fn each_number_is_the_batchs(sums in sums()) {
        let batch = batch(sums);
        let written = summed(&batch, &NodeInfo::default());
        let sums = &batch.synthesis;
        let each = |of: &dyn Fn(&Synthesis) -> Option<i64>| sums.iter().map(of).collect::<Vec<_>>();
        let on_line = |ns: u64| Some(signed(ns).saturating_add(1_000));
        prop_assert_eq!(numbers(&written.sums, "ts_ns"), each(&|sum| on_line(sum.from_ns)));
        prop_assert_eq!(numbers(&written.sums, "to_ns"), each(&|sum| on_line(sum.to_ns)));
        prop_assert_eq!(numbers(&written.sums, "n"), each(&|sum| Some(signed(sum.n))));
        let is_time = |sum: &Synthesis| matches!(sum.of, Sum::Since(_));
        prop_assert_eq!(numbers(&written.sums, "sum_ns"), each(&|sum| is_time(sum).then(|| signed(sum.sum))));
        let has_bytes = |sum: &Synthesis| !is_time(sum) && sum.of != Sum::Begun;
        prop_assert_eq!(numbers(&written.sums, "bytes"), each(&|sum| has_bytes(sum).then(|| signed(sum.sum))));

        let buckets: Vec<(u64, u16, u32)> =
            sums.iter().flat_map(|sum| sum.buckets.iter().map(|(number, n)| (sum.to_ns, *number, *n))).collect();
        prop_assert_eq!(numbers(&written.buckets, "n"), buckets.iter().map(|(.., n)| Some(i64::from(*n))).collect::<Vec<_>>());
        prop_assert_eq!(numbers(&written.buckets, "to_ns"), buckets.iter().map(|(ns, ..)| on_line(*ns)).collect::<Vec<_>>());
        let (least, most) = (numbers(&written.buckets, "min_ns"), numbers(&written.buckets, "max_ns"));
        for ((_, number, _), bounds) in buckets.iter().zip(least.into_iter().zip(most)) {
            let range = Some(usize::from(*number)).filter(|number| *number <= bucket(LONGEST_NS)).and_then(bucket_range_ns);
            let range = range.map(|(least, most)| (least as i64, most.min(LONGEST_NS) as i64));
            prop_assert_eq!(bounds.0.zip(bounds.1), range);
        }
    }
}

#[test]
fn names_are_those_of_the_other_tables() {
    let flow = Flow {
        id: FlowId(7),
        netns: 0,
        proto: Proto::UDP,
        local: "10.0.0.1:4000".parse().expect("an end"),
        remote: "10.0.0.2:53".parse().expect("an end"),
    };
    let info = NodeInfo {
        drop_reasons: vec![DropReason { number: 6, name: "tcp_csum".to_owned() }],
        ..NodeInfo::default()
    };
    let sum = |of| Synthesis { from_ns: 1, to_ns: 2, hop: Hop::DevXmit, of, n: 1, sum: 1, buckets: Vec::new() };
    let all = [
        Sum::Since(Hop::DevQueue),
        Sum::Begun,
        Sum::Flow(FlowId(7)),
        Sum::Flow(FlowId(8)),
        Sum::Cgroup(42),
        Sum::Reason(6),
        Sum::Reason(7),
        Sum::Rest,
    ];
    let batch = Batch { flows: vec![flow], ..batch(all.map(sum).to_vec()) };
    let written = summed(&batch, &info);
    let column = |name: &str| names(&written.sums, name);
    assert_eq!(column("sum_of"), ["since", "begun", "flow", "flow", "cgroup", "reason", "reason", "rest"]);
    assert_eq!(column("from_hop"), ["dev.queue", "", "", "", "", "", "", ""]);
    assert_eq!(
        column("local_addr"),
        ["", "", "10.0.0.1", "", "", "", "", ""],
        "the second was never announced"
    );
    assert_eq!(numbers(&written.sums, "remote_port")[2..4], [Some(53), None]);
    assert_eq!(numbers(&written.sums, "flow")[1..5], [None, Some(7), Some(8), None]);
    assert_eq!(column("proto")[2..4], ["udp", ""]);
    assert_eq!(column("cgroup")[4], "42");
    assert_eq!(column("drop_name")[5..7], ["tcp_csum", "reason 7"]);
    assert_eq!(numbers(&written.sums, "drop_reason")[4..], [None, Some(6), Some(7), None]);
    assert!(written.buckets.is_empty());
}

//! Reports over captures that leave records out: a filter, a sampler, or the kernel's sums.

use magscope_core::change::HopCount;
use magscope_core::node::{Backend, Coverage, NodeInfo};
use magscope_core::synthesis::{Sum, Synthesis};
use magscope_core::{Batch, Hop};
use magscope_report::{Report, ReportBuilder};

fn node(settings: &[&str]) -> NodeInfo {
    NodeInfo {
        host: "one".to_owned(),
        settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
        coverage: Coverage::full(Backend::Generator),
        ..NodeInfo::default()
    }
}

/// A reading of the counters, in which every hit passed the filter.
fn count(hop: Hop, recorded: u64, sampled: u64, synthesised: u64) -> HopCount {
    HopCount { time_ns: 1, hop, kept: recorded, filtered: 0, undecided: 0, sampled, synthesised }
}

fn report(node: &NodeInfo, batch: &Batch) -> Report {
    let mut report = ReportBuilder::new(node);
    report.batch(batch);
    report.finish()
}

#[test]
fn sums_of_the_kernel_have_the_weight_of_their_sampler() {
    let sum = |of, n| Synthesis {
        from_ns: 1,
        to_ns: 1_000_000_001,
        hop: Hop::DevXmit,
        of,
        n,
        sum: 0,
        buckets: Vec::new(),
    };
    let batch = Batch {
        synthesis: vec![sum(Sum::Begun, 100)],
        counts: vec![count(Hop::DevXmit, 0, 900, 100)],
        ..Batch::default()
    };
    let report = report(&node(&["detail histograms", "sample 1/10 all"]), &batch);
    let row = report.hops.iter().find(|row| row.hop == Hop::DevXmit).expect("a row");
    assert_eq!((row.all_events, row.events_per_s.round() as u64), (Some(1_000.0), 1_000));
}

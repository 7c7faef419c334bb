//! What the running kernel serves, and how long it takes to attach: a row per hop, ability and figure, for the table of
//! kernels (scripts/test-kernels.sh).

use crate::common::{can_capture, undisturbed};
use magscope_core::hop::HopSet;
use magscope_core::node::{Ability, Service};
use magscope_probe::{Capture, CaptureOptions, HostFacts, default_hops, plan, tried};
use std::time::{Duration, Instant};

/// Rounds of attach and detach; the table has the median.
const ROUNDS: usize = 5;

fn row(facts: &HostFacts, name: &dyn std::fmt::Display, cell: &str) {
    println!("ROW|{}|{name}|{cell}", facts.kernel);
}

#[test]
fn what_this_kernel_serves_is_listed() {
    if !can_capture() {
        return;
    }
    let facts = tried(&HostFacts::read().expect("facts")).expect("programs load");
    let plan = plan(&facts, HopSet::all());
    for hop in &plan.coverage.hops {
        let cell = match &hop.service {
            Service::Served { backend, .. } => backend.to_string(),
            Service::Missing { because } => format!("missing: {because}"),
            Service::Off => "off".to_owned(),
        };
        row(&facts, &format_args!("`{}`", hop.hop), &cell);
    }
    for ability in Ability::ALL {
        let cell =
            facts.left_out.get(&ability).map_or("yes".to_owned(), |because| format!("missing: {because}"));
        row(&facts, &ability, &cell);
    }
    assert!(plan.served().iter().any(magscope_probe::plan::is_per_packet), "{:?}", facts.unloadable);
}

/// Prints the durations; asserts only that the default hops attach and nothing stays attached.
#[test]
fn the_default_hops_attach_and_detach() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let facts = HostFacts::read().expect("facts");
        let (mut attached, mut detached) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let begin = Instant::now();
            let mut capture = Capture::start_on(&facts, CaptureOptions::default()).expect("a capture");
            attached.push(begin.elapsed());
            let begin = Instant::now();
            capture.stop();
            drop(capture);
            detached.push(begin.elapsed());
        }
        let first = attached[0];
        let median = |mut times: Vec<Duration>| {
            times.sort();
            times[ROUNDS / 2].as_millis()
        };
        let served = plan(&facts, default_hops());
        row(&facts, &"programs of the default hops", &served.programs().len().to_string());
        row(&facts, &"attach, ms: first", &first.as_millis().to_string());
        row(&facts, &"attach, ms: median of 5", &median(attached).to_string());
        row(&facts, &"detach, ms: median of 5", &median(detached).to_string());
    });
}

//! Cost of an event that a filter or sampler rejects, compared with an event that becomes a record. One hop is
//! attached to a tight `send`/`recv` loop, in interleaved rounds; the kernel's run-time statistics give the
//! cost.
//!
//! `cargo bench -p magscope-probe --bench left_out`, as root. The bench prints a table; it asserts only that
//! rejected events are counted as such.

mod loopback;

use libbpf_rs::query::ProgInfoIter;
use loopback::{ROUNDS, SENDS, account, alone, exchange, quartiles, stop};
use magscope_core::{CaptureFilter, Hop};
use magscope_probe::{Capture, CaptureOptions, HostFacts, Sampler, plan};
use std::net::UdpSocket;

const HOPS: [Hop; 3] = [Hop::DevXmit, Hop::DevRecv, Hop::AppRecv];

/// Run time, nanoseconds, and run count of all programs with this name.
fn ran(program: &str) -> (u64, u64) {
    let of_name = ProgInfoIter::default().filter(|info| info.name.to_string_lossy() == program);
    of_name.fold((0, 0), |(ns, runs), info| (ns + info.run_time_ns, runs + info.run_cnt))
}

/// One setting, and the cost of a hit in each round.
struct Variant {
    name: &'static str,
    filter: Option<String>,
    sampler: Sampler,
    accepts: bool,
    costs: Vec<Vec<f64>>,
}

fn variant(name: &'static str, filter: Option<&str>, accepts: bool) -> Variant {
    let costs = vec![Vec::new(); HOPS.len()];
    Variant { name, filter: filter.map(str::to_owned), sampler: Sampler::default(), accepts, costs }
}

fn measure(socket: &UdpSocket, hop: Hop, variant: &Variant) -> f64 {
    let filter = variant.filter.as_ref().map(|text| CaptureFilter::parse(text).expect("a filter"));
    let capture = Capture::start(CaptureOptions {
        hops: [hop].into_iter().collect(),
        ring_bytes_per_cpu: 32 << 20,
        filter,
        samplers: vec![(hop, variant.sampler)],
        ..CaptureOptions::default()
    })
    .expect("capture");
    let plan = plan(&HostFacts::read().expect("/proc"), [hop].into_iter().collect());
    let program = plan.programs().iter().find(|probe| probe.hop == hop).expect("served").program;
    let before = ran(program);
    exchange(socket);
    let after = ran(program);
    let ns = (after.0 - before.0) as f64 / (after.1 - before.1) as f64;
    let counters = capture.counters().expect("counters");
    assert_eq!(counters.lost(), 0, "a lost record costs less than a kept one");
    let count = counters.hops.iter().find(|count| count.hop == hop).expect("hits");
    let most = if variant.accepts { count.seen() } else { count.kept };
    assert!(
        most >= count.kept && (variant.accepts || count.kept < SENDS as u64 / 100),
        "{}: {count:?}",
        variant.name
    );
    stop(capture);
    ns
}

fn main() {
    let Some((_, socket)) = alone() else { return };
    let _account = account();

    let eight = (1..=8).map(|port| format!("port {port}")).collect::<Vec<_>>().join(" or ");
    let own = std::process::id();
    let mut variants = [
        variant("kept, no filter", None, true),
        variant("kept, one comparison", Some("udp"), true),
        variant("left out, one comparison", Some("tcp"), false),
        variant("left out, eight comparisons", Some(&eight), false),
        variant("left out, by address", Some("host 10.9.9.9"), false),
        variant("left out, one of two sorts", Some("port 1 or host 10.9.9.9"), false),
        variant("left out, by process", Some(&format!("not tgid {own}")), false),
        Variant {
            sampler: Sampler { one_in: 1000, ..Sampler::default() },
            ..variant("sampled out, 1/1000", None, false)
        },
    ];
    for _ in 0..ROUNDS {
        for (nth, hop) in HOPS.into_iter().enumerate() {
            for variant in &mut variants {
                let ns = measure(&socket, hop, variant);
                variant.costs[nth].push(ns);
            }
        }
    }
    println!("ns a run of the hop's program, median (quartiles) of {ROUNDS} rounds of {SENDS}");
    print!("{:<28}", "");
    for hop in HOPS {
        print!("{:>22}", hop.name());
    }
    println!();
    for variant in &mut variants {
        print!("{:<28}", variant.name);
        for costs in &mut variant.costs {
            let [low, middle, high] = quartiles(costs);
            print!("{:>22}", format!("{middle:.0} ({low:.0}–{high:.0})"));
        }
        println!();
    }
}

//! Events per second through the correlator, by the CPU time of its one thread. The target is five million.
//!
//! `cargo bench -p magscope-core --bench correlate [-- PART OF A NAME [ROUNDS]]`. Rounds are interleaved, so
//! that other load on the machine affects all rows alike.

mod generated;
mod spent;
mod windows;

use generated::traffic;
use magscope_core::batch::{Loss, LossCause};
use magscope_core::hop::HopSet;
use magscope_core::journey::{Correlator, Limits};
use magscope_core::node::{Backend, Coverage};
use magscope_core::{Batch, GeneratorOptions};
use std::hint::black_box;
use windows::Windows;

/// Makes the batches of one row.
type Make<'a> = &'a dyn Fn() -> Vec<Batch>;

struct Case {
    name: &'static str,
    served: HopSet,
    limits: Limits,
    batches: Vec<Batch>,
}

/// Each batch lost one record of a hundred, as with an occasionally late reader.
fn with_losses(mut batches: Vec<Batch>) -> Vec<Batch> {
    for batch in &mut batches {
        let gap = batch.events.len() / 2..batch.events.len() / 2 + batch.events.len() / 100;
        let (Some(from), Some(to)) = (batch.events.get(gap.start), batch.events.get(gap.end)) else { continue };
        let (from_ns, to_ns, count) = (from.time_ns, to.time_ns, gap.len() as u64);
        batch.losses.push(Loss { cpu: 0, from_ns, to_ns, count, cause: LossCause::RingFull });
        batch.events.drain(gap);
    }
    batches
}

fn cases(wanted: &str) -> Vec<Case> {
    let (served, limits) = (Coverage::full(Backend::Generator).served(), Limits::default());
    let plain = GeneratorOptions::default();
    let mix = Windows { flows: 64, window: 16, lose_every: 500, udp_every: 4, events: 1_000_000 };
    let deep = Windows { flows: 200, window: 500, lose_every: 0, udp_every: 0, events: 3_000_000 };
    let lossy = Windows { lose_every: 50, ..deep };
    let one_flow = Windows { flows: 1, window: 100_000, ..deep };
    let one_flow_lossy = Windows { flows: 1, window: 20_000, lose_every: 1_000, ..deep };
    let crowded = Limits { max_pieces: 50_000, ..limits };
    let generated: [(_, Make<'_>); 5] = [
        ("1 flow", &|| traffic(GeneratorOptions { flows: 1, ..plain })),
        ("64 flows", &|| traffic(plain)),
        ("4096 flows", &|| traffic(GeneratorOptions { flows: 4096, ..plain })),
        ("64 flows, lossy", &|| traffic(GeneratorOptions { lose_every: 50, ..plain })),
        ("64 flows, records lost", &|| with_losses(traffic(plain))),
    ];
    let windows: [(_, _, Make<'_>); 8] = [
        ("mix", limits, &|| windows::make(mix)),
        ("deep TCP", limits, &|| windows::make(deep)),
        ("deep TCP, lossy", limits, &|| windows::make(lossy)),
        ("deep TCP, lossy, records lost", limits, &|| with_losses(windows::make(lossy))),
        ("deep TCP, lossy, evicting", crowded, &|| windows::make(lossy)),
        ("deep TCP, one flow", limits, &|| windows::make(one_flow)),
        ("deep TCP, one flow, lossy", limits, &|| windows::make(one_flow_lossy)),
        ("deep UDP", limits, &|| windows::make(Windows { udp_every: 1, ..deep })),
    ];
    let generated = generated.into_iter().map(|(name, make)| (name, served, limits, make));
    let windows = windows.into_iter().map(|(name, limits, make)| (name, windows::hops(), limits, make));
    let all = generated.chain(windows).filter(|case| case.0.contains(wanted));
    all.map(|(name, served, limits, make)| Case { name, served, limits, batches: make() }).collect()
}

/// One pass: CPU time in nanoseconds, and the maximum in flight.
fn run(case: &Case) -> (u64, usize, Correlator) {
    let (mut correlator, mut done, mut most) = (Correlator::new(case.served, case.limits), Vec::new(), 0);
    let since = spent::ns();
    for batch in &case.batches {
        correlator.push(batch, &mut done);
        most = most.max(correlator.in_flight());
        black_box(&done);
        done.clear();
    }
    (spent::ns() - since, most, correlator)
}

/// Median and range.
fn summary(of: &mut [f64]) -> (f64, String) {
    of.sort_by(f64::total_cmp);
    let median = of.get(of.len() / 2).copied().unwrap_or_default();
    let (lowest, highest) = (of.first().copied().unwrap_or_default(), of.last().copied().unwrap_or_default());
    (median, format!("{lowest:.1}-{highest:.1}"))
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let wanted = args.next().unwrap_or_default();
    let rounds = args.next().and_then(|n| n.parse().ok()).unwrap_or(5);
    let cases = cases(&wanted);
    let mut rates = vec![Vec::new(); cases.len()];
    for _ in 0..rounds {
        for (case, rates) in cases.iter().zip(&mut rates) {
            let events: usize = case.batches.iter().map(|b| b.events.len()).sum();
            rates.push(events as f64 * 1e3 / run(case).0 as f64);
        }
    }
    println!(
        "{:<32}{:>10}{:>16}{:>12}{:>10}{:>10}",
        "M events/s", "median", "range", "in flight", "journeys", "evicted"
    );
    for (case, mut rates) in cases.iter().zip(rates) {
        let (_, most, correlator) = run(case);
        let (median, range) = summary(&mut rates);
        let counters = correlator.counters();
        println!(
            "{:<32}{median:>10.1}{range:>16}{most:>12}{:>10}{:>10}",
            case.name, counters.journeys, counters.evicted
        );
    }
}

//! Cost of exchanges: events per second of the correlator alone, and with the builder of exchanges behind it, by the CPU
//! time of the one thread; and the memory of a connection.
//!
//! `cargo bench -p magscope-core --bench exchanges [-- ROUNDS]`. The two are interleaved, round by round.

mod generated;
mod spent;
#[allow(dead_code)] // each bench uses a part
mod windows;

use generated::traffic;
use magscope_core::context::NodeContext;
use magscope_core::exchange::{CONNECTION_BYTES, ExchangeBuilder};
use magscope_core::journey::{Correlator, Limits};
use magscope_core::node::{Backend, Coverage, NodeInfo};
use magscope_core::{Batch, GeneratorOptions};
use std::hint::black_box;
use windows::Windows;

/// One pass: CPU time in nanoseconds.
fn run(batches: &[Batch], info: &NodeInfo, with: bool) -> u64 {
    let mut correlator = Correlator::of_node(info, Limits::default());
    let (mut builder, mut done, mut ready) = (ExchangeBuilder::new(), Vec::new(), Vec::new());
    let since = spent::ns();
    for batch in batches {
        correlator.push(batch, &mut done);
        if with {
            let context = NodeContext { correlator: &correlator, node: info };
            builder.batch(0, batch, &mut ready);
            for journey in &done {
                builder.journey(journey, &context, &mut ready);
            }
        }
        black_box((&done, &ready));
        done.clear();
        ready.clear();
    }
    if with {
        builder.finish(&mut ready);
        black_box(&ready);
    }
    spent::ns() - since
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let rounds = args.next().and_then(|n| n.parse().ok()).unwrap_or(7);
    let info = NodeInfo { coverage: Coverage::full(Backend::Generator), ..NodeInfo::default() };
    let plain = GeneratorOptions::default();
    let mix = Windows { flows: 64, window: 16, lose_every: 500, udp_every: 4, events: 1_000_000 };
    let cases = [
        ("64 flows", traffic(plain)),
        ("4096 flows", traffic(GeneratorOptions { flows: 4096, ..plain })),
        ("mix", windows::make(mix)),
    ];
    println!("{:<16}{:>16}{:>16}{:>10}{:>16}", "", "alone, M ev/s", "with, M ev/s", "ratio", "range");
    for (name, batches) in &cases {
        let events: usize = batches.iter().map(|batch| batch.events.len()).sum();
        let (mut alone, mut with, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            let (without_ns, with_ns) = (run(batches, &info, false), run(batches, &info, true));
            alone.push(events as f64 * 1e3 / without_ns as f64);
            with.push(events as f64 * 1e3 / with_ns as f64);
            ratios.push(without_ns as f64 / with_ns as f64);
        }
        let median = |of: &mut Vec<f64>| {
            of.sort_by(f64::total_cmp);
            of.get(of.len() / 2).copied().unwrap_or_default()
        };
        let (alone, with, ratio) = (median(&mut alone), median(&mut with), median(&mut ratios));
        let ends = ratios.first().zip(ratios.last()).map_or((0.0, 0.0), |(low, high)| (*low, *high));
        let range = format!("{:.2}-{:.2}", ends.0, ends.1);
        println!("{name:<16}{alone:>16.2}{with:>16.2}{ratio:>10.2}{range:>16}");
    }
    println!(
        "a connection: up to {CONNECTION_BYTES} bytes, and {} for each waiting journey",
        magscope_core::exchange::PIECE_BYTES
    );
}

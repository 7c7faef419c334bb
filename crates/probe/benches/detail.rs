//! Cost of one hit for each outcome: full record, compact record, sums in the kernel, or rejection by a filter.
//!
//! All hops of one capture stay attached and only the setting changes, in interleaved rounds of a tight
//! `send`/`recv` loop. The kernel's run-time statistics of the programs give the cost, so other load does not
//! count. The bench also measures the cost of reading the records.
//!
//! `cargo bench -p magscope-probe --bench detail`, as root. The bench prints a table; it asserts only that each
//! outcome occurred.

mod loopback;

use libbpf_rs::query::ProgInfoIter;
use loopback::{ROUNDS, SENDS, account, alone, exchange, quartiles, stop};
use magscope_core::source::Source;
use magscope_core::{Batch, CaptureFilter, Hop, HopCount};
use magscope_probe::plan::default_hops;
use magscope_probe::{Capture, CaptureOptions, Detail, SUMS, Setting};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// One outcome, with the nanoseconds of a hit and of reading a record in each round.
struct Variant {
    name: &'static str,
    settings: Vec<Setting>,
    rounds: Vec<[f64; 2]>,
}

fn variant(name: &'static str, detail: Detail, filter: Option<&str>) -> Variant {
    let filter = filter.map(|text| CaptureFilter::parse(text).expect("a filter"));
    Variant { name, settings: vec![Setting::Filter(filter), Setting::Detail(detail)], rounds: Vec::new() }
}

/// Ids of all loaded programs.
fn programs() -> HashSet<u32> {
    ProgInfoIter::default().map(|info| info.id).collect()
}

/// Run time of all programs except `others`, nanoseconds.
fn ran(others: &HashSet<u32>) -> u64 {
    ProgInfoIter::default().filter(|info| !others.contains(&info.id)).map(|info| info.run_time_ns).sum()
}

fn seen(capture: &Capture) -> u64 {
    capture.counters().expect("counters").hops.iter().map(HopCount::seen).sum()
}

/// Reads until the rings are empty and all held records are delivered.
fn read_ns(capture: &mut Capture, batch: &mut Batch) -> (f64, u64) {
    let (start, mut records) = (Instant::now(), 0);
    let mut waited = Duration::ZERO;
    for round in 0..3 {
        capture.next(batch, Duration::ZERO).expect("a batch");
        records += batch.numbered();
        if round < 2 {
            let begin = Instant::now();
            std::thread::sleep(Duration::from_millis(6));
            waited += begin.elapsed();
        }
    }
    (start.elapsed().saturating_sub(waited).as_nanos() as f64, records)
}

fn main() {
    let Some((_, socket)) = alone() else { return };
    let mut variants = [
        variant("full", Detail::Full, None),
        variant("compact", Detail::Compact, None),
        variant("histograms", Detail::Histograms, None),
        variant("both", Detail::Both, None),
        variant("left out by the filter", Detail::Full, Some("tcp")),
    ];
    let _account = account();
    // without wake-ups: their programs also run without a hit, and a filter on them makes every hop record
    // sockets
    let mut hops = default_hops();
    hops.remove(Hop::TaskWake);
    hops.remove(Hop::TaskRun);
    let (mut batch, mut hits) = (Batch::default(), 0.0);
    for _ in 0..ROUNDS {
        let others = programs();
        let mut capture = Capture::start(CaptureOptions {
            hops,
            ring_bytes_per_cpu: 64 << 20,
            sums: SUMS,
            ..CaptureOptions::default()
        })
        .expect("capture");
        for variant in &mut variants {
            for setting in &variant.settings {
                capture.change(setting).expect("changed");
            }
            read_ns(&mut capture, &mut batch);
            let (hits_before, before) = (seen(&capture), ran(&others));
            exchange(&socket);
            let (ns, seen) = (ran(&others) - before, seen(&capture) - hits_before);
            let (reading_ns, records) = read_ns(&mut capture, &mut batch);
            assert_eq!(
                capture.counters().expect("counters").lost(),
                0,
                "a lost record costs less than a kept one"
            );
            let reading = if records > SENDS as u64 { reading_ns / records as f64 } else { 0.0 };
            variant.rounds.push([ns as f64 / seen as f64, reading]);
            hits = seen as f64 / SENDS as f64;
        }
        stop(capture);
    }
    let of =
        |variant: &Variant, at: usize| -> Vec<f64> { variant.rounds.iter().map(|round| round[at]).collect() };
    let full = of(&variants[0], 0);
    println!("{ROUNDS} rounds of {SENDS} pairs, {hits:.1} hits a pair; medians (quartiles)");
    println!("{:<26}{:>20}{:>22}{:>22}", "", "ns a hit", "of a full record", "reading, ns a record");
    for variant in &variants {
        let mut cost = of(variant, 0);
        let mut ratio: Vec<f64> = cost.iter().zip(&full).map(|(cost, full)| cost / full).collect();
        let shown = |values: &mut [f64], digits: usize| {
            let [low, middle, high] = quartiles(values);
            if middle > 0.0 {
                format!("{middle:.digits$} ({low:.digits$}–{high:.digits$})")
            } else {
                "·".to_owned()
            }
        };
        let (cost, ratio, reading) = (shown(&mut cost, 0), shown(&mut ratio, 2), shown(&mut of(variant, 1), 1));
        println!("{:<26}{cost:>20}{ratio:>22}{reading:>22}", variant.name);
    }
}

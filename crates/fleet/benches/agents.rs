//! Cost and throughput of one viewer with two agents.
//!
//! `cargo bench -p magscope-fleet --bench agents [-- EVENTS_A_SECOND SECONDS]`: generated traffic of two hosts,
//! each with its own memory, read over mutual TLS on loopback. The first run uses this rate per host, the
//! second the maximum. Processor time is that of the threads, as counted by the kernel.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Serving, authority, connect, viewer};
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Generator, GeneratorOptions, LossCause};
use magscope_fleet::{Memory, StartAt, Terms};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const MEMORY: u64 = 256 << 20;
const TICK: Duration = Duration::from_millis(20);

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let rate = numbers.first().copied().unwrap_or(500_000);
    let seconds = numbers.get(1).copied().unwrap_or(5);
    println!("two agents, one viewer, mutual TLS on loopback, {seconds} s each");
    run(Some(rate), seconds);
    run(None, seconds);
}

/// Batches of generated traffic, repeated.
struct Traffic {
    batches: Vec<Batch>,
    at: usize,
}

impl Traffic {
    fn new() -> Self {
        let mut generator = Generator::new(GeneratorOptions { events: 400_000, ..GeneratorOptions::default() });
        let (mut batches, mut batch) = (Vec::new(), Batch::default());
        while generator.next(&mut batch, Duration::ZERO).expect("it never fails") == Progress::More {
            batches.push(batch.clone());
        }
        Traffic { batches, at: 0 }
    }

    fn next(&mut self) -> &Batch {
        self.at = (self.at + 1) % self.batches.len();
        &self.batches[self.at]
    }
}

fn run(rate: Option<u64>, seconds: u64) {
    let (_dir, folder) = authority();
    let stop = Arc::new(AtomicBool::new(false));
    let mut threads = Vec::new();
    let (mut servers, mut remotes) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let (memory, mut writer) = Memory::new(common::info(), MEMORY).expect("Arrow");
        let serving = Serving::start(&memory, 0, Some((folder.clone(), "host-web-1")));
        remotes.push(
            connect(serving.tls(), viewer(&folder, "viewer-me"), StartAt::Now, Terms::default())
                .expect("let in"),
        );
        assert!(common::eventually(|| memory.readers() == 1));
        servers.push((serving, memory));
        let stop = stop.clone();
        let thread = std::thread::Builder::new().name("keeps".to_owned());
        let mut traffic = Traffic::new();
        threads.push(
            thread
                .spawn(move || {
                    let (began, mut given) = (Instant::now(), 0_u64);
                    while !stop.load(Ordering::Relaxed) {
                        let due =
                            rate.map_or(u64::MAX, |rate| (began.elapsed().as_secs_f64() * rate as f64) as u64);
                        if given >= due {
                            std::thread::sleep(TICK);
                            continue;
                        }
                        let batch = traffic.next();
                        given += batch.events.len() as u64;
                        writer.push(batch).expect("kept");
                    }
                    given
                })
                .expect("a thread"),
        );
    }
    let (came, missed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let viewers: Vec<_> = remotes
        .into_iter()
        .map(|mut remote| {
            let (came, missed, stop) = (came.clone(), missed.clone(), stop.clone());
            let thread = std::thread::Builder::new().name("views".to_owned());
            thread
                .spawn(move || {
                    let mut batch = Batch::default();
                    while !stop.load(Ordering::Relaxed) {
                        remote.next(&mut batch, Duration::from_millis(50)).expect("a source");
                        came.fetch_add(batch.events.len() as u64, Ordering::Relaxed);
                        let lost = batch.losses.iter().filter(|loss| loss.cause == LossCause::Missed);
                        missed.fetch_add(lost.map(|loss| loss.count).sum(), Ordering::Relaxed);
                    }
                })
                .expect("a thread")
        })
        .collect();
    let before = processor_time();
    let (began, first) = (Instant::now(), came.load(Ordering::Relaxed));
    std::thread::sleep(Duration::from_secs(seconds));
    let (passed, last) = (began.elapsed().as_secs_f64(), came.load(Ordering::Relaxed));
    let after = processor_time();
    stop.store(true, Ordering::Relaxed);
    let given: u64 = threads.into_iter().map(|thread| thread.join().expect("it ends")).sum();
    for thread in viewers {
        thread.join().expect("it ends");
    }
    let rate =
        rate.map_or_else(|| "as fast as it goes".to_owned(), |rate| format!("{rate} events/s from each"));
    println!("\n{rate}:");
    println!(
        "  {:.0} events/s came, {} given, {} missed",
        (last - first) as f64 / passed,
        given,
        missed.load(Ordering::Relaxed)
    );
    for (_, memory) in &servers {
        let holds = memory.holds();
        // Either all packets are in memory, or packets are alike.
        let (packets, records) = (holds.packets.max(1) as f64, holds.came_records as f64);
        let each = records / holds.came_packets.max(1) as f64;
        println!(
            "  {each:.0} records and {:.1} kB a packet, {:.1} bytes a record",
            holds.bytes as f64 / packets / 1e3,
            holds.bytes as f64 / packets / each
        );
    }
    for (name, ticks) in after {
        let spent = ticks - before.get(&name).copied().unwrap_or(0);
        let share = spent as f64 / 100.0 / passed * 100.0;
        if share >= 0.5 {
            println!(
                "  {name:<14} {share:5.1} % of a CPU, {:.0} ns an event",
                spent as f64 * 1e7 / (last - first) as f64
            );
        }
    }
}

/// Processor time of this process's threads by their names, in hundredths of a second.
fn processor_time() -> BTreeMap<String, u64> {
    let mut times = BTreeMap::new();
    for thread in std::fs::read_dir("/proc/self/task").expect("/proc").flatten() {
        let Ok(stat) = std::fs::read_to_string(thread.path().join("stat")) else { continue };
        let Some((head, tail)) = stat.rsplit_once(") ") else { continue };
        let name = head.split_once('(').map_or("", |(_, name)| name).to_owned();
        let fields: Vec<u64> = tail.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
        *times.entry(name).or_default() += fields[11] + fields[12];
    }
    times
}

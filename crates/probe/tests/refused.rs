//! Refused probe runs are reported as losses, in the number that the kernel counts.

use crate::common;

use common::{can_capture, hops, quiet};
use magscope_core::{Hop, LossCause};
use magscope_probe::CaptureOptions;
use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Refused runs by program, over the programs that this process holds.
fn refused_by_program() -> BTreeMap<String, u64> {
    let entries = fs::read_dir("/proc/self/fdinfo").expect("/proc is mounted");
    let texts = entries.filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok());
    let of = |text: &str, key: &str| -> Option<String> {
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.split_ascii_whitespace().nth(1)?.to_owned())
    };
    texts
        .filter_map(|text| Some((of(&text, "prog_id:")?, of(&text, "recursion_misses:")?.parse().ok()?)))
        .collect()
}

/// The kernel runs no plain tracepoint program inside another on one CPU. A program that runs half of the time,
/// at a system call in a loop, therefore blocks another for some timer interrupts.
#[test]
fn hits_that_an_interrupt_brings_amid_another_are_told_as_losses() {
    if !can_capture() {
        return;
    }
    let probes = [
        "tracepoint:syscalls:sys_enter_getppid name=call",
        "tracepoint:irq_vectors:local_timer_entry name=tick",
    ];
    let places = ["syscalls/sys_enter_getppid", "irq_vectors/local_timer_entry"];
    if let Some(place) =
        places.iter().find(|p| !fs::exists(format!("/sys/kernel/tracing/events/{p}")).unwrap_or(false))
    {
        println!("refused runs: skipped, because this kernel has no tracepoint {place}");
        return;
    }
    let mut recording = quiet().capture_with(CaptureOptions {
        hops: hops(&[Hop::DevXmit]),
        probes: probes.iter().map(|text| text.parse().expect("a probe")).collect(),
        ..CaptureOptions::default()
    });
    let enough = Arc::new(AtomicBool::new(false));
    let caller = std::thread::spawn({
        let enough = Arc::clone(&enough);
        move || {
            while !enough.load(Ordering::Relaxed) {
                for _ in 0..64 {
                    let _ = rustix::process::getppid();
                }
            }
        }
    });
    let until = Instant::now() + Duration::from_secs(30);
    let total = || refused_by_program().values().sum::<u64>();
    while total() < 20 && Instant::now() < until {
        recording.drain(Duration::from_millis(50));
    }
    enough.store(true, Ordering::Relaxed);
    caller.join().expect("it only calls");
    recording.drain(Duration::from_millis(50));
    let refused = total();
    let counters = recording.stop();
    assert!(refused >= 20, "in 30 s only {refused}");
    assert_eq!(counters.refused, refused);
    let losses = recording.batches.iter().flat_map(|batch| &batch.losses);
    let reported: u64 = losses.filter(|loss| loss.cause == LossCause::Refused).map(|loss| loss.count).sum();
    assert_eq!(reported, refused);
    println!("{refused} of {} ticks refused", counters.probes[1].kept + refused);
}

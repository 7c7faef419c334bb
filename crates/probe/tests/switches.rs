//! The scheduler's hops, held against the kernel's own count of a thread's switches.

mod common;

use common::{Net, can_capture};
use magscope_core::hop::HopSet;
use magscope_core::{Event, Hop};
use magscope_probe::clock::monotonic_ns;
use std::time::Duration;

const SLEEPS: u64 = 60;

/// How often the calling thread gave its CPU away or lost it, and an instant at which that was so.
fn switches() -> (u64, u64) {
    let count = || -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("/proc is mounted");
        let lines = status.lines().filter(|line| line.contains("voluntary_ctxt_switches"));
        lines.filter_map(|line| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()).sum()
    };
    loop {
        let (before, now, after) = (count(), monotonic_ns(), count());
        if before == after {
            return (before, now);
        }
    }
}

#[test]
fn every_switch_of_a_thread_is_told_with_its_time_and_so_are_its_begin_and_end() {
    if !can_capture() {
        return;
    }
    let hops: HopSet = [Hop::SchedSwitch, Hop::SchedSwitched, Hop::SchedWakeup, Hop::SchedFork, Hop::SchedExit]
        .into_iter()
        .collect();
    let mut recording = Net::new().capture_with(magscope_probe::CaptureOptions {
        hops,
        ring_bytes_per_cpu: 32 << 20,
        ..Default::default()
    });
    let sleeper = std::thread::spawn(|| {
        for _ in 0..SLEEPS {
            std::thread::sleep(Duration::from_millis(2));
        }
        (rustix::thread::gettid().as_raw_nonzero().get() as u32, switches())
    });
    let (tid, (left, counted_at)) = sleeper.join().expect("it only sleeps");
    recording.drain(Duration::from_millis(100));
    let counters = recording.stop();
    assert_eq!(recording.lost(), 0);
    assert_eq!(recording.numbered() + recording.outside(), counters.hits);
    let of = |hop: Hop| -> Vec<&Event> {
        recording.events.iter().filter(|e| e.hop == hop && e.tid == tid && e.time_ns <= counted_at).collect()
    };
    assert!(left >= SLEEPS, "it slept: {left}");
    // as often as it left its CPU it came back, and it came once for the first time
    assert_eq!(of(Hop::SchedSwitch).len() as u64, left + 1);
    assert!(of(Hop::SchedWakeup).len() as u64 >= SLEEPS);
    let made = |e: &&Event| e.hop == Hop::SchedFork && e.detail == tid && e.tgid == std::process::id();
    assert_eq!(recording.events.iter().filter(made).count(), 1, "who made it is told");
    let ended = |e: &&Event| e.hop == Hop::SchedExit && e.tid == tid;
    assert_eq!(recording.events.iter().filter(ended).count(), 1);

    if !recording.served.contains(Hop::SchedSwitched) {
        println!("sched.switched: skipped, because this kernel has neither its tracepoints nor kprobes");
        return;
    }
    let ends = of(Hop::SchedSwitched);
    // the tracepoint at the end is not on a new task's way
    assert!((left..=left + 1).contains(&(ends.len() as u64)), "{} of {left}", ends.len());
    for end in &ends {
        let begin_ns = end.time_ns - u64::from(end.seq);
        let told = of(Hop::SchedSwitch);
        let middle = told.iter().rev().find(|e| e.cpu == end.cpu && e.time_ns <= end.time_ns);
        let middle = middle.expect("a switch is told before it is done");
        assert!(end.seq > 0 && begin_ns <= middle.time_ns, "{end:?} {middle:?}");
        assert_eq!((end.tgid, end.detail), (middle.tgid, middle.detail), "the same two tasks");
    }
    let mut took: Vec<u32> = ends.iter().map(|e| e.seq).collect();
    took.sort_unstable();
    println!("{} switches to the thread, median {} ns", took.len(), took[took.len() / 2]);
}

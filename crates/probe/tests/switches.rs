//! The scheduler's hops, compared with the kernel's own count of a thread's switches.

use crate::common;

use common::{Net, can_capture, can_capture_with};
use magscope_core::hop::HopSet;
use magscope_core::node::Ability;
use magscope_core::{CaptureFilter, Event, Hop};
use magscope_probe::clock::monotonic_ns;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

const SLEEPS: u64 = 60;

/// Number of context switches of the calling thread, and an instant at which the count was valid.
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

/// Switches that cannot be recorded because some tasks run no BPF programs: some sandbox kernels hide their
/// init from all tracing.
#[derive(Debug, Default)]
struct Unobservable {
    /// Switches to the thread from such a task.
    came: u64,
    /// Wake-ups of the thread without a record while such a task ran.
    woken: u64,
}

impl Unobservable {
    fn of(tid: u32, events: &[Event], until_ns: u64) -> Self {
        let ran = |event: &Event| match event.hop {
            Hop::SchedSwitch | Hop::SchedWakeup => event.detail.other_tid(),
            _ => event.tid,
        };
        let seen_tasks: HashSet<u32> =
            events.iter().filter(|event| event.hop != Hop::SchedSwitched).map(ran).collect();
        let mut unobserved = Unobservable::default();
        let mut chosen: HashMap<u16, u32> = HashMap::new();
        let (mut woken, mut hidden) = (true, false);
        for event in events.iter().filter(|event| event.time_ns <= until_ns) {
            woken |= event.hop == Hop::SchedWakeup && event.tid == tid;
            if event.hop != Hop::SchedSwitch {
                continue;
            }
            let before = chosen.insert(event.cpu, event.tid);
            let leaves = event.detail.other_tid() == tid;
            // the thread leaves a CPU that another task had, or that had a task before the capture began
            if leaves && before != Some(tid) {
                let reported = before.filter(|other| seen_tasks.contains(other));
                assert_eq!(reported, None, "a switch from there to the thread is missing: {event:?}");
                unobserved.came += 1;
            }
            if (event.tid == tid || leaves) && !woken && hidden {
                unobserved.woken += 1;
                woken = true;
            }
            if leaves {
                (woken, hidden) = (false, false);
            }
            hidden |= chosen.values().any(|task| *task != 0 && !seen_tasks.contains(task));
        }
        unobserved
    }
}

/// Starts a thread that sleeps many times. Returns its number, its switches and the instant of their count.
fn thread_that_sleeps() -> (u32, (u64, u64)) {
    let sleeper = std::thread::spawn(|| {
        for _ in 0..SLEEPS {
            std::thread::sleep(Duration::from_millis(2));
        }
        (rustix::thread::gettid().as_raw_nonzero().get() as u32, switches())
    });
    sleeper.join().expect("it only sleeps")
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
    let (tid, (left, counted_at)) = thread_that_sleeps();
    recording.drain(Duration::from_millis(100));
    let counters = recording.stop();
    assert_eq!(recording.lost(), 0);
    assert_eq!(recording.numbered() + recording.outside(), counters.hits);
    let of = |hop: Hop| -> Vec<&Event> {
        recording.events.iter().filter(|e| e.hop == hop && e.tid == tid && e.time_ns <= counted_at).collect()
    };
    assert!(left >= SLEEPS, "it slept: {left}");
    // every switch away from the thread is recorded, and every switch to it, unless after an untraced task
    let counted = |event: &&Event| event.hop == Hop::SchedSwitch && event.time_ns <= counted_at;
    let leaves =
        recording.events.iter().filter(counted).filter(|event| event.detail.other_tid() == tid).count() as u64;
    assert_eq!(leaves, left);
    let unobserved = Unobservable::of(tid, &recording.events, counted_at);
    assert_eq!(of(Hop::SchedSwitch).len() as u64 + unobserved.came, left + 1, "{unobserved:?}");
    assert!(of(Hop::SchedWakeup).len() as u64 + unobserved.woken >= SLEEPS, "{unobserved:?}");
    let made =
        |e: &&Event| e.hop == Hop::SchedFork && e.detail.other_tid() == tid && e.tgid == std::process::id();
    assert_eq!(recording.events.iter().filter(made).count(), 1, "who made it is told");
    let ended = |e: &&Event| e.hop == Hop::SchedExit && e.tid == tid;
    assert_eq!(recording.events.iter().filter(ended).count(), 1);

    if !recording.served.contains(Hop::SchedSwitched) {
        println!("sched.switched: skipped, because this kernel has neither its tracepoints nor kprobes");
        return;
    }
    let ends = of(Hop::SchedSwitched);
    // a new task does not pass the tracepoint at the end
    let measured = left - unobserved.came..=left + 1 - unobserved.came;
    assert!(measured.contains(&(ends.len() as u64)), "{} of {left}, {unobserved:?}", ends.len());
    for end in &ends {
        let begin_ns = end.time_ns - u64::from(end.extent.switch_ns());
        let reported = of(Hop::SchedSwitch);
        let middle = reported.iter().rev().find(|e| e.cpu == end.cpu && e.time_ns <= end.time_ns);
        let middle = middle.expect("a switch is told before it is done");
        assert!(end.extent.switch_ns() > 0 && begin_ns <= middle.time_ns, "{end:?} {middle:?}");
        assert_eq!((end.tgid, end.detail), (middle.tgid, middle.detail), "the same two tasks");
    }
    let mut took: Vec<u32> = ends.iter().map(|e| e.extent.switch_ns()).collect();
    took.sort_unstable();
    println!("{} switches to the thread, median {} ns", took.len(), took[took.len() / 2]);
}

#[test]
fn a_filter_by_process_keeps_the_switches_to_it_and_from_it() {
    if !can_capture_with(&[Ability::Filter]) {
        return;
    }
    let own = format!("tgid = {}", std::process::id());
    let mut recording = Net::new().capture_with(magscope_probe::CaptureOptions {
        hops: [Hop::SchedSwitch].into_iter().collect(),
        filter: Some(CaptureFilter::parse(&own).expect("a filter")),
        ring_bytes_per_cpu: 32 << 20,
        ..Default::default()
    });
    let (tid, (left, counted_at)) = thread_that_sleeps();
    recording.drain(Duration::from_millis(100));
    let counters = recording.stop();
    assert_eq!(recording.lost(), 0);
    let counted = || recording.events.iter().filter(|event| event.time_ns <= counted_at);
    assert_eq!(counted().filter(|event| event.detail.other_tid() == tid).count() as u64, left);
    let came = counted().filter(|event| event.tid == tid).count() as u64;
    println!("{came} switches to the thread, {left} from it");
    assert!(came > 0);
    let at_switches = counters.hops.iter().find(|count| count.hop == Hop::SchedSwitch).expect("a count");
    assert!(at_switches.filtered > 0, "those between other tasks are left out");
}

//! Cost of a capture to a tight loop: a thread on one CPU sends 64 bytes over loopback and receives them, with a
//! reader on another CPU as in a live capture. Every variant runs once in each round, so that other load affects all
//! alike. Prints nanoseconds of a pair, the ratio to the same round with nothing attached, and nanoseconds of a hit by
//! the kernel's own account (which the ratio's rounds do not keep).
//!
//! `ROUNDS=21 SENDS=20000 ONLY='four hops' cargo bench -p magscope-probe --bench tight_loop`, as root. Asserts nothing.

mod loopback;

use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{Link, Object, ObjectBuilder};
use loopback::{account, alone, quartiles};
use magscope_core::hop::HopSet;
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Hop};
use magscope_probe::plan::{default_hops, full_hops};
use magscope_probe::{Capture, CaptureOptions, Detail, RingKind, SUMS};
use std::collections::HashSet;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

#[repr(align(8))]
struct Aligned<T: ?Sized>(T);
static FLOOR: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/floor.bpf.o")));

/// What is attached.
#[derive(Clone)]
enum Attached {
    Nothing,
    /// These programs of the floor.
    Floor(&'static [&'static str]),
    Capture(Box<CaptureOptions>),
    /// Another tool: its program and arguments.
    Peer(&'static [&'static str]),
}

/// Other tools, each with its cheapest settings for the purpose. All but tcpdump take the same four tracepoints.
const PEERS: [(&str, &[&str]); 4] = [
    ("tcpdump -s 96", &["tcpdump", "-i", "lo", "-s", "96", "-w", "/dev/null"]),
    (
        "perf record, four tracepoints",
        &[
            "perf",
            "record",
            "-q",
            "-a",
            "-o",
            "/dev/null",
            "-e",
            "net:net_dev_queue",
            "-e",
            "net:net_dev_start_xmit",
            "-e",
            "net:net_dev_xmit",
            "-e",
            "net:netif_receive_skb",
        ],
    ),
    (
        "trace-cmd record, four tracepoints",
        &[
            "trace-cmd",
            "record",
            "-q",
            "-o",
            "/dev/null",
            "-e",
            "net:net_dev_queue",
            "-e",
            "net:net_dev_start_xmit",
            "-e",
            "net:net_dev_xmit",
            "-e",
            "net:netif_receive_skb",
        ],
    ),
    (
        "bpftrace printing, four tracepoints",
        &[
            "bpftrace",
            "-o",
            "/dev/null",
            "-e",
            "tracepoint:net:net_dev_queue,tracepoint:net:net_dev_start_xmit,tracepoint:net:net_dev_xmit,\
             tracepoint:net:netif_receive_skb { printf(\"%lld %s %d\\n\", nsecs, probe, args->len); }",
        ],
    ),
];

struct Variant {
    name: String,
    attached: Attached,
    /// Nanoseconds of a pair, the ratio to nothing, nanoseconds of a hit.
    pairs: Vec<f64>,
    ratios: Vec<f64>,
    hits: Vec<f64>,
    /// Hits of a pair.
    each: f64,
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn variants() -> Vec<Variant> {
    let four: HopSet = [Hop::IpOut, Hop::DevXmit, Hop::DevRecv, Hop::IpIn].into_iter().collect();
    let mut found = vec![
        ("nothing".to_owned(), Attached::Nothing),
        ("empty, four hops".to_owned(), Attached::Floor(&["dev_queue", "dev_xmit", "dev_done", "dev_recv"])),
        ("empty, one hop".to_owned(), Attached::Floor(&["dev_xmit"])),
        ("clock, one hop".to_owned(), Attached::Floor(&["dev_xmit_clock"])),
    ];
    for ring in RingKind::ALL {
        for (name, hops, detail) in [
            ("four hops", four, Detail::Full),
            ("default hops", default_hops(), Detail::Full),
            ("all hops", full_hops(), Detail::Full),
            ("histograms, default hops", default_hops(), Detail::Histograms),
            ("histograms, four hops", four, Detail::Histograms),
        ] {
            let options = CaptureOptions { hops, ring, detail, sums: SUMS, ..CaptureOptions::default() };
            found.push((format!("{name}, {} ring", ring.word()), Attached::Capture(Box::new(options))));
        }
    }
    found.extend(PEERS.map(|(name, command)| (name.to_owned(), Attached::Peer(command))));
    let only = std::env::var("ONLY").unwrap_or_default();
    found.retain(|(name, _)| name == "nothing" || only.split('|').any(|only| name.contains(only)));
    found.retain(|(name, attached)| !matches!(attached, Attached::Peer(command) if !runs(name, command)));
    let variant = |(name, attached)| Variant {
        name,
        attached,
        pairs: Vec::new(),
        ratios: Vec::new(),
        hits: Vec::new(),
        each: 0.0,
    };
    found.into_iter().map(variant).collect()
}

/// Pairs of one reading of the time.
const PAIRS: usize = 500;

/// Processor time of this thread, nanoseconds: other processes on its CPU do not count.
fn own_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the structure that the pointer leads to.
    #[allow(unsafe_code)]
    unsafe {
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time);
    }
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sends and receives `sends` times in a pinned thread, while `reads` runs here. Returns nanoseconds of a pair: the
/// median of short stretches.
fn exchange(socket: &UdpSocket, sends: usize, mut reads: impl FnMut()) -> f64 {
    std::thread::scope(|scope| {
        let traffic = scope.spawn(|| {
            let mut cpus = rustix::thread::CpuSet::new();
            cpus.set(0);
            rustix::thread::sched_setaffinity(None, &cpus).expect("pin");
            let mut buffer = [0u8; 64];
            let mut stretches = Vec::new();
            for _ in 0..sends.div_ceil(PAIRS) {
                let start_ns = own_ns();
                for _ in 0..PAIRS {
                    socket.send(&buffer).expect("send");
                    socket.recv(&mut buffer).expect("recv");
                }
                stretches.push((own_ns() - start_ns) as f64 / PAIRS as f64);
            }
            quartiles(&mut stretches)[1]
        });
        while !traffic.is_finished() {
            reads();
        }
        traffic.join().expect("no panic")
    })
}

fn rest() {
    std::thread::sleep(Duration::from_millis(2));
}

fn floor(programs: &[&str]) -> (Object, Vec<Link>) {
    let object = ObjectBuilder::default().open_memory(&FLOOR.0).expect("open").load().expect("load");
    let links = programs.iter().map(|name| {
        let program = object.progs_mut().find(|program| program.name() == *name).expect("a program");
        program.attach().expect("attach")
    });
    let links = links.collect();
    (object, links)
}

/// Starts a tool, and waits until it has attached. Without a sign of it that all have, this is a wait.
fn start(command: &[&str]) -> Child {
    let mut child = Command::new(command[0]);
    let child = child.args(&command[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = child.spawn().expect("it starts");
    std::thread::sleep(Duration::from_secs(2));
    child
}

/// Whether a tool is there and traces on this machine; prints the reason if not.
fn runs(name: &str, command: &[&str]) -> bool {
    if Command::new(command[0]).arg("--version").output().is_err() {
        println!("{name}: skipped, because {} is not installed", command[0]);
        return false;
    }
    let mut child = start(command);
    if child.try_wait().expect("a child").is_some() {
        println!("{name}: skipped, because it ends at once on this machine");
        return false;
    }
    end(child);
    true
}

/// Ends a tool as a user does, so that it detaches.
fn end(mut child: Child) {
    // SAFETY: a signal to a child of this process that was not waited for yet.
    #[allow(unsafe_code)]
    unsafe {
        libc::kill(child.id().cast_signed(), libc::SIGINT);
    }
    child.wait().expect("ended");
}

/// Ids of all loaded programs.
fn programs() -> HashSet<u32> {
    ProgInfoIter::default().map(|info| info.id).collect()
}

/// Run time and number of runs of all programs except `others`.
fn ran(others: &HashSet<u32>) -> (u64, u64) {
    let own = ProgInfoIter::default().filter(|info| !others.contains(&info.id) && info.run_cnt > 0);
    own.fold((0, 0), |(ns, runs), info| (ns + info.run_time_ns, runs + info.run_cnt))
}

/// Runs the loop with something attached. Returns nanoseconds of a pair, hits of a pair, and the account at the end of
/// the loop.
fn run(attached: &Attached, socket: &UdpSocket, sends: usize) -> (f64, f64, (u64, u64)) {
    let others = programs();
    match attached {
        Attached::Nothing => (exchange(socket, sends, rest), 0.0, (0, 0)),
        Attached::Floor(programs) => {
            let _floor = floor(programs);
            let ns = exchange(socket, sends, rest);
            (ns, 0.0, ran(&others))
        }
        Attached::Peer(command) => {
            let child = start(command);
            let ns = exchange(socket, sends, rest);
            end(child);
            (ns, 0.0, (0, 0))
        }
        Attached::Capture(options) => {
            let mut capture = Capture::start((**options).clone()).expect("capture");
            let seen = |capture: &Capture| -> u64 {
                capture.counters().expect("counters").hops.iter().map(magscope_core::HopCount::seen).sum()
            };
            let (before, mut batch) = (seen(&capture), Batch::default());
            let ns = exchange(socket, sends, || {
                capture.next(&mut batch, Duration::from_millis(20)).expect("a batch");
            });
            let hits = (seen(&capture) - before) as f64 / sends as f64;
            let account = ran(&others);
            assert_eq!(capture.counters().expect("counters").lost(), 0, "a lost record costs less");
            capture.stop();
            while capture.next(&mut batch, Duration::ZERO).expect("a batch") == Progress::More {}
            (ns, hits, account)
        }
    }
}

fn main() {
    let Some((_, socket)) = alone() else { return };
    let mut every = rustix::thread::CpuSet::new();
    (0..rustix::thread::CpuSet::MAX_CPU).for_each(|cpu| every.set(cpu));
    rustix::thread::sched_setaffinity(None, &every).expect("all CPUs");
    let (rounds, sends) = (number("ROUNDS", 15), number("SENDS", 20_000));
    let mut variants = variants();
    for _ in 0..rounds {
        let mut base = 0.0;
        for variant in &mut variants {
            let (ns, each, _) = run(&variant.attached, &socket, sends);
            if matches!(variant.attached, Attached::Nothing) {
                base = ns;
            }
            variant.pairs.push(ns);
            variant.ratios.push(base / ns);
            variant.each = each;
        }
    }
    let _account = account();
    for _ in 0..rounds.div_ceil(3) {
        for variant in &mut variants {
            if !matches!(variant.attached, Attached::Capture(_) | Attached::Floor(_)) {
                continue;
            }
            let (.., (ns, runs)) = run(&variant.attached, &socket, sends);
            variant.hits.push(ns as f64 / runs.max(1) as f64);
        }
    }
    println!("{rounds} rounds of {sends} pairs; medians (quartiles)");
    println!("{:<38}{:>24}{:>24}{:>20}{:>7}", "", "ns a pair", "ratio to nothing", "ns a run", "hits");
    for variant in &mut variants {
        let shown = |values: &mut Vec<f64>, digits: usize| {
            if values.is_empty() {
                return String::new();
            }
            let [low, middle, high] = quartiles(values);
            format!("{middle:.digits$} ({low:.digits$}–{high:.digits$})")
        };
        println!(
            "{:<38}{:>24}{:>24}{:>20}{:>7.1}",
            variant.name,
            shown(&mut variant.pairs, 0),
            shown(&mut variant.ratios, 3),
            shown(&mut variant.hits, 0),
            variant.each
        );
    }
}

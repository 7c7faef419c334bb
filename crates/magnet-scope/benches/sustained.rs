//! Loss test: one minute of real events, at least a million a second, from the kernel's hooks to the disk.
//!
//! One thread sends datagrams to itself on one CPU at the requested rate, with every hop attached. The drain
//! and the recorder use the rest of the machine. The final balance must hold: hits in the kernel = recorded +
//! lost.
//!
//! `cargo bench -p magnet-scope --bench sustained [-- SECONDS [EVENTS_PER_S]]`, as root.
#![allow(missing_docs)]

use magscope_core::Batch;
use magscope_core::source::{Progress, Source};
use magscope_probe::plan::full_hops;
use magscope_probe::{Capture, CaptureOptions, HostFacts};
use magscope_session::{RecordOptions, Recorder, Session};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Hops that one datagram over loopback passes when all are attached.
const HITS_A_DATAGRAM: f64 = 12.0;

fn traffic(socket: &UdpSocket, per_second: f64, stop: &AtomicBool) -> u64 {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(0);
    rustix::thread::sched_setaffinity(None, &cpus).expect("pin");
    let (start, mut sent, mut buffer) = (Instant::now(), 0u64, [0u8; 64]);
    while !stop.load(Ordering::Relaxed) {
        // bursts of one millisecond, each at full speed
        while (sent as f64) < start.elapsed().as_secs_f64() * per_second {
            socket.send(&buffer).expect("send");
            socket.recv(&mut buffer).expect("recv");
            sent += 1;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    sent
}

fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

fn main() {
    let numbers: Vec<f64> = std::env::args().filter_map(|a| a.parse().ok()).collect();
    let (seconds, rate) = (numbers.first().copied().unwrap_or(60.0), numbers.get(1).copied().unwrap_or(1.1e6));
    let facts = HostFacts::read().expect("/proc");
    if !facts.missing_capabilities().is_empty() {
        println!("skipped, because this process lacks {}", facts.missing_capabilities().join(", "));
        return;
    }
    // SAFETY: the only thread so far; those made later inherit the namespace.
    #[allow(unsafe_code)]
    unsafe {
        rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET).expect("unshare");
    }
    assert!(std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("ip").success());
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bind");
    socket.connect(socket.local_addr().expect("address")).expect("connect");

    let folder = tempfile::tempdir().expect("a folder");
    let options = CaptureOptions { hops: full_hops(), ..CaptureOptions::default() };
    let mut capture = Capture::start(options).expect("capture");
    let path = folder.path().join("session");
    let mut recorder = Recorder::create(&path, capture.info(), RecordOptions::default()).expect("recorder");

    let stop = Arc::new(AtomicBool::new(false));
    let sender = {
        let stop = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("traffic".to_owned());
        thread.spawn(move || traffic(&socket, rate / HITS_A_DATAGRAM, &stop)).expect("a thread")
    };
    let (start, mut batch, mut fullest) = (Instant::now(), Batch::default(), 0);
    let mut stopped_after = None;
    loop {
        if stopped_after.is_none() && start.elapsed().as_secs_f64() >= seconds {
            stop.store(true, Ordering::Relaxed);
            stopped_after = Some(start.elapsed());
            std::thread::sleep(Duration::from_millis(5));
            capture.stop();
        }
        let progress = capture.next(&mut batch, Duration::from_millis(20)).expect("a batch");
        recorder.append(&batch).expect("recorded");
        fullest = fullest.max(recorder.status().queue_bytes);
        if progress == Progress::End {
            break;
        }
    }
    let datagrams = sender.join().expect("the sender");
    let summary = recorder.close().expect("closed");
    let counters = capture.counters().expect("counters");
    let took = stopped_after.unwrap_or_default().as_secs_f64();
    let recorded = Session::open(&path).expect("the session opens").summary().clone();

    println!(
        "{datagrams} datagrams in {took:.1} s, {} hits: {:.2} M events/s",
        counters.hits,
        counters.hits as f64 / took / 1e6
    );
    println!(
        "lost in the rings {}, lost in the recorder {}, recorded {}, outside {}",
        counters.lost(),
        recorded.losses.recorder_queue,
        recorded.events,
        capture.outside()
    );
    println!(
        "{:.1} bytes an event on disk, queue at most {:.1} MB, {:.0} % of a core with the traffic",
        summary.bytes as f64 / summary.events.max(1) as f64,
        fullest as f64 / 1e6,
        100.0 * cpu_seconds() / start.elapsed().as_secs_f64()
    );
    assert_eq!(recorded.events + recorded.losses.total() + capture.outside(), counters.hits, "the account");
}

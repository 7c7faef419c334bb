//! Throughput of the reader: ring to decoded, sorted events. Real traffic fills the rings first; one drain then
//! empties them.
//!
//! `cargo bench -p magscope-probe --bench drain`, as root. The bench prints a table and asserts nothing.

use magscope_core::Batch;
use magscope_core::source::{Progress, Source};
use magscope_probe::plan::full_hops;
use magscope_probe::{Capture, CaptureOptions, HostFacts};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

const ROUNDS: usize = 9;
const MESSAGES: usize = 60_000;

fn main() {
    let facts = HostFacts::read().expect("/proc");
    if !facts.missing_capabilities().is_empty() {
        println!("skipped, because this process lacks {}", facts.missing_capabilities().join(", "));
        return;
    }
    // SAFETY: the only thread of this program.
    #[allow(unsafe_code)]
    unsafe {
        rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET).expect("unshare");
    }
    assert!(std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("ip").success());
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bind");
    socket.connect(socket.local_addr().expect("address")).expect("connect");

    let mut rates = Vec::new();
    let mut batch = Batch::default();
    for _ in 0..ROUNDS {
        let options =
            CaptureOptions { hops: full_hops(), ring_bytes_per_cpu: 64 << 20, ..CaptureOptions::default() };
        let mut capture = Capture::start(options).expect("capture");
        let mut buffer = [0u8; 64];
        for _ in 0..MESSAGES {
            socket.send(&buffer).expect("send");
            socket.recv(&mut buffer).expect("recv");
        }
        capture.stop();
        let start = Instant::now();
        let mut events = 0;
        loop {
            let progress = capture.next(&mut batch, Duration::ZERO).expect("a batch");
            events += batch.events.len();
            if progress == Progress::End {
                break;
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        assert_eq!(capture.counters().expect("counters").lost(), 0);
        rates.push((events as f64 / seconds / 1e6, events));
    }
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (median, events) = rates[ROUNDS / 2];
    println!(
        "drain, decode and sort {events} records from cold rings: {median:.1} M events/s ({:.1} to {:.1}, {ROUNDS} rounds)",
        rates[0].0,
        rates[ROUNDS - 1].0
    );
}

//! Wake-ups of the reader: after the set number of events or bytes, or the set time, and not before.
//!
//! A timeout of one minute distinguishes a wake-up from an expired wait.

use crate::common;

use common::{CLIENT, Net, Recording, SERVER, can_capture, lost_nothing};
use magscope_core::hop::HopSet;
use magscope_core::source::Source;
use magscope_core::{Batch, Hop};
use magscope_probe::{CaptureOptions, Setting, Watermark};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_mins(1);
const RING: u32 = 16 << 10;

/// Sends `count` datagrams, and lets the reader wait. Returns its time, and true if a watermark woke it.
fn slept(
    recording: &mut Recording,
    sockets: &(UdpSocket, UdpSocket),
    count: usize,
    most: Duration,
) -> (Duration, bool) {
    for _ in 0..count {
        sockets.0.send(&[1; 64]).expect("send");
        common::receive(&sockets.1, &mut [0; 100]).expect("recv");
    }
    let mut batch = Batch::default();
    let (begin, before) = (Instant::now(), recording.capture().wakeups());
    recording.capture().next(&mut batch, most).expect("a batch");
    let (slept, is_woken) = (begin.elapsed(), recording.capture().wakeups() > before);
    // the sorter holds events briefly until their order is final
    recording.drain(Duration::from_millis(30));
    (slept, is_woken)
}

fn sockets(net: &Net, port: u16) -> (UdpSocket, UdpSocket) {
    let server = net.server.run(|| UdpSocket::bind((SERVER, port)).expect("bind"));
    let client = net.client.run(|| UdpSocket::bind((CLIENT, 0)).expect("bind"));
    client.connect((SERVER, port)).expect("connect");
    (client, server)
}

fn start(net: &Net, watermark: Watermark) -> Recording {
    let hops: HopSet = [Hop::DevXmit, Hop::DevRecv].into_iter().collect();
    net.capture_with(CaptureOptions {
        hops,
        watermark,
        ring_bytes_per_cpu: RING as usize,
        ..CaptureOptions::default()
    })
}

#[test]
fn the_reader_comes_at_the_first_of_events_bytes_and_time() {
    if !can_capture() {
        return;
    }
    let net = Net::new();
    let sockets = sockets(&net, 5950);
    let never = Watermark { events: 0, bytes: 0, time: PATIENCE };
    let soon = PATIENCE / 2;
    // each CPU has its own count: send enough that one CPU must reach the limit
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    for (what, watermark, count) in [
        ("each event", Watermark { time: PATIENCE, ..Watermark::LATENCY }, 1),
        ("ten events", Watermark { events: 10, ..never }, 10 * cpus),
        ("a kilobyte", Watermark { bytes: 1 << 10, ..never }, 16 * cpus),
        ("a quarter of the ring", Watermark { time: PATIENCE, ..Watermark::bulk(RING) }, 64 * cpus),
        ("time", Watermark { time: Duration::from_millis(100), ..never }, 1),
    ] {
        let mut recording = start(&net, watermark);
        let (slept, is_woken) = slept(&mut recording, &sockets, count, PATIENCE);
        assert!(slept < soon, "{what}: slept {slept:?}");
        assert_eq!(is_woken, what != "time", "{what}");
        println!("{what}: slept {slept:?} after {count} datagrams");
        recording.stop();
    }
    // Without a watermark nothing wakes the reader. A signal may end its wait early.
    for watermark in [never, Watermark { events: 1_000_000, bytes: 1 << 30, time: PATIENCE }] {
        let mut recording = start(&net, watermark);
        let (slept, is_woken) = slept(&mut recording, &sockets, 5, Duration::from_millis(300));
        assert!(!is_woken, "woken after {slept:?}");
        recording.stop();
    }
}

#[test]
fn payload_counts_towards_the_bytes() {
    if !can_capture() {
        return;
    }
    let net = Net::new();
    let sockets = sockets(&net, 5952);
    let cpu = rustix::thread::sched_getcpu();
    let mut only = rustix::thread::CpuSet::new();
    only.set(cpu);
    rustix::thread::sched_setaffinity(None, &only).expect("each CPU counts its own");
    let hops: HopSet = [Hop::DevXmit, Hop::DevRecv].into_iter().collect();
    // Forty datagrams have 5 KiB of events, and 13 KiB with their heads.
    let watermark = Watermark { events: 0, bytes: 8 << 10, time: PATIENCE };
    for (asked, most) in [(Some(64), PATIENCE), (None, Duration::from_millis(300))] {
        let snap = asked.map(|bytes| [Hop::DevXmit, Hop::DevRecv].map(|hop| (hop, bytes)));
        let snap = snap.into_iter().flatten().collect();
        let options =
            CaptureOptions { hops, watermark, snap, ring_bytes_per_cpu: 64 << 10, ..CaptureOptions::default() };
        let mut recording = net.capture_with(options);
        let (slept, is_woken) = slept(&mut recording, &sockets, 40, most);
        assert_eq!(is_woken, most == PATIENCE, "slept {slept:?} of {most:?}");
        recording.stop();
        lost_nothing(&recording);
    }
}

#[test]
fn a_watermark_that_is_changed_while_it_runs_holds_from_then_on() {
    if !can_capture() {
        return;
    }
    let net = Net::new();
    let sockets = sockets(&net, 5951);
    let mut recording = start(&net, Watermark { events: 0, bytes: 0, time: PATIENCE });
    let latency: Setting = "watermark latency".parse().expect("a setting");
    recording.change(&latency).expect("changed");
    let (first, is_woken) = slept(&mut recording, &sockets, 1, PATIENCE);
    assert!(is_woken, "{first:?}");
    let bulk: Setting = "watermark 1000000 events 60s".parse().expect("a setting");
    recording.change(&bulk).expect("changed");
    recording.drain(Duration::from_millis(30));
    let (second, is_woken) = slept(&mut recording, &sockets, 5, Duration::from_millis(300));
    assert!(!is_woken, "{second:?}");
    recording.stop();
    lost_nothing(&recording);
}

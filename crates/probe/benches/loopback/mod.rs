//! A UDP socket that sends to itself over loopback in a new namespace, pinned to one CPU.

use magscope_core::Batch;
use magscope_core::source::{Progress, Source};
use magscope_probe::{Capture, HostFacts};
use std::net::UdpSocket;
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;

/// Interleaved rounds, so that other load affects all columns equally.
#[allow(dead_code)]
pub const ROUNDS: usize = 15;
/// Messages in one measurement.
pub const SENDS: usize = 10_000;

/// Enters a new namespace and pins the thread to one CPU, so that no other traffic hits the netns-bound hooks.
/// Returns `None` and prints the reason without the needed privileges.
pub fn alone() -> Option<(HostFacts, UdpSocket)> {
    let facts = HostFacts::read().expect("/proc");
    if !facts.missing_capabilities().is_empty() {
        println!("skipped, because this process lacks {}", facts.missing_capabilities().join(", "));
        return None;
    }
    // SAFETY: the only thread of this program.
    #[allow(unsafe_code)]
    unsafe {
        rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET).expect("unshare");
    }
    let up = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("ip");
    assert!(up.success());
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(0);
    rustix::thread::sched_setaffinity(None, &cpus).expect("pin");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bind");
    socket.connect(socket.local_addr().expect("address")).expect("connect");
    exchange(&socket);
    Some((facts, socket))
}

/// Sends 64 bytes and receives them, again and again.
pub fn exchange(socket: &UdpSocket) {
    let mut buffer = [0u8; 64];
    for _ in 0..SENDS {
        socket.send(&buffer).expect("send");
        socket.recv(&mut buffer).expect("recv");
    }
}

/// Enables the kernel's run-time statistics of BPF programs until the descriptor is closed.
#[allow(dead_code)]
pub fn account() -> OwnedFd {
    // SAFETY: a system call without pointers; what it gives is a new descriptor of ours.
    #[allow(unsafe_code)]
    unsafe {
        let descriptor = libbpf_rs::libbpf_sys::bpf_enable_stats(libbpf_rs::libbpf_sys::BPF_STATS_RUN_TIME);
        assert!(descriptor >= 0, "the kernel keeps no account");
        OwnedFd::from_raw_fd(descriptor)
    }
}

/// Detaches and empties the rings.
#[allow(dead_code)]
pub fn stop(mut capture: Capture) {
    capture.stop();
    let mut batch = Batch::default();
    while capture.next(&mut batch, Duration::ZERO).expect("a batch") == Progress::More {}
}

/// Lower quartile, median, upper quartile.
pub fn quartiles(values: &mut [f64]) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[values.len() * quarter / 4])
}

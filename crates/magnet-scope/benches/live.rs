//! What the live screen costs: processor time of the real binary on a pseudo-terminal of 120 × 40, with 14,000 events
//! a second and with none, and the memory it uses.
//!
//! The traffic is 64-byte datagrams over loopback in a network namespace of this process: with the default hops a send
//! and a receive are seven events. Rounds with and without traffic alternate in one run of the program.
//!
//! `cargo bench -p magnet-scope --bench live [-- ROUNDS [EVENTS_PER_S]]`, as root.
#![allow(missing_docs)]

use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Events that one datagram makes over loopback with the default hops.
const EVENTS_A_DATAGRAM: f64 = 7.0;
/// Length of a round.
const ROUND: Duration = Duration::from_secs(10);
/// Before a round the numbers of the last one leave the screen.
const SETTLING: Duration = Duration::from_secs(6);

fn main() {
    let numbers: Vec<f64> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let (rounds, rate) = (numbers.first().copied().unwrap_or(5.0), numbers.get(1).copied().unwrap_or(14_000.0));
    if !rustix::process::geteuid().is_root() {
        println!("skipped, because this process is not root");
        return;
    }
    // SAFETY: the only thread so far; those made later inherit the namespace.
    #[allow(unsafe_code)]
    unsafe {
        rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET).expect("unshare");
    }
    assert!(std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("ip").success());
    let (is_on, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    {
        let (is_on, sent) = (Arc::clone(&is_on), Arc::clone(&sent));
        thread::spawn(move || traffic(rate / EVENTS_A_DATAGRAM, &is_on, &sent));
    }

    let size = PtySize { rows: 40, cols: 120, pixel_width: 0, pixel_height: 0 };
    let pty = native_pty_system().openpty(size).expect("a pseudo-terminal");
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_magnet-scope"));
    command.arg("live");
    for (name, value) in [("TERM", "xterm-256color"), ("COLORTERM", "truecolor"), ("LANG", "C.UTF-8")] {
        command.env(name, value);
    }
    let mut child = pty.slave.spawn_command(command).expect("the binary starts");
    drop(pty.slave);
    let pid = child.process_id().expect("it runs");
    let mut writer = pty.master.take_writer().expect("its other end");
    let mut reader = pty.master.try_clone_reader().expect("its other end");
    let written = Arc::new(AtomicU64::new(0));
    let drawn = Arc::clone(&written);
    thread::spawn(move || {
        let mut some = vec![0; 1 << 16];
        while let Ok(count @ 1..) = reader.read(&mut some) {
            drawn.fetch_add(count as u64, Ordering::Relaxed);
        }
    });
    thread::sleep(SETTLING);

    let (mut idle, mut busy) = (Vec::new(), Vec::new());
    for _ in 0..rounds as usize {
        for (with_traffic, spent) in [(false, &mut idle), (true, &mut busy)] {
            is_on.store(with_traffic, Ordering::Relaxed);
            thread::sleep(SETTLING);
            let before =
                (cpu_ns(pid), Instant::now(), written.load(Ordering::Relaxed), sent.load(Ordering::Relaxed));
            thread::sleep(ROUND);
            let s = before.1.elapsed().as_secs_f64();
            let part = (cpu_ns(pid) - before.0) as f64 / 1e9 / s;
            let bytes = (written.load(Ordering::Relaxed) - before.2) as f64 / s;
            let events = (sent.load(Ordering::Relaxed) - before.3) as f64 * EVENTS_A_DATAGRAM / s;
            println!(
                "{events:>7.0} events/s: {:.2} % of a core, {bytes:.0} bytes/s to the terminal",
                part * 100.0
            );
            spent.push(part);
        }
    }
    for (name, parts) in [("idle", &mut idle), ("with traffic", &mut busy)] {
        parts.sort_by(f64::total_cmp);
        let at = |part: usize| parts.get(part * (parts.len() - 1) / 4).copied().unwrap_or(f64::NAN) * 100.0;
        println!("{name}: {:.2} % of a core at the median ({:.2}–{:.2} the quartiles)", at(2), at(1), at(3));
    }
    println!("memory: {} KiB", resident_kib(pid));
    writer.write_all(b"q").expect("it listens");
    child.wait().expect("it ends");
}

/// Sends datagrams to itself and receives them while it is on, in bursts of a millisecond.
fn traffic(per_s: f64, is_on: &AtomicBool, sent: &AtomicU64) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bind");
    socket.connect(socket.local_addr().expect("address")).expect("connect");
    let mut buffer = [0_u8; 64];
    let mut due = 0.0;
    loop {
        thread::sleep(Duration::from_millis(1));
        due = if is_on.load(Ordering::Relaxed) { due + per_s / 1e3 } else { 0.0 };
        while due >= 1.0 {
            socket.send(&buffer).expect("send");
            socket.recv(&mut buffer).expect("recv");
            sent.fetch_add(1, Ordering::Relaxed);
            due -= 1.0;
        }
    }
}

/// Processor time of all threads so far, nanoseconds.
fn cpu_ns(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let of = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    tasks.flatten().filter_map(of).sum()
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

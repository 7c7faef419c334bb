//! An agent with a sensor that reads it, and a recorder, for long under load: memory and files stay what they are, and nothing is lost without being counted.
//!
//! `MAGNET_SOAK=10m` sets the duration; the default is 20 s.

use crate::common::{self, agents, hosts as wired, load, web};

use agents::{Running, on};
use common::{eventually, is_root, stderr};
use load::Load;
use rustix::process::Signal;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use web::get;
use wired::{Hosts, in_namespace};

/// With a dozen hops, more than 200,000 events per second.
const DATAGRAMS_A_SECOND: u64 = 18_000;
/// Flows that begin and end between two looks at the recorder.
const SHORT_FLOWS: u64 = 300;
/// What a process may hold on to as its heap settles.
const SETTLING: u64 = 16 << 20;

fn asked_for() -> Duration {
    let text = std::env::var("MAGNET_SOAK").unwrap_or_else(|_| "20s".to_owned());
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let number: u64 = number.parse().expect("MAGNET_SOAK is a time, as in 10m");
    match unit {
        "s" => Duration::from_secs(number),
        "m" => Duration::from_mins(number),
        "h" => Duration::from_hours(number),
        _ => panic!("MAGNET_SOAK is a time, as in 10m"),
    }
}

/// Resident memory, bytes, and open files.
fn holds(process: &Running) -> (u64, usize) {
    let pid = process.pid();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    (kib << 10, fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").count())
}

/// A metric of the sensor.
fn figure(namespace: &str, series: &str) -> Option<u64> {
    let at = SocketAddr::from(([127, 0, 0, 1], 9464));
    let answer = in_namespace(namespace, || get(at, "/metrics", ""))?;
    let lines = answer.body.lines().filter(|line| line.starts_with(series));
    let numbers = lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
    Some(numbers.sum())
}

/// Half of the time is for what is kept to be full; from then on there is nothing more to hold on to. What a process holds is the median:
/// a burst makes queues long for a moment, and their memory goes back.
fn assert_holds_what_it_held(name: &str, seen: &[(u64, usize)]) {
    let half = seen.len() / 2;
    let held = |seen: &[(u64, usize)]| {
        let mut memory: Vec<u64> = seen.iter().map(|now| now.0).collect();
        memory.sort_unstable();
        (memory[memory.len() / 2], seen.iter().map(|now| now.1).max().expect("some"))
    };
    let (before, after) = (held(&seen[half / 2..half]), held(&seen[half..]));
    println!("{name}: {} to {} kB, {} to {} files", before.0 >> 10, after.0 >> 10, before.1, after.1);
    assert!(after.0 <= before.0 + before.0 / 10 + SETTLING, "{name}: {before:?} and then {after:?}");
    assert!(after.1 <= before.1 + 8, "{name}: {before:?} and then {after:?}");
}

#[test]
fn memory_stays_what_it_is_and_every_event_is_there_or_counted() {
    if !is_root("a soak") {
        return;
    }
    let Some(hosts) = Hosts::new("soak") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let namespace = &hosts.names[0];
    let socket = dir.path().join("agent.sock").display().to_string();
    let agent = on(
        namespace,
        &[
            "agent",
            "--socket",
            &socket,
            "--memory",
            "32MiB",
            "--max-overhead",
            "off",
            "--hops",
            "all",
            "--filter",
            "udp",
        ],
    );
    assert!(eventually(|| std::path::Path::new(&socket).exists()), "it listens");
    let sensor = on(namespace, &["metrics", "--connect", &format!("unix:{socket}")]);
    let served = "magnet_scope_hop_served";
    if !eventually(|| figure(namespace, served).is_some_and(|n| n > 0)) {
        let outputs = [sensor, agent].map(|process| stderr(&process.end()));
        panic!("it does not answer: {outputs:?}");
    }

    let load = Load::start(namespace, DATAGRAMS_A_SECOND);
    let (began, long) = (Instant::now(), asked_for());
    let mut seen: Vec<[(u64, usize); 2]> = Vec::new();
    while began.elapsed() < long {
        std::thread::sleep((long / 200).max(Duration::from_millis(100)));
        seen.push([&agent, &sensor].map(holds));
    }
    let sent = load.end();
    for (which, name) in ["agent", "sensor"].into_iter().enumerate() {
        assert_holds_what_it_held(name, &seen.iter().map(|at| at[which]).collect::<Vec<_>>());
    }
    // Late data is included in the sensor's missed count.
    let events = "magnet_scope_hop_events_total{host=";
    let of = |hop: &str| -> Option<u64> {
        let at = SocketAddr::from(([127, 0, 0, 1], 9464));
        let answer = in_namespace(namespace, || get(at, "/metrics", ""))?;
        let line = answer.body.lines().find(|line| line.starts_with(events) && line.contains(hop))?.to_owned();
        line.rsplit_once(' ')?.1.parse().ok()
    };
    let lost = || figure(namespace, "magnet_scope_lost_records_total").unwrap_or(0);
    let all = || of("hop=\"udp.recv\"").unwrap_or(0) + lost();
    assert!(eventually(|| all() >= sent), "{sent} datagrams, {} and {} lost", all(), lost());
    if lost() == 0 {
        assert_eq!(of("hop=\"udp.recv\""), Some(sent));
    }
    let came = figure(namespace, events).unwrap_or(0);
    let a_second = (came + lost()) / long.as_secs().max(1);
    println!("{sent} datagrams: {a_second} records a second, {} lost and counted", lost());
    for process in [sensor, agent] {
        process.signal(Signal::INT);
        let ended = process.wait();
        assert!(ended.status.success(), "{}", stderr(&ended));
    }
}

/// Flows that have one datagram each.
fn short_flows(receiver: &UdpSocket) {
    let to = receiver.local_addr().expect("bound");
    for _ in 0..SHORT_FLOWS {
        UdpSocket::bind("127.0.0.1:0").and_then(|sender| sender.send_to(&[8; 100], to)).expect("sent");
        receiver.recv(&mut [0; 200]).expect("read");
    }
}

#[test]
fn a_recorder_of_ever_new_flows_holds_what_it_held() {
    if !is_root("a recorder's soak") {
        return;
    }
    let Some(hosts) = Hosts::new("flows") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let namespace = &hosts.names[0];
    let recording = dir.path().join("recording");
    let place = recording.display().to_string();
    let recorder = on(namespace, &["record", "--hops", "all", "--size-limit", "1G", "-o", &place]);
    assert!(eventually(|| recording.join("meta.toml").exists()), "it records");
    let load = Load::start(namespace, DATAGRAMS_A_SECOND / 4);
    let seen = in_namespace(namespace, || {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let (began, long, mut seen) = (Instant::now(), asked_for(), Vec::new());
        while began.elapsed() < long {
            std::thread::sleep((long / 200).max(Duration::from_millis(50)));
            short_flows(&receiver);
            seen.push(holds(&recorder));
        }
        seen
    });
    load.end();
    recorder.signal(Signal::INT);
    let ended = recorder.wait();
    assert!(ended.status.success(), "{}", stderr(&ended));
    assert_holds_what_it_held("recorder", &seen);
}

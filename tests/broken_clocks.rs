//! A machine that changes its clock source during a recording and suspends. Packets before, between and after
//! stay on one time line with another clock, and the bound holds at every instant.

use crate::common::{self, two_clocks};

use common::{skipped, stderr, uninterrupted};
use magscope_core::clock::Break;
use magscope_session::Session;
use magscope_timeline::NodeClock;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use two_clocks::{journeys, name_of, wire, with_a_clock_of_its_own};

const SERVER: &str = "10.89.0.2";
const LIMIT: Option<Duration> = Some(Duration::from_mins(1));
/// Datagrams and requests per phase. Their lengths identify the phase.
const ROUNDS: usize = 120;
const PHASES: usize = 4;
const SLEEP_S: u64 = 3;

const CLOCKSOURCES: &str = "/sys/devices/system/clocksource/clocksource0";
const ALARM: &str = "/sys/class/rtc/rtc0/wakealarm";

const fn bytes(phase: usize) -> usize {
    400 + phase
}

/// True on the machine whose clocks may be broken.
fn is_guest(test: &str) -> bool {
    let reported = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let guest = reported.split_ascii_whitespace().any(|word| word == "role=alone");
    if !guest {
        skipped(test, "this is not the machine that scripts/broken-clocks.sh boots for it");
    }
    guest
}

#[test]
#[ignore = "runs in the machine"]
fn guest_echoes() {
    if !is_guest("guest_echoes") {
        return;
    }
    let listener = TcpListener::bind((SERVER, 7000)).expect("a port");
    let udp = UdpSocket::bind((SERVER, 7001)).expect("a port");
    let (mut stream, _) = listener.accept().expect("a client");
    let mut buffer = [0; 1000];
    for phase in 0..PHASES {
        for _ in 0..ROUNDS {
            let (len, from) = uninterrupted(|| udp.recv_from(&mut buffer)).expect("a datagram");
            udp.send_to(&buffer[..len], from).expect("an answer");
            let request = &mut buffer[..bytes(phase)];
            stream.read_exact(request).expect("a request");
            stream.write_all(request).expect("an answer");
        }
    }
}

fn count_with(clocksource: &str) {
    println!("MACHINE: clocksource {clocksource}");
    fs::write(format!("{CLOCKSOURCES}/current_clocksource"), clocksource).expect("it may be chosen");
    // The kernel changes the clock source asynchronously.
    let chosen = || fs::read_to_string(format!("{CLOCKSOURCES}/current_clocksource")).expect("it says so");
    while chosen().trim() != clocksource {
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn sleep() {
    println!("MACHINE: sleeps");
    fs::write(ALARM, format!("+{SLEEP_S}")).expect("an alarm");
    fs::write("/sys/power/state", "mem").expect("it can sleep");
    println!("MACHINE: is awake");
}

#[test]
#[ignore = "runs in the machine"]
fn guest_breaks_its_clocks() {
    if !is_guest("guest_breaks_its_clocks") {
        return;
    }
    let own = fs::read_to_string(format!("{CLOCKSOURCES}/current_clocksource")).expect("it says so");
    let others = fs::read_to_string(format!("{CLOCKSOURCES}/available_clocksource")).expect("it says so");
    let other = others.split_ascii_whitespace().find(|name| *name != own.trim()).expect("more than one");
    let mut stream = loop {
        match TcpStream::connect((SERVER, 7000)) {
            Ok(stream) => break stream,
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    };
    stream.set_nodelay(true).expect("a socket");
    stream.set_read_timeout(LIMIT).expect("a limit");
    let udp = UdpSocket::bind(("0.0.0.0", 0)).expect("a port");
    udp.connect((SERVER, 7001)).expect("a peer");
    udp.set_read_timeout(LIMIT).expect("a limit");
    let mut buffer = [0; 1000];
    for phase in 0..PHASES {
        for _ in 0..ROUNDS {
            udp.send(&buffer[..bytes(phase)]).expect("a datagram");
            uninterrupted(|| udp.recv(&mut buffer)).expect("an answer");
            stream.write_all(&buffer[..bytes(phase)]).expect("a request");
            stream.read_exact(&mut buffer[..bytes(phase)]).expect("an answer");
        }
        // Clock samples exist on both sides of the phase.
        std::thread::sleep(Duration::from_millis(500));
        match phase {
            0 => count_with(other),
            1 => sleep(),
            2 => count_with(own.trim()),
            _ => {}
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn a_time_line_goes_on_when_a_clock_breaks() {
    let dir = TempDir::new().expect("a directory");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/broken-clocks.sh");
    let own = std::env::current_exe().expect("this program");
    let output = Command::new(script).arg(dir.path()).arg(env!("CARGO_BIN_EXE_magnet-scope")).arg(own).output();
    let output = output.expect("bash");
    let text = String::from_utf8_lossy(&output.stdout);
    if let Some(because) = text.trim().strip_prefix("skipped, because ") {
        return skipped("a machine whose clocks break", because);
    }
    assert!(output.status.success(), "{text}{}", stderr(&output));
    if let Some(keep) = std::env::var_os("MAGNET_KEEP_MACHINES") {
        let copied = Command::new("cp").arg("-a").arg(dir.path()).arg(keep).status();
        assert!(copied.is_ok_and(|status| status.success()));
    }
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (asks, answers, other) = (path("asks"), path("answers"), path("other"));
    for recording in [&asks, &answers] {
        breaks_are_seen(recording);
    }
    with_a_clock_of_its_own(&answers, &other);
    the_bound_holds(&asks, &answers, &other);
}

fn breaks_are_seen(recording: &str) {
    let session = Session::open(Path::new(recording)).expect("a recording");
    let mut clock = NodeClock::new();
    session.clock_samples().into_iter().for_each(|sample| clock.push(sample));
    let breaks: Vec<Break> = clock.breaks().map(|(_, _, what)| what).collect();
    assert_eq!(breaks, [Break::Clocksource, Break::Suspend, Break::Clocksource]);
    let asleep = clock.samples().last().map(|s| s.suspended_ns).expect("samples");
    assert!(asleep > 1_000_000_000, "{asleep} ns asleep");
}

/// With a common clock the true wire times are known. With a separate clock for the second recording, each
/// interval must contain the true time.
fn the_bound_holds(asks: &str, answers: &str, other: &str) {
    let (one_clock, _) = journeys(&[asks, answers]);
    let truth: HashMap<String, i64> =
        one_clock.iter().filter_map(|row| Some((name_of(row), wire(row)?.0))).collect();
    assert!(truth.values().all(|ns| *ns >= 0), "received before it was sent");
    let (two_clocks, messages) = journeys(&[asks, other]);
    assert!(messages.contains("CERTIFIED") && messages.contains("0 rejected"), "{messages}");
    let (mut seen, mut compared) = (BTreeMap::new(), BTreeMap::new());
    let ours = |row: &&Value| ["tcp", "udp"].iter().any(|proto| row["proto"] == *proto) && row["bytes"] != 0;
    for row in two_clocks.iter().filter(ours).filter(|row| row["verdict"] == "complete") {
        let length = row["bytes"].as_u64().expect("a length") as usize;
        *seen.entry(length).or_insert(0) += 1;
        assert_eq!(row["across"], "bounded", "{row}");
        let Some((ns, half_width_ns)) = wire(row) else { continue };
        assert!(half_width_ns > 0 && ns + half_width_ns >= 0, "{row}");
        // Journeys of the second have names with its other clock.
        if let Some(true_ns) = truth.get(&name_of(row)) {
            *compared.entry(length).or_insert(0) += 1;
            assert!((ns - true_ns).abs() <= half_width_ns, "{true_ns} is not {ns} ± {half_width_ns}: {row}");
        }
    }
    for phase in 0..PHASES {
        assert_eq!(seen.get(&bytes(phase)), Some(&(4 * ROUNDS)), "phase {phase}: {seen:?}");
        assert_eq!(compared.get(&bytes(phase)), Some(&(2 * ROUNDS)), "phase {phase}: {compared:?}");
    }
    println!("{compared:?} times on the wire are inside their intervals");
}

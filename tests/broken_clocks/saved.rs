//! A machine that is saved and continued while it is recorded. No clock of it counts the pause, and only its hypervisor
//! reports it. Its recording has the break, and the time line with the host's clock has a step there.

use crate::common;

use common::{skipped, stderr, uninterrupted};
use magscope_core::clock::Break;
use magscope_session::Session;
use magscope_timeline::NodeClock;
use serde_json::Value;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

const GUEST: &str = "10.90.0.2:7010";
/// Datagrams before and after the pause.
const ROUNDS: usize = 200;
const PAYLOAD: usize = 300;
const PAUSE: Duration = Duration::from_millis(10);
/// An answer that does not come by then is asked for again.
const PATIENCE: Option<Duration> = Some(Duration::from_millis(500));

fn has_role(test: &str, wanted: bool) -> bool {
    if !wanted {
        skipped(test, "scripts/saved-machine.sh did not start it");
    }
    wanted
}

#[test]
#[ignore = "runs in the machine"]
fn guest_answers() {
    let reported = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    if !has_role("guest_answers", reported.split_ascii_whitespace().any(|word| word == "role=saved")) {
        return;
    }
    let socket = UdpSocket::bind(GUEST).expect("a port");
    let mut buffer = [0; 1000];
    loop {
        let (len, from) = uninterrupted(|| socket.recv_from(&mut buffer)).expect("a datagram");
        if len < PAYLOAD {
            return;
        }
        socket.send_to(&buffer[..len], from).expect("an answer");
    }
}

#[test]
#[ignore = "runs beside the machine"]
fn host_asks() {
    if !has_role("host_asks", std::env::var_os("SAVED_MACHINE_NETNS").is_some()) {
        return;
    }
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a port");
    socket.connect(GUEST).expect("a peer");
    socket.set_read_timeout(PATIENCE).expect("a limit");
    let mut buffer = [0; 1000];
    // The machine boots, or is stopped: nothing answers yet.
    let mut ask = |number: usize| {
        let mut payload = [0; PAYLOAD];
        payload[..8].copy_from_slice(&number.to_le_bytes());
        loop {
            if socket.send(&payload).is_ok()
                && let Ok(len) = socket.recv(&mut buffer)
                && buffer[..len] == payload
            {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    };
    ask(0);
    for half in [1, 2] {
        for number in 0..ROUNDS {
            ask(half * ROUNDS + number);
            std::thread::sleep(PAUSE);
        }
        if half == 1 {
            // From here to the first answer of the second half, the script stops the machine.
            println!("HOST: first half");
            while !Path::new(&std::env::var("SAVED_MACHINE_STATE").expect("a path")).exists() {
                std::thread::sleep(PAUSE);
            }
            ask(2 * ROUNDS - 1);
            println!("HOST: goes on");
        }
    }
    // One of them ends the machine's test. Then the others are refused.
    for _ in 0..5 {
        let _ = socket.send(&[0]);
        std::thread::sleep(PAUSE);
    }
}

#[test]
fn a_machine_that_is_continued_as_a_clone_begins_an_epoch() {
    continued("a machine that is continued as a clone", "vmgenid");
}

#[test]
fn a_machine_that_is_migrated_begins_an_epoch() {
    continued("a machine that is migrated", "vmclock");
}

fn continued(test: &str, device: &str) {
    let dir = TempDir::new().expect("a directory");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/saved-machine.sh");
    let own = std::env::current_exe().expect("this program");
    let mut command = Command::new(script);
    command.arg(dir.path()).arg(env!("CARGO_BIN_EXE_magnet-scope")).arg(own).arg(device);
    let output = command.output().expect("bash");
    let text = String::from_utf8_lossy(&output.stdout);
    if let Some(because) = text.trim().strip_prefix("skipped, because ") {
        return skipped(test, because);
    }
    assert!(output.status.success(), "{text}{}", stderr(&output));
    if let Some(keep) = std::env::var_os("MAGNET_KEEP_MACHINES") {
        let copied = Command::new("cp").arg("-a").arg(dir.path()).arg(keep).status();
        assert!(copied.is_ok_and(|status| status.success()));
    }
    println!("{test}");
    let path = |name: &str| dir.path().join(name);
    let pause = fs::read_to_string(path("pause")).expect("two durations");
    let (least_ns, most_ns) = pause.trim().split_once(' ').expect("two durations");
    the_time_line_holds(
        &path("host"),
        &path("guest"),
        [least_ns, most_ns].map(|ns| ns.parse().expect("a number")),
    );
}

fn the_time_line_holds(host: &Path, guest: &Path, [least_ns, most_ns]: [i64; 2]) {
    let mut clock = NodeClock::new();
    let samples = Session::open(guest).expect("a recording").clock_samples();
    for sample in &samples {
        clock.push(*sample);
    }
    let breaks: Vec<_> = clock.breaks().collect();
    assert_eq!(breaks.iter().map(|(.., what)| *what).collect::<Vec<_>>(), [Break::Generation]);
    // Nothing else in the samples shows the pause: they follow each other without a gap of that length.
    for pair in samples.windows(2) {
        let [before, next] = pair else { continue };
        assert!(next.raw_ns - before.raw_ns < least_ns.unsigned_abs(), "{before:?} {next:?}");
    }

    let names = [host, guest].map(|path| path.display().to_string());
    let output = common::run(&["align", "--json", &names[0], &names[1]]);
    assert!(output.status.success(), "{}", stderr(&output));
    let table: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let row = &table["pairs"][0];
    assert!(row["steps"].as_u64().is_some_and(|steps| steps >= 1), "{row}");
    assert_eq!(row["state"], "CERTIFIED", "{row}");
    // The guest's clock is behind by the pause from then on. Bounds on both sides of it contain that step.
    let bounds: Vec<(i64, i64)> = row["over_time"]
        .as_array()
        .expect("instants")
        .iter()
        .filter_map(|instant| Some((instant["lower_ns"].as_i64()?, instant["upper_ns"].as_i64()?)))
        .collect();
    assert!(bounds.len() > 50, "{row}");
    let (first, last) = (bounds[0], bounds[bounds.len() - 1]);
    let step = (first.0 - last.1, first.1 - last.0);
    println!("the pause is {least_ns} to {most_ns} ns, the step {} to {} ns", step.0, step.1);
    assert!(step.0 <= most_ns && step.1 >= least_ns, "{step:?} {row}");
    assert!(step.1 - step.0 < 1_000_000_000, "{step:?}");
    // Each instant has the difference of one side of the step, or of both.
    for (lower, upper) in &bounds {
        let has = |side: &(i64, i64)| *lower <= side.1 + 50_000_000 && *upper >= side.0 - 50_000_000;
        assert!(has(&first) || has(&last), "{lower} to {upper}: {first:?} {last:?}");
    }
}

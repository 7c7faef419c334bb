//! Faults that somebody else made are found by `requests` alone: which request, which part of it, and why.

use super::servers::{HTTP, PAGE, REDIS, Talk, page, talk};
use super::{are_the_calls, found, limits_server, ns, of_port, recorded, scene, servers};
use crate::common::agents::Running;
use crate::common::hosts::{in_namespace, ip};
use crate::common::skipped;
use serde_json::Value;
use std::process::{Command, Stdio};

/// The scheduler's hops say what the answering thread did.
const SCHEDULED: &str = "default,+sched.switch,+sched.wakeup";

/// Where most of the time of a service's slowest requests went, in words.
fn largest_part(all: &Value, port: u16) -> String {
    let rows = all["rows"].as_array().expect("services");
    let name = format!(":{port} ");
    let row = rows.iter().find(|row| row["name"].as_str().is_some_and(|of| of.starts_with(&name)));
    let row = row.unwrap_or_else(|| panic!("no service {name} in {all}"));
    row["slowest"][0]["part"].as_str().unwrap_or_else(|| panic!("no part in {row}")).to_owned()
}

/// A program that runs until this value goes.
struct BackgroundProgram(Option<Running>);

impl BackgroundProgram {
    fn start(host: &str, mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        BackgroundProgram(Some(in_namespace(host, || Running::of(command))))
    }
}

impl Drop for BackgroundProgram {
    fn drop(&mut self) {
        if let Some(running) = self.0.take() {
            running.signal(rustix::process::Signal::KILL);
            running.wait();
        }
    }
}

#[test]
fn slow_code_a_lock_and_a_slow_database_are_told_apart() {
    const TEST: &str = "faults of a server";
    const WORDS: [&str; 4] = ["ping", "spin", "lock", "ask"];
    let Some((hosts, dir)) = scene(TEST) else { return };
    let files = tempfile::tempdir().expect("a directory");
    let Some(_redis) = servers::redis(TEST, &hosts, &files) else { return };
    // It asks a database on its own host.
    assert!(ip(&["-n", &hosts.names[2], "link", "set", "lo", "up"]));
    let _page = servers::page_server(&hosts);
    let words: Vec<&str> = WORDS.repeat(5);
    let (session, talk) = recorded(&hosts, &[0, 2], SCHEDULED, &dir, || page(&hosts, &words));
    let (_, exchanges) = found(&session, &[]);
    are_the_calls("page", &exchanges, &talk, true);
    let matching = |filter: &str| -> Vec<String> {
        let (_, matching) = found(&session, &["--where", &format!("{filter} and port = {PAGE}")]);
        matching.iter().map(|exchange| exchange["id"].to_string()).collect()
    };
    // What a thread did is unknown where the kernel refused a run of the scheduler's probes.
    let of_words = |wanted: &[&str]| -> Vec<String> {
        let asked = of_port(&exchanges, talk.port).into_iter().zip(&words);
        let split = asked.filter(|(exchange, word)| wanted.contains(word) && exchange["work"].is_object());
        split.map(|(exchange, _)| exchange["id"].to_string()).collect()
    };
    assert!(!of_words(&["spin"]).is_empty() && !of_words(&["lock", "ask"]).is_empty());
    assert_eq!(matching("on_cpu > 35ms"), of_words(&["spin"]));
    assert_eq!(matching("blocked > 45ms"), of_words(&["lock", "ask"]));
    // What it was blocked in is a request of its own, as long as the database says that it slept.
    for (exchange, word) in of_port(&exchanges, talk.port).into_iter().zip(&words) {
        let during = exchange["during"].as_array().map_or(0, Vec::len);
        assert_eq!(during, usize::from(*word == "ask"), "{word}: {exchange}");
        if *word == "ask" {
            let inner = &exchange["during"][0]["exchange"];
            let inner = exchanges.iter().find(|e| e["id"] == *inner).expect("it is listed");
            assert_eq!(inner["responder"]["process"], "redis-server");
            let inner_ns = ns(inner, "total_ns");
            assert!(inner_ns >= 50_000_000 && inner_ns <= ns(exchange, "answer_ns"), "{inner} in {exchange}");
        }
    }
}

#[test]
fn a_lossy_link_is_retransmissions() {
    const TEST: &str = "requests over a lossy link";
    let Some((hosts, dir)) = scene(TEST) else { return };
    let files = tempfile::tempdir().expect("a directory");
    let Some(_redis) = servers::redis(TEST, &hosts, &files) else { return };
    let programs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/truth/rows/deciders.py");
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &hosts.names[2], "python3", "-B", programs]);
    command.args(["attach", "tcx", "ingress", "by_chance", "s0"]).stderr(Stdio::null());
    if !command.status().is_ok_and(|status| status.success()) {
        return skipped(TEST, "this kernel has no tcx (Linux 6.6 and later do)");
    }
    let (session, talk) = recorded(&hosts, &[0, 2], "default", &dir, || talk(&hosts, "redis", REDIS, 100, ""));
    let (all, exchanges) = found(&session, &[]);
    are_the_calls("redis", &exchanges, &talk, true);
    let resent: u64 = exchanges.iter().map(|e| ns(&e["request"], "retransmits")).sum();
    assert!(resent > 0, "one of seven packets was lost: {exchanges:?}");
    // The kernel counts segments, of which one retransmission may have two, also of bytes that had been read.
    assert!(talk.resent.is_some_and(|kernels| resent <= kernels), "{resent} of {:?}: {all}", talk.resent);
    let others = ["sender-stack", "send-queue", "wire", "receiver-stack", "unknown"];
    is_larger(&exchanges, "request", &["retransmission"], &others);
}

/// Parts of all requests or responses took longer than these others together. The time that a CPU or a thread was
/// waited for is left out, because the machine may be busy.
fn is_larger(exchanges: &[Value], direction: &str, wanted: &[&str], others: &[&str]) {
    let part_ns = |of: &[&str]| -> u64 {
        let parts =
            exchanges.iter().filter_map(|exchange| exchange[direction]["last_parts"].as_array()).flatten();
        parts.filter(|part| of.iter().any(|name| part["part"] == *name)).map(|part| ns(part, "ns")).sum()
    };
    let (ns, others_ns) = (part_ns(wanted), part_ns(others));
    assert!(
        ns > others_ns,
        "{wanted:?} of the {direction}: {ns} ns, {others:?}: {others_ns} ns in {exchanges:?}"
    );
}

#[test]
fn a_full_queue_is_the_senders_stack() {
    const TEST: &str = "requests behind a full queue";
    let Some((hosts, dir)) = scene(TEST) else { return };
    let files = tempfile::tempdir().expect("a directory");
    let Some(_redis) = servers::redis(TEST, &hosts, &files) else { return };
    // 60 kB at 8 Mbit/s are 60 ms.
    if !limits_server(TEST, &hosts, "rate 8mbit burst 20k limit 60k") {
        return;
    }
    let flood = "import socket\n\
        s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.setsockopt(socket.SOL_SOCKET,socket.SO_SNDBUF,1<<20)\n\
        while True:\n  s.sendto(bytes(1200),('10.77.1.2',9))\n";
    let mut command = Command::new("python3");
    command.args(["-c", flood]);
    let _flood = BackgroundProgram::start(&hosts.names[2], command);
    let (session, talk) =
        recorded(&hosts, &[0, 2], "default,+dev.queue", &dir, || talk(&hosts, "redis", REDIS, 30, ""));
    let (_, exchanges) = found(&session, &["--where", &format!("port = {REDIS}")]);
    are_the_calls("redis", &exchanges, &talk, true);
    // The full queue also drops some responses, which are then sent again.
    is_larger(&exchanges, "response", &["sender-stack"], &["send-queue", "wire", "receiver-stack", "unknown"]);
    let filter = format!("hop(dev.queue,dev.xmit) > 10ms and port = {REDIS}");
    let (_, waited) = found(&session, &["--where", &filter]);
    assert!(waited.len() > talk.notes.len() / 2, "{waited:?}");
}

#[test]
fn a_small_window_holds_the_response_in_tcps_queue() {
    const TEST: &str = "requests with a small window";
    let Some((hosts, dir)) = scene(TEST) else { return };
    let files = tempfile::tempdir().expect("a directory");
    let Some(_nginx) = servers::nginx(TEST, &hosts, &files) else { return };
    let (session, talk): (_, Talk) =
        recorded(&hosts, &[0, 2], "default", &dir, || talk(&hosts, "small-window", HTTP, 3, "/large"));
    let (all, exchanges) = found(&session, &[]);
    assert_eq!(of_port(&exchanges, talk.port).len(), 3, "{all}");
    let others = ["sender-stack", "retransmission", "wire", "receiver-stack", "unknown"];
    // A window that no sample shows closed is the send queue's.
    is_larger(&exchanges, "response", &["send-queue", "receive-window"], &others);
}

#[test]
fn a_server_without_a_cpu_waits_for_one() {
    const TEST: &str = "requests to a server without a CPU";
    let Some((hosts, dir)) = scene(TEST) else { return };
    let files = tempfile::tempdir().expect("a directory");
    // It runs only when nobody else wants its CPU, and somebody always does.
    let Some(_redis) = servers::starved_redis(TEST, &hosts, &files) else { return };
    let mut command = Command::new("taskset");
    command.args(["-c", "0", "python3", "-c", "while True: pass"]);
    let _load = BackgroundProgram::start(&hosts.names[1], command);
    let (session, talk) = recorded(&hosts, &[0, 2], SCHEDULED, &dir, || talk(&hosts, "redis", REDIS, 10, ""));
    let (all, exchanges) = found(&session, &[]);
    assert_eq!(of_port(&exchanges, talk.port).len(), 10, "{all}");
    let part = largest_part(&all, REDIS);
    assert!(part.ends_with("waiting for a CPU"), "{part}: {all}");
}

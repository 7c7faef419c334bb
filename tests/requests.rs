//! Exchanges of real servers, held against what their clients noted by their own clocks.

mod faults;
mod reuse;
mod servers;
mod uses;

use crate::common::agents::{Running, on};
use crate::common::exports::tool;
use crate::common::hosts::{Hosts, SERVER, in_namespace, ip};
use crate::common::{eventually, is_root, run, skipped, stderr, stdout};
use serde_json::Value;
use servers::{DNS, HTTP, HTTPS, POSTGRES, PROXY, REDIS, Talk, client, talk};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Requests to each server; `MAGSCOPE_REQUESTS` sets another number.
fn requests() -> usize {
    std::env::var("MAGSCOPE_REQUESTS").ok().and_then(|n| n.parse().ok()).unwrap_or(500)
}

/// Hosts and a directory, for a test that needs root. With `MAGSCOPE_KEEP` the directory stays after the test.
fn scene(test: &str) -> Option<(Hosts, TempDir)> {
    if !is_root(test) {
        return None;
    }
    let keep = std::env::var_os("MAGSCOPE_KEEP").is_some();
    let dir = tempfile::Builder::new().prefix("magscope-test-").disable_cleanup(keep).tempdir();
    Some((Hosts::new("rq")?, dir.expect("a directory")))
}

/// Records these hosts while `work` runs.
fn recorded<T>(
    hosts: &Hosts,
    of: &[usize],
    hops: &str,
    dir: &TempDir,
    work: impl FnOnce() -> T,
) -> (PathBuf, T) {
    let session = dir.path().join("session");
    let path = session.display().to_string();
    let mut arguments = vec!["record", "-o", &path, "--hops", hops, "--ring-size", "32MiB"];
    for host in of {
        arguments.extend(["--netns", &hosts.names[*host]]);
    }
    let recorder = on(&hosts.names[0], &arguments);
    assert!(eventually(|| session.join("meta.toml").exists()), "it records");
    let made = work();
    let ended = recorder.end();
    assert!(ended.status.success(), "{}", stderr(&ended));
    assert!(stderr(&ended).contains("nothing lost"), "{}", stderr(&ended));
    (session, made)
}

/// What `requests` finds, in the order of its exchanges.
fn found(session: &Path, more: &[&str]) -> (Value, Vec<Value>) {
    let path = session.display().to_string();
    let output = run(&[&["requests", &path, "--json", "--slowest", "1000000"], more].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut exchanges = all["exchanges"].as_array().expect("exchanges").clone();
    exchanges.sort_by_key(|exchange| exchange["id"].as_str().and_then(|id| id.parse::<u64>().ok()));
    (all, exchanges)
}

/// Exchanges of one client's port.
fn of_port(exchanges: &[Value], port: u64) -> Vec<&Value> {
    let suffix = format!(":{port}");
    exchanges
        .iter()
        .filter(|e| e["requester"]["addr"].as_str().is_some_and(|addr| addr.ends_with(&suffix)))
        .collect()
}

fn graded<'v>(exchanges: &[&'v Value], grade: &str) -> Vec<&'v Value> {
    exchanges.iter().copied().filter(|exchange| exchange["grade"] == grade).collect()
}

fn ns(exchange: &Value, key: &str) -> u64 {
    exchange[key].as_u64().unwrap_or_else(|| panic!("no {key} in {exchange}"))
}

/// Each note of a talk is one exchange, and a turn lies within its call. A server that loses its CPU amid a response
/// pauses, so that its response may have ended; such exchanges are streamed.
fn are_the_calls(what: &str, exchanges: &[Value], talk: &Talk, sees_requester: bool) {
    let of_talk = of_port(exchanges, talk.port);
    let requests: Vec<&Value> = of_talk.into_iter().filter(|e| e["grade"] != "handshake").collect();
    assert_eq!(requests.len(), talk.notes.len(), "{what}");
    assert!(requests.iter().all(|e| e["grade"] == "turn" || e["grade"] == "streamed"), "{what}: {requests:?}");
    let turns = requests.iter().zip(&talk.notes).filter(|(exchange, _)| exchange["grade"] == "turn");
    assert!(turns.clone().count() > talk.notes.len() / 2, "{what}: {requests:?}");
    for (turn, (begin_ns, end_ns, _)) in turns {
        let start_ns = ns(turn, "start_ns");
        let length_ns = ns(turn, if sees_requester { "total_ns" } else { "answer_ns" });
        assert!(*begin_ns <= start_ns && start_ns + length_ns <= *end_ns, "{what}: {begin_ns} {end_ns} {turn}");
        if sees_requester && turn["view"] == "both" {
            let part = |part: &Value| part.as_u64().expect("a part");
            let sum = part(&turn["request"]["ns"]) + part(&turn["answer_ns"]) + part(&turn["response"]["ns"]);
            assert_eq!(sum, length_ns, "{what}: {turn}");
        }
    }
}

#[test]
fn each_request_of_a_real_server_is_one_turn_within_its_call() {
    const TEST: &str = "requests to real servers";
    let Some((hosts, dir)) = scene(TEST) else { return };
    let dirs: Vec<TempDir> = (0..3).map(|_| tempfile::tempdir().expect("a directory")).collect();
    let nginx = servers::nginx(TEST, &hosts, &dirs[0]);
    let redis = servers::redis(TEST, &hosts, &dirs[1]);
    let unbound = servers::unbound(TEST, &hosts, &dirs[2]);
    let many = requests();
    let (session, talks) = recorded(&hosts, &[0, 2], "default", &dir, || {
        let mut talks = Vec::new();
        if nginx.is_some() {
            talks.push(("http", talk(&hosts, "http", HTTP, many, "/")));
            talks.push(("https", talk(&hosts, "https", HTTPS, many, "/")));
        }
        if redis.is_some() {
            talks.push(("redis", talk(&hosts, "redis", REDIS, many, "")));
        }
        if unbound.is_some() {
            talks.push(("dns", talk(&hosts, "dns", DNS, many, "www.test")));
        }
        talks
    });
    let (_, exchanges) = found(&session, &[]);
    for (what, talk) in &talks {
        are_the_calls(what, &exchanges, talk, true);
    }
    // TLS by its port: the handshake is no request.
    for (_, talk) in talks.iter().filter(|(what, _)| *what == "https") {
        assert_eq!(of_port(&exchanges, talk.port)[0]["grade"], "handshake");
    }
}

#[test]
fn one_end_has_its_own_part_of_each_request() {
    const TEST: &str = "requests seen by one end";
    for host in [0, 2] {
        let Some((hosts, dir)) = scene(TEST) else { return };
        let files = tempfile::tempdir().expect("a directory");
        let Some(_redis) = servers::redis(TEST, &hosts, &files) else { return };
        let (session, talk) =
            recorded(&hosts, &[host], "default", &dir, || talk(&hosts, "redis", REDIS, requests(), ""));
        let (_, exchanges) = found(&session, &[]);
        are_the_calls("redis", &exchanges, &talk, host == 0);
        let view = if host == 0 { "requester" } else { "responder" };
        assert!(of_port(&exchanges, talk.port).iter().all(|exchange| exchange["view"] == view));
    }
}

/// Limits what the server sends, in words of `tc` for a token bucket. False, with the reason printed, if that fails.
fn limits_server(test: &str, hosts: &Hosts, limit: &str) -> bool {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &hosts.names[2], "tc", "qdisc", "add", "dev", "s0", "root", "tbf"]);
    let limited = command.args(limit.split(' ')).stderr(Stdio::null()).status().is_ok_and(|s| s.success());
    if !limited {
        skipped(test, "tc has no tbf here");
    }
    limited
}

#[test]
fn what_does_not_take_turns_has_no_latency() {
    const TEST: &str = "requests that overlap";
    let Some((hosts, dir)) = scene(TEST) else { return };
    let dirs: Vec<TempDir> = (0..2).map(|_| tempfile::tempdir().expect("a directory")).collect();
    let Some(_redis) = servers::redis(TEST, &hosts, &dirs[0]) else { return };
    // At this rate a response of a megabyte takes 100 ms. Without a limit, a client that waits for a CPU reads all
    // responses before it asks again. It has then taken turns.
    let limit = "rate 80mbit burst 64k limit 4m";
    let nginx = servers::nginx(TEST, &hosts, &dirs[1]);
    let nginx = nginx.filter(|_| tool(TEST, "h2load") && limits_server(TEST, &hosts, limit));
    let (session, (pipelined, subscriber)) = recorded(&hosts, &[0, 2], "default", &dir, || {
        if nginx.is_some() {
            let mut command = Command::new("h2load");
            command.args(["-n", "60", "-c", "2", "-m", "10"]);
            command.args(["huge", "index.html"].map(|file| format!("https://{SERVER}:{HTTPS}/{file}")));
            let output = client(&hosts, command);
            assert!(stdout(&output).contains("60 succeeded"), "{}", stdout(&output));
        }
        (talk(&hosts, "pipelined", REDIS, 200, ""), talk(&hosts, "subscriber", REDIS, 20, ""))
    });
    let (_, exchanges) = found(&session, &[]);
    let pipelined = of_port(&exchanges, pipelined.port);
    assert!(!pipelined.is_empty());
    assert!(graded(&pipelined, "turn").is_empty(), "{pipelined:?}");
    // The subscription itself has messages behind its response; the end of the subscription is a request.
    let subscriber = of_port(&exchanges, subscriber.port);
    assert_eq!(subscriber[0]["grade"], "streamed", "{subscriber:?}");
    assert!(subscriber[0]["total_ns"].is_null() && subscriber[0]["response"]["ns"].is_null());
    if nginx.is_some() {
        let multiplexed: Vec<&Value> =
            exchanges.iter().filter(|e| e["requester"]["process"] == "h2load").collect();
        assert!(multiplexed.len() > 4, "{multiplexed:?}");
        assert!(multiplexed.iter().all(|exchange| exchange["total_ns"].is_null()), "{multiplexed:?}");
    }
}

/// gRPC negotiates in both directions, so that its connections may take no turns even where calls follow each other. A
/// turn that is there is at a call, or belongs to the opening of a channel.
#[test]
fn a_turn_of_grpc_is_at_a_call_or_opens_the_channel() {
    const TEST: &str = "calls of gRPC";
    /// Exchanges in which a channel is opened: settings, their confirmation, and perhaps the first call with them.
    const OPENING: usize = 3;
    let Some((hosts, dir)) = scene(TEST) else { return };
    let Some((_server, python)) = servers::rpc_server(TEST, &hosts) else { return };
    let (session, [asked, _]) = recorded(&hosts, &[0, 2], "default", &dir, || {
        [("ask", requests()), ("many", requests())]
            .map(|(kind, calls)| servers::rpc(&hosts, &python, kind, calls))
    });
    let (_, exchanges) = found(&session, &["--where", &format!("port = {}", servers::RPC)]);
    assert!(exchanges.len() > asked.notes.len() / 2, "{} exchanges", exchanges.len());
    let mut of_connection: BTreeMap<String, usize> = BTreeMap::new();
    for exchange in &exchanges {
        let connection = exchange["requester"]["addr"].as_str().expect("an address").to_owned();
        let number = of_connection.entry(connection).or_default();
        *number += 1;
        if exchange["grade"] != "turn" {
            continue;
        }
        let start_ns = ns(exchange, "start_ns");
        let end_ns = start_ns + ns(exchange, "total_ns");
        // Frames of flow control may precede a call, so that its turn begins earlier; a call may be several turns.
        let is_at_call = asked.notes.iter().any(|(begin, end, _)| start_ns < *end && end_ns > *begin);
        // Without a CPU, the first call is asked while both ends still negotiate.
        assert!(is_at_call || *number <= OPENING, "{exchange}");
    }
}

#[test]
fn pgbench_and_the_exchanges_agree_on_each_transaction() {
    const TEST: &str = "PostgreSQL's requests";
    let Some((hosts, dir)) = scene(TEST) else { return };
    let files = tempfile::tempdir().expect("a directory");
    let Some((_server, bin)) = servers::postgres(TEST, &hosts, &files) else { return };
    let pgbench = |more: &[&str]| {
        let mut command = Command::new(bin.join("pgbench"));
        command.args(["-h", SERVER, "-p", &POSTGRES.to_string(), "-U", "bench"]).args(more).arg("postgres");
        command.current_dir(files.path());
        let output = client(&hosts, command);
        assert!(output.status.success(), "{}", stderr(&output));
    };
    pgbench(&["-i", "-q"]);
    let many = requests();
    let (session, ()) = recorded(&hosts, &[0, 2], "default", &dir, || {
        pgbench(&["-n", "-S", "-M", "simple", "-c", "1", "-t", &many.to_string(), "-l"]);
    });
    let logs = fs::read_dir(files.path()).expect("a directory").flatten().map(|entry| entry.path());
    let log = logs.into_iter().find(|path| path.display().to_string().contains("pgbench_log")).expect("a log");
    let log = fs::read_to_string(log).expect("text");
    // client, transaction, microseconds, script, seconds and microseconds of the end
    let took_us: Vec<u64> = log
        .lines()
        .map(|line| line.split(' ').nth(2).and_then(|us| us.parse().ok()).expect("a time"))
        .collect();
    assert_eq!(took_us.len(), many);
    let (_, exchanges) = found(&session, &[]);
    // It asks for a few settings first. Its last message, that it ends, has no response.
    let of_pgbench = exchanges.iter().filter(|e| e["requester"]["process"] == "pgbench");
    let answered: Vec<&Value> = of_pgbench.filter(|e| e["response"]["bytes"] != 0).collect();
    let transactions = &answered[answered.len().checked_sub(many).expect("an exchange a transaction")..];
    let turns = transactions.iter().zip(took_us).filter(|(exchange, _)| exchange["grade"] == "turn");
    assert!(turns.clone().count() > many / 2, "{transactions:?}");
    for (turn, us) in turns {
        assert!(ns(turn, "total_ns") <= (us + 1) * 1_000, "{us} µs: {turn}");
    }
}

#[test]
fn a_slow_answer_is_the_responders_and_its_blocked_time_is_known() {
    const TEST: &str = "slow requests";
    let Some((hosts, dir)) = scene(TEST) else { return };
    let files = tempfile::tempdir().expect("a directory");
    let Some(_redis) = servers::redis(TEST, &hosts, &files) else { return };
    let script = "import socket,sys\n\
        s=socket.create_connection((sys.argv[1],6379)); s.setsockopt(socket.IPPROTO_TCP,socket.TCP_NODELAY,1)\n\
        def ask(what):\n s.sendall(what); s.recv(100)\n\
        for n in range(20): ask(b'PING\\r\\n')\n\
        ask(b'DEBUG SLEEP 0.05\\r\\n')\n\
        for n in range(20): ask(b'PING\\r\\n')\n";
    let hops = "default,+sched.switch,+sched.wakeup";
    let (session, ()) = recorded(&hosts, &[0, 2], hops, &dir, || {
        let mut command = Command::new("python3");
        command.args(["-c", script, SERVER]);
        assert!(client(&hosts, command).status.success());
    });
    let (all, slow) = found(&session, &["--where", "answer > 40ms and port = 6379"]);
    assert_eq!((slow.len(), all["not_matching"].as_u64()), (1, Some(40)), "{all}");
    // It slept in the kernel, and no one else had the time.
    let blocked_ns = slow[0]["work"]["blocked_ns"].as_u64().expect("the scheduler's hops were captured");
    assert!(blocked_ns > 40_000_000 && blocked_ns <= ns(&slow[0], "answer_ns"), "{}", slow[0]);
    let (_, by_sleep) = found(&session, &["--where", "blocked > 40ms"]);
    assert_eq!(by_sleep.len(), 1);
    assert_eq!(all["incomparable"].as_u64(), Some(0), "{all}");
}

#[test]
fn a_proxys_own_request_is_within_the_one_that_it_serves() {
    const TEST: &str = "requests through a proxy";
    let Some((hosts, dir)) = scene(TEST) else { return };
    let files = tempfile::tempdir().expect("a directory");
    let Some(_nginx) = servers::nginx(TEST, &hosts, &files) else { return };
    assert!(ip(&["-n", &hosts.names[2], "link", "set", "lo", "up"]));
    let many = 50;
    let (session, talk) = recorded(&hosts, &[0, 2], "default", &dir, || talk(&hosts, "http", PROXY, many, "/"));
    let (_, exchanges) = found(&session, &[]);
    are_the_calls("proxy", &exchanges, &talk, true);
    let ids = |exchange: &Value| exchange["id"].as_str().expect("an id").to_owned();
    let inner: Vec<String> =
        exchanges.iter().filter(|e| e["requester"]["process"] == "nginx").map(ids).collect();
    assert_eq!(inner.len(), many);
    let outer = of_port(&exchanges, talk.port);
    // One client at a time: each has its own, and nothing else.
    let during: Vec<String> = outer
        .iter()
        .map(|exchange| {
            let list = exchange["during"].as_array().unwrap_or_else(|| panic!("nothing within {exchange}"));
            assert_eq!(list.len(), 1, "{exchange}");
            assert!(["same-thread", "same-process"].contains(&list[0]["by"].as_str().unwrap_or_default()));
            list[0]["exchange"].as_str().expect("an id").to_owned()
        })
        .collect();
    assert_eq!(during, inner);
}

#[test]
fn a_command_is_reported_with_its_children_and_its_exit_code() {
    const TEST: &str = "run";
    let Some((hosts, dir)) = scene(TEST) else { return };
    let files = tempfile::tempdir().expect("a directory");
    let Some(_redis) = servers::redis(TEST, &hosts, &files) else { return };
    let report = dir.path().join("report.json");
    let report_path = report.display().to_string();
    let ping = format!("exec 3<>/dev/tcp/{SERVER}/{REDIS}; printf 'PING\\r\\n' >&3; head -n 1 <&3");
    // The children talk; another process of the same host does too and is left out.
    let script = format!("bash -c \"{ping}\"; bash -c \"{ping}\"; exit 7");
    let other = in_namespace(&hosts.names[0], || {
        let mut command = Command::new("bash");
        command.args(["-c", &format!("while :; do bash -c \"{ping}\" >/dev/null; sleep 0.01; done")]);
        Running::of(command)
    });
    let arguments = ["run", "--json", "-o", &report_path, "--slowest", "100", "--", "sh", "-c", &script];
    let output = on(&hosts.names[0], &arguments).wait();
    other.signal(rustix::process::Signal::KILL);
    other.wait();
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    assert_eq!(stdout(&output), "+PONG\r\n+PONG\r\n");
    let report: Value = serde_json::from_str(&fs::read_to_string(report).expect("a report")).expect("JSON");
    assert_eq!((&report["exit_code"], report["losses"]["records"].as_u64()), (&Value::from(7), Some(0)));
    let exchanges = report["exchanges"].as_array().expect("exchanges");
    assert_eq!(exchanges.len(), 2, "{report}");
    assert!(exchanges.iter().all(|exchange| exchange["grade"] == "turn" && exchange["request"]["bytes"] == 6));

    let missing = on(&hosts.names[0], &["run", "--", "/nonexistent"]).wait();
    assert_eq!(missing.status.code(), Some(127));
    assert!(stderr(&missing).contains("cannot start `/nonexistent`"), "{}", stderr(&missing));
    assert!(!stderr(&missing).contains("exit code"), "nothing ran: {}", stderr(&missing));
    let no_program = files.path().join("no-program");
    fs::write(&no_program, "text").expect("a file");
    let refused = on(&hosts.names[0], &["run", "--", &no_program.display().to_string()]).wait();
    assert_eq!(refused.status.code(), Some(126), "{}", stderr(&refused));

    // A capture that ends before its command says how much it has.
    let arguments = ["run", "--json", "--duration", "100ms", "--", "sh", "-c", "sleep 5; kill -9 $$"];
    let cut = on(&hosts.names[0], &arguments).wait();
    let report: Value =
        serde_json::from_slice(&cut.stderr[cut.stderr.iter().position(|b| *b == b'{').unwrap_or(0)..])
            .unwrap_or_else(|error| panic!("{error}: {}", stderr(&cut)));
    assert_eq!((&report["exit_code"], &report["signal"]), (&Value::from(137), &Value::from(9)));
    let (captured, all) = (report["captured_ns"].as_u64(), report["duration_ns"].as_u64());
    assert!(captured.is_some() && captured < all, "{report}");
}

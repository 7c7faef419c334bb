//! `magnet-scope health`: healthy, unhealthy with a reason, and unknown.

use crate::common::{self, agents, hosts as wired};

use agents::{AgentChild, LAX, run_on, scene};
use common::{eventually, is_root, run, skipped, stderr};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use wired::{Hosts, SERVER, in_namespace, ip};

/// One check of the first host.
fn check(output: &Output, name: &str) -> Value {
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let checks = answer["hosts"][0]["checks"].as_array().expect("checks").iter();
    checks.clone().find(|check| check["name"] == name).expect(name).clone()
}

/// Sends megabytes by TCP from the client to the server, which reads all.
fn send(hosts: &Hosts, bytes: usize) {
    let listener = in_namespace(&hosts.names[2], || TcpListener::bind((SERVER, 0)).expect("a port"));
    let at = listener.local_addr().expect("bound");
    let reader = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("read");
        all.len()
    });
    let mut stream = in_namespace(&hosts.names[0], || TcpStream::connect(at).expect("it listens"));
    for _ in 0..bytes / 10_000 {
        stream.write_all(&[7; 10_000]).expect("sent");
    }
    drop(stream);
    assert_eq!(reader.join().expect("it reads"), bytes);
}

/// Loses packets towards the server: by netem, or else by a random drop rule on the router.
fn lose(hosts: &Hosts) -> bool {
    let router = &hosts.names[1];
    let tc = ["netns", "exec", router, "tc", "qdisc", "add", "dev", "r2", "root", "netem", "loss", "10%"];
    let silent = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if silent("ip", &tc) {
        return true;
    }
    let rules = "table ip lossy {\n chain forward {\n type filter hook forward priority 0\n \
                 oifname \"r2\" numgen random mod 10 0 drop\n }\n}\n";
    let mut nft = Command::new("ip");
    nft.args(["netns", "exec", router, "nft", "-f", "-"]).stdin(Stdio::piped()).stderr(Stdio::null());
    let Ok(mut nft) = nft.spawn() else { return false };
    let written = nft.stdin.take().is_some_and(|mut stdin| stdin.write_all(rules.as_bytes()).is_ok());
    nft.wait().is_ok_and(|status| status.success()) && written
}

#[test]
fn an_agent_s_host_is_well_until_packets_are_lost_on_its_way() {
    if !is_root("health") {
        return;
    }
    let Some((hosts, dir, tls)) = scene("health") else { return };
    // Single segments, so that there are enough for chance.
    assert!(ip(&["-n", &hosts.names[0], "link", "set", "c0", "gso_max_segs", "1"]));
    let client = AgentChild::start(&hosts, false, &tls, dir.path(), &[]);
    let socket = format!("unix:{}", dir.path().join("client.sock").display());
    let ask = |more: &[&str]| {
        let all = [&["health", "--connect", &socket], &LAX[..], more].concat();
        run_on(&hosts.names[0], &all)
    };

    // Without traffic: healthy with unknown delays, which `--strict` rejects.
    let mut quiet = ask(&[]);
    let found = eventually(|| {
        quiet = ask(&[]);
        quiet.status.code() == Some(0)
    });
    assert!(found && check(&quiet, "lost_ratio")["state"] == "ok", "{quiet:?}");
    let ratio = check(&quiet, "retransmit_ratio");
    assert!(ratio["state"] == "unknown" && ratio["value"].is_null(), "{ratio}");
    assert_eq!(ask(&["--strict"]).status.code(), Some(1));

    send(&hosts, 1_000_000);
    let mut well = ask(&[]);
    assert!(eventually(|| {
        well = ask(&[]);
        check(&well, "retransmit_ratio")["state"] == "ok" && check(&well, "queue_delay_p99")["state"] == "ok"
    }));
    assert_eq!(well.status.code(), Some(0), "{well:?}");
    let slow = run_on(&hosts.names[0], &["health", "--connect", &socket, "--max-queue", "0s"]);
    assert_eq!(
        (slow.status.code(), check(&slow, "queue_delay_p99")["state"].as_str()),
        (Some(1), Some("not-ok"))
    );

    if !lose(&hosts) {
        client.end();
        return skipped("health under loss", "neither netem nor nft with numgen is there");
    }
    send(&hosts, 1_000_000);
    let mut lossy = ask(&[]);
    assert!(
        eventually(|| {
            lossy = ask(&[]);
            lossy.status.code() == Some(1)
        }),
        "{}",
        String::from_utf8_lossy(&lossy.stdout)
    );
    let answer: Value = serde_json::from_slice(&lossy.stdout).expect("JSON");
    let bad: Vec<_> = answer["hosts"][0]["checks"]
        .as_array()
        .expect("checks")
        .iter()
        .filter(|check| check["state"] == "not-ok")
        .collect();
    assert_eq!(bad.iter().map(|check| &check["name"]).collect::<Vec<_>>(), ["retransmit_ratio"], "{answer}");
    assert!(answer["healthy"] == false && answer["hosts"][0]["host"].is_string(), "{answer}");
    assert_eq!(ask(&["--max-retransmit", "100%"]).status.code(), Some(0));
    client.end();
}

#[test]
fn without_an_agent_it_captures_itself() {
    if !is_root("health by itself") {
        return;
    }
    let Some(hosts) = Hosts::new("health2") else { return };
    let arguments = ["health", "--duration", "2s", "--max-softirq", "100%", "--max-lost", "100%"];
    let output = run_on(&hosts.names[0], &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(check(&output, "drops_per_second")["state"], "ok", "{output:?}");
    assert_eq!(check(&output, "wakeup_delay_p99")["because"], "nothing passed there in this time");
    assert_eq!(check(&output, "softirq_share")["state"], "ok");
}

#[test]
fn what_could_not_be_found_out_leaves_with_2() {
    let gone = ["health", "--connect", "unix:/nonexistent/agent.sock"];
    let output = run(&gone);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(
        output.stdout.is_empty() && stderr(&output).contains("/nonexistent/agent.sock"),
        "{}",
        stderr(&output)
    );
    for option in [["--hops", "all"], ["--detail", "full"], ["--clock", "tsc"], ["--backend", "kprobe"]] {
        let output = run(&[&["health", "--connect", "unix:/x"][..], &option].concat());
        assert_eq!(output.status.code(), Some(2), "{option:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("is the agent's business"), "{option:?}: {}", stderr(&output));
    }
    for arguments in [
        &["health", "--max-retransmit", "1"][..],
        &["health", "--max-drops", "-1"],
        &["health", "--connect", "unix:/x", "--duration", "1s"],
        &["health", "--connect", "unix:/x", "--filter", "port 80"],
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

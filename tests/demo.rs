//! The demo, end to end: capture, drop of privileges, and no leftovers.

use crate::common::{self, hosts::NAMESPACES};

use common::{children, eventually, field, is_alive, is_root, magnet_scope, run, stderr, stdout};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command};

/// Starts a demo and waits until both hosts have dropped their privileges and are ready.
fn start() -> (Child, Vec<u32>) {
    let child = magnet_scope(&["demo", "--duration", "60s"]).spawn().expect("it starts");
    let mut hosts = Vec::new();
    let up = eventually(|| {
        hosts = children(child.id());
        hosts.len() == 2
            && hosts
                .iter()
                .chain([&child.id()])
                .all(|pid| statuses(*pid).iter().all(|status| is_powerless(status)))
    });
    assert!(up, "two hosts and no privileges: {hosts:?}");
    (child, hosts)
}

fn end(child: Child) {
    let kill = Command::new("kill").arg("-INT").arg(child.id().to_string()).status();
    assert!(kill.is_ok_and(|status| status.success()));
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
}

/// `/proc/<pid>/task/*/status`.
fn statuses(pid: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok()).collect()
}

fn is_powerless(status: &str) -> bool {
    let empty = |set: &str| {
        field(status, set).and_then(|bits| u64::from_str_radix(bits, 16).ok()).is_some_and(|bits| bits == 0)
    };
    ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].iter().all(|set| empty(set))
        && field(status, "NoNewPrivs") == Some("1")
}

fn netns(pid: u32) -> Option<u64> {
    fs::metadata(format!("/proc/{pid}/ns/net")).ok().map(|namespace| namespace.ino())
}

/// Every network namespace with a process.
fn all_netns() -> BTreeSet<u64> {
    let processes = fs::read_dir("/proc").expect("/proc is mounted").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok());
    pids.filter_map(netns).collect()
}

/// Devices here, and names of network namespaces, without those of other tests.
fn links_and_names() -> (BTreeSet<String>, BTreeSet<String>) {
    let names = |dir: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| !name.starts_with(NAMESPACES)).collect()
    };
    (names("/sys/class/net"), names("/run/netns"))
}

#[test]
fn it_captures_both_hosts_and_reports() {
    if !is_root("the demo's report") {
        return;
    }
    let output = run(&["demo", "--duration", "3s"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    for word in ["dev.xmit", "app.recv"] {
        assert!(text.contains(word), "no {word} in\n{text}");
    }
    let output = run(&["demo", "--duration", "2s", "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(report.is_object(), "{report}");
}

#[test]
fn every_thread_gives_every_capability_away() {
    if !is_root("giving privileges away") {
        return;
    }
    let (child, hosts) = start();
    // During traffic no thread of the three processes has a capability.
    for pid in hosts.iter().chain([&child.id()]) {
        let statuses = statuses(*pid);
        assert!(!statuses.is_empty());
        for status in statuses {
            assert!(is_powerless(&status), "{status}");
        }
    }
    end(child);
}

#[test]
fn a_kill_9_leaves_nothing_behind() {
    if !is_root("cleaning up after kill -9") {
        return;
    }
    let before = links_and_names();
    let (mut child, hosts) = start();
    let namespaces: Vec<u64> = hosts.iter().filter_map(|host| netns(*host)).collect();
    assert_eq!(namespaces.len(), 2);
    assert_ne!(netns(hosts[0]), netns(hosts[1]));
    assert_ne!(netns(hosts[0]), netns(child.id()));
    assert_eq!(links_and_names(), before, "nothing of the demo shows outside it even while it runs");

    child.kill().expect("it is there"); // SIGKILL
    child.wait().expect("it ends");

    let gone = eventually(|| hosts.iter().all(|host| !is_alive(*host)));
    assert!(gone, "hosts outlived the demo: {hosts:?}");
    let left = all_netns();
    assert!(namespaces.iter().all(|namespace| !left.contains(namespace)), "namespaces outlived the demo");
    assert_eq!(links_and_names(), before);
}

#[test]
fn a_host_whose_parent_is_gone_does_not_start() {
    // Process 1 is not this test, so the given parent is never the actual one.
    let output = run(&["demo-host", "--role", "client", "--parent", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("gone"), "{}", stderr(&output));
}

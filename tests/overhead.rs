//! Captures with a budget: real probes, loads above and below it, and correct figures.

use crate::common::{self, hosts as wired, load};

use common::{eventually, is_root, magnet_scope, run, stderr};
use load::Load;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::Path;
use std::process::Child;
use wired::{Hosts, in_namespace};

/// Threads that send as fast as they can.
const SENDERS: usize = 6;

fn recorder(hosts: &Hosts, dir: &Path, budget: &str) -> Child {
    let place = dir.display().to_string();
    let arguments = ["record", "-o", &place, "--max-overhead", budget, "--filter", "udp"];
    let child = in_namespace(&hosts.names[0], || magnet_scope(&arguments).spawn().expect("the binary starts"));
    assert!(eventually(|| recorded(dir).is_some()), "it records");
    child
}

fn end(child: Child) {
    kill_process(Pid::from_child(&child), Signal::INT).expect("it is there");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
}

fn recorded(dir: &Path) -> Option<Value> {
    let output = run(&["info", &dir.display().to_string(), "--json"]);
    output.status.success().then(|| serde_json::from_slice(&output.stdout).expect("JSON"))
}

/// The governor's changes, as text.
fn steps(dir: &Path) -> Vec<String> {
    let info = recorded(dir).unwrap_or_default();
    let changes = info["changes"].as_array().cloned().unwrap_or_default();
    let words = changes.iter().filter_map(|change| change["what"].as_str());
    words.filter(|what| what.starts_with("governor: ")).map(str::to_owned).collect()
}

#[test]
fn a_capture_that_takes_too_much_steps_down_and_up_again_and_says_so() {
    if !is_root("a capture with a budget") {
        return;
    }
    let Some(hosts) = Hosts::new("budget") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let place = dir.path().join("session");
    let load = Load::start(&hosts.names[0], 50);
    // A load that saturates a CPU exceeds this for any kernel and build.
    let recorder = recorder(&hosts, &place, "3%");
    assert_eq!(steps(&place), Vec::<String>::new(), "a few datagrams are within the budget");
    // Beside other programs a single sender gets too little of a CPU.
    let burst: Vec<Load> = (0..SENDERS).map(|_| Load::start(&hosts.names[0], 1_000_000)).collect();
    assert!(eventually(|| !steps(&place).is_empty()), "{:?}", recorded(&place));
    let in_burst = burst.into_iter().map(Load::end).sum::<u64>();
    let whole = || steps(&place).last().is_some_and(|step| step.starts_with("governor: everything asked for"));
    // The governor's retries become rarer after each failure.
    assert!((0..4).any(|_| eventually(whole)), "{:?}", steps(&place));
    // Restored hops deliver events again.
    let events = || recorded(&place).map_or(0, |info| info["events"].as_u64().unwrap_or(0));
    let before = events();
    assert!(eventually(|| events() > before + 10));
    end(recorder);
    let sent = load.end() + in_burst;
    let info = recorded(&place).expect("it was closed");
    let down = &steps(&place)[0];
    assert!(down.contains("% of 3.0 %)"), "it says what it took: {down}");
    let dev_xmit =
        info["counts"].as_array().into_iter().flatten().find(|row| row["hop"] == "dev.xmit").cloned();
    let seen = |row: &Value| {
        ["kept", "sampled", "synthesised"].iter().filter_map(|what| row[what].as_u64()).sum::<u64>()
    };
    assert!(dev_xmit.as_ref().is_some_and(|row| seen(row) <= sent), "{dev_xmit:?} of {sent}");
}

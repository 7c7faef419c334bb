//! Every list by host, namespace, process or flow in the JSON of a report over several hosts: its rows add up to the total beside it.

use crate::common::exports::golden;
use crate::common::{run, stderr};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tempfile::TempDir;

/// Keys of a row that name a host, or a namespace of one.
const NAMES_A_HOST: [&str; 5] = ["node", "from_node", "to_node", "host", "directory"];

fn report(dirs: &[String], more: &[&str]) -> Value {
    let mut arguments = vec!["report", "--json"];
    arguments.extend(more);
    arguments.extend(dirs.iter().map(String::as_str));
    let output = run(&arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("a report")
}

fn array(of: &Value) -> impl Iterator<Item = &Value> {
    of.as_array().into_iter().flatten()
}

fn number(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or(0)
}

fn sum<'v>(rows: impl Iterator<Item = &'v Value>, key: &str) -> u64 {
    rows.map(|row| number(row, key)).sum()
}

/// The lists whose rows name a host.
fn lists_by_host(of: &Value, path: &str, out: &mut BTreeSet<String>) {
    match of {
        Value::Object(fields) => {
            for (key, value) in fields {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                lists_by_host(value, &path, out);
            }
        }
        Value::Array(rows) => {
            if rows.iter().any(|row| NAMES_A_HOST.iter().any(|key| !row[key].is_null())) {
                out.insert(path.to_owned());
            }
            for row in rows {
                lists_by_host(row, path, out);
            }
        }
        _ => {}
    }
}

/// Numbers of times by protocol; of a row with one protocol only under an empty name.
fn times(row: &Value) -> BTreeMap<String, u64> {
    let of = |name: &str, latency: &Value| (name.to_owned(), number(latency, "n"));
    let by_proto = array(&row["protocols"]).map(|p| of(p["proto"].as_str().expect("a name"), &p["latency"]));
    let only = (!row["latency"].is_null()).then(|| of("", &row["latency"]));
    by_proto.chain(only).collect()
}

/// The rows of hops by namespace. Returns the number of lists.
fn nodes_of_hops(report: &Value, of: &str) -> u64 {
    let mut lists = 0;
    for hop in array(&report["hops"]).filter(|hop| array(&hop["nodes"]).next().is_some()) {
        lists += 1;
        let all = |key| (sum(array(&hop["nodes"]), key), number(hop, key));
        for (rows, total) in ["events", "bytes"].map(all) {
            assert_eq!(rows, total, "{of}: {} of {}", hop["nodes"], hop["hop"]);
        }
        let rows: u64 = array(&hop["nodes"]).flat_map(|node| times(node).into_values()).sum();
        assert_eq!(rows, times(hop).into_values().sum::<u64>(), "{of}: times of {}", hop["hop"]);
    }
    lists
}

/// The rows of groups and the rest of them: each journey is in the row of its sender and in that of its reader, and of flows in one.
fn groups(report: &Value, bytes: u64, of: &str) {
    let groups = &report["groups"];
    let ends = if groups["by"] == "flow" { 1 } else { 2 };
    let all = |key| sum(array(&groups["rows"]), key) + number(&groups["rest"], key);
    assert_eq!(all("journeys"), ends * number(&report["denominator"], "journeys"), "{of}: journeys");
    assert_eq!(all("whole"), ends * number(&report["denominator"], "measured"), "{of}: whole");
    assert_eq!(all("bytes"), ends * bytes, "{of}: bytes");
    for row in array(&groups["rows"]).chain([&groups["rest"]]) {
        let left_out = sum(array(&row["left_out"]), "journeys");
        assert_eq!(number(row, "journeys"), number(row, "whole") + left_out, "{of}: {row}");
    }
}

fn flows(report: &Value, bytes: u64, of: &str) {
    let shown = sum(array(&report["flows"]), "bytes");
    assert_eq!(shown + number(report, "flows_rest_bytes"), bytes, "{of}: bytes of flows");
    assert!(array(&report["flows"]).count() as u64 <= number(report, "flows_total"), "{of}");
}

fn running(report: &Value, of: &str) {
    let running = &report["running"];
    for (key, others) in [("receives", "other_receives"), ("bytes", "other_bytes")] {
        let rows = sum(array(&running["rows"]), key) + number(running, others);
        assert_eq!(rows, number(&running["all"], key), "{of}: {key}");
    }
}

/// The recordings: each one's events, which are those of the whole.
fn recordings(report: &Value, of: &str) {
    let each = || [&report["correlator"]].into_iter().chain(array(&report["other_correlators"]));
    assert_eq!(each().count(), array(&report["joint"]["recordings"]).count(), "{of}");
    assert_eq!(sum(each(), "events"), number(report, "events"), "{of}: events of recordings");
}

/// A recording of two hosts, made from the log of two.
fn of_two_hosts(dir: &TempDir) -> String {
    let [log, back] = ["log", "two"].map(|name| dir.path().join(name).to_string_lossy().into_owned());
    let output = run(&["export", &golden("lost"), &golden("drops"), "--format", "ulm", "-o", &log]);
    assert!(output.status.success(), "{}", stderr(&output));
    let output = run(&["import", &log, "-o", &back]);
    assert!(output.status.success(), "{}", stderr(&output));
    back
}

#[test]
fn every_list_by_host_adds_up_to_its_total() {
    let dir = TempDir::new().expect("a directory");
    let of = |names: &[&str]| names.iter().map(|name| golden(name)).collect::<Vec<_>>();
    let captures = [
        of(&["demo", "retransmissions"]),
        of(&["half", "damaged"]),
        of(&["demo", "drops", "lost"]),
        vec![of_two_hosts(&dir), golden("demo")],
    ];
    let mut hops = 0;
    for dirs in &captures {
        let by_flow = report(dirs, &["--by", "flow", "--top", "1000"]);
        let bytes = sum(array(&by_flow["groups"]["rows"]), "bytes");
        for by in ["flow", "process", "cgroup", "node"] {
            for top in ["1", "2", "1000"] {
                let of = format!("{dirs:?} by {by}, {top} rows");
                let report = report(dirs, &["--by", by, "--top", top, "--throughput", "--window", "100"]);
                let mut lists = BTreeSet::new();
                lists_by_host(&report, "", &mut lists);
                for list in &lists {
                    match list.as_str() {
                        "hops.nodes" => hops += nodes_of_hops(&report, &of),
                        "groups.rows" => groups(&report, bytes, &of),
                        "flows" => flows(&report, bytes, &of),
                        "running.rows" => running(&report, &of),
                        "joint.recordings" => recordings(&report, &of),
                        list => panic!("{of}: the list {list} is by host, and nothing adds up its rows"),
                    }
                }
                assert!(lists.contains("hops.nodes") && lists.contains("flows"), "{of}: {lists:?}");
                assert!(lists.contains("running.rows") || dirs[0].ends_with("half/session"), "{of}: {lists:?}");
                groups(&report, bytes, &of);
            }
        }
    }
    assert!(hops > 100, "{hops} lists of hops by namespace");
}

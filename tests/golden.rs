//! Golden sessions: committed recordings of real traffic with snapshots of the results. Any change of results
//! is a difference to the snapshots; `tests/golden/README.md` describes how to accept one.

use crate::common;

use common::{copy_with_own_session, run, stderr};
use serde_json::Value;
use std::path::PathBuf;
use tempfile::TempDir;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden")).join(name)
}

/// JSON output for a golden session. A damaged one also gives exit code 0, unless the command checks for
/// damage.
fn read(name: &str, command: &[&str]) -> Value {
    let session = folder(name).join("session").display().to_string();
    let output = run(&[command, &[&session]].concat());
    let is_found = name == "damaged" && command.contains(&"--verify");
    assert_eq!(output.status.success(), !is_found, "{command:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// One line per journey: detailed enough to show changes, and short enough to review.
fn line(journey: &Value) -> String {
    let text = |key: &str| journey[key].as_str().unwrap_or("-").to_owned();
    let rungs = journey["rungs"].as_array().map_or(&[][..], Vec::as_slice);
    let hops: Vec<&str> = rungs.iter().filter_map(|rung| rung["hop"].as_str()).collect();
    format!(
        "{} {} {}+{} {} {} ns, sent again {}, ambiguous {}: {}",
        text("proto"),
        text("tx_flow"),
        journey["range"]["start"].as_str().unwrap_or("-"),
        journey["bytes"],
        text("verdict_text"),
        journey["total_ns"],
        journey["retransmits"],
        journey["ambiguous"],
        hops.join(" ")
    )
}

/// Compares the output of `info`, `report` and `journeys` with the snapshots.
fn matches_golden(name: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(folder(name));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let mut info = read(name, &["info", "--verify", "--json"]);
    info.as_object_mut().expect("an object").remove("node"); // equal to that in the recording
    let report = read(name, &["report", "--json"]);
    let slowest = read(name, &["journeys", "--slowest", "5", "--json"]);
    let all = read(name, &["journeys", "--slowest", "100000", "--json"]);
    // every thirteenth of a long recording, because general changes show in the report
    let all = all.as_array().expect("journeys");
    let step = if all.len() > 300 { 13 } else { 1 };
    let lines: Vec<String> = all.iter().step_by(step).map(line).collect();
    settings.bind(|| {
        insta::assert_snapshot!("info", format!("{info:#}"));
        insta::assert_snapshot!("report", format!("{report:#}"));
        insta::assert_snapshot!("slowest", format!("{slowest:#}"));
        insta::assert_snapshot!("journeys", lines.join("\n"));
    });
}

#[test]
fn the_demo_says_the_same() {
    matches_golden("demo");
}

#[test]
fn retransmissions_say_the_same() {
    matches_golden("retransmissions");
}

#[test]
fn drops_say_the_same() {
    matches_golden("drops");
}

#[test]
fn half_a_connection_says_the_same() {
    matches_golden("half");
}

#[test]
fn lost_records_say_the_same() {
    matches_golden("lost");
}

#[test]
fn a_damaged_recording_says_the_same() {
    matches_golden("damaged");
}

/// Above the limit the oldest journeys are evicted: counted, named, and with every byte and datagram in some
/// journey.
#[test]
fn a_limit_on_journeys_in_flight_gives_up_the_oldest_and_loses_none() {
    let kinds =
        ["complete", "half_complete", "lost", "dropped", "broken_by_event_loss", "in_flight", "read_unseen"];
    let sum = |report: &Value, rows: &str, key: &str| -> u64 {
        report[rows].as_array().expect(rows).iter().map(|row| row[key].as_u64().expect(key)).sum()
    };
    let bytes = |report: &Value| -> Vec<(String, u64)> {
        let flow = |row: &Value| Some((row["id"].as_str()?.to_owned(), row["bytes"].as_u64()?));
        let mut flows: Vec<_> = report["flows"].as_array().expect("flows").iter().filter_map(flow).collect();
        flows.sort();
        flows
    };
    let free = read("demo", &["report", "--json"]);
    assert_eq!((sum(&free, "verdicts", "evicted"), &free["correlator"]["evicted"]), (0, &Value::from(0)));
    let session = folder("demo").join("session").display().to_string();
    let output = run(&["report", "--json", "--max-in-flight", "2", &session]);
    assert!(output.status.success(), "{}", stderr(&output));
    let note =
        "journeys were given up on, because too many were in flight; --max-in-flight sets how many may be";
    assert!(stderr(&output).contains(note), "{}", stderr(&output));
    let tight: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let evicted = sum(&tight, "verdicts", "evicted");
    assert!(evicted > 0);
    // Early eviction is not mistaken for a retransmission: no more bytes are than are retransmitted without it.
    let journeys = read("demo", &["journeys", "--slowest", "100000", "--json"]);
    let bytes_of = |journey: &Value| {
        journey["bytes"].as_u64().zip(journey["retransmits"].as_u64()).map(|(bytes, n)| bytes * n)
    };
    let retransmitted: u64 = journeys.as_array().expect("journeys").iter().filter_map(bytes_of).sum();
    let resent = tight["correlator"]["resent_after_end_bytes"].as_u64().expect("a number");
    assert!(resent <= retransmitted, "{resent} of {retransmitted}");
    assert!(sum(&tight, "verdicts", "retransmits") <= sum(&free, "verdicts", "retransmits"));
    assert_eq!(tight["correlator"]["evicted"], evicted);
    // Each has one verdict, and none is missing.
    let named: u64 =
        kinds.iter().chain(&["not_probed", "evicted"]).map(|kind| sum(&tight, "verdicts", kind)).sum();
    assert_eq!(named, sum(&tight, "verdicts", "journeys"));
    assert_eq!(tight["correlator"]["journeys"], named);
    assert_eq!(bytes(&tight), bytes(&free));
    for command in ["replay", "journeys"] {
        let output = run(&[command, "--json", "--max-in-flight", "2", &session]);
        assert!(output.status.success() && stderr(&output).contains(note), "{command}: {}", stderr(&output));
    }
    let dir = TempDir::new().expect("a directory");
    let copy = copy_with_own_session(dir.path(), &session, "copy");
    let output = run(&["compare", "--json", "--max-in-flight", "2", &session, &copy]);
    assert!(output.status.success() && stderr(&output).contains(note), "{}", stderr(&output));
    let output = run(&["report", "--max-in-flight", "0", &session]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let text = run(&["report", "--max-in-flight", "2", &session]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("given up on, because too many were in flight"));
}

/// The repository contains no identification of a machine.
#[test]
fn golden_sessions_name_no_machine() {
    let names = ["demo", "retransmissions", "drops", "half", "lost", "damaged", "queue", "probes"]
        .map(|name| (name, "node", 0));
    for (name, host, boot) in
        names.into_iter().chain([("web-client", "client", 1), ("web-server", "server", 2)])
    {
        let node = &read(name, &["info", "--json"])["node"];
        assert_eq!(node["host"], host, "{name}");
        assert_eq!(node["boot_id"], format!("00000000-0000-0000-0000-00000000000{boot}"), "{name}");
        let kernel = node["kernel"].as_str().unwrap_or_default();
        assert!(kernel.chars().all(|c| c.is_ascii_digit() || c == '.'), "{name}: {kernel}");
        for row in read(name, &["journeys", "--slowest", "100000", "--json"]).as_array().expect("journeys") {
            for end in ["from", "to"] {
                let address = row[end].as_str().unwrap_or_default();
                // Groups, and link addresses of the scene's own devices, which are random.
                let of_scene =
                    ["10.7", "[fd7", "[ff02::", "[fe80::"].iter().any(|start| address.starts_with(start));
                assert!(of_scene, "{name}: {address}");
            }
        }
        let folder = folder(name).join("session");
        let files = std::fs::read_dir(folder).expect("a recording").flatten();
        let bytes: u64 = files.map(|file| file.metadata().expect("a file").len()).sum();
        assert!(bytes < 200_000, "{name}: {bytes} bytes");
    }
}

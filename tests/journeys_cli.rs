//! Results from recordings, end to end: the slowest journeys, and a comparison of two.

use crate::common;

use common::{copy_with_own_session, is_root, run, stderr, stdout};
use serde_json::Value;
use std::path::Path;
use std::process::Output;
use tempfile::TempDir;

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Records the demo for 2 s as `name`; returns the path.
fn record(dir: &TempDir, name: &str, hops: &str) -> String {
    let path = dir.path().join(name).display().to_string();
    let output = run(&["demo", "--duration", "2s", "--hops", hops, "-o", &path]);
    assert!(output.status.success(), "{}", stderr(&output));
    path
}

#[test]
fn two_recordings_are_listed_and_compared() {
    if !is_root("listing and comparing two recordings") {
        return;
    }
    let dir = TempDir::new().expect("a directory");
    // A toggled hop, so that A has one more.
    let (a, b) = (record(&dir, "a", "default,ip.in"), record(&dir, "b", "default,-ip.in"));
    the_slow_reader_is_found(&a);
    what_was_asked_for_is_listed(&a);
    what_cannot_be_told_is_said(&a, &b);
    they_are_compared(dir.path(), &a, &b);
}

/// One reader of the demo sleeps deliberately, so the wait for it is the largest step of its slowest journey.
/// Journeys of other readers may be slower if a thread waits for a CPU.
fn the_slow_reader_is_found(a: &str) {
    let output = run(&["journeys", a, "--slowest", "5", "--json"]);
    let rows = json(&output);
    let rows = rows.as_array().expect("one array");
    assert_eq!(rows.len(), 5);
    assert!(stderr(&output).contains("5 slowest of"), "{}", stderr(&output));
    let totals: Vec<_> = rows.iter().filter_map(|row| row["total_ns"].as_u64()).collect();
    assert!(totals.len() == 5 && totals.is_sorted_by(|a, b| a >= b), "{totals:?}");
    let rows = json(&run(&["journeys", a, "--where", "comm = slow-reader", "--slowest", "5", "--json"]));
    let slowest = &rows[0];
    assert_eq!(slowest["reader"], "slow-reader", "{slowest}");
    assert_eq!(slowest["to_node"], "server");
    assert!(slowest["id"].is_string() && slowest["tx_flow"].is_string());
    assert!(slowest["start_utc"].as_str().is_some_and(|utc| utc.ends_with('Z')));
    assert!(slowest["largest"]["ns"].as_u64().is_some_and(|ns| ns > 5_000_000), "{slowest}");
    assert!(slowest["rungs"].as_array().is_some_and(|rungs| rungs.len() > 5));

    let text = run(&["journeys", a, "--where", "comm = slow-reader"]);
    assert!(stdout(&text).contains("between sock.ready and ") && stdout(&text).contains("slow-reader@server"));
    let text = run(&["journeys", a]);
    assert!(stdout(&text).contains("20 slowest of "), "{}", stdout(&text));
    assert!(stdout(&text).lines().all(|line| line.chars().count() <= 100), "{}", stdout(&text));
}

fn what_was_asked_for_is_listed(a: &str) {
    let wanted = "proto = udp and total > 1us and not host = 10.99.0.0/16";
    let rows = json(&run(&["journeys", a, "--where", wanted, "--slowest", "100000", "--json"]));
    let rows = rows.as_array().expect("one array");
    assert!(rows.len() > 10 && rows.iter().all(|row| row["proto"] == "udp"));
    let rows = json(&run(&["journeys", a, "--flow", "slow-reader", "--verdict", "complete", "--json"]));
    let rows = rows.as_array().expect("one array");
    assert!(!rows.is_empty() && rows.iter().all(|row| row["verdict"] == "complete"));
    let none = run(&["journeys", a, "--where", "total > 1000s"]);
    assert!(stdout(&none).starts_with("none matching, of "), "{}", stdout(&none));
    let wrong = run(&["journeys", a, "--where", "totl > 5ms"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("the nearest is `total`"), "{}", stderr(&wrong));
}

/// A condition on an absent hop never matches, and the reason is reported.
fn what_cannot_be_told_is_said(a: &str, b: &str) {
    let slow = ["--where", "hop(ip.in,app.recv) > 1us"];
    let (reported, unobserved) =
        (run(&[&["journeys", a], &slow[..]].concat()), run(&[&["journeys", b], &slow[..]].concat()));
    let note = "`--where` asks for ip.in, which the recording does not have";
    assert!(
        stdout(&unobserved).starts_with("none matching") && stderr(&unobserved).contains(note),
        "{}",
        stderr(&unobserved)
    );
    assert!(
        !stdout(&reported).starts_with("none matching") && !stderr(&reported).contains(note),
        "{}",
        stderr(&reported)
    );
    let late = run(&["report", a, "--from", "1000s"]);
    assert_eq!(late.status.code(), Some(2));
    assert!(stderr(&late).contains("nothing was recorded so late"), "{}", stderr(&late));
    let (all, saved) = (format!("{b}.all"), format!("{b}.kept"));
    let wait = ["--trigger", "hop(ip.in,app.recv) > 1us", "-o", &all];
    let record = ["record", "--duration", "1s", "--hops", "default,-ip.in"];
    let unsaved = run(&[&record[..], &wait[..]].concat());
    assert_eq!(unsaved.status.code(), Some(2), "{}", stderr(&unsaved));
    let trigger = run(&[&record[..], &wait[..], &["--save-on-trigger", &saved]].concat());
    let words = "ip.in is not probed; capture with `--hops +ip.in`";
    assert!(!trigger.status.success() && stderr(&trigger).contains(words), "{}", stderr(&trigger));
}

/// The warnings but those of `ICMPv6`: the kernel's own neighbour discovery may be within the recording, or not.
fn of_own_traffic(compared: &Value) -> Vec<&str> {
    let warnings = compared["warnings"].as_array().expect("warnings").iter().filter_map(Value::as_str);
    warnings.filter(|warning| !warning.contains("icmp6")).collect()
}

fn they_are_compared(dir: &Path, a: &str, b: &str) {
    let copies: Vec<String> = (1..6).map(|n| copy_with_own_session(dir, a, &format!("copy-{n}"))).collect();
    let [c1, c2, c3, c4, c5] = &copies[..] else { panic!("five copies") };
    let same = json(&run(&["compare", a, c1, "--json"]));
    let warnings = of_own_traffic(&same);
    assert!(
        matches!(&warnings[..], [warning] if warning.starts_with("recordings of A: 1, of B: 1. ")),
        "{warnings:?}"
    );
    // One recording per side cannot show the variation between recordings: no verdict and no interval.
    for protocol in same["protocols"].as_array().expect("protocols") {
        let steps = protocol["steps"].as_array().expect("steps").iter();
        for measured in steps.chain([&protocol["total"]]) {
            let p50 = &measured["p50"];
            assert_eq!(measured["change"], "too-few", "{measured}");
            assert!(p50["at_least_ns"].is_null() && p50["at_most_ns"].is_null(), "{measured}");
        }
    }
    let same = json(&run(&["compare", "--json", a, c1, c2, "--", c3, c4, c5]));
    assert!(of_own_traffic(&same).is_empty(), "{}", same["warnings"]);
    let protocols = same["protocols"].as_array().expect("protocols");
    let calm = |measured: &Value| measured["change"] == "not-shown" || measured["change"] == "too-few";
    for protocol in protocols {
        let steps = protocol["steps"].as_array().expect("steps");
        assert!(calm(&protocol["total"]) && steps.iter().all(calm), "{protocol}");
    }
    // The demo uses TCP and UDP; background traffic may be insufficient for a comparison.
    for proto in ["tcp", "udp"] {
        let protocol = protocols.iter().find(|protocol| protocol["proto"] == proto).expect(proto);
        assert_eq!(protocol["total"]["change"], "not-shown", "{protocol}");
        assert!(protocol["steps"].as_array().is_some_and(|steps| steps.len() > 4), "{protocol}");
    }
    let text = run(&["compare", a, b]);
    assert!(text.status.success(), "{}", stderr(&text));
    let text = stdout(&text);
    assert!(text.contains("!  ip.in was off in B: left out"), "{text}");
    assert!(text.contains("TCP") && text.contains("UDP") && text.contains("p99 B"), "{text}");
    assert!(!text.contains("ip.in →"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let missing = run(&["compare", a, "/nowhere"]);
    assert_eq!(missing.status.code(), Some(1), "{}", stderr(&missing));
    for twice in [&[a, a][..], &[a, b, "--", a], &[b, "--", a, a]] {
        let output = run(&[&["compare"], twice].concat());
        let words = format!("{a} and {a} are one recording");
        assert!(output.status.code() == Some(1) && stderr(&output).contains(&words), "{}", stderr(&output));
    }
}

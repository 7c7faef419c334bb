//! Traces: CTF, Perfetto, Chrome.

use crate::common::exports::{GOLDEN, client, export, resent, table, tool};
use crate::common::{stderr, stdout};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;
use tempfile::TempDir;

#[test]
fn babeltrace_reads_the_ctf_to_the_nanosecond() {
    let test = "babeltrace_reads_the_ctf_to_the_nanosecond";
    if !tool(test, "babeltrace2") {
        return;
    }
    for session in GOLDEN {
        let dir = TempDir::new().expect("a directory");
        let out = export(&dir, session, "ctf", &[]);
        let output = Command::new("babeltrace2").args(["--clock-seconds", "--no-delta"]).arg(&out).output();
        let output = output.expect("babeltrace2 runs");
        assert!(output.status.success(), "{}", stderr(&output));
        let text = stdout(&output);
        let mut seen: Vec<(String, String, String, u64)> = Vec::new();
        // Events of hops; reports of retransmissions are not in `hops`.
        let hits =
            text.lines().filter(|line| line.contains("again = ") && !line.contains("] tcp.retransmit: {"));
        for line in hits {
            let (time, rest) = line[1..].split_once(']').expect("a time");
            let hop = rest.trim_start().split_once(": {").expect("fields").0;
            let journey = rest.split_once("journey = ").and_then(|(_, j)| j.split(',').next());
            let again = rest.split_once("again = ").and_then(|(_, again)| again.split(',').next());
            seen.push((
                time.replace('.', ""),
                hop.to_owned(),
                journey.unwrap_or_default().to_owned(),
                again.and_then(|again| again.parse().ok()).expect("a number"),
            ));
        }
        let text =
            |row: &BTreeMap<String, Value>, name: &str| row[name].to_string().trim_matches('"').to_owned();
        let hops = table(&dir, session, "hops");
        let mut want: Vec<_> = hops
            .iter()
            .map(|row| (text(row, "ts_ns"), text(row, "hop"), text(row, "journey"), resent(row)))
            .collect();
        seen.sort();
        want.sort();
        assert!(
            seen == want,
            "{session}: {} and {} events; {:?} {:?}",
            seen.len(),
            want.len(),
            seen.first(),
            want.first()
        );
    }
}

/// Name and duration of the spans that the turns of a table give, nanoseconds.
fn spans_of(exchanges: &[BTreeMap<String, Value>]) -> BTreeMap<String, u64> {
    let span = |row: &BTreeMap<String, Value>, name: &str, column: &str| {
        let id = row["exchange"].as_str().map_or_else(|| row["exchange"].to_string(), str::to_owned);
        let ns = row.get(column)?;
        let ns = ns.as_u64().or_else(|| ns.as_str()?.parse().ok())?;
        Some((format!("{name} {id}"), ns))
    };
    let both = |row| [span(row, "request", "total_ns"), span(row, "answer", "answer_ns")];
    exchanges.iter().flat_map(both).flatten().collect()
}

#[test]
fn perfettos_definitions_decode_the_trace() {
    for session in GOLDEN {
        let dir = TempDir::new().expect("a directory");
        let out = export(&dir, session, "perfetto", &[]);
        let test = "perfettos_definitions_decode_the_trace";
        let Some(output) = client(test, "perfetto.protos", "perfetto_trace.py", &[&out]) else { return };
        let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let hops = table(&dir, session, "hops");
        let hits: BTreeSet<String> = found["hits"]
            .as_array()
            .expect("hits")
            .iter()
            .map(|hit| format!("{} {} {}", hit[0], hit[1], hit[2]))
            .collect();
        let want: BTreeSet<String> = hops
            .iter()
            .map(|row| {
                format!("{} {} {}", row["hop"], row["journey"].as_str().unwrap_or_default(), row["ts_ns"])
            })
            .collect();
        assert!(want.is_subset(&hits), "{session}: {} hits, {} hops", hits.len(), want.len());
        let journeys: BTreeSet<String> = hops.iter().map(|row| row["journey"].to_string()).collect();
        assert_eq!(found["flows"], journeys.len(), "{session}");
        assert_eq!(found["counters"], table(&dir, session, "tcp").len() * 6, "{session}");
        let spans: BTreeMap<String, u64> = serde_json::from_value(found["spans"].clone()).expect("durations");
        assert_eq!(spans, spans_of(&table(&dir, session, "exchanges")), "{session}");
    }
}

#[test]
fn chromes_json_is_json_and_has_every_hop() {
    let dir = TempDir::new().expect("a directory");
    for session in GOLDEN {
        let out = export(&dir, session, "chrome", &[]);
        let trace: Value = serde_json::from_slice(&fs::read(out).expect("a file")).expect("JSON");
        let events = trace["traceEvents"].as_array().expect("events");
        let hits = events.iter().filter(|e| e["args"]["journey"].is_string() && e["ph"] == "X");
        let again = |e: &Value| e["args"]["sent_again"].as_str().map_or(0, |n| n.parse().expect("a number"));
        // A report of a retransmission is not in `hops`.
        let is_report = |e: &Value| e["name"].as_str().is_some_and(|name| name.starts_with("tcp.retransmit "));
        let mut seen: Vec<u64> = hits.filter(|e| !is_report(e)).map(again).collect();
        let mut want: Vec<u64> = table(&dir, session, "hops").iter().map(resent).collect();
        seen.sort_unstable();
        want.sort_unstable();
        assert!(seen == want, "{session}: {} and {} events", seen.len(), want.len());
        arrows_go_forward(events, session);
        // Doubles are exact to a nanosecond here, because they are relative to the first mark.
        assert!(events.iter().filter_map(|e| e["ts"].as_f64()).all(|us| us < 1e12));
        let spans = events.iter().filter(|event| event["cat"] == "request").map(|event| {
            let ns = (event["dur"].as_f64().expect("a duration") * 1_000.0).round() as u64;
            (event["name"].as_str().expect("a name").to_owned(), ns)
        });
        let spans: BTreeMap<String, u64> = spans.collect();
        assert_eq!(spans, spans_of(&table(&dir, session, "exchanges")), "{session}");
    }
}

/// An arrow begins at its first instant and ends at its last one: viewers leave out or reverse others.
fn arrows_go_forward(events: &[Value], session: &str) {
    let mut arrows: BTreeMap<&str, Vec<(f64, &str)>> = BTreeMap::new();
    for event in events.iter().filter(|event| event["cat"] == "journey") {
        let (id, phase) = (event["id"].as_str().expect("an id"), event["ph"].as_str().expect("a phase"));
        arrows.entry(id).or_default().push((event["ts"].as_f64().expect("an instant"), phase));
    }
    assert!(!arrows.is_empty());
    for (id, hits) in arrows {
        let at = |phase: &str| hits.iter().filter(|hit| hit.1 == phase).map(|hit| hit.0).collect::<Vec<_>>();
        let ([first], [last]) = (&at("s")[..], &at("f")[..]) else {
            panic!("{session}, journey {id}: {hits:?}")
        };
        assert!(hits.iter().all(|(us, _)| first <= us && us <= last), "{session}, journey {id}: {hits:?}");
    }
}

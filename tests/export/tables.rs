//! Tables: Parquet, CSV, JSON lines, and sums over time.

use crate::common::exports::{GOLDEN, client, export, golden, report, table};
use crate::common::{run, stderr, stdout};
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Generator, GeneratorOptions};
use magscope_session::{RecordOptions, Recorder};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

#[test]
fn engines_agree_with_the_report() {
    let dir = TempDir::new().expect("a directory");
    for session in GOLDEN {
        let out = export(&dir, session, "parquet", &[]);
        let path = dir.path().join(format!("{session}.json"));
        fs::write(&path, report(session).to_string()).expect("room");
        let test = "engines_agree_with_the_report";
        let Some(output) = client(test, "duckdb, polars, pyarrow", "tables.py", &[&out, &path]) else { return };
        assert!(stdout(&output).starts_with("agreed: "), "{}", stdout(&output));
    }
}

#[test]
fn several_hosts_stand_in_a_hive_layout_and_agree_with_their_report() {
    let dir = TempDir::new().expect("a directory");
    let (a, b) = (golden("demo"), golden("retransmissions"));
    let place = dir.path().join("both").to_string_lossy().into_owned();
    let output = run(&["export", &a, &b, "--format", "parquet", "-o", &place]);
    assert!(output.status.success(), "{}", stderr(&output));
    let report = run(&["report", &a, &b, "--json"]);
    let path = dir.path().join("both.json");
    fs::write(&path, &report.stdout).expect("room");
    let days = fs::read_dir(Path::new(&place).join("events")).expect("a directory a table").flatten();
    assert!(days.into_iter().all(|day| day.file_name().to_string_lossy().starts_with("date=")));
    client("several_hosts", "duckdb, polars, pyarrow", "tables.py", &[Path::new(&place), &path]);
}

#[test]
fn csv_and_json_lines_have_the_same_rows() {
    let dir = TempDir::new().expect("a directory");
    let csv = export(&dir, "demo", "csv", &[]);
    for name in ["events", "hops", "journeys", "flows", "tcp", "losses", "clock"] {
        let text = fs::read_to_string(csv.join(format!("{name}.csv"))).expect("a file a table");
        let mut lines = text.lines();
        assert!(lines.next().expect("a header").starts_with("ts_ns,ts,"));
        let rows = table(&dir, "demo", name);
        assert_eq!(lines.clone().count(), rows.len(), "{name}");
        for (line, row) in lines.zip(&rows) {
            assert_eq!(line.split(',').next(), Some(row["ts_ns"].to_string().as_str()));
            assert_eq!(row["table"], name);
        }
    }
    let hops = table(&dir, "demo", "hops");
    assert!(hops.iter().all(|row| row["journey"].is_string()), "numbers that name are text in JSON");
}

#[test]
fn sums_over_time_are_those_of_the_hops() {
    let dir = TempDir::new().expect("a directory");
    for session in ["demo", "lost", "retransmissions"] {
        let out = dir.path().join(format!("{session}-periods"));
        let place = out.to_string_lossy().into_owned();
        let output = run(&["export", &golden(session), "--format", "jsonl", "--every", "100ms", "-o", &place]);
        assert!(output.status.success(), "{}", stderr(&output));
        let text = fs::read_to_string(&out).expect("text");
        let periods: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
        let hops = table(&dir, session, "hops");
        assert!(periods.iter().all(|row| row["ts_ns"].as_i64().is_some_and(|ns| ns % 100_000_000 == 0)));
        for by in ["hop", "flow"] {
            let of = |name: &str| -> u64 {
                periods.iter().filter(|row| row["group_by"] == by).filter_map(|row| row[name].as_u64()).sum()
            };
            // A journey counts once per hop, for any number of copies.
            let rows = hops.iter().filter(|row| by == "hop" || row.contains_key("flow"));
            let place = |row: &BTreeMap<String, Value>| (row["journey"].to_string(), row["hop"].to_string());
            let places: BTreeMap<_, _> = rows.map(|row| (place(row), row)).collect();
            let bytes: u64 = places.values().filter_map(|row| row["bytes"].as_u64()).sum();
            assert_eq!((of("journeys"), of("bytes")), (places.len() as u64, bytes), "{session} {by}");
        }
        // Weighted means give the total mean; the maximum of maxima is the maximum.
        let of_hops = || periods.iter().filter(|row| row["group_by"] == "hop");
        let ns: Vec<u64> = hops
            .iter()
            .filter(|row| row["whole"] == true)
            .filter_map(|row| row.get("latency_ns").and_then(Value::as_u64))
            .collect();
        let n: u64 = of_hops().filter_map(|row| row["latencies"].as_u64()).sum();
        assert_eq!(n, ns.len() as u64, "{session}");
        let weighted: f64 =
            of_hops().filter_map(|row| Some(row.get("mean_ns")?.as_f64()? * row["latencies"].as_f64()?)).sum();
        let all: u64 = ns.iter().sum();
        assert!((weighted - all as f64).abs() <= all as f64 * 1e-9 + 1.0, "{session}: {weighted} {all}");
        assert_eq!(of_hops().filter_map(|row| row.get("max_ns")?.as_u64()).max(), ns.iter().max().copied());
    }
}

#[test]
fn bloom_filters_are_there_and_spare_row_groups() {
    let dir = TempDir::new().expect("a directory");
    let session = dir.path().join("session");
    let mut source =
        Generator::new(GeneratorOptions { events: 700_000, flows: 64, ..GeneratorOptions::default() });
    let mut recorder =
        Recorder::create(&session, source.info(), RecordOptions::default()).expect("an empty directory");
    let mut batch = Batch::default();
    while source.next(&mut batch, Duration::ZERO).expect("a generator never fails") == Progress::More {
        while recorder.status().queue_bytes > 16 << 20 {
            std::thread::sleep(Duration::from_millis(1));
        }
        recorder.append(&batch).expect("room");
    }
    recorder.close().expect("room");
    let out = dir.path().join("hops.parquet");
    let (session, place) = (session.to_string_lossy().into_owned(), out.to_string_lossy().into_owned());
    let output = run(&["export", &session, "--format", "parquet", "--tables", "hops", "-o", &place]);
    assert!(output.status.success(), "{}", stderr(&output));
    let test = "bloom_filters_are_there_and_spare_row_groups";
    if let Some(output) = client(test, "duckdb, pyarrow", "bloom.py", &[&out]) {
        println!("{}", stdout(&output));
    }
}

#[test]
fn buckets_join_one_by_one_to_the_same_as_all_at_once() {
    let dir = TempDir::new().expect("a directory");
    let flat = export(&dir, "demo", "parquet", &[]);
    let bucketed = dir.path().join("bucketed");
    let place = bucketed.to_string_lossy().into_owned();
    let output = run(&["export", &golden("demo"), "--format", "parquet", "--buckets", "-o", &place]);
    assert!(output.status.success(), "{}", stderr(&output));
    client("buckets", "duckdb", "buckets.py", &[&bucketed, &flat]);
    let output = run(&["export", &golden("demo"), "--format", "csv", "--buckets", "-o", &place]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

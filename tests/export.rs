//! Exports of the golden sessions, read by the tools they are for. A tool that is not there skips its test and says so.

mod common;

use common::{run, skipped, stderr, stdout};
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Generator, GeneratorOptions};
use magscope_session::{RecordOptions, Recorder};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use tempfile::TempDir;

/// Sessions with everything a session can have.
const GOLDEN: [&str; 6] = ["demo", "drops", "half", "lost", "retransmissions", "damaged"];
const FORMATS: [&str; 10] =
    ["parquet", "csv", "jsonl", "ulm", "bp", "pcapng", "perfetto", "chrome", "ctf", "magnet"];

fn golden(name: &str) -> String {
    format!("{}/../../tests/golden/{name}/session", env!("CARGO_MANIFEST_DIR"))
}

/// Exports a golden session and says where to.
fn export(dir: &TempDir, session: &str, format: &str, more: &[&str]) -> PathBuf {
    let out = dir.path().join(format!("{session}-{format}"));
    let (session, place) = (golden(session), out.to_string_lossy().into_owned());
    let mut arguments = vec!["export", &session, "--to", format, "-o", &place];
    arguments.extend(more);
    let output = run(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    out
}

fn report(session: &str) -> Value {
    let output = run(&["report", &golden(session), "--json"]);
    serde_json::from_slice(&output.stdout).expect("a report")
}

/// The Python with the clients in it, which scripts/setup.sh makes; or why not.
fn python() -> Option<PathBuf> {
    let cache = std::env::var("XDG_CACHE_HOME").map(PathBuf::from).ok();
    let cache = cache.or_else(|| std::env::var("HOME").ok().map(|home| PathBuf::from(home).join(".cache")))?;
    Some(cache.join("magnet-scope/clients/bin/python")).filter(|python| python.exists())
}

/// Runs a script of tests/clients; `None` if its client is not there.
fn client(test: &str, module: &str, script: &str, arguments: &[&Path]) -> Option<Output> {
    let Some(python) = python() else {
        skipped(test, "scripts/setup.sh could not install the Python clients");
        return None;
    };
    let there = Command::new(&python).args(["-c", &format!("import {module}")]).output().expect("Python runs");
    if !there.status.success() {
        skipped(test, &format!("the Python module {module} is not installed"));
        return None;
    }
    let script = format!("{}/../../tests/clients/{script}", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(python).arg(script).args(arguments).output().expect("Python runs");
    assert!(output.status.success(), "{}\n{}", stdout(&output), stderr(&output));
    Some(output)
}

fn tool(test: &str, name: &str) -> bool {
    let there = Command::new(name).arg("--version").output().is_ok();
    if !there {
        skipped(test, &format!("{name} is not installed"));
    }
    there
}

/// Rows of a table, by the name of the column.
fn table(dir: &TempDir, session: &str, table: &str) -> Vec<BTreeMap<String, Value>> {
    let out = dir.path().join(format!("{session}-{table}.jsonl"));
    if !out.exists() {
        let (session, place) = (golden(session), out.to_string_lossy().into_owned());
        let output = run(&["export", &session, "--to", "jsonl", "--tables", table, "-o", &place]);
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let text = fs::read_to_string(out).expect("JSON lines");
    text.lines().map(|line| serde_json::from_str(line).expect("a line is an object")).collect()
}

#[test]
fn every_format_takes_every_session_and_leaves_nothing_half() {
    let dir = TempDir::new().expect("a directory");
    for session in GOLDEN {
        for format in FORMATS {
            let out = export(&dir, session, format, &[]);
            assert!(out.exists(), "{out:?}");
        }
    }
    let left: Vec<_> = fs::read_dir(&dir).expect("the directory").flatten().map(|e| e.file_name()).collect();
    assert_eq!(left.len(), GOLDEN.len() * FORMATS.len(), "{left:?}");
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{left:?}");
}

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
    let output = run(&["export", &a, &b, "--to", "parquet", "-o", &place]);
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
fn netloggers_own_parser_takes_every_line() {
    for session in GOLDEN {
        let dir = TempDir::new().expect("a directory");
        for format in ["bp", "ulm"] {
            let out = export(&dir, session, format, &[]);
            let lines = fs::read_to_string(&out).expect("text").lines().count();
            let arguments = [Path::new(format), &out];
            let test = "netloggers_own_parser_takes_every_line";
            let Some(output) = client(test, "Pegasus.netlogger", "netlogger.py", &arguments) else { return };
            assert_eq!(stdout(&output).trim(), lines.to_string());
        }
        // One line a hop of a journey, and the line's ID is the journey.
        let text = fs::read_to_string(dir.path().join(format!("{session}-ulm"))).expect("text");
        let hits = text.lines().filter(|line| line.contains(" LVL=Usage ") && line.contains(" MAG.SEQ="));
        let again = |line: &&str| line.contains(" MAG.TRY=");
        assert_eq!(hits.filter(|line| !again(line)).count(), table(&dir, session, "hops").len());
    }
}

#[test]
fn a_ulm_log_of_ours_comes_back_as_the_same_journeys() {
    for (session, dialect) in [("demo", "ulm"), ("demo", "bp")] {
        let dir = TempDir::new().expect("a directory");
        let log = export(&dir, session, dialect, &[]);
        let back = dir.path().join("back").to_string_lossy().into_owned();
        let output = run(&["import", &log.to_string_lossy(), "-o", &back]);
        assert!(output.status.success(), "{}", stderr(&output));
        let out = dir.path().join("again.jsonl").to_string_lossy().into_owned();
        let output = run(&["export", &back, "--to", "jsonl", "--tables", "hops", "-o", &out]);
        assert!(output.status.success(), "{}", stderr(&output));
        let key = |row: &BTreeMap<String, Value>| {
            let text = |name: &str| row.get(name).map(ToString::to_string).unwrap_or_default();
            ["ts_ns", "hop", "cpu", "bytes", "proto", "latency_ns", "from_hop", "tid", "comm"]
                .map(text)
                .join(" ")
        };
        let again = fs::read_to_string(&out).expect("text");
        let again: Vec<BTreeMap<String, Value>> =
            again.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
        let was: BTreeSet<String> = table(&dir, session, "hops").iter().map(key).collect();
        let is: BTreeSet<String> = again.iter().map(key).collect();
        let missing: Vec<_> = was.difference(&is).take(3).collect();
        let new: Vec<_> = is.difference(&was).take(3).collect();
        // A log has no buffers' addresses, no acknowledgements and no packets without payload: by them, what is alike was told apart.
        let same = was.intersection(&is).count();
        assert!(
            same * 1_000 >= was.len() * 970,
            "{session} {dialect}: {same} alike, {} hops were {}; missing {missing:#?}; new {new:#?}",
            is.len(),
            was.len()
        );
    }
}

#[test]
fn a_log_of_another_tool_opens() {
    let dir = TempDir::new().expect("a directory");
    let log = dir.path().join("log");
    let mut text = String::new();
    for id in 0..50 {
        for (event, ms) in [("FTP_START", 0), ("FTP_INFO", 2), ("FTP_END", 5)] {
            let _ = writeln!(
                text,
                "DATE=20070215110703.{:06} HOST=pdsfgrid1.nersc.gov PROG=gridftp NL.EVNT={event} ID={id} SRC=10.1.1.10 DST=10.1.1.11 NBYTES=55",
                (id * 10 + ms) * 1_000
            );
        }
    }
    fs::write(&log, text + "this is no line\n").expect("room");
    let (log, out) = (log.to_string_lossy().into_owned(), dir.path().join("s").to_string_lossy().into_owned());
    let refused = run(&["import", &log, "-o", &out]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("--map FTP_END=ip.out"), "{}", stderr(&refused));
    let output = run(&["import", &log, "-o", &out, "--map", "FTP_START=ip.out", "--map", "FTP_END=ip.in"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("line 151: at character 1: a field is written name=value"),
        "{}",
        stderr(&output)
    );
    assert!(stderr(&output).contains("FTP_INFO (50)"), "{}", stderr(&output));
    let output = run(&["journeys", &out, "--json"]);
    let journeys: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(journeys.as_array().expect("journeys").len(), 20);
    assert!(journeys.as_array().expect("journeys").iter().all(|j| j["total_ns"] == 5_000_000), "{journeys:#}");
}

#[test]
fn tshark_reads_the_packets_to_the_nanosecond() {
    let test = "tshark_reads_the_packets_to_the_nanosecond";
    if !tool(test, "tshark") {
        return;
    }
    for session in ["demo", "drops", "half", "retransmissions"] {
        let dir = TempDir::new().expect("a directory");
        let out = export(&dir, session, "pcapng", &["--hops", "dev.xmit,dev.recv,ip.out,ip.in"]);
        let mut tshark = Command::new("tshark");
        tshark.args(["-n", "-r"]).arg(&out).args(["-T", "fields", "-E", "separator=;"]);
        for field in [
            "frame.time_epoch",
            "frame.interface_name",
            "ip.src",
            "ip.dst",
            "tcp.seq_raw",
            "tcp.len",
            "udp.length",
            "ip.id",
            "frame.packet_id",
            "frame.comment",
        ] {
            tshark.args(["-e", field]);
        }
        let output = tshark.output().expect("tshark runs");
        assert!(output.status.success(), "{}", stderr(&output));
        let text = stdout(&output);
        let seen: Vec<Vec<&str>> = text.lines().map(|line| line.split(';').collect()).collect();
        let wire = ["dev.xmit", "dev.recv", "ip.out", "ip.in"];
        let events = table(&dir, session, "events");
        let flows: BTreeSet<String> =
            table(&dir, session, "flows").iter().map(|flow| flow["flow"].to_string()).collect();
        let events: Vec<_> = events
            .iter()
            .filter(|e| wire.contains(&e["hop"].as_str().unwrap_or_default()))
            .filter(|e| e.get("flow").is_some_and(|flow| flows.contains(&flow.to_string())))
            .collect();
        assert!(!events.is_empty());
        assert_eq!(seen.len(), events.len(), "{session}");
        let mut numbered = 0;
        for (fields, event) in seen.iter().zip(&events) {
            let ns: i128 = fields[0].replace('.', "").parse().expect("a time");
            assert_eq!(Value::from(i64::try_from(ns).expect("a time of today")), event["ts_ns"], "{session}");
            assert!(fields[1].ends_with(event["hop"].as_str().expect("a hop")), "{fields:?}");
            match event["proto"].as_str() {
                Some("tcp") => {
                    assert_eq!(fields[4], event["seq"].to_string(), "{fields:?}");
                    assert_eq!(fields[5], event["len"].to_string(), "{fields:?}");
                }
                Some("udp") if event["flags"].as_u64().is_some_and(|flags| flags & 0x28 == 0) => {
                    let length: u64 =
                        fields[6].split(',').next().unwrap_or_default().parse().expect("a length");
                    assert_eq!(Value::from(length - 8), event["len"], "{fields:?}");
                }
                _ => {}
            }
            if !fields[8].is_empty() {
                numbered += 1;
                assert!(
                    fields[9].starts_with(&format!("journey {}: ", fields[8].trim_start_matches("0x")))
                        || !fields[9].is_empty(),
                    "{fields:?}"
                );
            }
        }
        let carrying = events.iter().filter(|e| e["len"] != 0).count();
        assert!(
            numbered > 0 && numbered <= seen.len() && carrying > 0,
            "{session}: {numbered} of {}",
            seen.len()
        );
    }
}

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
        let mut seen: Vec<(String, String, String)> = Vec::new();
        for line in text.lines().filter(|line| line.contains("again = 0,")) {
            let (time, rest) = line[1..].split_once(']').expect("a time");
            let hop = rest.trim_start().split_once(": {").expect("fields").0;
            let journey = rest.split_once("journey = ").and_then(|(_, j)| j.split(',').next());
            seen.push((time.replace('.', ""), hop.to_owned(), journey.unwrap_or_default().to_owned()));
        }
        let text =
            |row: &BTreeMap<String, Value>, name: &str| row[name].to_string().trim_matches('"').to_owned();
        let hops = table(&dir, session, "hops");
        let mut want: Vec<_> =
            hops.iter().map(|row| (text(row, "ts_ns"), text(row, "hop"), text(row, "journey"))).collect();
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
        let first = hits.filter(|e| e["args"]["sent_again"].is_null()).count();
        assert_eq!(first, table(&dir, session, "hops").len(), "{session}");
        // Doubles are exact to a nanosecond here, because they count from the first mark.
        assert!(events.iter().filter_map(|e| e["ts"].as_f64()).all(|us| us < 1e12));
    }
}

#[test]
fn the_dump_has_a_line_an_event_and_one_a_loss() {
    let dir = TempDir::new().expect("a directory");
    for session in GOLDEN {
        let out = export(&dir, session, "magnet", &[]);
        let text = fs::read_to_string(out).expect("text");
        assert!(text.lines().all(|line| line.split('\t').count() == 14));
        let rows = table(&dir, session, "events").len() + table(&dir, session, "losses").len();
        assert_eq!(text.lines().count() - 1, rows, "{session}");
    }
}

#[test]
fn what_is_asked_for_is_all_that_is_written() {
    let dir = TempDir::new().expect("a directory");
    let all = table(&dir, "demo", "journeys");
    let tcp = all.iter().filter(|row| row["proto"] == "tcp").count();
    assert!(tcp > 0 && tcp < all.len());
    let args = ["export", &golden("demo"), "--to", "jsonl", "--tables", "journeys", "-o", "-"];
    let output = run(&[&args[..], &["--where", "proto = tcp"]].concat());
    assert_eq!(stdout(&output).lines().count(), tcp);
    let output = run(&[&args[..], &["--where", "proto = tcp", "--to", "csv"]].concat());
    assert_eq!(output.status.code(), Some(2), "an option given twice: {}", stderr(&output));
    for how in ["zstd", "gzip"] {
        let out = dir.path().join(how);
        let place = out.to_string_lossy().into_owned();
        let compress = format!("--compress={how}");
        let output =
            run(&["export", &golden("demo"), "--to", "jsonl", "--tables", "journeys", "-o", &place, &compress]);
        assert!(output.status.success(), "{}", stderr(&output));
        let text = Command::new(how).args(["-dc"]).arg(&out).output();
        if let Ok(text) = text {
            assert_eq!(stdout(&text).lines().count(), all.len());
        } else {
            skipped("compress", &format!("{how} is not installed"));
        }
    }
}

#[test]
fn a_full_disk_and_an_unwritable_place_are_said_and_leave_nothing() {
    let dir = TempDir::new().expect("a directory");
    let session = golden("demo");
    let full = Path::new("/dev/full");
    if full.exists() {
        let mut command = common::magnet_scope(&["export", &session, "--to", "ulm", "-o", "-"]);
        let stdout = fs::OpenOptions::new().write(true).open(full).expect("/dev/full opens");
        let output = command.stdout(stdout).output().expect("the binary starts");
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("the disk is full"), "{}", stderr(&output));
    }
    let nowhere = dir.path().join("no/such/place").to_string_lossy().into_owned();
    for format in FORMATS {
        let output = run(&["export", &session, "--to", format, "-o", &nowhere]);
        assert_eq!(output.status.code(), Some(1), "{format}");
        assert!(stderr(&output).contains("next step:"), "{format}: {}", stderr(&output));
    }
    let taken = dir.path().join("taken");
    fs::write(&taken, "mine").expect("room");
    let place = taken.to_string_lossy().into_owned();
    let output = run(&["export", &session, "--to", "ulm", "-o", &place]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(fs::read_to_string(&taken).expect("still there"), "mine");
    let output = run(&["export", &session, "--to", "ulm", "-o", &place, "--replace"]);
    assert!(output.status.success(), "{}", stderr(&output));
    // A directory of something else is never replaced.
    let output = run(&["export", &session, "--to", "csv", "-o", &dir.path().to_string_lossy(), "--replace"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(taken.exists());
    assert_eq!(fs::read_dir(dir.path()).expect("the directory").count(), 1);
}

#[test]
fn a_small_file_system_that_fills_up_leaves_nothing() {
    let test = "a_small_file_system_that_fills_up_leaves_nothing";
    if !common::is_root(test) {
        return;
    }
    let dir = TempDir::new().expect("a directory");
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(dir.path()).status();
    if !mount.is_ok_and(|status| status.success()) {
        return skipped(test, "a tmpfs cannot be mounted here");
    }
    let results: Vec<Output> = ["parquet", "ulm", "ctf", "pcapng", "jsonl"]
        .iter()
        .map(|format| {
            let out = dir.path().join(format).to_string_lossy().into_owned();
            run(&["export", &golden("demo"), "--to", format, "-o", &out])
        })
        .collect();
    let left = fs::read_dir(dir.path()).map(Iterator::count);
    let _ = Command::new("umount").arg(dir.path()).status();
    for output in &results {
        assert_eq!(output.status.code(), Some(1), "{}", stderr(output));
        assert!(stderr(output).contains("the disk is full"), "{}", stderr(output));
    }
    assert_eq!(left.expect("the directory"), 0);
}

#[test]
fn a_closed_pipe_is_no_failure() {
    for format in ["jsonl", "csv --tables hops", "parquet --tables hops", "ulm", "pcapng", "chrome"] {
        let command = format!(
            "'{}' export '{}' --to {format} -o - | head -c 40 >/dev/null; echo ${{PIPESTATUS[0]}}",
            env!("CARGO_BIN_EXE_magnet-scope"),
            golden("lost")
        );
        let output = Command::new("bash").args(["-c", &command]).output().expect("bash runs");
        assert_eq!(stdout(&output), "0\n", "{format}: {}", stderr(&output));
    }
}

#[test]
fn a_recording_that_runs_is_followed_to_its_end() {
    let dir = TempDir::new().expect("a directory");
    let session = dir.path().join("session");
    let mut source =
        Generator::new(GeneratorOptions { events: 40_000, flows: 8, ..GeneratorOptions::default() });
    let options = RecordOptions { flush_interval: Duration::ZERO, ..RecordOptions::default() };
    let mut recorder = Recorder::create(&session, source.info(), options).expect("an empty directory");
    let (mut batch, mut batches) = (Batch::default(), Vec::new());
    while source.next(&mut batch, Duration::ZERO).expect("a generator never fails") == Progress::More {
        batches.push(batch.clone());
    }
    let (first, rest) = batches.split_at(batches.len() / 2);
    assert!(!first.is_empty() && !rest.is_empty());
    for batch in first {
        recorder.append(batch).expect("room");
    }
    let (session, out) = (session.to_string_lossy().into_owned(), dir.path().join("log"));
    let place = out.to_string_lossy().into_owned();
    let mut follow = common::magnet_scope(&["export", &session, "--to", "ulm", "--follow", "-o", &place])
        .spawn()
        .expect("the binary starts");
    let lines = || fs::read_to_string(&out).map_or(0, |text| text.lines().count());
    assert!(common::eventually(|| lines() > 1_000), "{} lines while it runs", lines());
    let before = lines();
    for batch in rest {
        recorder.append(batch).expect("room");
    }
    assert!(common::eventually(|| lines() > before), "no more lines than {before}");
    recorder.close().expect("room");
    assert!(follow.wait().expect("it ends").success());
    let whole = dir.path().join("whole").to_string_lossy().into_owned();
    assert!(run(&["export", &session, "--to", "ulm", "-o", &whole]).status.success());
    let sorted = |text: String| {
        // A journey is numbered when it ends, which at the seam may be in another order.
        let mut lines: Vec<String> = text
            .lines()
            .map(|l| l.split(' ').filter(|f| !f.starts_with("ID=")).collect::<Vec<_>>().join(" "))
            .collect();
        lines.sort();
        lines
    };
    let (followed, at_once) =
        (fs::read_to_string(&out).expect("text"), fs::read_to_string(&whole).expect("text"));
    let (followed, at_once) = (sorted(followed), sorted(at_once));
    let other = followed.iter().zip(&at_once).find(|(a, b)| a != b);
    assert!(followed == at_once, "{} lines for {}, first {other:#?}", followed.len(), at_once.len());
}

/// A session of a generator whose processes call themselves what no process should.
fn hostile(dir: &TempDir) -> (String, Vec<String>) {
    const NAMES: [&str; 8] = [
        "a\"b'c,d;e",
        "tab\tline\nend\r",
        "back\\slash\\",
        "\u{1}\u{7f}\u{9b}31m",
        "=1+1;ä€𝄞\u{202e}",
        "\u{fffd}\u{fffd}",
        " a=\"b\" c ",
        "{\"x\":[</script>",
    ];
    let mut source = Generator::new(GeneratorOptions {
        events: 20_000,
        flows: 8,
        batch_events: 200,
        ..GeneratorOptions::default()
    });
    let session = dir.path().join("hostile");
    let mut recorder =
        Recorder::create(&session, source.info(), RecordOptions::default()).expect("an empty directory");
    let (mut batch, mut at) = (Batch::default(), 0);
    while source.next(&mut batch, Duration::ZERO).expect("a generator never fails") == Progress::More {
        batch.tasks.clear();
        if at == 0 {
            let task = |(n, name): (usize, &&str)| magscope_core::Task {
                tgid: 5_000,
                tid: 5_000 + n as u32,
                uid: 0,
                cgroup: 0,
                comm: (*name).to_owned(),
            };
            batch.tasks.extend(NAMES.iter().enumerate().map(task));
        }
        for event in batch.events.iter_mut().filter(|event| event.tid != 0) {
            (event.tgid, event.tid) = (5_000, 5_000 + (at % NAMES.len()) as u32);
            at += 1;
        }
        recorder.append(&batch).expect("room");
    }
    recorder.close().expect("room");
    assert!(at >= NAMES.len());
    (session.to_string_lossy().into_owned(), NAMES.iter().map(|name| (*name).to_owned()).collect())
}

#[test]
fn hostile_names_survive_every_format() {
    let dir = TempDir::new().expect("a directory");
    let (session, names) = hostile(&dir);
    for (format, table) in [
        ("parquet", Some("events")),
        ("csv", Some("events")),
        ("jsonl", Some("events")),
        ("chrome", None),
        ("ulm", None),
        ("bp", None),
        ("ctf", None),
        ("magnet", None),
    ] {
        let out = dir.path().join(format);
        let place = out.to_string_lossy().into_owned();
        let mut arguments = vec!["export", &session, "--to", format, "-o", &place];
        arguments.extend(table.iter().flat_map(|table| ["--tables", table]));
        let output = run(&arguments);
        assert!(output.status.success(), "{format}: {}", stderr(&output));
        let test = "hostile_names_survive_every_format";
        match format {
            "ulm" | "bp" => {
                client(test, "Pegasus.netlogger", "netlogger.py", &[Path::new(format), &out]);
            }
            "ctf" if tool(test, "babeltrace2") => {
                let read = Command::new("babeltrace2").arg(&out).output().expect("babeltrace2 runs");
                assert!(read.status.success(), "{}", stderr(&read));
            }
            "magnet" => {
                let text = fs::read_to_string(&out).expect("text");
                assert!(text.lines().all(|line| line.split('\t').count() == 14));
            }
            "ctf" => {}
            _ => {
                let Some(read) = client(test, "pyarrow", "names.py", &[Path::new(format), &out]) else {
                    continue;
                };
                let read: BTreeSet<String> = serde_json::from_slice(&read.stdout).expect("JSON");
                let known: BTreeSet<String> = names.iter().cloned().collect();
                assert!(read.is_subset(&known) && read.len() >= 2, "{format}: {read:?}");
                if table.is_some() {
                    assert_eq!(read, known, "{format}");
                }
            }
        }
    }
}

#[test]
fn sums_over_time_are_those_of_the_hops() {
    let dir = TempDir::new().expect("a directory");
    for session in ["demo", "lost", "retransmissions"] {
        let out = dir.path().join(format!("{session}-periods"));
        let place = out.to_string_lossy().into_owned();
        let output = run(&["export", &golden(session), "--to", "jsonl", "--every", "100ms", "-o", &place]);
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
            let known: Vec<_> = hops.iter().filter(|row| by == "hop" || row.contains_key("flow")).collect();
            let bytes: u64 = known.iter().filter_map(|row| row["bytes"].as_u64()).sum();
            assert_eq!((of("journeys"), of("bytes")), (known.len() as u64, bytes), "{session} {by}");
        }
        // Means, weighted, are the mean of all; the largest of the largest is the largest.
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
fn a_binary_trace_of_2001_opens() {
    let dir = TempDir::new().expect("a directory");
    let trace = dir.path().join("trace");
    // i386: a pointer, cycles, event, size; first SYSINFO with 400 MHz.
    let mut bytes = Vec::new();
    let mut put = |id: u32, cycles: u64, event: u32, size: i32| {
        bytes.extend(id.to_be_bytes());
        bytes.extend(cycles.to_be_bytes());
        bytes.extend(event.to_be_bytes());
        bytes.extend(size.to_be_bytes());
    };
    put(0, 1, 0x0123_4567, 400_000);
    for n in 0..100 {
        put(0xc012_3456, 400_000 * (n + 1), 1, 1_448);
        put(0xc012_3456, 400_000 * (n + 1) + 4_000, 2, 1_448);
        put(0xc012_3456, 400_000 * (n + 1) + 8_000, 99, -11);
    }
    fs::write(&trace, &bytes).expect("room");
    let (trace, out) =
        (trace.to_string_lossy().into_owned(), dir.path().join("s").to_string_lossy().into_owned());
    let output = run(&["import", &trace, "-o", &out, "--map", "1=tcp.send", "--map", "2=dev.xmit"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("99 (100)"), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&run(&["report", &out, "--json"]).stdout).expect("a report");
    assert_eq!(
        (&report["events"], &report["duration_ns"]),
        (&Value::from(200), &Value::from(99_010_000)),
        "{report:#}"
    );
    assert!(
        report["hops"]
            .as_array()
            .expect("hops")
            .iter()
            .all(|hop| hop["events"] != 100 || hop["bytes"] == 144_800)
    );
}

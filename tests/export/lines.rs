//! Line formats: ULM and BP of `NetLogger`, in both directions, and traces and dumps of `MAGNeT`.

use crate::common::exports::{GOLDEN, client, export, resent, table};
use crate::common::{run, stderr, stdout};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

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
        // One line per hop of each copy; reports of retransmissions have separate lines.
        let text = fs::read_to_string(dir.path().join(format!("{session}-ulm"))).expect("text");
        let hits = text.lines().filter(|line| line.contains(" LVL=Usage ") && line.contains(" MAG.SEQ="));
        let lines = hits.filter(|line| !line.contains(" NL.EVNT=tcp.retransmit "));
        let tries = lines.map(|line| {
            let number = line.split(" MAG.TRY=").nth(1).and_then(|rest| rest.split(' ').next());
            number.map_or(0, |number| number.parse::<u64>().expect("a number"))
        });
        let copies = table(&dir, session, "hops").iter().map(resent).collect::<Vec<_>>();
        let (tries, copies) = (by_size(tries.collect()), by_size(copies));
        assert!(tries == copies, "{session}: {} lines, {} rungs", tries.len(), copies.len());
    }
}

fn by_size(mut numbers: Vec<u64>) -> Vec<u64> {
    numbers.sort_unstable();
    numbers
}

/// The lines of a log in order, without journey numbers, which depend on the order of ends, and without spans of
/// requests: a log does not say who opened a connection.
fn lines(log: &Path) -> Vec<String> {
    let number = |field: &str| field.starts_with("ID=") || field.starts_with("guid=");
    let is_span = |line: &&str| [" ID=request-", " guid=request-"].iter().any(|id| line.contains(id));
    let text = fs::read_to_string(log).expect("text");
    let mut lines: Vec<String> = text
        .lines()
        .filter(|line| !is_span(line))
        .map(|line| line.split(' ').filter(|field| !number(field)).collect::<Vec<_>>().join(" "))
        .collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_log_of_ours_comes_back_line_by_line() {
    for session in GOLDEN {
        for dialect in ["ulm", "bp"] {
            let dir = TempDir::new().expect("a directory");
            let log = export(&dir, session, dialect, &[]);
            let back = dir.path().join("back").to_string_lossy().into_owned();
            let output = run(&["import", &log.to_string_lossy(), "-o", &back]);
            assert!(output.status.success(), "{}", stderr(&output));
            let again = dir.path().join("again");
            let output = run(&["export", &back, "--format", dialect, "-o", &again.to_string_lossy()]);
            assert!(output.status.success(), "{}", stderr(&output));
            let (was, is) = (lines(&log), lines(&again));
            let other = was.iter().zip(&is).find(|(was, is)| was != is);
            assert!(was == is, "{session} {dialect}: {} lines were {}; {other:#?}", is.len(), was.len());
        }
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
fn a_log_of_two_hosts_says_nothing_of_their_clocks_and_its_owner_may() {
    let dir = TempDir::new().expect("a directory");
    let log = dir.path().join("log");
    let mut text = String::new();
    for id in 0..50 {
        for (event, host, ms) in [("SEND", "a", 0), ("LEAVE", "a", 1), ("ARRIVE", "b", 4), ("READ", "b", 5)] {
            let _ = writeln!(
                text,
                "DATE=20070215110703.{:06} HOST={host} NL.EVNT={event} ID={id} SRC=10.1.1.10 DST=10.1.1.11 NBYTES=55",
                (id * 10 + ms) * 1_000
            );
        }
    }
    fs::write(&log, text).expect("room");
    let maps = ["SEND=ip.out", "LEAVE=dev.xmit", "ARRIVE=dev.recv", "READ=ip.in"];
    let journeys = |name: &str, more: &[&str]| {
        let (log, out) = (log.to_string_lossy(), dir.path().join(name).to_string_lossy().into_owned());
        let mut arguments = vec!["import", &*log, "-o", &*out];
        arguments.extend(maps.iter().flat_map(|map| ["--map", *map]));
        arguments.extend(more);
        let output = run(&arguments);
        assert!(output.status.success(), "{}", stderr(&output));
        let rows = run(&["journeys", &out, "--slowest", "100", "--json"]);
        let rows: Vec<Value> = serde_json::from_slice(&rows.stdout).expect("JSON");
        assert_eq!(rows.len(), 50);
        (stderr(&output), rows)
    };
    let step = |row: &Value, from: &str| {
        row["latencies"].as_array().into_iter().flatten().find(|step| step["from"] == from).cloned()
    };
    let (messages, rows) = journeys("apart", &[]);
    assert!(messages.contains("hosts a, b: clocks of which nothing is known"), "{messages}");
    for row in &rows {
        assert_eq!((&row["across"], &row["total_ns"]), (&"apart".into(), &Value::Null), "{row:#}");
        assert_eq!(step(row, "dev.xmit"), None, "{row:#}");
        assert_eq!(step(row, "ip.out").expect("within one host")["ns"], 1_000_000);
    }
    let (messages, rows) = journeys("bounded", &["--clock-bound", "10ms"]);
    assert!(messages.contains("hosts a, b: clocks within 10.0 ms"), "{messages}");
    for row in &rows {
        let wire = step(row, "dev.xmit").expect("a wire");
        assert_eq!((&wire["ns"], &wire["half_width_ns"]), (&3_000_000.into(), &10_000_000.into()), "{row:#}");
        assert_eq!(wire["resolvable"], false);
        assert_eq!(step(row, "ip.out").expect("within one host")["half_width_ns"], Value::Null);
    }
}

#[test]
fn hosts_that_never_spoke_to_each_other_are_not_said_to_share_a_clock() {
    let dir = TempDir::new().expect("a directory");
    let (log, out) = (dir.path().join("log"), dir.path().join("s"));
    let line = |host: &str, id: u32, us: u32, event: &str| {
        format!(
            "DATE=20070215110703.{us:06} HOST={host} NL.EVNT={event} ID={id} SRC=10.1.1.10 DST=10.1.1.11 NBYTES=55\n"
        )
    };
    let lines = ["a", "b"]
        .iter()
        .zip([1, 2])
        .flat_map(|(host, id)| [line(host, id, id * 10, "ip.out"), line(host, id, id * 10 + 5, "dev.xmit")]);
    fs::write(&log, lines.collect::<String>()).expect("room");
    let output = run(&["import", &log.to_string_lossy(), "-o", &out.to_string_lossy()]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("hosts a, b: clocks of which nothing is known"), "{}", stderr(&output));
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

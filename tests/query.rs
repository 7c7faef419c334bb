//! SQL over recordings: every query of docs/queries.md, and agreement with the report.
//!
//! Without the feature `query` the tests are skipped with a message.

use crate::common::{self, everything as made, exports};

use common::{magnet_scope, run, skipped, stderr, stdout};
use exports::golden;
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Generator, GeneratorOptions};
use magscope_export::Table;
use magscope_session::{RecordOptions, Recorder};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// True if queries are supported; otherwise prints the skipped test.
fn has_sql(test: &str) -> bool {
    if !cfg!(feature = "query") {
        skipped(test, "it was built without the feature `query`");
    }
    cfg!(feature = "query")
}

/// Rows of the result.
fn ask(sessions: &[&str], sql: &str) -> Vec<Value> {
    ask_of(&sessions.iter().map(|name| golden(name)).collect::<Vec<_>>(), sql)
}

/// As [`ask`], for recordings at paths.
fn ask_of(sessions: &[String], sql: &str) -> Vec<Value> {
    let mut arguments = vec!["query"];
    arguments.extend(sessions.iter().map(String::as_str));
    arguments.extend([sql, "--format", "jsonl"]);
    let output = run(&arguments);
    assert!(output.status.success(), "{sql}\n{}", stderr(&output));
    stdout(&output).lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

#[test]
fn every_query_of_the_page_has_an_answer() {
    if !has_sql("every_query_of_the_page_has_an_answer") {
        return;
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/queries.md");
    let page = fs::read_to_string(page).expect("docs/queries.md");
    let queries: Vec<&str> = page
        .split("```sql\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("\n```"))
        .map(|(sql, _)| sql)
        .collect();
    assert!(queries.len() >= 15, "{} queries", queries.len());
    let dir = TempDir::new().expect("a directory");
    let made = made::everything(&dir);
    for sql in queries {
        // Each query has rows for at least one session: some have no losses, others lack a hop.
        assert!(
            ["demo", "retransmissions", "lost"].iter().any(|session| !ask(&[session], sql).is_empty())
                || !ask_of(&made, sql).is_empty(),
            "{sql}"
        );
    }
}

#[test]
fn no_column_has_the_name_of_a_word_of_sql() {
    if !has_sql("no_column_has_the_name_of_a_word_of_sql") {
        return;
    }
    for table in Table::RECORDED {
        let schema = table.schema();
        let columns: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        // Some words are refused only behind a comma.
        ask(&["demo"], &format!("SELECT 1 AS one, {} FROM {table} LIMIT 1", columns.join(", ")));
    }
}

#[test]
fn what_the_kernel_added_up_is_asked_as_the_report_has_it() {
    if !has_sql("what_the_kernel_added_up_is_asked_as_the_report_has_it") {
        return;
    }
    let dir = TempDir::new().expect("a directory");
    let made = made::everything(&dir);
    let output = run(&["report", &made[0], &made[1], "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let pairs = report["synthesis"]["pairs"].as_array().expect("pairs");
    assert_eq!(pairs.len(), 1);
    for (key, percent) in
        [("p50_ns", "50"), ("p90_ns", "90"), ("p99_ns", "99"), ("p999_ns", "99.9"), ("max_ns", "100")]
    {
        let running = format!(
            "SELECT min(max_ns) AS ns, max(passes) AS n FROM (SELECT max_ns, sum(sum(n)) OVER (ORDER BY max_ns) AS up_to, \
             sum(sum(n)) OVER () AS passes FROM histograms WHERE from_hop = 'dev.queue' AND hop = 'dev.xmit' GROUP BY max_ns) AS running \
             WHERE up_to * 100 >= passes * {percent}"
        );
        let row = &ask_of(&made, &running)[0];
        assert_eq!((&row["ns"], &row["n"]), (&pairs[0]["times"][key], &pairs[0]["times"]["n"]), "{key}");
        let at_most = row["ns"].as_u64().expect("a number");
        let row = &ask_of(&made, &format!("SELECT percentile(max_ns, {percent}, n) AS ns FROM histograms"))[0];
        let ns = row["ns"].as_u64().expect("a number");
        assert!((at_most..=at_most + at_most / 128).contains(&ns), "{key}: {ns} of {at_most}");
    }
    let mean =
        &ask_of(&made, "SELECT sum(sum_ns) / CAST(sum(n) AS DOUBLE) AS ns FROM sums WHERE sum_of = 'since'")[0];
    assert_eq!(mean["ns"], pairs[0]["mean_ns"]);
    let flows = ask_of(
        &made,
        "SELECT host, local_addr, local_port, sum(n) AS packets, sum(bytes) AS bytes FROM sums WHERE sum_of = 'flow' \
         GROUP BY host, local_addr, local_port ORDER BY bytes DESC",
    );
    let reported = report["synthesis"]["flows"].as_array().expect("flows");
    assert_eq!((flows.len(), reported.len()), (2, 2));
    for (row, reported) in flows.iter().zip(reported) {
        assert_eq!((&row["packets"], &row["bytes"]), (&reported["packets"], &reported["bytes"]));
        let name = reported["flow"].as_str().expect("a name");
        assert!(name.contains(row["local_addr"].as_str().expect("an address")), "{name}");
    }
}

#[test]
fn answers_agree_with_the_report() {
    if !has_sql("answers_agree_with_the_report") {
        return;
    }
    for session in ["demo", "half", "lost", "retransmissions"] {
        let report: Value =
            serde_json::from_slice(&run(&["report", &golden(session), "--json"]).stdout).expect("a report");
        let sql = "SELECT hop, count(latency_ns) AS n, percentile(latency_ns, 50) AS p50_ns, percentile(latency_ns, 90) AS p90_ns, \
                   percentile(latency_ns, 99) AS p99_ns, percentile(latency_ns, 99.9) AS p999_ns FROM hops WHERE whole GROUP BY hop";
        let rows = ask(&[session], sql);
        for hop in report["hops"].as_array().expect("hops").iter().filter(|hop| !hop["latency"].is_null()) {
            let row = rows.iter().find(|row| row["hop"] == hop["hop"]).expect("a row a hop");
            for key in ["n", "p50_ns", "p90_ns", "p99_ns", "p999_ns"] {
                assert_eq!(row[key], hop["latency"][key], "{session} {} {key}", hop["hop"]);
            }
        }
        let events = ask(&[session], "SELECT hop, count(*) AS n, sum(len) AS bytes FROM events GROUP BY hop");
        for row in &events {
            let hop = report["hops"].as_array().expect("hops").iter().find(|hop| hop["hop"] == row["hop"]);
            let hop = hop.expect("a hop of the report");
            assert_eq!((&row["n"], &row["bytes"]), (&hop["events"], &hop["bytes"]), "{session}");
        }
        let wrong = "SELECT count(*) AS n FROM (SELECT journey_duration(h.hop, h.ts_ns, h.at_return) AS ns, max(j.total_ns) AS total \
                     FROM hops h JOIN journeys j ON h.journey = j.journey GROUP BY h.journey) WHERE ns IS DISTINCT FROM total";
        assert_eq!(ask(&[session], wrong)[0]["n"], 0, "{session}");
    }
}

#[test]
fn several_recordings_are_asked_as_one() {
    if !has_sql("several_recordings_are_asked_as_one") {
        return;
    }
    let one = |name: &str| ask(&[name], "SELECT count(*) AS n FROM events")[0]["n"].as_u64().expect("a number");
    let both = ask(&["demo", "half"], "SELECT count(*) AS n, count(DISTINCT host) AS hosts FROM events");
    assert_eq!(both[0]["n"], one("demo") + one("half"));
    assert_eq!(both[0]["hosts"], 2);
}

#[test]
fn what_cannot_be_answered_is_said() {
    if !has_sql("what_cannot_be_answered_is_said") {
        return;
    }
    let demo = golden("demo");
    for (sql, what) in [
        ("SELECT latency FROM hops", "Did you mean 'hops.latency_ns'"),
        ("SELECT * FROM journies", "no table is called `journies`; the nearest is `journeys`"),
        ("SELECT percentil(latency_ns, 99) FROM hops", "Did you mean 'percentile'"),
        ("SELEC", "SELEC"),
        ("SELECT * FROM hop_pair('dev.xmitt', 'dev.recv')", "the nearest is `dev.xmit`"),
        ("SELECT percentile(total_ns, 101) FROM journeys", "0 to 100"),
        ("SELECT * FROM periods(0)", "as in periods(1000)"),
        ("SELECT * FROM periods('1s')", "as in periods(1000)"),
        ("CREATE TABLE x AS SELECT 1", "DDL"),
        ("COPY events TO '/tmp/never.csv'", "DML"),
    ] {
        let output = run(&["query", &demo, sql]);
        assert_eq!(output.status.code(), Some(1), "{sql}");
        assert!(stderr(&output).contains(what), "{sql}: {}", stderr(&output));
    }
    let output = run(&["query", &demo, "SELECT 1 AS one, 'a' AS two"]);
    assert_eq!(stdout(&output), "one  two\n  1  a\n");
    let dir = TempDir::new().expect("a directory");
    let out = dir.path().join("answer.parquet").to_string_lossy().into_owned();
    let output = run(&["query", &demo, "SELECT * FROM journeys LIMIT 3", "--format", "parquet", "-o", &out]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(fs::read(&out).is_ok_and(|bytes| bytes.ends_with(b"PAR1")));
}

#[test]
fn no_query_is_too_deep() {
    if !has_sql("no_query_is_too_deep") {
        return;
    }
    let demo = golden("demo");
    let sum = format!("SELECT 1{} AS n", "+1".repeat(1_000));
    assert_eq!(ask(&["demo"], &sum)[0]["n"], 1_001);
    let of_rows = format!("SELECT count(*) AS n FROM losses WHERE lost{} > 0", "+lost".repeat(200));
    assert_eq!(ask(&["demo"], &of_rows)[0]["n"], 0);
    for (sql, what) in [
        (format!("SELECT {}1{}", "(".repeat(3_000), ")".repeat(3_000)), "recursion limit exceeded"),
        (format!("SELECT 1{}", "+1".repeat(5_000)), "8192 bytes at most"),
    ] {
        let output = run(&["query", &demo, &sql]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(what), "{}", stderr(&output));
    }
}

/// A recording with this many events.
fn large(dir: &TempDir, events: u64) -> String {
    let session = dir.path().join("large");
    let mut source = Generator::new(GeneratorOptions { events, flows: 16, ..GeneratorOptions::default() });
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
    session.to_string_lossy().into_owned()
}

/// CPU time of the threads that compute a query, in clock ticks.
fn ticks_of_the_engine(pid: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let stats = tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
    let of = |stat: String| {
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
        (name == "magscope-query").then_some(ticks(11)? + ticks(12)?)
    };
    stats.filter_map(of).sum()
}

#[test]
fn a_query_that_is_cancelled_ends_and_leaves_nothing() {
    if !has_sql("a_query_that_is_cancelled_ends_and_leaves_nothing") {
        return;
    }
    let dir = TempDir::new().expect("a directory");
    let spills = TempDir::new().expect("a directory");
    let session = large(&dir, 100_000);
    // Every hop beside every other: ten thousand millions of rows and more, hours of work, and no row before the end.
    let endless = [
        "SELECT count(*) AS n FROM hops a JOIN hops b ON a.latency_ns <> b.latency_ns JOIN hops c ON c.latency_ns <> a.latency_ns",
        "SELECT a.hop, max(a.ts_ns - b.ts_ns) AS n FROM hops a CROSS JOIN hops b GROUP BY a.hop",
        "SELECT a.journey, b.journey, count(*) AS n FROM hops a CROSS JOIN hops b GROUP BY 1, 2",
        "SELECT percentile(a.ts_ns - b.ts_ns, 99) AS n FROM hops a JOIN hops b ON a.hop = b.hop",
        "SELECT a.journey, b.ts_ns FROM hops a CROSS JOIN hops b ORDER BY b.ts_ns, a.journey",
    ];
    let out = dir.path().join("answer.csv").to_string_lossy().into_owned();
    let to_file = ["--format", "csv", "-o", &out];
    for (n, sql) in endless.into_iter().enumerate() {
        let more = if n % 2 == 0 { &to_file[..] } else { &[] };
        let mut command = magnet_scope(&[&["query", &session, sql, "--memory", "64MiB"], more].concat());
        let mut child = command.env("TMPDIR", spills.path()).spawn().expect("it starts");
        // Reading takes a small part of this; the rest is the join at work.
        let busy = common::eventually(|| {
            ticks_of_the_engine(child.id()) > 200 || child.try_wait().expect("it is ours").is_some()
        });
        assert!(busy && child.try_wait().expect("it is ours").is_none(), "{sql}: it is at work");
        kill_process(Pid::from_child(&child), Signal::INT).expect("it is there");
        let mut ended = None;
        let done = common::eventually(|| {
            ended = child.try_wait().expect("it is ours");
            ended.is_some()
        });
        if !done {
            child.kill().expect("it is ours");
        }
        assert!(done, "{sql}: it goes on after SIGINT");
        let mut messages = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut messages).expect("text");
        assert_eq!(ended.and_then(|status| status.code()), Some(130), "{sql}: {messages}");
        assert!(messages.contains("cancelled"), "{sql}: {messages}");
        let names = |dir: &TempDir| -> Vec<_> {
            fs::read_dir(dir).expect("the directory").flatten().map(|entry| entry.file_name()).collect()
        };
        assert_eq!(names(&dir), ["large"], "{sql}");
        assert!(names(&spills).is_empty(), "{sql}: {:?}", names(&spills));
    }
}

#[test]
fn rows_come_while_it_reads_and_in_the_order_of_the_recording() {
    if !has_sql("rows_come_while_it_reads_and_in_the_order_of_the_recording") {
        return;
    }
    let dir = TempDir::new().expect("a directory");
    let session = large(&dir, 400_000);
    let sql = "SELECT journey, ts_ns FROM journeys WHERE bytes > 0";
    let mut child = magnet_scope(&["query", &session, sql, "--format", "csv"]).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut line = || lines.next().expect("a line").expect("text");
    assert_eq!(line(), "journey,ts_ns");
    let first: Vec<String> = (0..100).map(|_| line()).collect();
    drop(lines);
    // The reader has enough; this is no failure.
    assert!(child.wait().expect("it ends").success());
    let all = stdout(&run(&["query", &session, sql, "--format", "csv"]));
    assert!(all.lines().skip(1).take(100).eq(first.iter().map(String::as_str)));
    let journeys: Vec<u64> =
        all.lines().skip(1).filter_map(|line| line.split(',').next()?.parse().ok()).collect();
    assert!(journeys.len() > 10_000 && journeys.is_sorted(), "{} journeys", journeys.len());
}

#[test]
fn what_a_query_keeps_has_a_limit() {
    if !has_sql("what_a_query_keeps_has_a_limit") {
        return;
    }
    let dir = TempDir::new().expect("a directory");
    let session = large(&dir, 400_000);
    let join = "SELECT count(*) AS n FROM hops a JOIN hops b ON a.journey = b.journey";
    let output = run(&["query", &session, join, "--memory", "1MiB"]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stderr(&output).contains("--memory"), "{}", stderr(&output));
    let output = run(&["query", &session, join]);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn sorts_and_groups_beyond_the_memory_have_the_same_rows() {
    if !has_sql("sorts_and_groups_beyond_the_memory_have_the_same_rows") {
        return;
    }
    let dir = TempDir::new().expect("a directory");
    let session = large(&dir, 250_000);
    let rows = |sql: &str, memory: &str| {
        let output = run(&["query", &session, sql, "--format", "csv", "--memory", memory]);
        assert!(output.status.success(), "{sql} {memory}: {}", stderr(&output));
        stdout(&output).lines().map(str::to_owned).collect::<Vec<String>>()
    };
    for (sql, is_sorted) in [
        ("SELECT bytes, journey, hop FROM hops ORDER BY bytes, journey, step", true),
        ("SELECT * FROM hops ORDER BY ts_ns DESC, journey, step", true),
        ("SELECT journey, count(*) AS n, max(ts_ns) AS last_ns FROM hops GROUP BY journey", false),
        (
            "SELECT journey, hop, host, min(ts_ns), max(ts_ns), sum(bytes), avg(latency_ns) FROM hops GROUP BY 1, 2, 3",
            false,
        ),
        ("SELECT journey, percentile(latency_ns, 99) AS p99_ns FROM hops GROUP BY journey", false),
        ("SELECT journey, journey_duration(hop, ts_ns, at_return) AS ns FROM hops GROUP BY journey", false),
        ("SELECT DISTINCT journey, ts_ns, hop FROM hops", false),
        (
            "SELECT journey, ts_ns, row_number() OVER (PARTITION BY hop ORDER BY ts_ns, journey, step) AS n FROM hops",
            false,
        ),
    ] {
        let (mut small, mut large) = (rows(sql, "8MiB"), rows(sql, "4GiB"));
        if !is_sorted {
            small.sort_unstable();
            large.sort_unstable();
        }
        assert!(large.len() > 10_000, "{sql}: {} rows", large.len());
        let other = small.iter().zip(&large).find(|(small, large)| small != large);
        assert!(small == large, "{sql}: {} rows beside {}; {other:?}", small.len(), large.len());
    }
    // One group of all values has no parts that could go to a file.
    let output = run(&[
        "query",
        &session,
        "SELECT count(DISTINCT ts_ns) + count(DISTINCT journey) AS n FROM hops",
        "--memory",
        "1MiB",
    ]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    for what in ["count(DISTINCT …)", "likely cause:", "next step:", "--memory"] {
        assert!(stderr(&output).contains(what), "{what}: {}", stderr(&output));
    }
}

#[test]
fn options_come_before_between_and_behind_recordings_and_query() {
    if !has_sql("options_come_before_between_and_behind_recordings_and_query") {
        return;
    }
    let (demo, half) = (golden("demo"), golden("half"));
    let sql = "SELECT count(*) AS n FROM events";
    let option = ["--format", "jsonl"];
    let words = [demo.as_str(), half.as_str(), sql];
    let answers = [0, 1, 2, 3].map(|at| {
        let arguments = [&["query"], &words[..at], &option, &words[at..]].concat();
        let output = run(&arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        stdout(&output)
    });
    assert!(answers.iter().all(|answer| *answer == answers[0] && answer.starts_with("{\"n\":")), "{answers:?}");
    let output = run(&["query", sql]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("a query needs a recording"), "{}", stderr(&output));
}

#[test]
fn an_answer_that_nothing_takes_is_said() {
    let test = "an_answer_that_nothing_takes_is_said";
    if !has_sql(test) {
        return;
    }
    let demo = golden("demo");
    let dir = TempDir::new().expect("a directory");
    let nowhere = dir.path().join("no/such/place.csv").to_string_lossy().into_owned();
    for format in ["table", "csv", "jsonl", "parquet"] {
        let output = run(&["query", &demo, "SELECT * FROM hops", "--format", format, "-o", &nowhere]);
        assert_eq!(output.status.code(), Some(1), "{format}");
        assert!(stderr(&output).contains("next step:"), "{format}: {}", stderr(&output));
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full opens");
        let mut command = magnet_scope(&["query", &demo, "SELECT * FROM hops", "--format", format]);
        let output = command.stdout(full).output().expect("it starts");
        assert_eq!(output.status.code(), Some(1), "{format}");
        assert!(stderr(&output).contains("the disk is full"), "{format}: {}", stderr(&output));
        let command = format!(
            "'{}' query '{demo}' 'SELECT * FROM hops' --format {format} | head -c 40 >/dev/null; echo ${{PIPESTATUS[0]}}",
            env!("CARGO_BIN_EXE_magnet-scope"),
        );
        let output = Command::new("bash").args(["-c", &command]).output().expect("bash runs");
        assert_eq!(stdout(&output), "0\n", "{format}: {}", stderr(&output));
    }
}

#[test]
fn a_part_is_asked_with_from_and_to() {
    if !has_sql("a_part_is_asked_with_from_and_to") {
        return;
    }
    let demo = golden("demo");
    let n = |more: &[&str]| {
        let sql = "SELECT count(*) AS n, max(ts_ns) - min(ts_ns) AS ns FROM events";
        let output = run(&[&["query", &demo, sql, "--format", "jsonl"], more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        let row: Value = serde_json::from_slice(&output.stdout).expect("an object");
        (row["n"].as_u64().expect("a number"), row["ns"].as_u64().expect("a number"))
    };
    let (all, ns) = n(&[]);
    let (part, part_ns) = n(&["--from", "100ms", "--until", "300ms"]);
    assert!(part > 0 && part < all, "{part} of {all}");
    assert!(part_ns <= 200_000_000 && part_ns < ns, "{part_ns} of {ns} ns");
}

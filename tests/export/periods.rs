//! Sums over time: every row of a report that has times has its rows in `periods`, of one protocol each, in every table format and in SQL.

use crate::common::exports::{GOLDEN, golden};
use crate::common::{run, skipped, stderr, stdout};
use magscope_core::blame::Part;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use tempfile::TempDir;

/// Recordings that are read as those of two hosts.
const PAIR: [&str; 2] = ["demo", "retransmissions"];
/// The lists of a report with times, and what `periods` has of them.
const LISTS: [(&str, Covered); 10] = [
    ("hops.latency", Covered::By("hop")),
    ("hops.protocols.latency", Covered::By("hop")),
    ("blame.parts.time", Covered::By("part")),
    ("hops.half_width", Covered::Not("`half_width_ns` has the largest")),
    ("hops.protocols.half_width", Covered::Not("`half_width_ns` has the largest")),
    ("hops.nodes.latency", Covered::Not("`host` divides by hosts, not by namespaces")),
    ("hops.nodes.protocols.latency", Covered::Not("`host` divides by hosts, not by namespaces")),
    ("requests.rows.total", Covered::Not("periods are of journeys; exchanges have a table")),
    ("requests.rows.answer", Covered::Not("periods are of journeys; exchanges have a table")),
    ("flows.total", Covered::Not("`flow` has the steps of a flow")),
];
/// The groups of rows.
const GROUPS: [&str; 5] = ["cgroup", "flow", "hop", "part", "process"];

#[derive(Clone, Copy)]
enum Covered {
    By(&'static str),
    Not(&'static str),
}

/// Group, name and protocol of a row.
type Key = (String, String, String);

/// Sums over all intervals.
#[derive(Debug, Default, PartialEq)]
struct Sum {
    n: u64,
    total_ns: f64,
    max_ns: u64,
}

fn array(of: &Value) -> impl Iterator<Item = &Value> {
    of.as_array().into_iter().flatten()
}

fn text(of: &Value, key: &str) -> String {
    of[key].as_str().unwrap_or_default().to_owned()
}

/// The lists of a report in which a row has quantiles of times.
fn lists_with_times(of: &Value, path: &str, out: &mut BTreeSet<String>) {
    match of {
        Value::Object(fields) if fields.contains_key("p999_ns") => _ = out.insert(path.to_owned()),
        Value::Object(fields) => {
            for (key, value) in fields {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                lists_with_times(value, &path, out);
            }
        }
        Value::Array(rows) => rows.iter().for_each(|row| lists_with_times(row, path, out)),
        _ => {}
    }
}

/// The words of a part that a report has by its name.
fn words(name: &Value) -> &'static str {
    let is = |part: &&Part| serde_json::to_value(part).expect("a name") == *name;
    Part::ALL.iter().find(is).expect("a part").words()
}

/// What the report has in rows that `periods` has, too. A row of hops has no protocol where there is only one.
fn of_report(report: &Value) -> BTreeMap<Key, (u64, Option<u64>, u64)> {
    let mut all = BTreeMap::new();
    let protocols: BTreeSet<String> = array(&report["verdicts"]).map(|row| text(row, "proto")).collect();
    for hop in array(&report["hops"]) {
        let by_proto = array(&hop["protocols"]).map(|row| (text(row, "proto"), &row["latency"]));
        let only = Some((String::new(), &hop["latency"])).filter(|(_, latency)| !latency.is_null());
        for (proto, latency) in by_proto.chain(only) {
            assert!(!proto.is_empty() || !protocols.is_empty());
            let max = latency["max_ns"].as_u64().expect("a time");
            let n = latency["n"].as_u64().expect("a number");
            all.insert(("hop".to_owned(), text(hop, "hop"), proto), (n, None, max));
        }
    }
    for row in array(&report["blame"]) {
        for part in array(&row["parts"]) {
            let (n, max) = (part["time"]["n"].as_u64(), part["time"]["max_ns"].as_u64());
            let of = (n.expect("a number"), part["total_ns"].as_u64(), max.expect("a time"));
            all.insert(("part".to_owned(), words(&part["part"]).to_owned(), text(row, "proto")), of);
        }
    }
    all
}

/// Rows of `periods` as sums over all intervals. Each row has one protocol.
fn of_rows(rows: &[Value]) -> BTreeMap<Key, Sum> {
    let mut all: BTreeMap<Key, Sum> = BTreeMap::new();
    for row in rows {
        let (group, proto) = (text(row, "group_by"), text(row, "proto"));
        assert!(GROUPS.contains(&group.as_str()), "{row}");
        assert!(!proto.is_empty(), "a row has one protocol: {row}");
        assert_eq!(text(row, "hop").is_empty(), group == "part", "{row}");
        if group == "flow" {
            assert!(text(row, "name").starts_with(&format!("{proto} ")), "{row}");
        }
        let number = |key: &str| row[key].as_u64().unwrap_or(0);
        if matches!(group.as_str(), "hop" | "part") && number("latencies") > 0 {
            let sum = all.entry((group, text(row, "name"), proto)).or_default();
            sum.n += number("latencies");
            sum.total_ns += row["mean_ns"].as_f64().expect("a mean") * number("latencies") as f64;
            sum.max_ns = sum.max_ns.max(number("max_ns"));
        }
    }
    all
}

fn export(dirs: &[String], format: &str, dir: &TempDir) -> String {
    let out = dir.path().join(format).to_string_lossy().into_owned();
    let mut arguments = vec!["export", "--format", format, "--every", "100ms", "-o", &out, "--replace"];
    arguments.extend(dirs.iter().map(String::as_str));
    let output = run(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    fs::read_to_string(&out).expect("text")
}

/// Rows of CSV as objects: numbers where a column has numbers.
fn of_csv(csv: &str) -> Vec<Value> {
    let mut lines = csv.lines();
    let header: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let cell = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|_| Value::from(text));
    let row = |line: &str| {
        header.iter().map(|name| (*name).to_owned()).zip(cells(line).iter().map(|c| cell(c))).collect()
    };
    lines.map(row).collect()
}

fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            c => cells.last_mut().expect("a cell").push(c),
        }
    }
    cells
}

/// The rows of `periods` in SQL; `None` if the program is built without it.
fn in_sql(dirs: &[String]) -> Option<Vec<Value>> {
    let mut arguments = vec!["query"];
    arguments.extend(dirs.iter().map(String::as_str));
    arguments.extend(["SELECT * FROM periods(100)", "--format", "jsonl"]);
    if !cfg!(feature = "query") {
        skipped("periods in SQL", "it was built without the feature `query`");
        return None;
    }
    let output = run(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    Some(stdout(&output).lines().map(|line| serde_json::from_str(line).expect("a row")).collect())
}

/// That sums over all intervals are what the report has, for each of its rows and for no other.
fn same(report: &BTreeMap<Key, (u64, Option<u64>, u64)>, periods: &BTreeMap<Key, Sum>, of: &str) {
    for ((group, name, proto), (n, total_ns, max_ns)) in report {
        let is = |key: &Key| (&key.0, &key.1) == (group, name) && (proto.is_empty() || key.2 == *proto);
        let rows: Vec<(&Key, &Sum)> = periods.iter().filter(|(key, _)| is(key)).collect();
        let [(_, sum)] = rows.as_slice() else { panic!("{of}: {group} {name} {proto}: {rows:?}") };
        assert_eq!((sum.n, sum.max_ns), (*n, *max_ns), "{of}: {group} {name} {proto}");
        if let Some(total_ns) = total_ns {
            let off = (sum.total_ns - *total_ns as f64).abs();
            assert!(off <= *total_ns as f64 * 1e-9 + 1.0, "{of}: {group} {name} {proto}: {sum:?} {total_ns}");
        }
    }
    assert_eq!(periods.len(), report.len(), "{of}: {:?}", periods.keys().collect::<Vec<_>>());
}

#[test]
fn every_row_of_a_report_with_times_has_its_rows_in_periods() {
    let dir = TempDir::new().expect("a directory");
    let mut waits = 0;
    let singles = GOLDEN.iter().map(|name| vec![golden(name)]);
    for dirs in singles.chain([PAIR.map(golden).to_vec()]) {
        let mut arguments = vec!["report", "--json"];
        arguments.extend(dirs.iter().map(String::as_str));
        let report: Value = serde_json::from_slice(&run(&arguments).stdout).expect("a report");
        let mut lists = BTreeSet::new();
        lists_with_times(&report, "", &mut lists);
        for list in &lists {
            let listed = LISTS.iter().find(|(name, _)| name == list);
            match listed.unwrap_or_else(|| panic!("{list} is neither in periods nor left out for a reason")).1 {
                Covered::By(group) => assert!(GROUPS.contains(&group), "{list}"),
                Covered::Not(because) => assert!(!because.is_empty(), "{list}"),
            }
        }
        let expected = of_report(&report);
        waits += expected.keys().filter(|key| key.1 == Part::Retransmission.words()).count();
        let json = export(&dirs, "jsonl", &dir);
        let json: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).expect("a row")).collect();
        same(&expected, &of_rows(&json), &format!("jsonl of {dirs:?}"));
        same(&expected, &of_rows(&of_csv(&export(&dirs, "csv", &dir))), &format!("csv of {dirs:?}"));
        if let Some(rows) = in_sql(&dirs) {
            same(&expected, &of_rows(&rows), &format!("SQL of {dirs:?}"));
        }
    }
    assert!(waits > 0, "a recording has journeys that waited for retransmission");
}

//! No row with times mixes two protocols, wherever rows are: report (text and JSON), compare, SQL, `periods`, terminal and window, metrics.

use crate::common::exports::{golden, table};
use crate::common::{copy_with_own_session, run, stderr};
use magscope_core::Batch;
use magscope_core::journey::Limits;
use magscope_core::source::{Progress, Source};
use magscope_export::Table;
use magscope_scope::{Action, Options, Scope};
use magscope_sensor::openmetrics::{Dialect, write};
use magscope_sensor::{SelfUsage, Sensor};
use magscope_session::Session;
use magscope_timeline::join::OneClock;
use magscope_timeline::merged_reader::walk;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// A recording with TCP and UDP.
const RECORDING: &str = "demo";
/// Columns that have instants, lengths of intervals, or figures of clocks.
const INSTANTS: [&str; 14] = [
    "ts_ns",
    "to_ns",
    "end_ns",
    "every_ns",
    "monotonic_ns",
    "raw_ns",
    "realtime_ns",
    "width_ns",
    "suspended_ns",
    "utc_error_ns",
    "min_round_trip_ns",
    "half_width_ns",
    "lower_ns",
    "upper_ns",
];
/// Tables with times and without a protocol, each with the reason.
const NO_PROTOCOL: [(Table, &str); 1] =
    [(Table::Histograms, "the kernel adds up times between two hops without looking at the protocol")];
/// Metrics of times without a protocol, each with the reason.
const METRICS: [(&str, &str); 2] = [
    ("magnet_scope_receiver_wakeup_delay_seconds", "a thread's wait for a CPU is the same for every protocol"),
    (
        "magnet_scope_queue_delay_seconds",
        "a packet's wait in a queueing discipline is the same for every protocol",
    ),
];

fn stdout_of(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).expect("text")
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&stdout_of(arguments)).expect("JSON")
}

fn array(of: &Value) -> impl Iterator<Item = &Value> {
    of.as_array().into_iter().flatten()
}

/// The lists and fields with times that no object around them names a protocol of.
fn without_protocol(of: &Value, path: &str, out: &mut BTreeSet<String>) {
    match of {
        Value::Object(fields) if fields.contains_key("proto") => {}
        Value::Object(fields) => {
            let is_time = |key: &str| key.starts_with("p50") || key == "part";
            if fields.keys().any(|key| is_time(key)) {
                out.insert(path.to_owned());
            }
            for (key, value) in fields {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                without_protocol(value, &path, out);
            }
        }
        Value::Array(rows) => rows.iter().for_each(|row| without_protocol(row, path, out)),
        _ => {}
    }
}

/// The protocols with times of each hop, and of each hop and namespace.
fn protocols(dir: &TempDir) -> BTreeMap<(String, String), BTreeSet<String>> {
    let mut all: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    let text = |row: &BTreeMap<String, Value>, key: &str| {
        row.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    for row in table(dir, RECORDING, "hops") {
        if row["whole"] == true && row.get("latency_ns").is_some_and(Value::is_u64) {
            for node in [String::new(), text(&row, "netns_name")] {
                all.entry((text(&row, "hop"), node)).or_default().insert(text(&row, "proto"));
            }
        }
    }
    all
}

#[test]
fn reports_and_comparisons_name_the_protocol_of_their_times() {
    let (dir, demo) = (TempDir::new().expect("a directory"), golden(RECORDING));
    let of_hops = protocols(&dir);
    assert!(of_hops.values().any(|protocols| protocols.len() > 1), "the recording has two: {of_hops:?}");
    let text = |of: &Value, key: &str| of[key].as_str().unwrap_or_default().to_owned();
    for by in ["flow", "process", "cgroup", "node"] {
        for top in ["1", "1000"] {
            let arguments = ["report", &demo, "--by", by, "--top", top, "--throughput", "--window", "100"];
            let report = json(&[&arguments[..], &["--json"]].concat());
            let mut found = BTreeSet::new();
            without_protocol(&report, "", &mut found);
            for path in &found {
                match path.as_str() {
                    // A row of hops has times of its own only if journeys of one protocol passed, and the sum of all
                    // further groups only if those are of one.
                    "hops.latency" | "hops.nodes.latency" | "groups.rest.total" | "groups.rest.blame" => {}
                    path => panic!("by {by}: {path} has times of no protocol"),
                }
            }
            for hop in array(&report["hops"]) {
                let mut rows = vec![(hop, String::new())];
                rows.extend(array(&hop["nodes"]).map(|node| (node, text(node, "node"))));
                for (row, node) in rows.into_iter().filter(|(row, _)| !row["latency"].is_null()) {
                    let protocols = &of_hops[&(text(hop, "hop"), node.clone())];
                    assert_eq!(protocols.len(), 1, "{} {node}: {row}", hop["hop"]);
                }
            }
            let rest = &report["groups"]["rest"];
            if array(&report["groups"]["rows"]).count() == 1 && by != "flow" {
                let all = json(&["report", &demo, "--by", by, "--top", "1000", "--json"]);
                let others = array(&all["groups"]["rows"]).skip(1).map(|row| text(row, "proto"));
                let others: BTreeSet<String> = others.collect();
                assert!(others.len() > 1, "{all}");
                assert!(rest["total"].is_null() && array(&rest["blame"]).next().is_none(), "{by}: {rest}");
            }
            // The text has the same rows: each group begins with its protocol.
            let printed = stdout_of(&arguments);
            let mut groups = printed.lines().skip_while(|line| !line.starts_with(&format!("by {by} ")));
            let groups: Vec<&str> = groups.by_ref().skip(1).take_while(|line| !line.is_empty()).collect();
            let rows = array(&report["groups"]["rows"]).count();
            let is_row =
                |line: &&&str| ["tcp ", "udp ", "icmp ", "icmp6 "].iter().any(|proto| line.starts_with(proto));
            assert_eq!(groups.iter().filter(is_row).count(), rows, "by {by}: {groups:#?}");
        }
    }
    let dir = tempfile::tempdir().expect("a directory");
    let copy = copy_with_own_session(dir.path(), &demo, "copy");
    let compared = json(&["compare", &demo, &copy, "--json"]);
    let mut found = BTreeSet::new();
    without_protocol(&compared, "", &mut found);
    assert!(found.is_empty() && array(&compared["protocols"]).count() > 1, "{found:?}");
}

#[test]
fn tables_with_times_have_a_column_of_the_protocol() {
    for table in Table::ALL {
        let schema = table.schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let times = names.iter().filter(|name| name.ends_with("_ns") || **name == "ns");
        let times: Vec<_> = times.filter(|name| !INSTANTS.contains(name)).collect();
        let reason = NO_PROTOCOL.iter().find(|(other, _)| other == table);
        assert!(
            times.is_empty() || names.contains(&"proto") || reason.is_some(),
            "{table} has {times:?} and no protocol"
        );
    }
}

#[test]
fn pictures_and_metrics_name_the_protocol_of_their_times() {
    let session = Session::open(Path::new(&golden(RECORDING))).expect("a golden session");
    let info = session.info().clone();
    let mut scope = Scope::new(info.clone(), Options::default());
    let (mut source, mut batch) = (session.replay(None, None), Batch::default());
    while source.next(&mut batch, Duration::ZERO).expect("a replay never fails") != Progress::End {
        scope.ingest(&batch);
    }
    scope.end();
    scope.apply(Action::Fit);
    let frame = scope.frame();
    // Terminal and window draw these rows with these words.
    let measured = frame.measurements().pairs;
    let heat = frame.heat_map(60, 24).rows;
    let rows = measured.iter().map(|row| (row.proto, row.times.n, row.words("→")));
    let rows: Vec<_> = rows.chain(heat.iter().map(|row| (row.proto, row.times.n, row.words("→")))).collect();
    let protocols: BTreeSet<_> = rows.iter().filter_map(|(proto, ..)| *proto).collect();
    assert!(protocols.len() > 1, "{rows:?}");
    for (proto, n, words) in &rows {
        assert!(*n == 0 || proto.is_some(), "{words} has {n} times of no protocol");
        assert!(
            proto.is_none_or(|proto| words.starts_with(&proto.to_string())) || words.contains("retransmission")
        );
    }
    let whole = measured.iter().filter(|row| row.words("→").contains("whole journey"));
    assert_eq!(whole.count(), protocols.len(), "{rows:?}");

    let mut sensor = Sensor::new(std::slice::from_ref(&info), false);
    let mut source = session.replay(None, None);
    walk(&mut [&mut source], &OneClock, Limits::default(), Duration::ZERO, |piece| sensor.add(&piece))
        .expect("a walk");
    let metrics = write(&sensor.snapshot(SelfUsage::default()), Dialect::OpenMetrics);
    let mut named = 0;
    for line in metrics.lines().filter(|line| line.contains("_seconds_bucket{")) {
        let has_reason = METRICS.iter().any(|(metric, _)| line.starts_with(&format!("{metric}_bucket")));
        let is_named = line.contains("proto=\"");
        named += usize::from(is_named);
        assert!(is_named || has_reason, "{line}");
    }
    assert!(named > 0, "{metrics}");
}

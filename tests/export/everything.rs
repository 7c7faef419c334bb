//! One recording with every feature, in every format, each checked by an independent reader. The checks cover
//! the contents described in `docs/formats.md`: custom probes, payload, sampling, losses, drops and clock
//! intervals.

use crate::common::everything as made;

use crate::common::exports::{client, tool};
use crate::common::{run, skipped, stderr, stdout};
use made::{HOSTS, LEFT_OUT, LOST, REASON, SECRET, WHY, everything};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

struct Made {
    dir: TempDir,
    sessions: [String; 2],
}

impl Made {
    fn new() -> Self {
        let dir = TempDir::new().expect("a directory");
        let sessions = everything(&dir);
        Made { dir, sessions }
    }

    fn export(&self, format: &str, more: &[&str]) -> PathBuf {
        let out = self.dir.path().join(format!("{format}{}", more.concat()));
        let place = out.to_string_lossy().into_owned();
        let arguments = ["export", &self.sessions[0], &self.sessions[1], "--format", format, "-o", &place];
        let output = run(&[&arguments[..], more].concat());
        assert!(output.status.success(), "{format}: {}", stderr(&output));
        assert!(
            stderr(&output).contains("90 events were left out by a sampler"),
            "{format}: {}",
            stderr(&output)
        );
        let is_named = stderr(&output).contains("24 sums that the kernel added up are left out");
        let tables = ["parquet", "csv", "jsonl"].contains(&format);
        assert_eq!(is_named, !tables, "{format}: {}", stderr(&output));
        out
    }

    fn text(&self, format: &str, more: &[&str]) -> String {
        fs::read_to_string(self.export(format, more)).expect("text")
    }

    /// The rows of all tables, by table.
    fn tables(&self) -> BTreeMap<String, Vec<Value>> {
        let mut tables: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for line in self.text("jsonl", &[]).lines() {
            let row: Value = serde_json::from_str(line).expect("an object");
            tables.entry(row["table"].as_str().expect("a table").to_owned()).or_default().push(row);
        }
        tables
    }
}

/// Names of a time, its half width and its bounds.
type Names = [&'static str; 4];
const LATENCY: Names = ["latency_ns", "half_width_ns", "lower_ns", "upper_ns"];
const TOTAL: Names = ["total_ns", "half_width_ns", "lower_ns", "upper_ns"];

/// True if a time between two clocks is in its interval, whose farther end has the distance of the half width.
fn is_interval(of: &dyn Fn(&str) -> Option<u64>, [time, half, lower, upper]: Names) -> bool {
    let (Some(time), Some(half), Some(lower), Some(upper)) = (of(time), of(half), of(lower), of(upper)) else {
        return false;
    };
    // A time below zero is zero, and so is its lower bound.
    let is_farther = (time - lower).max(upper - time) == half || lower == 0;
    half > 0 && lower <= time && time <= upper && is_farther
}

/// True if a latency's two hops are on two hosts.
fn crosses(from: &str, to: &str) -> bool {
    from == "dev.xmit" && to == "dev.recv"
}

#[test]
fn tables_have_all_of_it() {
    let made = Made::new();
    let tables = made.tables();
    let rows = |table: &str| tables.get(table).map(Vec::as_slice).unwrap_or_default();
    let crossing: Vec<&Value> = rows("hops")
        .iter()
        .filter(|row| {
            crosses(row["from_hop"].as_str().unwrap_or_default(), row["hop"].as_str().unwrap_or_default())
        })
        .collect();
    assert!(crossing.len() > 100, "{} crossings", crossing.len());
    assert!(crossing.iter().all(|row| row["half_width_ns"].as_u64().is_some_and(|ns| ns > 0)), "{crossing:?}");
    let number = |row: &Value, name: &str| row[name].as_u64();
    assert!(crossing.iter().all(|row| is_interval(&|name| number(row, name), LATENCY)), "{crossing:?}");
    let across = rows("journeys").iter().filter(|row| row["across"] == "bounded" && row["total_ns"].is_u64());
    assert!(across.clone().count() > 100 && across.clone().all(|row| row["half_width_ns"].as_u64() > Some(0)));
    assert!(across.clone().all(|row| is_interval(&|name| number(row, name), TOTAL)));
    let dropped: Vec<_> = rows("journeys").iter().filter(|row| row["drop_reason"] == REASON).collect();
    assert_eq!(dropped.len(), 1, "{dropped:?}");
    assert_eq!(dropped[0]["drop_name"], WHY);
    let lost: Vec<_> = rows("losses").iter().map(|row| (row["host"].as_str(), row["lost"].as_u64())).collect();
    assert_eq!(lost, [(Some(HOSTS[0]), Some(LOST[0])), (Some(HOSTS[1]), Some(LOST[1]))]);
    // Both hosts' losses are on the common time line, among the events.
    let times = |table: &str| rows(table).iter().filter_map(|row| row["ts_ns"].as_i64()).collect::<Vec<_>>();
    let (least, most) = (times("events").into_iter().min(), times("events").into_iter().max());
    assert!(times("losses").into_iter().all(|ns| Some(ns) >= least && Some(ns) <= most));
    let hits = rows("hits");
    assert_eq!(hits.len(), 2, "{hits:?}");
    assert_eq!(
        (&hits[0]["probe"], &hits[0]["point"]),
        (&Value::from("grown"), &Value::from("fentry:tcp_rcv_established"))
    );
    assert_eq!((&hits[0]["name0"], &hits[0]["value0"]), (&Value::from("len"), &Value::from(1448)));
    assert_eq!(
        (&hits[0]["name1"], &hits[0]["value1"]),
        (&Value::from("free"), &Value::Null),
        "it could not be read"
    );
    assert_eq!((&hits[1]["probe"], &hits[1]["value0"]), (&Value::from("rcvbuf"), &Value::from(-3)));
    let hex: Vec<_> = rows("heads").iter().map(|row| row["hex"].as_str()).collect();
    assert_eq!((hex, SECRET), (vec![Some("474554202f65766572797468696e67")], &b"GET /everything"[..]));
    let counts = rows("counts");
    assert_eq!(
        (&counts[0]["sampled"], &counts[0]["filtered"]),
        (&Value::from(LEFT_OUT[0]), &Value::from(LEFT_OUT[1]))
    );
    assert_eq!(
        (&counts[0]["kept"], &counts[0]["weight"]),
        (&Value::from(10), &Value::from(10.0)),
        "an estimate's factor"
    );
    sums_are_there(rows("sums"), rows("histograms"), (least, most));
    assert!(!rows("tcp").is_empty());
    assert_eq!(
        rows("events").iter().filter(|row| row["segs"] == 3 && row["segment_bytes"] == 1_000).count(),
        1,
        "the super-packet"
    );

    // The same rows as CSV and as Parquet.
    let csv = made.export("csv", &[]);
    for (table, rows) in &tables {
        let text = fs::read_to_string(csv.join(format!("{table}.csv"))).expect("a file a table");
        assert_eq!(text.lines().count() - 1, rows.len(), "{table}");
    }
    let counted: BTreeMap<&String, usize> = tables.iter().map(|(table, rows)| (table, rows.len())).collect();
    let path = made.dir.path().join("counted.json");
    fs::write(&path, serde_json::to_string(&counted).expect("JSON")).expect("room");
    client("tables_have_all_of_it", "pyarrow, duckdb", "everything.py", &[&made.export("parquet", &[]), &path]);

    // Sums over time include the widest interval.
    let periods = made.text("jsonl", &["--every", "1s"]);
    let periods = periods.lines().map(|line| serde_json::from_str::<Value>(line).expect("an object"));
    let received: Vec<Value> =
        periods.filter(|row| row["hop"] == "dev.recv" && row["latencies"].as_u64() > Some(0)).collect();
    assert!(
        !received.is_empty() && received.iter().all(|row| row["half_width_ns"].as_u64() > Some(0)),
        "{received:?}"
    );
}

/// Kernel sums of both hosts on the common time line.
fn sums_are_there(sums: &[Value], buckets: &[Value], (least, most): (Option<i64>, Option<i64>)) {
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let number = |row: &Value, name: &str| row[name].as_u64().unwrap_or_default();
    // Two intervals of six sums per host; the second is three times the first.
    assert_eq!((sums.len(), buckets.len()), (24, 16));
    let of = |host: &str, what: &str| -> Vec<&Value> {
        sums.iter().filter(|row| row["host"] == host && row["sum_of"] == what).collect()
    };
    for (host, times) in HOSTS.into_iter().zip([1, 3]) {
        let both = |what: &str, name: &str| of(host, what).iter().map(|row| number(row, name)).sum::<u64>();
        for (what, n, bytes) in [
            ("flow", 200, 12_800),
            ("rest", 10, 640),
            ("cgroup", 40, 12_800),
            ("reason", 4, 256),
            ("begun", 10, 0),
        ] {
            assert_eq!((both(what, "n"), both(what, "bytes")), (times * n, times * bytes), "{host} {what}");
        }
        assert_eq!((both("since", "n"), both("since", "sum_ns")), (times * 200, times * 345_402));
        let flow = of(host, "flow")[0];
        assert!(flow["flow"].is_string() && !text(flow, "local_addr").is_empty(), "{flow}");
        assert!(number(flow, "remote_port") > 0 && !text(flow, "proto").is_empty(), "{flow}");
        assert_eq!(text(of(host, "reason")[0], "drop_name"), WHY);
        assert!(!text(of(host, "cgroup")[0], "cgroup").is_empty());
        assert_eq!(text(of(host, "since")[0], "from_hop"), "dev.queue");
        let mine: Vec<&Value> = buckets.iter().filter(|row| row["host"] == host).collect();
        let spans: Vec<(u64, u64, u64)> =
            mine.iter().map(|row| (number(row, "min_ns"), number(row, "max_ns"), number(row, "n"))).collect();
        // An exported bound ends a bucket: 2,400 is below 2,500, and 2,501 is not.
        let whole = [(896, 927, 90), (2_304, 2_431, 8), (2_501, 2_559, 1), (69_632, 73_727, 1)]
            .map(|(a, b, n)| (a, b, times * n));
        assert_eq!(spans, [whole, whole].concat(), "{host}");
    }
    let at = |row: &Value, name: &str| row[name].as_i64();
    for row in sums.iter().chain(buckets) {
        assert!(at(row, "ts_ns") >= least && at(row, "ts_ns") < at(row, "to_ns"), "{row}");
        // An interval ends at the end of the recording, at or shortly after the last event.
        assert!(at(row, "to_ns") <= most.map(|ns| ns + 1_000_000_000), "{row}");
    }
}

/// A field of an ULM or BP line.
fn field<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let (_, rest) = line.split_once(&format!(" {name}="))?;
    match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => rest.split(' ').next(),
    }
}

/// An interval in a log is an interval in the imported recording, as wide as the widest.
fn still_intervals(back: &str, lines: &[&str], error: &str, format: &str) {
    let widest = lines.iter().filter_map(|line| field(line, error)?.parse().ok()).max();
    let widest: u64 = widest.expect("an interval");
    let output = run(&["journeys", back, "--slowest", "100000", "--json"]);
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let crosses = |row: &&Value| {
        row["latencies"].as_array().into_iter().flatten().any(|step| {
            crosses(step["from"].as_str().unwrap_or_default(), step["to"].as_str().unwrap_or_default())
        })
    };
    let crossing: Vec<&Value> = rows.iter().filter(crosses).collect();
    assert!(crossing.len() > 100, "{format}: {} of {}", crossing.len(), rows.len());
    for row in crossing {
        assert_eq!(
            (&row["across"], &row["half_width_ns"]),
            (&"bounded".into(), &widest.into()),
            "{format}: {row:#}"
        );
    }
}

#[test]
fn lines_have_all_of_it() {
    let made = Made::new();
    for (format, [event, from, error, total, total_error, count, reason, value, message]) in [
        ("ulm", ["NL.EVNT", "MAG.FROM", "MAG.ERR", "MAG.ALL", "MAG.AERR", "CNT", "MAG.RSN", "VAL", "MSG"]),
        (
            "bp",
            [
                "event",
                "mag.from",
                "mag.half_width_ns",
                "mag.total_ns",
                "mag.total_half_width_ns",
                "count",
                "mag.reason",
                "val",
                "msg",
            ],
        ),
    ] {
        let text = made.text(format, &[]);
        let of = |name: &str| text.lines().filter(|line| field(line, event) == Some(name)).collect::<Vec<_>>();
        let crossing: Vec<_> =
            of("dev.recv").into_iter().filter(|line| field(line, from) == Some("dev.xmit")).collect();
        assert!(crossing.len() > 100, "{format}: {} crossings", crossing.len());
        let positive = |line: &&str, name: &str| field(line, name).and_then(|n| n.parse().ok()) > Some(0_u64);
        assert!(crossing.iter().all(|line| positive(line, error)), "{format}");
        let names = if format == "ulm" {
            ["MAG.LAT", "MAG.ERR", "MAG.LOW", "MAG.HIGH"]
        } else {
            ["mag.latency_ns", "mag.half_width_ns", "mag.lower_ns", "mag.upper_ns"]
        };
        let number = |line: &str, name: &str| field(line, name)?.parse().ok();
        assert!(crossing.iter().all(|line| is_interval(&|name| number(line, name), names)), "{format}");
        let totals: Vec<_> = text.lines().filter(|line| field(line, total).is_some()).collect();
        assert!(totals.iter().filter(|line| positive(line, total_error)).count() > 100, "{format}");
        let level = |line: &str, ulm: &str, bp: &str| {
            line.contains(&if format == "ulm" { format!(" LVL={ulm} ") } else { format!(" level={bp} ") })
        };
        let lost = of("events.lost");
        assert!(lost.iter().all(|line| level(line, "Warning", "Warn")));
        let counts: Vec<u64> = lost.iter().filter_map(|line| field(line, count)?.parse().ok()).collect();
        assert_eq!(counts, [LOST[1], LOST[0]], "{format}: in order of time");
        let dropped = of("skb.drop");
        let errors: Vec<_> = dropped.iter().filter(|line| level(line, "Error", "Error")).collect();
        assert!(
            errors.iter().any(|line| field(line, reason) == Some(&REASON.to_string())),
            "{format}: {dropped:?}"
        );
        let sampled = of("events.sampled");
        assert_eq!(sampled.iter().map(|line| field(line, count)).collect::<Vec<_>>(), [Some("90")], "{format}");
        assert!(sampled.iter().all(|line| level(line, "Warning", "Warn") && line.contains("=dev.xmit")));
        assert_eq!(of("events.filtered").len(), 1);
        let probed = of("probe.grown");
        assert_eq!(
            (field(probed[0], value), field(probed[0], message)),
            (Some("1448"), Some("len=1448 free=?")),
            "{format}"
        );
        assert_eq!(field(of("probe.rcvbuf")[0], value), Some("-3"));
        assert!(!of("tcp.cwnd").is_empty());
        assert!(!text.contains("everything"), "{format}: payload is in tables and packets only");

        // The importer accepts the log and reports what it cannot represent.
        let log = made.dir.path().join(format!("{format}.log"));
        fs::write(&log, &text).expect("room");
        let back = made.dir.path().join(format!("{format}.back"));
        let output = run(&["import", &log.to_string_lossy(), "-o", &back.to_string_lossy()]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stderr(&output).contains("probe.grown (1)"), "{}", stderr(&output));
        assert!(stderr(&output).contains("clocks within"), "{}", stderr(&output));
        still_intervals(&back.to_string_lossy(), &crossing, error, format);
        let out = client(
            "lines_have_all_of_it",
            "Pegasus.netlogger",
            "netlogger.py",
            &[std::path::Path::new(format), &log],
        );
        assert!(out.is_none_or(|out| stdout(&out).trim() == text.lines().count().to_string()));
    }
}

#[test]
fn packets_have_all_of_it() {
    let made = Made::new();
    let out = made.export("pcapng", &[]);
    let bytes = fs::read(&out).expect("a file");
    let has = |what: &[u8]| bytes.windows(what.len()).any(|window| window == what);
    assert!(has(SECRET), "payload stands behind its headers");
    assert!(has(b"a sampler left out 90, so each that is here stands for 10.00 and counts are estimates"));
    assert!(has(b"a filter left out 6"));
    let test = "packets_have_all_of_it";
    if !tool(test, "tshark") {
        return;
    }
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-r"]).arg(&out).args([
        "-T",
        "fields",
        "-E",
        "separator=;",
        "-e",
        "frame.comment",
        "-e",
        "data.text",
        "-e",
        "frame.drop_count",
    ]);
    let output = tshark.output().expect("tshark runs");
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    let crossing: Vec<&str> = text.lines().filter(|line| line.contains("dev.xmit→dev.recv")).collect();
    assert!(crossing.len() > 100, "{}", crossing.len());
    for line in crossing {
        let (_, took) = line.split_once("dev.xmit→dev.recv ").expect("it is there");
        let took = took.split(',').next().unwrap_or_default();
        assert!(took.contains(" ± ") && took.contains(" to "), "a bare number: {took}");
        assert!(
            line.contains(" ns") && line.split(';').next().is_some_and(|first| first.contains(" ± ")),
            "{line}"
        );
    }
    assert!(text.contains("super-packet of 3 segments"));
    assert!(text.lines().any(|line| line.contains("dropped")), "how the dropped one ended");
}

#[test]
fn traces_have_all_of_it() {
    let made = Made::new();
    let chrome: Value = serde_json::from_str(&made.text("chrome", &[])).expect("JSON");
    let events = chrome["traceEvents"].as_array().expect("events");
    let crossing: Vec<&Value> = events
        .iter()
        .filter(|e| {
            e["args"]["since"] == "dev.xmit"
                && e["name"].as_str().is_some_and(|name| name.starts_with("dev.recv "))
        })
        .collect();
    assert!(
        crossing.len() > 100 && crossing.iter().all(|e| e["args"]["half_width_ns"].is_string()),
        "{crossing:?}"
    );
    let number = |e: &Value, name: &str| e["args"][name].as_str()?.parse().ok();
    assert!(crossing.iter().all(|e| is_interval(&|name| number(e, name), LATENCY)), "{crossing:?}");
    let total = ["total_ns", "total_half_width_ns", "total_lower_ns", "total_upper_ns"];
    let totals = events.iter().filter(|e| e["args"]["total_half_width_ns"].is_string());
    assert!(totals.clone().all(|e| is_interval(&|name| number(e, name), total)));
    let totals = events.iter().filter(|e| e["args"]["total_half_width_ns"].is_string()).count();
    assert!(totals > 100, "{totals}");
    let named = |name: &str| events.iter().filter(|e| e["name"] == name).collect::<Vec<_>>();
    assert_eq!(
        named("records lost").iter().map(|e| e["args"]["records"].as_u64()).collect::<Vec<_>>(),
        [Some(LOST[1]), Some(LOST[0])]
    );
    assert_eq!(named("dropped").iter().filter(|e| e["args"]["reason"] == REASON).count(), 1);
    assert_eq!(named("grown")[0]["args"]["values"], "len=1448 free=?");
    assert_eq!(named("events.sampled dev.xmit")[0]["args"]["left out"], LEFT_OUT[0]);

    let perfetto = made.export("perfetto", &[]);
    if let Some(output) = client("traces_have_all_of_it", "perfetto.protos", "perfetto_trace.py", &[&perfetto])
    {
        let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(found["bare"], 0, "crossings without their half width");
        assert!(found["widths"].as_u64() > Some(100) && found["total_widths"].as_u64() > Some(100), "{found}");
        assert_eq!(found["lost"].as_array().map(Vec::len), Some(2));
        assert_eq!(found["probes"]["grown"], "len=1448 free=?");
        assert_eq!(found["counted"]["rcvbuf sk_rcvbuf"], -3);
        assert_eq!(found["counted"]["events.sampled dev.xmit"], LEFT_OUT[0]);
        assert!(
            found["reasons"].as_array().is_some_and(|all| all.contains(&REASON.to_string().into())),
            "{}",
            found["reasons"]
        );
    }

    let test = "traces_have_all_of_it";
    let ctf = made.export("ctf", &[]);
    let Ok(output) = Command::new("babeltrace2").arg(&ctf).output() else {
        return skipped(test, "babeltrace2 is not installed");
    };
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    let crossing: Vec<&str> = text
        .lines()
        .filter(|line| line.contains(" dev.recv: ") && line.contains("from_hop = \"dev.xmit\""))
        .collect();
    assert!(
        crossing.len() > 100 && !crossing.iter().any(|line| line.contains("half_width_ns = 0,")),
        "{}",
        crossing.len()
    );
    for (what, many) in [
        ("lost = 7", 1),
        ("lost = 5", 1),
        ("verdict = \"dropped\", after = ", 1),
        ("probe = \"grown\", point = \"fentry:tcp_rcv_established\", values = \"len=1448 free=", 1),
        ("hop = \"dev.xmit\", by = \"events.sampled\", count = 90, kept = 10", 1),
    ] {
        assert_eq!(text.lines().filter(|line| line.contains(what)).count(), many, "{what}");
    }
    let number = |line: &str, name: &str| {
        let (_, value) = line.split_once(&format!(" {name} = "))?;
        value.split([',', ' ']).next()?.parse().ok()
    };
    assert!(crossing.iter().all(|line| is_interval(&|name| number(line, name), LATENCY)), "{crossing:?}");
    // Losses also appear where readers of the format expect them.
    assert!(stderr(&output).contains("discarded"), "{}", stderr(&output));

    // The dump lacks latencies but has the rest.
    let dump = made.text("magnet", &[]);
    for what in [
        "\tprobe:grown\t",
        "\tlost\t7\t",
        "\tlost\t5\t",
        "\tsampled:dev.xmit\t90\t",
        "\tfiltered:dev.xmit\t6\t",
        "\tskb.drop\t",
    ] {
        assert!(dump.contains(what), "{what:?}");
    }
}
